"""`Views`: what may be asked of the Iceberg views of a warehouse."""

from typing import Any, Final

from arco.core import Ulid, ulid_to_uuid
from arco.iceberg._commit import Committed, Committer
from arco.iceberg._lifecycle import Lifecycle
from arco.iceberg._loaded import Loaded, loaded
from arco.iceberg._locations import Locations
from arco.iceberg._names import Path, check_path, no_such
from arco.iceberg._tables import check_places, first_of, place_of, read_file
from arco.iceberg._who import Who
from arco.iceberg.metadata import (
    CommitRequest,
    CreateViewRequest,
    apply_view_updates,
    check_view_requirements,
    new_view,
    read_view,
)

__all__ = ["Views"]

KIND: Final = "view"


class Views:
    def __init__(self, lifecycle: Lifecycle, committer: Committer, locations: Locations) -> None:
        self._lifecycle = lifecycle
        self._committer = committer
        self._locations = locations
        self._runtime = lifecycle.runtime

    async def load(self, path: Path) -> Loaded:
        return await self._lifecycle.load(KIND, path)

    async def exists(self, path: Path) -> bool:
        return await self._lifecycle.exists(KIND, path)

    async def create(self, path: Path, request: CreateViewRequest, who: Who) -> Loaded:
        check_places(self._locations, request, who)

        async def put(view_id: str, who: Who) -> Committed:
            location = await place_of(self._lifecycle, self._locations, view_id, path, request.location, who)
            value = new_view(request, location=location, view_uuid=ulid_to_uuid(Ulid(view_id)))
            return await self._committer.commit(view_id, first_of(value), who, kind=KIND, creates=True)

        return await self._lifecycle.create(KIND, path, who, put)

    async def replace(self, path: Path, request: CommitRequest, who: Who) -> Loaded:
        """Change a view."""
        check_path(path)
        check_places(self._locations, request.updates, who)

        def edit(base: dict[str, Any] | None, location: str | None) -> dict[str, Any]:
            assert base is not None
            check_view_requirements(base, request.requirements)
            return apply_view_updates(base, request.updates, now_ms=self._runtime.now() // 1000)

        committed = await self._lifecycle.commit(KIND, path, edit, who)
        if committed.document is None:  # done by an earlier request of the same key, and dropped since
            raise no_such(KIND, path)
        return loaded(committed.table_id, path, committed.held, committed.document)

    async def drop(self, path: Path, who: Who) -> None:
        await self._lifecycle.drop(KIND, path, who)

    async def rename(self, source: Path, target: Path, who: Who) -> None:
        await self._lifecycle.rename(KIND, source, target, who)

    async def register(self, path: Path, metadata_location: str, who: Who) -> Loaded:
        """Make a view of a metadata file that exists."""
        check_path(path)
        location, data = await read_file(self._locations, metadata_location)
        value = read_view(data)
        check_places(self._locations, value, who)

        async def put(view_id: str, who: Who) -> Committed:
            return await self._committer.adopt(view_id, location, who, kind=KIND, creates=True)

        return await self._lifecycle.create(KIND, path, who, put, uuid=value["view-uuid"])

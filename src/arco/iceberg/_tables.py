"""`Tables`: what may be asked of the Iceberg tables of a warehouse. Places and properties are checked before anything
is written; requirements are checked on what is there when the pointer is made."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from arco.core import Conflict, Corrupt, TooLarge, Ulid, new_ulid, ulid_to_uuid
from arco.iceberg._commit import Committed, Committer, Edit
from arco.iceberg._errors import (
    AlreadyExists,
    BadRequest,
    CommitFailed,
    MetadataMissing,
    NoSuchTable,
    damaged,
    nothing_written,
)
from arco.iceberg._lifecycle import TRIES, Lifecycle
from arco.iceberg._loaded import Loaded, loaded
from arco.iceberg._locations import MAX_METADATA, Locations
from arco.iceberg._names import Path, check_path, dotted, is_taken, no_such
from arco.iceberg._owned import check_writer
from arco.iceberg._transactions import Transactions
from arco.iceberg._who import Who
from arco.iceberg.metadata import (
    CommitRequest,
    CreateRequest,
    Doc,
    Update,
    apply_updates,
    check_guardrails,
    check_requirements,
    creates,
    locations_in,
    new_table,
    read_table,
)
from arco.storage import Glance

__all__ = ["Tables", "check_places", "first_of", "place_of", "read_file"]

KIND: Final = "table"


def check_places(locations: Locations, subject: CreateRequest | Doc | Sequence[Update] | Any, who: Who) -> None:
    """`BadRequest` if it names a place outside of the warehouse, or a property of Arco's own that is not Servo's."""
    if who.source != "servo":
        check_guardrails(subject)
    for place in locations_in(subject):
        locations.check(place)


async def read_file(locations: Locations, location: str) -> tuple[str, bytes]:
    """A metadata file that somebody else wrote, and its place."""
    place = locations.check(location)
    size = await locations.size(place)
    if size > MAX_METADATA:
        raise TooLarge(f"the metadata file {place} has {size} bytes; at most {MAX_METADATA} are read")
    return place, await locations.read(place)


async def place_of(
    lifecycle: Lifecycle, locations: Locations, table_id: str, path: Path, given: str | None, who: Who
) -> str:
    """Where a new table or view lies: where the request says, where its namespace says, or in the warehouse. Tables of
    assets lie in the warehouse always, where the collector looks after them."""
    if given:
        return locations.check(given)
    if who.source == "servo":
        return locations.new_table(table_id)
    return locations.new_table(table_id, await lifecycle.names.folder_of(path[:-1]))


def first_of(value: Doc) -> Edit:
    """The edit that puts the first metadata of an id."""

    def edit(base: dict[str, Any] | None, location: str | None) -> dict[str, Any]:
        if base is not None:
            raise Conflict("the id of the new table has pointers already; use another one")
        return value

    return edit


class Tables:
    def __init__(
        self, lifecycle: Lifecycle, committer: Committer, transactions: Transactions, locations: Locations
    ) -> None:
        self._lifecycle = lifecycle
        self._committer = committer
        self._transactions = transactions
        self._locations = locations
        self._runtime = lifecycle.runtime

    async def load(self, path: Path) -> Loaded:
        return await self._lifecycle.load(KIND, path)

    def unchanged(self, found: Loaded) -> Glance | None:
        """See `Lifecycle`."""
        return self._lifecycle.unchanged(found)

    async def exists(self, path: Path) -> bool:
        return await self._lifecycle.exists(KIND, path)

    async def look(self, path: Path) -> tuple[bool, Glance | None]:
        """Whether there is such a table, and a glance that tells whether it still is the same; see `unchanged`."""
        found = await self._lifecycle.find(KIND, path)
        return (True, self._lifecycle.in_force(found)) if found is not None else (False, None)

    async def create(self, path: Path, request: CreateRequest, who: Who) -> Loaded:
        check_places(self._locations, request, who)

        async def put(table_id: str, who: Who) -> Committed:
            first = first_of(await self._new(table_id, path, request, who))
            return await self._committer.commit(table_id, first, who, creates=True)

        return await self._lifecycle.create(KIND, path, who, put)

    async def stage(self, path: Path, request: CreateRequest, who: Who) -> Loaded:
        """The table as it would be created. Nothing is kept of it: the client commits it as a whole."""
        check_path(path)
        check_places(self._locations, request, who)
        await self._lifecycle.check_free(KIND, path)
        table_id = new_ulid(self._runtime, self._runtime)
        value = await self._new(table_id, path, request, who)
        return Loaded(table_id, path, 0, None, value, msgspec.json.encode(value))

    async def commit(self, path: Path, request: CommitRequest, who: Who) -> Loaded:
        """Change a table; one that requires that there is none is created."""
        check_path(path)
        check_places(self._locations, request.updates, who)
        if creates(request.requirements):
            return await self._create_by(path, request, who)
        return self._committed(path, await self._lifecycle.commit(KIND, path, self._edit(request, who), who))

    async def commit_all(self, changes: Sequence[tuple[Path, CommitRequest]], who: Who) -> None:
        """Change several tables, all or none. What their names lead to is found once, and then goes by ids."""
        for path, request in changes:
            check_path(path)
            check_places(self._locations, request.updates, who)
            if creates(request.requirements):
                raise BadRequest(f"a transaction cannot create {dotted(path)}; create it by a commit of its own")
        if len(changes) == 1:
            await self.commit(*changes[0], who)
            return
        try:
            await self._commit_several(changes, who)
        except Corrupt as error:
            raise await self._lifecycle.keys.after_damage(who, error) from error

    async def _commit_several(self, changes: Sequence[tuple[Path, CommitRequest]], who: Who) -> None:
        await self._lifecycle.keys.check_unused(who, strong=False)
        found = await self._lifecycle.names.find_all([path for path, _ in changes])
        if not all(found) and await self._transactions.was_committed(who):
            return
        edits: dict[str, Edit] = {}
        for (path, request), named in zip(changes, found, strict=True):
            if named is None or named.kind != KIND:
                raise no_such(KIND, path)
            if named.table_id in edits:
                raise BadRequest(f"the transaction changes {dotted(path)} twice; put its updates into one change")
            edits[named.table_id] = self._edit(request, who)
        try:
            await self._transactions.commit(list(edits.items()), who)
        except NoSuchTable:
            for path, _ in changes:
                await self._lifecycle.live(KIND, path)
            raise CommitFailed(
                "a table of the transaction was replaced by another of its name; read it again"
            ) from None

    async def drop(self, path: Path, who: Who, *, purge: bool = False) -> None:
        await self._check_writer(path, who)
        await self._lifecycle.drop(KIND, path, who, purge=purge)

    async def rename(self, source: Path, target: Path, who: Who) -> None:
        await self._check_writer(source, who)
        await self._lifecycle.rename(KIND, source, target, who)

    async def register(self, path: Path, metadata_location: str, overwrite: bool, who: Who) -> Loaded:
        """Make a table of a metadata file that exists. With `overwrite` it replaces what the table of that name is."""
        check_path(path)
        location, data = await read_file(self._locations, metadata_location)
        value = read_table(data)
        check_places(self._locations, value, who)
        if overwrite and await self._lifecycle.keys.find(who) is None:
            try:
                replaced = await self._replace(path, location, who)
            except Corrupt as error:
                raise await self._lifecycle.keys.after_damage(who, error) from error
            if replaced is not None:
                return self._committed(path, replaced)

        async def put(table_id: str, who: Who) -> Committed:
            return await self._committer.adopt(table_id, location, who, creates=True)

        return await self._lifecycle.create(KIND, path, who, put, uuid=value.get("table-uuid"))

    async def _replace(self, path: Path, location: str, who: Who) -> Committed | None:
        """Put a metadata file in force for the table that has a name; None if none has."""
        for _ in range(TRIES):
            named = await self._lifecycle.names.find(path)
            if named is None:
                return None
            if named.kind != KIND:
                raise is_taken(KIND, named)
            await self._check_writer(path, who)
            try:
                return await self._committer.adopt(named.table_id, location, who)
            except NoSuchTable:
                try:
                    await self._lifecycle.live(KIND, path)
                except NoSuchTable:
                    return None
        return None

    async def unregister(self, path: Path, who: Who) -> Loaded:
        """Let the catalog forget a table; its files stay, and its last metadata is the answer.

        A table whose metadata is gone stays: once it is dropped nothing may be refused any more.
        """
        await self._check_writer(path, who)
        if await self._lifecycle.keys.find(who) is None:
            with (
                nothing_written(),
                suppress(NoSuchTable),
            ):  # a request of the same key may have got as far as the pointer
                await self._lifecycle.load(KIND, path)
        dropped = await self._lifecycle.drop(KIND, path, who)
        return await self._lifecycle.last(dropped.table_id, path)

    async def _check_writer(self, path: Path, who: Who) -> None:
        """`Forbidden` if the table of that name is an asset's, and somebody else than Servo asks."""
        if who.source == "servo":
            return
        try:
            named = await self._lifecycle.names.find(path)
            found = await self._committer.load(named.table_id) if named is not None and named.kind == KIND else None
        except (BadRequest, MetadataMissing, TooLarge):
            return  # nothing can have the name; or it is broken, and may be dropped
        except Corrupt as error:
            if await self._lifecycle.keys.find(who) is not None:
                return  # an earlier request did it
            raise damaged(error) from error
        if found is not None:
            check_writer(found[1].value, who)

    async def _new(self, table_id: str, path: Path, request: CreateRequest, who: Who) -> Doc:
        location = await place_of(self._lifecycle, self._locations, table_id, path, request.location, who)
        return new_table(request, location=location, table_uuid=ulid_to_uuid(Ulid(table_id)), now_ms=self._now_ms())

    def _edit(self, request: CommitRequest, who: Who) -> Edit:
        def edit(base: dict[str, Any] | None, location: str | None) -> dict[str, Any]:
            check_writer(base, who)
            check_requirements(base, request.requirements)
            return apply_updates(base, request.updates, now_ms=self._now_ms(), base_location=location)

        return edit

    async def _create_by(self, path: Path, request: CommitRequest, who: Who) -> Loaded:
        fresh = ulid_to_uuid(new_ulid(self._runtime, self._runtime))
        value = apply_updates(None, request.updates, now_ms=self._now_ms(), base_location=None, table_uuid=fresh)

        async def put(table_id: str, who: Who) -> Committed:
            return await self._committer.commit(table_id, first_of(value), who, creates=True)

        try:
            return await self._lifecycle.create(KIND, path, who, put, uuid=value["table-uuid"])
        except AlreadyExists as error:
            if error.details.get("kind") != KIND:
                raise
            raise CommitFailed(f"Requirement failed: table already exists: {dotted(path)}") from None

    def _committed(self, path: Path, committed: Committed) -> Loaded:
        if committed.document is None:  # done by an earlier request of the same key, and dropped since
            raise no_such(KIND, path)
        return loaded(committed.table_id, path, committed.held, committed.document)

    def _now_ms(self) -> int:
        return self._runtime.now() // 1000

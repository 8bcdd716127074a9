"""`AssetTable`: the Iceberg table of one asset, as Servo reads and writes it.

Versions of assets are Parquet files in folders of their own. The table names those files where they are; what is
written here are manifests, and commits go the way that those of every other client go. Each commit requires the
snapshot it was computed from, so that of two processes that do the same one has nothing left to do.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow.parquet as pq

from arco.catalog import column_facts, read_footer
from arco.core import ArcoError, Refused, Runtime, new_ulid, ulid_to_uuid
from arco.domains.execution import ColumnStats
from arco.domains.execution import DataFile as VersionFile
from arco.iceberg import (
    ASSET,
    Base,
    DataFile,
    Entry,
    Fields,
    Loaded,
    Locations,
    Manifest,
    MixedColumns,
    Tables,
    Who,
    columns_of,
    decode_list,
    decode_manifest,
    describe,
    evolve,
    is_readable,
    name_mapping,
    plan_snapshot,
)
from arco.iceberg.metadata import parse_commit, parse_create
from arco.servo._envelope import version_of_path
from arco.servo._iceberg_diff import BRANCH, CloseBranches, OpenBranch, Present, Publish
from arco.servo._iceberg_state import AssetState
from arco.servo._side_by_side import side_by_side
from arco.servo._withheld import without_withheld
from arco.storage import ObjectMissing, Store

__all__ = ["MAX_SNAPSHOTS", "AssetTable", "Manifests"]

ACTOR: Final = "servo"
MAIN: Final = "main"
MAPPING: Final = "schema.name-mapping.default"
MAX_SNAPSHOTS: Final = 100
"""Snapshots that a table keeps."""
MAX_NAMED: Final = 50
"""Runs and versions that the summary of a snapshot names; of more it says how many there are."""
MAX_ENTRIES: Final = 200_000
"""Entries of manifests that are remembered."""
READS_AT_ONCE: Final = 16


class Footer(NamedTuple):
    size: int
    """Of the whole file."""
    data: pq.FileMetaData

    @property
    def columns(self) -> Fields:
        return columns_of(self.data.schema.to_arrow_schema())


Footers = Mapping[str, Footer]

_PROPERTIES: Final = {
    "gc.enabled": "false",  # engines delete nothing here
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class Manifests:
    """Manifest lists and manifests by their locations. They never change, so that they are remembered."""

    def __init__(self, locations: Locations) -> None:
        self.locations = locations
        self._known: OrderedDict[str, tuple[Any, ...]] = OrderedDict()
        self._size = 0

    def rows_held(self) -> int:
        """Entries in memory, and what they stand in."""
        return self._size

    def shed(self) -> None:
        """Remember none of them."""
        self._known.clear()
        self._size = 0

    async def base(self, snapshot: Mapping[str, Any] | None) -> Base:
        """A snapshot with all its entries."""
        if snapshot is None:
            return Base(None)
        rows: tuple[Manifest, ...] = await self._read(snapshot["manifest-list"], decode_list)
        return Base(snapshot["snapshot-id"], tuple([(row, await self._entries(row)) for row in rows]))

    async def _entries(self, row: Manifest) -> tuple[Entry, ...]:
        return await self._read(row.location, decode_manifest)

    async def _read(self, location: str, decode: Callable[[bytes, str], list[Any]]) -> tuple[Any, ...]:
        found = self._known.get(location)
        if found is None:
            found = self._known[location] = tuple(decode(await self.locations.read(location), location))
            self._size += len(found) + 1
            while self._size > MAX_ENTRIES and len(self._known) > 1:
                _, gone = self._known.popitem(last=False)
                self._size -= len(gone) + 1
        self._known.move_to_end(location)
        return found


@dataclass(frozen=True)
class AssetTable:
    asset_id: str
    path: tuple[str, ...]
    tables: Tables
    manifests: Manifests
    reader: Store
    runtime: Runtime
    personal: frozenset[str] = field(default_factory=frozenset)
    """Columns of which no bounds are told; casefolded."""

    # What it holds

    async def present(self, loaded: Loaded) -> Present:
        base = await self._base(loaded, MAIN)
        paths = [self._path(entry.file.location) for entry in base.live]
        refs = loaded.metadata.get("refs") or {}
        branches = frozenset(name for name in refs if name.startswith(BRANCH))
        return Present({path: version_of_path(self.asset_id, path) or "" for path in paths}, branches)

    async def _base(self, loaded: Loaded, ref: str) -> Base:
        return await self.manifests.base(_snapshot_of(loaded.metadata, ref))

    def _path(self, location: str) -> str:
        """The path in the workspace of a file that a manifest names."""
        return location.removeprefix(f"{self.manifests.locations.workspace_url}/")

    def _location(self, path: str) -> str:
        return self.manifests.locations.location_of(path)

    # What is done to it

    async def create(self, state: AssetState) -> None:
        """Make the table with the columns of what is current. It has no snapshot yet."""
        footers = await self._footers(state.files[path] for path in state.wanted.files)
        fields, _ = evolve([], 0, (footer.columns for footer in footers.values()), ())
        properties = {ASSET: self.asset_id, **_PROPERTIES}
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        body = {"name": self.path[-1], "schema": schema, "properties": properties}
        await self.tables.create(self.path, parse_create(body), self._who())

    async def publish(self, loaded: Loaded, step: Publish, state: AssetState) -> None:
        metadata = loaded.metadata
        base = await self._base(loaded, MAIN)
        footers = await self._footers(state.files[path] for path in step.added)
        removed = {self._location(path) for path in step.removed}
        used = {number for entry in base.live if entry.file.location not in removed for number in _ids(entry)}
        fields, _ = evolve(
            _fields(metadata), metadata["last-column-id"], (footer.columns for footer in footers.values()), used
        )
        schema_id, updates = _schema_updates(metadata, fields)
        made = [state.versions[name] for name in step.versions if name in state.versions]
        runs = tuple(dict.fromkeys(version.run_id for version in made if version.run_id))
        snapshot = await self._snapshot(
            loaded, base, step.operation, self._files(footers, state, fields), removed, fields, schema_id,
            _summary(runs, step.versions),
        )  # fmt: skip
        updates += [*_snapshot_updates(snapshot, MAIN), *_trimmed(metadata, snapshot["snapshot-id"])]
        await self._commit(loaded, MAIN, updates, self._who(runs, step.versions))

    async def open_branch(self, loaded: Loaded, step: OpenBranch, state: AssetState) -> None:
        """`MixedColumns` if the version cannot be read with the columns that the table has."""
        base, fields = await self._base(loaded, MAIN), _fields(loaded.metadata)
        footers = await self._footers(state.files[path] for path in step.added)
        if not all(is_readable(fields, footer.columns) for footer in footers.values()):
            raise MixedColumns(f"the version {step.materialization_id} has columns of other types than the table")
        version = state.versions[step.materialization_id]
        runs, versions = (version.run_id,) if version.run_id else (), (version.materialization_id,)
        snapshot = await self._snapshot(
            loaded, base, "overwrite" if step.removed else "append", self._files(footers, state, fields),
            {self._location(path) for path in step.removed}, fields, loaded.metadata["current-schema-id"],
            _summary(runs, versions),
        )  # fmt: skip
        await self._commit(loaded, step.name, _snapshot_updates(snapshot, step.name), self._who(runs, versions))

    async def close_branches(self, loaded: Loaded, step: CloseBranches) -> None:
        refs = loaded.metadata["refs"]
        ids = [refs[name]["snapshot-id"] for name in step.names]
        updates = [{"action": "remove-snapshot-ref", "ref-name": name} for name in step.names]
        await self._commit(loaded, MAIN, [*updates, {"action": "remove-snapshots", "snapshot-ids": ids}], self._who())

    async def let_go(self, loaded: Loaded, paths: Collection[str]) -> set[str]:
        """Let no old snapshot name these files any more; those of them that the current one names.

        A branch that names one goes too; it is opened again on what is current then.
        """
        metadata = loaded.metadata
        current = _snapshot_of(metadata, MAIN)
        locations = {self._location(path) for path in paths}
        needed = {entry.file.location for entry in (await self.manifests.base(current)).live} & locations
        over = []
        for snapshot in metadata.get("snapshots") or ():
            if current is None or snapshot["snapshot-id"] != current["snapshot-id"]:
                base = await self.manifests.base(snapshot)
                if any(entry.file.location in locations for entry in base.live):
                    over.append(snapshot["snapshot-id"])
        if over:
            refs = metadata.get("refs") or {}
            closed = [name for name, ref in refs.items() if name != MAIN and ref["snapshot-id"] in over]
            updates: list[dict[str, Any]] = [{"action": "remove-snapshot-ref", "ref-name": name} for name in closed]
            updates.append({"action": "remove-snapshots", "snapshot-ids": over})
            await self._commit(loaded, MAIN, updates, self._who())
        return {self._path(location) for location in needed}

    # Steps

    async def _snapshot(
        self,
        loaded: Loaded,
        base: Base,
        operation: str,
        added: Sequence[DataFile],
        removed: Collection[str],
        fields: Fields,
        schema_id: int,
        summary: Mapping[str, str],
    ) -> dict[str, Any]:
        """Write the manifests of the next snapshot."""
        metadata = loaded.metadata
        snapshot_id = int.from_bytes(self.runtime.bytes(8), "big") >> 1
        folder = f"{metadata['location']}/metadata"

        def new_location(kind: str) -> str:
            unique = ulid_to_uuid(new_ulid(self.runtime, self.runtime))
            return f"{folder}/snap-{snapshot_id}-{unique}.avro" if kind == "snap" else f"{folder}/{unique}-m.avro"

        plan = plan_snapshot(
            base,
            added,
            removed,
            operation=operation,
            snapshot_id=snapshot_id,
            sequence_number=metadata["last-sequence-number"] + 1,
            now_ms=max(self.runtime.now() // 1000, metadata["last-updated-ms"]),
            fields=fields,
            schema_id=schema_id,
            new_location=new_location,
            summary=summary,
        )
        for location, data in plan.files.items():
            await self.manifests.locations.create(location, data)
        return plan.snapshot

    async def _commit(self, loaded: Loaded, ref: str, updates: list[dict[str, Any]], who: Who) -> None:
        metadata = loaded.metadata
        known = (metadata.get("refs") or {}).get(ref)
        requirements = [
            {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
            {
                "type": "assert-ref-snapshot-id",
                "ref": ref,
                "snapshot-id": None if known is None else known["snapshot-id"],
            },
        ]
        request = parse_commit({"requirements": requirements, "updates": updates})
        await self.tables.commit(self.path, request, who)

    def _who(self, runs: Sequence[str] = (), versions: Sequence[str] = ()) -> Who:
        """The pointer names a run and a version if there is only one; the snapshot's summary names more."""
        operation = new_ulid(self.runtime, self.runtime)
        run = runs[0] if len(runs) == 1 else ""
        version = versions[0] if len(versions) == 1 else ""
        return Who(ACTOR, operation, "servo", client=ACTOR, run_id=run, materialization_id=version)

    async def _footers(self, files: Iterable[VersionFile]) -> dict[str, Footer]:
        """The footers of files, by path. `Refused` says what is wrong with the first one that is no Parquet file."""
        wanted = list(files)
        works = [partial(self._footer, file.path) for file in wanted]
        found = await side_by_side(self.runtime, works, READS_AT_ONCE, "read footers")
        footers: dict[str, Footer] = {}
        for file, footer in zip(wanted, found, strict=True):
            if isinstance(footer, ArcoError):
                raise footer
            footers[file.path] = footer
        return footers

    async def _footer(self, path: str) -> Footer:
        if not path.endswith(".parquet"):
            raise Refused(f"{path} is not a Parquet file; an asset of format iceberg returns tables")
        try:
            info = await self.reader.head(path)
            return Footer(info.size, await read_footer(self.reader, info))
        except ObjectMissing:
            raise Refused(f"{path} is not in the store; make its partition again") from None

    def _files(self, footers: Footers, state: AssetState, fields: Fields) -> list[DataFile]:
        return [self._described(state.files[path], footer, fields) for path, footer in footers.items()]

    def _described(self, file: VersionFile, footer: Footer, fields: Fields) -> DataFile:
        stats = (ColumnStats(*facts) for facts in column_facts(footer.data))
        told = {one.column for one in without_withheld(stats, [file], self.personal) if one.min is not None}
        return describe(self._location(file.path), footer.size, footer.data, fields, told)


def _ids(entry: Entry) -> Iterable[int]:
    return entry.file.value_counts


def _snapshot_of(metadata: Mapping[str, Any], ref: str) -> dict[str, Any] | None:
    known = (metadata.get("refs") or {}).get(ref)
    snapshots = metadata.get("snapshots") or ()
    return next((one for one in snapshots if known is not None and one["snapshot-id"] == known["snapshot-id"]), None)


def _fields(metadata: Mapping[str, Any]) -> Fields:
    current = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    fields: Fields = current["fields"]
    return fields


def _schema_updates(metadata: Mapping[str, Any], fields: Fields) -> tuple[int, list[dict[str, Any]]]:
    """The id of the schema with these fields, and what makes it the current one."""
    schemas = metadata["schemas"]
    known = next((one["schema-id"] for one in schemas if one["fields"] == fields), None)
    schema_id = known if known is not None else max(one["schema-id"] for one in schemas) + 1
    updates: list[dict[str, Any]] = []
    if known is None:
        schema = {"type": "struct", "schema-id": schema_id, "fields": fields}
        updates.append({"action": "add-schema", "schema": schema})
    if schema_id != metadata["current-schema-id"]:
        updates.append({"action": "set-current-schema", "schema-id": schema_id})
    mapping = msgspec.json.encode(name_mapping(fields)).decode()
    if (metadata.get("properties") or {}).get(MAPPING) != mapping:
        updates.append({"action": "set-properties", "updates": {MAPPING: mapping}})
    return schema_id, updates


def _snapshot_updates(snapshot: dict[str, Any], ref: str) -> list[dict[str, Any]]:
    return [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": snapshot["snapshot-id"]},
    ]


def _trimmed(metadata: Mapping[str, Any], new: int) -> list[dict[str, Any]]:
    """Lets go of the oldest snapshots that no branch needs."""
    needed = {ref["snapshot-id"] for name, ref in (metadata.get("refs") or {}).items() if name != MAIN} | {new}
    snapshots = sorted(metadata.get("snapshots") or (), key=lambda one: -one.get("sequence-number", 0))
    over = [one["snapshot-id"] for one in snapshots[MAX_SNAPSHOTS - 1 :] if one["snapshot-id"] not in needed]
    return [{"action": "remove-snapshots", "snapshot-ids": over}] if over else []


def _summary(runs: Sequence[str], versions: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, ids in (("run", runs), ("materialization", versions)):
        if ids:
            found[f"arco.{name}-id"] = ",".join(ids[:MAX_NAMED])
        if len(ids) > MAX_NAMED:
            found[f"arco.{name}-count"] = str(len(ids))
    return found

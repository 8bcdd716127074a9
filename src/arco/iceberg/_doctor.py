"""`examine_iceberg`: is everything there that the names of Iceberg tables and views promise? Writes and lists nothing.

    names of the catalog -> pointers, from the newest down to the floor -> decisions -> metadata file in force

The state of the log `activity` says which numbers existed once, so that pointers that were lost from the end show too.
A table is examined for itself: what is wrong with one keeps nobody from looking at the next.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.core import PUT_BACK, ArcoError, Corrupt, Forbidden, Invalid, LostObject, Outdated, TooLarge
from arco.domains.catalog import TABLES, TableRow, path_of_table
from arco.domains.tables import TABLE_STATES, TableState
from arco.iceberg._errors import MetadataMissing
from arco.iceberg._locations import Locations
from arco.iceberg._names import FORMATS, dotted
from arco.iceberg._pointer import Kind, Pointer, check_link, decode_pointer, sha256_of
from arco.iceberg._pointers import Current, Pointers
from arco.iceberg.metadata import read_table, read_view
from arco.state import Finding, Level, Snapshot

__all__ = ["NEWEST", "examine_iceberg"]

NEWEST = 100
"""Pointers of each table that are read, from the newest down."""

CHECK = "iceberg"


@dataclass(frozen=True, slots=True)
class _Named:
    table_id: str
    kind: Kind
    text: str
    """Kind, name and id, as findings say it."""


async def examine_iceberg(
    catalog: Snapshot,
    activity: Snapshot | None,
    pointers: Pointers,
    locations: Locations,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Finding]:
    """Everything there is to say about the Iceberg tables and views of a catalog, and how much was looked at.

    Without `activity` the end of a table's pointers is taken as it is found.
    """
    named = await _names(catalog)
    examination = _Examination(pointers, locations)
    for done, one in enumerate(named, 1):
        state = None if activity is None else await activity.get(TABLE_STATES, one.table_id, one.table_id)
        await examination.examine(one, state)
        progress(done, len(named))
    if named:
        examination.say(
            Level.OK,
            f"looked at {len(named)} tables and views: {examination.pointers} pointers, {examination.decisions} "
            f"decisions, {examination.files} metadata files",
        )
    return examination.findings


async def _names(catalog: Snapshot) -> list[_Named]:
    kinds = {text: kind for kind, text in FORMATS.items()}
    found = []
    for values in (await catalog.scan(TABLES)).select(["table_id", "format"]).to_pylist():
        kind = kinds.get(values["format"])
        if kind is None:
            continue
        row: TableRow = await catalog.get(TABLES, values["table_id"], values["table_id"])
        text = f"the {kind} {dotted(await path_of_table(catalog, row))} ({row.table_id})"
        found.append(_Named(row.table_id, kind, text))
    return sorted(found, key=lambda one: one.text)


class _Examination:
    def __init__(self, pointers: Pointers, locations: Locations) -> None:
        self._pointers = pointers
        self._locations = locations
        self.findings: list[Finding] = []
        self.pointers = 0
        self.decisions = 0
        self.files = 0

    def say(self, level: Level, message: str, path: str = "") -> None:
        self.findings.append(Finding(level, "catalog", CHECK, message, path))

    async def examine(self, named: _Named, state: TableState | None) -> None:
        try:
            current = await self._chain(named, 0 if state is None else state.number)
            if current is not None:
                await self._in_force(named, current)
        except Outdated as error:
            self.say(Level.WARNING, f"{named.text} was not checked: {error.message}", _path(error))
        except (Corrupt, LostObject) as error:
            self.say(Level.ERROR, f"{named.text}: {error.message}", _path(error))

    async def _chain(self, named: _Named, known: int) -> Current | None:
        """What is in force, after the newest pointers were looked at. `known` is a number that exists or existed."""
        table_id, sequence = named.table_id, self._pointers.sequence(named.table_id)
        current = await self._pointers.current(table_id)
        newest = 0 if current is None else current.tail.number
        if newest < known:
            path = sequence.path(newest + 1)
            raise LostObject(f"{path} is missing although pointer {known} was recorded; {PUT_BACK}", path=path)
        if current is None:
            message = "has no pointer: it was never more than a name, or its pointer was lost"
            self.say(Level.WARNING, f"{named.text} {message}; drop the name, or {PUT_BACK}")
            return None
        previous: str | None = None
        for number in range(max(await sequence.floor(), newest - NEWEST) + 1, newest + 1):
            data = await sequence.read(number)
            if data is None and number <= await sequence.floor():
                continue  # collected meanwhile
            data = data or await sequence.read_known(number)
            path = sequence.path(number)
            pointer = decode_pointer(data, path)
            check_link(
                pointer,
                table_id=table_id,
                incarnation=current.pointer.incarnation,
                number=number,
                previous="" if number == 1 else previous,
                path=path,
            )
            self.pointers += 1
            if pointer.txn is not None:
                await self._decision(pointer, is_newest=number == newest)
            previous = sha256_of(data)
        return current

    async def _decision(self, pointer: Pointer, *, is_newest: bool) -> None:
        """A prepared pointer that is not the newest is decided."""
        assert pointer.txn is not None
        decisions = self._pointers.decisions
        outcome = await decisions.read(pointer.txn)
        if outcome is not None:
            self.decisions += 1
        elif not is_newest:
            path = decisions.path(pointer.txn)
            raise LostObject(
                f"{path} is missing although pointer {pointer.number}, which it decides, is superseded; {PUT_BACK}",
                path=path,
            )

    async def _in_force(self, named: _Named, current: Current) -> None:
        held = current.held
        if held is None:
            self.say(Level.NOTE, f"{named.text} is not created yet: the transaction that does it is not committed")
            return
        if current.kind != named.kind:
            raise Corrupt(f"its pointers are those of a {current.kind}; restore the catalog or the pointers")
        if held.state == "dropped":
            self.say(Level.NOTE, f"{named.text} is dropped, its name is not free yet; who uses it next frees it")
            return
        location = held.metadata_location
        try:
            data = await self._locations.read(location)
            value = (read_table if named.kind == "table" else read_view)(data)
        except MetadataMissing:
            message = f"the metadata file {location} is missing; {PUT_BACK}"
            raise LostObject(message, path=location) from None
        except Forbidden as error:
            self.say(Level.WARNING, f"{named.text}: its metadata file was not looked at: {error.message}", location)
            return
        except (Invalid, TooLarge) as error:
            message = f"the metadata file {location} cannot be used: {error.message}; {PUT_BACK}"
            raise Corrupt(message, path=location) from None
        uuid = value.get("table-uuid" if named.kind == "table" else "view-uuid") or ""
        if held.table_uuid and uuid != held.table_uuid:
            message = f"the metadata file {location} belongs to {uuid!r}, the pointer to {held.table_uuid!r}"
            raise Corrupt(f"{message}; {PUT_BACK}", path=location)
        self.files += 1


def _path(error: ArcoError) -> str:
    return str(error.details.get("path", ""))

"""Where a restore ends: the whole backup, or a point before it.

A point is a time, or a position of one log; the other log is then cut at the time that the position was received. A
time is the time by which the owner received a segment, as in `--as-of`.
"""

from dataclasses import dataclass

from arco.backup._format import Backup, TableCopy
from arco.backup._vault import Vault
from arco.core import NotFound, Refused, format_time
from arco.iceberg import Pointer, decode_pointer
from arco.log import decode_segment, number_of, position_of

__all__ = ["Cut", "Moment", "find_cut", "pointers_of", "tables_through"]


@dataclass(frozen=True)
class Moment:
    """A time, or a position of one log."""

    time: int | None = None
    log: str = ""
    position: int = 0


@dataclass(frozen=True)
class Cut:
    """What is restored of each log: the segments up to a number, and of the last one the events up to a position."""

    numbers: dict[str, int]
    through: dict[str, int]
    """Positions at which the last segment of a log is cut; a log whose last segment is whole is not in it."""
    time: int | None
    """What Iceberg tables are cut at; None if nothing is cut."""

    def __str__(self) -> str:
        return ",".join(f"{log}:{number}:{self.through.get(log, '')}" for log, number in sorted(self.numbers.items()))


async def find_cut(vault: Vault, backup: Backup, moment: Moment | None) -> Cut:
    """The cut for a moment, which must not be after the backup, nor before all that it has."""
    if moment is None:
        return Cut({log: copy.link.number for log, copy in backup.logs.items()}, {}, None)
    if moment.time is not None:
        if moment.time > backup.taken_at:
            raise Refused(
                f"{format_time(moment.time)} is after backup {backup.number}, which was taken at "
                f"{format_time(backup.taken_at)}; use a later backup, or leave --at out"
            )
        numbers = {log: await _by_time(vault, backup, log, moment.time) for log in backup.logs}
        first = None if any(numbers.values()) else await _first_time(vault, backup)
        if first is not None:
            raise Refused(
                f"{format_time(moment.time)} is before the first event of backup {backup.number}, which is of "
                f"{format_time(first)}; nothing would be restored: use that time or a later one"
            )
        return Cut(numbers, {}, moment.time)
    return await _by_position(vault, backup, moment.log, moment.position)


async def _by_position(vault: Vault, backup: Backup, log: str, position: int) -> Cut:
    if log not in backup.logs:
        raise NotFound(f"there is no log {log!r}; there are {', '.join(sorted(backup.logs))}")
    number = number_of(position)
    end = backup.logs[log].link.number
    if not 0 < number <= end:
        raise Refused(
            f"backup {backup.number} has the segments 1 to {end} of {log}; position {number} is not among them"
        )
    for chunk in await vault.chunks(backup, log):
        if chunk.first <= number <= chunk.last:
            data = (await vault.segments(chunk))[number - chunk.first]
            segment = decode_segment(data, vault.path(chunk.content))
            time = segment.header.received
            numbers = {other: await _by_time(vault, backup, other, time) for other in backup.logs if other != log}
            is_whole = position >= position_of(number, len(segment.events) - 1)
            return Cut({**numbers, log: number}, {} if is_whole else {log: position}, time)
    raise NotFound(f"segment {number} of {log} is not in backup {backup.number}")


async def _by_time(vault: Vault, backup: Backup, log: str, time: int) -> int:
    """The last segment that was received by a time; 0 if none was."""
    last = 0
    for chunk in await vault.chunks(backup, log):
        if chunk.received <= time:
            last = chunk.last
            continue
        for data in await vault.segments(chunk):
            header = decode_segment(data, vault.path(chunk.content)).header
            if header.received > time:
                return last
            last = header.number
    return last


async def _first_time(vault: Vault, backup: Backup) -> int | None:
    """When the first segment of a backup was received; None if it has none."""
    times = []
    for log in backup.logs:
        for chunk in (await vault.chunks(backup, log))[:1]:
            data = (await vault.segments(chunk))[0]
            times.append(decode_segment(data, vault.path(chunk.content)).header.received)
    return min(times, default=None)


def pointers_of(copy: TableCopy) -> list[Pointer]:
    return [decode_pointer(text.encode(), copy.table_id) for text in copy.pointers]


def tables_through(tables: dict[str, list[Pointer]], time: int, recorded: dict[str, int]) -> dict[str, int]:
    """The last pointer of each table at a time; 0 for a table that was not there yet.

    A transaction counts when its last pointer was made, for all of its tables. Pointers that the restored log was told
    of (`recorded`) are there in any case, as clocks of committers and owners differ.
    """
    ends: dict[str, int] = {}
    for pointers in tables.values():
        for pointer in pointers:
            if pointer.txn is not None:
                ends[pointer.txn] = max(ends.get(pointer.txn, 0), pointer.committed_at)

    def made(pointer: Pointer) -> int:
        return ends[pointer.txn] if pointer.txn is not None else pointer.committed_at

    for table_id, pointers in tables.items():
        told = [made(pointer) for pointer in pointers if pointer.number <= recorded.get(table_id, 0)]
        time = max([time, *told])
    through: dict[str, int] = {}
    lost: set[str] = set()
    while True:
        for table_id, pointers in tables.items():
            through[table_id] = 0
            for pointer in pointers:
                if made(pointer) > time or pointer.txn in lost:
                    break
                through[table_id] = pointer.number
        # What follows a transaction that is left out is left out too, and so may be another transaction.
        cut = {
            pointer.txn
            for table_id, pointers in tables.items()
            for pointer in pointers
            if pointer.txn is not None and pointer.number > through[table_id]
        }
        if cut <= lost:
            return through
        lost |= cut

"""The audit of both logs as one list, newest first.

Rows of one log come in the order of their positions, which is also the order of their times. A page reads from the
newest file backwards until it has enough, so that looking at what happened last costs little however old a log is.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog._cursors import check_limit, decode_cursor, encode_cursor, number_in
from arco.core import MAX_TIME, NotFound, format_time
from arco.state import AUDIT, File, Snapshot
from arco.wire import AuditEntry, Page

__all__ = ["audit_page"]

_TIME = "recorded_at"
_NOT_BEGUN = ""


async def audit_page(
    snapshots: Mapping[str, Snapshot], *, log: str | None = None, cursor: str | None = None, limit: int = 100
) -> Page[AuditEntry]:
    """One page of the audit of all logs given, or of one of them."""
    if log is not None and log not in snapshots:
        raise NotFound(f"there is no log {log[:80]!r}; there are {', '.join(sorted(snapshots))}")
    logs = sorted(snapshots) if log is None else [log]
    place = f"audit/{','.join(logs)}"
    after = decode_cursor(place, cursor, len(logs) + 1) or (*[_NOT_BEGUN] * len(logs), str(MAX_TIME))
    until = number_in(after[-1])
    reached = dict(zip(logs, after, strict=False))
    found = [
        _entries(name, await _newest(snapshots[name], reached[name], until, check_limit(limit) + 1)) for name in logs
    ]
    merged = list(heapq.merge(*found, key=lambda entry: (-entry[0], entry[1])))
    shown = merged[:limit]
    for _, name, entry in shown:
        reached[name] = entry.id
    following = None
    if len(merged) > limit:
        following = encode_cursor(place, (*reached.values(), str(shown[-1][0])))
    position = snapshots["catalog" if log is None and "catalog" in snapshots else logs[0]].position
    return Page[AuditEntry](items=[entry for _, _, entry in shown], next_cursor=following, position=str(position))


async def _newest(snapshot: Snapshot, reached: str, until: int, count: int) -> pa.Table:
    """The newest rows before what was reached, at most so many, newest first."""
    files = [file for layer in snapshot.manifest.layers_of(AUDIT.name) for file in layer.files]
    wanted = count
    while True:
        since = _since(files, until, wanted)
        data = await snapshot.scan(AUDIT, between={_TIME: (since, until)})
        if reached != _NOT_BEGUN:
            data = data.filter(pc.less(data.column("_position"), number_in(reached)))
        if data.num_rows >= count or since == 0:
            return data.sort_by([("_position", "descending")]).slice(0, count)
        wanted *= 4


def _since(files: list[File], until: int, wanted: int) -> int:
    """A time such that the files which reach beyond it hold so many rows, as far as their statistics tell."""
    ends = [(*cast("tuple[int, int]", file.stats[_TIME]), file.rows) for file in files if _TIME in file.stats]
    rows = 0
    for first, _, held in sorted(ends, key=lambda end: end[1], reverse=True):
        if first <= until:
            rows += held
            if rows >= wanted:
                return min(first, until)
    return 0


def _entries(log: str, data: pa.Table) -> Iterator[tuple[int, str, AuditEntry]]:
    """(time, log, entry) of each row."""
    times = data.column(_TIME).cast(pa.int64()).to_pylist()
    for time, row in zip(times, data.drop_columns([_TIME]).to_pylist(), strict=True):
        yield (
            time,
            log,
            AuditEntry(
                id=row["audit_id"],
                log=cast(Any, log),
                actor=row["actor"],
                action=row["action"],
                resource_type=row["resource_type"],
                resource=row["resource"],
                operation_id=row["operation"],
                request_id=row["request_id"],
                before=_parsed(row["before"]),
                after=_parsed(row["after"]),
                recorded_at=format_time(time),
            ),
        )


def _parsed(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)

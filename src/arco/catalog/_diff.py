"""What is different in the second of two states of one log, by the key of each row.

Both states are compared as Arrow, column by column, and only the rows that are shown become Python values: the counts
are exact, the lists are bounded. A row's position alone is no change. Private tables have no differences for anybody.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog._plain import Row, plain_rows
from arco.core import Invalid, NotFound, Runtime
from arco.state import AUDIT, OPERATIONS, REQUESTS, Snapshot, Table
from arco.wire import DiffChange, DiffTable, SnapshotDiff

__all__ = ["Changed", "Difference", "compare", "diff_snapshots"]

_OLD, _NEW = "_old_row", "_new_row"
_NOTES = {AUDIT.name, OPERATIONS.name, REQUESTS.name}


@dataclass(frozen=True)
class Changed:
    key: Row
    columns: dict[str, tuple[Any, Any]]
    """Name -> value before, value after."""


@dataclass(frozen=True)
class Difference:
    """Differences of one table, in key order. The lists hold at most as many as were asked for."""

    table: str
    added: list[Row]
    removed: list[Row]
    changed: list[Changed]
    added_count: int
    removed_count: int
    changed_count: int

    @property
    def empty(self) -> bool:
        return not (self.added_count or self.removed_count or self.changed_count)


async def diff_snapshots(
    before: Snapshot,
    after: Snapshot,
    *,
    table: str | None = None,
    limit: int = 1_000,
    runtime: Runtime | None = None,
) -> SnapshotDiff:
    """The differences of all tables or of one; of each at most `limit` changes are listed, all are counted.

    What a log notes of every command (`operations`, `requests`, `audit`) is compared only when it is asked for. With a
    runtime, comparing goes on beside everything else.
    """
    if before.definition.log != after.definition.log:
        raise Invalid("two states can be compared if they are of one log")
    known = {name: found for name, found in sorted(after.definition.tables.items()) if not found.private}
    if table is not None and table not in known:
        raise NotFound(f"the log {after.definition.log} has no table {table[:80]!r}; it has {', '.join(known)}")
    # The same fold gives the same row at the same position, so only rows that were written again are looked at.
    same_fold = before.manifest.folds == after.manifest.folds
    tables = []
    chosen = [known[table]] if table is not None else [known[name] for name in known if name not in _NOTES]
    for wanted in chosen:
        buckets = after.differing(before, wanted)
        old, new = await before.scan(wanted, buckets=buckets), await after.scan(wanted, buckets=buckets)
        work = partial(compare, wanted, old, new, limit=limit, trust_positions=same_fold)
        found = await runtime.offload(work) if runtime is not None else work()
        if not found.empty:
            tables.append(_document(wanted, found, limit))
    return SnapshotDiff(
        log=cast(Any, after.definition.log),
        from_position=str(before.position),
        to_position=str(after.position),
        tables=tables,
    )


def _document(table: Table, found: Difference, limit: int) -> DiffTable:
    changes = [
        *(DiffChange(change="added", key=_key(table, row), before=None, after=_shown(row)) for row in found.added),
        *(DiffChange(change="removed", key=_key(table, row), before=_shown(row), after=None) for row in found.removed),
        *(
            DiffChange(
                change="changed",
                key=row.key,
                before={name: was for name, (was, _) in row.columns.items()},
                after={name: now for name, (_, now) in row.columns.items()},
            )
            for row in found.changed
        ),
    ]
    changes.sort(key=lambda change: tuple(change.key.values()))
    total = found.added_count + found.removed_count + found.changed_count
    return DiffTable(
        table=table.name,
        added=found.added_count,
        removed=found.removed_count,
        changed=found.changed_count,
        changes=changes[:limit],
        truncated=total > limit,
    )


def _key(table: Table, row: Row) -> dict[str, str]:
    return {name: row[name] for name in table.key}


def _shown(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def compare(
    table: Table, before: pa.Table, after: pa.Table, *, limit: int | None = None, trust_positions: bool = False
) -> Difference:
    """What became of each row between two states, by key; at most `limit` rows of each kind are listed.

    With `trust_positions` a row that has the same position in both is taken for the same without looking.
    """
    if not before.num_rows and not after.num_rows:
        return Difference(table.name, [], [], [], 0, 0, 0)
    before, after = before.combine_chunks(), after.combine_chunks()
    rows = _paired(table, before, after)
    old, new = rows.column(_OLD), rows.column(_NEW)
    added, removed = new.filter(pc.is_null(old)), old.filter(pc.is_null(new))
    both = rows.filter(pc.and_(pc.is_valid(old), pc.is_valid(new)))
    if trust_positions:
        both = both.filter(pc.not_equal(both.column("_position"), both.column("_new_position")))
    was, now = before.take(both.column(_OLD)), after.take(both.column(_NEW))
    differs = {name: unequal(was.column(name), now.column(name)) for name in table.columns if name not in table.key}
    changed = pa.array([False] * both.num_rows, pa.bool_())
    for mask in differs.values():
        changed = pc.or_(changed, mask)
    return Difference(
        table.name,
        plain_rows(_first(table, after.take(added), limit)),
        plain_rows(_first(table, before.take(removed), limit)),
        _changes(table, was, now, differs, changed, limit),
        len(added),
        len(removed),
        pc.sum(changed).as_py() or 0,
    )


def _paired(table: Table, before: pa.Table, after: pa.Table) -> pa.Table:
    """Row numbers of both sides, joined by group and key; null where a side has no such row."""
    names = list(dict.fromkeys([table.group, *table.key]))

    def keys(data: pa.Table, row: str, position: str) -> pa.Table:
        found = data.select([*names, "_position"]).rename_columns([*names, position])
        return found.append_column(row, pa.array(range(data.num_rows), pa.int64()))

    return keys(before, _OLD, "_position").join(keys(after, _NEW, "_new_position"), names, join_type="full outer")


def _first(table: Table, data: pa.Table, limit: int | None) -> pa.Table:
    data = data.sort_by([(name, "ascending") for name in table.key])
    return data if limit is None else data.slice(0, limit)


def _changes(
    table: Table,
    was: pa.Table,
    now: pa.Table,
    differs: dict[str, pa.Array],
    changed: pa.Array,
    limit: int | None,
) -> list[Changed]:
    places = pc.indices_nonzero(changed)
    order = pc.sort_indices(was.select(table.key).take(places), [(name, "ascending") for name in table.key])
    places = places.take(order if limit is None else order.slice(0, limit))
    masks = {name: mask.take(places).to_pylist() for name, mask in differs.items()}
    found = []
    for index, (old, new) in enumerate(zip(plain_rows(was.take(places)), plain_rows(now.take(places)), strict=True)):
        columns = {name: (old[name], new[name]) for name, mask in masks.items() if mask[index]}
        found.append(Changed(_key(table, new), columns))
    return found


def unequal(a: pa.ChunkedArray | pa.Array, b: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Which values differ, place by place. Two nulls are equal, and so are two values that are no number."""
    a, b = _whole(a), _whole(b)
    differs = pc.xor(pc.is_null(a), pc.is_null(b))
    if pa.types.is_list(a.type):
        return _unequal_lists(a, b, differs)
    if pa.types.is_struct(a.type):
        for left, right in zip(a.flatten(), b.flatten(), strict=True):
            differs = pc.or_(differs, unequal(left, right))
        return differs
    other = pc.fill_null(pc.not_equal(a, b), False)
    if pa.types.is_floating(a.type):
        other = pc.and_not(other, pc.fill_null(pc.and_(pc.is_nan(a), pc.is_nan(b)), False))
    return pc.or_(differs, other)


def _whole(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array, and lists of entries instead of maps: Arrow compares and counts only those."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
    if pa.types.is_map(values.type):
        entry = pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])
        values = values.cast(pa.list_(entry))
    return values


def _unequal_lists(a: pa.Array, b: pa.Array, differs: pa.Array) -> pa.Array:
    lengths = pc.not_equal(pc.list_value_length(a), pc.list_value_length(b))
    differs = pc.or_(differs, pc.fill_null(lengths, False))
    alike = pc.invert(differs)
    left, right = a.filter(alike), b.filter(alike)
    parents = pc.list_parent_indices(left).filter(unequal(left.flatten(), right.flatten()))
    places = pc.indices_nonzero(alike).take(pc.unique(parents))
    return pc.or_(differs, pc.is_in(pa.array(range(len(a)), pa.uint64()), places.cast(pa.uint64())))

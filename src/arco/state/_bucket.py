"""`Bucket`: the rows of one bucket of a table in memory.

What was loaded stays Arrow, sorted by group and key, and never changes. Python rows are made of what is asked for: of a
small group all of them, of a large one (`LargeGroup`) only those that are looked at. What is written lies on top.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain
from operator import itemgetter
from types import MappingProxyType

import pyarrow as pa

from arco.state._codec import from_arrow
from arco.state._fold import Rows, Versioned
from arco.state._table import Key, Table

__all__ = ["Bucket", "Overlay", "overlaid", "split_buckets"]

LARGE = 256
"""Rows from which on a group is not made into Python rows as a whole."""

FIRST_ROWS, MOST_ROWS = 16, 1024
"""Rows of a large group that are made at a time while it is read in order: few at first, then more."""

RESORT = 256
"""With more writes at once it is cheaper to sort the keys of a group anew than to insert each one."""

_EMPTY: Mapping[Key, Versioned] = MappingProxyType({})


class Stored:
    """Arrow rows of one bucket in the order of `sort_rows`."""

    def __init__(self, table: Table, data: pa.Table) -> None:
        self._table = table
        self._data = data.combine_chunks()
        self._groups = self._data.column(table.group).chunk(0)
        columns = [self._data.column(name).chunk(0) for name in table.key]
        (only, *others) = columns
        self._key_at = (
            (lambda index: tuple(column[index].as_py() for column in columns))
            if others
            else (lambda index: only[index].as_py())
        )

    def __len__(self) -> int:
        return int(self._data.num_rows)

    def span(self, group: str) -> tuple[int, int]:
        """Where the rows of a group begin and end."""
        start = bisect_left(self._groups, group, key=_text)
        if start == len(self._groups) or self._groups[start].as_py() != group:
            return start, start
        return start, bisect_right(self._groups, group, start, key=_text)

    def after(self, span: tuple[int, int], key: Key) -> int:
        """The first row of a span whose key is greater."""
        return span[0] + bisect_right(range(*span), key, key=self._key_at)

    def get(self, span: tuple[int, int], key: Key) -> Versioned | None:
        index = span[0] + bisect_left(range(*span), key, key=self._key_at)
        if index == span[1] or self._key_at(index) != key:
            return None
        return next(self.rows(index, index + 1))[1]

    def rows(self, start: int, stop: int) -> Iterator[tuple[Key, Versioned]]:
        for _, key, versioned in from_arrow(self._table, self._data.slice(start, stop - start)):
            yield key, versioned


def _text(scalar: pa.Scalar) -> str:
    return str(scalar.as_py())


class LargeGroup(Mapping[Key, Versioned]):
    """A large group: Arrow rows, those that were looked at, and what was written since it was loaded."""

    __slots__ = ("_bucket", "_seen", "_span", "_stored", "order", "rows")

    def __init__(self, bucket: "Bucket", stored: Stored, span: tuple[int, int]) -> None:
        self._bucket = bucket
        self._stored: Stored | None = stored
        self._span = span
        self._seen: Rows = {}
        self.rows: Rows = {}
        """What was written; a row that is None hides a stored one. Everything, once all rows were made."""
        self.order: list[Key] | None = None
        """The keys of `rows`, sorted, if anybody has asked."""

    def get(self, key: Key, default: object = None) -> Versioned | None:  # type: ignore[override]
        found = self.rows.get(key) or self._seen.get(key)
        if found is None and self._stored is not None:
            found = self._stored.get(self._span, key)
            if found is not None:
                self._seen[key] = found
                self._bucket.held += 1
        return found if found is not None and found[1] is not None else None

    def __getitem__(self, key: Key) -> Versioned:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.settle())

    def __len__(self) -> int:
        return len(self.settle())

    def settle(self) -> Rows:
        """Make all rows; from then on it is an ordinary group."""
        if self._stored is not None:
            everything = dict(self._stored.rows(*self._span)) | self.rows
            before = len(self.rows) + len(self._seen)
            self.rows = {key: versioned for key, versioned in everything.items() if versioned[1] is not None}
            self._stored, self._seen, self.order = None, {}, None
            self._bucket.held += len(self.rows) - before
        return self.rows

    def write(self, writes: Rows) -> None:
        before = len(self.rows)
        self.order = _keep_order(self.order, writes)
        self.rows.update(writes)
        if self._stored is None:
            _drop_deleted(self.rows, writes)
        self._bucket.held += len(self.rows) - before

    def stored_after(self, key: Key | None) -> Iterator[tuple[Key, Versioned]]:
        """Arrow rows in key order, made a few at a time."""
        if self._stored is None:
            return
        start, stop = self._span
        if key is not None:
            start = self._stored.after(self._span, key)
        size = FIRST_ROWS
        while start < stop:
            yield from self._stored.rows(start, min(start + size, stop))
            start, size = start + size, min(2 * size, MOST_ROWS)


class Bucket:
    __slots__ = ("_orders", "_stored", "_table", "groups", "held")

    def __init__(self, table: Table, data: pa.Table | None = None) -> None:
        """`data` are the rows of the bucket in the order of `sort_rows`, without tombstones."""
        self._table = table
        self.groups: dict[str, Rows | LargeGroup] = {}
        self._stored = Stored(table, data) if data is not None and data.num_rows else None
        self._orders: dict[str, list[Key]] = {}
        self.held = len(self._stored) if self._stored is not None else 0
        """Rows in memory; one that is both Arrow and Python counts twice."""

    def find(self, group: str) -> Mapping[Key, Versioned]:
        """The rows of a group."""
        found = self.groups.get(group)
        if found is None:
            if self._stored is None:
                return _EMPTY
            span = self._stored.span(group)
            size = span[1] - span[0]
            if not size:
                return _EMPTY  # not remembered: whoever asks for what is not there must not fill the memory
            if size < LARGE:
                found = dict(self._stored.rows(*span))
                self.held += size
            else:
                found = LargeGroup(self, self._stored, span)
            self.groups[group] = found
        return found

    def write(self, group: str, writes: Rows) -> None:
        rows = self.groups.get(group)
        if rows is None:
            self.find(group)
            rows = self.groups.setdefault(group, {})
        if isinstance(rows, LargeGroup):
            rows.write(writes)
            return
        if group in self._orders:
            order = _keep_order(self._orders.pop(group), writes)
            if order is not None:
                self._orders[group] = order
        before = len(rows)
        rows.update(writes)
        if not self._table.is_fact:
            _drop_deleted(rows, writes)
        self.held += len(rows) - before

    def ordered(self, group: str, after: Key | None = None) -> Iterator[tuple[Key, Versioned]]:
        """The rows of a group after a key, in key order. Nothing may be written while it is read."""
        found = self.find(group)
        if isinstance(found, LargeGroup):
            if found.order is None:
                found.order = sorted(found.rows, key=self._table.order_of)
            return overlaid(found.stored_after(after), found.rows, _keys_after(found.order, after))
        order = self._orders.get(group)
        if order is None:
            order = sorted(found, key=self._table.order_of)
            if len(order) >= LARGE:
                self._orders[group] = order
        return ((key, found[key]) for key in _keys_after(order, after))

    def expire(self, cutoff: int) -> None:
        """Let go of the Python rows of groups of which retention took every row; large groups stay as they are."""
        is_expired = self._table.is_expired
        for group, rows in list(self.groups.items()):
            if rows and not isinstance(rows, LargeGroup) and all(is_expired(row, cutoff) for _, row in rows.values()):
                self.held -= len(rows)
                self._orders.pop(group, None)
                if self._stored is None:
                    del self.groups[group]
                else:
                    self.groups[group] = {}  # else it would be made again of what was loaded, deleted rows included

    def settle(self, group: str) -> None:
        """All rows of a group are wanted: make them once."""
        found = self.find(group)
        if isinstance(found, LargeGroup):
            self.groups[group] = found.settle()


class Overlay(Mapping[Key, Versioned]):
    """Rows on top of others, without a copy of either. A row that is None is shown: it says that there is none."""

    __slots__ = ("_above", "_below")

    def __init__(self, above: Rows, below: Mapping[Key, Versioned]) -> None:
        self._above = above
        self._below = below

    def get(self, key: Key, default: object = None) -> Versioned | None:  # type: ignore[override]
        return self._above.get(key) or self._below.get(key)

    def __getitem__(self, key: Key) -> Versioned:
        return self._above[key] if key in self._above else self._below[key]

    def __contains__(self, key: object) -> bool:
        return key in self._above or key in self._below

    def __iter__(self) -> Iterator[Key]:
        return chain(self._above, (key for key in self._below if key not in self._above))

    def __len__(self) -> int:
        return len(self._below) + sum(key not in self._below for key in self._above)


def overlaid(
    below: Iterable[tuple[Key, Versioned]], above: Rows, keys: Iterable[Key]
) -> Iterator[tuple[Key, Versioned]]:
    """Rows in key order with those above in the place of those below; `keys` are the ones of `above` to show."""
    under = (found for found in below if found[0] not in above)
    both = merge(under, ((key, above[key]) for key in keys), key=itemgetter(0))
    return (found for found in both if found[1][1] is not None)


def split_buckets(data: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Sorted rows of several buckets as a table for each, with memory of its own so that each can be dropped."""
    column = data.column("_bucket").combine_chunks()
    start = 0
    while start < len(column):
        bucket = column[start].as_py()
        stop = bisect_right(column, bucket, start, key=lambda scalar: scalar.as_py())
        whole = stop - start == len(column)
        yield bucket, data if whole else data.take(pa.array(range(start, stop), pa.int64()))
        start = stop


def _keys_after(order: list[Key], after: Key | None) -> Iterator[Key]:
    start = 0 if after is None else bisect_right(order, after)
    return (order[index] for index in range(start, len(order)))


def _keep_order(order: list[Key] | None, writes: Rows) -> list[Key] | None:
    """Sorted keys as they are after some writes; None if they should be sorted anew."""
    if order is None or len(writes) > RESORT:
        return None
    for key, (_, row) in writes.items():
        index = bisect_left(order, key)
        known = index < len(order) and order[index] == key
        if row is None and known:
            del order[index]
        elif row is not None and not known:
            order.insert(index, key)
    return order


def _drop_deleted(rows: Rows, writes: Rows) -> None:
    for key, versioned in writes.items():
        if versioned[1] is None:
            del rows[key]

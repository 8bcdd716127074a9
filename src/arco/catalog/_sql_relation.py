"""What a query can read. A *relation* has a name, knows its columns and loads as Arrow; a *view* is SQL over relations.

The *resolver* turns the parts of a name into one of them.
"""

import difflib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

__all__ = ["Relation", "Resolver", "SqlView", "near_names", "select_columns"]


class Relation(Protocol):
    @property
    def schema(self) -> pa.Schema: ...

    @property
    def size_bytes(self) -> int:
        """What loading all of it takes, estimated without reading anything."""
        ...

    async def load(self, columns: Collection[str] | None) -> pa.Table:
        """The data with the columns whose names in lower case are given (None: all), or more."""
        ...


@dataclass(frozen=True)
class SqlView:
    """A relation that is a query over others."""

    text: str
    """SQL in which `{name}` stands for a source."""
    sources: Mapping[str, Relation]
    uses: frozenset[str] = field(default_factory=frozenset)
    """The columns that the text itself names, in lower case. Other columns it only passes on."""


Resolver = Callable[[tuple[str, ...]], Awaitable[Relation | SqlView]]
"""The relation of a name. `NotFound` if there is none, with near names in the message."""


def near_names(name: str, names: Iterable[str]) -> str:
    """A half sentence that helps after a name that does not exist."""
    known = sorted(names)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are {', '.join(known)}" if known else "there is nothing to query yet"


def select_columns(table: pa.Table, columns: Collection[str] | None) -> pa.Table:
    """The columns asked for, and at least one, so that rows can still be counted."""
    if columns is None:
        return table
    wanted = [name for name in table.column_names if name.lower() in columns]
    return table.select(wanted or table.column_names[:1])

"""Domains: what the product knows, as event types, tables, stages and deciders over one log.

- `Domain`: one folder of `arco.domains`; its `version` is the fold version: raise it whenever the fold would derive
  other rows from the same events, and the compactor refolds everything.
- `Stage`: one step of a domain's fold. It sees the events it names and the changes of earlier stages' tables, group by
  group, in position order, and writes rows of its own tables.
- `ByField`: the usual way to group: by one field of the payload.
- `Group`: the rows of one group as a stage sees them: earlier writes of the same batch included.
- `Input`: what a stage is given: an event's payload, or a `Change` another stage made.
- `Reject`: raised by a fold for an input that cannot be folded; it becomes a row in `rejections`, the fold goes on.
- `Hold`: what keeps retention from going further for now.
- `Decider`: validates a command on a `View` of the state and returns its events.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import msgspec

from arco.core import Invalid, Ulid, derive_ulid
from arco.log import Command, Event, EventType, NewEvent
from arco.state._table import Key, Table

__all__ = [
    "ByField",
    "Change",
    "Decider",
    "Decision",
    "Domain",
    "Group",
    "Hold",
    "Input",
    "Reject",
    "Stage",
    "View",
    "new_event",
]


class Reject(Exception):
    """This input cannot be folded; the text says why. Only for what is wrong with the event itself."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a stage did to a row; `before` or `after` is None if there was or is none."""

    table: str
    before: Any
    after: Any


class Input(msgspec.Struct, frozen=True, gc=False):
    position: int
    received: int
    """When the owner received the event, microseconds."""
    event: Event
    payload: Any
    attached: Any = None
    """What the event's blob holds, decoded; None if it has none that folds look into."""


class Group(Protocol):
    key: str

    def get(self, table: Table, key: Key) -> Any:
        """The row, or None."""
        ...

    def rows(self, table: Table) -> list[Any]:
        """All rows of the group, in key order."""
        ...

    def put(self, table: Table, row: Any) -> None:
        """Write a row; its position is the input's. Writing a fact twice or one past its retention is a `Reject`."""
        ...

    def delete(self, table: Table, key: Key) -> None: ...


class ByField:
    """Groups inputs by a field that all payloads of a stage have. Who spreads events need not decode the others."""

    __slots__ = ("_value_of", "field")

    def __init__(self, field: str) -> None:
        self.field = field
        self._value_of = attrgetter(f"payload.{field}")

    def __call__(self, item: Input) -> tuple[str, ...]:
        return (self._value_of(item),)


@dataclass(frozen=True, eq=False)
class Stage:
    name: str
    tables: tuple[Table, ...]
    group: Callable[[Input], tuple[str, ...]]
    """The groups an input concerns."""
    fold: Callable[[Group, Input], None]
    events: tuple[str, ...] = ()
    """Types of the events it folds; `*` for all that were decided or carry a request key, of known type or not, without
    their payload."""
    changes: tuple[Table, ...] = ()
    """Tables of earlier stages of this domain whose changes are inputs too."""


class View(Protocol):
    """The state a decider sees: all folded events and the earlier members of the group."""

    async def get(self, table: Table, group: str, key: Key) -> Any: ...

    async def rows(self, table: Table, group: str) -> list[Any]: ...

    async def page(self, table: Table, group: str, after: Key | None, limit: int) -> list[Any]:
        """The next rows of a group in key order, after a key; however large the group, this is little work."""
        ...


@dataclass(frozen=True)
class Decision:
    """The moment and the identity a decider may use; nothing else may enter its events."""

    command: Command
    received: int

    def new_id(self, label: str) -> Ulid:
        """The id of something this command creates: the same wherever and however often the command is decided."""
        return derive_ulid(self.received, f"{self.command.operation}:{label}")


class Hold(NamedTuple):
    """Rows of this time and later stay, because somebody needs them."""

    since: int
    reason: str


Decider = Callable[[Any, View, Decision], Awaitable[list[NewEvent]]]


@dataclass(frozen=True, eq=False)
class Domain:
    name: str
    log: str
    version: int
    events: tuple[EventType, ...]
    stages: tuple[Stage, ...]
    commands: Mapping[str, tuple[type[msgspec.Struct], Decider]] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    """Types of events that another domain of the log declares, and that its stages fold too."""
    holds: Mapping[str, Callable[[View], Awaitable[Hold | None]]] = field(default_factory=dict)
    """By table that retention names: what keeps it from going further, if anything does."""

    @property
    def tables(self) -> Iterable[Table]:
        for stage in self.stages:
            yield from stage.tables

    def __post_init__(self) -> None:
        known = {*(kind.name for kind in self.events), *self.shared}
        earlier: set[str] = set()
        for stage in self.stages:
            if not set(stage.events) <= known | {"*"}:
                raise Invalid(f"stage {stage.name} subscribes to undeclared events {set(stage.events) - known}")
            if "*" in stage.events and len(stage.events) > 1:
                raise Invalid(f"stage {stage.name} folds every event without its payload, so it can name no others")
            if not {table.name for table in stage.changes} <= earlier:
                raise Invalid(f"stage {stage.name} reads tables that no earlier stage of {self.name} writes")
            earlier |= {table.name for table in stage.tables}


def new_event(kind: EventType, payload: msgspec.Struct, *, subject: str = "", source: str = "arco") -> NewEvent:
    """An event of a known type, in its newest version."""
    return NewEvent(
        type=kind.name,
        version=kind.version,
        data=msgspec.Raw(msgspec.json.encode(payload)),
        subject=subject,
        source=source,
    )

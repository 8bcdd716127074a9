"""What happened to Iceberg tables in a run: what was asked and answered, and what the disk says was in force when.

Every event has a *tick*, one after the other. A plain pointer takes effect when the disk creates it, a prepared one
when the disk creates the decision; so the states of a table and their ticks are known exactly, and every answer and
every read can be held against them.
"""

from dataclasses import dataclass, field

import msgspec

from arco.iceberg import IdempotencyKey, Pointer
from tests.simulation.scheduler import Violation

__all__ = ["Call", "Commits", "Marks", "Read", "Request", "State"]

Marks = tuple[str, ...] | None
"""The marks of a table in order; None if it is dropped or was never created."""


@dataclass
class Call:
    """One time that a request was sent."""

    invoked: int
    answer: str = "gone"
    """acknowledged, replayed, refused, unavailable, unknown; gone if nobody was there to hear it."""
    returned: int | None = None
    reason: str = ""


@dataclass
class Request:
    kind: str
    """mark, drop or make."""
    tables: tuple[str, ...]
    mark: str
    expected: str | bool | None = True
    """The mark that must be the last one on the first table; True for no matter which."""
    key: IdempotencyKey | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        return bool(self.calls) and self.calls[-1].answer in ("acknowledged", "replayed", "refused")


@dataclass(frozen=True)
class Read:
    table: str
    invoked: int
    returned: int
    marks: Marks


@dataclass(frozen=True)
class State:
    tick: int
    marks: Marks
    pointer: Pointer


@dataclass
class Commits:
    """The history of a run."""

    clock: int = 0
    requests: list[Request] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    pointers: dict[str, list[tuple[int, Pointer]]] = field(default_factory=dict)
    decisions: dict[str, tuple[int, str]] = field(default_factory=dict)
    files: dict[str, Marks] = field(default_factory=dict)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def on_create(self, path: str, data: bytes) -> None:
        """The disk created an object."""
        if "/pointers/" in path and "/floor/" not in path:
            pointer = msgspec.json.decode(data, type=Pointer)
            chain = self.pointers.setdefault(pointer.table_id, [])
            if pointer.number != len(chain) + 1:
                raise Violation("numbers are dense", f"{path} is created after number {len(chain)}")
            if pointer.state == "live" and self._file(pointer.metadata_location) not in self.files:
                raise Violation("files first", f"{path} is created before {pointer.metadata_location}")
            chain.append((self.tick(), pointer))
        elif "/txns/" in path:
            decision = msgspec.json.decode(data)
            self.decisions[decision["txn"]] = (self.tick(), decision["outcome"])
        elif "/metadata/" in path:
            self.files[path.rsplit("/", 1)[1]] = tuple(msgspec.json.decode(data)["marks"])

    @staticmethod
    def _file(location: str) -> str:
        return location.rsplit("/", 1)[1]

    def states(self, table: str) -> list[State]:
        """Everything that was in force, with the tick from which on it was."""
        chain = self.pointers.get(table, [])
        found = []
        for index, (tick, pointer) in enumerate(chain):
            over = chain[index + 1][0] if index + 1 < len(chain) else None
            if pointer.txn is not None:
                decided, outcome = self.decisions.get(pointer.txn, (None, ""))
                if over is not None and (decided is None or decided > over):
                    raise Violation("undecided pointers stay", f"pointer {pointer.number} of {table} was superseded")
                if decided is None or outcome != "committed":
                    continue
                if decided < tick:
                    raise Violation("prepared, then committed", f"{pointer.txn} was committed before it was prepared")
                tick = decided
            marks = self.files[self._file(pointer.metadata_location)] if pointer.state == "live" else None
            found.append(State(tick, marks, pointer))
        return found

    def during(self, table: str, begin: int, end: int) -> list[Marks]:
        """What was in force at some moment of an interval."""
        states = [State(0, None, None), *self.states(table)]  # type: ignore[arg-type]
        return [
            state.marks
            for index, state in enumerate(states)
            if state.tick <= end and (index + 1 == len(states) or states[index + 1].tick >= begin)
        ]

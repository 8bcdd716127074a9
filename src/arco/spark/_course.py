"""`Course`: the order in which the stages of a log run when each of them is spread over many machines.

- A *step* is a stage with its number among all stages of the log.
- A *round* is what runs between two shuffles. Stages that see events only make up the first round; a stage that sees
  changes of others runs in the round after the last of them. Domains do not see each other, so they share the rounds.
- The *closing* round brings together what concerns one event: its audit, what it changed, why it was rejected.
- The *last* round writes the rejections, which have names only then.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from arco.log import EventType
from arco.spark._typed import TypedEvents
from arco.state import ByField, Definition, Domain, RetentionAdvanced, Stage

__all__ = ["Course", "Step"]


@dataclass(frozen=True, eq=False)
class Step:
    number: int
    domain: Domain
    stage: Stage
    round: int
    may_audit: bool
    """It folds events that are audited themselves."""


class Course:
    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.steps = tuple(_steps(definition))
        self.closing = max(step.round for step in self.steps) + 1
        self.last = self.closing + 1
        self.folding: dict[str, list[tuple[Step, int]]] = {}
        """By type of event, the steps that fold it, with the place of the type among those the stage names."""
        self.watching: dict[str, list[Step]] = {}
        """By table, the steps that see its changes."""
        for step in self.steps:
            for place, name in enumerate(step.stage.events):
                self.folding.setdefault(name, []).append((step, place))
            for table in step.stage.changes:
                self.watching.setdefault(table.name, []).append(step)
        self.plain = _plain(self)
        """By type of event, the steps that fold it; of types of which nothing else is to be seen."""
        self.fields = _fields(self)
        """By type of event, the steps that fold it and the fields of the payload that tell the groups; of plain types
        of which nothing else tells them."""
        needed = {name: {field for _, field in steps} for name, steps in self.fields.items()}
        self.typed = TypedEvents(definition.registry, needed)
        self.audits: dict[str, EventType] = {kind.name: kind for kind in definition.registry if kind.audit is not None}


def _steps(definition: Definition) -> Iterator[Step]:
    number = 0
    audited = {kind.name for kind in definition.registry if kind.audit is not None}
    for domain in definition.domains:
        rounds: dict[str, int] = {}
        for stage in domain.stages:
            turn = max((rounds[table.name] + 1 for table in stage.changes), default=0)
            rounds |= {table.name: turn for table in stage.tables}
            yield Step(number, domain, stage, turn, "*" in stage.events or not audited.isdisjoint(stage.events))
            number += 1


def _plain(course: Course) -> dict[str, tuple[Step, ...]]:
    """Types without parts, attachment, audit and retention."""
    return {
        kind.name: tuple(step for step, _ in course.folding.get(kind.name, ()))
        for kind in course.definition.registry
        if kind.audit is None
        and kind.parts is None
        and kind.attachment is None
        and not issubclass(kind.payload, RetentionAdvanced)
    }


def _fields(course: Course) -> dict[str, tuple[tuple[int, str], ...]]:
    """A type that nobody folds is not among them: only who decodes all of it sees that it does not fit."""
    found = {}
    for name, steps in course.plain.items():
        groups = [(step.number, step.stage.group) for step in steps]
        fields = tuple((number, group.field) for number, group in groups if isinstance(group, ByField))
        if fields and len(fields) == len(groups):
            found[name] = fields
    return found

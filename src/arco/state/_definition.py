"""`Definition`: everything a program knows of one log: its domains with the system's own, their events and tables."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from arco.core import Invalid
from arco.log import Command, EventRegistry, NewEvent
from arco.state._domain import Decision, Domain, View, new_event
from arco.state._system import AUDIT, NOTHING_CHANGED, REJECTIONS, NothingChanged, system_domain
from arco.state._table import Table

__all__ = ["Definition", "define_log"]


@dataclass(frozen=True, eq=False)
class Definition:
    log: str
    domains: tuple[Domain, ...]
    registry: EventRegistry
    tables: dict[str, Table]
    versions: dict[str, int]

    async def decide(self, command: Command, view: View, received: int) -> list[NewEvent]:
        """Validate a command by the decider of its name.

        One that has nothing to do but carries a request key still leaves an event, so that its key is remembered.
        """
        for domain in self.domains:
            if command.name in domain.commands:
                kind, decider = domain.commands[command.name]
                try:
                    asked = msgspec.json.decode(command.data, type=kind)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise Invalid(f"the command {command.name} does not fit: {error}") from error
                events = await decider(asked, view, Decision(command, received))
                if command.key and not events:
                    return [new_event(NOTHING_CHANGED, NothingChanged(command.name))]
                return events
        raise Invalid(f"the log {self.log} knows no command {command.name!r}")


def define_log(log: str, domains: Iterable[Domain]) -> Definition:
    """Put domains together to a log; the names of tables, events and commands must be unique in it."""
    given = tuple(domains)
    expiring: set[str] = set()
    holds = {name: hold for domain in given for name, hold in domain.holds.items()}
    system = system_domain(log, expiring, holds)
    every_table = (REJECTIONS, AUDIT, *(table for domain in (system, *given) for table in domain.tables))
    expiring |= {table.name for table in every_table if table.time and not table.expires_with}
    together = {table.expires_with for table in every_table if table.expires_with}
    if not together | set(holds) <= expiring:
        raise Invalid(f"the log {log} has no table {sorted((together | set(holds)) - expiring)} that expires")
    every = (system, *given)
    tables: dict[str, Table] = {}
    commands: set[str] = set()
    for domain in every:
        if domain.log != log:
            raise Invalid(f"the domain {domain.name} folds the log {domain.log}, not {log}")
        for table in domain.tables:
            if table.name in tables:
                raise Invalid(f"the table {table.name} is declared twice in the log {log}")
            tables[table.name] = table
        if commands & set(domain.commands):
            raise Invalid(f"a command of {domain.name} is declared twice in the log {log}")
        commands |= set(domain.commands)
    for table in (REJECTIONS, AUDIT):
        if table.name in tables:
            raise Invalid(f"the table {table.name} is the system's own in every log")
        tables[table.name] = table
    registry = EventRegistry(kind for domain in every for kind in domain.events)
    return Definition(log, every, registry, tables, {domain.name: domain.version for domain in every})

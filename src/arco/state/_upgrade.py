"""Upgrading state: what a program would fold anew because it knows more than the one that published, and whether what
came out of it is right.

State is a function of fold version and log, so an upgrade changes no data: a new revision replaces what was derived,
and the one before it stays readable. The way back is the same: the older program folds the log its own way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arco.log import Ledger
from arco.state._definition import Definition
from arco.state._digest import digest_rows
from arco.state._forward import fold_forward
from arco.state._layers import LayerReader
from arco.state._manifest import Manifest
from arco.state._replica import Replica
from arco.state._revisions import base_for, empty_manifest
from arco.storage import Store

__all__ = ["TableCheck", "UpgradePlan", "plan_upgrade", "verify_upgrade"]


@dataclass(frozen=True)
class UpgradePlan:
    """What this program makes of the newest revision of a log."""

    log: str
    revision: int
    before: Mapping[str, int]
    """Fold version of each domain in the revision."""
    after: Mapping[str, int]
    """Those of this program."""
    learned: tuple[str, ...]
    """Types of events that the revision skipped and this program knows."""
    unknown: tuple[str, ...]
    """Types that it skipped and this program does not know either."""
    is_refold: bool
    """Whether the log is folded anew."""

    @property
    def rising(self) -> tuple[str, ...]:
        return tuple(name for name, version in sorted(self.after.items()) if version != self.before.get(name, 0))

    @property
    def newer(self) -> tuple[str, ...]:
        """Domains that the revision folded with a newer version than this program has."""
        return tuple(name for name, version in sorted(self.before.items()) if version > self.after.get(name, 0))


def plan_upgrade(definition: Definition, head: Manifest) -> UpgradePlan:
    unknown: list[str] = []
    learned: list[str] = []
    for skip in head.skipped:
        name, _, version = skip.type.rpartition(" v")
        (learned if definition.registry.knows(name, int(version)) else unknown).append(skip.type)
    return UpgradePlan(
        log=definition.log,
        revision=head.number,
        before=dict(head.folds) if head.number else dict(definition.versions),
        after=dict(definition.versions),
        learned=tuple(learned),
        unknown=tuple(unknown),
        is_refold=base_for(definition, head).id != head.id,
    )


@dataclass(frozen=True)
class TableCheck:
    domain: str
    table: str
    rows: int
    changed: bool
    """Whether its rows may differ from those before: its domain has another fold version, or newer folds made those."""
    equal: bool
    """To a fold of the log in memory; of an unchanged domain also to what the revision before said."""


async def verify_upgrade(
    definition: Definition,
    store: Store,
    log: Ledger,
    before: Manifest,
    after: Manifest,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[TableCheck]:
    """Fold the log in memory; on the way at the revision before, compare what must not have changed, at the end all.

    Events that a skipped type hid may change any table, so nothing is compared with the revision before if it had some.
    Nor if newer folds made it: what is wrong there may be the very reason for the way back.
    """
    reader = LayerReader(store)
    old, new = Replica(definition, reader, before), Replica(definition, reader, after)
    refolded = Replica(definition, reader, empty_manifest(log.place))
    domains = {table.name: domain.name for domain in definition.domains for table in domain.tables}
    is_back = any(version > definition.versions.get(domain, 0) for domain, version in before.folds.items())
    changed = {
        name: is_back or bool(before.skipped) or before.folds.get(domain) != definition.versions[domain]
        for name, domain in domains.items()
    }
    through, same = after.link.number, dict.fromkeys(definition.tables, True)

    async def compare_with_before() -> None:
        for name, table in definition.tables.items():
            if not changed.get(name, True):
                found = digest_rows(table, await old.scan(table)), digest_rows(table, await refolded.scan(table))
                same[name] = found[0] == found[1]

    between = before.link.number
    if between:
        async for number in fold_forward(refolded, log, between, at_least=between):
            progress(number, through)
    if before.number:
        await compare_with_before()
    async for number in fold_forward(refolded, log, through, at_least=through):
        progress(number, through)
    checks = []
    for name, table in sorted(definition.tables.items()):
        live, anew = await new.scan(table), await refolded.scan(table)
        equal = digest_rows(table, live) == digest_rows(table, anew) and same[name]
        checks.append(TableCheck(domains.get(name, "system"), name, live.num_rows, changed.get(name, True), equal))
    return checks

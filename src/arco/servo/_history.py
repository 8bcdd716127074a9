"""History: how long what happened is kept, as rules and a pure function of a few facts and the time.

    rules  +  settings  +  what is known of each table  +  now   ->   reconcile   ->   intents

- A *rule* covers tables that are kept for the same time, with the setting that says for how long. What no rule covers
  is kept for ever; docs/retention.md has both lists.
- Retention moves by whole days in UTC, so that it moves at most once a day and a day of facts goes at once.
- An intent is carried out by `decide`, which looks at the state again.

Not to be mixed up with the versions of data and their files: those are `retire_versions`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from arco.core import DAY, format_time
from arco.domains.access import SETTINGS
from arco.domains.execution import OBSERVATIONS
from arco.domains.lineage import LINEAGE_EXECUTIONS
from arco.domains.orchestration import RUNS
from arco.domains.quality import CHECK_RESULTS, GATING_DECISIONS
from arco.domains.tables import TABLE_COMMITS
from arco.state import AUDIT, OPERATIONS, REJECTIONS, REQUESTS, Hold, Table

__all__ = ["DELETED_EDGES", "RULES", "Advance", "Expiring", "Rule", "reconcile_history"]

BOTH: Final = ("catalog", "activity")
ACTIVITY: Final = ("activity",)


@dataclass(frozen=True)
class Rule:
    """Tables that are kept for the same number of days."""

    setting: str
    logs: tuple[str, ...]
    tables: tuple[Table, ...]
    """Those that retention names; others may expire with them."""

    def before(self, settings: Mapping[str, int], now: int) -> int:
        """What is older than this may go."""
        return max(0, (now - settings[self.setting] * DAY) // DAY * DAY)

    def soonest(self, now: int) -> int:
        """Nothing younger than this may go, whatever is set."""
        return now - SETTINGS[self.setting].least * DAY


RULES: Final = (
    Rule("history.runs_days", ACTIVITY, (RUNS,)),
    Rule("history.checks_days", ACTIVITY, (CHECK_RESULTS, GATING_DECISIONS)),
    Rule("history.lineage_days", ACTIVITY, (LINEAGE_EXECUTIONS,)),
    Rule("history.observations_days", ACTIVITY, (OBSERVATIONS,)),
    Rule("history.table_commits_days", ACTIVITY, (TABLE_COMMITS,)),
    Rule("history.rejections_days", BOTH, (REJECTIONS,)),
    Rule("history.requests_days", BOTH, (OPERATIONS, REQUESTS)),
    Rule("history.audit_days", BOTH, (AUDIT,)),
)

DELETED_EDGES: Final = Rule("history.deleted_edges_days", ACTIVITY, ())
"""Edges of assets that are gone, which nobody has used or changed since. They go one by one, by an event of lineage."""


@dataclass(frozen=True)
class Expiring:
    """What is known of a table that expires, without reading it."""

    log: str
    table: str
    rule: Rule
    reached: int
    """What is older has expired already; 0 if nothing has."""
    oldest: int | None
    """Nothing that is stored is older; None if nothing is stored."""
    hold: Hold | None = None


@dataclass(frozen=True)
class Advance:
    """Let the rows of a table go that are older than this."""

    log: str
    table: str
    before: int
    rule: Rule
    reason: str


def reconcile_history(tables: Iterable[Expiring], settings: Mapping[str, int], now: int) -> tuple[Advance, ...]:
    """What is due: at most one step a day and table, and none where nothing would go."""
    found = []
    for one in tables:
        before = one.rule.before(settings, now)
        reason = f"older than {settings[one.rule.setting]} days ({one.rule.setting})"
        if one.hold is not None and one.hold.since < before:
            before = one.hold.since // DAY * DAY
            reason = f"{reason}; from {format_time(one.hold.since)} on kept because {one.hold.reason}"
        if one.oldest is not None and max(one.oldest, one.reached) < before:
            found.append(Advance(one.log, one.table, before, one.rule, reason))
    return tuple(found)

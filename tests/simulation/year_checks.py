"""What must be flat in a year, what may grow and how, and what must be true at its end.

- *Flat*: the last two months against two months after everything has set in (`Form.settled`).
- *Bounded*: never more than a number that follows from how packing is set.
- *Linear*: kept on purpose, and growing no faster than the work that is kept: the log in packs for as long as a rebuild
  is promised, the audit for seven years, versions and days for ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.year import Month, Year

__all__ = ["Check", "judge", "table_of"]

EXPIRING = (
    *("runs", "tasks", "plan_tasks", "dep_satisfaction", "attempts", "run_list", "timers"),
    *("check_results", "lineage_executions", "operations", "requests"),
)
"""Tables of which retention takes rows, within the year."""

FOR_EVER = ("audit", "materializations", "version_status", "lineage_execution_days", "namespaces")
FOLDERS = ("ledger", "packs", "state", "manifests", "iceberg", "data")
FLAT = ("state", "manifests", "iceberg", "warehouse", "data")
"""Folders whose objects must not become more."""

REQUESTS = ("create", "put", "get", "range", "head", "list")
"""Deletes follow creates, a day or a month later, and are free."""

NOISE = 0.15
"""By how much a month may differ from another one; what grew with age would be twice as much after half a year."""
STEEPER = 1.25
"""By how much more a month of the last third may add than one of the second."""


@dataclass(frozen=True)
class Check:
    what: str
    holds: bool
    detail: str = ""


def judge(year: Year) -> list[Check]:
    return [*_flat(year), *_bounded(year), *_linear(year), *_at_the_end(year)]


def _flat(year: Year) -> list[Check]:
    def check(what: str, value: Callable[[Month], float], slack: float = 0.0) -> Check:
        before, after = _mean(year, year.form.settled, value), _mean(year, len(year.months), value)
        return Check(f"flat: {what}", after <= before * (1 + NOISE) + slack, f"{before:,.2f} -> {after:,.2f}")

    def asked(name: str) -> Callable[[Month], float]:
        return lambda month: month.requests.get(name, 0.0)

    def objects(name: str) -> Callable[[Month], float]:
        return lambda month: month.stored[name].objects - month.floors[name] if name in month.stored else 0

    return [
        *(check(f"{name} a day", asked(name), slack=2.0) for name in REQUESTS),
        *(check(f"objects of {name}", objects(name), slack=10.0) for name in FLAT),
        check("files and folders but for segments and floors", _inodes),
        check("files and folders of backups", lambda month: month.vault_inodes),
        check("bytes of a manifest", lambda month: month.manifest),
        check("rows of what expires", lambda month: sum(month.rows.get(name, 0) for name in EXPIRING)),
        check("backups", lambda month: month.backups, slack=2.0),
        check("dollars a month", lambda month: month.dollars),
    ]


def _inodes(month: Month) -> float:
    return month.inodes - month.floors.total() - month.stored["ledger"].objects + month.floors["ledger"]


def _bounded(year: Year) -> list[Check]:
    """Loose segments are packed when enough have gathered, and collected within a day."""
    size, logs = year.form.packs, len(year.life.workspace.logs)
    most = logs * (size.keep + size.segments) + 2 * max(month.segments for month in year.months)
    found = max(month.stored["ledger"].objects - month.floors["ledger"] for month in year.months)
    return [Check("bounded: segments that are not packed", found <= most, f"{found:,} of {most:,.0f}")]


def _linear(year: Year) -> list[Check]:
    def check(what: str, value: Callable[[Month], float]) -> Check:
        third = len(year.months) // 3
        one, two, three = (value(year.months[number * third - 1]) for number in (1, 2, 3))
        early, late = (two - one) / third, (three - two) / third
        detail = f"{three:,.0f}, {early:,.0f} -> {late:,.0f} a month"
        return Check(f"linear: {what}", late <= early * STEEPER, detail)

    def rows(month: Month) -> float:
        return sum(month.rows.get(name, 0) for name in FOR_EVER)

    def log(month: Month) -> float:
        return sum(month.stored[name].bytes for name in ("packs", "ledger") if name in month.stored)

    return [
        check("rows that are kept", rows),
        check("bytes of the log", log),
        check("bytes of state", lambda month: month.stored["state"].bytes),
        check("bytes of backups", lambda month: month.vault.bytes),
        check("floors, one a collection and sequence", lambda month: month.floors.total()),
        check("rows in memory", lambda month: month.memory),
    ]


def _at_the_end(year: Year) -> list[Check]:
    end = year.end

    def none(what: str, wrong: Sequence[str]) -> Check:
        return Check(what, not wrong, "; ".join(wrong[:3]))

    return [
        none("`doctor` finds nothing", end.doctor),
        none("`rebuild --verify` gives the same rows", end.rebuild),
        none("every backup succeeded", end.backups),
        none(f"all of {end.acknowledged:,} acknowledged commands are in the log", end.lost),
    ]


def _mean(year: Year, last: int, value: Callable[[Month], float]) -> float:
    """Of the two months that end with this one."""
    months = year.months[last - 2 : last]
    return sum(map(value, months)) / len(months)


def table_of(months: Sequence[Month]) -> str:
    """Markdown: a row a month."""
    columns: list[tuple[str, Callable[[Month], str]]] = [
        ("month", lambda month: str(month.number)),
        *((f"{name} a day", _asked(name)) for name in REQUESTS),
        *((name, _stored(name)) for name in FOLDERS),
        ("floors", lambda month: f"{month.floors.total():,}"),
        ("inodes", lambda month: f"{month.inodes:,}"),
        ("manifest", lambda month: _size(month.manifest)),
        ("layers", lambda month: f"{month.layers:,}"),
        ("rows that expire", lambda month: f"{sum(month.rows.get(name, 0) for name in EXPIRING):,}"),
        ("rows kept", lambda month: f"{sum(month.rows.get(name, 0) for name in FOR_EVER):,}"),
        ("rows in memory", lambda month: f"{month.memory:,}"),
        ("backups", lambda month: f"{month.backups} ({month.vault.objects:,}, {_size(month.vault.bytes)})"),
        ("$ a month", lambda month: f"{month.dollars:.3f}"),
    ]
    lines = [[name for name, _ in columns], ["---", *("---:" for _ in columns[1:])]]
    lines += [[text(month) for _, text in columns] for month in months]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _asked(name: str) -> Callable[[Month], str]:
    return lambda month: f"{month.requests.get(name, 0):,.0f}"


def _stored(name: str) -> Callable[[Month], str]:
    def text(month: Month) -> str:
        found = month.stored.get(name)
        return f"{found.objects:,} ({_size(found.bytes)})" if found is not None else "0"

    return text


def _size(count: float) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"

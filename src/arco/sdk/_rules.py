"""Checks as rules: `checks=[not_null("order_id"), row_count(min=1), between("amount", 0)]`.

Each function returns a frozen definition that any engine can carry out. Rules about rows take `where=` (only these
rows) and two levels: more failing rows than `error=` are as bad as `severity` says, more than `warn=` are a warning. A
level is a number of rows or a `Percent`. Without levels no row may fail.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from arco.assets import (
    ROW_COUNT,
    AcceptedValues,
    Anomaly,
    Between,
    CheckDefinition,
    Constant,
    Fresh,
    Limit,
    Matches,
    NotNull,
    Percent,
    References,
    RowCount,
    Rows,
    Rule,
    SchemaMatches,
    Severity,
    SqlCheck,
    Unique,
    check_pattern,
    default_name,
)
from arco.core import Invalid, check_name, shown
from arco.sdk._values import seconds_of
from arco.sdk._where import Where

if TYPE_CHECKING:
    from arco.sdk._asset import Asset

__all__ = [
    "accepted_values",
    "anomaly",
    "between",
    "fresh",
    "matches",
    "not_null",
    "references",
    "row_count",
    "schema_matches",
    "sql_check",
    "unique",
]

Plain = str | int | float | Decimal | bool | date | datetime
Level = int | Percent
AnySeverity = Severity | str

_NAME_MAX = 128
_SAMPLES_MAX = 1000
_HISTORY = 5
_VERSIONS_MAX = 1000


def not_null(
    column: str,
    *,
    where: str = "",
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """No value is null: `not_null("email", warn=Percent(1), error=Percent(5))`."""
    at = _At("not_null", severity, samples, name, description)
    return at.made(NotNull(at.column(column), **at.levels(where, warn, error)))


def unique(
    *columns: str,
    where: str = "",
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """No two rows have the same values: `unique("order_id")`, `unique("day", "region")`.

    Each row that repeats an earlier one fails. Rows with a null in one of the columns are not compared.
    """
    at = _At("unique", severity, samples, name, description)
    return at.made(Unique(at.columns(columns), **at.levels(where, warn, error)))


def between(
    column: str,
    min: Plain | None = None,
    max: Plain | None = None,
    *,
    where: str = "",
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """Every value is from `min` to `max`, both included: numbers, texts, dates or times. Nulls pass."""
    at = _At("between", severity, samples, name, description)
    low, high = (None if bound is None else at.constant(bound) for bound in (min, max))
    if low is None and high is None:
        at.refuse("it has neither min nor max", "give at least one of them")
    return at.made(Between(at.column(column), low, high, **at.levels(where, warn, error)))


def accepted_values(
    column: str,
    values: Iterable[Plain],
    *,
    where: str = "",
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """Every value is one of these: `accepted_values("status", ["open", "paid"])`. Nulls pass."""
    at = _At("accepted_values", severity, samples, name, description)
    if isinstance(values, str):
        at.refuse("its values are one text", "write them as a list")
    constants = tuple(dict.fromkeys(at.constant(value) for value in values))
    if not constants:
        at.refuse("it has no values", "name those that are accepted")
    return at.made(AcceptedValues(at.column(column), constants, **at.levels(where, warn, error)))


def matches(
    column: str,
    pattern: str,
    *,
    where: str = "",
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """A regular expression is found in every text: `matches("email", "^[^@]+@[^@]+$")`. Nulls pass.

    Only what all engines read alike: no looking around, no named groups, no references to groups.
    """
    at = _At("matches", severity, samples, name, description)
    at.text("the pattern", pattern)
    at.where.checked("matches", lambda: check_pattern(pattern))
    return at.made(Matches(at.column(column), pattern, **at.levels(where, warn, error)))


def references(
    columns: str | Iterable[str],
    asset: "Asset[..., Any] | str",
    to: str | Iterable[str] = (),
    *,
    where: str = "",
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """Every value is one of another asset's: `references("customer_id", customers, "id")`. Nulls pass.

    The other asset must be a parameter of the function: the versions that the task reads are those that are compared.
    `to` are its columns, by default those of the same names.
    """
    at = _At("references", severity, samples, name, description)
    own = at.columns((columns,) if isinstance(columns, str) else columns)
    theirs = at.columns((to,) if isinstance(to, str) else tuple(to) or own)
    if len(own) != len(theirs):
        at.refuse(f"it compares {len(own)} columns with {len(theirs)}", "name one column there for each column here")
    key = asset if isinstance(asset, str) else at.where.checked("references", lambda: asset.key)
    return at.made(References(own, key, theirs, **at.levels(where, warn, error)))


def sql_check(
    name: str,
    sql: str,
    *,
    warn: Level | None = None,
    error: Level | None = None,
    severity: AnySeverity = Severity.ERROR,
    samples: int = 0,
    description: str = "",
) -> CheckDefinition:
    """A query that returns the rows that are wrong; none is good.

    `data` is the version that is checked, and inputs have the names of their parameters:
    `sql_check("no_gaps", "SELECT * FROM data WHERE amount < 0")`. A condition on the whole is a query too:
    `SELECT 1 FROM data HAVING sum(amount) < 0`. It is written in the SQL of the asset's engine.
    """
    at = _At("sql_check", severity, samples, name, description)
    at.text("the query", sql)
    if ";" in sql.strip().rstrip(";"):
        at.refuse("the query has a semicolon in it", "give one query")
    return at.made(SqlCheck(sql, **at.levels("", warn, error)))


def row_count(
    min: int | None = None,
    max: int | None = None,
    *,
    where: str = "",
    severity: AnySeverity = Severity.ERROR,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """So many rows: `row_count(min=1)`. With `where`, so many rows of that sort."""
    at = _At("row_count", severity, 0, name, description)
    for bound in (min, max):
        if bound is not None and not _is_count(bound):
            at.refuse(f"{shown(str(bound))} is no number of rows", "use 0 or more")
    if min is None and max is None:
        at.refuse("it has neither min nor max", "give at least one of them")
    if min is not None and max is not None and min > max:
        at.refuse(f"min is {min} and max is {max}", "the first must not be greater")
    return at.made(RowCount(min, max, at.condition(where)))


def fresh(
    column: str,
    within: float | timedelta,
    *,
    warn: float | timedelta | None = None,
    where: str = "",
    severity: AnySeverity = Severity.ERROR,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """The newest time of a column is not older than `within`: `fresh("ordered_at", timedelta(hours=6))`.

    Its age is counted back from the end of the partition's window, or from the time of the run if there is none or it
    has not ended. Older than `warn`, which is less, is a warning. Times without a zone are in UTC.
    """
    at = _At("fresh", severity, 0, name, description)
    limit, worth_a_warning = at.seconds(within), None if warn is None else at.seconds(warn)
    if worth_a_warning is not None:
        at.check_two_levels()
        if worth_a_warning >= limit:
            at.refuse("warn is not less than within", "correct one of them")
    return at.made(Fresh(at.column(column), limit, worth_a_warning, at.condition(where)))


def schema_matches(
    columns: Mapping[str, str] | Iterable[str],
    *,
    extra: bool = False,
    severity: AnySeverity = Severity.ERROR,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """The columns are these: names, or types by name as the catalog writes them. `extra` allows others as well.

    An asset that declares `schema=` fails if it returns something else; this leaves that to its gating policy.
    """
    at = _At("schema_matches", severity, 0, name, description)
    if isinstance(columns, str):
        at.refuse("its columns are one text", "write them as a list, or as types by name")
    named = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns, "")
    at.columns(tuple(named))
    return at.made(SchemaMatches(named, bool(extra)))


def anomaly(
    measure: str = ROW_COUNT,
    *,
    deviations: float | None = None,
    percent: float | None = None,
    versions: int = 30,
    at_least: int | None = None,
    where: str = "",
    severity: AnySeverity = Severity.ERROR,
    name: str = "",
    description: str = "",
) -> CheckDefinition:
    """A number is about what it was in the last good versions: `anomaly()`, `anomaly("sum(amount)", percent=50)`.

    It may be so many standard `deviations` (3, if nothing is said) or so many `percent` away from their mean. They are
    those of the windows before, or of the same partition if the asset has no windows. With fewer than `at_least` (5, or
    `versions` if that is less) it passes and says so.
    """
    at = _At("anomaly", severity, 0, name, description)
    at.text("the measure", measure)
    if deviations is not None and percent is not None:
        at.refuse("it has both deviations and percent", "choose one")
    if not 1 <= versions <= _VERSIONS_MAX:
        at.refuse(f"it looks at {versions} versions", f"use 1 to {_VERSIONS_MAX}")
    for number in (deviations, percent):
        if number is not None and not (number > 0 and isfinite(number)):
            at.refuse(f"{number} is no distance", "use more than 0")
    enough = min(_HISTORY, versions) if at_least is None else at_least
    if not 1 <= enough <= versions:
        at.refuse(f"it needs at least {enough} versions of {versions}", f"use 1 to {versions}")
    if deviations is None and percent is None:
        deviations = 3.0
    return at.made(Anomaly(measure.strip(), versions, enough, deviations, percent, at.condition(where)))


class _At:
    """A rule that is being written, and where: what is wrong with it is told with file, line and cure."""

    def __init__(self, what: str, severity: AnySeverity, samples: int, name: str, description: str) -> None:
        self.where = Where.of_caller()
        self._what = what
        if severity not in set(Severity):
            self.refuse(f"the severity is {shown(str(severity))}", f"use {', '.join(Severity)}")
        if not _is_count(samples) or samples > _SAMPLES_MAX:
            self.refuse(f"samples is {shown(str(samples))}", f"use 0 to {_SAMPLES_MAX}")
        if name:
            self.where.checked(what, lambda: check_name("check name", name))
        self._severity = Severity(severity)
        self._samples = int(samples)
        self._name = name
        self._description = description

    def refuse(self, message: str, cure: str) -> None:
        self.where.refuse(f"{self._what}: {message}", cure)

    def made(self, rule: Rule) -> CheckDefinition:
        name = self._name or default_name(rule)
        if len(name) > _NAME_MAX:
            self.refuse("its columns are too many for a name", "give it one with name=")
        return CheckDefinition(name, "", self._severity, self._description, rule, self._samples)

    def text(self, what: str, value: object) -> None:
        if not isinstance(value, str) or not value.strip():
            self.refuse(f"{what} is {'empty' if value == '' else shown(str(value))}", "write it as text")

    def column(self, name: str) -> str:
        return self.columns((name,))[0]

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        several = tuple(names)
        if not several:
            self.refuse("it names no column", "name at least one")
        for name in several:
            self.text("the name of a column", name)
        if len(set(several)) < len(several):
            self.refuse("it names a column twice", "name each once")
        return several

    def condition(self, where: str) -> str:
        if not isinstance(where, str):
            self.refuse(f"where is of type {type(where).__name__}", "write an SQL condition as text")
        return where.strip()

    def seconds(self, value: float | timedelta) -> float:
        seconds = seconds_of(value)
        if not (seconds > 0 and isfinite(seconds)):
            self.refuse(f"{seconds} seconds is no age", "use more than 0")
        return seconds

    def check_two_levels(self) -> None:
        if self._severity in (Severity.INFO, Severity.WARNING):
            self.refuse(f"it has warn= and the severity {self._severity}", "leave out warn=, or use a worse severity")

    def levels(self, where: str, warn: Level | None, error: Level | None) -> dict[str, Any]:
        if warn is not None and error is not None:
            self.check_two_levels()
        limits = {"warn": self._limit("warn", warn), "error": self._limit("error", error)}
        low, high = limits["warn"], limits["error"]
        if type(low) is type(high) and low is not None and high is not None and low.most >= high.most:
            self.refuse("warn is not less than error", "correct one of them")
        return {"where": self.condition(where), **limits}

    def _limit(self, what: str, level: Level | None) -> Limit | None:
        if level is None:
            return None
        if isinstance(level, Percent):
            if not 0 <= level.most < 100:
                self.refuse(f"{what}={level.most} percent", "use 0 to less than 100")
            return Percent(float(level.most))
        if not _is_count(level):
            self.refuse(f"{what} is {shown(str(level))}", "write a number of rows, or Percent(5)")
        return Rows(level)

    def constant(self, value: Plain) -> Constant:
        found: Constant = self.where.checked(self._what, lambda: _constant(value))
        return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _constant(value: Plain) -> Constant:
    match value:
        case bool():
            return Constant("boolean", str(value).lower())
        case int():
            return Constant("int", str(value))
        case float() if isfinite(value):
            return Constant("float", repr(value))
        case Decimal() if value.is_finite():
            return Constant("decimal", f"{value:f}")
        case str():
            return Constant("string", value)
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return Constant("timestamp", moment.isoformat(sep=" "))
        case date():
            return Constant("date", value.isoformat())
    raise Invalid(f"{shown(str(value))} is no value that data can have; use a number, text, bool, date or datetime")

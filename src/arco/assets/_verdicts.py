"""Verdicts: from numbers to whether a check passed, how bad it is if not, and how to say it. Pure.

- `Facts`: what is known besides the numbers: columns, the moment, earlier versions.
- `NoValue`: a number that could not be had. A check that misses one gives no result, and that blocks.
- `unfit`: whether the columns are those that a rule needs, before anything is run.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from statistics import fmean, stdev
from typing import Final, TypeAlias

import msgspec

from arco.assets._definition import CheckDefinition, SchemaColumn, Severity
from arco.assets._measures import Views, measures_of, queries_of
from arco.assets._rules import (
    AcceptedValues,
    Anomaly,
    Between,
    Constant,
    Fresh,
    Limit,
    Matches,
    NotNull,
    Percent,
    References,
    RowCount,
    RowRule,
    Rows,
    SchemaMatches,
    Unique,
    rule_columns,
)

__all__ = ["UNKNOWN", "Facts", "NoValue", "Values", "Verdict", "judge", "unfit"]


class NoValue(msgspec.Struct, frozen=True):
    reason: str


UNKNOWN: Final = "unknown"
"""The type of a column in which no value was seen."""
_LEAST_ROOM: Final = 0.01
"""A history in which nothing ever moved still allows for this part of its mean."""

_MOST_VALUES: Final = 5
_MOST_LETTERS: Final = 60
"""Of accepted values and of a pattern, in a sentence."""

_NOT_MEASURED: Final = NoValue("it was not measured")

_FAMILIES: Final = {
    "boolean": "boolean",
    "int": "number",
    "long": "number",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "string": "text",
    "date": "time",
    "timestamp": "time",
    "timestamptz": "time",
}
"""Types that may be compared with each other."""


Values: TypeAlias = Mapping[str, float | NoValue | None]
"""Numbers by the names of measures and queries; None where SQL gave null."""


class Facts(msgspec.Struct, frozen=True):
    columns: tuple[SchemaColumn, ...] | None = None
    """Those of the data, with types as the catalog writes them; None if it is no table."""
    now: int = 0
    """The time of the run, in microseconds since 1970."""
    window_end: int | None = None
    """The end of the partition's time window, if it has one."""
    history: Mapping[str, Sequence[float]] = {}
    """What earlier good versions had, newest first, by the names of checks that ask for it."""


class Verdict(msgspec.Struct, frozen=True):
    passed: bool | None
    """None if there is no result."""
    severity: Severity
    message: str = ""
    expected: str | None = None
    actual: str | None = None


def judge(check: CheckDefinition, values: Values, facts: Facts, views: Views | None = None) -> Verdict:
    """What the numbers say. `views` are those that the check's queries were made with."""
    refused = None if facts.columns is None else unfit(check, facts.columns)
    if refused is not None:
        return refused
    views = views or {}
    needed = [*(part.name for part in measures_of(check)), *(part.name for part in queries_of(check, views))]
    for name in needed:
        value = values.get(name, _NOT_MEASURED)
        if isinstance(value, NoValue):
            return _no_result(check, value.reason)
    numbers = [value if isinstance(value := values[name], int | float) else None for name in needed]
    match check.rule:
        case RowRule() as rule:
            return _rows_verdict(check, rule, numbers[0], numbers[-1])
        case RowCount() as rule:
            return _count_verdict(check, rule, numbers[0])
        case Fresh() as rule:
            return _fresh_verdict(check, rule, numbers[0], numbers[1], facts)
        case SchemaMatches() as rule if facts.columns is not None:
            return _schema_verdict(check, rule, facts.columns)
        case Anomaly() as rule:
            return _anomaly_verdict(check, rule, numbers[0], facts.history.get(check.name, ()))
    return _no_result(check, "there are no columns to compare")


def unfit(check: CheckDefinition, columns: Sequence[SchemaColumn]) -> Verdict | None:
    """Why a rule cannot be asked of data with these columns, as a check without a result; None if it can."""
    rule = check.rule
    types = {column.name: column.type for column in columns}
    for name in rule_columns(rule) if rule is not None else ():
        if name not in types:
            near = get_close_matches(name, types, 1)
            cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(list(types)[:10]) or 'no columns'}"
            return _no_result(check, f"the column {name} is not there; {cure}")
        found = _FAMILIES.get(types[name].partition("(")[0])
        wanted = _wanted(check)
        if found is not None and wanted and found not in wanted:
            return _no_result(check, f"the column {name} is {types[name]}, and the rule asks for {' or '.join(wanted)}")
    return None


def _wanted(check: CheckDefinition) -> tuple[str, ...]:
    """The families of types of which the rule's columns may be; empty for any."""
    constants: tuple[Constant | None, ...] = ()
    match check.rule:
        case Matches():
            return ("text",)
        case Fresh():
            return "time", "text"
        case Between() as rule:
            constants = (rule.min, rule.max)
        case AcceptedValues() as rule:
            constants = rule.values
    return tuple(sorted({_FAMILIES.get(one.type, "number") for one in constants if one is not None}))


def _no_result(check: CheckDefinition, reason: str) -> Verdict:
    return Verdict(None, check.severity, f"no result: {reason}")


# Rules about rows


def _rows_verdict(check: CheckDefinition, rule: RowRule, total: float | None, failing: float | None) -> Verdict:
    if total is None or failing is None:
        return _no_result(check, "the rows could not be counted")
    error = rule.error if rule.error is not None or rule.warn is not None else Rows(0)
    fault = f"{_fault(check, rule)} in {_part(failing, total)}"
    for limit, severity in ((error, check.severity), (rule.warn, Severity.WARNING)):
        if limit is not None and _exceeds(failing, total, limit):
            message = f"{fault}, and {_limit_text(limit)} may be so"
            return Verdict(False, severity, message, _limit_text(limit), _part(failing, total))
    kept = error or rule.warn
    assert kept is not None
    message = f"{fault}, and {_limit_text(kept)} may be so" if failing else ""
    return Verdict(True, check.severity, message, _limit_text(kept), _part(failing, total))


def _exceeds(failing: float, total: float, limit: Limit) -> bool:
    if isinstance(limit, Rows):
        return failing > limit.most
    return 100 * failing > limit.most * max(total, 1)


def _fault(check: CheckDefinition, rule: RowRule) -> str:
    match rule:
        case NotNull():
            return f"{rule.column} is null"
        case Unique():
            return f"{', '.join(rule.columns)} repeats what an earlier row has"
        case Between():
            return f"{rule.column} is not {_limits(rule)}"
        case AcceptedValues():
            more = ", ..." if len(rule.values) > _MOST_VALUES else ""
            return f"{rule.column} is none of {', '.join(map(_constant, rule.values[:_MOST_VALUES]))}{more}"
        case Matches():
            return f"{rule.column} does not match {_shortened(rule.pattern)}"
        case References():
            return f"{', '.join(rule.columns)} is not to be found in {rule.asset}"
    return f"the query of {check.name} finds a fault"


def _limits(rule: Between) -> str:
    if rule.min is not None and rule.max is not None:
        return f"between {_constant(rule.min)} and {_constant(rule.max)}"
    return f"at least {_constant(rule.min)}" if rule.min is not None else f"at most {_constant(rule.max)}"


def _constant(one: Constant | None) -> str:
    if one is None:
        return "anything"
    return f"{int(one.text):,}" if one.type == "int" else _shortened(one.text)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _part(failing: float, total: float) -> str:
    share = f" ({100 * failing / total:.3g} %)" if total and failing else ""
    return f"{failing:.0f} of {total:.0f} rows{share}"


def _limit_text(limit: Limit) -> str:
    if isinstance(limit, Percent):
        return f"at most {limit.most:g} % of the rows"
    if not limit.most:
        return "no row"
    return "at most 1 row" if limit.most == 1 else f"at most {limit.most:,} rows"


# The others


def _count_verdict(check: CheckDefinition, rule: RowCount, count: float | None) -> Verdict:
    if count is None:
        return _no_result(check, "the rows could not be counted")
    expected = _range_text(rule.min, rule.max)
    is_good = (rule.min is None or count >= rule.min) and (rule.max is None or count <= rule.max)
    message = "" if is_good else f"there are {count:.0f} rows; expected are {expected}"
    return Verdict(is_good, check.severity, message, expected, f"{count:.0f}")


def _range_text(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return f"at least {low}" if high is None else f"at most {high}"
    return f"{low}" if low == high else f"{low} to {high}"


def _fresh_verdict(
    check: CheckDefinition, rule: Fresh, count: float | None, newest: float | None, facts: Facts
) -> Verdict:
    if count and newest is None:
        return _no_result(check, f"{rule.column} has no time in any row")
    if newest is None:
        return Verdict(False, check.severity, "there are no rows, so that nothing is fresh", _age(rule.within_seconds))
    # A window that is still open ends in the future; nothing can be as new as that.
    moment = facts.now if facts.window_end is None else min(facts.window_end, facts.now)
    age = (moment - newest) / 1_000_000
    for limit, severity in ((rule.within_seconds, check.severity), (rule.warn_seconds, Severity.WARNING)):
        if limit is not None and age > limit:
            message = f"the newest {rule.column} is {_duration(age)} old; expected is {_age(limit)}"
            return Verdict(False, severity, message, _age(limit), _duration(age))
    return Verdict(True, check.severity, "", _age(rule.within_seconds), _duration(age))


def _age(seconds: float) -> str:
    return f"at most {_duration(seconds)}"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if seconds >= 0 else f"-{timedelta(seconds=round(-seconds))}"


def _schema_verdict(check: CheckDefinition, rule: SchemaMatches, columns: Sequence[SchemaColumn]) -> Verdict:
    found = {column.name: column.type for column in columns}
    wrong = [
        f"{name} is missing" if name not in found else f"{name} is {found[name]} and not {kind}"
        for name, kind in rule.columns.items()
        if name not in found or (kind and found[name] not in (kind, UNKNOWN))
    ]
    if not rule.extra:
        wrong += [f"{name} is not expected" for name in found if name not in rule.columns]
    expected = ", ".join(f"{name} {kind}".strip() for name, kind in rule.columns.items())
    actual = ", ".join(f"{name} {kind}" for name, kind in found.items())
    return Verdict(not wrong, check.severity, "; ".join(wrong), expected, actual)


def _anomaly_verdict(check: CheckDefinition, rule: Anomaly, value: float | None, history: Sequence[float]) -> Verdict:
    if value is None or not math.isfinite(value):
        return _no_result(check, f"{rule.measure} has no value")
    past = [number for number in history if math.isfinite(number)][: rule.versions]
    actual = f"{value:.17g}"
    if len(past) < rule.at_least:
        said = f"too little to compare with: {len(past)} earlier versions of at least {rule.at_least}"
        return Verdict(True, check.severity, said, None, actual)
    mean = fmean(past)
    room = abs(mean) * (rule.percent or 0) / 100
    if rule.deviations is not None:
        spread = stdev(past) if len(past) > 1 else 0.0
        room = max(rule.deviations * spread, _LEAST_ROOM * abs(mean))
    expected = f"{mean - room:.6g} to {mean + room:.6g}"
    is_good = abs(value - mean) <= room
    message = f"{rule.measure} is {value:.6g}; in {len(past)} earlier versions it was about {mean:.6g}"
    return Verdict(is_good, check.severity, "" if is_good else message, expected, actual)

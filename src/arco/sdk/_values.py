"""What people write inside decorators: partitions, mappings, dependencies, retries, secrets.

Each function returns a frozen value; most are the values of `arco.assets` themselves.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from arco.assets import (
    ONLY_DIMENSION,
    All,
    Backoff,
    Custom,
    Dimension,
    DynamicPartitions,
    GatingAction,
    GatingPolicy,
    Identity,
    Latest,
    Offset,
    SchemaColumn,
    SecretRef,
    Severity,
    StaticPartitions,
    TimePartitions,
    Window,
)
from arco.assets import Mapping as PartitionMapping
from arco.assets import Retries as RetriesDefinition
from arco.core import Invalid, shown

if TYPE_CHECKING:
    from arco.sdk._asset import Asset

__all__ = [
    "GATING",
    "Dep",
    "Moment",
    "Retries",
    "all_partitions",
    "columns_of",
    "cron_partitions",
    "custom",
    "daily",
    "dep",
    "dynamic",
    "hourly",
    "identity",
    "incremental",
    "latest",
    "monthly",
    "offset",
    "seconds_of",
    "secret",
    "static",
    "weekly",
    "window",
]

Moment = str | date | datetime
Exceptions = Iterable["type[BaseException] | str"] | type[BaseException] | str

_ONE_A_DAY = re.compile(r"\d+\s+\d+\s+.*", re.DOTALL)
_NOT_NULL = " not null"
_PII = " pii"


# Partitions


def daily(
    start: Moment,
    *,
    end: Moment | None = None,
    timezone: str = "UTC",
    exclude: Sequence[Moment] = (),
    name: str = "date",
) -> Dimension:
    """A partition per day, from midnight to midnight of the time zone."""
    return _time("0 0 * * *", "date", start, end, timezone, exclude, name)


def hourly(
    start: Moment,
    *,
    end: Moment | None = None,
    timezone: str = "UTC",
    exclude: Sequence[Moment] = (),
    name: str = "date",
) -> Dimension:
    """A partition per hour, named by its begin in UTC."""
    return _time("0 * * * *", "time", start, end, timezone, exclude, name)


def weekly(
    start: Moment,
    *,
    end: Moment | None = None,
    timezone: str = "UTC",
    exclude: Sequence[Moment] = (),
    name: str = "date",
) -> Dimension:
    """A partition per week, named by its Monday."""
    return _time("0 0 * * 1", "date", start, end, timezone, exclude, name)


def monthly(
    start: Moment,
    *,
    end: Moment | None = None,
    timezone: str = "UTC",
    exclude: Sequence[Moment] = (),
    name: str = "date",
) -> Dimension:
    """A partition per month, named by its first day."""
    return _time("0 0 1 * *", "date", start, end, timezone, exclude, name)


def cron_partitions(
    cron: str,
    start: Moment,
    *,
    end: Moment | None = None,
    timezone: str = "UTC",
    exclude: Sequence[Moment] = (),
    name: str = "date",
) -> Dimension:
    """A partition per window between two ticks of a cron expression.

    Windows are named by their day if the expression is for one time of day, else by their begin in UTC.
    """
    values = "date" if _ONE_A_DAY.fullmatch(cron.strip()) else "time"
    return _time(cron, values, start, end, timezone, exclude, name)


def static(name: str, keys: Iterable[str]) -> Dimension:
    """A partition per key."""
    if isinstance(keys, str):
        raise Invalid(f"the keys of static({shown(name)}, ...) are one text; write them as a list")
    return Dimension(name, StaticPartitions(tuple(keys)))


def dynamic(name: str) -> Dimension:
    """A partition per key that was added to the workspace under this name."""
    return Dimension(name, DynamicPartitions(name))


def _time(
    cron: str, values: str, start: Moment, end: Moment | None, timezone: str, exclude: Sequence[Moment], name: str
) -> Dimension:
    if isinstance(exclude, str):
        raise Invalid(f"exclude={shown(exclude)} is one text; write it as a list")
    exclusions = tuple(_text(moment) for moment in exclude)
    partitions = TimePartitions(
        cron, _text(start), None if end is None else _text(end), timezone, exclusions=exclusions, values=values
    )
    return Dimension(name, partitions)


def _text(moment: Moment) -> str:
    return moment if isinstance(moment, str) else moment.isoformat()


# Mappings


def identity() -> PartitionMapping:
    """The same partition; of time windows of different length, those that overlap."""
    return Identity()


def all_partitions() -> PartitionMapping:
    return All()


def latest() -> PartitionMapping:
    """The newest partition that exists when the run is planned."""
    return Latest()


def window(start: int, end: int = 0) -> PartitionMapping:
    """The partitions from `start` to `end` places away: `window(-6)` is the same one and the six before it."""
    return Window(start, end)


def offset(by: int) -> PartitionMapping:
    """The partition so many places away: `offset(-1)` is the one before."""
    return Offset(by)


@dataclass(frozen=True)
class CustomFunction:
    """A custom mapping that is written out as soon as the asset's keys are known."""

    function: Callable[[str], str | Iterable[str]]

    def written_out(self, keys: Iterable[str]) -> Custom:
        return custom_keys({key: self.function(key) for key in keys})


def custom(keys: Mapping[str, str | Iterable[str]] | Callable[[str], str | Iterable[str]]) -> Custom | CustomFunction:
    """Keys of the dependency by key of the asset: a dictionary, or a function that is asked for each static key."""
    return CustomFunction(keys) if callable(keys) else custom_keys(keys)


def custom_keys(keys: Mapping[str, str | Iterable[str]]) -> Custom:
    return Custom({key: (chosen,) if isinstance(chosen, str) else tuple(chosen) for key, chosen in keys.items()})


AnyMapping = PartitionMapping | CustomFunction


# Dependencies


@dataclass(frozen=True)
class Dep:
    """A dependency before its asset is looked up."""

    key: str
    mappings: Mapping[str, AnyMapping]
    is_incremental: bool = False


def dep(asset: "Asset[..., Any] | str", mapping: AnyMapping | Mapping[str, AnyMapping] | None = None) -> Dep:
    """A dependency and which partitions of it are needed.

    The mapping is for the dependency's only dimension, or a dictionary by dimension. Without one, a dimension that both
    have is mapped to the same key, any other to all keys.
    """
    key = asset if isinstance(asset, str) else asset.key
    if mapping is None:
        return Dep(key, {})
    return Dep(key, dict(mapping) if isinstance(mapping, Mapping) else {ONLY_DIMENSION: mapping})


def incremental(asset: "Asset[..., Any] | str", mapping: AnyMapping | Mapping[str, AnyMapping] | None = None) -> Dep:
    """A dependency of which the function gets only what is new: `ins={"events": incremental("raw.events")}`.

    The frame holds the versions that the version which this one replaces (`context.previous`) was not made of: new
    partitions, and changed ones as a whole; `context.partitions_of("events")` tells which. Everything if there is
    nothing to go on from, which is then None: the first time, after the code changed, and in a run with `--force`.
    """
    return replace(dep(asset, mapping), is_incremental=True)


# Retries, checks, secrets, columns


@dataclass(frozen=True)
class Retries:
    """How often and how a failed attempt is repeated: `Retries(3, backoff="exponential", on=(ConnectionError,))`."""

    count: int
    """Attempts after the first one."""
    backoff: str = "exponential"
    """`fixed`, `linear` or `exponential`."""
    delay: float | timedelta = 1.0
    """Before the second attempt, in seconds."""
    max_delay: float | timedelta = 300.0
    jitter: float = 0.1
    """By which part of itself a delay may be longer or shorter."""
    on: Exceptions = ()
    """Only these exceptions, and what is derived from them; none for all."""
    never: Exceptions = ()
    """These exceptions never."""

    def definition(self) -> RetriesDefinition:
        if self.backoff not in set(Backoff):
            raise Invalid(f"there is no backoff {shown(str(self.backoff))}; use {', '.join(Backoff)}")
        return RetriesDefinition(
            count=self.count,
            delay_seconds=seconds_of(self.delay),
            backoff=Backoff(self.backoff),
            max_delay_seconds=seconds_of(self.max_delay),
            jitter=self.jitter,
            on=_class_names(self.on),
            never=_class_names(self.never),
        )


def _class_names(kinds: Exceptions) -> tuple[str, ...]:
    several: tuple[Any, ...] = (kinds,) if isinstance(kinds, str | type) else tuple(kinds)
    for kind in several:
        if not isinstance(kind, str) and not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise Invalid(
                f"a value of type {type(kind).__name__} is no exception class; name classes such as ConnectionError"
            )
    return tuple(sorted({kind if isinstance(kind, str) else _class_name(kind) for kind in several}))


def _class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def seconds_of(value: float | timedelta) -> float:
    return float(value.total_seconds() if isinstance(value, timedelta) else value)


def secret(name: str, variable: str = "") -> SecretRef:
    """A secret that is read from an environment variable where the asset runs, by default the one of its name."""
    return SecretRef(name, "env", variable or name)


def columns_of(schema: Mapping[str, str]) -> tuple[SchemaColumn, ...]:
    """Columns from `{"id": "long not null", "email": "string pii"}`; `pii` marks personal data."""
    columns = []
    for name, text in schema.items():
        kind, is_personal = _without(text.strip(), _PII)
        kind, is_required = _without(kind, _NOT_NULL)
        columns.append(SchemaColumn(name, kind, nullable=not is_required, pii=is_personal))
    return tuple(columns)


def _without(text: str, ending: str) -> tuple[str, bool]:
    has_it = text.lower().endswith(ending)
    return text[: -len(ending)].strip() if has_it else text, has_it


def _policy(name: str, default: GatingAction, **actions: GatingAction) -> GatingPolicy:
    return GatingPolicy(name, {Severity(severity).value: action for severity, action in actions.items()}, default)


GATING: Mapping[str, GatingPolicy] = {
    "strict": _policy(
        "strict",
        GatingAction.WARN,
        info=GatingAction.CONTINUE,
        warning=GatingAction.WARN,
        error=GatingAction.BLOCK_DOWNSTREAM,
        critical=GatingAction.FAIL_RUN,
    ),
    "lenient": _policy(
        "lenient",
        GatingAction.CONTINUE,
        info=GatingAction.CONTINUE,
        warning=GatingAction.CONTINUE,
        error=GatingAction.WARN,
        critical=GatingAction.BLOCK_DOWNSTREAM,
    ),
    "quarantine": _policy(
        "quarantine",
        GatingAction.CONTINUE,
        info=GatingAction.CONTINUE,
        warning=GatingAction.CONTINUE,
        error=GatingAction.QUARANTINE,
        critical=GatingAction.QUARANTINE,
    ),
}
"""What is done about failed checks. Strict: errors block, criticals end the run. Lenient: only criticals block.
Quarantine: bad data is set aside."""

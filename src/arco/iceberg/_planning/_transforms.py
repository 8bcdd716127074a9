"""Partition transforms: what a value becomes, and what a predicate on a column says about its partitions.

`project` answers with a condition that every partition with a matching row fulfils (Iceberg's inclusive projection), or
None if there is none. A partition that fulfils it may still have no matching row.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from arco.core import shown
from arco.iceberg._errors import BadRequest
from arco.iceberg._planning._murmur import murmur3
from arco.iceberg._planning._types import UNKNOWN, Value

__all__ = ["Condition", "Transform", "parse_transform"]

_PARAMETER = re.compile(r"(bucket|truncate)\[(\d{1,9})\]")
_TIMES = ("year", "month", "day", "hour")
_DAY = 86_400
_UNITS = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}


@dataclass(frozen=True, slots=True)
class Condition:
    """An operator and its values: `lt-eq` and one, `in` and several, `is-null` and none."""

    op: str
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Transform:
    """`name` is one that Iceberg has, or any other: then it says nothing."""

    name: str
    width: int = 0

    def result_type(self, source: str) -> str:
        if self.name in ("identity", "truncate", "void"):
            return source
        if self.name == "day":
            return "date"
        return "int" if self.name in ("bucket", *_TIMES) else UNKNOWN

    def apply(self, source: str, value: Value) -> Value | None:
        """What a value that is not null becomes; None if this transform does not take it."""
        if self.name == "identity":
            return value
        if self.name == "bucket":
            return self._bucket(source, value)
        if self.name == "truncate":
            return self._truncate(source, value)
        return _period(self.name, source, value) if self.name in _TIMES and isinstance(value, int) else None

    def project(self, source: str, condition: Condition) -> Condition | None:
        op = condition.op
        if self.name == "identity":
            return condition
        if self.name not in ("bucket", "truncate", *_TIMES):
            return None
        if op in ("is-null", "not-null"):
            return condition
        if op in ("eq", "in"):
            return self._fixed(_each(condition, lambda value: self.apply(source, value)))
        if self.name == "bucket" or op not in ("lt", "lt-eq", "gt", "gt-eq", "starts-with"):
            return None
        if isinstance(condition.values[0], str | bytes):
            found = _each(condition, lambda value: self.apply(source, value))
            return found and Condition({"lt": "lt-eq", "gt": "gt-eq"}.get(op, op), found.values)
        # Whole numbers: x < 5 is x <= 4, and only that can be rounded down.
        step = {"lt": -1, "gt": 1}.get(op, 0)
        found = _each(condition, lambda value: self.apply(source, value + step if isinstance(value, int) else value))
        return self._fixed(found and Condition("lt-eq" if op.startswith("lt") else "gt-eq", found.values))

    def _fixed(self, condition: Condition | None) -> Condition | None:
        """Iceberg up to 0.10 rounded times before 1970 towards it: their partitions may be one too high."""
        if condition is None or self.name not in _TIMES or condition.op == "gt-eq":
            return condition
        numbers = [value for value in condition.values if isinstance(value, int)]
        if condition.op == "lt-eq":
            return Condition("lt-eq", tuple(value + 1 if value < 0 else value for value in numbers))
        return Condition("in", (*numbers, *(value + 1 for value in numbers if value < 0)))

    def _bucket(self, source: str, value: Value) -> Value | None:
        if isinstance(value, bool | float):
            return None
        if isinstance(value, str):
            data = value.encode()
        elif isinstance(value, bytes):
            data = value
        elif source.startswith("decimal"):
            data = value.to_bytes(((value + (value < 0)).bit_length() + 8) // 8, "big", signed=True)
        else:
            number = value // 1000 if source.endswith("_ns") else value
            if not -(1 << 63) <= number < 1 << 63:
                return None
            data = number.to_bytes(8, "little", signed=True)
        return (murmur3(data) & 0x7FFFFFFF) % self.width

    def _truncate(self, source: str, value: Value) -> Value | None:
        if isinstance(value, bool | float):
            return None
        if isinstance(value, str | bytes):
            return value[: self.width]
        if source in ("int", "long") or source.startswith("decimal"):
            return value - value % self.width
        return None


def parse_transform(text: str, *, strict: bool = False) -> Transform:
    """The transform of a text. `strict` refuses one that Iceberg does not have; else it is one that says nothing."""
    lower = text.lower()
    if lower in ("identity", "void", *_TIMES):
        return Transform(lower)
    found = _PARAMETER.fullmatch(lower)
    if found is not None and int(found[2]) > 0:
        return Transform(found[1], int(found[2]))
    if strict:
        raise BadRequest(f"the filter has the transform {shown(text)}, which is not known here")
    return Transform(text)


def _each(condition: Condition, change: Callable[[Value], Value | None]) -> Condition | None:
    values = tuple(change(value) for value in condition.values)
    return Condition(condition.op, tuple(v for v in values if v is not None)) if None not in values else None


def _period(name: str, source: str, value: int) -> int | None:
    if source == "date":
        days, seconds = value, 0
    elif source in _UNITS:
        days, rest = divmod(value, _DAY * _UNITS[source])
        seconds = rest // _UNITS[source]
    else:
        return None
    if name == "day":
        return days
    if name == "hour":
        return None if source == "date" else days * 24 + seconds // 3600
    year, month = _year_and_month(days)
    return year - 1970 if name == "year" else (year - 1970) * 12 + month - 1


def _year_and_month(days: int) -> tuple[int, int]:
    """Of days since 1970, for every year: `datetime` ends at 9999. Eras of 400 years that begin in March."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    month = (5 * (day - (365 * year + year // 4 - year // 100)) + 2) // 153
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month

"""Primitive types of Iceberg and their values, as planning compares them.

A value is kept in one form per type: numbers as `int` or `float`; decimals as the unscaled `int`; dates as days, times
and timestamps as micros (`_ns`: nanos) since 1970; texts as `str`; uuid, fixed and binary as `bytes`. Three notations
lead to it: the bytes of bounds, the values of Avro, and JSON in filters and answers.
"""

import math
import re
import struct
import uuid
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from arco.core import shown
from arco.iceberg._errors import BadRequest, Unsupported

__all__ = ["UNKNOWN", "Value", "decode_bound", "from_avro", "is_float", "literal", "to_json"]

Value = bool | int | float | str | bytes

UNKNOWN = "unknown"
"""The type of what cannot be known, such as the source of a partition whose column is gone from every schema."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_MOMENT = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}})[T ]({_TIME.pattern})(Z|[+-]\d{{2}}:\d{{2}}(?::\d{{2}})?)?")
_EPOCH = date(1970, 1, 1)
_DAY = 86_400
_INTEGERS = {"int", "long"}
_UNITS = {
    "timestamp": 1_000_000,
    "timestamptz": 1_000_000,
    "timestamp_ns": 1_000_000_000,
    "timestamptz_ns": 1_000_000_000,
}


def is_float(kind: str) -> bool:
    return kind in ("float", "double")


def decode_bound(kind: str, data: bytes | None) -> Value | None:
    """A bound, or None where it says nothing that can be relied on. Files may be older than the column's type."""
    if data is None:
        return None
    try:
        return _decode(kind, data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return None


def _decode(kind: str, data: bytes) -> Value | None:
    if kind == "boolean":
        return bool(data[0]) if len(data) == 1 else None
    if kind in _INTEGERS or kind in ("date", "time") or kind in _UNITS:
        if kind in _UNITS and len(data) != 8:  # written as a date
            return None
        return int.from_bytes(data, "little", signed=True) if len(data) in (4, 8) else None
    if is_float(kind):
        number: float = struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
        return None if math.isnan(number) else number
    if _DECIMAL.fullmatch(kind):
        return int.from_bytes(data, "big", signed=True) if data else None
    if kind == "string":
        return data.decode()
    if kind == "binary" or _FIXED.fullmatch(kind):
        return data
    return None  # uuid too: writers differ in how they order it


def from_avro(kind: str, raw: Any) -> Value | None:
    """A partition's value. `BadRequest` if it is not of its type."""
    if raw is None or kind == UNKNOWN:
        return None
    if _DECIMAL.fullmatch(kind) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if kind == "uuid" and isinstance(raw, str):
        return uuid.UUID(raw).bytes
    if not _fits(kind, raw):
        raise BadRequest(f"a manifest has a partition value that is no {kind}")
    value: Value = raw
    return value


def _fits(kind: str, raw: Any) -> bool:
    if kind in ("binary", "uuid") or _FIXED.fullmatch(kind):
        return isinstance(raw, bytes)
    fitting = {"boolean": bool, "float": float, "double": float, "string": str}.get(kind, int)
    return isinstance(raw, fitting) and isinstance(raw, bool) == (kind == "boolean")


def literal(kind: str, value: Any) -> Value | None:
    """A literal of a filter, as a value of the column's type. None: it may match in ways that cannot be judged here.

    `BadRequest` for a value the type cannot have.
    """
    found: Any
    try:
        found = _literal(kind, value)
    except (ValueError, InvalidOperation, OverflowError):
        found = ...
    if found is ...:
        raise BadRequest(f"the filter compares a column of type {kind} with {shown(str(value))}, which is none")
    known: Value | None = found
    return known


def _literal(kind: str, value: Any) -> Any:
    """`...` for a value that does not fit."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind == "boolean":
        return value if isinstance(value, bool) else ...
    if kind in _INTEGERS:
        return value if whole else ...
    if is_float(kind):
        return _float(kind, value)
    if kind == "string":
        return value if isinstance(value, str) else ...
    if found := _DECIMAL.fullmatch(kind):
        number = Decimal(str(value)).scaleb(int(found[2])) if not isinstance(value, bool) else Decimal("NaN")
        return int(number) if number.is_finite() and number == int(number) else ...
    if kind == "date":
        return value if whole else (date.fromisoformat(value) - _EPOCH).days if isinstance(value, str) else ...
    if kind == "time":
        return value if whole else _time(value, 1_000_000) if isinstance(value, str) else ...
    if kind in _UNITS:
        return value if whole else _moment(kind, value) if isinstance(value, str) else ...
    if kind == "uuid":
        return uuid.UUID(value).bytes if isinstance(value, str) else ...
    if kind == "binary" or _FIXED.fullmatch(kind):
        return bytes.fromhex(value) if isinstance(value, str) else ...
    return ...


def _float(kind: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return ...
    number = float(value)
    if kind == "double" or math.isinf(number):
        return number
    # Engines round the literal, or widen the column: files between the two answers are not dropped.
    try:
        return number if struct.unpack("<f", struct.pack("<f", number))[0] == number else None
    except OverflowError:
        return None


def _time(text: str, unit: int) -> Any:
    found = _TIME.fullmatch(text)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59 or int(found[3] or 0) > 59:
        return ...
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)
    fraction, rest = divmod(int((found[4] or "").ljust(9, "0") or 0), 1_000_000_000 // unit)
    return ... if rest else seconds * unit + fraction


def _moment(kind: str, text: str) -> Any:
    found = _MOMENT.fullmatch(text)
    zone = found[7] if found else None
    if found is None or (zone is not None) != ("tz" in kind):
        return ...
    unit = _UNITS[kind]
    time = _time(found[2], unit)
    if time is ...:
        return ...
    days = (date.fromisoformat(found[1]) - _EPOCH).days
    return days * _DAY * unit + time - _offset(zone) * unit


def _offset(zone: str | None) -> int:
    if zone in (None, "Z"):
        return 0
    hours, minutes, *seconds = (int(part) for part in str(zone)[1:].split(":"))
    total = hours * 3600 + minutes * 60 + sum(seconds)
    return -total if str(zone).startswith("-") else total


def to_json(kind: str, value: Value | None) -> Any:
    """A partition's value as answers carry it."""
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise Unsupported("a partition by NaN or infinity has no JSON form; plan this scan in the client")
    if found := _DECIMAL.fullmatch(kind):
        return format(Decimal(int(value)).scaleb(-int(found[2])), "f")
    if kind == "uuid" and isinstance(value, bytes):
        return str(uuid.UUID(bytes=value))
    if isinstance(value, bytes):
        return value.hex().upper()
    if kind == "date":
        return _iso_date(int(value))
    if kind == "time":
        return _iso_time(int(value), 1_000_000)
    if kind in _UNITS:
        unit = _UNITS[kind]
        days, rest = divmod(int(value), _DAY * unit)
        return f"{_iso_date(days)}T{_iso_time(rest, unit)}{'+00:00' if 'tz' in kind else ''}"
    return value


def _iso_date(days: int) -> str:
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        raise Unsupported("a partition lies outside of the years 1 to 9999; plan this scan in the client") from None


def _iso_time(value: int, unit: int) -> str:
    seconds, fraction = divmod(value, unit)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{len(str(unit)) - 1}d}" if fraction else text

"""Default values of columns in JSON. Each type has one form; a value in another would make the table unreadable."""

import datetime
import re
import uuid
from typing import Any

from arco.core import shown
from arco.iceberg._errors import IllegalArgument
from arco.iceberg.metadata._types import Primitive

__all__ = ["check_default", "shown_default"]

_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.([0-9]+))?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?", re.ASCII)
_LENGTH = re.compile(r"fixed\[(\d+)\]")
_SCALE = re.compile(r"decimal\(\d+, (\d+)\)")
_UTC = ("+00:00", "Z")


def check_default(primitive: Primitive, value: Any, name: str) -> None:
    """`IllegalArgument` unless the value can be a default of this type. `name` is the column's."""
    if not _fits(primitive, value):
        raise IllegalArgument(f"Cannot parse default of {name} as a {primitive} value: {shown_default(value)}")


def shown_default(value: Any) -> str:
    """The value for an error message. One that cannot be a default may be anything, and of any size."""
    small = isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**64)
    return shown(value) if isinstance(value, str) else str(value) if small else f"a `{type(value).__name__}`"


def _fits(primitive: Primitive, value: Any) -> bool:
    match primitive.kind:
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if primitive.kind == "int" else 63
            return type(value) is int and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return isinstance(value, float)
        case "unknown" | "variant" | "geometry" | "geography":
            return False
        case _:
            return isinstance(value, str) and _text_fits(primitive, value)


def _text_fits(primitive: Primitive, text: str) -> bool:
    match primitive.kind:
        case "decimal":
            found, scale = _DECIMAL.fullmatch(text), _SCALE.fullmatch(primitive.text)
            return found is not None and scale is not None and len(found[1] or "") == int(scale[1])
        case "uuid":
            return _parses(uuid.UUID, text) and len(text) == 36
        case "fixed":
            length = _LENGTH.fullmatch(primitive.text)
            return _HEX.fullmatch(text) is not None and length is not None and len(text) == 2 * int(length[1])
        case "binary":
            return _HEX.fullmatch(text) is not None
        case "date":
            return _is_date(text)
        case "time":
            return _is_time(text)
        case "timestamp" | "timestamp_ns":
            return _is_timestamp(text, zoned=primitive.text.startswith("timestamptz"))
        case _:
            return True


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses(datetime.date.fromisoformat, text)


def _is_time(text: str) -> bool:
    # Python knows microseconds only; what is finer is checked by the pattern.
    return _TIME.fullmatch(text) is not None and _parses(datetime.time.fromisoformat, text.partition(".")[0])


def _is_timestamp(text: str, *, zoned: bool) -> bool:
    if zoned:
        if not text.endswith(_UTC):
            return False
        text = text.removesuffix("+00:00").removesuffix("Z")
    date, separator, time = text.partition("T")
    return bool(separator) and _is_date(date) and _is_time(time)


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True

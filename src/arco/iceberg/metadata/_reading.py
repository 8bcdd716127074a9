"""Reading JSON: what a client or a file sent, checked against a shape.

A *document* is decoded JSON, a `dict`. A *shape* is a `msgspec` struct that names the fields that are understood and
their types; fields it does not name are let through. A shape only checks: what is kept is the document itself, so that
nothing it says is lost.
"""

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from arco.iceberg._errors import BadRequest

__all__ = ["MAX_DEPTH", "Doc", "Int", "Long", "Shape", "convert", "decode"]

Doc: TypeAlias = dict[str, Any]
_T = TypeVar("_T")

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A number that fits the 32 bits which other implementations give it."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

MAX_DEPTH = 64
"""Types inside types. Deeper ones would exhaust the stack of whoever reads them."""

MAX_NESTING = 256
"""Arrays and objects inside each other, for the same reason; a type takes three."""

_UNMARKED = bytes(set(range(256)) - set(b'[]{}"\\'))


class Shape(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of shapes: fields are named in JSON with hyphens."""


def convert(value: Any, shape: type[_T], what: str) -> _T:
    """The value in its shape, or `BadRequest` that names the field. `what` says what is read."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise BadRequest(f"Cannot parse {what}: {error}") from None
    except RecursionError:
        raise BadRequest(f"Cannot parse {what}: it is nested too deeply") from None


def decode(data: bytes, what: str = "request body") -> Doc:
    """The JSON object in these bytes, or `BadRequest`."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"Cannot parse {what}: {error}") from None
    except RecursionError:
        raise BadRequest(f"Cannot parse {what}: it is nested too deeply") from None
    if not isinstance(value, dict):
        raise BadRequest(f"Cannot parse {what}: expected a JSON object, got `{type(value).__name__}`")
    if _may_be_deep(data):
        _check_nesting(value, what)
    return value


def _may_be_deep(data: bytes) -> bool:
    """False if nothing can be nested too deeply: a look at the bytes, many times faster than one at the values."""
    marks = data.translate(None, _UNMARKED)
    if b"\\" in marks:  # an escaped quote would be taken for the end of a text
        return len(marks) > MAX_NESTING
    outside = b"".join(marks.split(b'"')[::2])
    for _ in range(MAX_NESTING):
        if not outside:
            return False
        outside = outside.replace(b"[]", b"").replace(b"{}", b"")
    return True


def _check_nesting(value: Any, what: str) -> None:
    """`BadRequest` if writing the value again could exhaust the stack."""
    level = [value]
    for _ in range(MAX_NESTING):
        parts = (part for one in level for part in (one.values() if isinstance(one, dict) else one))
        level = [part for part in parts if isinstance(part, dict | list)]
        if not level:
            return
    raise BadRequest(f"Cannot parse {what}: it is nested more than {MAX_NESTING} deep")

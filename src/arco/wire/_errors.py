"""Errors between processes of one deployment: `{name, message, details}`, and the same class on the other side."""

from typing import Any

import msgspec

from arco.core import ArcoError, Unavailable

__all__ = ["pack_error", "unpack_error"]


class _Told(msgspec.Struct, frozen=True):
    name: str
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)


def pack_error(error: ArcoError) -> bytes:
    return msgspec.json.encode(_Told(error.name, error.message, error.details), enc_hook=str)


def unpack_error(body: bytes) -> ArcoError | None:
    """The error another process raised; None if this is none. What a newer program calls it is `Unavailable` here."""
    try:
        told = msgspec.json.decode(body, type=_Told)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    kind = _classes(ArcoError).get(told.name, Unavailable)
    error = kind(told.message)
    error.details = told.details
    return error


def _classes(root: type[ArcoError]) -> dict[str, type[ArcoError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found |= _classes(child)
    return found

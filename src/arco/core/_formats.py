"""Versions of stored formats: whoever meets a newer one than it knows says "upgrade", never "corrupt", and changes
nothing. Which formats there are, and the newest of each, stands in `arco.cli._formats`.

A newer document may not even decode, so its version is looked for before anything is called corrupt:
`decode_document` does so for JSON that has its `format` at the top, `format_in` for whoever decodes in another way.

What no other object vouches for ends with the sha256 of itself: `with_checksum` and `without_checksum`.
"""

from typing import Protocol, TypeVar

import msgspec

from arco.core._canonical import sha256_hex
from arco.core._errors import Corrupt, Outdated

__all__ = ["check_format", "decode_document", "format_in", "with_checksum", "without_checksum"]

_MARK = b',"sha256":"'
_TRAILER = len(_MARK) + 64 + len(b'"}')


class _Versioned(Protocol):
    @property
    def format(self) -> int: ...


D = TypeVar("D", bound=_Versioned)


def check_format(kind: str, version: int, known: int, path: str) -> None:
    """`Outdated` if an object was written by a newer program."""
    if version > known:
        raise Outdated(
            f"{path} has {kind} format {version}, this program knows {known}; upgrade arco. Nothing was changed",
            path=path,
        )


def format_in(data: bytes, *within: str) -> int:
    """The `format` of a JSON document, or of an object within it, that may not decode otherwise; 0 if it tells none."""
    try:
        found = msgspec.json.decode(data)
        for name in (*within, "format"):
            found = found[name]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        return 0
    return found if type(found) is int else 0


def decode_document(decoder: msgspec.json.Decoder[D], data: bytes, kind: str, known: int, path: str) -> D:
    """The JSON document in an object: `Outdated` if a newer program wrote it, `Corrupt` if it is none."""
    try:
        document = decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        check_format(kind, format_in(data), known, path)
        raise Corrupt(f"{path} is no {kind}: {error}; run `arco doctor`", path=path) from error
    check_format(kind, document.format, known, path)
    return document


def with_checksum(text: bytes) -> bytes:
    """A JSON object that is not empty, with one more field at its end: the sha256 of the object without it."""
    return text[:-1] + _MARK + sha256_hex(text).encode() + b'"}'


def without_checksum(data: bytes) -> bytes:
    """What `with_checksum` was given; `msgspec.DecodeError` if it is not the same any more."""
    text = data[:-_TRAILER] + b"}"
    if with_checksum(text) != data:
        raise msgspec.DecodeError("its checksum does not fit")
    return text

"""Cursors: where the next page of a list begins. Opaque to callers, and good for the list that made them only.

A cursor is the last key that was shown, with the name of its list. Paging by key visits everything that was there the
whole time exactly once, whatever is written meanwhile.
"""

import base64
import binascii
import re
from collections.abc import Sequence

import msgspec

from arco.core import Invalid

__all__ = ["MAX_PAGE", "check_limit", "decode_cursor", "encode_cursor", "number_in"]

MAX_PAGE = 1_000
MAX_CURSOR = 4_096
MAX_DIGITS = 18

_TEXT = re.compile(r"[A-Za-z0-9_-]+")


def encode_cursor(place: str, key: Sequence[str]) -> str:
    """The cursor after `key` in the list called `place`."""
    return base64.urlsafe_b64encode(msgspec.json.encode([place, *key])).rstrip(b"=").decode()


def decode_cursor(place: str, text: str | None, length: int) -> tuple[str, ...] | None:
    """The key (so many texts) in a cursor of the list called `place`; None without a cursor: at the beginning."""
    if text is None:
        return None
    if len(text) > MAX_CURSOR or _TEXT.fullmatch(text) is None:
        raise _wrong()
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        found, *key = msgspec.json.decode(data, type=list[str])
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        raise _wrong() from None
    if found != place or len(key) != length:
        raise _wrong()
    return tuple(key)


def number_in(text: str) -> int:
    """A number that stands in a cursor."""
    if not (text.isdecimal() and len(text) <= MAX_DIGITS):
        raise _wrong()
    return int(text)


def _wrong() -> Invalid:
    return Invalid("this cursor does not belong to this list; pass the next_cursor of its last page, or none")


def check_limit(limit: int) -> int:
    """The number itself if a page may have so many items."""
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"a page has 1 to {MAX_PAGE} items, not {limit}; ask for the next page with its cursor")
    return limit

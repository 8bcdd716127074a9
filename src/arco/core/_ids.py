"""Identifiers: one 128-bit number that begins with its time, written as a ULID by us and as a UUID by Iceberg.

- `Ulid`: 26 characters of Crockford's base 32, upper case only, so that one id has one text. The first 48 bits are
  milliseconds since 1970, the other 80 are random. Texts of different milliseconds sort like their times; that is good
  for indexes and never decides an order: positions in the log do.
- `AssetId`, `TableId`, ...: what the number identifies. All are ULID text.
- `RequestKey`: what a client calls its request, so that a retry is recognised. The key carries its time, so that an
  old one is refused by looking at it and nobody has to remember it. It is a ULID or a UUIDv7, optionally followed by
  `:` and a suffix of 1 to 64 characters of `A-Z a-z 0-9 . _ -` that tells the requests of one caller apart.
"""

import hashlib
import re
import uuid
from typing import Final, NewType

from arco.core._errors import Invalid
from arco.core._names import shown
from arco.core._ports import Clock, Random

__all__ = [
    "AssetId",
    "MaterializationId",
    "NamespaceId",
    "OperationId",
    "RequestKey",
    "RunId",
    "TableId",
    "TaskId",
    "Ulid",
    "derive_ulid",
    "least_ulid",
    "new_ulid",
    "parse_request_key",
    "parse_ulid",
    "request_key_time",
    "ulid_time",
    "ulid_to_uuid",
    "uuid_to_ulid",
]

Ulid = NewType("Ulid", str)
AssetId = NewType("AssetId", Ulid)
TableId = NewType("TableId", Ulid)
NamespaceId = NewType("NamespaceId", Ulid)
RunId = NewType("RunId", Ulid)
TaskId = NewType("TaskId", Ulid)
MaterializationId = NewType("MaterializationId", Ulid)
OperationId = NewType("OperationId", Ulid)
RequestKey = NewType("RequestKey", str)

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Ids are made for every event: ten bits at a time, and Python's own base 32 to read them, are five times as fast.
_PAIRS: Final = [high + low for high in _ALPHABET for low in _ALPHABET]
_BASE_32: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_ULID_LENGTH: Final = 26
_RANDOM_BITS: Final = 80
_TIME_BITS: Final = 48

# 26 characters hold 130 bits: a first character above 7 would be a number of more than 128.
_ULID: Final = re.compile(rf"[0-7][{_ALPHABET}]{{25}}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_UUID_V7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SUFFIX: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def new_ulid(clock: Clock, random: Random) -> Ulid:
    """A fresh id of this millisecond."""
    milliseconds = clock.now() // 1000
    if not 0 <= milliseconds < 1 << _TIME_BITS:
        raise Invalid(f"the clock says {milliseconds} ms since 1970, which no id can carry; set the clock")
    return _encode(milliseconds << _RANDOM_BITS | int.from_bytes(random.bytes(_RANDOM_BITS // 8), "big"))


def derive_ulid(time: int, seed: str) -> Ulid:
    """The id that belongs to a text: its time in microseconds, and what hashing the text gives instead of chance."""
    noise = int.from_bytes(hashlib.sha256(seed.encode()).digest()[: _RANDOM_BITS // 8], "big")
    return _encode(time // 1000 << _RANDOM_BITS | noise)


def least_ulid(time: int) -> Ulid:
    """No id that was made at this time (microseconds) or later is smaller, and any smaller one is older."""
    return _encode(time // 1000 << _RANDOM_BITS)


def parse_ulid(text: str) -> Ulid:
    """The text, if it is a ULID in its one canonical form."""
    if _ULID.fullmatch(text) is None:
        raise Invalid(
            f"{shown(text)} is not a ULID; write 26 characters of 0-9 and A-Z without I, L, O, U, in upper case, "
            "the first one at most 7"
        )
    return Ulid(text)


def ulid_time(ulid: Ulid) -> int:
    """When the id was made, in microseconds since 1970 (whole milliseconds)."""
    return _micros(_decode(ulid))


def ulid_to_uuid(ulid: Ulid) -> str:
    """The same 128 bits as UUID text in lower case."""
    return str(uuid.UUID(int=_decode(ulid)))


def uuid_to_ulid(text: str) -> Ulid:
    """The same 128 bits as a ULID. Any UUID with its four hyphens is accepted, in either case."""
    if _UUID.fullmatch(text) is None:
        raise Invalid(f"{shown(text)} is not a UUID; write it as 01563e3a-b5d3-d676-4c61-efb99302bd5b")
    return _encode(uuid.UUID(text).int)


def parse_request_key(text: str) -> RequestKey:
    """The text as a request key. A UUID becomes lower case, because its case carries no meaning.

    The error does not show the text: what clients send here by mistake is often a credential.
    """
    head, colon, suffix = text.partition(":")
    if _ULID.fullmatch(head) is None:
        head = head.lower()
        if _UUID_V7.fullmatch(head) is None:
            raise Invalid("the request key carries no time; send a ULID or a UUIDv7, optionally followed by :suffix")
    if colon and _SUFFIX.fullmatch(suffix) is None:
        raise Invalid("the suffix of the request key is not valid; after the colon send 1 to 64 of A-Z a-z 0-9 . _ -")
    return RequestKey(f"{head}{colon}{suffix}")


def request_key_time(key: RequestKey) -> int:
    """When the client made the key, in microseconds since 1970. The client says so: it may lie in the future."""
    head = key.partition(":")[0]
    return _micros(_decode(Ulid(head)) if len(head) == _ULID_LENGTH else uuid.UUID(head).int)


def _encode(number: int) -> Ulid:
    return Ulid("".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)]))


def _decode(ulid: Ulid) -> int:
    return int(ulid.translate(_BASE_32), 32)


def _micros(number: int) -> int:
    return (number >> _RANDOM_BITS) * 1000

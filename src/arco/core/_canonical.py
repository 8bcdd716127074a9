"""Canonical JSON (RFC 8785) and the hashes taken of it.

Equal JSON values have equal bytes in every language, so a hash of the bytes identifies the value. Numbers are what
JSON readers agree on: 1 and 1.0 are the same, integers beyond 2^53 - 1 and NaN do not exist (send those as strings).
A whole float from 2^53 up to 1e21 is written as bare digits, as RFC 8785 says; Python's `json` reads these as an
integer that is refused here, so a value that is hashed again after reading holds no such float.
"""

import hashlib
from collections.abc import Callable
from typing import Final, cast

import rfc8785

from arco.core._errors import Invalid
from arco.core._names import shown

__all__ = ["canonical_json", "fingerprint", "sha256_hex"]

_SAFE_INTEGER: Final = 2**53 - 1
# Whatever is not JSON is refused when it runs, so any object may be tried.
_dumps: Final = cast("Callable[[object], bytes]", rfc8785.dumps)


def canonical_json(value: object) -> bytes:
    """The one UTF-8 text of a JSON value; `Invalid` names the place that has none, never the value there."""
    try:
        return _dumps(value)
    except RecursionError:
        raise Invalid("the value is nested too deeply for canonical JSON; flatten it") from None
    except ValueError:
        where, why = _fault(value)
        # The cause is cut off because its text quotes the value.
        raise Invalid(f"{where} has no canonical JSON: {why}", path=where) from None


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: object) -> str:
    """The identity of a JSON value: sha256 of its canonical text, 64 hex digits."""
    return sha256_hex(canonical_json(value))


def _fault(value: object) -> tuple[str, str]:
    """JSON path and reason of the first part that cannot be written, found by descending into what fails."""
    path = "$"
    while True:
        children: list[tuple[str, object]] = []
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    return path, f"an object key is of type {type(key).__name__}; object keys must be text"
                if not _writable(key):
                    return path, "an object key has a lone surrogate; send valid Unicode"
            children = [(path + (f".{key}" if key.isidentifier() else f"[{shown(key)}]"), value[key]) for key in value]
        elif isinstance(value, list | tuple):
            children = [(f"{path}[{index}]", child) for index, child in enumerate(value)]
        failing = next(((place, child) for place, child in children if not _writable(child)), None)
        if failing is None:
            return path, _reason(value)
        path, value = failing


def _writable(value: object) -> bool:
    try:
        _dumps(value)
    except ValueError:
        return False
    return True


def _reason(value: object) -> str:
    if isinstance(value, str):
        return "the text has a lone surrogate; send valid Unicode"
    if isinstance(value, int):
        return f"the integer is beyond +-{_SAFE_INTEGER}, where JSON readers disagree; send it as text"
    if isinstance(value, float):
        return "NaN and infinity are not JSON; send null or text"
    return f"the type {type(value).__name__} is not JSON; convert it first"

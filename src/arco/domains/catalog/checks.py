"""What values a command may carry: names, limits and the words of each list. Pure; every function returns the value as
it is stored, or says what to change.

Lists and texts are bounded, because a table's row travels with every change of the table.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from arco.core import Invalid, TooLarge, check_catalog_name, shown

__all__ = [
    "ICEBERG",
    "ICEBERG_VIEW",
    "MAX_COLUMNS",
    "MAX_DEPTH",
    "changed_pairs",
    "check_choice",
    "check_description",
    "check_format",
    "check_location",
    "check_namespace_path",
    "check_owners",
    "check_pairs",
    "check_pii_type",
    "check_sensitivity",
    "check_side",
    "check_table_path",
    "is_iceberg",
    "nearest",
]

MAX_DEPTH: Final = 16
MAX_COLUMNS: Final = 10_000
MAX_DESCRIPTION: Final = 10_000
MAX_PAIRS: Final = 500
MAX_KEY: Final = 255
MAX_VALUE: Final = 4_096
MAX_OWNERS: Final = 100
MAX_OWNER: Final = 255
MAX_LOCATION: Final = 1_024
MAX_CUSTOM: Final = 64

ICEBERG: Final = "ICEBERG"
ICEBERG_VIEW: Final = "ICEBERG_VIEW"
"""A view is a table to the catalog, so that both have one space of names."""

FORMATS: Final = ("DELTA", "ICEBERG", "PARQUET", "CSV", "JSON")
SENSITIVITIES: Final = ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")
PII_TYPES: Final = (
    "SSN",
    "EMAIL",
    "PHONE",
    "ADDRESS",
    "NAME",
    "DATE_OF_BIRTH",
    "CREDIT_CARD",
    "BANK_ACCOUNT",
    "IP_ADDRESS",
)
SIDES: Final = ("code", "ui")

# Tabs and line ends are text; other controls and lone surrogates are not.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_UNPRINTABLE_LINE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOT_IN_LOCATION: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff*?\\[\\]{}\\\\\"'`]")
_DATA: Final = "data/"


def check_namespace_path(path: tuple[str, ...]) -> tuple[str, ...]:
    if not 1 <= len(path) <= MAX_DEPTH:
        raise Invalid(f"a namespace has 1 to {MAX_DEPTH} levels, this one has {len(path)}")
    for name in path:
        check_catalog_name("namespace", name)
    return path


def check_table_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """A table's path: its namespace's, then its own name."""
    if len(path) < 2:
        raise Invalid("a table is named with its namespace; write it as namespace.table")
    check_namespace_path(path[:-1])
    check_catalog_name("table", path[-1])
    return path


def check_description(text: str | None) -> str | None:
    if text is not None:
        _check_text("description", text, MAX_DESCRIPTION, _UNPRINTABLE)
    return text


def check_pairs(what: str, pairs: Mapping[str, str]) -> dict[str, str]:
    """Properties, tags or terms, all of them; `what` names one of them."""
    if len(pairs) > MAX_PAIRS:
        raise TooLarge(f"{len(pairs)} {_plural(what)} are too many, the limit is {MAX_PAIRS}; remove some")
    for key, value in pairs.items():
        _check_key(what, key)
        _check_text(f"value of the {what} {shown(key)}", value, MAX_VALUE, _UNPRINTABLE)
    return dict(pairs)


def changed_pairs(
    what: str, before: Mapping[str, str], put: Mapping[str, str], remove: Iterable[str]
) -> dict[str, str]:
    """The pairs with some put and some removed; removing one that is not there changes nothing."""
    gone = set(remove)
    both = sorted(gone & put.keys())
    if both:
        raise Invalid(f"the {what} {shown(both[0])} is to be set and removed at once; ask for one of it")
    check_pairs(what, put)
    return check_pairs(what, {key: value for key, value in {**before, **put}.items() if key not in gone})


def check_owners(owners: Sequence[str]) -> tuple[str, ...]:
    """Owners in their order, each once."""
    if len(owners) > MAX_OWNERS:
        raise TooLarge(f"{len(owners)} owners are too many, the limit is {MAX_OWNERS}; name a group instead")
    for owner in owners:
        if not owner.strip():
            raise Invalid("an owner is empty; name a person or a group, or leave it out")
        _check_text("owner", owner, MAX_OWNER, _UNPRINTABLE_LINE)
    return tuple(dict.fromkeys(owners))


def check_format(text: str) -> str:
    return text if text == ICEBERG_VIEW else check_choice("format", text.upper(), FORMATS)


def is_iceberg(format: str | None) -> bool:
    """Whether a row stands for an Iceberg table or view: its metadata file says what it is, the catalog its name."""
    return format in (ICEBERG, ICEBERG_VIEW)


def check_sensitivity(text: str | None) -> str | None:
    return None if text is None else check_choice("sensitivity", text.upper(), SENSITIVITIES)


def check_pii_type(text: str | None) -> str | None:
    """One of the known types, or `CUSTOM:` and a word of one's own."""
    if text is None:
        return None
    head, colon, rest = text.partition(":")
    if colon and head.upper() == "CUSTOM":
        if not rest.strip():
            raise Invalid("the PII type CUSTOM: names nothing; write what it is after the colon")
        _check_text("PII type", rest, MAX_CUSTOM, _UNPRINTABLE_LINE)
        return f"CUSTOM:{rest.strip()}"
    return check_choice("PII type", text.upper(), (*PII_TYPES, "CUSTOM:<text>"))


def check_side(text: str) -> str:
    return check_choice("side", text, SIDES)


def check_choice(what: str, text: str, known: Sequence[str]) -> str:
    """The text, if it is one of the known words."""
    if text not in known:
        raise Invalid(f"the {what} {shown(text)} is not known; use {', '.join(known[:-1])} or {known[-1]}")
    return text


def check_location(text: str | None) -> str | None:
    """Where a table's files are: a folder or file below the workspace's `data/`, stored with that prefix."""
    if text is None:
        return None
    if len(text) > MAX_LOCATION:
        raise TooLarge(f"the location {shown(text)} is longer than {MAX_LOCATION} characters; shorten it")
    if "://" in text or text.startswith(("/", "~")):
        raise Invalid(
            f"the location {shown(text)} is absolute; tables are kept below the workspace's data/ folder, "
            "so write it as data/sales/orders"
        )
    match = _NOT_IN_LOCATION.search(text)
    if match is not None:
        raise Invalid(f"the location {shown(text)} has {shown(match[0])} at position {match.start()}; remove it")
    parts = text.removeprefix(_DATA).removesuffix("/").split("/")
    if any(not part.strip(". ") for part in parts):
        raise Invalid(
            f"the location {shown(text)} has a part that is empty or only dots; write it as data/sales/orders"
        )
    return _DATA + "/".join(parts)


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean x?)` if something known is written nearly like it, else nothing."""
    by_lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""


def _check_key(what: str, key: str) -> None:
    if not key.strip() or key.strip() != key:
        raise Invalid(f"the {what} {shown(key)} has no name or spaces around it; write it without")
    _check_text(what, key, MAX_KEY, _UNPRINTABLE_LINE)


def _check_text(what: str, text: str, longest: int, forbidden: re.Pattern[str]) -> None:
    if len(text) > longest:
        raise TooLarge(f"the {what} has {len(text)} characters, the limit is {longest}; shorten it")
    match = forbidden.search(text)
    if match is not None:
        raise Invalid(f"the {what} has the character {shown(match[0])} at position {match.start()}; remove it")


def _plural(what: str) -> str:
    return "properties" if what == "property" else f"{what}s"

"""What people write on the command line for a column, a pair, a duration or a time to come, as values.

A column is `name:type`, with `:notnull` behind it if it must have a value. Colons and commas inside brackets belong to
the type (`map<string,int>`, `struct<a:int>`); a name that has a colon itself stands in double quotes.
"""

import difflib
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from arco.core import SECOND, Invalid, format_time, parse_time
from arco.wire import ColumnSpec

__all__ = [
    "changed",
    "parse_column",
    "parse_columns",
    "parse_duration",
    "parse_expiry",
    "parse_pairs",
    "parse_partitions",
    "parse_rename",
    "parse_retype",
    "parse_size",
]

SHOWN = 80
EXAMPLE = "write it as name:type, such as id:bigint, price:decimal(10,2) or id:bigint:notnull"
PAIRS = {"(": ")", "<": ">", "[": "]"}
SIZES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_columns(given: Iterable[str]) -> list[ColumnSpec]:
    columns = [parse_column(text) for text in given]
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise Invalid(f"the column {name[:SHOWN]!r} is given twice; give each name once")
    return columns


def parse_column(text: str) -> ColumnSpec:
    """`name:type` or `name:type:notnull`. Whether there is such a type is for the server to say."""
    name, rest = _name(text)
    if rest is None or not rest.strip():
        raise _wrong(text, "it has no type")
    parts = _split(text, rest)
    if len(parts) == 1:
        return ColumnSpec(name=name, type=parts[0].strip())
    kind, suffix = parts[0].strip(), parts[1].strip().lower()
    if len(parts) > 2 or suffix not in ("notnull", "nullable"):
        known = difflib.get_close_matches(suffix, ["notnull", "nullable"], 1)
        hint = f"did you mean :{known[0]}?" if known else "only :notnull and :nullable may follow the type"
        raise _wrong(text, f"{':'.join(parts[1:])[:SHOWN]!r} follows its type; {hint}")
    if not kind:
        raise _wrong(text, "it has no type")
    return ColumnSpec(name=name, type=kind, nullable=suffix == "nullable")


def _name(text: str) -> tuple[str, str | None]:
    """The name, and what follows its colon; None without a colon."""
    if text.startswith('"'):
        name, quote, rest = text[1:].partition('"')
        if not quote or (rest and not rest.startswith(":")):
            raise _wrong(text, "its quotes do not end before the colon")
        found = rest[1:] if rest else None
    else:
        name, colon, rest = text.partition(":")
        name, found = name.strip(), rest if colon else None
    if not name:
        raise _wrong(text, "it has no name")
    return name, found


def _split(text: str, rest: str) -> list[str]:
    """The parts between colons that stand in no bracket."""
    parts, open_brackets = [""], []
    for character in rest:
        if character in PAIRS:
            open_brackets.append(PAIRS[character])
        elif character in PAIRS.values() and (not open_brackets or open_brackets.pop() != character):
            raise _wrong(text, f"a {character!r} closes nothing")
        if character == ":" and not open_brackets:
            parts.append("")
        else:
            parts[-1] += character
    if open_brackets:
        raise _wrong(text, f"a {open_brackets[-1]!r} is missing")
    return parts


def _wrong(text: str, why: str) -> Invalid:
    return Invalid(f"{text[:SHOWN]!r} is not a column: {why}; {EXAMPLE}")


def parse_retype(text: str) -> tuple[str, str]:
    """`name:type`, of a column that is there."""
    column = parse_column(text)
    if not column.nullable:
        raise Invalid(f"{text[:SHOWN]!r} asks for not null, which a column cannot become; write name:type")
    return column.name, column.type


def parse_rename(text: str) -> tuple[str, str]:
    """`old=new`."""
    old, equals, new = text.partition("=")
    if not (equals and old.strip() and new.strip()):
        raise Invalid(f"{text[:SHOWN]!r} is not a new name; write it as old=new")
    return old.strip(), new.strip()


def parse_pairs(option: str, given: Iterable[str] | None, form: str = "NAME=VALUE") -> dict[str, str]:
    """`NAME=VALUE` texts as a table. `form` is how the help of the option writes them."""
    pairs: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Invalid(f"{option} takes {form}, not {text[:SHOWN]!r}")
        if name.strip() in pairs:
            raise Invalid(f"{option} names {name.strip()[:SHOWN]!r} twice; give it once")
        pairs[name.strip()] = value
    return pairs


def parse_partitions(given: Iterable[str] | None) -> dict[str, str]:
    """What `--partition` says, by dimension."""
    return parse_pairs("--partition", given, "NAME=KEYS, such as date=2026-01-01")


def parse_duration(text: str, *, example: str = "90m", may_be_zero: bool = False) -> int:
    """Seconds. `example` is a duration that whoever asks would take."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    if found is None:
        raise Invalid(f"{text[:SHOWN]!r} is not a duration; write a number and s, m, h or d, such as {example}")
    if not int(found[1]) and not may_be_zero:
        raise Invalid(f"{text[:SHOWN]!r} is too short; write 1s at the least, such as {example}")
    return int(found[1]) * UNITS[found[2]]


def parse_size(text: str) -> int:
    """Bytes."""
    found = re.fullmatch(r"([0-9]{1,9})([KMG]I?B)", text.strip().upper())
    if found is None or not int(found[1]):
        raise Invalid(f"{text[:SHOWN]!r} is not a size; write a number and MB, MiB, GB or GiB, such as 128MiB")
    return int(found[1]) * SIZES[found[2]]


def parse_expiry(text: str, now: int) -> str:
    """A time, or a duration from now, as the text of a time."""
    if re.fullmatch(r"[0-9]+[a-z]", text.strip()):
        return format_time(now + parse_duration(text) * SECOND)
    try:
        return format_time(parse_time(text))
    except (Invalid, OverflowError):
        raise Invalid(
            f"{text[:SHOWN]!r} is not when something ends; write a time (2027-01-01T00:00:00Z) or a duration (30d)"
        ) from None


def changed(given: dict[str, Any], clear: Iterable[Enum] | None) -> dict[str, Any]:
    """The fields of an update: those that were given, and None for those to clear."""
    fields = {name: value for name, value in given.items() if value is not None}
    for name in clear or []:
        if name.value in fields:
            raise Invalid(f"--{name.value} and --clear {name.value} contradict each other; give one of them")
        fields[name.value] = None
    if not fields:
        raise Invalid("there is nothing to change; say what with an option, --help lists them")
    return fields

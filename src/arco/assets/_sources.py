"""Files that somebody else writes: where they lie, how they are read, and what may be said of them.

A *source* belongs to an external asset. Its path is a pattern below `landing/` of the workspace:

    landing/orders/{date:%Y/%m/%d}/*.csv

`*` and `?` stand for text inside one segment, `{name}` for the value of a dimension, with a format as of `strftime` if
it is one of time. Nothing can lead out of that folder: there are no dot segments, and a value of a partition is never
more than a part of one segment, unless the author's own format has slashes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from string import Formatter
from typing import Final, NamedTuple

from arco.assets._definition import (
    CorruptRecords,
    Dimension,
    SchemaColumn,
    Source,
    SourceFormat,
    TimePartitions,
)
from arco.core import Invalid, PartitionKey, Scalar, shown

__all__ = ["LANDING", "FilePattern", "file_pattern", "source_faults"]

LANDING: Final = "landing"
"""The folder of the workspace for files that others write. Arco only reads there."""

_MANY: Final = "*"
_ONE: Final = "?"
_SEGMENT: Final = re.compile(r"[A-Za-z0-9!$&'()+,\-.:;=@_~]+", re.ASCII)
"""What stands between slashes, on every store."""

_BOTH: Final = frozenset(
    {"dateFormat", "encoding", "lineSep", "locale", "multiLine", "timeZone", "timestampFormat", "timestampNTZFormat"}
)
_OPTIONS: Final[Mapping[SourceFormat, frozenset[str]]] = {
    SourceFormat.CSV: _BOTH
    | {
        "charToEscapeQuoteEscaping",
        "comment",
        "emptyValue",
        "escape",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "nanValue",
        "negativeInf",
        "nullValue",
        "positiveInf",
        "quote",
        "sep",
    },
    SourceFormat.JSON: _BOTH
    | {
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowSingleQuotes",
        "allowUnquotedFieldNames",
        "primitivesAsString",
    },
}
"""Options of Spark that say how a text is read. Others would reach beyond it, or do what has its own argument."""

Fault = tuple[str, str]


class FilePattern(NamedTuple):
    """Which files belong to one partition of a source."""

    folder: str
    """Below which they lie."""
    text: str
    """As people read it."""
    matches: re.Pattern[str]

    def has(self, path: str) -> bool:
        hidden = any(segment.startswith(("_", ".")) for segment in path.removeprefix(self.folder).split("/"))
        return not hidden and self.matches.fullmatch(path) is not None


def file_pattern(source: Source, key: PartitionKey) -> FilePattern:
    """The files of a partition; `Invalid` if its values cannot be part of a path."""
    values = key.to_dict()
    text = ""
    for literal, name, spec in _parts(source.path):
        text += literal
        if name is not None:
            text += _value(name, values[name], spec)
    for segment in text.split("/"):
        _check_segment(text, segment)
    fixed = re.split(r"[*?]", text, maxsplit=1)[0]
    folder = fixed.rpartition("/")[0]
    wild = re.escape(text).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return FilePattern(folder, text, re.compile(wild))


def source_faults(source: Source, dimensions: Sequence[Dimension], columns: Sequence[SchemaColumn]) -> Iterator[Fault]:
    """What is wrong with a source, seen from its definition."""
    try:
        parts = list(_parts(source.path))
    except (Invalid, ValueError) as error:
        text = error.message if isinstance(error, Invalid) else str(error)
        yield f"its path {shown(source.path)} cannot be read: {text}", f"write it as {LANDING}/orders/{{date}}/*.csv"
        return
    yield from _path_faults(source.path, parts, dimensions)
    for name in sorted(source.options.keys() - _OPTIONS[source.format]):
        yield (
            f"there is no option {shown(name)} of {source.format}",
            f"use {', '.join(sorted(_OPTIONS[source.format]))}",
        )
    for column in columns:
        if not column.nullable:
            message = f"its column {shown(column.name)} is declared as not null, which nobody holds the files to"
            yield message, "leave it away, and check what is made of it with not_null"
    if source.corrupt not in set(CorruptRecords):
        yield f"corrupt is {shown(source.corrupt)}", f"use {', '.join(CorruptRecords)}"


def _path_faults(
    path: str, parts: list[tuple[str, str | None, str]], dimensions: Sequence[Dimension]
) -> Iterator[Fault]:
    known = {dimension.name: dimension.partitions for dimension in dimensions}
    sample = ""
    for literal, name, spec in parts:
        sample += literal
        if name is None:
            continue
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has no partitions"
            yield f"its path names the dimension {shown(name)}; {has}", "correct the name, or give partitions="
        elif spec and not isinstance(known[name], TimePartitions):
            yield f"its path has a format for {name}, which is no time", f"write {{{name}}}"
        sample += _value(name, datetime(2025, 1, 2, 3), spec) if spec else "x"
    for name in sorted(known.keys() - {name for _, name, _ in parts}):
        yield f"its path does not name the dimension {name}", f"put {{{name}}} into it: which files are of a partition?"
    if not path.startswith(f"{LANDING}/"):
        cure = f"write {LANDING}/...: other files belong to Arco, and none outside of the workspace is read"
        yield f"its path {shown(path)} is not below {LANDING}/ of the workspace", cure
        return
    try:
        for segment in sample.split("/"):
            _check_segment(sample, segment)
    except Invalid as error:
        message, _, cure = error.message.partition("; ")
        yield message, cure


def _parts(path: str) -> Iterator[tuple[str, str | None, str]]:
    for literal, name, spec, conversion in Formatter().parse(path):
        if conversion:
            raise Invalid(f"a dimension has the conversion !{conversion}, which nothing does")
        if name is not None and not name.isidentifier():
            raise Invalid(f"{shown(name)} is no name of a dimension")
        yield literal, name, spec or ""


def _value(name: str, value: Scalar, spec: str) -> str:
    if spec and isinstance(value, date):
        return value.strftime(spec)
    text = value.isoformat() if isinstance(value, date) else str(value)
    if _SEGMENT.fullmatch(text) is None or text in (".", ".."):
        raise Invalid(f"the value {shown(text)} of {name} cannot be part of a path; use other keys, or a format")
    return text


def _check_segment(path: str, segment: str) -> None:
    plain = segment.replace(_MANY, "x").replace(_ONE, "x")
    if segment in ("", ".", "..", "**") or _SEGMENT.fullmatch(plain) is None:
        raise Invalid(
            f"the path {shown(path)} has the segment {shown(segment)}; use letters, digits and signs that every store "
            "has, and * or ? inside a segment"
        )

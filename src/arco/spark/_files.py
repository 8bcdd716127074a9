"""Files of others as frames: CSV and JSON, read lazily, with the columns that their asset declares.

Which files there are is found out once for a task; the frame reads exactly those. The values of their partition are
columns, as of every input. A record that does not fit ends the job, unless the author wants it otherwise; Spark names
at most its file and would quote the record, so what is told is found out again: the file and the line, never the text.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from arco.assets import CorruptRecords, SchemaColumn, Source, SourceFormat
from arco.core import PartitionKey, Refused, sha256_hex
from arco.domains.catalog import parse_type
from arco.spark._errors import text_of
from arco.spark._inputs import INPUT, kind_of
from arco.spark._place import Place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["BadRecords", "FoundFile", "Part", "data_version", "explained", "read_files"]

CORRUPT_COLUMN: Final = "_corrupt_record"
BUCKETS: Final = 64
"""A map is searched from its beginning, so files are found in one of so many."""
MAX_SEARCHED: Final = 100
"""Files that are looked through for a record that does not fit."""

MAX_CAUSES: Final = 20

_MODES: Final = {
    CorruptRecords.FAIL: "FAILFAST",
    CorruptRecords.NULL: "PERMISSIVE",
    CorruptRecords.DROP: "DROPMALFORMED",
}
_BAD_RECORD: Final = re.compile(r"MALFORMED_RECORD|MALFORMED_CSV|BadRecordException|Malformed records are detected")
_BAD_HEADER: Final = re.compile(r"CSV header does not conform|Number of column in CSV header")
_TYPES: Final = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "list": "array",
    "uuid": "string",
    "fixed": "binary",
}
_WORD: Final = re.compile(r'"(?P<quoted>[^"]*)"(?=:)|(?P<name>[\w$-]+)(?=:)|(?P<word>\w+)(?P<digits>\([\d,]*\))?')


class BadRecords(Refused):
    """Files of others hold what does not fit the columns that are declared."""


@dataclass(frozen=True)
class FoundFile:
    path: str
    """Relative to the workspace."""
    size_bytes: int
    modified: int


@dataclass(frozen=True)
class Part:
    """One partition of a source."""

    key: PartitionKey
    files: tuple[FoundFile, ...]


def data_version(files: Sequence[FoundFile]) -> str:
    """Changes whenever a file is added, removed or changed."""
    return sha256_hex(msgspec.json.encode([(file.path, file.size_bytes, file.modified) for file in files]))[:32]


def read_files(
    session: "SparkSession",
    place: Place,
    parameter: str,
    source: Source,
    columns: Sequence[SchemaColumn],
    parts: Sequence[Part],
) -> "DataFrame":
    """The frame of a parameter: the rows of all parts, with the dimensions of their keys as columns."""
    reader = _reader(session, source, columns, _MODES[source.corrupt])
    if columns:
        reader = reader.schema(_schema(columns))
    elif source.format is SourceFormat.CSV:
        reader = reader.option("inferSchema", "true")
    frame = reader.load([place.pattern(file.path) for part in parts for file in part.files])
    if columns and source.corrupt is not CorruptRecords.NULL:
        frame = frame.where(_looks_at([column.name for column in columns]))
    return _with_keys(frame, place, parts).alias(f"{INPUT}{parameter}")


def _looks_at(names: Sequence[str]) -> "Column":
    """Always true, and needs every column: whether a record fits must not depend on what a function reads of it."""
    from pyspark.sql import functions as f

    return f.xxhash64(*(f.col(_quoted(name)).isNull() for name in names)) >= f.lit(-(2**63))


def _reader(session: "SparkSession", source: Source, columns: Sequence[SchemaColumn], mode: str) -> Any:
    # A record with more or fewer values than columns fits only if nobody counts them.
    own = {"mode": mode, "columnPruning": "false", "columnNameOfCorruptRecord": CORRUPT_COLUMN}
    if source.format is SourceFormat.CSV:
        own |= {"header": "true", "enforceSchema": str(not columns).lower()}
        if any(column.name == CORRUPT_COLUMN for column in columns):
            own["enforceSchema"] = "true"  # no header has this column
    return session.read.format(source.format.value).options(**{**own, **source.options})


def _schema(columns: Sequence[SchemaColumn]) -> str:
    return ", ".join(f"{_quoted(column.name)} {_spark_type(column.type)}" for column in columns)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _spark_type(text: str) -> str:
    """A type of the catalog in Spark's words."""

    def word(found: re.Match[str]) -> str:
        name = found["quoted"] if found["quoted"] is not None else found["name"]
        if name is not None:
            return _quoted(name)
        kind = _TYPES.get(found["word"], found["word"])
        return kind + (found["digits"] or "" if kind == "decimal" else "")

    return _WORD.sub(word, parse_type(text))


# Partitions as columns


def _with_keys(frame: "DataFrame", place: Place, parts: Sequence[Part]) -> "DataFrame":
    """The frame with a column for each dimension that its data does not have."""
    from pyspark.sql import functions as f

    names = {name.lower() for name in frame.columns}
    kinds = {name: kind_of(value) for name, value in parts[0].key.dimensions if name.lower() not in names}
    if not kinds:
        return frame
    if len(parts) == 1:
        values = parts[0].key.to_dict()
        return frame.select("*", *(f.lit(values[name]).cast(kind).alias(name) for name, kind in kinds.items()))
    tree: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        values = {name: value for name, value in part.key.dimensions if name in kinds}
        for file in part.files:
            tree.setdefault(str(zlib.crc32(file.path.encode()) % BUCKETS), {})[file.path] = values
    fields = ", ".join(f"{_quoted(name)}: {kind}" for name, kind in kinds.items())
    lookup = f.from_json(f.lit(msgspec.json.encode(tree).decode()), f"map<string, map<string, struct<{fields}>>>")
    path = _path(parts)
    found = lookup[(f.crc32(path.cast("binary")) % BUCKETS).cast("string")][path]
    return frame.select("*", *(found[name].alias(name) for name in kinds))


def _path(parts: Sequence[Part]) -> "Column":
    """The path of a row's file as the workspace names it: all files of a source have as many segments.

    Names that a store can have look the same in a URL.
    """
    from pyspark.sql import functions as f

    segments = next(file.path.count("/") for part in parts for file in part.files) + 1
    return f.substring_index(f.col("_metadata.file_path"), "/", -segments)


# Errors


def explained(
    session: "SparkSession",
    place: Place,
    error: BaseException,
    read: Mapping[str, tuple[str, Source, Sequence[SchemaColumn], Sequence[Part]]],
) -> BadRecords | None:
    """What to tell of an error that came of files of others; None for another one.

    `read` has by parameter the asset, its source, its columns and what was read.
    """
    text = _whole_text(error)
    header = _BAD_HEADER.search(text) is not None
    if not header and _BAD_RECORD.search(text) is None:
        return None
    for asset, source, columns, parts in read.values():
        files = [file for part in parts for file in part.files]
        named = [file for file in files if file.path in text]
        for file in (named or files)[:MAX_SEARCHED]:
            if header and named:
                return BadRecords(
                    f"the header of {file.path} of {asset} is not what it declares; its columns are to be "
                    f"{', '.join(column.name for column in columns)}, in this order: correct the file or the schema, "
                    "or say options={'header': False}"
                )
            found = _bad_line(session, place, source, columns, file) if columns and not header else None
            if found is not None or (named and not header):
                where = f" at {found}" if found else ""
                return BadRecords(
                    f"{file.path} of {asset} has a record{where} that does not fit its columns; correct the file or "
                    "the schema, or say what becomes of such records: corrupt='null' or corrupt='drop'"
                )
    names = ", ".join(sorted({asset for asset, *_ in read.values()}))
    return BadRecords(f"the files of {names} have a record or a header that does not fit the declared columns")


def _whole_text(error: BaseException) -> str:
    """What an error and its causes on the Java side say. It may quote data, so it is only looked at."""
    texts = [text_of(error)]
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        for _ in range(MAX_CAUSES):
            cause = cause.getCause() if cause is not None else None
            if cause is None:
                break
            texts.append(str(cause.toString()))
    except Exception:  # noqa: BLE001 - the Java side may be gone
        return "\n".join(texts)
    return "\n".join(texts)


def _bad_line(
    session: "SparkSession", place: Place, source: Source, columns: Sequence[SchemaColumn], file: FoundFile
) -> str | None:
    """Where the first record of a file is that does not fit; None if there is none, or nobody can tell."""
    from pyspark.sql import functions as f

    try:
        own = [column for column in columns if column.name != CORRUPT_COLUMN]
        reader = _reader(session, source, own, _MODES[CorruptRecords.NULL]).option("enforceSchema", "true")
        frame = reader.schema(f"{_schema(own)}, {_quoted(CORRUPT_COLUMN)} string").load(place.pattern(file.path))
        # Counted in order, because one task reads all of the file.
        numbered = frame.coalesce(1).select("*", f.monotonically_increasing_id().alias("number"))
        found = numbered.where(_looks_at([column.name for column in own])).where(f.col(CORRUPT_COLUMN).isNotNull())
        bad = found.orderBy("number").select(f.col(CORRUPT_COLUMN).alias("record"), "number").first()
        if bad is None:
            return None
        if source.options.get("multiLine", "false") == "true" or "lineSep" in source.options:
            return f"record {bad['number'] + 1}"
        lines = session.read.text(place.pattern(file.path)).coalesce(1)
        lines = lines.select("value", f.monotonically_increasing_id().alias("number"))
        line = lines.where(f.trim("value") == f.trim(f.lit(bad["record"]))).orderBy("number").first()
        return f"record {bad['number'] + 1}" if line is None else f"line {line['number'] + 1}"
    except Exception:  # noqa: BLE001 - what is told is less then, and is told all the same
        return None

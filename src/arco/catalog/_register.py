"""Looking at files that are there already, to make a table of them: which they are, their columns, their rows.

Of a Parquet file only the footer is read. CSV and JSON lines have no footer: columns and types come from the beginning
of each file, and the rows are counted by reading it through, piece by piece. All files must say the same.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from arco.catalog._json_lines import check_json_lines
from arco.catalog._type_text import type_text
from arco.core import ArcoError, Corrupt, Invalid, NotFound, Refused, Runtime, TooLarge, Unavailable
from arco.domains.catalog import SchemaColumn, schema_hash
from arco.domains.catalog.checks import MAX_COLUMNS, check_location
from arco.domains.execution import DataFile
from arco.storage import ObjectInfo, ObjectMissing, Store, StoreFailed

__all__ = ["Found", "FoundColumn", "inspect"]

T = TypeVar("T")

MAX_FILES = 5_000
MAX_LISTED = 50_000
"""Objects looked at in all, those that are passed over included."""
MAX_LIST_BYTES = 900_000
"""What the names of all files may take: they become one event."""
MAX_TEXT_BYTES = 256 << 20
"""CSV and JSON that is read through in all."""
MAX_FOOTER = 16 << 20
TAIL = 64 << 10
SAMPLE = 1 << 20
PIECE = 4 << 20
COUNTED = 256 << 10
"""Bytes that are taken apart at a time: nothing but quotes takes fifty times its size."""
AT_ONCE = 16
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")


@dataclass(frozen=True)
class FoundColumn:
    name: str
    data_type: str
    is_nullable: bool


@dataclass(frozen=True)
class Found:
    """What a table of these files would be."""

    location: str
    """As the catalog writes it: below `data/`, without a slash at its end."""
    columns: tuple[FoundColumn, ...]
    files: tuple[DataFile, ...]
    row_count: int
    byte_size: int
    schema_hash: str


@dataclass(frozen=True)
class _File:
    info: ObjectInfo
    schema: pa.Schema
    rows: int


async def inspect(store: Store, location: str, format: str, runtime: Runtime | None = None) -> Found:
    """The columns, files and rows below a location. With a runtime, several files are read at once."""
    normal = check_location(location)
    if normal is None:
        raise Invalid("a table that is registered needs a location; name a folder or a file below data/")
    read = {"PARQUET": _parquet, "CSV": _csv, "JSON": _json}.get(format)
    if read is None:
        raise Invalid(f"files of format {format[:20]!r} cannot be registered; PARQUET, CSV and JSON can")
    infos = await _files(store, normal)
    if format != "PARQUET" and sum(info.size for info in infos) > MAX_TEXT_BYTES:
        raise TooLarge(f"{normal} holds more than {MAX_TEXT_BYTES >> 20} MiB of {format}; convert it to Parquet first")
    files = await _each(runtime, infos, lambda info: read(store, info))
    columns = _columns(format, files)
    named = [SchemaColumn("", column.name, column.data_type, column.is_nullable) for column in columns]
    return Found(
        location=normal,
        columns=columns,
        files=tuple(DataFile(file.info.path, file.info.size, file.rows) for file in files),
        row_count=sum(file.rows for file in files),
        byte_size=sum(file.info.size for file in files),
        schema_hash=schema_hash(named),
    )


async def _each(
    runtime: Runtime | None, items: Sequence[ObjectInfo], work: Callable[[ObjectInfo], Awaitable[T]]
) -> list[T]:
    """The work on each item, in order; the first failure ends it."""
    if runtime is None:
        return [await work(item) for item in items]
    found: dict[int, T] = {}
    failures: list[ArcoError] = []
    pending = list(enumerate(items))[::-1]

    async def take() -> None:
        while pending:
            index, item = pending.pop()
            try:
                found[index] = await work(item)
            except ArcoError as error:
                failures.append(error)
                pending.clear()

    try:
        for task in [runtime.spawn(take(), "read files to register") for _ in range(min(AT_ONCE, len(items)))]:
            await task
    finally:
        pending.clear()
    if failures:
        raise failures[0]
    return [found[index] for index in range(len(items))]


# Which files


async def _files(store: Store, location: str) -> list[ObjectInfo]:
    """The files at a location, by path. Names that begin with _ or . are left out, as Spark does."""
    listed, found = 0, []
    try:
        async for info in store.list(location):
            listed += 1
            if listed > MAX_LISTED:
                raise TooLarge(f"{location} holds more than {MAX_LISTED} objects; register a smaller folder")
            if _is_data(location, info):
                found.append(info)
        if not listed:
            info = await store.head(location)
            found = [info] if info.size else []
    except ObjectMissing:
        pass
    except StoreFailed as error:
        raise Unavailable(f"{location} cannot be listed now: {error.message}; try again") from error
    if not found:
        raise NotFound(f"there are no files at {location}; write them first, or check the location")
    if len(found) > MAX_FILES or sum(len(info.path) + 80 for info in found) > MAX_LIST_BYTES:
        raise TooLarge(f"{location} holds {len(found)} files, too many for one table version; merge them into fewer")
    return sorted(found, key=lambda info: info.path)


def _is_data(location: str, info: ObjectInfo) -> bool:
    parts = info.path[len(location) + 1 :].split("/")
    if "_delta_log" in parts:
        raise Refused(f"{location} is a Delta table: which of its files count, only its log says")
    if any(part.startswith(("_", ".")) for part in parts) or info.size == 0:
        return False
    for part in parts[:-1]:
        if "=" in part:
            raise Refused(
                f"{location} has the folder {part[:80]!r}: a column that is only in the names of folders would be "
                "lost; write it into the files"
            )
    return True


# What is in them


async def _parquet(store: Store, info: ObjectInfo) -> _File:
    tail = await _range(store, info, max(info.size - TAIL, 0), min(info.size, TAIL))
    if len(tail) < 12 or tail[-4:] != b"PAR1":
        raise Refused(f"{info.path} is not a Parquet file; remove it from the folder, or name another format")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > min(info.size, MAX_FOOTER):
        raise Refused(f"{info.path} has a footer of {length} bytes, which cannot be; write the file again")
    footer = tail[-length:] if length <= len(tail) else await _range(store, info, info.size - length, length)
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer))
        return _File(info, metadata.schema.to_arrow_schema(), metadata.num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Refused(f"{info.path} has a footer that cannot be read: {_short(error)}; write it again") from error


async def _csv(store: Store, info: ObjectInfo) -> _File:
    sample = await _sample(store, info, quoted=True)
    try:
        options = pyarrow.csv.ReadOptions(block_size=max(len(sample), 1), use_threads=False)
        parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
        schema = pyarrow.csv.read_csv(pa.BufferReader(sample), read_options=options, parse_options=parsing).schema
    except (pa.ArrowException, ValueError) as error:
        raise Refused(f"{info.path} is not CSV with a header: {_short(error)}") from error
    return _File(info, schema, max(await _count(store, info, quoted=True) - 1, 0))


async def _json(store: Store, info: ObjectInfo) -> _File:
    sample = await _sample(store, info, quoted=False)
    check_json_lines(sample, info.path)
    try:
        options = pyarrow.json.ReadOptions(block_size=max(len(sample), 1), use_threads=False)
        schema = pyarrow.json.read_json(pa.BufferReader(sample), read_options=options).schema
    except (pa.ArrowException, ValueError) as error:
        raise Refused(f"{info.path} does not have one JSON object a line: {_short(error)}") from error
    return _File(info, schema, await _count(store, info, quoted=False))


async def _sample(store: Store, info: ObjectInfo, *, quoted: bool) -> bytes:
    """Whole lines from the beginning of a file."""
    data = await _range(store, info, 0, min(info.size, SAMPLE))
    if data.startswith(_COMPRESSED):
        raise Refused(f"{info.path} is compressed; unpack it, or convert it to Parquet")
    if len(data) < info.size:
        data = _whole_lines(data, info, quoted=quoted)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{info.path} is not text in UTF-8, as byte {error.start} shows; convert it") from None
    return data


def _whole_lines(data: bytes, info: ObjectInfo, *, quoted: bool) -> bytes:
    end = len(data)
    while (end := data.rfind(b"\n", 0, end)) >= 0:
        if not quoted or data.count(b'"', 0, end) % 2 == 0:
            return data[: end + 1]
    raise Refused(f"{info.path} has a first line of more than {SAMPLE} bytes, or a quote that never closes")


async def _count(store: Store, info: ObjectInfo, *, quoted: bool) -> int:
    """The records of a file: its lines that are not blank, a line end in quotes being no end."""
    counter = _Lines(quoted)
    for offset in range(0, info.size, PIECE):
        data = await _range(store, info, offset, min(PIECE, info.size - offset))
        for start in range(0, len(data), COUNTED):
            counter.feed(data[start : start + COUNTED])
    return counter.end()


class _Lines:
    """Counts records piece by piece."""

    def __init__(self, quoted: bool) -> None:
        self._quoted = quoted
        self._inside = False
        self._begun = b""
        self._found = 0

    def feed(self, data: bytes) -> None:
        lines = (self._begun + (self._outside(data) if self._quoted else data)).split(b"\n")
        self._begun = b"x" if lines[-1].strip() else b""
        self._found += sum(1 for line in lines[:-1] if line.strip())

    def _outside(self, data: bytes) -> bytes:
        """The text with a mark in place of what stands in quotes."""
        parts = data.split(b'"')
        start = int(self._inside)
        self._inside = (start + len(parts) - 1) % 2 == 1
        return b"".join(part if (index + start) % 2 == 0 else b'"' for index, part in enumerate(parts))

    def end(self) -> int:
        return self._found + bool(self._begun)


async def _range(store: Store, info: ObjectInfo, offset: int, length: int) -> bytes:
    try:
        return await store.get_range(info.path, offset, length)
    except (ObjectMissing, Corrupt):
        raise Refused(f"{info.path} changed while it was read; try again when nobody writes there") from None
    except StoreFailed as error:
        raise Unavailable(f"{info.path} cannot be read now: {error.message}; try again") from error


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


# Their columns


def _columns(format: str, files: Sequence[_File]) -> tuple[FoundColumn, ...]:
    """The columns that all files have; `Refused` with the names of two that do not agree."""
    first = files[0]
    if format == "PARQUET":
        columns = _described(first, first.schema)
        nullable = [column.is_nullable for column in columns]
        for file in files[1:]:
            other = _described(file, file.schema)
            if _shape(other) != _shape(columns):
                raise _disagree(first, file, _shape(columns), _shape(other))
            nullable = [mine or theirs.is_nullable for mine, theirs in zip(nullable, other, strict=True)]
        pairs = zip(columns, nullable, strict=True)
        return tuple(FoundColumn(column.name, column.data_type, null) for column, null in pairs)
    schema = first.schema
    for file in files[1:]:
        if format == "CSV" and file.schema.names != schema.names:
            raise _disagree(first, file, schema.names, file.schema.names)
        try:
            schema = pa.unify_schemas([schema, file.schema], promote_options="permissive")
        except pa.ArrowException as error:
            raise Refused(f"{first.info.path} and {file.info.path} have different columns: {_short(error)}") from error
    return _described(first, schema, unknown="string")


def _described(file: _File, schema: pa.Schema, unknown: str | None = None) -> tuple[FoundColumn, ...]:
    try:
        columns = tuple(
            FoundColumn(field.name, type_text(field.name, field.type, unknown=unknown), field.nullable)
            for field in schema
        )
    except UnicodeDecodeError:
        raise Refused(f"{file.info.path} has a column whose name is not text in UTF-8; write it again") from None
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise Refused(f"{file.info.path} has {len(columns)} columns; a table has 1 to {MAX_COLUMNS}")
    return columns


def _shape(columns: Iterable[FoundColumn]) -> list[tuple[str, str]]:
    return [(column.name, column.data_type) for column in columns]


def _disagree(one: _File, other: _File, mine: Sequence[Any], theirs: Sequence[Any]) -> Refused:
    """Names the first column in which two files differ."""
    places = range(max(len(mine), len(theirs)))
    place = next(i for i in places if i >= len(mine) or i >= len(theirs) or mine[i] != theirs[i])

    def told(columns: Sequence[Any]) -> str:
        if place >= len(columns):
            return f"no column {place + 1}"
        found = columns[place]
        return found if isinstance(found, str) else " ".join(found)

    return Refused(
        f"{one.info.path} and {other.info.path} have different columns: {told(mine)[:200]} and {told(theirs)[:200]}; "
        "register files of one schema"
    )

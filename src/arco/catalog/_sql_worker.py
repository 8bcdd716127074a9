"""The process in which a query runs: a script that `_sql_process` starts, feeds through its input and may kill.

It imports nothing of Arco, has no environment, and once it has connected it can open no file: DuckDB is told so, and
the operating system too. Frames go both ways: eight bytes of length, then JSON.

                                                  -> {"ready"}, once everything is loaded
    <- {"sql", "memory", "seconds"}               -> what `json_serialize_sql` makes of the text
    <- {"ast", "prefix", "schemas", "views", "inputs", "rows", "bytes"}, then an Arrow stream for each input
                                                  -> {"columns"}, {"rows"} again and again, {"end", "truncated"}

Instead of any answer `{"error": true, "error_type", "error_message", "position"}` may come, and then the process ends.

Values as JSON: integers of up to 64 bits stay numbers and wider ones are text; decimals are text; dates, times and
timestamps are ISO 8601 text, those with a time zone in UTC with `Z`; binary is base64; structs and maps are objects;
NaN and the infinities are text; what JSON and Arrow have no word for (intervals, bit strings) is DuckDB's own text.
"""

import base64
import contextlib
import json
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

if __name__ == "__main__":
    sys.path.extend(sys.argv[1:])

import duckdb
import pyarrow as pa
import pyarrow.dataset  # DuckDB imports it when it scans Arrow data, and then no file may be opened any more

BATCH_ROWS = 1_000
MOST_COLUMNS = 2_000
MOST_TEXT = 1_000
"""Characters of a column's name or type in an answer."""
CHUNK_BYTES = 1 << 20
ADDRESS_SLACK = 256 << 20
"""Allocators reserve addresses for each thread that they may never use."""
DAY_MICROS = 86_400_000_000
INT64 = range(-(2**63), 2**64)
TEXT_ONLY = frozenset({"bit", "bignum", "varint", "interval", "time with time zone", "union", "variant", "geometry"})
"""Types of DuckDB that Arrow cannot tell from others, or that JSON has no form for. They are cast to text."""

Connection = Any


def main() -> None:
    requests = cast("BinaryIO", sys.stdin.buffer)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints must not mix with the answers
    connection = connect()
    send(answers, {"ready": True})
    first = receive(requests)
    if first is None:
        return
    signal.alarm(math.ceil(first["seconds"]) + 5)  # should the parent die: this ends a query that never would
    try:
        connection.execute(f"SET memory_limit = '{first['memory'] // 1_000}kB'")
        connection.execute("SET lock_configuration = true")
        confine()
        send(answers, parse(connection, first["sql"]))
        second = receive(requests)
        if second is not None:
            run(connection, second, requests, answers, first["memory"])
    except (duckdb.Error, pa.ArrowException, MemoryError, ValueError, OverflowError) as error:
        send(answers, described(error))


def receive(stream: BinaryIO) -> Any:
    head = stream.read(8)
    return json.loads(stream.read(int.from_bytes(head, "big"))) if len(head) == 8 else None


def send(stream: BinaryIO, message: Any) -> None:
    data = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
    stream.write(len(data).to_bytes(8, "big") + data)
    stream.flush()


def connect() -> Connection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_persistent_secrets": "false",
            "python_enable_replacements": "false",
            "temp_directory": "",
            "threads": "2",
            "errors_as_json": "true",
        },
    )
    connection.execute("ATTACH ':memory:' AS _arco")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def confine() -> None:
    """Nothing can be opened, written or dumped from here on, even if DuckDB would."""
    lowest = os.dup(0)
    os.close(lowest)
    for what, limit in ((resource.RLIMIT_NOFILE, lowest), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (limit, limit))


def confine_memory(memory: int) -> None:
    """Strings and lists that functions build are not in DuckDB's own account; this is the limit that holds."""
    with contextlib.suppress(OSError, ValueError):  # no such account, or no such limit, on this system
        limit = STATM_PAGES() * resource.getpagesize() + memory + memory // 2 + ADDRESS_SLACK
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _statm() -> Callable[[], int]:
    """Pages of address space in use. The file is opened now: later none can be."""
    try:
        handle = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:

        def nothing() -> int:
            raise OSError

        return nothing
    return lambda: int(os.pread(handle, 100, 0).split()[0])


STATM_PAGES = _statm()


def parse(connection: Connection, sql: str) -> bytes:
    return cast("str", connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()[0][0]).encode()


def run(connection: Connection, request: Any, requests: BinaryIO, answers: BinaryIO, memory: int) -> None:
    for name in request["inputs"]:
        connection.register(name, pa.ipc.open_stream(requests).read_all())
    for schema in request["schemas"]:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name, text in request["views"]:
        connection.execute(f"CREATE VIEW {name} AS {text}")
    sql = connection.execute("SELECT json_deserialize_sql($1)", [request["ast"]]).fetchall()[0][0]
    confine_memory(memory)
    relation = connection.sql(request["prefix"] + sql)
    columns = list(zip(relation.columns, relation.types, strict=True))
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"the result has {len(columns)} columns and may have {MOST_COLUMNS}; select fewer")
    # Types are texts of any length that a query can make up, so they are cut; rows have their own limit.
    send(answers, {"columns": [[name[:MOST_TEXT], str(kind)[:MOST_TEXT]] for name, kind in columns]})
    odd = [has_odd_type(kind) for _, kind in columns]
    if any(odd):
        relation = relation.project(
            ", ".join(f"CAST(#{at} AS VARCHAR)" if text else f"#{at}" for at, text in enumerate(odd, 1))
        )
    decimals = [str(kind).startswith("DECIMAL") for _, kind in columns]
    # No more than is wanted: a query may take long for each row.
    reader = relation.to_arrow_reader(min(BATCH_ROWS, request["rows"] + 1))
    truncated = stream_rows(reader, decimals, request["rows"], request["bytes"], answers)
    send(answers, {"end": True, "truncated": truncated})


def has_odd_type(kind: Any) -> bool:
    if kind.id in TEXT_ONLY:
        return True
    if kind.id not in ("list", "array", "struct", "map"):
        return False
    return any(has_odd_type(child) for _, child in kind.children if not isinstance(child, int))


def stream_rows(reader: Any, decimals: list[bool], max_rows: int, max_bytes: int, answers: BinaryIO) -> bool:
    """Send rows until a limit is reached; whether there were more."""
    count = size = waiting = 0
    chunk: list[str] = []
    truncated = False
    for row in rows_of(reader, decimals):
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        length = len(text.encode())
        if count == max_rows or size + length > max_bytes:
            truncated = True
            break
        count, size, waiting = count + 1, size + length, waiting + length
        chunk.append(text)
        if waiting > CHUNK_BYTES:
            send(answers, f'{{"rows":[{",".join(chunk)}]}}'.encode())
            chunk, waiting = [], 0
    send(answers, f'{{"rows":[{",".join(chunk)}]}}'.encode())
    return truncated


def rows_of(reader: Any, decimals: list[bool]) -> Iterator[list[Any]]:
    for batch in reader:
        columns = [
            [None if value is None else str(value) for value in column.to_pylist()] if decimal else values(column)
            for column, decimal in zip(batch.columns, decimals, strict=True)
        ]
        yield from map(list, zip(*columns, strict=True))


def values(array: pa.Array) -> list[Any]:
    """The values of an array as JSON has them."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return values(array.storage)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        parts = [values(part) for part in array.flatten()]
        rows = zip(*parts, strict=True) if parts else iter([()] * len(array))
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_map(kind):
        return [None if not item.is_valid else _object(item.values) for item in array]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [None if not item.is_valid else values(item.values) for item in array]
    if pa.types.is_dictionary(kind):
        return values(array.dictionary_decode())
    convert, raw = _conversion(kind)
    items = (array if raw is None else array.cast(raw)).to_pylist()
    return items if convert is None else [None if item is None else convert(item) for item in items]


def _object(entries: pa.StructArray) -> dict[str, Any]:
    keys, items = (values(part) for part in entries.flatten())
    texts = (key if isinstance(key, str) else json.dumps(key, ensure_ascii=False) for key in keys)
    return dict(zip(texts, items, strict=True))


def _conversion(kind: pa.DataType) -> tuple[Callable[[Any], Any] | None, pa.DataType | None]:
    """How one value becomes JSON, and what the array is read as before. No entry: as it is."""
    if pa.types.is_floating(kind):
        return _number, None
    if pa.types.is_decimal(kind):
        # What a HUGEINT is in Arrow.
        return (_integer if kind.scale == 0 and kind.precision == 38 else str), None
    if pa.types.is_timestamp(kind):
        nanos = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}[kind.unit]
        zone = "Z" if kind.tz else ""
        return (lambda count: _timestamp(count, nanos) + ("" if count in INFINITE else zone)), pa.int64()
    if pa.types.is_date32(kind):
        return (lambda days: INFINITE_DAYS.get(days) or _date(days)), pa.int32()
    if pa.types.is_time64(kind):
        nanos = 1_000 if kind.unit == "us" else 1
        return (lambda count: _time(count * nanos, 9 if nanos == 1 else 6)), pa.int64()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return (lambda data: base64.b64encode(data).decode()), None
    return None, None


INFINITE = {2**63 - 1: "infinity", -(2**63) + 1: "-infinity"}
INFINITE_DAYS = {2**31 - 1: "infinity", -(2**31) + 1: "-infinity"}


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _integer(value: Any) -> int | str:
    number = int(value)
    return number if number in INT64 else str(number)


def _timestamp(count: int, nanos: int) -> str:
    if count in INFINITE:
        return INFINITE[count]
    days, rest = divmod(count * nanos, DAY_MICROS * 1_000)
    return f"{_date(days)}T{_time(rest, 9 if nanos == 1 else 6)}"


def _time(nanos: int, digits: int) -> str:
    seconds, rest = divmod(nanos, 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{rest:09d}"[: 9 + digits]


def _date(days: int) -> str:
    """The date so many days after 1970-01-01. DuckDB knows years that Python's calendar does not."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day += 1 - (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9_999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def described(error: Exception) -> dict[str, Any]:
    text = str(error)
    found: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        found = json.loads(text[text.index("{") :])
    message = found.get("exception_message") or re.sub(r"^[A-Z][\w ]* Error: ", "", text)
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError)):
        kind = "memory"
    elif isinstance(error, (duckdb.InternalException, duckdb.FatalException)):
        kind = "internal"
    else:
        kind = "query"
    return {"error": True, "error_type": kind, "error_message": message, "position": found.get("position")}


if __name__ == "__main__":
    main()

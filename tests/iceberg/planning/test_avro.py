"""Files that somebody else wrote: what they may cost, and what is refused."""

import io
import json
import zlib
from typing import Any

import fastavro
import pytest

from arco.core import Invalid, TooLarge
from arco.iceberg import Unsupported
from arco.iceberg._planning._avro import read_avro

RECORD = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long", "field-id": 1}]}


def written(schema: Any, rows: list[Any], codec: str = "null") -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, codec=codec)
    return stream.getvalue()


def container(schema: Any, count: int, block: bytes, codec: str = "null") -> bytes:
    """A file with one block, whatever is in it."""

    def number(value: int) -> bytes:
        rest, found = value << 1, bytearray()
        while rest > 0x7F:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        return bytes([*found, rest])

    def text(data: bytes) -> bytes:
        return number(len(data)) + data

    header = number(2) + text(b"avro.schema") + text(json.dumps(schema).encode())
    header += text(b"avro.codec") + text(codec.encode()) + number(0) + bytes(16)
    return b"Obj\x01" + header + number(count) + text(block) + bytes(16)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_records_come_by_field_id(codec: str) -> None:
    rows = [{"n": number} for number in (0, -1, 1 << 60)]
    assert list(read_avro(written(RECORD, rows, codec), "m")) == [{"_1": 0}, {"_1": -1}, {"_1": 1 << 60}]


def test_an_empty_file() -> None:
    assert list(read_avro(written(RECORD, []), "m")) == []


def test_logical_types_are_left_as_they_are_stored() -> None:
    kind = {"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
    fields = [
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "field-id": 1},
        {"name": "cents", "type": kind, "field-id": 2},
    ]
    schema = {"type": "record", "name": "r", "fields": fields}
    assert list(read_avro(container(schema, 1, b"\x02\x02\x01\x00"), "m")) == [{"_1": 1, "_2": b"\x01\x00"}]


@pytest.mark.parametrize("codec", ["deflate", "null"])
def test_a_file_that_inflates_too_far(codec: str) -> None:
    bomb = bytes(1 << 20)
    packed = zlib.compressobj(wbits=-15)
    block = packed.compress(bomb) + packed.flush() if codec == "deflate" else bomb
    with pytest.raises(TooLarge, match="inflates to more than 1000 bytes"):
        read_avro(container(RECORD, 1, block, codec), "m", 1000)


@pytest.mark.parametrize("codec", ["snappy", "bzip2", "x" * 5000])
def test_other_compressions(codec: str) -> None:
    with pytest.raises(Unsupported, match="deflate"):
        read_avro(container(RECORD, 1, b"\x02", codec), "m")


def of(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": kind, "field-id": 1}]}


EMPTY = {"type": "record", "name": "e", "fields": []}
BY_NAME = {"type": "record", "name": "r", "fields": of(EMPTY)["fields"] + of({"type": "array", "items": "e"})["fields"]}


@pytest.mark.parametrize(
    "schema",
    [
        of({"type": "array", "items": "null"}),
        of({"type": "array", "items": EMPTY}),
        of({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}),
        {
            "type": "record",
            "name": "r",
            "fields": [*of(EMPTY)["fields"], *of({"type": "array", "items": "e"})["fields"]],
        },
        of(["null", "r"]),
        of("unheard"),
        of({"type": "enum", "name": "e", "symbols": ["A"]}),
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]},
        {"type": "record", "name": "r"},
        [],
        7,
    ],
)
def test_schemas_that_iceberg_has_not(schema: Any) -> None:
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" * 3
    with pytest.raises(Invalid, match="is not a manifest"):
        list(read_avro(container(schema, 1, endless), "m"))


def test_a_schema_that_is_too_deep() -> None:
    kind: Any = "int"
    for _ in range(50):
        kind = {"type": "array", "items": kind}
    with pytest.raises(Invalid, match="too deep"):
        read_avro(container(of(kind), 1, b""), "m")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Obj\x01",
        b"PAR1" + bytes(100),
        container(RECORD, 100, b"\x02"),
        container(RECORD, 2, b"\x02\xff"),
        container(RECORD, 1, b"\x02")[:-1],
        container(RECORD, 1, b"\x02") + b"\x02",
        container(RECORD, 1, b"\x02", "deflate"),
        container("long", 1, b"\x02"),
    ],
)
def test_broken_files(data: bytes) -> None:
    with pytest.raises(Invalid, match="m is not a manifest"):
        list(read_avro(data, "m"))

"""Values in their three notations: bounds, Avro and JSON."""

import struct
from typing import Any
from uuid import UUID

import pytest

from arco.iceberg import BadRequest, Unsupported
from arco.iceberg._planning._types import decode_bound, from_avro, literal, to_json

ID = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("boolean", b"\x01", True),
        ("int", b"\xff\xff\xff\xff", -1),
        ("long", b"\xff\xff\xff\xff", -1),
        ("long", b"\x01" + bytes(7), 1),
        ("double", struct.pack("<f", 1.5), 1.5),
        ("double", struct.pack("<d", 0.1), 0.1),
        ("decimal(9, 2)", b"\xff\x38", -200),
        ("decimal(9,2)", b"\x05\x8c", 1420),
        ("string", "ü".encode(), "ü"),
        ("fixed[2]", b"ab", b"ab"),
        ("date", b"\x01\x00\x00\x00", 1),
        ("timestamp_ns", b"\x01" + bytes(7), 1),
    ],
)
def test_bounds(kind: str, data: bytes, expected: Any) -> None:
    assert decode_bound(kind, data) == expected


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b""),
        ("int", b"\x01"),
        ("boolean", b""),
        ("double", b"\x01"),
        ("double", struct.pack("<d", float("nan"))),
        ("string", b"\xff"),
        ("decimal(9,2)", b""),
        ("timestamp", b"\x01\x00\x00\x00"),  # it was a date
        ("uuid", ID.bytes),  # writers order it differently
        ("variant", b"\x01"),
        ("struct", b"\x01"),
        ("int", None),
    ],
)
def test_bounds_that_say_nothing(kind: str, data: bytes | None) -> None:
    assert decode_bound(kind, data) is None


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("boolean", True, True),
        ("int", 5, 5),
        ("int", 1 << 40, 1 << 40),
        ("double", 5, 5.0),
        ("float", 0.25, 0.25),
        ("float", 0.1, None),  # engines disagree about it
        ("float", 1e300, None),
        ("string", "a", "a"),
        ("decimal(9,2)", "14.20", 1420),
        ("decimal(9,2)", "14.2", 1420),
        ("decimal(9,2)", 14, 1400),
        ("date", "2017-11-16", 17486),
        ("date", 17486, 17486),
        ("time", "22:31:08", 81068000000),
        ("time", "22:31:08.000001", 81068000001),
        ("timestamp", "2017-11-16T22:31:08", 1510871468000000),
        ("timestamp", "2017-11-16T22:31", 1510871460000000),
        ("timestamp", "1969-12-31T23:59:59.999999", -1),
        ("timestamptz", "2017-11-16T14:31:08-08:00", 1510871468000000),
        ("timestamptz", "2017-11-16T22:31:08.000001Z", 1510871468000001),
        ("timestamptz_ns", "2017-11-16T22:31:08.000001001+00:00", 1510871468000001001),
        ("uuid", str(ID), ID.bytes),
        ("binary", "0AFF", b"\x0a\xff"),
        ("fixed[2]", "0aff", b"\x0a\xff"),
    ],
)
def test_literals(kind: str, value: Any, expected: Any) -> None:
    assert literal(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", 1.5),
        ("int", "1"),
        ("double", "1"),
        ("double", True),
        ("double", float("nan")),
        ("string", 1),
        ("decimal(9,2)", "1.234"),
        ("decimal(9,2)", "x"),
        ("decimal(9,2)", "NaN"),
        ("decimal(9,2)", True),
        ("date", "2017-13-01"),
        ("date", 1.5),
        ("time", "24:00:00"),
        ("time", "x"),
        ("timestamp", "2017-11-16T22:31:08Z"),
        ("timestamp", "2017-11-16T22:31:08.0000001"),
        ("timestamp", "2017-11-16"),
        ("timestamptz", "2017-11-16T22:31:08"),
        ("uuid", "x"),
        ("binary", "zz"),
        ("struct", "x"),
        ("int", None),
    ],
)
def test_literals_that_are_none(kind: str, value: Any) -> None:
    with pytest.raises(BadRequest, match="the filter compares"):
        literal(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", None, None),
        ("int", 5, 5),
        ("decimal(9,2)", 1420, "14.20"),
        ("decimal(9,2)", -5, "-0.05"),
        ("date", 17486, "2017-11-16"),
        ("date", -1, "1969-12-31"),
        ("time", 81068000000, "22:31:08"),
        ("timestamp", 1510871468000001, "2017-11-16T22:31:08.000001"),
        ("timestamptz", 1510871468000000, "2017-11-16T22:31:08+00:00"),
        ("timestamp_ns", -1, "1969-12-31T23:59:59.999999999"),
        ("uuid", ID.bytes, str(ID)),
        ("binary", b"\x0a\xff", "0AFF"),
        ("string", "a", "a"),
        ("boolean", False, False),
    ],
)
def test_json(kind: str, value: Any, expected: Any) -> None:
    assert to_json(kind, value) == expected


@pytest.mark.parametrize(("kind", "value"), [("double", float("nan")), ("date", 10**8)])
def test_what_has_no_json_form(kind: str, value: Any) -> None:
    with pytest.raises(Unsupported):
        to_json(kind, value)


def test_avro() -> None:
    assert from_avro("decimal(9,2)", b"\xff\x38") == -200
    assert from_avro("uuid", str(ID)) == ID.bytes
    assert from_avro("unknown", 5) is None
    for kind, raw in [("int", "a"), ("int", True), ("string", 1), ("boolean", 1), ("double", 1)]:
        with pytest.raises(BadRequest, match="partition value"):
            from_avro(kind, raw)

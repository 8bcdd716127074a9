"""Default values of columns."""

from typing import Any

import pytest

from arco.iceberg import IllegalArgument
from arco.iceberg.metadata._defaults import check_default
from arco.iceberg.metadata._types import parse_primitive

GOOD: list[tuple[str, Any]] = [
    ("boolean", True),
    ("int", -(2**31)),
    ("long", 2**63 - 1),
    ("float", 1.5),
    ("double", 1.0),
    ("decimal(9,2)", "-14.20"),
    ("decimal(9,0)", "14"),
    ("string", ""),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("date", "2017-11-16"),
    ("time", "22:31:08.123456"),
    ("time", "22:31"),
    ("timestamp", "2017-11-16T22:31:08.123456"),
    ("timestamptz", "2017-11-16T22:31:08.123456+00:00"),
    ("timestamp_ns", "2017-11-16T22:31:08.123456789"),
    ("timestamptz_ns", "2017-11-16T22:31:08.123456789+00:00"),
    ("fixed[2]", "00fF"),
    ("binary", "00ff01"),
    ("binary", ""),
]
BAD: list[tuple[str, Any]] = [
    ("boolean", 1),
    ("int", True),
    ("int", 2**31),
    ("int", 1.0),
    ("long", 2**63),
    ("float", 1),
    ("double", "1.0"),
    ("decimal(9,2)", "14.2"),
    ("decimal(9,2)", 14.2),
    ("decimal(9,2)", "x"),
    ("string", 5),
    ("string", {"a": []}),
    ("uuid", "f79c3e09677c4bbda4793f349cb785e7"),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785ez"),
    ("date", "2017-13-16"),
    ("date", "20171116"),
    ("time", "25:00:00"),
    ("timestamp", "2017-11-16"),
    ("timestamp", "2017-11-16T22:31:08+00:00"),
    ("timestamptz", "2017-11-16T22:31:08"),
    ("timestamptz", "2017-11-16T22:31:08+01:00"),
    ("fixed[2]", "00"),
    ("fixed[2]", "00zz"),
    ("binary", "0"),
    ("variant", "x"),
    ("unknown", 1),
    ("geometry", "POINT(1 1)"),
]


@pytest.mark.parametrize(("kind", "value"), GOOD)
def test_defaults(kind: str, value: Any) -> None:
    check_default(parse_primitive(kind), value, "c")


@pytest.mark.parametrize(("kind", "value"), BAD)
def test_what_is_no_default(kind: str, value: Any) -> None:
    with pytest.raises(IllegalArgument, match="Cannot parse default of c as a"):
        check_default(parse_primitive(kind), value, "c")


def test_a_number_too_long_to_be_shown() -> None:
    with pytest.raises(IllegalArgument, match="a `int`"):
        check_default(parse_primitive("int"), 10**5000, "c")

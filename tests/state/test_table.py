"""Tables: schemas follow from row classes, buckets are fixed for ever, declarations that cannot work are refused."""

from enum import StrEnum

import msgspec
import pyarrow as pa
import pytest

from arco.core import Invalid
from arco.domains.execution import MATERIALIZATIONS
from arco.state import BUCKETS, Kind, Table, Time, bucket_of


class Colour(StrEnum):
    RED = "red"


class Part(msgspec.Struct, frozen=True):
    name: str
    size: int | None = None


class Everything(msgspec.Struct, frozen=True):
    key: str
    text: str | None
    number: int
    ratio: float
    flag: bool
    raw: bytes
    at: Time
    later: Time | None
    colour: Colour
    tags: dict[str, str]
    parts: list[Part]
    more: tuple[str, ...]


def table(kind: Kind = Kind.IMAGE, **changes: object) -> Table:
    return Table("everything", Everything, kind, **{"key": ("key",), "group": "key", **changes})  # type: ignore[arg-type]


def test_the_schema_follows_from_the_row_class() -> None:
    found = table().schema
    time = pa.timestamp("us", tz="UTC")
    assert {field.name: field.type for field in found} == {
        "key": pa.string(),
        "text": pa.string(),
        "number": pa.int64(),
        "ratio": pa.float64(),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "at": time,
        "later": time,
        "colour": pa.string(),
        "tags": pa.map_(pa.string(), pa.string()),
        "parts": pa.list_(pa.struct([("name", pa.string()), ("size", pa.int64())])),
        "more": pa.list_(pa.string()),
        "_position": pa.int64(),
        "_bucket": pa.uint8(),
        "_deleted": pa.bool_(),
    }
    assert [field.name for field in found if not field.nullable] == ["key", "_position", "_bucket", "_deleted"]
    assert table(Kind.FACT).schema.names == [name for name in found.names if name != "_deleted"]


def test_a_column_type_without_an_arrow_type_is_refused() -> None:
    class Odd(msgspec.Struct, frozen=True):
        key: str
        value: complex

    class Either(msgspec.Struct, frozen=True):
        key: str
        value: int | str

    for row in (Odd, Either):
        with pytest.raises(Invalid, match="cannot have a column of type"):
            assert Table("odd", row, Kind.FACT, ("key",), "key").schema


def test_a_table_names_only_columns_it_has() -> None:
    with pytest.raises(Invalid, match="lacks: \\['absent'\\]"):
        table(prune=("absent",))
    with pytest.raises(Invalid, match="only facts expire"):
        table(time="at")


def test_keys_groups_and_times_are_read_from_rows() -> None:
    assert MATERIALIZATIONS.time_of is not None
    assert table().time_of is None
    pair = Table("pair", Part, Kind.IMAGE, ("name", "name"), "name")
    assert pair.key_of(Part("x")) == ("x", "x")
    assert pair.group_of(Part("x")) == "x"


class Placed(msgspec.Struct, frozen=True):
    shelf: str
    kind: str
    name: str


@pytest.mark.parametrize("key", [("shelf", "kind", "name"), ("name", "shelf"), ("name",), ("shelf",), ("kind", "name")])
def test_keys_of_one_group_sort_the_same_without_what_they_share(key: tuple[str, ...]) -> None:
    placed = Table("placed", Placed, Kind.IMAGE, key, "shelf")
    keys = [placed.key_of(Placed("s", kind, name)) for kind in "ba" for name in ("n2", "n10", "n1")]
    assert sorted(keys, key=placed.order_of) == sorted(keys)


@pytest.mark.parametrize(
    ("group", "bucket"), [("", 0xE3), ("a", 0xCA), ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 0x8E), ("ä\x1fb", 0x28)]
)
def test_buckets_never_change(group: str, bucket: int) -> None:
    assert bucket_of(group) == bucket
    assert 0 <= bucket < BUCKETS

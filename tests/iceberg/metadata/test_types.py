"""Types and transforms as texts."""

import pytest

from arco.iceberg import BadRequest
from arco.iceberg.metadata._types import can_transform, parse_primitive, parse_transform


@pytest.mark.parametrize(
    ("text", "kind", "canonical"),
    [
        ("LONG", "long", "long"),
        ("timestamptz", "timestamp", "timestamptz"),
        ("timestamptz_ns", "timestamp_ns", "timestamptz_ns"),
        ("fixed[ 16 ]", "fixed", "fixed[16]"),
        ("decimal(9,2)", "decimal", "decimal(9, 2)"),
        ("geometry", "geometry", "geometry"),
        ("geometry(OGC:CRS84)", "geometry", "geometry"),
        ("Geometry( EPSG:4326 )", "geometry", "geometry(EPSG:4326)"),
        ("geography(srid:1, Karney)", "geography", "geography(srid:1, karney)"),
        ("geography(srid:1)", "geography", "geography(srid:1)"),
    ],
)
def test_primitives(text: str, kind: str, canonical: str) -> None:
    primitive = parse_primitive(text)
    assert (primitive.kind, str(primitive)) == (kind, canonical)


@pytest.mark.parametrize(
    "text",
    ["", "integer", "fixed", "fixed[x]", "decimal(9)", "decimal(39,2)", "geography(a, b, c)", "geography(a, flat)"],
)
def test_what_is_no_primitive(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_primitive(text)


@pytest.mark.parametrize(
    ("text", "name", "canonical"),
    [
        ("Identity", "identity", "identity"),
        ("bucket[016]", "bucket", "bucket[16]"),
        ("TRUNCATE[4]", "truncate", "truncate[4]"),
        ("zorder[3]", "zorder[3]", "zorder[3]"),
        ("Later", "Later", "Later"),
    ],
)
def test_transforms(text: str, name: str, canonical: str) -> None:
    transform = parse_transform(text)
    assert (transform.name, str(transform)) == (name, canonical)


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[0]", "bucket[9999999999]"])
def test_widths_that_cannot_be(text: str) -> None:
    with pytest.raises(BadRequest, match="must be > 0"):
        parse_transform(text)


GOES_WITH = {
    "identity": "boolean int long float double string uuid binary date time timestamp decimal(9,2) fixed[2]",
    "bucket[4]": "int long string uuid binary date time timestamp timestamp_ns decimal(9,2) fixed[2]",
    "truncate[4]": "int long string binary decimal(9,2)",
    "year": "date timestamp timestamp_ns",
    "day": "date timestamp timestamptz timestamptz_ns",
    "hour": "timestamp timestamptz timestamp_ns",
    "void": "int variant geometry geography",
    "later": "int variant",
}


@pytest.mark.parametrize("transform", GOES_WITH)
def test_which_transform_goes_with_which_type(transform: str) -> None:
    types = GOES_WITH[transform].split()
    assert all(can_transform(parse_transform(transform), parse_primitive(text)) for text in types)


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        ("identity", "variant"),
        ("identity", "geometry"),
        ("bucket[4]", "float"),
        ("bucket[4]", "boolean"),
        ("truncate[2]", "date"),
        ("month", "time"),
        ("hour", "date"),
        ("day", "string"),
    ],
)
def test_which_does_not(transform: str, text: str) -> None:
    assert not can_transform(parse_transform(transform), parse_primitive(text))

"""Declared schemas against registered ones: what readers of the old one would not survive."""

import pytest

from arco.assets import SchemaColumn
from arco.core import Invalid
from arco.servo._deploy_schema import breaking_changes, canonical_columns

BEFORE = (SchemaColumn("id", "int", False), SchemaColumn("name", "string"))


def columns(*texts: str) -> tuple[SchemaColumn, ...]:
    """Columns written as `name:type`, with `!` for required ones."""
    split = (text.split(":") for text in texts)
    return tuple(SchemaColumn(name, kind.rstrip("!"), not kind.endswith("!")) for name, kind in split)


@pytest.mark.parametrize(
    ("after", "broken"),
    [
        (("id:int!", "name:string"), {}),
        (("ID:int!", "name:string"), {}),
        (("id:int!", "name:string", "more:date"), {}),
        (("id:int!", "name:string", "more:date!"), {"backward", "full"}),
        (("id:long!", "name:string"), {"forward", "full"}),
        (("id:int", "name:string"), {"forward", "full"}),
        (("id:int!",), {"forward", "full"}),
        (("id:string!", "name:string"), {"none", "backward", "forward", "full"}),
        (("id:int!", "name:string!"), {"none", "backward", "forward", "full"}),
    ],
)
def test_each_kind_of_change_breaks_what_the_table_of_compatibility_says(
    after: tuple[str, ...], broken: set[str]
) -> None:
    for compatibility in ("none", "backward", "forward", "full"):
        found = breaking_changes("s.a", BEFORE, columns(*after), compatibility)
        assert bool(found) == (compatibility in broken)
        assert all(text.startswith("s.a: the column ") for text in found)


def test_every_breaking_change_is_told() -> None:
    assert len(breaking_changes("s.a", BEFORE, columns("id:string!", "name:string!", "more:int!"))) == 3


def test_types_are_compared_in_their_one_text() -> None:
    (column,) = canonical_columns("s.a", [SchemaColumn("id", "BIGINT")])
    assert column.type == "long"
    with pytest.raises(Invalid, match=r"the column id of s\.a: "):
        canonical_columns("s.a", [SchemaColumn("id", "integre")])

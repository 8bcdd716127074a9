"""What clients may not do, and which places they name."""

import pytest

from arco.iceberg import BadRequest
from arco.iceberg.metadata import (
    check_guardrails,
    locations_in,
    parse_create,
    parse_create_view,
    parse_register,
    parse_updates,
)
from tests.iceberg.metadata.examples import COLUMNS, LOCATION, create_body, schema, table, version

PLACES = {
    "write.metadata.path": "s3://m",
    "write.data.path": "s3://d",
    "write.object-storage.path": "s3://o",
    "write.folder-storage.path": "s3://f",
}


@pytest.mark.parametrize("name", ["arco.owner", "ARCO.x", "Arco.", " arco.x"])
def test_arcos_own_properties(name: str) -> None:
    view = {"name": "v", "schema": schema(*COLUMNS), "view-version": version(), "properties": {name: "x"}}
    for subject in (
        parse_create(create_body(properties={name: "x"})),
        parse_create_view(view),
        parse_updates([{"action": "set-properties", "updates": {name: "x"}}]),
        parse_updates([{"action": "remove-properties", "removals": [name]}]),
        parse_updates([{"action": "set-properties", "updated": {name: "x"}}]),
        table(properties={name: "x"}),
    ):
        with pytest.raises(BadRequest, match=r"begin with arco\. cannot be changed through Iceberg"):
            check_guardrails(subject)


def test_other_properties() -> None:
    check_guardrails(parse_create(create_body(properties={"arcology": "x", "my.arco.x": "y"})))
    check_guardrails(parse_updates([{"action": "set-location", "location": "arco.x"}]))
    check_guardrails(parse_register({"name": "x", "metadata-location": "arco.x"}))


def test_places() -> None:
    assert locations_in(parse_create(create_body(location="s3://l", properties=PLACES))) == [
        "s3://l",
        "s3://m",
        "s3://d",
        "s3://o",
        "s3://f",
    ]
    assert locations_in(parse_create(create_body())) == []
    assert locations_in(parse_register({"name": "x", "metadata-location": "s3://r"})) == ["s3://r"]
    assert locations_in(table(properties={"write.data.path": "s3://d"})) == [LOCATION, "s3://d"]
    view = {"name": "v", "schema": schema(*COLUMNS), "view-version": version(), "location": "s3://v"}
    assert locations_in(parse_create_view(view)) == ["s3://v"]


def test_places_in_updates() -> None:
    updates = parse_updates(
        [
            {"action": "set-location", "location": "s3://a"},
            {"action": "set-properties", "updates": {"write.metadata.path": "s3://b", "x": "s3://no"}},
            {"action": "set-location", "location": "s3://c"},
        ]
    )
    assert locations_in(updates) == ["s3://a", "s3://b", "s3://c"]

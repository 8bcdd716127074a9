"""Views: their first document, and updates of them."""

from typing import Any

import pytest

from arco.core import Invalid
from arco.iceberg import IllegalArgument
from arco.iceberg.metadata import Doc, check_view
from tests.iceberg.metadata.examples import (
    LOCATION,
    NOW,
    UUID,
    column,
    edit_view,
    schema,
    version,
    view,
    view_updates,
)

CURRENT = {"action": "set-current-view-version", "view-version-id": -1}
ALLOWED = {"replace.drop-dialect.allowed": "true"}


def add(made: Doc) -> Doc:
    return {"action": "add-view-version", "view-version": made}


def replaced(base: Doc, number: int, **more: Any) -> Doc:
    return edit_view(base, add(version(number, f"select {number}", **more)), CURRENT)


def test_a_new_view() -> None:
    made = view(properties={"comment": "c"}, **{"view-version": version(7, **{"schema-id": 5, "later": 1})})
    assert made["view-uuid"] == UUID
    assert made["format-version"] == 1
    assert made["location"] == LOCATION
    assert made["properties"] == {"comment": "c"}
    assert made["current-version-id"] == 1
    assert made["versions"] == [{**version(7), "version-id": 1, "schema-id": 0, "later": 1}]
    assert made["version-log"] == [{"timestamp-ms": NOW + 7, "version-id": 1}]
    assert made["schemas"][0]["schema-id"] == 0
    assert check_view(made) is made


def test_ids_of_a_views_columns_are_its_own() -> None:
    made = view(schema=schema(column(44, "x"), **{"schema-id": 9}))
    assert made["schemas"] == [schema(column(44, "x"), **{"schema-id": 0})]


@pytest.mark.parametrize("action", sorted(view_updates()))
def test_every_update_makes_a_view_that_can_be_read(action: str) -> None:
    made = edit_view(view(), view_updates()[action])
    assert check_view(made) is made


def test_a_version_is_added_and_made_current() -> None:
    made = edit_view(
        view(),
        {"action": "add-schema", "schema": schema(column(1, "other"))},
        add(version(1, "select 2", **{"schema-id": -1})),
        CURRENT,
    )
    assert made["current-version-id"] == 2
    assert made["versions"][1]["schema-id"] == 1
    assert [entry["version-id"] for entry in made["version-log"]] == [1, 2]
    assert made["version-log"][1]["timestamp-ms"] == NOW + 1


def test_an_equal_version_is_used_again() -> None:
    base = view()
    again = version(5, **{"timestamp-ms": 77})
    assert edit_view(base, add(again), CURRENT) is base


def test_an_equal_version_of_an_equal_schema_is_used_again() -> None:
    base = view()
    same = {"action": "add-schema", "schema": {**base["schemas"][0], "schema-id": 8}}
    assert edit_view(base, same, add(version(5, **{"schema-id": -1})), CURRENT) is base


def test_going_back_happens_now() -> None:
    made = edit_view(replaced(view(), 2), {"action": "set-current-view-version", "view-version-id": 1}, now=NOW + 9000)
    assert made["current-version-id"] == 1
    assert made["version-log"][-1] == {"timestamp-ms": NOW + 9000, "version-id": 1}


@pytest.mark.parametrize(
    ("update", "text"),
    [
        ({"action": "set-current-view-version", "view-version-id": 9}, "unknown version: 9"),
        (CURRENT, "Cannot set last version id: no current version id has been set"),
        (add(version(2, "x", **{"schema-id": 7})), "Cannot add version with unknown schema: 7"),
        (add(version(2, "x", **{"schema-id": -1})), "Cannot set last added schema: no schema has been added"),
        ({"action": "assign-uuid", "uuid": "x"}, "Cannot reassign uuid"),
        ({"action": "upgrade-format-version", "format-version": 2}, "Unsupported format version: 2"),
        ({"action": "upgrade-format-version", "format-version": 0}, "Cannot downgrade v1 view to v0"),
    ],
)
def test_updates_that_are_refused(update: Doc, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        edit_view(view(), update)


def test_one_query_a_dialect() -> None:
    queries = [{"type": "sql", "sql": "x", "dialect": "Spark"}, {"type": "sql", "sql": "y", "dialect": "spark"}]
    with pytest.raises(IllegalArgument, match="Cannot add multiple queries for dialect spark"):
        edit_view(view(), add({**version(2), "representations": queries}))


def test_no_dialect_is_lost_by_accident() -> None:
    other = add(version(2, "select 2", "trino"))
    with pytest.raises(IllegalArgument, match=r"loss of view dialects \(replace.drop-dialect.allowed=false\)"):
        edit_view(view(), other, CURRENT)
    assert edit_view(view(properties=ALLOWED), other, CURRENT)["current-version-id"] == 2
    both = edit_view(view(), {"action": "set-properties", "updates": ALLOWED}, other, CURRENT)
    assert both["current-version-id"] == 2


def test_a_dialect_may_be_added() -> None:
    queries = [{"type": "sql", "sql": "x", "dialect": "trino"}, {"type": "sql", "sql": "y", "dialect": "SPARK"}]
    made = edit_view(view(), add({**version(2), "representations": queries}), CURRENT)
    assert made["current-version-id"] == 2


@pytest.mark.parametrize(("size", "kept"), [(None, 10), ("3", 3), ("1", 1)])
def test_old_versions_go(size: str | None, kept: int) -> None:
    made = view(properties={} if size is None else {"version.history.num-entries": size})
    for number in range(2, 16):
        made = replaced(made, number)
    assert [one["version-id"] for one in made["versions"]] == list(range(16 - kept, 16))
    assert [one["version-id"] for one in made["version-log"]] == list(range(16 - kept, 16))


def test_the_current_version_stays_however_old() -> None:
    made = view(properties={"version.history.num-entries": "2"})
    made = replaced(made, 2)
    made = edit_view(made, {"action": "set-current-view-version", "view-version-id": 1})
    made = edit_view(made, add(version(3, "select 3")))
    assert [one["version-id"] for one in made["versions"]] == [1, 3]
    assert [one["version-id"] for one in made["version-log"]] == [1]


def test_versions_of_one_commit_stay() -> None:
    base = view(properties={"version.history.num-entries": "1"})
    made = edit_view(base, *(add(version(number, f"select {number}")) for number in (2, 3, 4)), CURRENT)
    assert [one["version-id"] for one in made["versions"]] == [2, 3, 4]


@pytest.mark.parametrize(("size", "text"), [("0", "must be positive but was 0"), ("x", "must be an integer")])
def test_a_history_that_cannot_be(size: str, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        edit_view(view(), {"action": "set-properties", "updates": {"version.history.num-entries": size}})


def test_nothing_changed() -> None:
    base = view(properties={"a": "b"})
    nothing: list[Doc] = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "set-location", "location": LOCATION + "/"},
        {"action": "set-properties", "updates": {"a": "b"}},
        {"action": "remove-properties", "removals": ["x"]},
        {"action": "set-current-view-version", "view-version-id": 1},
    ]
    assert edit_view(base, *nothing) is base


def test_properties_and_location() -> None:
    made = edit_view(
        view(properties={"a": "b"}),
        {"action": "set-properties", "updates": {"c": "d"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "set-location", "location": "s3://o"},
    )
    assert made["properties"] == {"c": "d"}
    assert made["location"] == "s3://o"


def test_unknown_fields_stay() -> None:
    base = view()
    base = {**base, "later": 1, "versions": [{**base["versions"][0], "soon": 2}]}
    made = replaced(base, 2)
    assert made["later"] == 1
    assert made["versions"][0]["soon"] == 2

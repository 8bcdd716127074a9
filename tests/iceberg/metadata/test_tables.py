"""The first document of a table."""

from typing import Any

import pytest

from arco.iceberg import BadRequest, IllegalArgument, ValidationFailed
from arco.iceberg.metadata import Doc, check_table, new_table, parse_create
from tests.iceberg.metadata.examples import (
    COLUMNS,
    LOCATION,
    NOW,
    UUID,
    VERSIONS,
    column,
    create_body,
    edit,
    schema,
    sort_field,
    spec_field,
    table,
)

NESTED = schema(
    column(10, "a", required=True),
    column(
        11,
        "s",
        schema(
            column(20, "x", "int", required=True),
            column(21, "l", {"type": "list", "element-id": 30, "element": "int", "element-required": True}),
        ),
        required=True,
    ),
    column(
        12,
        "m",
        {
            "type": "map",
            "key-id": 40,
            "key": schema(column(50, "k", "string")),
            "value-id": 41,
            "value": schema(column(51, "v", "date")),
            "value-required": False,
        },
    ),
    column(13, "z", "timestamp"),
    **{"identifier-field-ids": [20, 10], "schema-id": 99},
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_table(version: Any) -> None:
    made = table(version)
    assert made["format-version"] == version
    assert made["table-uuid"] == UUID
    assert made["location"] == LOCATION
    assert made["last-updated-ms"] == NOW
    assert (made["last-column-id"], made["current-schema-id"]) == (3, 0)
    assert made["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert (made["last-partition-id"], made["default-spec-id"]) == (999, 0)
    assert made["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert made["properties"] == {"write.parquet.compression-codec": "zstd"}
    assert made["current-snapshot-id"] == (None if version == 3 else -1)
    assert made["snapshots"] == made["snapshot-log"] == made["metadata-log"] == []
    assert made.get("last-sequence-number") == (None if version == 1 else 0)
    assert made.get("next-row-id") == (0 if version == 3 else None)
    assert ("schema" in made, "partition-spec" in made) == (version == 1, version == 1)
    assert check_table(made) is made


def test_ids_are_given_anew_as_others_give_them() -> None:
    body = create_body(schema=NESTED)
    fields = [spec_field("z_day", "day", 13, 7), spec_field("x", "void", 20, 8)]
    body["partition-spec"] = {"spec-id": 3, "fields": fields}
    body["write-order"] = {"order-id": 5, "fields": [sort_field(20), sort_field(13, "month")]}
    made = new_table(parse_create(body), location=LOCATION, table_uuid=UUID, now_ms=NOW)
    fresh = made["schemas"][0]
    ids = {field["name"]: field["id"] for field in fresh["fields"]}
    assert ids == {"a": 1, "s": 2, "m": 3, "z": 4}
    struct, mapping = fresh["fields"][1]["type"], fresh["fields"][2]["type"]
    assert [field["id"] for field in struct["fields"]] == [5, 6]
    assert struct["fields"][1]["type"]["element-id"] == 7
    assert (mapping["key-id"], mapping["value-id"]) == (8, 9)
    assert mapping["key"]["fields"][0]["id"] == 10
    assert mapping["value"]["fields"][0]["id"] == 11
    assert made["last-column-id"] == 11
    assert fresh["identifier-field-ids"] == [1, 5]
    assert fresh["schema-id"] == 0
    spec = made["partition-specs"][0]
    assert [(field["source-id"], field["field-id"]) for field in spec["fields"]] == [(4, 1000), (5, 1001)]
    assert made["last-partition-id"] == 1001
    assert made["sort-orders"][0]["order-id"] == made["default-sort-order-id"] == 1
    assert [field["source-id"] for field in made["sort-orders"][0]["fields"]] == [5, 4]


def test_reserved_properties_are_not_kept() -> None:
    made = table(properties={"uuid": "x", "snapshot-count": "3", "current-schema": "{}", "a": "b"})
    assert made["properties"] == {"a": "b", "write.parquet.compression-codec": "zstd"}


def test_a_client_may_choose_the_compression() -> None:
    name = "write.parquet.compression-codec"
    assert table(properties={name: "gzip"})["properties"][name] == "gzip"


def test_the_default_format_is_2() -> None:
    body = create_body()
    del body["properties"]
    assert new_table(parse_create(body), location="s3://x", table_uuid=UUID, now_ms=1)["format-version"] == 2


@pytest.mark.parametrize("version", ["0", "4", "-1", "99"])
def test_a_format_nobody_knows(version: Any) -> None:
    with pytest.raises(IllegalArgument, match=rf"Unsupported format version: v{version} \(supported: v3\)"):
        table(version)


def test_a_format_that_is_no_number() -> None:
    with pytest.raises(ValidationFailed, match="format-version must be an integer"):
        table("two")


@pytest.mark.parametrize(
    "kind", ["variant", "unknown", "timestamp_ns", "timestamptz_ns", "geometry(EPSG:4326)", "geography", "geometry"]
)
def test_types_of_format_3(kind: str) -> None:
    body = {"schema": schema(*COLUMNS, column(4, "data", kind))}
    made = table(3, **body)
    assert made["schemas"][0]["fields"][3]["type"] == kind
    for version in (1, 2):
        with pytest.raises(ValidationFailed, match=r"Invalid type for data: .* is not supported until v3"):
            table(version, **body)


def test_the_text_that_the_compatibility_kit_looks_for() -> None:
    with pytest.raises(ValidationFailed, match="variant is not supported until v3"):
        table(2, schema=schema(column(1, "id", required=True), column(2, "data", "variant")))


@pytest.mark.parametrize("name", ["initial-default", "write-default"])
def test_defaults_are_of_format_3(name: str) -> None:
    body = {"schema": schema(column(1, "a", "int", **{name: 5}))}
    assert table(3, **body)["schemas"][0]["fields"][0][name] == 5
    with pytest.raises(ValidationFailed, match=r"non-null default \(5\) is not supported until v3"):
        table(2, **body)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"commit.retry.num-retries": "x"}, "commit.retry.num-retries must have integer value"),
        ({"commit.retry.min-wait-ms": "-1"}, "must have non negative integer value"),
        ({"write.metadata.metrics.column.nope": "full"}, "could not find column nope"),
    ],
)
def test_properties_that_would_make_it_unwritable(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ValidationFailed, match=text):
        table(properties=properties)


def test_encryption_needs_format_3() -> None:
    with pytest.raises(IllegalArgument, match=r"Invalid properties for v2: encryption\.key-id"):
        table(2, properties={"encryption.key-id": "k"})
    assert table(3, properties={"encryption.key-id": "k"})["properties"]["encryption.key-id"] == "k"


def test_a_partition_of_no_column() -> None:
    with pytest.raises(ValidationFailed, match="Cannot find source column for partition field: 77"):
        table(**{"partition-spec": {"fields": [spec_field("x", "identity", 77)]}})


def test_a_sort_order_of_no_column() -> None:
    with pytest.raises(ValidationFailed, match="Cannot find source column for sort field: 77"):
        table(**{"write-order": {"order-id": 1, "fields": [sort_field(77)]}})


def test_slashes_at_the_end_of_a_location_go() -> None:
    body = parse_create(create_body())
    assert new_table(body, location="s3://b/x//", table_uuid=UUID, now_ms=1)["location"] == "s3://b/x"


def test_unknown_fields_stay_in_a_new_table() -> None:
    body = create_body(schema=schema(column(1, "a", tomorrow=[1]), future={"x": 1}))
    body["partition-spec"] = {"fields": [{**spec_field("a", "identity", 1), "later": True}], "note": "n"}
    made = new_table(parse_create(body), location=LOCATION, table_uuid=UUID, now_ms=NOW)
    assert made["schemas"][0]["future"] == {"x": 1}
    assert made["schemas"][0]["fields"][0]["tomorrow"] == [1]
    assert made["partition-specs"][0]["note"] == "n"
    assert made["partition-specs"][0]["fields"][0]["later"] is True


def creating(*, version: int | None = 2, without: str = "") -> list[Doc]:
    """What clients send to create a table that they staged."""
    upgrade: list[Doc] = [] if version is None else [{"action": "upgrade-format-version", "format-version": version}]
    updates: list[Doc] = [
        {"action": "assign-uuid", "uuid": UUID},
        *upgrade,
        {"action": "add-schema", "schema": schema(*COLUMNS), "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": LOCATION},
        {"action": "set-properties", "updates": {"write.parquet.compression-codec": "zstd"}},
    ]
    return [update for update in updates if update["action"] != without]


@pytest.mark.parametrize("version", VERSIONS)
def test_updates_make_a_table_where_none_was(version: Any) -> None:
    made = edit(None, *creating(version=version), now=NOW)
    expected = table(version)
    assert made == expected
    assert check_table(made) is made


def test_a_table_made_by_updates_has_format_2_unless_they_say_otherwise() -> None:
    assert edit(None, *creating(version=None))["format-version"] == 2


def test_a_table_made_by_updates_has_no_metadata_log() -> None:
    assert edit(None, *creating())["metadata-log"] == []


def test_who_calls_may_give_the_uuid() -> None:
    updates = creating(without="assign-uuid")
    assert edit(None, *updates, table_uuid="u2")["table-uuid"] == "u2"
    assert edit(None, *creating(), table_uuid="u2")["table-uuid"] == UUID


@pytest.mark.parametrize(
    ("without", "text"),
    [
        ("assign-uuid", "UUID is required in format v2"),
        ("set-location", "Table location is required in format v2"),
        ("add-schema", "Cannot set last added schema: no schema has been added"),
        ("add-spec", "Cannot set last added spec: no spec has been added"),
        ("add-sort-order", "Cannot set last added sort order: no sort order has been added"),
    ],
)
def test_updates_that_make_no_whole_table(without: str, text: str) -> None:
    with pytest.raises((IllegalArgument, ValidationFailed), match=text):
        edit(None, *creating(without=without))


@pytest.mark.parametrize("version", [0, 4, 99])
def test_a_table_of_a_format_nobody_knows_is_not_made_by_updates(version: Any) -> None:
    with pytest.raises(IllegalArgument, match=f"unsupported format version: v{version}"):
        edit(None, *creating(version=version))


def test_ids_of_updates_are_kept() -> None:
    updates = creating()
    updates[2] = {"action": "add-schema", "schema": schema(column(5, "a"), column(9, "b"))}
    made = edit(None, *updates)
    assert [field["id"] for field in made["schemas"][0]["fields"]] == [5, 9]
    assert made["last-column-id"] == 9


def test_a_bad_location() -> None:
    with pytest.raises(BadRequest, match="`location` is empty"):
        parse_create(create_body(location=""))

"""Updates of a table, one by one, in every format."""

from typing import Any

import pytest

from arco.iceberg import CommitFailed, IllegalArgument, ValidationFailed
from arco.iceberg.metadata import Doc, check_table
from tests.iceberg.metadata.examples import (
    BASE,
    COLUMNS,
    KEY,
    LOCATION,
    NOW,
    PARTITION_STATISTICS,
    STATISTICS,
    UUID,
    VERSIONS,
    add,
    column,
    edit,
    grown,
    ref,
    schema,
    snapshot,
    sort_field,
    spec_field,
    table,
    table_updates,
)

MORE = schema(*COLUMNS, column(4, "more", "int"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("action", sorted(table_updates()))
def test_every_update_makes_a_table_that_can_be_read(version: Any, action: str) -> None:
    base = grown(version)
    made = edit(base, table_updates(version)[action])
    assert check_table(made) is made


# The table itself


def test_the_uuid_stays() -> None:
    base = table()
    assert edit(base, {"action": "assign-uuid", "uuid": UUID.upper()}) is base
    with pytest.raises(ValidationFailed, match="Cannot reassign uuid"):
        edit(base, {"action": "assign-uuid", "uuid": "other"})


def test_an_old_table_gets_a_uuid() -> None:
    base = table(1)
    del base["table-uuid"]
    assert edit(base, {"action": "assign-uuid", "uuid": "u"})["table-uuid"] == "u"
    with pytest.raises(IllegalArgument, match="UUID is required in format v2"):
        edit(base, {"action": "upgrade-format-version", "format-version": 2})


@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
def test_upgrade(old: int, new: int) -> None:
    made = edit(grown(old), {"action": "upgrade-format-version", "format-version": new})
    assert made["format-version"] == new
    assert "schema" not in made
    assert "partition-spec" not in made
    assert made["last-sequence-number"] == (0 if old == 1 else 3)
    assert made.get("next-row-id") == (0 if new == 3 else None)
    assert check_table(made) is made


def test_upgrade_without_a_snapshot() -> None:
    upgrade = {"action": "upgrade-format-version", "format-version": 3}
    assert edit(table(2), upgrade)["current-snapshot-id"] is None


def test_upgrade_to_the_same_is_nothing() -> None:
    base = table(2)
    assert edit(base, {"action": "upgrade-format-version", "format-version": 2}) is base


def test_no_downgrade() -> None:
    with pytest.raises(IllegalArgument, match="Cannot downgrade v3 table to v2"):
        edit(table(3), {"action": "upgrade-format-version", "format-version": 2})


@pytest.mark.parametrize("version", [0, 4])
def test_no_upgrade_to_what_nobody_knows(version: Any) -> None:
    with pytest.raises(IllegalArgument, match=f"unsupported format version: v{version}"):
        edit(table(1), {"action": "upgrade-format-version", "format-version": version})


def test_a_table_of_a_later_format_is_not_edited() -> None:
    with pytest.raises(IllegalArgument, match="Cannot read unsupported version 4"):
        edit({**table(3), "format-version": 4}, {"action": "set-properties", "updates": {"a": "b"}})


def test_location() -> None:
    base = table()
    assert edit(base, {"action": "set-location", "location": LOCATION + "/"}) is base
    assert edit(base, {"action": "set-location", "location": "s3://o/x/"})["location"] == "s3://o/x"


def test_properties() -> None:
    made = edit(table(), {"action": "set-properties", "updates": {"a": "1", "b": "2"}})
    made = edit(made, {"action": "remove-properties", "removals": ["a", "nowhere"]})
    assert made["properties"] == {"b": "2", "write.parquet.compression-codec": "zstd"}


def test_properties_as_old_clients_call_them() -> None:
    made = edit(table(), {"action": "set-properties", "updated": {"a": "1"}})
    assert made["properties"]["a"] == "1"
    assert "a" not in edit(made, {"action": "remove-properties", "removed": ["a"]})["properties"]
    both = edit(table(), {"action": "set-properties", "updated": {"a": "1"}, "updates": {"b": "1"}})
    assert "a" not in both["properties"]


# Schemas


@pytest.mark.parametrize("version", VERSIONS)
def test_a_schema_is_added_and_made_current(version: Any) -> None:
    made = edit(
        table(version), {"action": "add-schema", "schema": MORE}, {"action": "set-current-schema", "schema-id": -1}
    )
    assert [one["schema-id"] for one in made["schemas"]] == [0, 1]
    assert (made["current-schema-id"], made["last-column-id"]) == (1, 4)
    assert made.get("schema") == (made["schemas"][1] if version == 1 else None)


def test_an_equal_schema_is_used_again() -> None:
    base = table()
    again = {"action": "add-schema", "schema": {**base["schemas"][0], "schema-id": 55}}
    assert edit(base, again) is base
    assert edit(base, again, {"action": "set-current-schema", "schema-id": -1}) is base


def test_going_back_to_an_equal_schema() -> None:
    made = edit(table(), {"action": "add-schema", "schema": MORE}, {"action": "set-current-schema", "schema-id": -1})
    back = edit(
        made, {"action": "add-schema", "schema": schema(*COLUMNS)}, {"action": "set-current-schema", "schema-id": -1}
    )
    assert back["current-schema-id"] == 0
    assert back["schemas"] == made["schemas"]
    assert back["last-column-id"] == 4, "ids of columns are never given again"


@pytest.mark.parametrize(
    "other",
    [
        schema(*COLUMNS[:2], {**COLUMNS[2], "doc": "d"}),
        schema(*COLUMNS[:2], {**COLUMNS[2], "required": True}),
        schema(*COLUMNS, **{"identifier-field-ids": [1]}),
        schema(*reversed(COLUMNS)),
    ],
)
def test_a_schema_that_differs_is_another(other: Doc) -> None:
    assert len(edit(table(), {"action": "add-schema", "schema": other})["schemas"]) == 2


def test_an_unknown_schema_is_not_made_current() -> None:
    with pytest.raises(IllegalArgument, match="Cannot set current schema to unknown schema: 7"):
        edit(table(), {"action": "set-current-schema", "schema-id": 7})


def test_minus_one_needs_an_added_one() -> None:
    with pytest.raises(ValidationFailed, match="Cannot set last added schema: no schema has been added"):
        edit(table(), {"action": "set-current-schema", "schema-id": -1})


def test_schemas_are_removed_but_not_the_current_one() -> None:
    made = edit(table(), {"action": "add-schema", "schema": MORE})
    left = edit(made, {"action": "remove-schemas", "schema-ids": [1, 8]})["schemas"]
    assert [one["schema-id"] for one in left] == [0]
    with pytest.raises(IllegalArgument, match="Cannot remove the current schema"):
        edit(made, {"action": "remove-schemas", "schema-ids": [0]})


def test_a_schema_without_a_column_that_partitions_is_not_made_current() -> None:
    base = table(**{"partition-spec": {"fields": [spec_field("name", "identity", 3)]}})
    with pytest.raises(ValidationFailed, match="Cannot find source column for partition field"):
        edit(
            base,
            {"action": "add-schema", "schema": schema(*COLUMNS[:2])},
            {"action": "set-current-schema", "schema-id": -1},
        )


def test_a_column_may_not_take_the_name_of_a_partition() -> None:
    base = table(**{"partition-spec": {"fields": [spec_field("ts_day", "day", 2)]}})
    with pytest.raises(IllegalArgument, match="Cannot create identity partition sourced from different field"):
        edit(
            base,
            {"action": "add-schema", "schema": schema(*COLUMNS, column(4, "ts_day", "date"))},
            {"action": "set-current-schema", "schema-id": -1},
        )


# Specs and orders


@pytest.mark.parametrize("version", VERSIONS)
def test_a_spec_is_added_and_made_the_default(version: Any) -> None:
    spec = {"spec-id": 9, "fields": [spec_field("ts_day", "day", 2, 1000)]}
    made = edit(table(version), {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1})
    assert made["default-spec-id"] == 1
    assert made["partition-specs"][1] == {**spec, "spec-id": 1}
    assert made["last-partition-id"] == 1000
    assert made.get("partition-spec") == (spec["fields"] if version == 1 else None)


def test_an_equal_spec_is_used_again_whatever_its_ids() -> None:
    base = table(**{"partition-spec": {"fields": [spec_field("ts_day", "day", 2)]}})
    again = {"spec-id": 7, "fields": [spec_field("ts_day", "DAY", 2, 1005)]}
    assert edit(base, {"action": "add-spec", "spec": again}, {"action": "set-default-spec", "spec-id": -1}) is base


def test_fields_of_a_spec_without_ids_get_those_of_the_same_fields() -> None:
    base = table(**{"partition-spec": {"fields": [spec_field("ts_day", "day", 2)]}})
    spec = {"fields": [spec_field("other", "bucket[4]", 1), spec_field("ts_day", "day", 2)]}
    made = edit(base, {"action": "add-spec", "spec": spec})
    assert [field["field-id"] for field in made["partition-specs"][1]["fields"]] == [1001, 1000]
    assert made["last-partition-id"] == 1001


def test_format_1_numbers_partition_fields_by_place() -> None:
    with pytest.raises(ValidationFailed, match="sequential IDs that are required in v1"):
        edit(table(1), {"action": "add-spec", "spec": {"fields": [spec_field("ts_day", "day", 2, 1001)]}})


def test_specs_are_removed_but_not_the_default() -> None:
    spec = {"fields": [spec_field("ts_day", "day", 2, 1000)]}
    made = edit(table(), {"action": "add-spec", "spec": spec})
    assert len(edit(made, {"action": "remove-partition-specs", "spec-ids": [1]})["partition-specs"]) == 1
    with pytest.raises(IllegalArgument, match="Cannot remove the default partition spec"):
        edit(made, {"action": "remove-partition-specs", "spec-ids": [0]})


def test_unknown_defaults() -> None:
    with pytest.raises(IllegalArgument, match="unknown spec: 5"):
        edit(table(), {"action": "set-default-spec", "spec-id": 5})
    with pytest.raises(IllegalArgument, match="unknown sort order: 5"):
        edit(table(), {"action": "set-default-sort-order", "sort-order-id": 5})


def test_orders() -> None:
    order = {"order-id": 4, "fields": [sort_field(1)]}
    made = edit(
        table(),
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    assert made["sort-orders"][1] == {**order, "order-id": 1}
    assert made["default-sort-order-id"] == 1
    again = {"order-id": 9, "fields": [{**sort_field(1), "direction": "ASC"}]}
    assert edit(made, {"action": "add-sort-order", "sort-order": again}) is made
    unsorted = {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}}
    back = edit(made, unsorted, {"action": "set-default-sort-order", "sort-order-id": -1})
    assert back["default-sort-order-id"] == 0
    assert len(back["sort-orders"]) == 2


# Snapshots


@pytest.mark.parametrize("version", VERSIONS)
def test_an_append(version: Any) -> None:
    base = grown(version, 1)
    made = edit(base, add(snapshot(2, version, number=2, parent=1)), ref("main", 2))
    assert made["current-snapshot-id"] == 2
    assert made["refs"]["main"] == {"snapshot-id": 2, "type": "branch"}
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [1, 2]
    assert made["snapshot-log"][1]["timestamp-ms"] == NOW + 2
    assert made.get("last-sequence-number") == (None if version == 1 else 2)
    assert made.get("next-row-id") == (20 if version == 3 else None)
    assert made["snapshots"][0] is base["snapshots"][0]


def test_a_snapshot_without_a_branch_changes_no_log() -> None:
    made = edit(grown(2, 1), add(snapshot(2, number=2, parent=1)))
    assert made["current-snapshot-id"] == 1
    assert len(made["snapshot-log"]) == 1


@pytest.mark.parametrize("number", [1, 3])
def test_a_late_sequence_number_is_to_be_tried_again(number: int) -> None:
    with pytest.raises(
        CommitFailed,
        match=f"please retry: Cannot add snapshot with sequence number {number} older than last sequence number 3",
    ):
        edit(grown(2, 3), add(snapshot(8, number=number, parent=3)))


def test_a_snapshot_without_a_parent_may_come_late() -> None:
    made = edit(grown(2, 3), add(snapshot(8, number=2)), ref("main", 8))
    assert made["last-sequence-number"] == 3
    assert check_table(made) is made


def test_late_rows_are_to_be_tried_again() -> None:
    late = snapshot(8, 3, number=4, parent=3, **{"first-row-id": 29})
    with pytest.raises(CommitFailed, match="first-row-id is behind table next-row-id: 29 < 30"):
        edit(grown(3, 3), add(late))


def test_rows_never_get_an_id_twice() -> None:
    made = edit(grown(3, 1), add(snapshot(2, 3, number=2, parent=1, **{"first-row-id": 50, "added-rows": 5})))
    assert made["next-row-id"] == 55


def test_format_3_needs_row_ids() -> None:
    with pytest.raises(ValidationFailed, match="Cannot add a snapshot: first-row-id is null"):
        edit(grown(3, 1), add(snapshot(2, 2, number=2, parent=1)))


def test_format_1_has_no_sequence_numbers() -> None:
    with pytest.raises(IllegalArgument, match="Sequence number must be 0 in v1: 5"):
        edit(table(1), add(snapshot(1, 2, number=5)))


def test_a_snapshot_is_added_once() -> None:
    with pytest.raises(ValidationFailed, match="Snapshot already exists for id: 1"):
        edit(grown(2, 1), add(snapshot(1, number=2, parent=1)))


def test_row_ids_fit_64_bits() -> None:
    with pytest.raises(IllegalArgument, match="would not fit 64 bits"):
        edit(table(3), add(snapshot(1, 3, **{"first-row-id": 2**63 - 5})))


def test_a_snapshot_needs_a_table() -> None:
    with pytest.raises(ValidationFailed, match="Attempting to add a snapshot before a schema is added"):
        edit(None, add(snapshot(1)))


# References


def test_branches_and_tags() -> None:
    made = edit(
        grown(),
        ref("b", 2, **{"min-snapshots-to-keep": 3, "max-snapshot-age-ms": 5, "max-ref-age-ms": 7}),
        ref("t", 1, "TAG", **{"max-ref-age-ms": 9}),
    )
    assert made["refs"]["b"] == {
        "snapshot-id": 2,
        "type": "branch",
        "min-snapshots-to-keep": 3,
        "max-snapshot-age-ms": 5,
        "max-ref-age-ms": 7,
    }
    assert made["refs"]["t"] == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 9}
    assert made["snapshot-log"] == grown()["snapshot-log"]


def test_an_equal_ref_is_nothing() -> None:
    base = grown()
    assert edit(base, ref("main", 3)) is base


def test_unknown_fields_of_a_ref_stay() -> None:
    base = grown()
    base = {**base, "refs": {"main": {**base["refs"]["main"], "later": 1, "max-ref-age-ms": 5}}}
    made = edit(base, ref("main", 1))
    assert made["refs"]["main"] == {"later": 1, "snapshot-id": 1, "type": "branch"}


def test_a_ref_to_an_unknown_snapshot() -> None:
    with pytest.raises(ValidationFailed, match="Cannot set main to unknown snapshot: 77"):
        edit(grown(), ref("main", 77))
    with pytest.raises(ValidationFailed, match="Cannot set x to unknown snapshot: 77"):
        edit(grown(), ref("x", 77, "tag"))


def test_main_is_no_tag() -> None:
    with pytest.raises(ValidationFailed, match="Cannot set main to a tag, it must be a branch"):
        edit(grown(), ref("main", 1, "tag"))


def test_going_back_happens_now() -> None:
    made = edit(grown(), ref("main", 1), now=NOW + 5000)
    assert made["current-snapshot-id"] == 1
    assert made["snapshot-log"][-1] == {"timestamp-ms": NOW + 5000, "snapshot-id": 1}


def test_main_is_removed() -> None:
    made = edit(grown(), {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert made["refs"] == {}
    assert made["current-snapshot-id"] == -1
    assert edit(grown(3), {"action": "remove-snapshot-ref", "ref-name": "main"})["current-snapshot-id"] is None
    assert len(made["snapshots"]) == 3


def test_a_ref_that_is_not_there_is_removed() -> None:
    base = grown()
    assert edit(base, {"action": "remove-snapshot-ref", "ref-name": "x"}) is base


# Removing snapshots, statistics, keys


def test_removed_snapshots_take_all_that_is_theirs() -> None:
    base = edit(
        grown(2, 3),
        ref("old", 1, "tag"),
        {"action": "set-statistics", "statistics": STATISTICS},
        {"action": "set-partition-statistics", "partition-statistics": PARTITION_STATISTICS},
    )
    made = edit(base, {"action": "remove-snapshots", "snapshot-ids": [1, 99]})
    assert [one["snapshot-id"] for one in made["snapshots"]] == [2, 3]
    assert set(made["refs"]) == {"main"}
    assert made["statistics"] == made["partition-statistics"] == []
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [2, 3]
    assert made["snapshots"][0]["parent-snapshot-id"] == 1, "a snapshot is never changed"


def test_the_log_has_no_gaps() -> None:
    made = edit(grown(2, 4), {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [3, 4]


def test_the_current_snapshot_is_removed() -> None:
    made = edit(grown(2, 2), {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert made["current-snapshot-id"] == -1
    assert made["refs"] == {}
    assert made["snapshot-log"] == []


def test_unknown_snapshots_are_removed() -> None:
    base = grown()
    assert edit(base, {"action": "remove-snapshots", "snapshot-ids": [55]}) is base


def test_snapshots_current_only_within_a_commit_are_not_in_the_log() -> None:
    made = edit(
        grown(2, 1),
        add(snapshot(2, number=2, parent=1)),
        ref("main", 2),
        add(snapshot(3, number=3, parent=2)),
        ref("main", 3),
    )
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [1, 3]


def test_statistics() -> None:
    base = edit(grown(), {"action": "set-statistics", "statistics": STATISTICS})
    assert base["statistics"] == [STATISTICS]
    assert edit(base, {"action": "set-statistics", "statistics": STATISTICS}) is base
    other = {**STATISTICS, "file-size-in-bytes": 77}
    assert edit(base, {"action": "set-statistics", "statistics": other})["statistics"] == [other]
    assert edit(base, {"action": "remove-statistics", "snapshot-id": 1})["statistics"] == []
    assert edit(base, {"action": "remove-statistics", "snapshot-id": 2}) is base


def test_partition_statistics() -> None:
    base = edit(grown(), {"action": "set-partition-statistics", "partition-statistics": PARTITION_STATISTICS})
    assert base["partition-statistics"] == [PARTITION_STATISTICS]
    assert edit(base, {"action": "remove-partition-statistics", "snapshot-id": 1})["partition-statistics"] == []
    assert edit(base, {"action": "remove-partition-statistics", "snapshot-id": 2}) is base


def test_encryption_keys() -> None:
    base = edit(table(3), {"action": "add-encryption-key", "encryption-key": KEY})
    assert base["encryption-keys"] == [KEY]
    assert edit(base, {"action": "add-encryption-key", "encryption-key": KEY}) is base
    assert "encryption-keys" not in edit(base, {"action": "remove-encryption-key", "key-id": "k1"})
    assert edit(base, {"action": "remove-encryption-key", "key-id": "k2"}) is base


# The result


def test_the_file_of_the_base_is_remembered() -> None:
    base = grown(2, 1)
    made = edit(base, ref("b", 1))
    assert made["metadata-log"][-1] == {"timestamp-ms": base["last-updated-ms"], "metadata-file": BASE}


def test_the_clock_of_another_machine_was_ahead() -> None:
    base = table()
    made = edit(base, {"action": "set-properties", "updates": {"a": "b"}}, now=NOW - 90_000)
    assert made["last-updated-ms"] == NOW


def test_only_what_changes_is_copied() -> None:
    base = grown(2, 50)
    made = edit(base, add(snapshot(51, number=51, parent=50)), ref("main", 51), now=NOW + 2000)
    changed = {name for name in made if made[name] is not base.get(name)}
    assert changed == {
        "last-sequence-number",
        "last-updated-ms",
        "current-snapshot-id",
        "refs",
        "snapshots",
        "snapshot-log",
        "metadata-log",
    }
    assert all(one is other for one, other in zip(base["snapshots"], made["snapshots"], strict=False))

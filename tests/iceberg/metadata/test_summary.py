"""What is said of a document."""

from arco.iceberg.metadata import Column, SnapshotSummary, summary_of, view_summary_of
from tests.iceberg.metadata.examples import LOCATION, NOW, UUID, column, grown, schema, spec_field, table, view

LIST = {"type": "list", "element-id": 30, "element": schema(column(31, "x", "int")), "element-required": True}
MAP = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "decimal(9, 2)", "value-required": False}


def test_a_table() -> None:
    said = summary_of(grown(2, 3))
    assert (said.uuid, said.location, said.format_version) == (UUID, LOCATION, 2)
    assert (said.current_snapshot_id, said.last_sequence_number, said.current_schema_id) == (3, 3, 0)
    assert said.columns[0] == Column(1, "id", "long", True)
    assert said.refs == {"main": 3}
    assert said.snapshot_count == 3
    counts = {"added-records": 10, "total-records": 30}
    assert said.snapshot == SnapshotSummary(3, 2, 3, NOW + 3, "append", counts)


def test_a_table_without_snapshots() -> None:
    said = summary_of(table(1))
    assert (said.current_snapshot_id, said.snapshot, said.refs, said.last_sequence_number) == (None, None, {}, 0)


def test_nested_types_are_one_column() -> None:
    said = summary_of(table(schema=schema(column(1, "l", LIST), column(2, "m", MAP, doc="d"))))
    assert [(one.name, one.type) for one in said.columns] == [
        ("l", "list<struct<x: int>>"),
        ("m", "map<string, decimal(9,2)>"),
    ]
    assert said.columns[1].doc == "d"


def test_partitions() -> None:
    said = summary_of(table(**{"partition-spec": {"fields": [spec_field("ts_day", "day", 2)]}}))
    assert said.partition_fields == ("ts_day",)


def test_counts_that_are_none() -> None:
    document = grown(2, 1)
    summary = {"operation": "append", "total-records": "-5", "added-records": "x", "total-data-files": "9" * 30}
    document = {**document, "snapshots": [{**document["snapshots"][0], "summary": summary}]}
    said = summary_of(document).snapshot
    assert said is not None
    assert said.counts == {}


def test_a_view() -> None:
    said = view_summary_of(view())
    assert (said.uuid, said.current_version_id, said.dialects) == (UUID, 1, ("spark",))
    assert [one.name for one in said.columns] == ["id", "ts", "name"]

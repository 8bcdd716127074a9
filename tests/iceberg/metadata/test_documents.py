"""Documents that are read from files."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest

from arco.core import Invalid
from arco.iceberg.metadata import (
    Doc,
    check_table,
    check_view,
    current_refs,
    current_snapshot_id,
    read_table,
    read_view,
    refs_only,
)
from arco.iceberg.metadata._documents import normalised
from tests.iceberg.metadata.examples import VERSIONS, edit, grown, ref, spec_field, table, table_updates, view
from tests.iceberg.metadata.test_updates import corruptions


def full(version: int) -> Doc:
    """A table with something of everything."""
    updates = table_updates(version)
    left_out = ("upgrade-format-version", "remove-", "set-current", "set-default")
    return edit(grown(version, 3), *(one for action, one in updates.items() if not action.startswith(left_out)))


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_are_read(version: int) -> None:
    document = {**full(version), "tomorrow": {"x": [1]}}
    assert read_table(msgspec.json.encode(document)) == document


def test_views_are_read() -> None:
    document = {**view(), "tomorrow": {"x": [1]}}
    assert read_view(msgspec.json.encode(document)) == document


@pytest.mark.parametrize("version", VERSIONS)
def test_no_corruption_of_a_table_does_harm(version: int) -> None:
    for corrupt in corruptions(full(version)):
        try:
            check_table(corrupt)
        except Invalid:
            continue
        edit(corrupt, {"action": "set-properties", "updates": {"new": "x"}})


def test_no_corruption_of_a_view_does_harm() -> None:
    for corrupt in corruptions(view()):
        with suppress(Invalid):
            check_view(corrupt)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format-version": 4}, "Cannot read unsupported version 4"),
        ({"format-version": 0}, "Cannot read unsupported version 0"),
        ({"table-uuid": None}, "table-uuid must exist in format v2"),
        ({"schemas": None}, "schemas must exist in format v2"),
        ({"sort-orders": None}, "sort-orders must exist in format v2"),
        ({"last-sequence-number": 1}, "sequence number 2 greater than last sequence number 1"),
        ({"current-schema-id": 8}, "Cannot find schema-id with current-schema-id=8"),
        ({"default-spec-id": 8}, "Cannot find spec-id with default-spec-id=8"),
        ({"default-sort-order-id": 8}, "Cannot find order-id with default-sort-order-id=8"),
        ({"current-snapshot-id": 8}, "Cannot find current version"),
        ({"current-snapshot-id": 1}, r"does not match main branch \(1 != 3\)"),
        ({"current-snapshot-id": -1}, r"does not match main branch \(None != 3\)"),
        ({"refs": {"x": {"snapshot-id": 77, "type": "tag"}}}, "Snapshot for reference x does not exist"),
        ({"snapshots": [grown()["snapshots"][2]] * 2}, "snapshot 3 is there twice"),
        ({"schemas": [grown()["schemas"][0]] * 2}, "schema-id is there twice"),
        ({"location": 5}, "`\\$.location`"),
        ({"partition-specs": [{"spec-id": 0, "fields": [spec_field("x", "day", 1, 1000)]}]}, "Invalid source type"),
    ],
)
def test_what_is_no_table(change: Doc, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        check_table(grown(2) | change)


def test_format_3_needs_a_next_row() -> None:
    with pytest.raises(Invalid, match="next-row-id must exist in format v3"):
        check_table({**table(3), "next-row-id": None})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format-version": 2}, "Unsupported format version: 2"),
        ({"current-version-id": 7}, "Cannot find version-id with current-version-id=7"),
        ({"schemas": []}, "Cannot find current schema with id 0"),
    ],
)
def test_what_is_no_view(change: Doc, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        check_view(view() | change)


OLD: tuple[str, ...] = ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id")
OLD = (*OLD, "sort-orders", "default-sort-order-id", "refs", "snapshot-log", "metadata-log", "statistics")


def old_table() -> Doc:
    """As the first writers of format 1 wrote it."""
    base = table(1, **{"partition-spec": {"fields": [spec_field("ts_day", "day", 2)]}})
    base = {name: value for name, value in base.items() if name not in OLD}
    return {**base, "partition-spec": [spec_field("ts_day", "day", 2)]}


def test_an_old_table_is_brought_into_normal_form() -> None:
    old = old_table()
    assert check_table(old) is old
    made = normalised(old)
    assert made["schemas"][0]["fields"] == old["schema"]["fields"]
    assert made["partition-specs"] == [{"spec-id": 0, "fields": [spec_field("ts_day", "day", 2, 1000)]}]
    assert made["last-partition-id"] == 1000
    assert made["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert "refs" not in old


def test_an_old_table_is_edited() -> None:
    made = edit(old_table(), {"action": "upgrade-format-version", "format-version": 2})
    assert check_table(made) is made


def test_the_normal_form_is_the_document_itself() -> None:
    document = table()
    assert normalised(document) is document


def test_an_old_table_has_a_main_branch() -> None:
    old = {name: value for name, value in grown(1).items() if name != "refs"}
    assert current_refs(old) == {"main": {"snapshot-id": 3, "type": "branch"}}
    assert edit(old, ref("main", 3)) is old


@pytest.mark.parametrize(("said", "known"), [(None, None), (-1, None), (5, 5)])
def test_current_snapshot(said: Any, known: int | None) -> None:
    assert current_snapshot_id({"current-snapshot-id": said}) == known


def test_only_what_refs_lead_to() -> None:
    document = edit(grown(2, 5), ref("t", 2, "tag"))
    few = refs_only(document)
    assert [one["snapshot-id"] for one in few["snapshots"]] == [2, 5]
    assert {name: value for name, value in few.items() if name != "snapshots"} == {
        name: value for name, value in document.items() if name != "snapshots"
    }
    assert len(document["snapshots"]) == 5

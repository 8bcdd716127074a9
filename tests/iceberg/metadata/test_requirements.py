"""Requirements, with the texts that clients look for."""

from typing import Any

import pytest

from arco.iceberg import BadRequest, CommitFailed
from arco.iceberg.metadata import check_requirements, check_view_requirements, creates, parse_requirements
from arco.iceberg.metadata._requirements import TABLE_TYPES
from tests.iceberg.metadata.examples import REQUIREMENTS, UUID, VERSIONS, edit, grown, ref, table, view


def check(base: Any, kind: str, **fields: Any) -> None:
    body = {name.replace("_", "-"): value for name, value in fields.items()}
    check_requirements(base, parse_requirements([{"type": kind, **body}]))


def test_there_is_an_example_of_each() -> None:
    assert REQUIREMENTS.keys() == TABLE_TYPES.keys()
    assert len(TABLE_TYPES) == 8


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", sorted(REQUIREMENTS.keys() - {"assert-create"}))
def test_requirements_that_hold(version: int, kind: str) -> None:
    check_requirements(grown(version), parse_requirements([{"type": kind.upper(), **REQUIREMENTS[kind]}]))


def test_a_uuid_may_be_written_in_any_case() -> None:
    check(table(), "assert-table-uuid", uuid=UUID.upper())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        ("assert-create", {}, "Requirement failed: table already exists"),
        ("assert-table-uuid", {"uuid": "x"}, f"Requirement failed: UUID does not match: expected {UUID} != x"),
        (
            "assert-ref-snapshot-id",
            {"ref": "main", "snapshot_id": 1},
            "Requirement failed: branch main has changed: expected id 1 != 3",
        ),
        (
            "assert-ref-snapshot-id",
            {"ref": "main", "snapshot_id": None},
            "Requirement failed: branch main was created concurrently",
        ),
        (
            "assert-ref-snapshot-id",
            {"ref": "t", "snapshot_id": 9},
            "Requirement failed: tag t has changed: expected id 9 != 1",
        ),
        (
            "assert-ref-snapshot-id",
            {"ref": "x", "snapshot_id": 1},
            "Requirement failed: branch or tag x is missing, expected 1",
        ),
        (
            "assert-last-assigned-field-id",
            {"last_assigned_field_id": 9},
            "Requirement failed: last assigned field id changed: expected id 9 != 3",
        ),
        (
            "assert-current-schema-id",
            {"current_schema_id": 9},
            "Requirement failed: current schema changed: expected id 9 != 0",
        ),
        (
            "assert-last-assigned-partition-id",
            {"last_assigned_partition_id": 9},
            "Requirement failed: last assigned partition id changed: expected id 9 != 999",
        ),
        (
            "assert-default-spec-id",
            {"default_spec_id": 9},
            "Requirement failed: default partition spec changed: expected id 9 != 0",
        ),
        (
            "assert-default-sort-order-id",
            {"default_sort_order_id": 9},
            "Requirement failed: default sort order changed: expected id 9 != 0",
        ),
    ],
)
def test_requirements_that_do_not(version: int, kind: str, fields: dict[str, Any], text: str) -> None:
    base = edit(grown(version), ref("t", 1, "tag"))
    with pytest.raises(CommitFailed) as refused:
        check(base, kind, **fields)
    assert refused.value.message == text


def test_a_ref_that_must_not_be_there() -> None:
    check(table(), "assert-ref-snapshot-id", ref="main", snapshot_id=None)
    check(grown(), "assert-ref-snapshot-id", ref="other")


def test_a_table_that_is_not_there() -> None:
    check(None, "assert-create")
    check_requirements(None, ())
    with pytest.raises(CommitFailed, match="the table does not exist"):
        check(None, "assert-current-schema-id", current_schema_id=0)


def test_who_creates_requires_nothing_else() -> None:
    both = parse_requirements([{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": "x"}])
    with pytest.raises(BadRequest, match="Invalid create requirements: AssertTableUuid"):
        creates(both)
    assert creates(both[:1])
    assert not creates(both[1:])


def test_an_old_document_without_what_is_required() -> None:
    old = {name: value for name, value in grown(1).items() if name not in ("schemas", "current-schema-id", "refs")}
    check(old, "assert-current-schema-id", current_schema_id=0)
    check(old, "assert-ref-snapshot-id", ref="main", snapshot_id=3)


def test_views() -> None:
    good = parse_requirements([{"type": "assert-view-uuid", "uuid": UUID.upper()}], view=True)
    check_view_requirements(view(), good)
    other = parse_requirements([{"type": "assert-view-uuid", "uuid": "x"}], view=True)
    with pytest.raises(CommitFailed, match=f"^Requirement failed: view UUID does not match: expected {UUID} != x$"):
        check_view_requirements(view(), other)


def test_all_unknown_types_are_named() -> None:
    with pytest.raises(BadRequest, match="Unknown requirement: 'a', 'b'; Cannot apply requirement to a table"):
        parse_requirements([{"type": "b"}, {"type": "a"}, {"type": "assert-view-uuid"}])
    with pytest.raises(BadRequest, match="Cannot apply requirement to a view: assert-create"):
        parse_requirements([{"type": "assert-create"}], view=True)


@pytest.mark.parametrize("kind", sorted(REQUIREMENTS.keys() - {"assert-create"}))
def test_missing_and_wrong_fields_are_named(kind: str) -> None:
    body = REQUIREMENTS[kind]
    for name in body:
        if name != "snapshot-id":
            without = {field: value for field, value in body.items() if field != name}
            with pytest.raises(BadRequest, match=rf"requirements\[0\] {kind}.*`{name}`"):
                parse_requirements([{"type": kind, **without}])
        wrongs: tuple[Any, ...] = (True, 1.5, 2**70, [], {})
        for wrong in wrongs:
            with pytest.raises(BadRequest, match=rf"requirements\[0\] {kind}.*`\$\.{name}`|Expected `int`"):
                parse_requirements([{"type": kind, **body, name: wrong}])


def test_fields_nobody_knows_are_let_through() -> None:
    parse_requirements([{"type": kind, **body, "later": 1} for kind, body in REQUIREMENTS.items()])

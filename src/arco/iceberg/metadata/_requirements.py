"""Requirements: what a client saw of a table or view and wants still to be so when its updates are applied.

One that does not hold is `CommitFailed`: nothing was written, the client reads again. The texts are the reference
implementation's, because clients and Iceberg's compatibility kit look for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from arco.iceberg._errors import BadRequest, CommitFailed
from arco.iceberg.metadata._documents import current_refs, normalised
from arco.iceberg.metadata._reading import Doc, Int, Long, Shape, convert
from arco.iceberg.metadata._updates import action_of, refusal

__all__ = [
    "AssertCreate",
    "AssertCurrentSchemaId",
    "AssertDefaultSortOrderId",
    "AssertDefaultSpecId",
    "AssertLastAssignedFieldId",
    "AssertLastAssignedPartitionId",
    "AssertRefSnapshotId",
    "AssertTableUuid",
    "AssertViewUuid",
    "Requirement",
    "check_requirements",
    "check_view_requirements",
    "creates",
    "parse_requirements",
]


class Requirement(Shape, frozen=True):
    """Base of all requirements."""

    def check(self, base: Doc) -> None:
        """`CommitFailed` if it does not hold for this table or view."""
        raise NotImplementedError


class AssertCreate(Requirement, frozen=True):
    def check(self, base: Doc) -> None:
        raise CommitFailed("Requirement failed: table already exists")


class AssertTableUuid(Requirement, frozen=True):
    uuid: str

    def check(self, base: Doc) -> None:
        actual = base.get("table-uuid")
        if actual is None or self.uuid.lower() != actual.lower():
            raise CommitFailed(f"Requirement failed: UUID does not match: expected {actual} != {self.uuid}")


class AssertRefSnapshotId(Requirement, frozen=True):
    ref: str
    snapshot_id: Long | None = None

    def check(self, base: Doc) -> None:
        ref = current_refs(base).get(self.ref)
        if ref is None:
            if self.snapshot_id is not None:
                raise CommitFailed(
                    f"Requirement failed: branch or tag {self.ref} is missing, expected {self.snapshot_id}"
                )
            return
        kind = ref["type"].lower()
        if self.snapshot_id is None:
            raise CommitFailed(f"Requirement failed: {kind} {self.ref} was created concurrently")
        if self.snapshot_id != ref["snapshot-id"]:
            raise CommitFailed(
                f"Requirement failed: {kind} {self.ref} has changed: expected id {self.snapshot_id} != "
                f"{ref['snapshot-id']}"
            )


class AssertLastAssignedFieldId(Requirement, frozen=True):
    last_assigned_field_id: Int

    def check(self, base: Doc) -> None:
        _same("last assigned field id changed", self.last_assigned_field_id, base["last-column-id"])


class AssertCurrentSchemaId(Requirement, frozen=True):
    current_schema_id: Int

    def check(self, base: Doc) -> None:
        _same("current schema changed", self.current_schema_id, base["current-schema-id"])


class AssertLastAssignedPartitionId(Requirement, frozen=True):
    last_assigned_partition_id: Int

    def check(self, base: Doc) -> None:
        _same("last assigned partition id changed", self.last_assigned_partition_id, base["last-partition-id"])


class AssertDefaultSpecId(Requirement, frozen=True):
    default_spec_id: Int

    def check(self, base: Doc) -> None:
        _same("default partition spec changed", self.default_spec_id, base["default-spec-id"])


class AssertDefaultSortOrderId(Requirement, frozen=True):
    default_sort_order_id: Int

    def check(self, base: Doc) -> None:
        _same("default sort order changed", self.default_sort_order_id, base["default-sort-order-id"])


class AssertViewUuid(Requirement, frozen=True):
    uuid: str

    def check(self, base: Doc) -> None:
        actual = base["view-uuid"]
        if self.uuid.lower() != actual.lower():
            raise CommitFailed(f"Requirement failed: view UUID does not match: expected {actual} != {self.uuid}")


TABLE_TYPES: Mapping[str, type[Requirement]] = {
    "assert-create": AssertCreate,
    "assert-table-uuid": AssertTableUuid,
    "assert-ref-snapshot-id": AssertRefSnapshotId,
    "assert-last-assigned-field-id": AssertLastAssignedFieldId,
    "assert-current-schema-id": AssertCurrentSchemaId,
    "assert-last-assigned-partition-id": AssertLastAssignedPartitionId,
    "assert-default-spec-id": AssertDefaultSpecId,
    "assert-default-sort-order-id": AssertDefaultSortOrderId,
}
VIEW_TYPES: Mapping[str, type[Requirement]] = {"assert-view-uuid": AssertViewUuid}


def parse_requirements(values: Iterable[Any], *, view: bool = False) -> tuple[Requirement, ...]:
    """The requirements of a commit, or `BadRequest`. Types nobody knows are named all at once."""
    known = VIEW_TYPES if view else TABLE_TYPES
    listed = list(values)
    types = [action_of(value, "type", f"requirements[{place}]") for place, value in enumerate(listed)]
    unknown = sorted(set(types) - known.keys())
    if unknown:
        raise BadRequest(refusal(unknown, "requirement", TABLE_TYPES.keys() | VIEW_TYPES.keys(), view=view))
    pairs = enumerate(zip(types, listed, strict=True))
    return tuple(convert(value, known[kind], f"requirements[{place}] {kind}") for place, (kind, value) in pairs)


def creates(requirements: Sequence[Requirement]) -> bool:
    """Whether the commit wants to create its table. `BadRequest` if it requires anything of the table besides."""
    creating = any(isinstance(requirement, AssertCreate) for requirement in requirements)
    others = [type(one).__name__ for one in requirements if not isinstance(one, AssertCreate)]
    if creating and others:
        raise BadRequest(f"Invalid create requirements: {', '.join(others)}")
    return creating


def check_requirements(base: Doc | None, requirements: Sequence[Requirement]) -> None:
    """`CommitFailed` for the first requirement that does not hold. `base` is None where there is no table."""
    creating = creates(requirements)
    if base is None:
        if requirements and not creating:
            raise CommitFailed("Requirement failed: the table does not exist")
        return
    table = normalised(base)
    for requirement in requirements:
        requirement.check(table)


def check_view_requirements(base: Doc, requirements: Sequence[Requirement]) -> None:
    """`CommitFailed` for the first requirement that does not hold for the view."""
    for requirement in requirements:
        requirement.check(base)


def _same(what: str, expected: int, actual: int) -> None:
    if expected != actual:
        raise CommitFailed(f"Requirement failed: {what}: expected id {expected} != {actual}")

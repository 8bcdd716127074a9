"""Events of Iceberg tables: a pointer was won, so a table or a view has new metadata. Times are microseconds.

The event is the receipt of a commit that is decided already, by the pointer. It holds what the pointer and the metadata
say, so that whoever finds it missing can tell it again in the same words.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from arco.log import EventType, Instant

__all__ = [
    "EVENTS",
    "ICEBERG_COMMITTED",
    "CommitSource",
    "CommitState",
    "IcebergColumn",
    "IcebergCommitted",
    "IcebergKind",
]

Name = Annotated[str, msgspec.Meta(min_length=1)]
Number = Annotated[int, msgspec.Meta(ge=1)]


class IcebergKind(StrEnum):
    TABLE = "table"
    VIEW = "view"


class CommitState(StrEnum):
    """What a pointer made of its table."""

    LIVE = "live"
    DROPPED = "dropped"
    ABORTED = "aborted"
    """The number belongs to a transaction that did not come about: the table is as it was before."""


class CommitSource(StrEnum):
    """Who wrote: a task of Servo, an engine through the REST catalog, or somebody who administers the catalog."""

    SERVO = "servo"
    EXTERNAL = "external"
    ADMIN = "admin"


class IcebergColumn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    field_id: int
    name: str
    type: str
    """In the catalog's words; what it has no word for is in Iceberg's."""
    nullable: bool = True
    doc: str | None = None


class IcebergCommitted(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Pointer `number` of a table. Told twice it is one."""

    table_id: Name
    number: Number
    kind: IcebergKind
    state: CommitState
    source: CommitSource
    actor: str
    committed_at: Instant
    metadata_location: str = ""
    """Where the metadata lies; empty once the table is dropped."""
    previous_location: str = ""
    """The metadata it replaced; empty for the first."""
    table_uuid: str = ""
    format_version: int = 0
    schema_id: int | None = None
    sequence_number: int = 0
    snapshot_id: int | None = None
    """The current snapshot; None as long as nothing was written."""
    parent_snapshot_id: int | None = None
    operation: str | None = None
    """What made the snapshot: append, overwrite, replace, delete. None if the commit brought no other snapshot."""
    added_rows: int | None = None
    deleted_rows: int | None = None
    added_files: int | None = None
    deleted_files: int | None = None
    total_rows: int | None = None
    total_files: int | None = None
    total_bytes: int | None = None
    """Totals of the current snapshot, as far as its writer counted them."""
    columns: tuple[IcebergColumn, ...] | None = None
    """All columns, if the commit brought another schema; None if they are those of the number before."""
    client: str = ""
    run_id: str = ""
    materialization_id: str = ""
    transaction_id: str = ""
    operation_id: str = ""


ICEBERG_COMMITTED = EventType(
    "IcebergCommitted", IcebergCommitted, recordable=True, time=lambda event: event.committed_at
)

EVENTS = (ICEBERG_COMMITTED,)

"""Iceberg metadata as JSON documents: requests read, requirements checked, updates applied. Pure; no I/O, no clock.

A *document* is a table's or view's metadata as decoded JSON. It is never changed; an edit makes another that shares all
that stayed the same, and fields that nobody here knows stay too. The rules are those of Iceberg's reference
implementation, formats 1 to 3.

    bytes -> decode -> parse_create -> new_table ------------------------> document
    bytes -> decode -> parse_commit -> check_requirements, apply_updates -> next document
    file  -> read_table -> document -> summary_of, refs_only
"""

from arco.iceberg.metadata._documents import (
    SUPPORTED_VERSION,
    check_table,
    check_view,
    current_refs,
    current_snapshot_id,
    read_table,
    read_view,
    refs_only,
)
from arco.iceberg.metadata._guardrails import LOCATION_PROPERTIES, check_guardrails, check_property_names, locations_in
from arco.iceberg.metadata._reading import Doc, decode
from arco.iceberg.metadata._requests import (
    CommitRequest,
    CreateRequest,
    CreateViewRequest,
    Identifier,
    RegisterRequest,
    RenameRequest,
    parse_commit,
    parse_create,
    parse_create_view,
    parse_register,
    parse_rename,
    parse_transaction,
    parse_view_commit,
)
from arco.iceberg.metadata._requirements import (
    Requirement,
    check_requirements,
    check_view_requirements,
    creates,
    parse_requirements,
)
from arco.iceberg.metadata._summary import (
    Column,
    SnapshotSummary,
    TableSummary,
    ViewSummary,
    summary_of,
    view_summary_of,
)
from arco.iceberg.metadata._tables import apply_updates, new_table
from arco.iceberg.metadata._updates import Update, parse_updates
from arco.iceberg.metadata._views import apply_view_updates, new_view

__all__ = [
    "LOCATION_PROPERTIES",
    "SUPPORTED_VERSION",
    "Column",
    "CommitRequest",
    "CreateRequest",
    "CreateViewRequest",
    "Doc",
    "Identifier",
    "RegisterRequest",
    "RenameRequest",
    "Requirement",
    "SnapshotSummary",
    "TableSummary",
    "Update",
    "ViewSummary",
    "apply_updates",
    "apply_view_updates",
    "check_guardrails",
    "check_property_names",
    "check_requirements",
    "check_table",
    "check_view",
    "check_view_requirements",
    "creates",
    "current_refs",
    "current_snapshot_id",
    "decode",
    "locations_in",
    "new_table",
    "new_view",
    "parse_commit",
    "parse_create",
    "parse_create_view",
    "parse_register",
    "parse_rename",
    "parse_requirements",
    "parse_transaction",
    "parse_updates",
    "parse_view_commit",
    "read_table",
    "read_view",
    "refs_only",
    "summary_of",
    "view_summary_of",
]

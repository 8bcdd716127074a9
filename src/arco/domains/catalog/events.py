"""Events of the catalog: what happened to namespaces, tables, columns, contracts and SLAs.

An update carries the whole new content of what can be updated, so that folding it needs no earlier event. All ids in
events were derived by the decider from the operation, so that one command means the same ids wherever it lands.
"""

import msgspec

from arco.domains.catalog.tables import Declared
from arco.log import EventType

__all__ = [
    "COLUMN_DESCRIBED",
    "CONTRACT_DROPPED",
    "CONTRACT_SET",
    "EVENTS",
    "NAMESPACE_CREATED",
    "NAMESPACE_DROPPED",
    "NAMESPACE_RENAMED",
    "NAMESPACE_UPDATED",
    "SCHEMA_CHANGED",
    "SLA_DROPPED",
    "SLA_SET",
    "TABLE_CREATED",
    "TABLE_DROPPED",
    "TABLE_RENAMED",
    "TABLE_UPDATED",
    "AddedColumn",
    "AlteredColumn",
    "ColumnDescribed",
    "ContractDropped",
    "ContractSet",
    "NamespaceCreated",
    "NamespaceDropped",
    "NamespaceRenamed",
    "NamespaceUpdated",
    "SchemaChanged",
    "SlaDropped",
    "SlaSet",
    "TableCreated",
    "TableDropped",
    "TableRenamed",
    "TableUpdated",
]


class NamespaceCreated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str
    parent_id: str
    name: str
    description: str | None = None
    properties: dict[str, str] = {}


class NamespaceUpdated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str
    description: str | None
    properties: dict[str, str]


class NamespaceRenamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str
    parent_id: str
    name: str


class NamespaceDropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace_id: str


class AddedColumn(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    column_id: str
    name: str
    data_type: str
    is_nullable: bool = True
    code_description: str | None = None
    ui_description: str | None = None
    pii_type: str | None = None
    sensitivity: str | None = None


class AlteredColumn(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A column's name and type from now on."""

    column_id: str
    name: str
    data_type: str
    is_nullable: bool
    inferred: bool = False
    """The rename was inferred from a schema, nobody declared it."""


class TableCreated(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    table_id: str
    namespace_id: str
    name: str
    format: str
    location: str | None = None
    columns: tuple[AddedColumn, ...] = ()
    properties: dict[str, str] = {}
    code: Declared = Declared()
    ui: Declared = Declared()


class TableUpdated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str
    location: str | None
    properties: dict[str, str]
    code: Declared
    ui: Declared


class TableRenamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str
    namespace_id: str
    name: str


class TableDropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str


class SchemaChanged(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One alteration, one new schema version: what it added, altered and dropped."""

    table_id: str
    added: tuple[AddedColumn, ...] = ()
    altered: tuple[AlteredColumn, ...] = ()
    dropped: tuple[str, ...] = ()
    """Ids of columns."""


class ColumnDescribed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str
    column_id: str
    code_description: str | None
    ui_description: str | None
    pii_type: str | None
    sensitivity: str | None


class ContractSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str
    compatibility: str
    status: str
    description: str | None
    terms: dict[str, str]


class ContractDropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str


class SlaSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str
    freshness_seconds: int | None
    availability_percent: float | None
    description: str | None


class SlaDropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table_id: str


NAMESPACE_CREATED = EventType("NamespaceCreated", NamespaceCreated, audit=("CreateNamespace", "namespace"))
NAMESPACE_UPDATED = EventType("NamespaceUpdated", NamespaceUpdated, audit=("UpdateNamespace", "namespace"))
NAMESPACE_RENAMED = EventType("NamespaceRenamed", NamespaceRenamed, audit=("RenameNamespace", "namespace"))
NAMESPACE_DROPPED = EventType("NamespaceDropped", NamespaceDropped, audit=("DropNamespace", "namespace"))
TABLE_CREATED = EventType("TableCreated", TableCreated, audit=("CreateTable", "table"))
TABLE_UPDATED = EventType("TableUpdated", TableUpdated, audit=("UpdateTable", "table"))
TABLE_RENAMED = EventType("TableRenamed", TableRenamed, audit=("RenameTable", "table"))
TABLE_DROPPED = EventType("TableDropped", TableDropped, audit=("DropTable", "table"))
SCHEMA_CHANGED = EventType("SchemaChanged", SchemaChanged, audit=("AlterTable", "table"))
COLUMN_DESCRIBED = EventType("ColumnDescribed", ColumnDescribed, audit=("DescribeColumn", "column"))
CONTRACT_SET = EventType("ContractSet", ContractSet, audit=("UpdateContract", "contract"))
CONTRACT_DROPPED = EventType("ContractDropped", ContractDropped, audit=("UpdateContract", "contract"))
SLA_SET = EventType("SlaSet", SlaSet, audit=("UpdateSla", "sla"))
SLA_DROPPED = EventType("SlaDropped", SlaDropped, audit=("UpdateSla", "sla"))

EVENTS = (
    NAMESPACE_CREATED,
    NAMESPACE_UPDATED,
    NAMESPACE_RENAMED,
    NAMESPACE_DROPPED,
    TABLE_CREATED,
    TABLE_UPDATED,
    TABLE_RENAMED,
    TABLE_DROPPED,
    SCHEMA_CHANGED,
    COLUMN_DESCRIBED,
    CONTRACT_SET,
    CONTRACT_DROPPED,
    SLA_SET,
    SLA_DROPPED,
)

"""Namespaces, tables, columns, contracts, SLAs, and what happened to them."""

from typing import Annotated, Literal

from pydantic import Field

from arco.wire._base import Answer, Request, Written

__all__ = [
    "AnyFormat",
    "ColumnAdd",
    "ColumnAlter",
    "ColumnChange",
    "ColumnDrop",
    "ColumnInfo",
    "ColumnShape",
    "ColumnSpec",
    "ColumnUpdate",
    "Compatibility",
    "ContractInfo",
    "ContractSpec",
    "DeclaredInfo",
    "Format",
    "FormerColumnNameInfo",
    "HistoryEntry",
    "IcebergInfo",
    "NamespaceCreate",
    "NamespaceInfo",
    "NamespaceRename",
    "NamespaceUpdate",
    "NamespaceWritten",
    "SchemaColumnInfo",
    "SchemaDiff",
    "SchemaVersionInfo",
    "Sensitivity",
    "SlaInfo",
    "SlaSpec",
    "TableAlter",
    "TableCommitInfo",
    "TableCreate",
    "TableInfo",
    "TableRegister",
    "TableRename",
    "TableSchema",
    "TableSummary",
    "TableUpdate",
    "TableWritten",
]

Format = Literal["DELTA", "ICEBERG", "PARQUET", "CSV", "JSON"]
AnyFormat = Literal["DELTA", "ICEBERG", "ICEBERG_VIEW", "PARQUET", "CSV", "JSON"]
"""What is in a catalog; Iceberg's tables and views come there through an engine."""
Sensitivity = Literal["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]
Compatibility = Literal["none", "backward", "forward", "full"]
Side = Literal["code", "ui"]

Path = Annotated[str, Field(description='Names joined by dots; a name with a dot in double quotes: `"a.b".orders`.')]
NamespaceName = Annotated[Path, Field(examples=["sales"])]
TableName = Annotated[Path, Field(examples=["sales.orders"])]
ColumnName = Annotated[str, Field(examples=["amount"])]
TypeText = Annotated[
    str, Field(description="Such as `long`, `decimal(10,2)`, `list<string>`, `struct<a:int>`.", examples=["long"])
]

PiiType = Annotated[
    str | None,
    Field(description="A known kind of personal data, or `CUSTOM:` and a word of one's own.", examples=["EMAIL"]),
]
Location = Annotated[
    str, Field(description="A folder or file below the workspace's `data/`.", examples=["data/sales/orders"])
]


class NamespaceCreate(Request):
    name: NamespaceName
    description: str | None = None
    properties: dict[str, str] = {}
    if_not_exists: bool = False


class NamespaceUpdate(Request):
    """A field that is absent stays as it is; null clears it."""

    description: str | None = None
    set_properties: dict[str, str] = {}
    remove_properties: list[str] = []


class NamespaceRename(Request):
    new_name: NamespaceName


class NamespaceInfo(Answer):
    id: str
    name: Path
    parent: Path | None
    description: str | None
    properties: dict[str, str]
    version: int
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    renamed_from: Path | None = None
    """Set if it was asked for under a name it had before."""


class NamespaceWritten(Written):
    namespace: NamespaceInfo


class ColumnSpec(Request):
    name: ColumnName
    type: TypeText
    nullable: bool = True
    description: str | None = None
    pii_type: PiiType = None
    sensitivity: Sensitivity | None = None


class ColumnShape(Request):
    """A column as data has it."""

    name: str
    type: str
    nullable: bool = True


class ColumnAdd(ColumnSpec):
    action: Literal["add"] = "add"


class ColumnAlter(Request):
    """Rename a column, widen its type, or let it be null. A field that is absent stays as it is."""

    action: Literal["alter"] = "alter"
    column: ColumnName
    new_name: str | None = None
    type: TypeText | None = None
    nullable: bool | None = None


class ColumnDrop(Request):
    action: Literal["drop"] = "drop"
    column: ColumnName
    if_exists: bool = False


ColumnChange = Annotated[ColumnAdd | ColumnAlter | ColumnDrop, Field(discriminator="action")]


class ColumnUpdate(Request):
    """What people say of a column. A field that is absent stays as it is; null clears it."""

    description: str | None = None
    pii_type: PiiType = None
    sensitivity: Sensitivity | None = None
    side: Side = "ui"


class TableCreate(Request):
    name: TableName
    columns: list[ColumnSpec] = []
    format: Format = "PARQUET"
    location: Location | None = None
    description: str | None = None
    owners: list[str] = []
    tags: dict[str, str] = {}
    properties: dict[str, str] = {}
    side: Side = "ui"
    if_not_exists: bool = False


class TableRegister(Request):
    """A table whose files are in the store already; columns and row counts are read from them."""

    name: TableName
    location: Location
    format: Literal["PARQUET", "CSV", "JSON"] = "PARQUET"
    description: str | None = None
    owners: list[str] = []
    tags: dict[str, str] = {}
    properties: dict[str, str] = {}


class TableUpdate(Request):
    """A field that is absent stays as it is; null clears it."""

    description: str | None = None
    owners: list[str] | None = None
    tags: dict[str, str] | None = None
    location: Location | None = None
    set_properties: dict[str, str] = {}
    remove_properties: list[str] = []
    side: Side = "ui"


class TableRename(Request):
    new_name: TableName


class TableAlter(Request):
    """Changes of the schema, carried out in order; together they are one new schema version."""

    changes: Annotated[list[ColumnChange], Field(min_length=1)]
    side: Side = "ui"


class TableSchema(Request):
    """The whole schema from now on. Columns are matched by name.

    With `infer_renames`, a column that is gone and one that is new at the same place and of the same type are taken for
    a rename; it is marked as inferred.
    """

    columns: list[ColumnShape]
    infer_renames: bool = True
    side: Side = "ui"


class FormerColumnNameInfo(Answer):
    name: str
    until_version: int
    inferred: bool


class ColumnInfo(Answer):
    id: str
    name: str
    type: str
    position: int
    nullable: bool
    description: str | None
    code_description: str | None
    ui_description: str | None
    pii_type: str | None
    sensitivity: str | None
    status: Literal["active", "inactive"]
    former_names: list[FormerColumnNameInfo]
    added_in_version: int
    dropped_in_version: int | None
    created_at: str
    updated_at: str


class DeclaredInfo(Answer):
    description: str | None
    owners: list[str]
    tags: dict[str, str]


class ContractSpec(Request):
    compatibility: Compatibility = "backward"
    status: Literal["draft", "active", "deprecated"] = "active"
    description: str | None = None
    terms: dict[str, str] = {}


class ContractInfo(Answer):
    compatibility: Compatibility
    status: str
    description: str | None
    terms: dict[str, str]
    version: int
    updated_by: str
    updated_at: str


class SlaSpec(Request):
    freshness_seconds: Annotated[int | None, Field(ge=1, le=1 << 53)] = None
    availability_percent: Annotated[float | None, Field(gt=0, le=100)] = None
    description: str | None = None


class SlaInfo(Answer):
    freshness_seconds: int | None
    availability_percent: float | None
    description: str | None
    version: int
    updated_by: str
    updated_at: str


class TableSummary(Answer):
    """A table as a list shows it."""

    id: str
    name: Path
    namespace: Path
    format: AnyFormat
    description: str | None
    updated_at: str


class IcebergInfo(Answer):
    """How an Iceberg table stands, by the newest commit that was recorded."""

    number: int
    """Of its commit; each is one higher than the one before."""
    uuid: str
    format_version: int
    metadata_location: str | None
    snapshot_id: str | None
    schema_id: int | None
    row_count: int | None
    file_count: int | None
    byte_size: int | None
    last_source: Literal["servo", "external", "admin"]
    last_actor: str
    committed_at: str


class TableCommitInfo(Answer):
    """One commit of an Iceberg table or view."""

    number: int
    state: Literal["live", "dropped", "aborted"]
    """`aborted` is the number of a transaction that did not come about."""
    source: Literal["servo", "external", "admin"]
    lineage_confidence: Literal["verified", "declared_unverified", "none"]
    quality_status: Literal["checked", "not_checked"]
    actor: str
    client: str | None
    run_id: str | None
    materialization_id: str | None
    transaction_id: str | None
    operation_id: str | None
    operation: str | None
    """What made its snapshot, such as append; null if it brought no other one."""
    snapshot_id: str | None
    parent_snapshot_id: str | None
    schema_id: int | None
    schema_changed: bool
    metadata_location: str | None
    added_rows: int | None
    deleted_rows: int | None
    added_files: int | None
    deleted_files: int | None
    total_rows: int | None
    committed_at: str
    recorded_at: str


class TableInfo(Answer):
    id: str
    name: Path
    namespace: Path
    format: AnyFormat
    location: str | None
    description: str | None
    owners: list[str]
    tags: dict[str, str]
    properties: dict[str, str]
    code: DeclaredInfo
    ui: DeclaredInfo
    columns: list[ColumnInfo]
    """Active ones, in order."""
    pii_columns: list[str]
    schema_version: int
    schema_hash: str
    contract: ContractInfo | None
    sla: SlaInfo | None
    version: int
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    renamed_from: Path | None = None
    iceberg: IcebergInfo | None = None
    """Of an Iceberg table; null for others, and until its first commit is recorded."""


class TableWritten(Written):
    table: TableInfo


class SchemaColumnInfo(Answer):
    id: str
    name: str
    type: str
    nullable: bool


class SchemaVersionInfo(Answer):
    version: int
    schema_hash: str
    columns: list[SchemaColumnInfo]
    registered_by: str
    registered_at: str


class SchemaDiff(Answer):
    """What is different in the second of two schema versions, by column id."""

    from_version: int
    to_version: int
    added: list[SchemaColumnInfo]
    removed: list[SchemaColumnInfo]
    renamed: list[tuple[SchemaColumnInfo, SchemaColumnInfo]]
    retyped: list[tuple[SchemaColumnInfo, SchemaColumnInfo]]


class HistoryEntry(Answer):
    """One name an object has had."""

    name: str
    parent: Path | None
    change: Literal["created", "renamed", "dropped"]
    changed_by: str
    changed_at: str

"""Tables of the catalog. Ids are stable; names are looked up under the id of what contains them, so that renaming a
namespace touches one row however much it holds.

- `namespaces`, `tables`, `columns`, `contracts`, `slas` (images): the newest content under the id.
- `schema_versions` (facts): every schema a table had.
- `names` (images): what a name means inside a namespace, with what a listing shows; its group is the parent's id.
- `former_names` (images): which object last had a name that nobody has now; old names resolve through it.
- `name_changes` (facts): what each object was called, from its creation to its drop.

Fields that code and people both define (`Declared`) are kept apart and merged: a description of people wins over code,
owners and tags are united, and of two values of one tag the people's wins.
"""

import msgspec

from arco.state import Kind, Table, Time

__all__ = [
    "COLUMNS",
    "CONTRACTS",
    "FORMER_NAMES",
    "NAMES",
    "NAMESPACES",
    "NAME_CHANGES",
    "ROOT",
    "SCHEMA_VERSIONS",
    "SLAS",
    "TABLES",
    "Column",
    "Contract",
    "Declared",
    "FormerColumnName",
    "FormerName",
    "Name",
    "NameChange",
    "Namespace",
    "SchemaColumn",
    "SchemaVersion",
    "Sla",
    "TableRow",
]

ROOT = "root"
"""The parent of namespaces that have none. Not a ULID, so no object can have this id."""


class Declared(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What one side says of a table: code in its definition, or people in the catalog."""

    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}


class Namespace(msgspec.Struct, frozen=True, gc=False):
    namespace_id: str
    parent_id: str
    name: str
    description: str | None
    properties: dict[str, str]
    version: int
    """Rises by one with each change; what `If-Match` compares."""
    created_by: str
    created_at: Time
    updated_by: str
    updated_at: Time


class TableRow(msgspec.Struct, frozen=True, gc=False):
    table_id: str
    namespace_id: str
    name: str
    format: str
    """DELTA, ICEBERG, ICEBERG_VIEW, PARQUET, CSV or JSON."""
    location: str | None
    description: str | None
    owners: tuple[str, ...]
    tags: dict[str, str]
    properties: dict[str, str]
    code: Declared
    ui: Declared
    schema_version: int
    schema_hash: str
    column_count: int
    version: int
    created_by: str
    created_at: Time
    updated_by: str
    updated_at: Time


class FormerColumnName(msgspec.Struct, frozen=True, gc=False):
    name: str
    until_version: int
    """The first schema version in which the column is called otherwise."""
    inferred: bool
    """True if nobody declared the rename: a schema that arrived looked like it."""


class Column(msgspec.Struct, frozen=True, gc=False):
    column_id: str
    table_id: str
    name: str
    data_type: str
    ordinal_position: int
    is_nullable: bool
    description: str | None
    code_description: str | None
    ui_description: str | None
    pii_type: str | None
    sensitivity: str | None
    status: str
    """`active`, or `inactive` once dropped: lineage may still name it."""
    former_names: tuple[FormerColumnName, ...]
    added_in_version: int
    dropped_in_version: int | None
    created_at: Time
    updated_at: Time


class SchemaColumn(msgspec.Struct, frozen=True, gc=False):
    column_id: str
    name: str
    data_type: str
    is_nullable: bool


class SchemaVersion(msgspec.Struct, frozen=True, gc=False):
    schema_version_id: str
    table_id: str
    version: int
    schema_hash: str
    columns: tuple[SchemaColumn, ...]
    registered_by: str
    registered_at: Time


class Contract(msgspec.Struct, frozen=True, gc=False):
    table_id: str
    compatibility: str
    """none, backward, forward or full: which changes of the schema the table takes."""
    status: str
    """draft, active or deprecated; only an active one is enforced."""
    description: str | None
    terms: dict[str, str]
    version: int
    updated_by: str
    updated_at: Time


class Sla(msgspec.Struct, frozen=True, gc=False):
    table_id: str
    freshness_seconds: int | None
    availability_percent: float | None
    description: str | None
    version: int
    updated_by: str
    updated_at: Time


class Name(msgspec.Struct, frozen=True, gc=False):
    parent_id: str
    kind: str
    """`namespace` or `table`: the two do not compete for names."""
    name: str
    object_id: str
    format: str | None
    description: str | None
    updated_at: Time


class FormerName(msgspec.Struct, frozen=True, gc=False):
    parent_id: str
    kind: str
    name: str
    object_id: str
    until: Time


class NameChange(msgspec.Struct, frozen=True, gc=False):
    change_id: str
    object_id: str
    kind: str
    parent_id: str
    name: str
    """What it is called from here on; for a drop what it was called last."""
    change: str
    """created, renamed or dropped."""
    changed_by: str
    changed_at: Time


NAMESPACES = Table(
    "namespaces", Namespace, Kind.IMAGE, ("namespace_id",), "namespace_id", prune=("created_at",), audited=True
)
TABLES = Table("tables", TableRow, Kind.IMAGE, ("table_id",), "table_id", prune=("created_at",), audited=True)
COLUMNS = Table("columns", Column, Kind.IMAGE, ("table_id", "column_id"), "table_id", audited=True)
SCHEMA_VERSIONS = Table("schema_versions", SchemaVersion, Kind.FACT, ("schema_version_id",), "table_id")
CONTRACTS = Table("contracts", Contract, Kind.IMAGE, ("table_id",), "table_id", audited=True)
SLAS = Table("slas", Sla, Kind.IMAGE, ("table_id",), "table_id", audited=True)
NAMES = Table("names", Name, Kind.IMAGE, ("parent_id", "kind", "name"), "parent_id")
FORMER_NAMES = Table("former_names", FormerName, Kind.IMAGE, ("parent_id", "kind", "name"), "parent_id")
NAME_CHANGES = Table("name_changes", NameChange, Kind.FACT, ("change_id",), "object_id")

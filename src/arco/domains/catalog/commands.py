"""Commands of the catalog: what may be asked. `deciders` says what becomes of them.

A field that is `UNSET` stays as it is. `side` says who speaks in a `Declared` field: `code` or `ui`. A command names
things as its caller does (`Ref`: by path or by id); the decider resolves names at the tail of the log. Ids of what is
created are derived by the decider from the operation, never sent.
"""

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "AddColumn",
    "AlterColumn",
    "AlterTable",
    "ColumnShape",
    "CreateNamespace",
    "CreateTable",
    "DescribeColumn",
    "DropColumn",
    "DropContract",
    "DropNamespace",
    "DropSla",
    "DropTable",
    "Ref",
    "RenameNamespace",
    "RenameTable",
    "ReplaceSchema",
    "SetContract",
    "SetSla",
    "UpdateNamespace",
    "UpdateTable",
]


class Ref(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A namespace or table, by exactly one of path and id."""

    path: tuple[str, ...] = ()
    id: str = ""


class CreateNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: tuple[str, ...]
    description: str | None = None
    properties: dict[str, str] = {}
    if_not_exists: bool = False


class UpdateNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: Ref
    description: str | UnsetType | None = UNSET
    set_properties: dict[str, str] = {}
    remove_properties: tuple[str, ...] = ()
    expected_version: int | None = None


class RenameNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: Ref
    new_path: tuple[str, ...]
    expected_version: int | None = None


class DropNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    namespace: Ref
    if_exists: bool = False
    cascade: bool = False
    expected_version: int | None = None


class AddColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="add"):
    name: str
    data_type: str
    is_nullable: bool = True
    description: str | None = None
    pii_type: str | None = None
    sensitivity: str | None = None


class AlterColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="alter"):
    """Renames a column, widens its type or lets it be null."""

    column: str
    """Its name, or its id."""
    new_name: str | UnsetType = UNSET
    data_type: str | UnsetType = UNSET
    is_nullable: bool | UnsetType = UNSET
    inferred: bool = False


class DropColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag="drop"):
    column: str
    if_exists: bool = False


class CreateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: tuple[str, ...]
    """The namespace's levels and the table's own name."""
    format: str = "PARQUET"
    location: str | None = None
    columns: tuple[AddColumn, ...] = ()
    description: str | None = None
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    properties: dict[str, str] = {}
    side: str = "ui"
    if_not_exists: bool = False
    table_id: str | UnsetType = UNSET
    """For the Iceberg formats, and needed there: the id under which its pointers are."""


class UpdateTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref
    description: str | UnsetType | None = UNSET
    owners: tuple[str, ...] | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    location: str | UnsetType | None = UNSET
    set_properties: dict[str, str] = {}
    remove_properties: tuple[str, ...] = ()
    side: str = "ui"
    expected_version: int | None = None


class RenameTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref
    new_path: tuple[str, ...]
    expected_version: int | None = None


class DropTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref
    if_exists: bool = False
    expected_version: int | None = None
    fence: str | UnsetType = UNSET
    """For the Iceberg formats, and needed there: the id of the pointer that says the table is dropped. Without it a
    commit could still land on a table that has no name any more."""


class AlterTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a schema, carried out in order; together they are one new schema version."""

    table: Ref
    changes: tuple[AddColumn | AlterColumn | DropColumn, ...]
    side: str = "ui"
    expected_version: int | None = None


class ColumnShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column as data has it: nothing of what people say about it."""

    name: str
    data_type: str
    is_nullable: bool = True


class ReplaceSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole schema from now on, as somebody found it: in files, in code, in another catalog.

    Columns are matched by name. With `infer_renames` one that is gone and one that is new, at the same place and of the
    same type, are taken for a rename that nobody declared; it is marked as inferred.
    """

    table: Ref
    columns: tuple[ColumnShape, ...]
    infer_renames: bool = True
    side: str = "ui"
    expected_version: int | None = None


class DescribeColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref
    column: str
    description: str | UnsetType | None = UNSET
    pii_type: str | UnsetType | None = UNSET
    sensitivity: str | UnsetType | None = UNSET
    side: str = "ui"
    expected_version: int | None = None


class SetContract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref
    compatibility: str = "backward"
    status: str = "active"
    description: str | None = None
    terms: dict[str, str] = {}


class DropContract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref


class SetSla(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref
    freshness_seconds: int | None = None
    availability_percent: float | None = None
    description: str | None = None


class DropSla(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    table: Ref

"""Tables from events: the row of a table, its columns, every schema it had, its contract and its SLA.

A table's version counts its changes, a schema's version counts schemas; both follow from the row before. What code and
people say is kept apart in the row and merged here. Creating a table is the event that a catalog sees most, with dozens
of columns each: it is written for speed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from arco.core import sha256_hex
from arco.domains.catalog.events import (
    AddedColumn,
    AlteredColumn,
    ColumnDescribed,
    ContractDropped,
    ContractSet,
    SchemaChanged,
    SlaDropped,
    SlaSet,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableUpdated,
)
from arco.domains.catalog.tables import (
    COLUMNS,
    CONTRACTS,
    SCHEMA_VERSIONS,
    SLAS,
    TABLES,
    Column,
    Contract,
    Declared,
    FormerColumnName,
    SchemaColumn,
    SchemaVersion,
    Sla,
    TableRow,
)
from arco.state import Group, Input, Reject

__all__ = ["fold_table", "schema_hash"]

_encoder = msgspec.json.Encoder()


def schema_hash(columns: Iterable[SchemaColumn]) -> str:
    """The identity of a schema: `fingerprint` of the name, type and nullability of each column, in order.

    Names and types hold no control characters, so msgspec's text is the canonical one and much faster to make.
    """
    return sha256_hex(_encoder.encode([(column.name, column.data_type, column.is_nullable) for column in columns]))


def fold_table(group: Group, item: Input) -> None:
    row: TableRow | None = group.get(TABLES, group.key)
    event = item.payload
    if isinstance(event, TableCreated):
        if row is not None:
            raise Reject(f"the table {group.key} exists already")
        _create(group, item, event)
    elif row is None:
        raise Reject(f"the table {group.key} does not exist")
    else:
        _FOLDS[type(event)](group, item, event, row)


def _create(group: Group, item: Input, event: TableCreated) -> None:
    actor, now, table_id = item.event.actor, item.received, group.key
    columns = [SchemaColumn(new.column_id, new.name, new.data_type, new.is_nullable) for new in event.columns]
    if len({column.column_id for column in columns}) < len(columns):
        raise Reject(f"a column of the table {table_id} is there twice")
    version = _register(group, item, 1, columns)
    for position, new in enumerate(event.columns, 1):
        group.put(COLUMNS, _column(table_id, new, position, 1, now))
    description, owners, tags = _merged(event.code, event.ui)
    group.put(
        TABLES,
        TableRow(
            table_id=table_id,
            namespace_id=event.namespace_id,
            name=event.name,
            format=event.format,
            location=event.location,
            description=description,
            owners=owners,
            tags=tags,
            properties=event.properties,
            code=event.code,
            ui=event.ui,
            schema_version=1,
            schema_hash=version.schema_hash,
            column_count=len(columns),
            version=1,
            created_by=actor,
            created_at=now,
            updated_by=actor,
            updated_at=now,
        ),
    )


def _column(table_id: str, new: AddedColumn, position: int, version: int, now: int) -> Column:
    return Column(
        new.column_id,
        table_id,
        new.name,
        new.data_type,
        position,
        new.is_nullable,
        _described(new.code_description, new.ui_description),
        new.code_description,
        new.ui_description,
        new.pii_type,
        new.sensitivity,
        "active",
        (),
        version,
        None,
        now,
        now,
    )


def _register(group: Group, item: Input, version: int, columns: Sequence[SchemaColumn]) -> SchemaVersion:
    # Padded, so that the schemas of a table come in their order.
    row = SchemaVersion(
        f"{group.key}:{version:06d}",
        group.key,
        version,
        schema_hash(columns),
        tuple(columns),
        item.event.actor,
        item.received,
    )
    group.put(SCHEMA_VERSIONS, row)
    return row


def _merged(code: Declared, ui: Declared) -> tuple[str | None, tuple[str, ...], dict[str, str]]:
    owners = tuple(dict.fromkeys((*code.owners, *ui.owners)))
    return _described(code.description, ui.description), owners, {**code.tags, **ui.tags}


def _described(code: str | None, ui: str | None) -> str | None:
    return code if ui is None else ui


def _change(group: Group, item: Input, row: TableRow, **changes: Any) -> None:
    """The table's row as it is from now on."""
    group.put(
        TABLES,
        msgspec.structs.replace(
            row, version=row.version + 1, updated_by=item.event.actor, updated_at=item.received, **changes
        ),
    )


def _update(group: Group, item: Input, event: TableUpdated, row: TableRow) -> None:
    description, owners, tags = _merged(event.code, event.ui)
    _change(
        group,
        item,
        row,
        location=event.location,
        properties=event.properties,
        code=event.code,
        ui=event.ui,
        description=description,
        owners=owners,
        tags=tags,
    )


def _rename(group: Group, item: Input, event: TableRenamed, row: TableRow) -> None:
    _change(group, item, row, namespace_id=event.namespace_id, name=event.name)


def _drop(group: Group, item: Input, event: TableDropped, row: TableRow) -> None:
    for column in group.rows(COLUMNS):
        group.delete(COLUMNS, (column.table_id, column.column_id))
    group.delete(CONTRACTS, group.key)
    group.delete(SLAS, group.key)
    group.delete(TABLES, group.key)


def _change_schema(group: Group, item: Input, event: SchemaChanged, row: TableRow) -> None:
    version, now = row.schema_version + 1, item.received
    columns: dict[str, Column] = {column.column_id: column for column in group.rows(COLUMNS)}
    written: dict[str, Column] = {}
    for column_id in event.dropped:
        before = _active(columns, column_id)
        written[column_id] = msgspec.structs.replace(
            before, status="inactive", dropped_in_version=version, updated_at=now
        )
    for altered in event.altered:
        written[altered.column_id] = _altered(_active(columns, altered.column_id), altered, version, now)
    for position, new in enumerate(event.added, len(columns) + 1):
        if new.column_id in columns or new.column_id in written:
            raise Reject(f"the column {new.column_id} is there already")
        written[new.column_id] = _column(group.key, new, position, version, now)
    for column in written.values():
        group.put(COLUMNS, column)
    active = [column for column in (columns | written).values() if column.status == "active"]
    active.sort(key=lambda column: column.ordinal_position)
    registered = _register(
        group, item, version, [SchemaColumn(c.column_id, c.name, c.data_type, c.is_nullable) for c in active]
    )
    _change(
        group,
        item,
        row,
        schema_version=version,
        schema_hash=registered.schema_hash,
        column_count=len(active),
    )


def _active(columns: dict[str, Column], column_id: str) -> Column:
    column = columns.get(column_id)
    if column is None or column.status != "active":
        raise Reject(f"the column {column_id} is not there")
    return column


def _altered(before: Column, altered: AlteredColumn, version: int, now: int) -> Column:
    former = before.former_names
    if altered.name != before.name:
        former = (*former, FormerColumnName(before.name, version, altered.inferred))
    return msgspec.structs.replace(
        before,
        name=altered.name,
        data_type=altered.data_type,
        is_nullable=altered.is_nullable,
        former_names=former,
        updated_at=now,
    )


def _describe(group: Group, item: Input, event: ColumnDescribed, row: TableRow) -> None:
    before: Column | None = group.get(COLUMNS, (group.key, event.column_id))
    if before is None:
        raise Reject(f"the column {event.column_id} is not there")
    group.put(
        COLUMNS,
        msgspec.structs.replace(
            before,
            description=_described(event.code_description, event.ui_description),
            code_description=event.code_description,
            ui_description=event.ui_description,
            pii_type=event.pii_type,
            sensitivity=event.sensitivity,
            updated_at=item.received,
        ),
    )
    _change(group, item, row)


def _set_contract(group: Group, item: Input, event: ContractSet, row: TableRow) -> None:
    before: Contract | None = group.get(CONTRACTS, group.key)
    group.put(
        CONTRACTS,
        Contract(
            table_id=event.table_id,
            compatibility=event.compatibility,
            status=event.status,
            description=event.description,
            terms=event.terms,
            version=1 if before is None else before.version + 1,
            updated_by=item.event.actor,
            updated_at=item.received,
        ),
    )


def _drop_contract(group: Group, item: Input, event: ContractDropped, row: TableRow) -> None:
    if group.get(CONTRACTS, group.key) is None:
        raise Reject(f"the table {group.key} has no contract")
    group.delete(CONTRACTS, group.key)


def _set_sla(group: Group, item: Input, event: SlaSet, row: TableRow) -> None:
    before: Sla | None = group.get(SLAS, group.key)
    group.put(
        SLAS,
        Sla(
            table_id=event.table_id,
            freshness_seconds=event.freshness_seconds,
            availability_percent=event.availability_percent,
            description=event.description,
            version=1 if before is None else before.version + 1,
            updated_by=item.event.actor,
            updated_at=item.received,
        ),
    )


def _drop_sla(group: Group, item: Input, event: SlaDropped, row: TableRow) -> None:
    if group.get(SLAS, group.key) is None:
        raise Reject(f"the table {group.key} has no SLA")
    group.delete(SLAS, group.key)


_FOLDS: dict[type, Callable[[Group, Input, Any, TableRow], None]] = {
    TableUpdated: _update,
    TableRenamed: _rename,
    TableDropped: _drop,
    SchemaChanged: _change_schema,
    ColumnDescribed: _describe,
    ContractSet: _set_contract,
    ContractDropped: _drop_contract,
    SlaSet: _set_sla,
    SlaDropped: _drop_sla,
}

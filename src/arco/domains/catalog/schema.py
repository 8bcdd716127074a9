"""A table's columns under change: a working copy on which changes are carried out in order, then compared.

`Schema` refuses what no table allows: two columns of one name, a type that does not widen, a column that becomes
required. `check_contract` refuses what a contract does not allow, by what the whole alteration comes to.

| change | backward: new readers, old data | forward: old readers, new data |
|---|---|---|
| add a nullable column, rename one | yes | yes |
| add a required column | no, old data lacks it | yes |
| widen a type, let a column be null, drop one | yes | no, old readers need what they knew |

`full` is both, `none` neither. Names compare without case, because Spark cannot tell two such columns apart.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from arco.core import Conflict, Invalid, NotFound, Refused, TooLarge, check_catalog_name, shown
from arco.domains.catalog.checks import MAX_COLUMNS, check_description, check_pii_type, check_sensitivity, nearest
from arco.domains.catalog.commands import AddColumn, AlterColumn, DropColumn
from arco.domains.catalog.events import AddedColumn, AlteredColumn, SchemaChanged
from arco.domains.catalog.tables import Column, Contract
from arco.domains.catalog.types import parse_type, widens

__all__ = ["Schema", "check_contract", "find_column"]

_PROMISES: Final = {
    "backward": "whoever reads by the new schema must be able to read old data",
    "forward": "whoever reads by the old schema must be able to read new data",
}


class _Working(msgspec.Struct):
    """A column as it stands in the working copy."""

    column_id: str
    name: str
    data_type: str
    is_nullable: bool
    inferred: bool = False
    added: AddedColumn | None = None


def find_column(columns: Iterable[Column], text: str, table: str) -> Column:
    """The active column of this name or id; `NotFound` says what became of it, or what is written nearly so."""
    known = list(columns)
    active = [column for column in known if column.status == "active"]
    for column in active:
        if column.name == text:
            return column
    for column in active:
        if column.column_id == text:
            return column
    raise _unknown(known, [column.name for column in active], text, table)


def _unknown(known: Sequence[Column], active: Sequence[str], text: str, table: str) -> NotFound:
    there = set(active)
    for column in known:
        if column.status == "active" and column.name in there and any(f.name == text for f in column.former_names):
            return NotFound(
                f"the column {shown(text)} of {table} is called {column.name} now; use that name",
                renamed_to=column.name,
            )
    for column in known:
        if column.status != "active" and text in (column.name, column.column_id):
            return NotFound(
                f"the table {table} has no column {shown(text)}: it was dropped in schema version "
                f"{column.dropped_in_version}"
            )
    return NotFound(f"the table {table} has no column {shown(text)}{nearest(text, active) or '; list its columns'}")


class Schema:
    """The active columns of a table, and what became of them."""

    def __init__(self, columns: Iterable[Column], table: str) -> None:
        self._table = table
        self._known = sorted(columns, key=lambda column: column.ordinal_position)
        self._before = {column.column_id: column for column in self._known if column.status == "active"}
        self._now: dict[str, _Working] = {}
        self._taken: dict[str, str] = {}
        for column in self._before.values():
            self._place(_Working(column.column_id, column.name, column.data_type, column.is_nullable))

    def add(self, column: AddColumn, column_id: str, side: str) -> None:
        self._check_name(column.name)
        if len(self._now) >= MAX_COLUMNS:
            raise TooLarge(f"the table {self._table} has {MAX_COLUMNS} columns, the most there can be; drop some")
        description = check_description(column.description)
        added = AddedColumn(
            column_id=column_id,
            name=column.name,
            data_type=parse_type(column.data_type),
            is_nullable=column.is_nullable,
            code_description=description if side == "code" else None,
            ui_description=description if side == "ui" else None,
            pii_type=check_pii_type(column.pii_type),
            sensitivity=check_sensitivity(column.sensitivity),
        )
        self._place(_Working(column_id, column.name, added.data_type, column.is_nullable, added=added))

    def alter(self, change: AlterColumn) -> None:
        column = self._find(change.column)
        if change.new_name is UNSET and change.data_type is UNSET and change.is_nullable is UNSET:
            raise Invalid(f"nothing is said of the column {shown(change.column)}; give a new name, a type or nullable")
        if change.inferred and change.new_name is UNSET:
            raise Invalid(f"only a rename is inferred; give the column {shown(change.column)} a new name")
        if change.data_type is not UNSET:
            self._retype(column, parse_type(change.data_type))
        if change.is_nullable is not UNSET:
            if column.is_nullable and not change.is_nullable:
                raise Refused(
                    f"the column {column.name} of {self._table} cannot become required: data that is there may hold "
                    "nulls; add a required column instead"
                )
            column.is_nullable = change.is_nullable
        if change.new_name is not UNSET and change.new_name != column.name:
            del self._taken[column.name.lower()]
            self._check_name(change.new_name)
            column.name, column.inferred = change.new_name, change.inferred
            self._place(column)

    def drop(self, change: DropColumn) -> None:
        try:
            column = self._find(change.column)
        except NotFound:
            if change.if_exists:
                return
            raise
        del self._now[column.column_id], self._taken[column.name.lower()]

    def added(self) -> tuple[AddedColumn, ...]:
        """The columns that were not there before, as they are now."""
        return tuple(
            msgspec.structs.replace(
                column.added, name=column.name, data_type=column.data_type, is_nullable=column.is_nullable
            )
            for column in self._now.values()
            if column.added is not None
        )

    def change(self, table_id: str) -> SchemaChanged | None:
        """What all changes come to; None if that is nothing."""
        altered = tuple(
            AlteredColumn(
                column.column_id,
                column.name,
                column.data_type,
                column.is_nullable,
                inferred=column.inferred and column.name != before.name,
            )
            for column in self._now.values()
            if (before := self._before.get(column.column_id)) is not None
            and (column.name, column.data_type, column.is_nullable)
            != (before.name, before.data_type, before.is_nullable)
        )
        dropped = tuple(column_id for column_id in self._before if column_id not in self._now)
        added = self.added()
        return SchemaChanged(table_id, added, altered, dropped) if added or altered or dropped else None

    def _place(self, column: _Working) -> None:
        self._now[column.column_id] = column
        self._taken[column.name.lower()] = column.column_id

    def _check_name(self, name: str) -> None:
        check_catalog_name("column", name)
        taken = self._taken.get(name.lower())
        if taken is not None:
            other = self._now[taken].name
            how = "already" if other == name else f"under the name {other}, and engines do not tell case apart"
            raise Conflict(f"the table {self._table} has the column {name} {how}; choose another name")

    def _find(self, text: str) -> _Working:
        taken = self._taken.get(text.lower())
        if taken is not None and self._now[taken].name == text:
            return self._now[taken]
        if text in self._now:
            return self._now[text]
        raise _unknown(self._known, [column.name for column in self._now.values()], text, self._table)

    def _retype(self, column: _Working, data_type: str) -> None:
        if data_type != column.data_type and not widens(column.data_type, data_type):
            raise Refused(
                f"the column {column.name} of {self._table} cannot change from {column.data_type} to {data_type}: a "
                "type may only widen (int to long, float to double, a decimal to more digits); add a column of the new "
                "type"
            )
        column.data_type = data_type


def check_contract(contract: Contract | None, before: Iterable[Column], change: SchemaChanged, table: str) -> None:
    """Refuse a change that an active contract does not allow, by the rule it violates."""
    if contract is None or contract.status != "active":
        return
    columns = {column.column_id: column for column in before}
    rules = {"full": ("backward", "forward"), "none": ()}.get(contract.compatibility, (contract.compatibility,))
    for rule in rules:
        violation = _not_backward(change) if rule == "backward" else _not_forward(change, columns)
        if violation:
            raise Refused(
                f"the contract of {table} is {contract.compatibility}, so {violation}: {_PROMISES[rule]}; change the "
                "contract first, or make another change",
                compatibility=contract.compatibility,
                rule=rule,
            )


def _not_backward(change: SchemaChanged) -> str:
    for column in change.added:
        if not column.is_nullable:
            return f"the column {column.name} cannot be added as required"
    return ""


def _not_forward(change: SchemaChanged, columns: dict[str, Column]) -> str:
    for column_id in change.dropped:
        return f"the column {columns[column_id].name} cannot be dropped"
    for column in change.altered:
        before = columns[column.column_id]
        if column.data_type != before.data_type:
            return f"the type of {before.name} cannot widen from {before.data_type} to {column.data_type}"
        if column.is_nullable and not before.is_nullable:
            return f"the column {before.name} cannot become nullable"
    return ""

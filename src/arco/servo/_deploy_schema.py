"""Whether a declared schema may follow a registered one: what readers of the old one would not survive.

Columns are matched by name, without case, as engines do. By default a change must be backward compatible: whoever reads
by the new schema can read the data that is there. An active contract of the table may ask for more, or for less.
"""

from collections.abc import Iterable, Sequence

from arco.assets import SchemaColumn
from arco.core import Invalid
from arco.domains.catalog import parse_type, widens

__all__ = ["breaking_changes", "canonical_columns"]


def canonical_columns(key: str, columns: Iterable[SchemaColumn]) -> tuple[SchemaColumn, ...]:
    """Declared columns with the one text of their types; `Invalid` names the column whose type is none."""
    found = []
    for column in columns:
        try:
            found.append(SchemaColumn(column.name, parse_type(column.type), column.nullable))
        except Invalid as error:
            raise Invalid(f"the column {column.name} of {key}: {error.message}", asset=key) from error
    return tuple(found)


def breaking_changes(
    key: str, before: Sequence[SchemaColumn], after: Sequence[SchemaColumn], compatibility: str = "backward"
) -> list[str]:
    """One sentence for each change that `compatibility` (none, backward, forward, full) does not allow.

    Both have types in their one text. A type that does not widen and a column that becomes required are never allowed:
    the data that is there could not be read.
    """
    old = {column.name.lower(): column for column in before}
    new = {column.name.lower(): column for column in after}
    backward, forward = compatibility in ("backward", "full"), compatibility in ("forward", "full")
    found: list[str] = []
    for name, column in new.items():
        known = old.get(name)
        if known is None:
            if backward and not column.nullable:
                found.append(
                    f"{key}: the column {column.name} is new and required, and the data that is there lacks it"
                )
            continue
        if known.type != column.type and not widens(known.type, column.type):
            found.append(
                f"{key}: the column {column.name} changes from {known.type} to {column.type}, which is no wider"
            )
        elif forward and known.type != column.type:
            found.append(f"{key}: the column {column.name} widens from {known.type} to {column.type}")
        if known.nullable and not column.nullable:
            found.append(f"{key}: the column {column.name} becomes required, and the data that is there may hold nulls")
        elif forward and column.nullable and not known.nullable:
            found.append(f"{key}: the column {column.name} becomes nullable")
    if forward:
        found += [f"{key}: the column {known.name} is gone" for name, known in old.items() if name not in new]
    return found

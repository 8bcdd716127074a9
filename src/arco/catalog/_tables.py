"""A table and its columns as rows, for who reads its data."""

from arco.catalog._names import View, resolve_table
from arco.core import Invalid, NotFound, check_catalog_name
from arco.domains.catalog import COLUMNS, TABLES, Column, Ref, TableRow

__all__ = ["find_table"]


async def find_table(view: View, path: tuple[str, ...]) -> tuple[TableRow, list[Column]] | None:
    """The table a path means and all its columns, dropped ones too; None if there is none."""
    try:
        for part in path:
            check_catalog_name("table or namespace", part)
        found = await resolve_table(view, Ref(path=path))
    except (Invalid, NotFound):
        return None
    row: TableRow = await view.get(TABLES, found.id, found.id)
    return row, await view.rows(COLUMNS, found.id)

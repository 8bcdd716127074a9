"""DataFusion over tables that PyIceberg finds, in an environment of its own; see `tests.engines.environments`.

A question is `{"properties": of the catalog, "tables": {name in the query: table}, "sql": text}`; the answer, the rows.
"""

import json
import sys
from typing import Any

from datafusion import SessionContext  # type: ignore[import-not-found]
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg_core.datafusion import IcebergDataFusionTable


def query(properties: dict[str, str], tables: dict[str, str], sql: str) -> list[list[Any]]:
    catalog = load_catalog("arco", type="rest", **properties)
    context = SessionContext()
    for name, table in tables.items():
        context.register_table(name, provider(catalog, table))
    return [list(row.values()) for row in context.sql(sql).to_arrow_table().to_pylist()]


def provider(catalog: Catalog, name: str) -> IcebergDataFusionTable:
    """As PyIceberg's table makes one of itself, which fails for REST catalogs: not all their properties are texts."""
    table = catalog.load_table(name)
    texts = {key: value for key, value in table.io.properties.items() if isinstance(value, str)}
    return IcebergDataFusionTable(table.name(), table.metadata_location, texts)


def main() -> None:
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = {"result": query(**json.loads(line))}
        except Exception as error:  # noqa: BLE001  told to whoever asked
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()

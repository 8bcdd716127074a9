"""The Iceberg REST catalog over HTTP, below `/iceberg`. What it does is in `arco.iceberg`.

routes (what may be asked, by whom) -> paths -> app (the guard) -> ask -> namespaces, tables, views, ... -> loading
"""

from arco.api.iceberg._app import IcebergApp
from arco.api.iceberg._hot import Hot
from arco.api.iceberg._routes import ICEBERG_ROUTES, PUBLIC
from arco.api.iceberg._warehouse import Warehouse, close_warehouses, open_warehouse

__all__ = [
    "ICEBERG_ROUTES",
    "PUBLIC",
    "Hot",
    "IcebergApp",
    "Warehouse",
    "close_warehouses",
    "open_warehouse",
]

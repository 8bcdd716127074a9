"""DataFusion reads what others wrote, with its own scan of Iceberg tables (iceberg-rust)."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import DoubleType

from tests.engines.conftest import Lake
from tests.engines.environments import Engine
from tests.engines.test_pyiceberg import SCHEMA, rows

pytestmark = pytest.mark.prove


@pytest.fixture
def catalog(lake: Lake, namespace: str) -> Catalog:
    found = load_catalog("arco", type="rest", **lake.properties)
    found.create_namespace(namespace)
    return found


def test_tables_are_joined(lake: Lake, catalog: Catalog, namespace: str, datafusion_engine: Engine) -> None:
    sales = catalog.create_table(f"{namespace}.sales", SCHEMA)
    sales.append(rows((1, "Bern", 1.0), (2, "Oslo", 2.0)))
    sales.append(rows((3, "Bern", 3.0)))
    cities = catalog.create_table(f"{namespace}.cities", SCHEMA)
    cities.append(rows((7, "Bern", 0.5)))
    tables = {"sales": f"{namespace}.sales", "cities": f"{namespace}.cities"}

    def ask(sql: str) -> list[list[Any]]:
        found: list[list[Any]] = datafusion_engine.ask(properties=lake.properties, tables=tables, sql=sql)
        return found

    joined = "select s.city, sum(s.amount * c.amount) from sales s join cities c on s.city = c.city group by s.city"
    assert ask(joined) == [["Bern", 2.0]]
    assert ask("select count(*) from sales where id >= 2") == [[2]]
    with sales.update_schema() as update:
        update.add_column("price", DoubleType())
    sales.append(rows((4, "Rome", 4.0)).append_column("price", pa.array([4.5])))
    assert ask("select id, price from sales where id >= 3 order by id") == [[3, None], [4, 4.5]]

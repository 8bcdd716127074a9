"""Files of merged state and of assets are plain Parquet: DuckDB, Spark and parquet-wasm read the same rows of them."""

import datetime as dt
import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.storage import MemoryStore
from arco.worker._values import _encoded
from tests.emulators.servers import HERE, missing_component
from tests.simulation.months import SCOPE, Load, live, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Reader = Callable[[Path], pa.Table]

NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
BUSY_DAY = Load(runs=3, tasks=3, task_seconds=10, posts=9, facts=3, changes=9, reads=0)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every file that merges of one day wrote, by table."""
    folder = tmp_path_factory.mktemp("merged")

    async def scenario() -> dict[str, Path]:
        life = await live(1, BUSY_DAY, chores=())
        found: dict[str, Path] = {}
        for log in ("catalog", "activity"):
            for layer in life.head(log).layers:
                for file in layer.files if layer.level else ():
                    path = folder / f"{layer.table}-{len(found)}.parquet"
                    path.write_bytes(await MemoryStore.get(life.store, f"{SCOPE.root}/{file.path}"))
                    assert path.stat().st_size == file.length, "a whole object, no slice of one"
                    found[path.stem] = path
        return found

    return run(scenario())


@pytest.fixture(scope="module")
def data(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data of assets as each engine writes it."""
    folder = tmp_path_factory.mktemp("data")
    table = pa.table(
        {
            "id": pa.array(range(1_000), pa.int64()),
            "name": pa.array([f"n{n % 7}" if n % 5 else None for n in range(1_000)]),
            "price": pa.array([n / 8 for n in range(1_000)], pa.float64()),
            "day": pa.array([dt.date(2026, 1, 1 + n % 28) for n in range(1_000)]),
            "at": pa.array([NEW_YEAR + dt.timedelta(microseconds=n) for n in range(1_000)]),
            "tags": pa.array([[str(n), "x"] if n % 3 else [] for n in range(1_000)], pa.list_(pa.string())),
        }
    )
    python = folder / "python.parquet"
    (written,) = _encoded(table.schema, [table])
    python.write_bytes(written)
    spark.createDataFrame(table).coalesce(1).write.parquet(str(folder / "spark"))
    (by_spark,) = (folder / "spark").glob("*.parquet")
    return {"python": python, "spark": by_spark}


def by_duckdb(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql("SELECT * FROM read_parquet(?)", params=[str(path)]).to_arrow_table()


def by_wasm(path: Path) -> pa.Table:
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "parquet-wasm").is_dir():
        missing_component("parquet-wasm is not installed: run `make setup`, which needs Node with npm")
    done = subprocess.run([node, str(HERE / "parquet.mjs"), str(path)], capture_output=True, check=True, timeout=120)
    return pa.ipc.open_stream(io.BytesIO(done.stdout)).read_all()


@pytest.fixture(scope="module")
def readers(spark: "SparkSession") -> dict[str, Reader]:
    def by_spark(path: Path) -> pa.Table:
        return spark.read.parquet(str(path)).toArrow()

    return {"duckdb": by_duckdb, "spark": by_spark, "parquet-wasm": by_wasm}


def plain(value: Any) -> Any:
    """The same for all who count time in other units or zones."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def rows(table: pa.Table) -> list[str]:
    return sorted(repr([(name, plain(row[name])) for name in sorted(row)]) for row in table.to_pylist())


def test_merged_state_is_read_by_all(merged: dict[str, Path], readers: dict[str, Reader]) -> None:
    assert len(merged) >= 8
    total = 0
    for name, path in merged.items():
        expected = rows(pq.read_table(path))
        total += len(expected)
        for reader, read in readers.items():
            assert rows(read(path)) == expected, (reader, name)
    assert total > 50


@pytest.mark.parametrize("writer", ["python", "spark"])
def test_data_of_assets_is_read_by_all(data: dict[str, Path], readers: dict[str, Reader], writer: str) -> None:
    expected = rows(pq.read_table(data[writer]))
    assert len(expected) == 1_000
    for reader, read in readers.items():
        assert rows(read(data[writer])) == expected, reader

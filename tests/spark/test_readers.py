"""Files of merged state and of assets are plain Parquet: DuckDB, Spark and parquet-wasm read the same rows of them,
from a disk, and what signed URLs of a bucket give."""

import asyncio
import datetime as dt
import io
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.spark._place import place_of
from arco.storage import MemoryStore
from arco.worker._values import _encoded
from tests.emulators.servers import HERE, Emulator, missing_component
from tests.simulation.months import SCOPE, Load, live, run
from tests.spark.jars import s3_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Reader = Callable[[Path], pa.Table]

PREFIX = "readers"
LOCAL = "local"
"""The column of times without a zone, in an hour that many zones do not have."""
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
            "total": pa.array([Decimal(n) / 100 if n % 11 else None for n in range(1_000)], pa.decimal128(12, 2)),
            "buyer": pa.array(
                [{"name": f"b{n}", "address": {"lines": [n, None]}} if n % 13 else None for n in range(1_000)],
                pa.struct([("name", pa.string()), ("address", pa.struct([("lines", pa.list_(pa.int32()))]))]),
            ),
            "counts": pa.array([{"a": n, f"k{n}": None} for n in range(1_000)], pa.map_(pa.string(), pa.int64())),
            "raw": pa.array([bytes([n % 256, 0, 255]) if n % 17 else b"" for n in range(1_000)], pa.binary()),
            LOCAL: pa.array([dt.datetime(2026, 3, 29, 2, 30) + dt.timedelta(microseconds=n) for n in range(1_000)]),
        }
    )
    python = folder / "python.parquet"
    (written,) = _encoded(table.schema, [table])
    python.write_bytes(written)
    made = spark.createDataFrame(table)
    made = made.withColumn(LOCAL, made[LOCAL].cast("timestamp_ntz"))
    made.coalesce(1).write.parquet(str(folder / "spark"))
    (by_spark,) = (folder / "spark").glob("*.parquet")
    return {"python": python, "spark": by_spark}


def by_duckdb(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql("SELECT * FROM read_parquet(?)", params=[str(path)]).to_arrow_table()


def by_wasm(path: Path | str) -> pa.Table:
    """`path` may be a URL."""
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
        found = read(data[writer])
        assert rows(found) == expected, reader
        assert found.schema.field(LOCAL).type.tz is None, reader


def uploaded(emulator: Emulator, files: dict[str, Path]) -> dict[str, str]:
    """Puts files into a bucket; a signed URL of each."""

    async def put() -> dict[str, str]:
        store = emulator.store(PREFIX)
        for name, path in files.items():
            await store.put(f"{name}.parquet", path.read_bytes(), only_if_absent=False)
        return {name: await store.sign(f"{name}.parquet", expires_in=600) for name in files}

    return asyncio.run(put())


def test_the_same_is_read_from_a_bucket_by_signed_urls(
    merged: dict[str, Path], data: dict[str, Path], s3_server: Emulator, tmp_path: Path
) -> None:
    largest = sorted(merged, key=lambda name: merged[name].stat().st_size)[-2:]
    files = data | {name: merged[name] for name in largest}
    for name, url in uploaded(s3_server, files).items():
        expected = rows(pq.read_table(files[name]))
        fetched = tmp_path / "fetched.parquet"
        with urllib.request.urlopen(url, timeout=60) as answer:  # DuckDB reads URLs by an extension, which it downloads
            fetched.write_bytes(answer.read())
        assert rows(by_duckdb(fetched)) == expected, ("duckdb", name)
        assert rows(by_wasm(url)) == expected, ("parquet-wasm", name)


SPARK = """
import json, sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
for source, target in json.loads(sys.argv[2]).items():
    pq.write_table(session.read.parquet(source).toArrow(), target)
session.stop()
"""


@pytest.mark.prove
def test_spark_reads_the_same_from_a_bucket(data: dict[str, Path], s3_server: Emulator, tmp_path: Path) -> None:
    """In a process of its own: the jars of S3 must be there when Spark starts."""
    uploaded(s3_server, data)
    options = {name: str(value).lower() for name, value in s3_server.options.items()}
    place = place_of(s3_server.bucket_url, options, PREFIX)
    conf = {f"spark.hadoop.{name}": value for name, value in place.conf.items()}
    conf |= {"spark.jars": ",".join(s3_jars()), "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    wanted = {place.pattern(f"{name}.parquet"): str(tmp_path / name) for name in data}
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", SPARK, json.dumps(conf), json.dumps(wanted)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2_000:]
    for name, path in data.items():
        assert rows(pq.read_table(tmp_path / name)) == rows(pq.read_table(path)), name

"""Assets with `format="iceberg"` on local disk, served by the real process and read by PyIceberg over HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError

from tests.cli.conftest import Cli, Ran
from tests.cli.server import serving

SECONDS = 60

PIPELINE = """from arco import asset, daily, row_count

__namespace__ = "shop"


@asset(partitions=daily("2026-01-01", end="2026-01-04"), format="iceberg", checks=[row_count(max=LIMIT)], gating=GATING)
def orders(context):
    day = int(context.partition_key[-2:])
    return [{"day": day, "amount": 1.5 * number ROW} for number in range(day)]


@asset(format="iceberg")
def totals(orders):
    return [{"rows": sum(map(len, orders.values()))}]
"""


def pipeline(row: str = "", limit: int = 100) -> str:
    return (
        PIPELINE.replace("ROW", row)
        .replace("LIMIT", str(limit))
        .replace("GATING", "'strict'" if limit < 100 else "None")
    )


class Dev:
    """`arco dev` in the current folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = folder / "told.txt"
        command = f"exec {sys.executable} -m arco.cli dev --json --slots 1 --listen 127.0.0.1:0 > told.txt 2>&1"
        self.process = subprocess.Popen(["sh", "-c", command], cwd=folder)
        self.url = ""

    def lines(self) -> list[dict[str, Any]]:
        text = self.told.read_text() if self.told.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[0] + line[-1] == "{\n"]

    def wait(self, for_it: Callable[[], Any]) -> Any:
        end = time.monotonic() + SECONDS
        while not (found := for_it()):
            assert self.process.poll() is None, self.told.read_text()
            assert time.monotonic() < end, self.told.read_text()
            time.sleep(0.05)
        return found

    def deploy(self, text: str) -> None:
        before = self.deployments()
        (self.folder / "pipeline.py").write_text(text)
        self.wait(lambda: self.deployments() > before)

    def deployments(self) -> int:
        return sum("deployment_id" in line for line in self.lines())


@pytest.fixture
def dev(home: Path) -> Iterator[Dev]:
    (home / "pipeline.py").write_text(pipeline())
    started = Dev(home)
    try:
        started.wait(started.deployments)
        started.url = next(line["url"] for line in started.lines() if "url" in line)
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def catalog_of(url: str) -> RestCatalog:
    return RestCatalog("arco", uri=f"{url}/iceberg", warehouse="default")


def rows(catalog: RestCatalog, name: str, **options: Any) -> list[dict[str, Any]]:
    return sorted(catalog.load_table(name).scan(**options).to_arrow().to_pylist(), key=repr)


def good(ran: Ran) -> Ran:
    assert ran.code == 0, ran.err + ran.out
    return ran


def test_what_runs_publish_is_read_by_pyiceberg(dev: Dev, cli: Cli) -> None:
    catalog = catalog_of(dev.url)
    good(cli("run", "shop.orders", "--partition", "date=2026-01-01..2026-01-02", "--watch", "--url", dev.url))
    dev.wait(lambda: catalog.table_exists("shop.orders") and len(rows(catalog, "shop.orders")) == 3)
    good(cli("run", "+shop.totals", "--partition", "date=2026-01-03", "--watch", "--url", dev.url))
    dev.wait(lambda: catalog.table_exists("shop.totals") and rows(catalog, "shop.totals"))
    dev.wait(lambda: len(rows(catalog, "shop.orders")) == 6)
    assert [row["day"] for row in rows(catalog, "shop.orders")] == [1, 2, 2, 3, 3, 3]
    assert len(rows(catalog, "shop.orders", row_filter="day = 2")) == 2
    assert rows(catalog, "shop.totals") == [{"rows": 6}]
    assert ("shop", "orders") in catalog.list_tables("shop")

    table = catalog.load_table("shop.orders")
    with pytest.raises(ForbiddenError, match="only Arco writes"):
        table.append(table.scan().to_arrow())
    with pytest.raises(ForbiddenError, match="only Arco writes"):
        catalog.drop_table("shop.orders")
    refused = cli("table", "drop", "shop.orders", "--yes", "--url", dev.url)
    assert refused.code != 0
    assert "is the table of the asset" in refused.err

    dev.deploy(pipeline(', "city": "Rome"'))
    good(cli("run", "shop.orders", "--partition", "date=2026-01-01", "--force", "--watch", "--url", dev.url))
    dev.wait(lambda: "city" in catalog.load_table("shop.orders").schema().column_names)
    assert [row["city"] for row in rows(catalog, "shop.orders")] == ["Rome", None, None, None, None, None]

    dev.deploy(pipeline(', "city": "Oslo"', limit=1))
    cli("run", "shop.orders", "--partition", "date=2026-01-02", "--force", "--watch", "--url", dev.url)
    held = json.loads(good(cli("quarantine", "list", "--json", "--url", dev.url)).out)["versions"][0]
    branch = f"audit_{held['materialization_id']}"
    dev.wait(lambda: branch in catalog.load_table("shop.orders").refs())
    scan = catalog.load_table("shop.orders").scan().use_ref(branch)
    assert [row["city"] for row in scan.to_arrow().to_pylist()].count("Oslo") == 2
    assert "Oslo" not in [row["city"] for row in rows(catalog, "shop.orders")]
    release = ["quarantine", "release", "shop.orders", "-p", "date=2026-01-02", "--reason", "fine"]
    good(cli(*release, "--url", dev.url))
    dev.wait(lambda: set(catalog.load_table("shop.orders").refs()) == {"main"})
    assert [row["city"] for row in rows(catalog, "shop.orders")].count("Oslo") == 2


def test_a_run_without_a_server_leaves_the_table(home: Path, cli: Cli) -> None:
    (home / "pipeline.py").write_text(pipeline())
    for command in (["init"], ["deploy", "."], ["run", "shop.orders", "--partition", "date=*"]):
        good(cli(*command))
    shown = good(cli("assets", "show", "shop.orders"))
    assert "iceberg: a table of its name" in shown.out
    counted = good(cli("query", "SELECT count(*) AS n FROM shop.orders", "--json"))
    assert "6" in counted.out
    with serving(home / ".arco") as served:
        assert len(rows(catalog_of(served.url), "shop.orders")) == 6


ON_SPARK = """from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arco import asset, daily

__namespace__ = "shop"


@asset(partitions=daily("2026-01-01", end="2026-01-03"), format="iceberg", engine="spark")
def visits(context) -> DataFrame:
    day = context.partition["date"]
    return context.spark.range(3).select(
        F.lit(day).cast("date").alias("date"),
        F.col("id").cast("decimal(10,2)").alias("cost"),
        F.lit("2026-01-01 10:00:00").cast("timestamp").alias("at"),
        F.struct(F.col("id").alias("x"), F.array(F.lit("a")).alias("tags")).alias("place"),
    )
"""


def test_what_spark_wrote_is_read_by_pyiceberg(home: Path, alone: Cli) -> None:
    (home / "pipeline.py").write_text(ON_SPARK)
    for command in (["init"], ["deploy", "."], ["run", "shop.visits", "--partition", "date=*"]):
        good(alone(*command))
    with serving(home / ".arco") as served:
        table = catalog_of(served.url).load_table("shop.visits")
        found = table.scan(row_filter="date = '2026-01-02' and cost >= 1").to_arrow()
        assert [str(field.field_type) for field in table.schema().fields][:3] == [
            "date",
            "decimal(10, 2)",
            "timestamptz",
        ]
        assert sorted(row["place"]["x"] for row in found.to_pylist()) == [1, 2]
        assert {row["at"].isoformat() for row in found.to_pylist()} == {"2026-01-01T10:00:00+00:00"}
        assert table.scan().to_arrow().num_rows == 6

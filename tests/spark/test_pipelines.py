"""Pipelines through real processes, on a standalone cluster and on Spark Connect: a small one, and the example."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.clusters import connect_server, standalone
from tests.spark.pipelines import Site, carry_out_example, check_lineage, check_results, plans

pytestmark = pytest.mark.prove

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.pyspark.python": sys.executable,
}


@contextmanager
def pipeline(folder: Path, master: str, conf: dict[str, str]) -> Iterator[Site]:
    """A workspace on local disk with a server and a worker, and the pipeline deployed."""
    site = Site(folder / "project", {"ARCO_STORE": f"file://{folder / 'store'}"})
    site.arco("init")
    options = [part for pair in conf.items() for part in ("--spark-conf", "=".join(pair))]
    with site.serving():
        site.arco("deploy")
        with site.running(site.environ, "worker", "--slots", "1", "--master", master, *options):
            yield site


def test_batches_on_a_standalone_cluster(tmp_path: Path) -> None:
    with standalone(tmp_path / "cluster") as master, pipeline(tmp_path, master, CONF) as site:
        site.backfill("*")
        check_results(site)
        check_lineage(site)
        assert plans(site, "kinds") == plans(site, "totals") == {"together"}
        assert all("reads no partitioned input" in plan for plan in plans(site, "raw"))
        executors = list((tmp_path / "cluster").glob("worker*/app-*/*"))
        assert len({path.parents[1] for path in executors}) == 2, "one on each worker"


@pytest.mark.minutes
def test_the_example_on_spark_connect(tmp_path: Path) -> None:
    site = Site(tmp_path / "project", {"ARCO_STORE": f"file://{tmp_path / 'store'}"}, source="")
    site.arco("init", "--example")
    conf = ("--spark-conf", "spark.sql.shuffle.partitions=2")
    with connect_server(tmp_path / "server", {"spark.ui.enabled": "false"}) as master, site.serving():
        site.arco("deploy")
        with site.running(site.environ, "worker", "--slots", "1", "--master", master, *conf):
            carry_out_example(site)


def test_batches_on_spark_connect(tmp_path: Path) -> None:
    """It does not show its plans, so that nothing is proven: one partition after the other. Lineage is there anyway."""
    with (
        connect_server(tmp_path / "server", {"spark.ui.enabled": "false"}) as master,
        pipeline(tmp_path, master, {"spark.sql.shuffle.partitions": "2"}) as site,
    ):
        site.backfill("*")
        check_results(site)
        check_lineage(site)
        for asset in ("kinds", "totals"):
            assert all("Spark Connect does not show its plans" in plan for plan in plans(site, asset))

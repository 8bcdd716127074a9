"""A version that is good, then one that is not, by each kind of bad input: the failure says what it is and what to do,
and the good version stays the one that is read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from arco.cli._app import app
from arco.storage import Scope
from tests.spark.pipelines import Site

SOURCE = """
import os
from pathlib import Path

from pyspark.sql import DataFrame, functions as F

from arco import asset, not_null

__namespace__ = "n"
BAD = Path("{bad}")


def good(context, name):
    frame = context.spark.range(0, 5, 1, 1).withColumn("v", F.lit("x"))
    return frame, (BAD / name).exists()


@asset(engine="spark")
def nothing(context):
    frame, is_bad = good(context, "nothing")
    return None if is_bad else frame


@asset(engine="spark", schema={{"id": "long", "v": "string"}})
def columns(context):
    frame, is_bad = good(context, "columns")
    return frame.withColumn("v", F.lit(1)) if is_bad else frame


@asset(engine="spark")
def doubles(context):
    frame, is_bad = good(context, "doubles")
    return frame.withColumnRenamed("v", "ID") if is_bad else frame


@asset(engine="spark")
def stream(context):
    frame, is_bad = good(context, "stream")
    return context.spark.readStream.format("rate").load() if is_bad else frame


@asset(engine="spark")
def wide(context):
    frame, is_bad = good(context, "wide")
    return frame.select("*", *[F.lit(1).alias(f"c{{i}}") for i in range(5000)]) if is_bad else frame


@asset(engine="spark")
def intrudes(context):
    frame, is_bad = good(context, "intrudes")
    if is_bad:
        for partition in (BAD.parent / "store").glob("*/*/data/*/*"):
            frame.write.parquet(str(partition / context.materialization_ids["n.intrudes"]))
    return frame


@asset(engine="spark")
def killed(context):
    frame, is_bad = good(context, "killed")
    end = F.udf(lambda id: os.kill(os.getpid(), 9), "string")
    return frame.withColumn("v", end("id")) if is_bad else frame


@asset(engine="spark", checks=[not_null("v")])
def checked(context):
    frame, is_bad = good(context, "checked")
    return frame.withColumnRenamed("v", "w") if is_bad else frame


@asset(engine="spark")
def source(context):
    return good(context, "source")[0]


@asset
def reads(source: DataFrame) -> DataFrame:
    return source


@asset
def counts(source):
    return [{{"id": row["id"], "v": row["v"]}} for row in source.to_pylist()]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server and a worker, and a good version of everything."""
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    folder = tmp_path_factory.mktemp("site")
    (folder / "bad").mkdir()
    source = SOURCE.format(bad=folder / "bad")
    site = Site(folder / "project", {"ARCO_STORE": f"file://{folder / 'store'}"}, source=source)
    site.arco("init")
    conf = ("spark.ui.enabled=false", "spark.driver.memory=1g", "spark.sql.shuffle.partitions=2")
    options = [part for pair in conf for part in ("--spark-conf", pair)]
    with site.serving():
        site.arco("deploy")
        with site.running(site.environ, "worker", "--slots", "1", "--master", "local[2]", *options):
            arco(site, "run", "*", "--watch")
            yield site


def arco(site: Site, *args: str, exits: int = 0) -> Any:
    """The document that a command prints, which runs in this process."""
    done = CliRunner().invoke(app, [*args, "--json"], env=dict(site.environ))
    assert done.exit_code == exits, f"arco {' '.join(args)} ended with {done.exit_code}: {done.output[-3000:]}"
    return json.loads(done.stdout)


def now_bad(site: Site, name: str, *, exits: int) -> Any:
    """The task of a run in which the asset gets bad input."""
    (site.folder.parent / "bad" / name).touch()
    ran = arco(site, "run", f"n.{name}", "--force", "--watch", exits=exits)
    return arco(site, "runs", "show", ran["run_id"], f"n.{name}")


def read(site: Site, name: str) -> list[list[Any]]:
    """What readers of an asset get, with the id of the version that is current."""
    current = f"SELECT current_materialization_id FROM system.partitions WHERE asset_key = 'n.{name}'"
    found: list[list[Any]] = arco(site, "query", f"SELECT id, v, ({current}) FROM n.{name} ORDER BY id")["rows"]
    return found


@pytest.mark.parametrize(
    ("name", "category", "says", "advice"),
    [
        ("nothing", "transform_error", "returned None", "return its data"),
        ("columns", "schema_violation", "v is declared as string", "columns it declares"),
        ("doubles", "configuration_error", "id, ID", "what the error asks for"),
        ("stream", "configuration_error", "returned a stream", "what the error asks for"),
        ("wide", "configuration_error", "5,002 columns", "what the error asks for"),
        ("intrudes", "configuration_error", "has files already", "Check the project"),
        ("killed", "resource_exhausted", "was killed or crashed", "more memory"),
        ("reads", "storage_error", "of n.source", "Make what it reads anew"),
        ("counts", "storage_error", "is damaged", "Make what it reads anew"),
    ],
)
def test_after_bad_input_the_last_good_version_is_still_the_one_that_is_read(
    site: Site, name: str, category: str, says: str, advice: str
) -> None:
    before = read(site, name)
    if name in ("reads", "counts"):
        spoil(site)
    task = now_bad(site, name, exits=8)
    assert (task["state"], task["error_category"]) == ("FAILED", category)
    assert says in task["error"]
    assert any(advice in hint["action"] for hint in task["hints"]), task["hints"]
    after = read(site, name)
    assert [row[:2] for row in after] == [[number, "x"] for number in range(5)]
    assert after == before
    if name in ("reads", "counts"):  # what it is told to do helps
        (hint,) = task["hints"]
        arco(site, *hint["command"].split()[1:], "--watch")
        assert [row[:2] for row in read(site, name)] == [row[:2] for row in before]
        assert read(site, name) != before


def test_a_check_of_a_column_that_is_not_there_lets_nobody_read_what_it_could_not_check(site: Site) -> None:
    """The task did its work: it is the version that is held back, as by any check that gives no result."""
    before = read(site, "checked")
    task = now_bad(site, "checked", exits=0)
    assert (task["state"], task["gate"]) == ("SUCCEEDED", "block_downstream")
    (made,) = task["attempts"][0]["materialization_ids"]
    query = f"SELECT passed, message FROM system.check_results WHERE materialization_id = '{made}'"
    assert arco(site, "query", query)["rows"] == [[False, "no result: the column v is not there; there are id, w"]]
    after = read(site, "checked")
    assert [row[:2] for row in after] == [[number, "x"] for number in range(5)]
    assert after == before
    assert made not in {row[2] for row in after}


def spoil(site: Site) -> None:
    """Overwrite the files of what `reads` is made of."""
    rows = arco(site, "query", "SELECT asset_id FROM system.partitions WHERE asset_key = 'n.source'")["rows"]
    data = site.folder.parent / "store" / Scope("default", "default").root / "data" / rows[0][0]
    files = list(data.rglob("*.parquet"))
    assert files
    for path in files:
        path.write_bytes(bytes(path.stat().st_size))

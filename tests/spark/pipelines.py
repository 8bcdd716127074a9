"""A small pipeline through real processes: `arco serve`, `arco worker` with its drivers, and commands."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 300
DAYS = [f"2025-01-{day:02d}" for day in range(1, 7)]

PIPELINE = """
from pyspark.sql import DataFrame, functions as F

from arco import asset, daily, not_null, sql_asset

__namespace__ = "n"
DAYS = daily("2025-01-01", end="2025-01-07")


@asset(partitions=DAYS, engine="spark")
def raw(context):
    day = context.partition["date"]
    return context.spark.range(0, 10 * day.day, 1, 1).select("id", (F.col("id") % 3).alias("kind"))


@asset(partitions=DAYS, checks=[not_null("kind")])
def kinds(raw: DataFrame) -> DataFrame:
    return raw.groupBy("date", "kind").agg(F.count("*").alias("n"))


@sql_asset(partitions=DAYS)
def totals(kinds):
    return f"SELECT date, sum(n) AS rows FROM {kinds} GROUP BY date"
"""


@dataclass
class Site:
    """Where commands run: a project's folder, and what the environment says of the workspace."""

    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    source: str = PIPELINE

    def __post_init__(self) -> None:
        self.folder.mkdir()
        if self.source:
            (self.folder / "pipeline.py").write_text(self.source)

    def arco(self, *args: str, exits: int = 0) -> Any:
        """The document that a command prints; it must exit with this."""
        command = [sys.executable, "-m", "arco.cli", *args, "--json"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=_environ(self.environ),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        said = f"{done.stdout[-3000:]} {done.stderr[-3000:]}"
        assert done.returncode == exits, f"arco {' '.join(args)} ended with {done.returncode}: {said}"
        return json.loads(done.stdout) if done.stdout else None

    def rows(self, sql: str) -> list[list[Any]]:
        found: list[list[Any]] = self.arco("query", sql)["rows"]
        return found

    def backfill(self, *args: str, exits: int = 0) -> Any:
        return self.arco("backfill", *args, "--from", DAYS[0], "--to", DAYS[-1], "--watch", exits=exits)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        with self.running(self.environ, "serve", "--listen", "127.0.0.1:0"):
            yield

    @contextlib.contextmanager
    def running(self, environ: Mapping[str, str], *args: str) -> Iterator[None]:
        """A command that goes on until the block ends, once it says that it is ready."""
        with (self.folder / f"{args[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "arco.cli", *args, "--json"],
                cwd=self.folder,
                env=_environ(environ),
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 60)[0], f"arco {args[0]} does not come up"
            assert process.stdout.readline(), (self.folder / f"{args[0]}.log").read_text()
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            finally:
                process.kill()
                process.wait()


def _environ(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    return {**kept, **local, **more}


def check_results(site: Site) -> None:
    """What the pipeline must have made, as the state tells it."""
    made = site.rows(
        "SELECT asset_key, partition_key, sum(row_count) FROM system.materializations WHERE status = 'published' "
        "GROUP BY ALL ORDER BY ALL"
    )
    wanted = [
        [f"n.{asset}", f"date=d:{day}", {"raw": 10 * number, "kinds": 3, "totals": 1}[asset]]
        for asset in ("kinds", "raw", "totals")
        for number, day in enumerate(DAYS, 1)
    ]
    assert made == wanted


def plans(site: Site, asset: str) -> set[str]:
    """How the versions of an asset were made."""
    found = site.rows(f"SELECT DISTINCT plan FROM system.materializations WHERE asset_key = 'n.{asset}'")
    return {row[0] for row in found}


def check_lineage(site: Site) -> None:
    """Which columns are made of which."""
    found = site.rows(
        "SELECT m.target_column.name, list_sort([c.name for c in m.source_columns]) FROM "
        "(SELECT unnest(column_lineage.mappings) AS m FROM system.lineage_edges)"
    )
    assert {("kind", ("kind",)), ("rows", ("n",))} <= {(row[0], tuple(row[1])) for row in found}


def carry_out_example(site: Site) -> None:
    """What `make demo` carries out, for the week that has the day of the sale."""
    week = ("--from", "2026-08-10", "--to", "2026-08-16", "--watch")
    site.arco("backfill", "*", *week, exits=8)
    (held,) = site.arco("quarantine", "list")["versions"]
    assert (held["asset_key"], held["partition_key"]) == ("shop.events", "date=d:2026-08-15")
    site.arco("quarantine", "release", "shop.events", "-p", "date=2026-08-15", "--reason", "a sale", "--yes")
    assert site.arco("backfill", "*", *week)["succeeded_count"] == 4
    assert site.arco("backfill", "*", *week)["task_count"] == 0
    report = site.rows("SELECT category FROM shop.weekly_report ORDER BY ALL")
    assert report == [[name] for name in ("bikes", "clothes", "helmets", "parts", "tools")]
    covered = site.arco("lineage", "coverage")["assets"]
    assert len(covered) == 5
    assert all(one["exact"] + one["approximate"] == one["columns"] > 3 for one in covered)

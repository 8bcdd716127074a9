"""A backfill on Spark that is killed half-way: three assets of many daily partitions, some of them bad.

    raw      asks for its partition, so that each has a plan of its own
    clean    one plan over many partitions, which Spark's plan proves not to mix
    totals   the same in SQL

A bad partition holds a row that makes its job raise. When half of it is done, the server, the worker, its drivers and
their Java processes are killed at once, and started again. In the end exactly the bad partitions have failed, and what
is made of them was skipped; whatever was finished before was not run again; and the files on disk hold every row once.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from arco.client import Client
from arco.core import ArcoError
from arco.wire import QueryRequest
from tests.prove.dev import Dev
from tests.prove.report import Report

__all__ = ["prove_backfill"]

FIRST = date(2020, 1, 1)
ROWS = 5
ASSETS = ("raw", "clean", "totals")
TENANT, WORKSPACE = "acme", "prod"

PIPELINE = """
from pyspark.sql import DataFrame, functions as F

from arco import asset, daily, sql_asset

__namespace__ = "n"
DAYS = daily("2020-01-01", end="{end}")
BAD = {bad!r}


@asset(partitions=DAYS, engine="spark")
def raw(context):
    day = str(context.partition["date"])
    flaw = BAD.get(day, "")
    amount = F.when(F.lit(flaw == "raw") & (F.col("id") == 3), F.raise_error(F.lit("a bad row"))).otherwise(F.col("id"))
    rows = context.spark.range(0, {rows}, 1, 1)
    return rows.select(F.concat(F.lit(day + "/"), "id").alias("key"), F.lit(flaw).alias("flaw"), amount.alias("amount"))


@asset(partitions=DAYS)
def clean(raw: DataFrame) -> DataFrame:
    bad = (F.col("flaw") == "clean") & (F.col("amount") == 3)
    return raw.withColumn("amount", F.when(bad, F.raise_error(F.lit("a bad row"))).otherwise(F.col("amount")))


@sql_asset(partitions=DAYS)
def totals(clean):
    amount = "IF(flaw = 'totals' AND amount = 3, raise_error('a bad row'), amount)"
    return f"SELECT date, count(*) AS n, sum({{amount}}) AS amount FROM {{clean}} GROUP BY date"
"""

SPARK = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True)
class Facts:
    """What the state says of a run at one moment."""

    tasks: Mapping[str, dict[str, Any]]
    """By key."""
    attempts: Mapping[str, list[dict[str, Any]]]
    """By key of their task, in their order."""
    versions: list[dict[str, Any]]


class Proof:
    """One backfill of so many days, and what is expected of it."""

    def __init__(self, folder: Path, days: int, report: Report) -> None:
        self.report = report
        self.days = [str(FIRST + timedelta(day)) for day in range(days)]
        self.bad = bad_days(self.days)
        self.project = folder / "project"
        self.root = folder / "store" / TENANT / WORKSPACE
        self.environ = {
            "ARCO_STORE": f"file://{folder / 'store'}",
            "ARCO_TENANT_ID": TENANT,
            "ARCO_WORKSPACE_ID": WORKSPACE,
        }
        self.project.mkdir()
        end = str(FIRST + timedelta(days))
        (self.project / "pipeline.py").write_text(PIPELINE.format(end=end, bad=self.bad, rows=ROWS))
        options = [part for pair in SPARK.items() for part in ("--spark-conf", "=".join(pair))]
        self.dev = Dev(self.project, self.environ, "--slots", "2", "--master", "local[2]", *options)

    def arco(self, *args: str) -> tuple[int, Any]:
        """A command, and the document it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "arco.cli", *args, "--json"],
            cwd=self.project,
            env={**os.environ, **self.environ},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if not done.stdout:
            raise RuntimeError(f"arco {' '.join(args)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.returncode, json.loads(done.stdout)

    def backfill(self, selection: str, *more: str) -> tuple[int, Any]:
        return self.arco("backfill", selection, "--from", self.days[0], "--to", self.days[-1], *more)

    def deployed(self) -> None:
        ends = time.monotonic() + 60
        while self.arco("deployments", "list")[1].get("deployments") == [] and time.monotonic() < ends:
            time.sleep(0.5)

    # What became of it

    def expected(self, task_key: str) -> str:
        """The state in which a task must end."""
        asset, day = named(task_key)
        flaw = self.bad.get(day)
        if flaw is None or ASSETS.index(asset) < ASSETS.index(flaw):
            return "SUCCEEDED"
        return "FAILED" if asset == flaw else "SKIPPED"

    def facts(self, run_id: str) -> Facts:
        with Client(self.dev.url, timeout=60) as client:

            def ask(sql: str) -> list[dict[str, Any]]:
                found = client.run_query(QueryRequest(sql=sql, max_rows=10_000))
                assert not found.truncated, sql
                names = [column.name for column in found.columns]
                return [dict(zip(names, row, strict=True)) for row in found.rows]

            tasks = ask(f"SELECT task_key, state, attempt, error FROM system.tasks WHERE run_id = '{run_id}'")
            attempts: dict[str, list[dict[str, Any]]] = {}
            for row in ask(
                "SELECT task_key, attempt_key, state, error, batch_tasks, claimed_at, ended_at FROM system.attempts "
                f"WHERE run_id = '{run_id}' ORDER BY task_key, attempt_key"
            ):
                attempts.setdefault(row["task_key"], []).append(row)
            versions = ask(
                "SELECT asset_key, partition_key, materialization_id, status, row_count, plan, "
                "[f.path for f in files] AS paths, [f.row_count for f in files] AS counts, "
                "[f.size_bytes for f in files] AS sizes FROM system.materializations"
            )
        return Facts({row["task_key"]: row for row in tasks}, attempts, versions)

    def check_outcomes(self, state: str, facts: Facts) -> None:
        report = self.report
        report.check("the run has failed, as some of it did", state == "FAILED", state)
        report.check(
            "no task is missing", len(facts.tasks) == len(ASSETS) * len(self.days), f"{len(facts.tasks)} tasks"
        )
        wrong = [f"{key} is {row['state']}" for key, row in facts.tasks.items() if row["state"] != self.expected(key)]
        report.none("exactly the bad partitions failed, and what is made of them was skipped", wrong)
        failed = [row for row in facts.tasks.values() if row["state"] == "FAILED"]
        report.none(
            "each failed by its bad row", [str(r["error"]) for r in failed if "a bad row" not in str(r["error"])]
        )
        wrong = []
        for key, row in facts.tasks.items():
            states = [attempt["state"] for attempt in facts.attempts.get(key, [])]
            wanted = [] if row["state"] == "SKIPPED" else [row["state"]]
            if states[-1:] != wanted or sum(state != "REAPED" for state in states) != len(wanted):
                wrong.append(f"{key}: {states}")
        report.none("each task ended once, and began again only if it was lost before", wrong)

    def check_finished(self, before: Facts, after: Facts) -> None:
        """Whatever was finished before the kill is as it was."""
        finished = [key for key, row in before.tasks.items() if row["state"] in ("SUCCEEDED", "FAILED")]
        again = [key for key in finished if before.attempts.get(key) != after.attempts.get(key)]
        self.report.none(f"none of {len(finished)} finished partitions ran again", again)
        after_ids = {row["materialization_id"]: row for row in after.versions}
        lost = [row["materialization_id"] for row in before.versions if after_ids.get(row["materialization_id"]) != row]
        self.report.none(f"none of {len(before.versions)} finished versions is gone or changed", lost)
        lost_then = [key for key, rows in after.attempts.items() if any(row["state"] == "REAPED" for row in rows)]
        self.report.check("what was running was lost, and ran again", bool(lost_then), f"{len(lost_then)} partitions")

    def check_versions(self, facts: Facts) -> None:
        report = self.report
        made = Counter((row["asset_key"], row["partition_key"]) for row in facts.versions)
        report.none("no partition has two versions", [str(key) for key, count in made.items() if count > 1])
        wanted = {key for key in facts.tasks if self.expected(key) == "SUCCEEDED"}
        got = {f"{row['asset_key']}[{row['partition_key']}]" for row in facts.versions}
        report.check("every good partition has a version, and no other", len(got) == len(wanted) == len(facts.versions))
        plans = {asset: Counter(self._plans(facts, asset)) for asset in ASSETS}
        report.check("clean and totals were made by one plan over many", all(_mostly(plans[a]) for a in ASSETS[1:]))
        report.check("raw was made side by side", not plans["raw"]["together"])
        batches = [row["batch_tasks"] or 1 for rows in facts.attempts.values() for row in rows]
        report.say(f"up to {max(batches)} partitions in a batch; plans: { {a: dict(p) for a, p in plans.items()} }")

    @staticmethod
    def _plans(facts: Facts, asset: str) -> Iterable[str]:
        plans = (row["plan"] or "" for row in facts.versions if row["asset_key"] == f"n.{asset}")
        return (plan if plan in ("", "together") else "apart" for plan in plans)

    def check_disk(self, facts: Facts) -> None:
        """The files themselves, whatever the state says of them."""
        report = self.report
        named_files = Counter(path for row in facts.versions for path in row["paths"])
        report.none("no file belongs to two versions", [path for path, count in named_files.items() if count > 1])
        with ThreadPoolExecutor(4) as pool:
            rows = dict(zip(named_files, pool.map(self._rows, named_files), strict=True))
        wrong, strangers = [], 0
        for row in facts.versions:
            counts = [len(rows[path]) for path in row["paths"]]
            sizes = [(self.root / path).stat().st_size for path in row["paths"]]
            if counts != row["counts"] or sizes != row["sizes"] or sum(counts) != row["row_count"]:
                wrong.append(row["paths"][0])
            folder = (self.root / row["paths"][0]).parent
            found = {str(path.relative_to(self.root)) for path in folder.rglob("*.parquet")}
            wrong += sorted(found - set(row["paths"]))
        report.none("every version has just the files that it names, as it names them", wrong)
        for asset in ASSETS:
            mine = [row for row in facts.versions if row["asset_key"] == f"n.{asset}"]
            held = [row for version in mine for path in version["paths"] for row in rows[path]]
            report.check(
                f"every row of {asset} is there once", sorted(held) == self._rows_of(asset), f"{len(held)} rows"
            )
        present = {str(path.relative_to(self.root)) for path in (self.root / "data").rglob("*.parquet")}
        strangers = len(present - set(named_files))
        report.say(f"{len(present)} files on disk, {strangers} of them of attempts that were killed")

    def _rows(self, path: str) -> list[str]:
        table = pq.ParquetFile(self.root / path).read()
        if "key" in table.column_names:
            return [f"{row['key']} {row['amount']}" for row in table.to_pylist()]
        return [f"{row['date']} {row['n']} {row['amount']}" for row in table.to_pylist()]

    def _rows_of(self, asset: str) -> list[str]:
        good = [day for day in self.days if self.expected(f"n.{asset}[date={day}]") == "SUCCEEDED"]
        if asset == "totals":
            return sorted(f"{day} {ROWS} {sum(range(ROWS))}" for day in good)
        return sorted(f"{day}/{number} {number}" for day in good for number in range(ROWS))

    def check_again(self, facts: Facts) -> None:
        """The same backfill again would do what is left, and nothing else."""
        code, plan = self.backfill("*", "--dry-run")
        wanted = [key for key in facts.tasks if self.expected(key) != "SUCCEEDED"]
        self.report.check(
            "the same backfill would run only what failed", code == 0 and plan["task_count"] == len(wanted)
        )

    def check_store(self) -> None:
        code, told = self.arco("doctor")
        self.report.check("arco doctor finds nothing", code == 0 and told["healthy"] and not told["warnings"])
        code, told = self.arco("rebuild", "--verify")
        self.report.check("arco rebuild --verify finds nothing", code == 0 and told["equal"])


def prove_backfill(folder: Path, days: int, report: Report) -> None:
    """Backfill so many days of three assets, and kill everything when half of it is done."""
    proof = Proof(folder, days, report)
    dev = proof.dev
    dev.start()
    try:
        proof.deployed()
        begun = time.monotonic()
        _, answer = proof.backfill("*", "--no-watch")
        run_id = answer["run_id"]
        report.say(f"{answer['task_count']} tasks planned and triggered in {time.monotonic() - begun:.1f} s")
        _until(dev, run_id, len(ASSETS) * days // 2)
        before = proof.facts(run_id)
        killed = dev.kill_all()
        report.say(f"killed after {time.monotonic() - begun:.1f} s: {killed}")
        kinds = ("server", "worker", "driver", "java")
        report.check("processes of every kind were killed", all(killed[kind] for kind in kinds))
        dev.start()
        state = _until(dev, run_id)
        report.say(f"{state} after {time.monotonic() - begun:.1f} s")
        after = proof.facts(run_id)
        proof.check_outcomes(state, after)
        proof.check_finished(before, after)
        proof.check_versions(after)
        proof.check_disk(after)
        proof.check_again(after)
    finally:
        dev.stop()
    proof.check_store()


def bad_days(days: list[str]) -> dict[str, str]:
    """One partition in a hundred of each asset, at least one; which asset fails, by day."""
    count = max(1, len(days) // 100)
    step = len(days) // (count * len(ASSETS))
    return {days[place * step + step // 2]: ASSETS[place % len(ASSETS)] for place in range(count * len(ASSETS))}


def named(task_key: str) -> tuple[str, str]:
    """Asset and day of `n.raw[date=2020-01-01]`."""
    asset, _, partition = task_key.removeprefix("n.").partition("[")
    return asset, partition.rstrip("]").partition("=")[2].removeprefix("d:")


def _mostly(plans: Mapping[str, int]) -> bool:
    """Halves of a plan that broke end with single partitions."""
    return plans.get("together", 0) > sum(plans.values()) // 2 and not plans.get("apart")


def _until(dev: Dev, run_id: str, ended: int | None = None) -> str:
    """Wait until so many tasks have succeeded, or until the run is over; its state."""
    ends = time.monotonic() + 900
    while time.monotonic() < ends:
        try:
            with Client(dev.url, timeout=5) as client:
                run = client.get_run(run_id)
        except ArcoError:
            time.sleep(0.2)
            continue
        if run.state not in ("RUNNING", "PENDING"):
            return run.state
        if ended is not None and run.succeeded_count >= ended and run.running_count:
            return run.state
        time.sleep(0.2)
    raise RuntimeError("the run takes too long")

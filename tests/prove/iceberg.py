"""Many writers, Spark and PyIceberg, on one table and on eight, while the catalog's server is killed again and again.

In the end every commit is there once: as many rows as commits, one unbroken line of snapshots, and nothing that a
writer was told is contradicted by the table.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from tests.prove.iceberg_writer import COMMIT, JOB, NAMESPACE, PROGRESS
from tests.prove.report import Report
from tests.rck.servers import Server, chosen_server, running

__all__ = ["prove_iceberg_writers"]

WRITERS: Final = 8
SPARKS: Final = 2
"""Of them: each is a JVM of its own."""
SCHEMA: Final = Schema(NestedField(1, "writer", StringType()), NestedField(2, "number", LongType()))
PATIENCE: Final = {
    "commit.retry.num-retries": "50",
    "commit.retry.min-wait-ms": "20",
    "commit.retry.max-wait-ms": "1000",
}
SECONDS: Final = 7_200
MOST_COMMITS: Final = 25
"""Between two kills, at the least, are one to so many commits: on a slow machine the server would only ever start."""


def prove_iceberg_writers(folder: Path, commits: int, tables: int, report: Report, *, seed: int | None = None) -> None:
    """Each writer makes so many commits, to so many tables in turn."""
    names = [f"t{number}" for number in range(tables)]
    with running(chosen_server(folder / "server")) as server:
        properties = {"uri": server.uri, **({"warehouse": server.warehouse} if server.warehouse else {})}
        catalog = load_catalog("crowd", type="rest", **properties)
        catalog.create_namespace(NAMESPACE)
        for name in names:
            catalog.create_table((NAMESPACE, name), SCHEMA, properties=PATIENCE)
        (folder / JOB).write_text(json.dumps({"properties": properties, "tables": names, "commits": commits}))
        began = time.monotonic()
        starts = _write(folder, server, random.Random(seed))
        slowest = f", and was there again after {max(starts):.1f} s at most" if starts else ""
        report.say(f"the server was killed {len(starts)} times in {time.monotonic() - began:,.0f} s{slowest}")
        logs = _logs(folder)
        _check_writers(logs, report)
        _check_tables(catalog, names, {f"{writer}-{n}" for writer in _writers() for n in range(commits)}, report)


def _writers() -> dict[str, str]:
    """Kind by name."""
    return {f"writer-{number}": "spark" if number < SPARKS else "pyiceberg" for number in range(WRITERS)}


def _write(folder: Path, server: Server, chance: random.Random) -> list[float]:
    """Until all writers are done. For each time the server was killed meanwhile, the seconds until it was back."""
    starts, end = list[float](), time.monotonic() + SECONDS
    with _running_writers(folder) as writers:

        def is_over() -> bool:
            return time.monotonic() > end or all(writer.poll() is not None for writer in writers.values())

        while not is_over():
            rest, enough = time.monotonic() + chance.uniform(2.0, 8.0), _done(folder) + chance.randint(1, MOST_COMMITS)
            while not is_over() and (time.monotonic() < rest or _done(folder) < enough):
                time.sleep(0.2)
            if not is_over():
                killed = time.monotonic()
                server.kill()
                server.start()
                starts.append(time.monotonic() - killed)
    return starts


def _done(folder: Path) -> int:
    """Commits that are through."""
    return sum(path.stat().st_size for path in folder.glob(f"*{PROGRESS}"))


@contextlib.contextmanager
def _running_writers(folder: Path) -> Iterator[Mapping[str, "subprocess.Popen[bytes]"]]:
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, kind in _writers().items():
            with (folder / f"{name}.out").open("wb") as log:
                started[name] = subprocess.Popen(
                    [sys.executable, "-m", "tests.prove.iceberg_writer", kind, name, str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        yield started
    finally:
        for process in started.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _logs(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for name in _writers():
        path = folder / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text())
        else:
            told = (folder / f"{name}.out").read_text(errors="replace")[-800:]
            found[name] = {"acknowledged": 0, "found": 0, "errors": {}, "wrong": [f"{name} did not end: {told}"]}
    return found


def _check_writers(logs: Mapping[str, Mapping[str, Any]], report: Report) -> None:
    errors: Counter[str] = Counter()
    for log in logs.values():
        errors.update(log["errors"])
    acknowledged, settled = (sum(log[key] for log in logs.values()) for key in ("acknowledged", "found"))
    report.say(f"{acknowledged} commits acknowledged, {settled} found after an error; errors {dict(errors)}")
    report.none(
        "every writer made all its commits, and was told the truth",
        [text for log in logs.values() for text in log["wrong"]],
    )


def _check_tables(catalog: Catalog, names: list[str], expected: set[str], report: Report) -> None:
    commits: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    broken: list[str] = []
    for name in names:
        table = catalog.load_table((NAMESPACE, name))
        for row in table.scan().to_arrow().to_pylist():
            rows[f"{row['writer']}-{row['number']}"] += 1
        by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        line, at = [], table.metadata.current_snapshot_id
        while at is not None and at in by_id:
            line.append(by_id.pop(at))
            at = line[-1].parent_snapshot_id
        if at is not None:
            broken.append(f"{name}: the parent {at} is missing")
        if by_id:
            broken.append(f"{name}: {len(by_id)} snapshots are not ancestors of the current one")
        numbers = [snapshot.sequence_number for snapshot in reversed(line)]
        if numbers != list(range(1, len(numbers) + 1)):
            broken.append(f"{name}: the sequence numbers are {numbers[:5]}...")
        commits.update(str(snapshot.summary[COMMIT]) for snapshot in line if snapshot.summary is not None)
    for what, found in (("commit", commits), ("row", rows)):
        wrong = [f"{key} is there {times} times" for key, times in found.items() if times != 1 or key not in expected]
        wrong += [f"{key} is missing" for key in sorted(expected - set(found))]
        report.none(f"every {what} is there once, {len(expected):,} of them", wrong)
    report.none("the line of snapshots is unbroken", broken)

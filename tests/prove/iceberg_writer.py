"""A writer of the proof with many writers: `python -m tests.prove.iceberg_writer pyiceberg|spark NAME FOLDER`.

It appends one row a commit, and makes each of its commits whatever happens to the server: after an error it reads the
table and looks for the snapshot, which carries the name of the commit, before it tries again. What it did goes to
`NAME.json` in the folder.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

__all__ = ["COMMIT", "JOB", "NAMESPACE", "PROGRESS", "committed"]

NAMESPACE: Final = "crowd"
COMMIT: Final = "commit-name"
"""The property of a snapshot that names the commit."""
JOB: Final = "job.json"
PROGRESS: Final = ".progress"
"""Ends the name of the file in which a writer puts a byte for each of its commits."""
ATTEMPTS: Final = 500
PAUSE: Final = 0.3

Append = Callable[[str, str, int], None]
"""Of a table, the name of a commit, and its number."""


@dataclass
class Log:
    """What happened to a writer."""

    acknowledged: int = 0
    found: int = 0
    """Commits that seemed to fail and were there."""
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def committed(catalog: Catalog, table: str) -> list[str]:
    """The names of the commits a table holds."""
    snapshots = catalog.load_table((NAMESPACE, table)).metadata.snapshots
    return [snapshot.summary[COMMIT] or "" for snapshot in snapshots if snapshot.summary is not None]


def main() -> None:
    kind, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    job = json.loads((folder / JOB).read_text())
    catalog = patiently(lambda: load_catalog("crowd", type="rest", **job["properties"]))
    append = open_spark_append(folder / name, job, name) if kind == "spark" else pyiceberg_append(catalog, name)
    log, tables = Log(), job["tables"]
    first = int(name.rpartition("-")[2])
    for number in range(job["commits"]):
        write(catalog, append, tables[(first + number) % len(tables)], f"{name}-{number}", number, log)
        with (folder / f"{name}{PROGRESS}").open("ab") as progress:
            progress.write(b".")
    answer = {"acknowledged": log.acknowledged, "found": log.found, "errors": log.errors, "wrong": log.wrong}
    partial = folder / f"{name}.partial"
    partial.write_text(json.dumps(answer))
    partial.rename(folder / f"{name}.json")


def write(catalog: Catalog, append: Append, table: str, commit: str, number: int, log: Log) -> None:
    for _ in range(ATTEMPTS):
        try:
            append(table, commit, number)
        except Exception as error:  # noqa: BLE001  whatever it is, the table tells whether the commit is there
            kind = kind_of(error)
        else:
            log.acknowledged += 1
            return
        log.errors[kind] += 1
        if commit in patiently(lambda: committed(catalog, table)):
            log.found += 1
            if kind == "CommitFailedException":
                log.wrong.append(f"{commit} was refused, and is there")
            return
    log.wrong.append(f"{commit} never got through")


def kind_of(error: Exception) -> str:
    """The class of an error, of Java's if it comes from there."""
    text = str(error)
    for name in ("CommitStateUnknownException", "CommitFailedException"):
        if name in text:
            return name
    return type(error).__name__


def patiently(ask: Callable[[], Any]) -> Any:
    """Until the server is there again."""
    for _ in range(ATTEMPTS):
        try:
            return ask()
        except Exception:  # noqa: BLE001  the next try tells
            time.sleep(PAUSE)
    return ask()


def pyiceberg_append(catalog: Catalog, writer: str) -> Append:
    def append(table: str, commit: str, number: int) -> None:
        row = pa.table({"writer": [writer], "number": pa.array([number], pa.int64())})
        catalog.load_table((NAMESPACE, table)).append(row, snapshot_properties={COMMIT: commit})

    return append


def open_spark_append(folder: Path, job: dict[str, Any], writer: str) -> Append:
    from tests.engines.spark_session import open_spark

    session = open_spark(folder, {"lake": job["properties"]}, cores=1)

    def append(table: str, commit: str, number: int) -> None:
        row = session.createDataFrame([(writer, number)], "writer string, number bigint").coalesce(1)
        row.writeTo(f"lake.{NAMESPACE}.{table}").option(f"snapshot-property.{COMMIT}", commit).append()

    return append


if __name__ == "__main__":
    main()

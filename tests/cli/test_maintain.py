"""Looking after data through the command line: small files, files of nobody, footers."""

import asyncio
import os
import re
import time
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.core import DAY, AssetId, PartitionKey, derive_ulid, new_ulid, parse_ulid, partition_id
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.runtime import AsyncRuntime, Workspace
from arco.state import new_event
from arco.storage import LocalStore, Role
from tests.cli.conftest import SCOPE, Cli
from tests.servo.small_files import parquet

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


async def _fill(root: Path, asset_id: str, *, files: int = 8) -> None:
    """A version with small files for each day."""
    runtime = AsyncRuntime()
    async with await Workspace.open(LocalStore(root), SCOPE, runtime) as workspace:
        for day in DAYS:
            key, made = PartitionKey({"date": date.fromisoformat(day)}), new_ulid(runtime, runtime)
            partition = partition_id(AssetId(parse_ulid(asset_id)), key)
            told = []
            for number in range(files):
                path, data = f"data/{asset_id}/{partition}/{made}/part-{number:05d}.parquet", parquet(number)
                await workspace.handle(Role.WORKER).put(path, data, only_if_absent=True)
                told.append(DataFile(path, len(data), 1))
            fact = MaterializationCompleted(
                materialization_id=made,
                asset_id=asset_id,
                asset_key="sales.orders",
                partition_id=partition,
                partition_key=str(key),
                run_id="",
                task_id="",
                files=tuple(told),
                row_count=files,
                byte_size=sum(file.size_bytes for file in told),
                schema_hash="",
                started_at=runtime.now(),
                completed_at=runtime.now(),
            )
            await workspace.record("activity", [new_event(MATERIALIZATION_COMPLETED, fact)], actor="ann")


@pytest.fixture
def small(project: Path, cli: Cli) -> Path:
    """The folder of the data of an asset with three versions of eight files each."""
    asset_id = cli("assets", "show", "sales.orders", "--json").document["asset_id"]
    asyncio.run(_fill(project / ".arco", asset_id))
    return project / ".arco" / SCOPE.root / "data" / asset_id


def ids(folder: Path, pattern: str) -> list[int]:
    tables = [pq.read_table(pa.BufferReader(path.read_bytes())) for path in sorted(folder.glob(pattern))]
    return [number for table in tables for number in table.column("id").to_pylist()]


def test_small_files_are_merged_with_a_dry_run_first(cli: Cli, small: Path) -> None:
    planned = cli("maintain", "compaction", "--dry-run")
    assert planned.code == 0, planned.err
    assert "3 versions would have 3 files instead of 24 (" in planned.out
    assert "sales.orders" in planned.out
    assert list(small.glob("compaction-*")) == []
    part = cli("maintain", "compaction", "sales.orders", "-p", "date=2026-01-02", "--json").document
    assert (part["dry_run"], [one["files_after"] for one in part["compacted"]]) == (False, [1])
    assert ids(small, "compaction-*/*/*.parquet") == list(range(8))
    done = cli("maintain", "compaction", "--engine", "local")
    assert "2 versions have 2 files instead of 16 (" in done.out
    assert "The replaced files stay for a day; then `arco maintain orphans` removes them." in done.out
    assert len(ids(small, "compaction-*/*/*.parquet")) == 24
    again = cli("maintain", "compaction", "sales.orders")
    assert again.out == "No small files to merge in 3 versions of 1 asset.\n"
    assert len(list(small.glob("*/*/part-0000?.parquet"))) == 24, "the old ones are still there"
    assert "No file in" in cli("maintain", "orphans", "--older-than", "1h", "--yes").out
    shown = cli("quarantine", "show", "sales.orders", "-p", "date=2026-01-01", "--json").document
    assert (shown["file_count"], shown["row_count"]) == (1, 8)


def test_small_files_are_merged_on_spark(cli: Cli, alone: Cli, small: Path) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    done = alone("maintain", "compaction", "--engine", "spark", "--master", "local[2]", "--json")
    assert done.code == 0, done.err
    assert [(one["files_before"], one["files_after"]) for one in done.document["compacted"]] == [(8, 1)] * len(DAYS)
    assert done.err == "merging small files on Spark\n"
    assert sorted(ids(small, "compaction-*/*/*.parquet")) == sorted([*range(8)] * len(DAYS))
    assert "No small files to merge in 3 versions" in cli("maintain", "compaction").out


def test_what_cannot_be_merged_is_named(cli: Cli, small: Path) -> None:
    path = sorted(small.glob("*/*/part-00003.parquet"))[0]
    path.unlink()
    done = cli("maintain", "compaction")
    assert done.code == 0
    assert "2 versions have 2 files instead of 16 (" in done.out
    assert "keeps its files: data/" in done.out
    assert "is not in the store" in done.out


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("--target-size", "large"), "not a size"),
        (("--target-size", "1KiB"), "from 1MiB to 1GiB"),
        (("--target-size", "2GiB"), "from 1MiB to 1GiB"),
        (("--min-files", "1"), "min-files"),
        (("-p", "2026-01-01"), "--partition takes NAME=KEYS, such as date="),
        (("-p", "country=de"), "has partitions by country"),
        (("sales.orders", "-p", "date=yesterday"), "yesterday"),
        (("--engine", "cluster"), "cluster"),
        (("sales.nothing",), "sales.nothing"),
        (("--engine", "spark", "--url", "http://127.0.0.1:1"), ""),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: Cli, command: tuple[str, ...], words: str) -> None:
    ran = cli("maintain", "compaction", *command)
    assert ran.code != 0
    assert words in ran.err


def test_files_of_current_versions_that_are_lost_are_found(cli: Cli, small: Path, tmp_path: Path) -> None:
    ran = cli("doctor", "--json")
    assert ran.code == 0
    [told] = [finding["message"] for finding in ran.document["findings"] if finding["check"] == "data"]
    assert told.startswith("24 files of current versions are there")
    first, second, *_ = sorted(small.rglob("*.parquet"))
    first.unlink()
    second.write_bytes(b"PAR1")
    ran = cli("doctor")
    assert ran.code == 7
    shown = " ".join(ran.out.split())
    assert "is missing; run what makes it with --force" in shown
    assert "has 4 bytes and was written with" in shown
    ran = cli("backup", "--to", f"file://{tmp_path}/vault", "--data", "--json")
    assert ran.code == 0
    missing, altered = ran.document["lost_data"]
    assert "of sales.orders[date=" in missing
    assert missing.endswith(" is missing")
    assert "has 4 bytes" in altered
    assert "a file of data is not in the backup" in ran.err


def test_footers_are_read_again_with_a_dry_run_first(cli: Cli, small: Path) -> None:
    planned = cli("maintain", "statistics", "--dry-run")
    assert planned.code == 0, planned.err
    assert planned.out.startswith("24 footers read in 7 assets; 24 would be noted.\n")
    assert re.search(r"part-00000\.parquet +1 +1 +[\d,.]+ bytes +2", planned.out), planned.out
    assert planned.out.count(".parquet") == 20
    assert planned.out.endswith("and 4 more; --json lists all\n")
    done = cli("maintain", "statistics", "sales.orders", "--json")
    assert done.code == 0, done.err
    document = done.document
    assert (document["dry_run"], document["read_count"], document["asset_count"]) == (False, 24, 1)
    assert sorted(file["path"] for file in document["files"]) == stored(small, "*/*/*.parquet")
    assert {(file["partition_key"], file["rows_after"], file["column_count"]) for file in document["files"]} == {
        (f"date=d:{day}", 1, 2) for day in DAYS
    }
    again = cli("maintain", "statistics")
    assert (again.code, again.out) == (0, "24 footers read in 7 assets; 0 noted.\n")


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["", "dry run"])
def test_files_whose_footers_cannot_be_read_are_named_and_the_others_noted(
    cli: Cli, small: Path, options: tuple[str, ...]
) -> None:
    lost, damaged, *_ = sorted(small.glob("*/*/*.parquet"))
    lost.unlink()
    damaged.write_bytes(b"PAR1 and nothing else PAR1")
    ran = cli("maintain", "statistics", *options)
    assert ran.code == 7
    assert "22 footers read in 7 assets; 22 " in ran.out
    assert f"missing: {within(small, lost)}" in ran.out
    assert f"unreadable: {within(small, damaged)}" in ran.out
    ran = cli("maintain", "statistics", "--json", *options)
    assert ran.code == 7
    assert (ran.document["missing"], ran.document["unreadable"]) == ([within(small, lost)], [within(small, damaged)])
    assert len(ran.document["files"]) == (22 if options else 0)


def test_files_of_no_version_are_removed_with_a_dry_run_first(cli: Cli, small: Path) -> None:
    now = AsyncRuntime().now()
    partition = next(small.iterdir())
    old, young = derive_ulid(now - 3 * DAY, "old"), derive_ulid(now, "young")
    strays = [partition / old / name for name in ("part-00000.parquet", "part-00001.parquet", "of-today.parquet")]
    for path in (*strays, partition / young / "part-00000.parquet"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(parquet(1))
        if path.name != "of-today.parquet":
            os.utime(path, (time.time() - 2 * 86_400,) * 2)
    garbage = [within(small, path) for path in strays[:2]]
    before = stored(small, "**/*.parquet")
    planned = cli("maintain", "orphans", "--dry-run")
    assert planned.code == 0, planned.err
    assert planned.out.startswith("2 files would be removed (")
    assert all(path in planned.out for path in garbage)
    document = cli("maintain", "orphans", "--dry-run", "--json").document
    assert (document["dry_run"], [file["path"] for file in document["files"]]) == (True, garbage)
    assert (document["asset_count"], document["kept_count"]) == (7, 24 + 2)
    assert stored(small, "**/*.parquet") == before
    done = cli("maintain", "orphans", "--yes")
    assert done.code == 0, done.err
    assert done.out.startswith("2 files removed (")
    assert stored(small, "**/*.parquet") == [path for path in before if path not in garbage]
    assert cli("maintain", "orphans", "--yes").out.startswith("No file in 7 assets belongs to nobody; 26 are kept.")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("command", "what", "count"),
    [
        (("versions", "--dry-run"), "versions", 7),
        (("orphans", "--dry-run"), "orphans", 7),
        (("statistics",), "statistics", 7),
        (("compaction", "--dry-run"), "looking for small files", 7),
        (("compaction",), "merging small files", len(DAYS)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_who_watches_sees_how_far_it_is(cli: Cli, command: tuple[str, ...], what: str, count: int) -> None:
    watched = cli("maintain", *command, "--json", FORCE_COLOR="1", TERM="xterm")
    assert watched.code == 0
    assert watched.document, "and standard output has the document alone"
    shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", watched.err)
    assert re.search(rf"{what} .*\b{count}/{count}\b", shown), shown
    assert cli("maintain", *command, "--json").err == ""


def within(small: Path, path: Path) -> str:
    """A path as the workspace knows it."""
    return str(path.relative_to(small.parents[1]))


def stored(small: Path, pattern: str) -> list[str]:
    return sorted(within(small, path) for path in small.glob(pattern))

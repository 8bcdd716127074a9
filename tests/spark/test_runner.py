"""The runner on real Spark gives the tables that the local one gives, for every domain."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arco.core import Corrupt, LostObject
from arco.log import Place
from arco.runtime import DEFINITIONS, AsyncRuntime, read_incarnation
from arco.state import Definition, Layer, LayerReader, Layout, MergeJob, RefoldJob, Table, _runner, digest_rows
from arco.storage import LocalStore, Sequence
from tests.recorded.record import HERE, SCOPE
from tests.spark.logs import Chance, TwoRunners, with_runs, write_log

# PySpark leaves the sockets over which results come to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

EVERY_LOG = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda known: known.log)


async def recorded(folder: Path, definition: Definition, spark: Any) -> tuple[TwoRunners, int]:
    """A workspace of an earlier release, with blobs and events of every type, and the number of its last segment."""
    shutil.copytree(HERE / "0.1" / "store", folder, dirs_exist_ok=True)
    base = LocalStore(folder)
    incarnation = await read_incarnation(base, SCOPE, AsyncRuntime())
    place = Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, definition.log)
    runners = TwoRunners(base, f"file://{folder}", place, lambda: spark)
    return runners, (await Sequence(runners.store, Layout(place).ledger, runners.runtime).tail()).number


@EVERY_LOG
def test_a_recorded_workspace_is_rebuilt_to_the_same_tables(spark: Any, tmp_path: Path, definition: Definition) -> None:
    async def work() -> dict[str, int]:
        runners, through = await recorded(tmp_path, definition, spark)
        return (await runners.compare(through))[1]

    rows = asyncio.run(work())
    wanted = {"catalog": ("tables", "audit"), "activity": ("plan_tasks", "rejections")}[definition.log]
    assert min(rows[name] for name in wanted)


@EVERY_LOG
def test_a_random_history_is_rebuilt_to_the_same_tables(spark: Any, tmp_path: Path, definition: Definition) -> None:
    """All of which have rows: of a domain whose events are all rejected, nothing would be compared."""
    history = Chance(8).segments(definition, 200)
    if definition.log == "activity":
        history = with_runs(history)

    async def work() -> dict[str, int]:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", definition.log)
        through = await write_log(base, place, history)
        return (await TwoRunners(base, f"file://{tmp_path}", place, lambda: spark).compare(through))[1]

    rows = asyncio.run(work())
    assert rows.keys() == definition.tables.keys()
    assert [name for name, count in rows.items() if not count] == []


async def merge_with_both(runners: TwoRunners, job: MergeJob) -> pa.Table:
    """The rows that both runners keep."""
    found = []
    for runner in (runners.local, runners.spark):
        layer = Layer(job.table.name, 2, "0", "1", await runner.merge(job))
        found.append(await LayerReader(runners.store).rows(job.table, [layer], dead=True))
    here, there = found
    assert (here.num_rows, digest_rows(job.table, here)) == (there.num_rows, digest_rows(job.table, there)), job.table
    return there


def times_of(table: Table, data: pa.Table) -> list[int]:
    """The times by which the rows of a table expire, each once, in order."""
    if not table.time:
        return []
    column = data.column(table.time)
    values = column.to_pylist() if table.expires_by_id else [time.value for time in column]
    return sorted({found for value in values if value is not None and (found := table.time_in(value)) is not None})


@EVERY_LOG
def test_merges_write_the_same_rows(
    spark: Any, tmp_path: Path, definition: Definition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every table that has layers to merge, by turns with its oldest layer and without it; of facts, also those that
    retention keeps."""
    monkeypatch.setattr(_runner, "SPILL_ROWS", 40)
    monkeypatch.setattr("arco.state._forward.BATCH_SEGMENTS", 20)

    async def work() -> tuple[int, int]:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", definition.log)
        through = await write_log(base, place, Chance(8).segments(definition, 200))
        runners = TwoRunners(base, f"file://{tmp_path}", place, lambda: spark)
        manifest = await runners.local.refold(RefoldJob(definition, through, f"{0:020d}-refold"))
        layered = [table for table in definition.tables.values() if len(manifest.layers_of(table.name)) > 1]
        cut = 0
        for number, table in enumerate(layered):
            layers, oldest = tuple(manifest.layers_of(table.name)), number % 2 == 0
            job = MergeJob(table, layers[0 if oldest else 1 :], oldest, None, f"{0:020d}-{table.name}")
            data = await merge_with_both(runners, job)
            times = times_of(table, data)
            if len(times) > 1:
                expired = replace(job, cutoff=times[len(times) // 2], directory=f"{0:020d}-{table.name}-cut")
                assert 0 < (await merge_with_both(runners, expired)).num_rows < data.num_rows
                cut += 1
        return len(layered), cut

    layered, cut = asyncio.run(work())
    assert layered > len(definition.tables) * 3 // 4
    assert cut > 1


@pytest.mark.parametrize(("damage", "error"), [("lost", LostObject), ("altered", Corrupt), ("refilled", Corrupt)])
def test_what_executors_find_wrong_is_said_by_the_driver(
    spark: Any, tmp_path: Path, damage: str, error: type[Exception]
) -> None:
    definition = DEFINITIONS[1]

    async def work() -> None:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", definition.log)
        through = await write_log(base, place, Chance(9).segments(definition, 16))
        path = tmp_path / "acme" / "prod" / Sequence(base, Layout(place).ledger, AsyncRuntime()).path(9)
        if damage == "lost":
            path.unlink()
        elif damage == "altered":
            path.write_bytes(path.read_bytes()[:-5] + b"12345")
        else:  # whole, but not the one that its successor continues
            other = tmp_path / "other"
            await write_log(LocalStore(other), place, Chance(10).segments(definition, 16))
            path.write_bytes((other / path.relative_to(tmp_path)).read_bytes())
        runners = TwoRunners(base, f"file://{tmp_path}", place, lambda: spark)
        await runners.spark.refold(RefoldJob(definition, through, f"{0:020d}-spark"))

    with pytest.raises(error):
        asyncio.run(work())

"""Statistics refresh: footers say what was not told, and files that are gone are named."""

import io
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.assets import SchemaColumn
from arco.core import Invalid, NotFound
from arco.domains.execution import (
    FILE_STATISTICS,
    MATERIALIZATIONS,
    ColumnStats,
    DataFile,
    RefreshStatistics,
)
from arco.servo import Statistics, refresh_statistics, version_detail
from arco.storage import Role
from tests.servo.world import ASKED, WORKER, World, mark_personal, project, result_of, run_world


def parquet(*ids: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(ids), "name": [None, *("b" * (len(ids) - 1))]}), sink)
    return sink.getvalue()


GOOD = parquet(3, 1, 2)


class Made:
    """A world in which one version with given files was made."""

    def __init__(self, world: World, asset_id: str, version: str, paths: list[str]) -> None:
        self.world = world
        self.asset_id = asset_id
        self.version = version
        self.paths = paths

    async def refresh(self, *, dry_run: bool = False) -> Statistics:
        return await refresh_statistics(self.world.workspace, self.asset_id, None, ASKED, dry_run=dry_run)

    async def rows(self) -> list[Any]:
        return await self.world.workspace.logs["activity"].replica.rows(FILE_STATISTICS, self.asset_id)


def with_files(files: dict[str, bytes | None], work: Callable[[Made], Awaitable[None]], **fields: Any) -> None:
    async def main(world: World) -> None:
        await world.trigger()
        (envelope,) = await world.claim()
        place = envelope.outputs[0]
        told = tuple(DataFile(f"{place.location}{name}", 1, 1) for name in files)
        for file, data in zip(told, files.values(), strict=True):
            if data is not None:
                await world.workspace.handle(Role.WORKER).put(file.path, data, only_if_absent=True)
        result = result_of(envelope, world.runtime.now())
        outputs = (msgspec.structs.replace(result.outputs[0], files=told),)
        await world.servo.work.finish([msgspec.structs.replace(result, outputs=outputs)], WORKER)
        await work(Made(world, place.asset_id, place.materialization_id, [file.path for file in told]))

    run_world(main, deployed=project({"s.a": []}, **fields))


def test_what_a_footer_says_is_noted_once() -> None:
    async def work(made: Made) -> None:
        planned = await made.refresh(dry_run=True)
        assert (planned.read, len(planned.refreshed), await made.rows()) == (1, 1, [])
        (one,) = (await made.refresh()).refreshed
        assert (one.before.row_count, one.after.row_count, one.after.size_bytes) == (1, 3, len(GOOD))
        (row,) = await made.rows()
        assert row.stats == (ColumnStats("id", 0, "1", "3"), ColumnStats("name", 1, "b", "b"))
        again = await made.refresh()
        assert (again.read, again.refreshed) == (1, [])
        view = await made.world.workspace.logs["activity"].frozen()
        (file,) = (await version_detail(view, made.asset_id, made.version)).files
        assert (file.row_count, file.size_bytes) == (3, len(GOOD))
        (fact,) = await view.rows(MATERIALIZATIONS, made.asset_id)
        assert fact.files[0].row_count == 1, "facts never change"

    with_files({"part-0.parquet": GOOD}, work)


def test_bounds_that_the_worker_kept_to_itself_stay_there() -> None:
    async def work(made: Made) -> None:
        hidden = DataFile(made.paths[0], 1, 3, (ColumnStats("id", 0, "1", "3"), ColumnStats("name", 1)))
        command = RefreshStatistics(made.asset_id, made.version, (hidden,))
        await made.world.workspace.decide("activity", command, actor="me")
        found = await made.refresh()
        assert [one.after.stats for one in found.refreshed] == [
            (ColumnStats("id", 0, "1", "3"), ColumnStats("name", 1)),
            (ColumnStats("id", 0, "1", "3"), ColumnStats("name", 1)),
        ], "footers have them, also those of other files of the version"
        assert (await made.refresh()).refreshed == []

    with_files({"part-0.parquet": GOOD, "part-1.parquet": GOOD}, work)


def test_personal_columns_have_no_bounds_whatever_was_told_before() -> None:
    async def work(made: Made) -> None:
        await made.refresh()
        await mark_personal(made.world, "NAME")
        (one,) = (await made.refresh()).refreshed
        assert one.after.stats == (ColumnStats("id", 0, "1", "3"), ColumnStats("name", 1))
        assert (await made.refresh()).refreshed == []

    with_files({"part-0.parquet": GOOD}, work)


def test_columns_that_are_declared_personal_have_no_bounds() -> None:
    async def work(made: Made) -> None:
        (one,) = (await made.refresh()).refreshed
        assert one.after.stats == (ColumnStats("id", 0, "1", "3"), ColumnStats("name", 1))

    columns = (SchemaColumn("id", "long"), SchemaColumn("Name", "string", pii=True))
    with_files({"part-0.parquet": GOOD}, work, schema=columns)


def test_a_credential_is_no_bound() -> None:
    async def work(made: Made) -> None:
        (one,) = (await made.refresh()).refreshed
        assert one.after.stats == (ColumnStats("id", 0, "4", "5"), ColumnStats("name", 1))

    key = io.BytesIO()
    pq.write_table(pa.table({"id": [4, 5], "name": [None, "postgres://me:hunter22@db/x"]}), key)
    with_files({"part-0.parquet": key.getvalue()}, work)


def test_files_that_are_gone_or_no_parquet_are_named_and_change_nothing() -> None:
    async def work(made: Made) -> None:
        found = await made.refresh()
        assert (found.missing, found.unreadable) == ([made.paths[0]], made.paths[1:4])
        assert (found.read, found.refreshed, await made.rows()) == (0, [], [])

    bad = {"a.parquet": None, "b.parquet": b"", "c.parquet": b"not parquet at all", "d.parquet": GOOD[:-1] + b"x"}
    with_files({**bad, "value.json": b"{}"}, work)


def test_only_files_of_a_version_that_is_there_can_be_told_of() -> None:
    async def work(made: Made) -> None:
        decide = made.world.workspace.decide
        other = (DataFile("data/other.parquet", 1, 1),)
        with pytest.raises(Invalid, match="no file of the version"):
            await decide("activity", RefreshStatistics(made.asset_id, made.version, other), actor="me")
        with pytest.raises(NotFound):
            await decide("activity", RefreshStatistics(made.asset_id, "none", (DataFile("x", 1, 1),)), actor="me")

    with_files({"part-0.parquet": GOOD}, work)

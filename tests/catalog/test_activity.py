"""What runs wrote and what checks found."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._activity import check_results, run_outputs
from arco.core import SECOND, Invalid, NotFound
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.domains.quality import CHECK_EXECUTED, CheckExecuted, Gating, GatingAction, Severity
from arco.log import NewEvent
from arco.state import new_event, snapshot_at_revision
from arco.storage import Operation, Role
from tests.catalog.world import World, in_world


def output(world: World, name: str, run: str, asset: str = "asset") -> NewEvent:
    now = world.runtime.now()
    files = (DataFile(f"data/{name}", 10, 2),)
    payload = MaterializationCompleted(
        name, asset, "sales.orders", "part", "day=1", run, "task", files, 2, 10, "hash", now, now
    )
    return new_event(MATERIALIZATION_COMPLETED, payload)


def test_a_run_has_exactly_what_it_wrote() -> None:
    async def test(world: World) -> None:
        await world.workspace.record("activity", [output(world, "m1", "r1"), output(world, "m2", "r2")], actor="w")
        await world.workspace.record("activity", [output(world, "m3", "r1", "other")], actor="w")
        found = await run_outputs(await world.activity.frozen(), "r1")
        assert [(made.id, made.asset_id, made.version) for made in found.materializations] == [
            ("m1", "asset", 1),
            ("m3", "other", 1),
        ]
        assert found.materializations[0].partition_key == "day=1"
        assert found.materializations[0].position == str(1 << 20)
        assert found.position == str(world.activity.replica.watermark)
        with pytest.raises(NotFound, match="r3"):
            await run_outputs(await world.activity.frozen(), "r3")

    in_world(test)


def test_only_files_that_can_hold_a_run_are_read() -> None:
    async def test(world: World) -> None:
        for number in range(6):
            name = f"r{number}"
            receipt = await world.workspace.record("activity", [output(world, f"m{number}", name)], actor="w")
            await world.workspace.published("activity", receipt.position)
        manifest = (await world.activity.snapshot()).manifest
        cold = snapshot_at_revision(world.activity.definition, world.workspace.handle(Role.READER), manifest)
        assert len(manifest.layers_of("materializations")) > 1
        before = world.workspace.counts.count(Role.READER, Operation.GET_RANGE)
        assert [made.id for made in (await run_outputs(cold, "r5")).materializations] == ["m5"]
        assert world.workspace.counts.count(Role.READER, Operation.GET_RANGE) - before == 1

    in_world(test)


def check(name: str, time: int, asset: str = "t", gating: Gating | None = None) -> NewEvent:
    payload = CheckExecuted(
        name, f"check {name}", "row_count", asset, "p", "m", "r", "k", False, Severity.ERROR, time, "1", "0", "", gating
    )
    return new_event(CHECK_EXECUTED, payload)


def test_results_come_newest_first_with_what_was_done_about_them() -> None:
    async def test(world: World) -> None:
        now = world.runtime.now()
        gating = Gating(GatingAction.BLOCK_DOWNSTREAM, "default")
        events = [check("a", now - 2 * SECOND), check("b", now - SECOND, gating=gating), check("c", now, asset="u")]
        await world.workspace.record("activity", events, actor="w")
        found, position = await world.activity.read(lambda view: check_results(view, "t"))
        assert [(result.check_id, result.action) for result in found.items] == [("b", "block_downstream"), ("a", None)]
        assert found.position == str(position)
        assert found.next_cursor is None
        assert found.items[0].message is None
        assert (await world.activity.read(lambda view: check_results(view, "unknown")))[0].items == []
        for wrong in ("x", "WyJjaGVja3MvdCIsIngiLCJ5Il0"):
            with pytest.raises(Invalid):
                await world.activity.read(partial(check_results, table_id="t", cursor=wrong))

    in_world(test)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 6))
def test_pages_of_results_visit_each_once(ages: list[int], limit: int) -> None:
    async def test(world: World) -> None:
        now = world.runtime.now()
        if ages:
            events = [check(f"c{number}", now - age * SECOND) for number, age in enumerate(ages)]
            await world.workspace.record("activity", events, actor="w")
        cursor, seen = None, []
        while True:
            page, _ = await world.activity.read(partial(check_results, table_id="t", cursor=cursor, limit=limit))
            seen += page.items
            cursor = page.next_cursor
            await world.workspace.record("activity", [check(f"new{len(seen)}", now + SECOND)], actor="w")
            if cursor is None:
                break
        assert sorted(result.check_id for result in seen) == sorted(f"c{number}" for number in range(len(ages)))
        assert [result.executed_at for result in seen] == sorted((r.executed_at for r in seen), reverse=True)

    in_world(test)

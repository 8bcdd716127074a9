"""Points in the past: how they are written, and which state of each log they mean."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog._names import resolve_table
from arco.catalog._points import KEPT, KEPT_FOR, NOW, AsOf, Points, parse_as_of
from arco.catalog._reader import list_tables
from arco.core import Invalid, NotFound, Stale, format_time
from arco.domains.execution import MATERIALIZATION_COMPLETED, MATERIALIZATIONS, DataFile, MaterializationCompleted
from arco.log import Receipt
from arco.state import Snapshot, new_event
from tests.catalog.world import World, in_world
from tests.doubles import START


@pytest.mark.parametrize(
    ("text", "point"),
    [
        (None, NOW),
        ("2026-01-01T00:00:00Z", AsOf(time=START)),
        ("2026-01-01T01:00:00+01:00", AsOf(time=START)),
        ("run:01JCR4T8K3M9ZQ2XW5V7B6N0PA", AsOf(run="01JCR4T8K3M9ZQ2XW5V7B6N0PA")),
        ("run:a,b:c", AsOf(run="a,b:c")),
        ("12:0", AsOf(catalog=12 << 20)),
        ("7", AsOf(catalog=7)),
        ("catalog:12:3", AsOf(catalog=12 << 20 | 3)),
        ("activity:9", AsOf(activity=9)),
        ("activity:9,catalog:12:3", AsOf(catalog=12 << 20 | 3, activity=9)),
    ],
)
def test_a_point_is_written_in_one_of_these_ways(text: str | None, point: AsOf) -> None:
    assert parse_as_of(text) == point


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "run:",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "catalog:",
        "catalog:x",
        "catalog:1,catalog:2",
        "catalog:1,2026-01-01T00:00:00Z",
        "catalog:1,activity:2,catalog:3",
        "1:2:3",
        "1,2",
        "-1",
        "9" * 50,
        "run:" + "x" * 300,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_as_of(text)


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(Invalid):
        assert parse_as_of(text) != NOW


def output(world: World, name: str, run: str) -> MaterializationCompleted:
    now = world.runtime.now()
    files = (DataFile(f"data/{name}", 1, 2),)
    return MaterializationCompleted(name, "asset", "key", "part", "", run, "task", files, 2, 1, "hash", now, now)


async def wrote(world: World, name: str, run: str) -> Receipt:
    event = new_event(MATERIALIZATION_COMPLETED, output(world, name, run))
    return await world.workspace.record("activity", [event], actor="worker")


async def shown(pair: dict[str, Snapshot]) -> tuple[list[str], list[str]]:
    """Names of the tables and of the materializations at a point."""
    try:
        tables = [table.name for table in (await list_tables(pair["catalog"], "s")).items]
    except NotFound:
        tables = []
    outputs = (await pair["activity"].scan(MATERIALIZATIONS)).column("materialization_id").to_pylist()
    return tables, sorted(outputs)


def test_a_point_means_both_logs_of_one_moment() -> None:
    async def test(world: World) -> None:
        points = Points(world.workspace)
        await world.namespace("s")
        moments: list[int] = []
        catalog: list[Receipt] = []
        activity: list[Receipt] = []
        for number in (1, 2, 3):
            await world.runtime.sleep(10)
            catalog.append(await world.table(f"s.t{number}"))
            await world.runtime.sleep(10)
            activity.append(await wrote(world, f"m{number}", f"r{number % 2}"))
            moments.append(world.runtime.now())
            if number == 2:
                await world.workspace.published("catalog", catalog[-1].position)
        await world.runtime.sleep(10)
        second = (["s.t1", "s.t2"], ["m1", "m2"])
        everything = (["s.t1", "s.t2", "s.t3"], ["m1", "m2", "m3"])
        for text, wanted in (
            (format_time(moments[1]), second),
            (format_time(moments[1] - 5_000_000), (["s.t1", "s.t2"], ["m1"])),
            (format_time(START - 1), ([], [])),
            ("2099-01-01T00:00:00Z", everything),
            (None, everything),
            (f"catalog:{catalog[1].last}", (["s.t1", "s.t2"], ["m1"])),
            (catalog[1].last, (["s.t1", "s.t2"], ["m1"])),
            (f"activity:{activity[1].last}", second),
            (f"activity:{activity[0].last},catalog:{catalog[2].last}", (everything[0], ["m1"])),
            ("run:r0", second),
            ("run:r1", everything),
            ("catalog:0", ([], [])),
            ("activity:0", ([], [])),
        ):
            pair = await points.snapshots_at(parse_as_of(text))
            assert await shown(pair) == wanted, text
            one = await points.snapshot_at("catalog", parse_as_of(text))
            assert one.position == pair["catalog"].position
        with pytest.raises(NotFound, match="run"):
            await points.snapshots_at(parse_as_of("run:unknown"))
        for log in ("catalog", "activity"):
            with pytest.raises(Stale):
                await points.snapshots_at(parse_as_of(f"{log}:999:0"))

    in_world(test)


def test_a_run_is_read_with_what_it_wrote_last() -> None:
    async def test(world: World) -> None:
        points = Points(world.workspace)
        await world.namespace("s")
        await wrote(world, "m1", "r")
        assert (await shown(await points.snapshots_at(AsOf(run="r"))))[1] == ["m1"]
        await world.runtime.sleep(1)
        await world.table("s.t")
        await wrote(world, "m2", "r")
        assert await shown(await points.snapshots_at(AsOf(run="r"))) == (["s.t"], ["m1", "m2"])

    in_world(test)


def test_what_is_past_is_kept_and_what_can_still_change_is_not() -> None:
    async def test(world: World) -> None:
        points = Points(world.workspace)
        await world.namespace("s")
        early = world.runtime.now()
        await world.runtime.sleep(10)
        first = await world.table("s.t1")
        ahead = AsOf(time=world.runtime.now() + 60_000_000)
        before = await points.snapshot_at("catalog", ahead)
        again = await points.snapshot_at("catalog", AsOf(catalog=first.position))
        assert again is await points.snapshot_at("catalog", AsOf(catalog=first.position))
        assert await points.snapshot_at("catalog", AsOf(time=early)) is await points.snapshot_at(
            "catalog", AsOf(time=early)
        )
        await world.table("s.t2")
        assert (await points.snapshot_at("catalog", ahead)).position > before.position
        await world.runtime.sleep(KEPT_FOR + 1)
        assert again is not await points.snapshot_at("catalog", AsOf(catalog=first.position))
        again = await points.snapshot_at("catalog", AsOf(catalog=first.position))
        for number in range(KEPT):
            await points.snapshot_at("catalog", AsOf(time=early - number - 1))
        assert again is not await points.snapshot_at("catalog", AsOf(catalog=first.position))

    in_world(test)


def test_now_is_frozen() -> None:
    async def test(world: World) -> None:
        points = Points(world.workspace)
        await world.namespace("s")
        await world.table("s.t")
        pair = await points.snapshots_at(NOW)
        await world.drop_table("s.t")
        assert (await resolve_table(pair["catalog"], "s.t")).path == ("s", "t")
        with pytest.raises(NotFound):
            await resolve_table((await points.snapshots_at(NOW))["catalog"], "s.t")

    in_world(test)

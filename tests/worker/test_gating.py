"""From what a check finds to what becomes of the run: every gating action, through the real control plane."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from arco import anomaly, not_null
from arco.assets import (
    CheckDefinition,
    Dimension,
    Engine,
    GatingAction,
    GatingPolicy,
    Project,
    TimePartitions,
    measures_of,
    queries_of,
)
from arco.core import MINUTE
from arco.domains.catalog import AddColumn, CreateNamespace, CreateTable
from arco.domains.deployments import ASSET_NAMES, WORKSPACE
from arco.domains.execution import (
    MATERIALIZATIONS,
    PARTITIONS,
    ExpireVersions,
    Partition,
    QuarantineVersion,
    ReleaseVersion,
    RetentionPolicy,
)
from arco.domains.orchestration import FailureCategory, FinishTask, TaskLog
from arco.domains.quality import QUALITY_TABLE, Quality
from arco.runtime import Workspace
from arco.servo import Envelope
from arco.servo._request import Mode
from arco.worker._in_order import InOrder
from arco.worker._masking import Mask
from arco.worker._messages import MeasuredOutput, Report, WrittenFile, WrittenOutput
from arco.worker._outcome import Times, finished
from tests.servo.world import WORKER, World, project, run_world

CHECK = not_null("id", warn=1, error=5)
EDGES: dict[str, list[str]] = {"n.a": [], "n.b": ["n.a"], "n.other": []}


def checked(check: CheckDefinition, gating: GatingPolicy | None, **fields: Any) -> Project:
    """`n.b` is made of `n.a`, which is checked; `n.other` has nothing to do with them."""
    plain = project(EDGES, **fields)
    assets = tuple(
        msgspec.structs.replace(asset, checks=(check,), gating=gating) if asset.key == "n.a" else asset
        for asset in plain.assets
    )
    return msgspec.structs.replace(plain, assets=assets)


def policy(action: GatingAction) -> GatingPolicy:
    return GatingPolicy("mine", {}, action)


async def carry_out(world: World, envelope: Envelope, numbers: Mapping[str, int], rows: int = 10) -> None:
    """Tell of an attempt that wrote a file, and in which this was measured."""
    await world.servo.work.finish([_finished(world, envelope, numbers, rows)], WORKER)


def _finished(
    world: World, envelope: Envelope, numbers: Mapping[str, int], rows: int, log: TaskLog | None = None
) -> FinishTask:
    outputs = [
        WrittenOutput(place.asset_key, (WrittenFile(f"{place.location}part-00000.parquet", 1, rows),))
        for place in envelope.outputs
    ]
    measured = [MeasuredOutput(output.asset_key, dict(numbers)) for output in outputs]
    report = Report(envelope.attempt_id, outputs=tuple(outputs), measured=tuple(measured))
    now = world.runtime.now()
    return finished(envelope, report, Times(now - MINUTE, now), log, Mask(()))


async def run_all(world: World, numbers: Mapping[str, int]) -> str:
    run_id = await world.trigger()
    while claimed := await world.claim():
        await carry_out(world, claimed[0], numbers)
    return run_id


async def run_again(world: World, numbers: Mapping[str, int], rows: int = 10) -> None:
    """Make `n.a` once more, months later."""
    world.runtime.suspend(40 * 86_400)
    await world.trigger("n.a", mode=Mode.FORCE)
    (envelope,) = await world.claim()
    await carry_out(world, envelope, numbers, rows)


def failing(count: int, check: CheckDefinition = CHECK) -> dict[str, int]:
    total, bad = (measure.name for measure in measures_of(check))
    return {total: 10, bad: count}


async def asset_id(workspace: Workspace, envelope_key: str) -> str:
    rows = await workspace.logs["catalog"].replica.rows(ASSET_NAMES, WORKSPACE)
    return str(next(row.asset_id for row in rows if row.key == envelope_key))


@pytest.mark.parametrize(
    ("action", "a", "b", "run", "current", "quality"),
    [
        (GatingAction.CONTINUE, "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", True, "failed"),
        (GatingAction.WARN, "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", True, "failed"),
        (GatingAction.BLOCK_DOWNSTREAM, "SUCCEEDED", "SKIPPED", "FAILED", False, "failed"),
        (GatingAction.QUARANTINE, "SUCCEEDED", "SKIPPED", "FAILED", False, "quarantined"),
        (GatingAction.FAIL_TASK, "FAILED", "SKIPPED", "FAILED", False, "failed"),
        (GatingAction.FAIL_RUN, "FAILED", "SKIPPED", "FAILED", False, "failed"),
    ],
)
def test_every_action_takes_effect(action: GatingAction, a: str, b: str, run: str, current: bool, quality: str) -> None:
    async def work(world: World) -> None:
        run_id = await run_all(world, failing(6))
        states = await world.states(run_id)
        other = "SUCCEEDED" if action is not GatingAction.FAIL_RUN else states["n.other"]
        assert states == {"n.a": a, "n.b": b, "n.other": other}
        assert (await world.run_row(run_id)).state == run
        replica = world.workspace.logs["activity"].replica
        key = await asset_id(world.workspace, "n.a")
        (part,) = await replica.rows(PARTITIONS, key)
        assert isinstance(part, Partition)
        assert (part.current_materialization_id is not None) == current
        (row,) = await replica.rows(QUALITY_TABLE, key)
        assert isinstance(row, Quality)
        assert (row.status, row.failed_error) == (quality, 1)

    run_world(work, deployed=checked(CHECK, policy(action)))


def test_a_run_that_a_check_fails_stops_what_did_not_begin() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger("*")
        (first,) = await world.claim()
        assert first.task_key == "n.a"
        await carry_out(world, first, failing(6))
        assert await world.claim() == []
        assert await world.states(run_id) == {"n.a": "FAILED", "n.b": "SKIPPED", "n.other": "SKIPPED"}

    run_world(work, deployed=checked(CHECK, policy(GatingAction.FAIL_RUN)))


@pytest.mark.parametrize(("count", "b"), [(1, "SUCCEEDED"), (2, "SUCCEEDED"), (5, "SUCCEEDED"), (6, "SKIPPED")])
def test_the_level_decides_with_the_strict_policy(count: int, b: str) -> None:
    async def work(world: World) -> None:
        states = await world.states(await run_all(world, failing(count)))
        assert states["n.b"] == b

    run_world(work, deployed=checked(CHECK, None))


@pytest.mark.parametrize("action", list(GatingAction)[2:])
def test_a_later_run_reads_the_last_good_version(action: GatingAction) -> None:
    async def work(world: World) -> None:
        await run_all(world, failing(0))
        replica = world.workspace.logs["activity"].replica
        (good,) = await replica.rows(PARTITIONS, await asset_id(world.workspace, "n.a"))
        await run_again(world, failing(6))
        (after,) = await replica.rows(PARTITIONS, await asset_id(world.workspace, "n.a"))
        assert after.current_materialization_id == good.current_materialization_id
        await world.trigger("n.b", mode=Mode.FORCE)
        (below,) = await world.claim()
        assert [pin.materialization_id for pin in below.inputs[0].pins] == [good.current_materialization_id]

    run_world(work, deployed=checked(CHECK, policy(action)))


@pytest.mark.parametrize("action", [GatingAction.FAIL_TASK, GatingAction.FAIL_RUN])
def test_a_task_that_checks_fail_says_what_they_found_and_is_not_tried_again(action: GatingAction) -> None:
    async def work(world: World) -> None:
        await world.trigger("n.a")
        (envelope,) = await world.claim()
        failure = _finished(world, envelope, failing(6), 10).failure
        assert failure is not None
        assert (failure.category, failure.retryable) == (FailureCategory.DATA_QUALITY_FAILURE, False)
        found = "not_null(id): id is null in 6 of 10 rows (60 %), and at most 5 rows may be so"
        assert failure.message == f"checks found the output bad: {found}"

    run_world(work, deployed=checked(CHECK, policy(action)))


# What checks have to know


def test_history_is_that_of_earlier_good_versions_of_the_partition() -> None:
    check = anomaly(percent=50, versions=3, at_least=1)
    (count,) = (measure.name for measure in measures_of(check))

    async def work(world: World) -> None:
        for rows in (100, 110, 1000, 120, 130):
            await run_again(world, {count: rows}, rows)
        await world.trigger("n.a", mode=Mode.FORCE)
        (last,) = await world.claim()
        assert last.outputs[0].history == {"anomaly(row_count)": (130, 120, 110)}

    run_world(work, deployed=checked(check, None))


def test_history_goes_by_how_versions_stand_now() -> None:
    """What somebody released counts, what somebody set aside does not, and what only expired does."""
    check = anomaly(percent=50, versions=9, at_least=1)
    (count,) = (measure.name for measure in measures_of(check))

    async def work(world: World) -> None:
        for rows in (100, 110, 1000, 120, 130):
            await run_again(world, {count: rows}, rows)
        key = await asset_id(world.workspace, "n.a")
        log = world.workspace.logs["activity"]
        versions = {row.row_count: row.materialization_id for row in await log.replica.rows(MATERIALIZATIONS, key)}
        strict = RetentionPolicy(min_days=1, min_versions=1, max_versions=2)
        for command in (
            ReleaseVersion(key, versions[1000], "a sale"),
            QuarantineVersion(key, versions[120], "off"),
            ExpireVersions(key, (versions[100], versions[110]), strict),
        ):
            await world.workspace.decide("activity", command, actor="ann")
        await world.trigger("n.a", mode=Mode.FORCE)
        (last,) = await world.claim()
        assert last.outputs[0].history == {"anomaly(row_count)": (130, 1000, 110, 100)}

    run_world(work, deployed=checked(check, None))


def test_history_of_a_measure_is_what_its_check_told() -> None:
    check = anomaly("sum(x)", percent=50, versions=3, at_least=1)
    (number,) = (query.name for query in queries_of(check))

    async def work(world: World) -> None:
        for total in (5, 6):
            await run_again(world, {number: total})
        await world.trigger("n.a", mode=Mode.FORCE)
        (last,) = await world.claim()
        assert last.outputs[0].history == {"anomaly(sum(x))": (6, 5)}

    run_world(work, deployed=checked(check, None))


def test_history_of_a_window_is_that_of_the_windows_before() -> None:
    check = anomaly(percent=50, versions=2, at_least=1)
    (count,) = (measure.name for measure in measures_of(check))
    days = (Dimension("date", TimePartitions("0 0 * * *", "2025-11-01")),)

    async def work(world: World) -> None:
        known = {}
        for day, rows in ((2, 10), (4, 12), (3, 11), (5, 13)):
            await world.trigger("n.a", partitions={"date": f"2025-11-0{day}"})
            (envelope,) = await world.claim()
            await carry_out(world, envelope, {count: rows}, rows)
            known[day] = envelope.outputs[0].history["anomaly(row_count)"]
        assert known == {2: (), 4: (None, 10), 3: (10,), 5: (12, 11)}, "by window"

    run_world(work, deployed=checked(check, None, partitions=days))


def test_a_bad_window_is_found_whether_or_not_it_runs_with_those_before() -> None:
    """Also if these are made anew: then what they become counts, unless it is bad."""
    check = anomaly(percent=50, versions=4, at_least=3)
    (count,) = (measure.name for measure in measures_of(check))
    days = (Dimension("date", TimePartitions("0 0 * * *", "2025-11-01")),)
    made = {"01": 10, "02": 11, "03": 12, "04": 900, "05": 11, "06": 10, "07": 700}
    again = {day: 100 * rows for day, rows in made.items()} | {"03": 5}

    def passed(batch: int) -> list[tuple[str, bool]]:
        async def work(world: World) -> list[tuple[str, bool]]:
            found: list[tuple[str, bool]] = []
            for rows in (made, again):
                every = {"date": "2025-11-01..2025-11-07"}
                await world.trigger("n.a", partitions=every, mode=Mode.FORCE, batch=batch)
                while claimed := await world.claim():
                    found += await judged(world, claimed, count, rows)
            return found

        return run_world(work, deployed=checked(check, None, partitions=days, engine=Engine.SPARK))

    alone = passed(1)
    assert [day for day, is_good in alone[:7] if not is_good] == ["04", "07"]
    assert passed(3) == passed(0) == alone


async def judged(world: World, claimed: list[Envelope], count: str, rows: Mapping[str, int]) -> list[tuple[str, bool]]:
    """Carry a batch out whose tasks end in the wrong order; days, and whether their check passed."""
    order: InOrder[None] = InOrder(claimed)
    for envelope in reversed(claimed):
        order.ended(envelope, None)
    found = []
    while (due := order.due()) is not None:
        envelope = due[0]
        day = envelope.partition_key[-2:]
        make = order.judged(envelope, partial(_finished, world, envelope, {count: rows[day]}, rows[day]))
        assert make is not None
        await world.servo.work.finish([make(None)], WORKER)
        found.append((day, make(None).checks[0].passed))
    return found


@pytest.mark.parametrize("samples", [0, 3])
def test_personal_columns_are_those_of_the_catalog(samples: int) -> None:
    """They are told whether or not a check keeps samples: files have bounds."""

    async def work(world: World) -> None:
        await world.workspace.decide("catalog", CreateNamespace(("n",)), actor="tester")
        columns = (AddColumn("id", "long"), AddColumn("email", "string", pii_type="EMAIL"))
        await world.workspace.decide("catalog", CreateTable(("n", "a"), columns=columns), actor="tester")
        await world.trigger("n.a")
        (envelope,) = await world.claim()
        assert envelope.outputs[0].pii == ("email",)

    run_world(work, deployed=checked(not_null("id", samples=samples), None))

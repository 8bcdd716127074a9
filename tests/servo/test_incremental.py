"""Incremental tasks: which versions they read, which they only stand for, and what they go on from."""

from arco.assets import Dependency, Engine, Project, Retries
from arco.domains.execution import QuarantineVersion
from arco.domains.orchestration import Outcome
from arco.servo import Envelope
from arco.servo._envelope import inputs_fingerprint
from arco.servo._request import Mode
from tests.servo.projects import REGION, asset, project
from tests.servo.world import World, run_world


def made_of(*, incremental: bool = True, code: str = "v1") -> Project:
    """A table over all regions of another one."""
    whole = asset(
        "n.whole",
        Dependency("n.part", "part", incremental=incremental),
        engine=Engine.SPARK,
        code_version=code,
        retries=Retries(2, delay_seconds=0.0, jitter=0.0),
    )
    return project(asset("n.part", partitions=(REGION,), engine=Engine.SPARK), whole)


async def run_parts(world: World, *regions: str) -> None:
    await world.trigger("n.part", partitions={"region": ",".join(regions)}, mode=Mode.FORCE, batch=1)
    await world.work_off()
    await world.runtime.sleep(1)


async def run_whole(world: World, **fields: object) -> Envelope:
    await world.trigger("n.whole", **fields)
    (claimed,) = await world.claim()
    await world.runtime.sleep(1)
    await world.finish(claimed)
    await world.runtime.sleep(1)
    return claimed


async def rerun(world: World, envelope: Envelope) -> Envelope:
    request = await world.servo.runs.request_again(envelope.run_id, from_failure=False, at=world.runtime.now())
    names = set(request.__struct_fields__) - {"selection", "at"}
    return await run_whole(world, **{name: getattr(request, name) for name in names})


def read(envelope: Envelope) -> list[str]:
    """The partitions that are read; all of them are stood for."""
    (given,) = envelope.inputs
    assert len(given.pins) == 2
    return sorted(pin.partition_key.rpartition(":")[2] for pin in given.pins if not pin.seen)


def stood_for(envelope: Envelope) -> set[str]:
    return {pin.materialization_id for given in envelope.inputs for pin in given.pins}


def previous(envelope: Envelope) -> str | None:
    pin = envelope.outputs[0].previous
    return None if pin is None else pin.materialization_id


def test_the_first_version_reads_everything_and_the_next_what_is_new() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        first = await run_whole(world)
        assert (read(first), previous(first)) == (["eu", "us"], None)
        await run_parts(world, "eu")
        second = await run_whole(world)
        assert (read(second), previous(second)) == (["eu"], first.outputs[0].materialization_id)
        await run_parts(world, "us")
        third = await run_whole(world)
        assert (read(third), previous(third)) == (["us"], second.outputs[0].materialization_id)

    run_world(work, deployed=made_of())


def test_what_was_made_in_the_same_run_is_new_once() -> None:
    async def work(world: World) -> None:
        await world.trigger("*", partitions={"region": "*"}, batch=1)
        envelopes = []
        while claimed := await world.claim():
            envelopes += claimed
            await world.finish(claimed[0])
        assert read(envelopes[-1]) == ["eu", "us"]
        await world.runtime.sleep(1)
        await run_parts(world, "us")
        assert read(await run_whole(world)) == ["us"]

    run_world(work, deployed=made_of())


def test_the_fingerprint_is_that_of_all_versions_it_stands_for() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        await run_whole(world)
        await run_parts(world, "eu")
        second = await run_whole(world)
        (given,) = second.inputs
        assert len({pin.materialization_id for pin in given.pins}) == 2
        run_id = await world.trigger("n.whole")
        assert (await world.run_row(run_id)).task_count == 0
        assert inputs_fingerprint((given.asset_id, p.partition_id, p.materialization_id) for p in given.pins)

    run_world(work, deployed=made_of())


def test_every_attempt_reads_the_same_whatever_happens_meanwhile() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        first = await run_whole(world)
        await run_parts(world, "eu")
        slow = await world.trigger("n.whole")
        (begun,) = await world.claim()
        await world.runtime.sleep(1)
        await run_parts(world, "us")
        quick = await run_whole(world)
        assert quick.run_id != slow
        assert read(quick) == ["eu", "us"]
        await world.finish(begun, Outcome.FAILED, retryable=True)
        await world.runtime.sleep(1)
        (again,) = await world.claim()
        assert (again.run_id, again.attempt) == (slow, 2)
        assert again.inputs == begun.inputs
        assert previous(again) == previous(begun) == first.outputs[0].materialization_id

    run_world(work, deployed=made_of())


def test_a_rerun_goes_on_from_what_the_run_went_on_from() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        first = await run_whole(world)
        await run_parts(world, "eu")
        second = await run_whole(world)
        again = await rerun(world, second)
        assert (again.inputs, previous(again)) == (second.inputs, first.outputs[0].materialization_id)

    run_world(work, deployed=made_of())


def test_a_rerun_reads_what_the_run_read_whatever_was_made_since() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        first = await run_whole(world)
        await run_parts(world, "eu")
        second = await run_whole(world)
        await run_parts(world, "eu", "us")
        third = await run_whole(world)
        assert stood_for(third).isdisjoint(stood_for(second))
        again = await rerun(world, second)
        assert (again.inputs, previous(again)) == (second.inputs, first.outputs[0].materialization_id)
        once_more = await rerun(world, again)
        assert (once_more.inputs, previous(once_more)) == (again.inputs, previous(again))
        assert stood_for(await run_whole(world)) == stood_for(third), "a run of its own reads the newest"

    for incremental in (True, False):
        run_world(work, deployed=made_of(incremental=incremental))


def test_a_rerun_says_which_newer_versions_it_does_not_read() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        whole = await run_whole(world)
        assert "read" not in await reason_of_rerun(world, whole)
        await run_parts(world, "us")
        assert (await reason_of_rerun(world, whole)).endswith(
            "; forced; n.part[region=us] is read as the repeated run read it, though it has a newer version"
        )
        await run_parts(world, "eu")
        assert "n.part[region=eu] is read as the repeated" in await reason_of_rerun(world, whole)
        assert (await reason_of_rerun(world, whole)).endswith("(1 more input has another version as well)")

    run_world(work, deployed=made_of(incremental=False))


async def reason_of_rerun(world: World, envelope: Envelope) -> str:
    request = await world.servo.runs.request_again(envelope.run_id, from_failure=False, at=world.runtime.now())
    (task,) = (await world.servo.runs.plan(request)).plan.tasks
    return task.reason


def test_a_rerun_reads_the_newest_version_where_the_one_it_read_was_set_aside() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        whole = await run_whole(world)
        await run_parts(world, "us")
        old = next(pin for pin in whole.inputs[0].pins if pin.partition_key.endswith("us"))
        command = QuarantineVersion(whole.inputs[0].asset_id, old.materialization_id, "off")
        await world.workspace.decide("activity", command, actor="tester")
        assert (await reason_of_rerun(world, whole)).endswith(
            "n.part[region=us] is read in its newest version, since the one of the repeated run is not good any more"
        )
        again = await rerun(world, whole)
        before, after = ({pin.materialization_id for pin in one.inputs[0].pins} for one in (whole, again))
        assert len(before & after) == 1
        assert old.materialization_id not in after

    run_world(work, deployed=made_of(incremental=False))


def test_a_rerun_from_failure_reads_what_its_run_made() -> None:
    async def work(world: World) -> None:
        run_id = await world.trigger("*", partitions={"region": "*"}, batch=1)
        made: set[str] = set()
        while claimed := await world.claim():
            (envelope,) = claimed
            is_last = envelope.unit == "n.whole"
            made |= set() if is_last else {envelope.outputs[0].materialization_id}
            await world.finish(envelope, Outcome.FAILED if is_last else Outcome.SUCCEEDED)
        await world.runtime.sleep(1)
        await run_parts(world, "eu", "us")
        request = await world.servo.runs.request_again(run_id, from_failure=True, at=world.runtime.now())
        (task,) = (await world.servo.runs.plan(request)).plan.tasks
        assert {pin.materialization_id for pin in task.inputs[0].pins} == made
        assert len(made) == 2

    run_world(work, deployed=made_of())


def test_a_rerun_goes_on_from_what_is_current_if_nothing_of_then_is_good_any_more() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        first = await run_whole(world)
        second = await run_whole(world, mode=Mode.FORCE)
        third = await run_whole(world, mode=Mode.FORCE)
        assert previous(third) == second.outputs[0].materialization_id
        command = QuarantineVersion(first.outputs[0].asset_id, first.outputs[0].materialization_id, "off")
        await world.workspace.decide("activity", command, actor="tester")
        assert previous(await rerun(world, second)) == third.outputs[0].materialization_id

    run_world(work, deployed=made_of(incremental=False))


def test_a_forced_run_and_its_rerun_begin_from_scratch() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        await run_whole(world)
        forced = await run_whole(world, mode=Mode.FORCE)
        assert (read(forced), previous(forced)) == (["eu", "us"], None)
        again = await rerun(world, forced)
        assert (again.inputs, previous(again)) == (forced.inputs, None)
        await run_parts(world, "us")
        assert read(await run_whole(world)) == ["us"]

    run_world(work, deployed=made_of())


def test_changed_code_begins_from_scratch() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        await run_whole(world)
        await world.deploy(made_of(code="v2"))
        changed = await run_whole(world)
        assert (read(changed), previous(changed)) == (["eu", "us"], None)
        await run_parts(world, "us")
        assert read(await run_whole(world)) == ["us"]

    run_world(work, deployed=made_of())


def test_other_dependencies_are_read_as_a_whole() -> None:
    async def work(world: World) -> None:
        await run_parts(world, "eu", "us")
        await run_whole(world)
        await run_parts(world, "us")
        again = await run_whole(world)
        assert read(again) == ["eu", "us"]
        assert previous(again) is not None

    run_world(work, deployed=made_of(incremental=False))

"""A refold spread over many tasks folds what a refold in one place folds, whatever is cut where."""

import asyncio
import dataclasses
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from arco.core import Corrupt, LostObject, Outdated
from arco.log import Blobs, Event, Place
from arco.runtime import DEFINITIONS
from arco.spark._runner import SEGMENTS_A_TASK, _routes
from arco.state import Definition, Layout, RefoldJob
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope, Sequence
from tests.domains.orchestration.facts import claim, finish, plan_of, planned_apart, triggered
from tests.spark.logs import Chance, TwoRunners, write_log
from tests.spark.memory import memory_session

ACTIVITY = next(known for known in DEFINITIONS if known.log == "activity")


def both(definition: Definition, segments: list[list[Event]], cores: int, seed: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:

        async def work() -> dict[str, int]:
            base, place = LocalStore(folder), Place("acme", "prod", "inc-1", definition.log)
            through = await write_log(base, place, segments)
            runners = TwoRunners(base, f"file://{folder}", place, memory_session(cores, seed))
            _, rows = await runners.compare(through)
            return rows

        return asyncio.run(work())


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda known: known.log)
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 1 << 30), cores=st.integers(1, 6), count=st.integers(1, 60))
def test_any_history_gives_the_same_tables(definition: Definition, seed: int, cores: int, count: int) -> None:
    both(definition, Chance(seed).segments(definition, count), cores, seed)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda known: known.log)
@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(seed=65, count=56, share=0.2)
@given(seed=st.integers(0, 1 << 30), count=st.integers(2, 60), share=st.floats(0.01, 0.99))
def test_a_backlog_folded_onto_any_revision_gives_the_same_tables(
    definition: Definition, seed: int, count: int, share: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:

        async def work() -> None:
            base, place = LocalStore(folder), Place("acme", "prod", "inc-1", definition.log)
            through = await write_log(base, place, Chance(seed).segments(definition, count))
            runners = TwoRunners(base, f"file://{folder}", place, memory_session(3, seed))
            middle = max(1, int(through * share))
            job = RefoldJob(definition, middle, f"{0:020d}-base")
            revision = await (runners.local if seed % 2 else runners.spark).refold(job)
            await runners.compare(through, revision)

        asyncio.run(work())


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda known: known.log)
@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 1 << 30), count=st.integers(4, 60), size=st.integers(1, 20))
def test_packed_segments_give_the_same_tables(definition: Definition, seed: int, count: int, size: int) -> None:
    """Whatever is in packs and whatever is loose; the originals are gone."""
    with tempfile.TemporaryDirectory() as folder:

        async def work() -> None:
            base, place = LocalStore(folder), Place("acme", "prod", "inc-1", definition.log)
            through = await write_log(base, place, Chance(seed).segments(definition, count))
            runners = TwoRunners(base, f"file://{folder}", place, memory_session(3, seed))
            loose, _ = await runners.compare(through)
            packs = await runners.pack(base, through * 3 // 4, size)
            for runner in (runners.local, runners.spark):
                job = RefoldJob(definition, through, f"{0:020d}-{type(runner).__name__}", packs=packs)
                assert await runners.tables(await runner.refold(job)) == await runners.tables(loose)

        asyncio.run(work())


def _checks(definition: Definition, count: int) -> list[Event]:
    """Events of a type that two stages fold, each by the same field."""
    chance = Chance(7)
    kind = next(kind for kind in definition.registry if kind.name == "CheckExecuted")
    events = [msgspec.structs.replace(chance.event(definition), type=kind.name, version=1) for _ in range(count)]
    return [
        msgspec.structs.replace(event, data=msgspec.Raw(msgspec.json.encode(chance.value(kind.payload) | {"no": 1})))
        if turn % 3 == 0
        else msgspec.structs.replace(event, data=msgspec.Raw(msgspec.json.encode(chance.value(kind.payload))))
        for turn, event in enumerate(events)
    ]


def test_an_event_that_fits_none_of_its_groups_is_rejected_once() -> None:
    rows = both(ACTIVITY, [_checks(ACTIVITY, 9), _checks(ACTIVITY, 1)], 2, 1)
    assert rows["rejections"] == 4


def test_what_is_no_event_is_corrupt_wherever_it_is_seen(tmp_path: Path) -> None:
    async def work() -> None:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", ACTIVITY.log)
        events = [msgspec.structs.replace(event, actor=5) for event in _checks(ACTIVITY, 3)]
        runners = TwoRunners(base, f"file://{tmp_path}", place, memory_session(2, 1))
        through = await write_log(base, place, [_checks(ACTIVITY, 3), events])
        for runner in (runners.local, runners.spark):
            with pytest.raises(Corrupt, match="arco log verify"):
                await runner.refold(RefoldJob(ACTIVITY, through, f"{0:020d}-{type(runner).__name__}"))

    asyncio.run(work())


@pytest.mark.parametrize("number", [3, 10, 20])
def test_a_lost_segment_is_told_wherever_it_was_among_those_asked_for(tmp_path: Path, number: int) -> None:
    async def work() -> None:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", ACTIVITY.log)
        through = await write_log(base, place, [_checks(ACTIVITY, 1)] * 80)  # 20 a task, asked for 8 at a time
        runners = TwoRunners(base, f"file://{tmp_path}", place, memory_session(1, 1))
        path = Sequence(base, Layout(place).ledger, runners.runtime).path(number)
        await base.delete(f"acme/prod/{path}")
        with pytest.raises(LostObject, match=path):
            await runners.spark.refold(RefoldJob(ACTIVITY, through, f"{0:020d}-spark"))

    asyncio.run(work())


def test_attempts_that_count_for_nothing_leave_only_files_that_nobody_names(tmp_path: Path) -> None:
    definition = DEFINITIONS[1]

    async def left_by(seed: int) -> set[str]:
        folder = tmp_path / str(seed)
        base, place = LocalStore(folder), Place("acme", "prod", "inc-1", definition.log)
        through = await write_log(base, place, Chance(seed).segments(definition, 40))
        runners = TwoRunners(base, f"file://{folder}", place, memory_session(seed, 2))
        manifest, _ = await runners.compare(through)
        named = {file.path for layer in manifest.layers for file in layer.files}
        prefix = f"acme/prod/{Layout(place).state}/{0:020d}-spark-{through}-0"
        written = {info.path.removeprefix("acme/prod/") async for info in base.list(prefix)}
        assert named <= written | {path for path in named if "/private/" in path}
        return written - named

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arco.spark._refold.HOME_BYTES", 0)
        # Whether a task is repeated that writes files is a matter of the seed.
        assert any(asyncio.run(left_by(seed)) for seed in range(1, 9))


@pytest.mark.parametrize("stored", [True, False])
def test_plans_that_are_blobs_are_folded_like_others(tmp_path: Path, stored: bool) -> None:
    definition = DEFINITIONS[1]
    plan = plan_of({"a": (), "b": ("a",), "c": ("a", "b")})

    async def work() -> dict[str, int]:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", definition.log)
        blobs = Blobs(RoleStore(base, Scope("acme", "prod"), Role.OWNER, RequestCounts()))
        text = msgspec.json.encode(plan)
        sha256 = await blobs.put(text if stored else b"[]")
        facts = [triggered(plan), planned_apart(plan, sha256), claim("a", 2), finish("a", 3), claim("b", 4)]
        through = await write_log(base, place, [[fact.event] for fact in facts])
        return (await TwoRunners(base, f"file://{tmp_path}", place, memory_session()).compare(through))[1]

    rows = asyncio.run(work())
    assert (rows["plan_tasks"], rows["rejections"]) == ((3, 0) if stored else (0, 1))


def test_an_empty_log_needs_no_spark(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place("acme", "prod", "inc-1", "activity")
        runners = TwoRunners(LocalStore(tmp_path), f"file://{tmp_path}", place, lambda: pytest.fail("it was started"))
        await runners.compare(0)

    asyncio.run(work())


def test_an_executor_with_another_version_of_the_fold_is_refused(tmp_path: Path) -> None:
    definition = DEFINITIONS[1]

    async def work() -> None:
        base, place = LocalStore(tmp_path), Place("acme", "prod", "inc-1", definition.log)
        through = await write_log(base, place, Chance(3).segments(definition, 2))
        runners = TwoRunners(base, f"file://{tmp_path}", place, memory_session())
        newer = dataclasses.replace(definition, versions={**definition.versions, "execution": 99})
        await runners.spark.refold(RefoldJob(newer, through, f"{0:020d}-spark"))

    with pytest.raises(Outdated, match="install the same arco"):
        asyncio.run(work())


@given(size=st.integers(0, 1 << 36), segments=st.integers(1, 100_000), cores=st.integers(1, 64))
def test_every_core_has_as_many_tasks_that_route(size: int, segments: int, cores: int) -> None:
    tasks = _routes(size, segments, cores)
    assert tasks == segments or (tasks < segments and tasks % cores == 0)
    assert tasks * SEGMENTS_A_TASK >= segments

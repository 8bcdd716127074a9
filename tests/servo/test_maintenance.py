"""Retention of versions and removal of orphans on a whole workspace: what goes, and what must never go."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from arco.assets import Dimension, Engine, StaticPartitions
from arco.core import DAY, HOUR
from arco.domains.execution import (
    MATERIALIZATION_COMPLETED,
    MATERIALIZATIONS,
    PARTITIONS,
    VERSION_STATUS,
    DataFile,
    QuarantineVersion,
    RetentionPolicy,
)
from arco.domains.orchestration import Outcome
from arco.servo import Envelope, RunRequest, remove_orphans, retire_versions
from arco.servo._envelope import data_location
from arco.state import new_event
from arco.storage import Role
from tests.servo.world import ASKED, WORKER, World, project, result_of, run_world

CHAIN = project({"s.a": [], "s.b": ["s.a"]})
STRICT = RetentionPolicy(min_days=1, min_versions=1, max_versions=1, grace_hours=24)


class Data:
    """A world whose worker leaves a file for each version."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.workspace.handle(Role.WORKER)

    async def asset_id(self, key: str) -> str:
        snapshot = await self.world.workspace.logs["activity"].frozen()
        rows = (await snapshot.scan(MATERIALIZATIONS)).to_pylist()
        return next(row["asset_id"] for row in rows if row["asset_key"] == key)

    async def put(self, path: str) -> str:
        await self.store.put(path, b"data", only_if_absent=True)
        return path

    async def paths(self) -> set[str]:
        return {info.path async for info in self.store.list("data")}

    async def claim(self) -> Envelope:
        (envelope,) = await self.world.claim()
        return envelope

    async def finish(self, envelope: Envelope, outcome: Outcome = Outcome.SUCCEEDED) -> list[str]:
        """Write the files of an attempt and end it; their paths."""
        written = [await self.put(f"{place.location}part-0.parquet") for place in envelope.outputs]
        result = result_of(envelope, self.world.runtime.now(), outcome)
        if outcome is Outcome.SUCCEEDED:
            outputs = tuple(
                msgspec.structs.replace(output, files=(DataFile(path, 4, 1),), byte_size=4)
                for output, path in zip(result.outputs, written, strict=True)
            )
            result = msgspec.structs.replace(result, outputs=outputs)
        await self.world.servo.work.finish([result], WORKER)
        return written

    async def make(self, selection: str = "s.a", **fields: Any) -> str:
        """One more version; its file."""
        await self.world.trigger(selection, mode="force", **fields)
        (path,) = await self.finish(await self.claim())
        return path

    async def later(self, micros: int) -> None:
        self.world.runtime.suspend(micros / 1_000_000)

    async def retire(self, policy: RetentionPolicy = STRICT, *, dry_run: bool = False, key: str = "s.a") -> Any:
        ids = [await self.asset_id(key)]
        return await retire_versions(self.world.workspace, ids, policy, ASKED, dry_run=dry_run)

    async def sweep(self, *, dry_run: bool = False, hours: int = 24, locations: set[str] | None = None) -> list[str]:
        ids = [await self.asset_id("s.a")]
        found = await remove_orphans(self.world.workspace, ids, locations or set(), hours=hours, dry_run=dry_run)
        return [info.path for info in found.files]

    async def statuses(self) -> list[str]:
        rows = await self.world.workspace.logs["activity"].replica.rows(VERSION_STATUS, await self.asset_id("s.a"))
        return sorted(row.status for row in rows)


def in_data(work: Callable[[Data], Awaitable[None]]) -> None:
    run_world(lambda world: work(Data(world)), deployed=CHAIN)


def test_versions_expire_and_their_files_go_after_the_grace() -> None:
    async def work(data: Data) -> None:
        made = [await data.make() for _ in range(4)]
        planned = await data.retire(dry_run=True)
        assert (len(planned.expired), await data.statuses()) == (3, [])
        done = await data.retire()
        assert [one.version.version for one in done.expired] == [3, 2, 1]
        assert await data.paths() == set(made), "the files stay for the grace"
        again = await data.retire()
        assert (again.expired, again.deleted, again.waiting) == ([], [], 3)
        await data.later(25 * HOUR)
        assert len((await data.retire(dry_run=True)).deleted) == 3
        assert await data.paths() == set(made)
        last = await data.retire()
        assert len(last.deleted) == 3
        assert await data.paths() == {made[-1]}
        assert await data.statuses() == ["deleted"] * 3
        assert (await data.retire()).deleted == []

    in_data(work)


def test_by_default_two_versions_and_a_week_are_kept() -> None:
    async def work(data: Data) -> None:
        for _ in range(4):
            await data.make()
        assert (await data.retire(RetentionPolicy())).expired == []
        await data.later(8 * DAY)
        assert [one.version.version for one in (await data.retire(RetentionPolicy())).expired] == [2, 1]

    in_data(work)


def test_what_a_run_under_way_reads_stays_readable_to_its_end() -> None:
    async def work(data: Data) -> None:
        pinned = await data.make()
        run_id = await data.world.trigger("s.b", mode="force")
        for _ in range(2):
            await data.world.trigger("s.a", mode="force", priority=5)
            await data.finish(await data.claim())
        kept = await data.retire()
        assert (kept.in_use, [one.version.version for one in kept.expired]) == (1, [2])
        await data.later(30 * DAY)
        again = await data.retire()
        assert (again.in_use, [one.version.version for one in again.deleted]) == (1, [2])
        reading = await data.claim()
        assert [file.path for given in reading.inputs for pin in given.pins for file in pin.files] == [pinned]
        assert pinned in await data.paths()
        await data.finish(reading)
        assert (await data.world.states(run_id)) == {"s.b": "SUCCEEDED"}
        assert [one.version.version for one in (await data.retire()).expired] == [1]

    in_data(work)


def test_a_version_that_expired_and_is_pinned_after_all_keeps_its_files() -> None:
    """A plan may have been made just before a version expired; its run begins just after."""

    async def work(data: Data) -> None:
        pinned = await data.make()
        request = RunRequest(selection="s.b", at=data.world.runtime.now())
        planned = await data.world.servo.runs.plan(request)
        await data.make()
        await data.retire()
        command = await data.world.servo.runs._command(planned)
        await data.world.workspace.decide("activity", command, actor="tester")
        await data.later(3 * DAY)
        assert (await data.retire()).in_use == 1
        assert pinned in await data.paths()
        await data.finish(await data.claim())
        await data.retire()
        assert pinned not in await data.paths()

    in_data(work)


def test_what_a_run_made_that_is_not_over_stays_too() -> None:
    """Another task of it may read that very version, however many newer ones there are."""

    async def work(data: Data) -> None:
        await data.world.trigger("*", mode="force")
        first = await data.finish(await data.claim())
        for _ in range(2):
            await data.world.trigger("s.a", mode="force", priority=5)
            await data.finish(await data.claim())
        found = await data.retire()
        assert (found.in_use, [one.version.version for one in found.expired]) == (1, [2])
        reading = await data.claim()
        assert [file.path for given in reading.inputs for pin in given.pins for file in pin.files] == first
        await data.finish(reading)

    in_data(work)


def test_what_is_quarantined_is_kept_for_the_days_of_the_policy_and_then_goes() -> None:
    async def work(data: Data) -> None:
        await data.make()
        bad = await data.make()
        asset_id = await data.asset_id("s.a")
        row = await data.world.workspace.logs["activity"].replica.rows(PARTITIONS, asset_id)
        command = QuarantineVersion(asset_id, row[0].current_materialization_id, "off")
        await data.world.workspace.decide("activity", command, actor="ann")
        policy = RetentionPolicy()
        await data.later(6 * DAY)
        assert (await data.retire(policy)).expired == []
        await data.later(2 * DAY)
        (gone,) = (await data.retire(policy)).expired
        assert gone.reason == "quarantined, and nobody released it for 7 days"
        await data.later(2 * DAY)
        await data.retire(policy)
        assert bad not in await data.paths()
        assert len(await data.paths()) == 1

    in_data(work)


def test_files_that_another_version_names_and_files_of_others_are_not_deleted() -> None:
    async def work(data: Data) -> None:
        shared = await data.make()
        await data.make()
        asset_id = await data.asset_id("s.a")
        snapshot = await data.world.workspace.logs["activity"].frozen()
        (like,) = [row for row in await snapshot.rows(MATERIALIZATIONS, asset_id) if row.version == 1]
        await _record(data, like, "other-1", "other", shared)
        await _record(data, like, "foreign-1", asset_id, "data/elsewhere/1.parquet")
        await _record(data, like, "foreign-2", asset_id, "data/elsewhere/2.parquet")
        await data.put("data/elsewhere/1.parquet")
        done = await data.retire()
        assert done.foreign == 1
        await data.later(2 * DAY)
        await data.retire()
        assert {shared, "data/elsewhere/1.parquet"} <= await data.paths()

    in_data(work)


async def _record(data: Data, like: Any, name: str, asset_id: str, path: str) -> None:
    told = msgspec.structs.asdict(like)
    fact = {name: told[name] for name in told if name not in ("version", "file_count") and told[name] is not None}
    fact |= {"materialization_id": name, "asset_id": asset_id, "files": (DataFile(path, 4, 1),)}
    event = new_event(MATERIALIZATION_COMPLETED, MATERIALIZATION_COMPLETED.payload(**fact))
    await data.world.workspace.record("activity", [event], actor="others")


def test_orphans_are_what_no_version_and_no_attempt_owns_and_old_enough() -> None:
    async def work(data: Data) -> None:
        good = await data.make()
        sample = await data.put(f"{good.rpartition('/')[0]}/samples/bad.json")
        await data.world.trigger("s.a", mode="force")
        (failed,) = await data.finish(await data.claim(), Outcome.FAILED)
        await data.world.trigger("s.a", mode="force")
        running = await data.claim()
        writing = await data.put(f"{running.outputs[0].location}part-0.parquet")
        strange = [
            await data.put(f"data/{await data.asset_id('s.a')}/{name}")
            for name in ("1.csv", "p/notes.txt", "p/x/y.csv")
        ]
        assert await data.sweep() == [], "everything is young"
        await data.later(25 * HOUR)
        assert await data.sweep(hours=48) == []
        assert await data.sweep(dry_run=True) == [failed]
        assert failed in await data.paths()
        below = f"data/{await data.asset_id('s.a')}"
        assert await data.sweep(locations={below}) == [], "a table of the catalog may lie there"
        assert await data.sweep() == [failed]
        assert await data.paths() == {good, sample, writing, *strange}
        assert await data.sweep() == []

    in_data(work)


def test_what_a_crash_left_of_deleted_versions_is_swept() -> None:
    async def work(data: Data) -> None:
        old = await data.make()
        await data.make()
        await data.retire()
        await data.later(25 * HOUR)
        assert await data.sweep() == [], "expired is not deleted"
        await data.retire()
        left = await data.put(f"{old.rpartition('/')[0]}/samples/not_null(id).parquet")
        await data.later(25 * HOUR)
        assert await data.sweep() == [left]

    in_data(work)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a batch"])
def test_samples_of_failing_rows_stay_and_go_with_their_version(alone: bool) -> None:
    async def work(data: Data) -> None:
        places, samples = [], []
        for _ in range(2):
            await data.world.trigger("s.a", mode="force")
            envelope = await data.claim()
            if not alone:
                envelope = as_in_batch(envelope)
            places += await data.finish(envelope)
            samples.append(await data.put(f"{envelope.outputs[0].location}samples/not_null(id).parquet"))
        await data.retire()
        await data.later(25 * HOUR)
        assert await data.sweep() == [], "the samples of a version are its own"
        assert await data.paths() == {*places, *samples}
        await data.retire()
        assert await data.paths() == {places[1], samples[1]}

    in_data(work)


def as_in_batch(envelope: Envelope) -> Envelope:
    """The same as if a job over a batch wrote it."""
    places = tuple(
        msgspec.structs.replace(
            place, location=data_location(place.asset_id, place.partition_id, place.materialization_id, "batch")
        )
        for place in envelope.outputs
    )
    return msgspec.structs.replace(envelope, outputs=places)


# Versions of a batch


BATCHED = project({"s.a": []}, engine=Engine.SPARK, partitions=(Dimension("k", StaticPartitions(("a", "b", "c"))),))


def in_batch(work: Callable[[Data, list[Envelope]], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        await world.trigger("s.a", partitions={"k": "*"})
        await work(Data(world), await world.claim())

    run_world(main, deployed=BATCHED)


def test_versions_of_a_batch_lie_in_its_folder_and_retire_like_others() -> None:
    async def work(data: Data, envelopes: list[Envelope]) -> None:
        assert len({envelope.batch_id for envelope in envelopes}) == 1
        first = [path for envelope in envelopes for path in await data.finish(envelope)]
        assert all(f"/{envelopes[0].batch_id}/arco_version=" in path for path in first)
        await data.world.trigger("s.a", mode="force", partitions={"k": "a"})
        (alone,) = await data.finish(await data.claim())
        done = await data.retire()
        assert (len(done.expired), done.foreign) == (1, 0)
        await data.later(25 * HOUR)
        assert await data.sweep() == []
        await data.retire()
        gone = next(path for path in first if envelopes[0].outputs[0].materialization_id in path)
        assert await data.paths() == {*first, alone} - {gone}

    in_batch(work)


def test_what_a_killed_job_over_a_batch_left_is_swept_and_what_one_that_runs_writes_is_not() -> None:
    async def work(data: Data, envelopes: list[Envelope]) -> None:
        batch = envelopes[0].outputs[0].location.rsplit("/", 2)[0]
        temporary = await data.put(f"{batch}/_temporary/0/_temporary/attempt_1/arco_version=x/part-0.parquet")
        unplaced = await data.put(f"{batch}/arco_version=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
        written = await data.put(f"{envelopes[1].outputs[0].location}part-9.parquet")
        inside = await data.put(f"{envelopes[1].outputs[0].location}_temporary/0/part-9.parquet")
        good = await data.finish(envelopes[0])
        await data.later(25 * HOUR)
        assert await data.sweep() == [], "two tasks of the batch still run"
        for envelope in envelopes[1:]:
            await data.finish(envelope, Outcome.FAILED)
        assert await data.sweep(hours=48) == []
        failed = {f"{envelope.outputs[0].location}part-0.parquet" for envelope in envelopes[1:]}
        await data.later(25 * HOUR)
        assert set(await data.sweep()) == {temporary, unplaced, written, inside, *failed}
        assert await data.paths() == set(good)

    in_batch(work)

"""Small-file compaction on a whole workspace: nobody who reads sees a difference, whatever happens meanwhile."""

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import Dimension, StaticPartitions
from arco.core import DAY, HOUR, MINUTE, Conflict, Invalid, Refused, Unavailable, new_ulid
from arco.domains.execution import (
    FILE_STATISTICS,
    CompactFiles,
    DataFile,
    ExpireVersions,
    QuarantineVersion,
    RefreshStatistics,
    RetentionPolicy,
)
from arco.servo import RunRequest, refresh_statistics, retire_versions, version_detail
from arco.servo._compaction import _Due
from arco.storage import Role
from arco.storage._rolestore import Operation
from tests.servo.small_files import Small, in_small, parquet
from tests.servo.world import ASKED, mark_personal, project

STRICT = RetentionPolicy(min_days=1, min_versions=1, max_versions=1, grace_hours=24)


def test_a_version_gets_fewer_files_and_stays_what_it_was() -> None:
    async def work(small: Small) -> None:
        name = await small.make(*[(3 * n + 2, 3 * n, 3 * n + 1) for n in range(20)])
        rows, before = await small.ids(name), await small.version(name)
        (one,) = (await small.compact()).compacted
        assert (len(one.before), one.files_after) == (20, 1)
        assert await small.ids(name) == rows
        assert await small.version(name) == before, "facts never change"
        (file,) = await small.files(name)
        assert file.row_count == 60
        assert [(stat.column, stat.null_count, stat.min, stat.max) for stat in file.stats] == [
            ("id", 0, "0", "59"),
            ("name", 0, "n0", "n9"),
        ]
        partition = await small.partition()
        assert (partition.current_materialization_id, partition.file_count) == (name, 1)
        assert (partition.row_count, partition.byte_size) == (60, file.size_bytes)
        view = await small.world.workspace.logs["activity"].frozen()
        detail = await version_detail(view, small.asset_id, name)
        assert [shown.path for shown in detail.files] == [file.path]
        assert (detail.file_count, detail.byte_size) == (1, file.size_bytes)
        assert detail.compacted_at is not None
        again = await small.compact()
        assert (again.looked_at, again.compacted) == (1, [])

    in_small(work)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1000), max_size=30), min_size=1, max_size=30),
    st.integers(1_000, 20_000),
    st.integers(2, 6),
)
def test_rows_are_equal_before_and_after(parts: list[list[int]], target: int, min_files: int) -> None:
    async def work(small: Small) -> None:
        name = await small.make(*parts)
        for _ in range(2):
            await small.compact(target=target, min_files=min_files)
            assert await small.ids(name) == [number for part in parts for number in part]
            files = await small.files(name)
            assert sum(file.row_count for file in files) == sum(map(len, parts))
            for file in files:
                data = await small.store.get(file.path)
                rows = pq.read_metadata(pa.BufferReader(data)).num_rows
                assert (len(data), rows) == (file.size_bytes, file.row_count)

    in_small(work)


def test_a_dry_run_says_the_same_and_touches_nothing() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        before = await small.paths()
        planned = await small.compact(dry_run=True)
        assert [(len(one.before), one.files_after, one.bytes_after) for one in planned.compacted] == [(10, 1, None)]
        assert planned.compacted[0].merged_bytes == sum(file.size_bytes for file in await small.files(name))
        assert (small.reader.calls, small.writer.calls) == ([], [])
        assert await small.paths() == before
        assert await small.compacted(name) is None
        (done,) = (await small.compact()).compacted
        assert (done.files_after, done.merged_bytes) == (1, planned.compacted[0].merged_bytes)

    in_small(work)


def test_each_file_is_read_once_and_each_new_one_written_once() -> None:
    async def work(small: Small) -> None:
        name = await small.make(*[(number,) for number in range(10, 50)])
        size = (await small.files(name))[0].size_bytes
        await small.compact(target=size * 10 + 9)
        assert sorted(kind for kind, _ in small.reader.calls) == ["get"] * 40
        assert [kind for kind, _ in small.writer.calls] == ["create"] * 4
        assert len(await small.files(name)) == 4

    in_small(work)


def test_what_was_merged_together_is_recorded_in_one_append() -> None:
    keyed = project({"s.a": []}, partitions=(Dimension("k", StaticPartitions(tuple("abcdefgh"))),))

    async def work(small: Small) -> None:
        await small.world.trigger("s.a", partitions={"k": "*"})
        for envelope in await small.world.claim(8):
            await small.finish(envelope, [(number,) for number in range(6)])
        done = await small.compact(keys={"k=s:a", "k=s:b"})
        assert (done.looked_at, len(done.compacted)) == (2, 2)
        before = _appends(small)
        assert len((await small.compact()).compacted) == 6
        assert _appends(small) - before <= 2, "the first may go alone, the others wait for it together"

    in_small(work, keyed)


def _appends(small: Small) -> int:
    return small.world.workspace.counts.count(Role.OWNER, Operation.CREATE)


def test_a_call_ends_where_the_merger_has_no_more_room() -> None:
    keyed = project({"s.a": []}, partitions=(Dimension("k", StaticPartitions(tuple("abcd"))),))

    async def work(small: Small) -> None:
        await small.world.trigger("s.a", partitions={"k": "*"})
        for envelope in await small.world.claim(4):
            await small.finish(envelope, [(number,) for number in range(6)])
        merger = small.merger
        merger.room = 1
        after, turns = None, 0
        while turns == 0 or after is not None:
            done = await small.compact(merger=merger, after=after)
            assert len(done.compacted) <= 1
            after, turns = done.last_partition, turns + 1
        assert turns in (4, 5)
        assert (await small.compact()).compacted == []

    in_small(work, keyed)


def test_versions_with_few_files_and_files_of_others_stay() -> None:
    async def work(small: Small) -> None:
        name = await small.make((1,), (2,), (3,), (4,))
        assert (await small.compact()).compacted == []
        assert len((await small.compact(min_files=4)).compacted) == 1
        assert await small.ids(name) == [1, 2, 3, 4]

    in_small(work)


# Readers


def test_who_was_told_of_the_old_files_reads_them_as_long_as_its_attempt_runs() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        old = {file.path for file in await small.files(name)}
        await small.world.trigger("s.b", mode="force")
        (reading,) = await small.world.claim()
        await small.compact()
        small.later(3 * DAY)
        assert await small.sweep(1) == set(), "an attempt that was claimed before reads them"
        told = [file.path for given in reading.inputs for pin in given.pins for file in pin.files]
        assert set(told) == old
        assert await small.read(told) == list(range(10))
        await small.finish(reading, [(1,)])
        assert await small.sweep(1) == old
        assert await small.ids(name) == list(range(10))

    in_small(work)


def test_who_is_told_later_gets_the_new_files_of_the_same_version() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        run_id = await small.world.trigger("s.b", mode="force")
        await small.compact()
        (reading,) = await small.world.claim()
        (pin,) = reading.inputs[0].pins
        assert pin.materialization_id == name
        assert await small.read([file.path for file in pin.files]) == list(range(10))
        await small.finish(reading, [(1,)])
        assert await small.world.states(run_id) == {"s.b": "SUCCEEDED"}
        plan = await small.world.servo.runs.plan(RunRequest(selection="s.b", at=small.world.runtime.now()))
        assert plan.plan.tasks == (), "what was made of it is up to date: it is the same version"

    in_small(work)


def test_replaced_files_stay_for_the_hours_and_go_then() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        old = {file.path for file in await small.files(name)}
        small.later(10 * DAY)
        await small.compact()
        small.later(23 * HOUR)
        assert await small.sweep() == set(), "the files are old, but they were replaced lately"
        small.later(2 * HOUR)
        assert await small.sweep(dry_run=True) == old
        assert await small.sweep() == old
        assert await small.paths() == {file.path for file in await small.files(name)}
        assert await small.ids(name) == list(range(10))

    in_small(work)


def test_a_version_can_be_compacted_again_and_every_list_has_its_time() -> None:
    async def work(small: Small) -> None:
        name = await small.make(*[(number,) for number in range(10, 30)])
        first = {file.path for file in await small.files(name)}
        size = (await small.files(name))[0].size_bytes
        await small.compact(target=size * 2 + 9)
        second = {file.path for file in await small.files(name)}
        small.later(20 * HOUR)
        await small.compact()
        (third,) = await small.files(name)
        assert await small.ids(name) == list(range(10, 30))
        small.later(5 * HOUR)
        assert await small.sweep() == first
        small.later(20 * HOUR)
        assert await small.sweep() == second
        assert await small.paths() == {third.path}
        row = await small.compacted(name)
        assert row is not None
        assert len(row.former) == 2

    in_small(work)


def test_a_version_that_is_current_again_has_its_compacted_totals() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        await small.compact()
        newer = await small.make((1,), (2,))
        assert (await small.partition()).file_count == 2
        command = QuarantineVersion(small.asset_id, newer, "off")
        await small.world.workspace.decide("activity", command, actor="ann")
        partition = await small.partition()
        assert (partition.current_materialization_id, partition.file_count) == (name, 1)

    in_small(work)


# What happens meanwhile


def test_what_a_killed_compaction_wrote_is_an_orphan_and_nothing_else_happened() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        before = await small.paths()
        small.writer.on("create", error=Unavailable("gone"), applied=True)
        with pytest.raises(Unavailable):
            await small.compact()
        left = await small.paths() - before
        assert len(left) == 1
        assert await small.compacted(name) is None
        assert await small.ids(name) == list(range(10))
        assert await small.sweep(1) == set(), "it may still be under way"
        small.later(61 * MINUTE)
        assert await small.sweep(1) == left
        assert await small.paths() == before
        assert len((await small.compact()).compacted) == 1

    in_small(work)


def test_of_two_compactions_at_once_one_counts() -> None:
    async def work(small: Small) -> None:
        name = await small.make()

        async def other() -> None:
            assert len((await small.compact()).compacted) == 1

        small.writer.on("create", hook=other)
        late = await small.compact()
        assert (late.compacted, late.changed) == ([], 1)
        assert await small.ids(name) == list(range(10))
        (file,) = await small.files(name)
        small.later(2 * DAY)
        await small.sweep()
        assert await small.paths() == {file.path}

    in_small(work)


def test_a_partition_that_is_made_anew_meanwhile_is_what_it_was_made_to() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        newer: list[str] = []

        async def overwrite() -> None:
            newer.append(await small.make((100,), (200,)))

        small.writer.on("create", hook=overwrite)
        await small.compact()
        partition = await small.partition()
        assert (partition.current_materialization_id, partition.file_count, partition.row_count) == (newer[0], 2, 2)
        assert await small.ids(newer[0]) == [100, 200]
        assert await small.ids(name) == list(range(10)), "older versions stay readable"

    in_small(work)


def test_a_version_that_retention_let_go_meanwhile_is_left_alone() -> None:
    async def work(small: Small) -> None:
        name = await small.make()

        async def expire() -> None:
            await small.make((1,))
            small.later(5 * MINUTE)
            command = ExpireVersions(small.asset_id, (name,), STRICT)
            await small.world.workspace.decide("activity", command, actor="ann")

        small.writer.on("create", hook=expire)
        done = await small.compact()
        assert (done.compacted, done.changed) == ([], 1)
        assert await small.compacted(name) is None

    in_small(work)


def test_a_compaction_that_took_too_long_is_refused_because_its_files_may_be_gone() -> None:
    async def work(small: Small) -> None:
        name = await small.make()

        async def wait() -> None:
            small.later(31 * MINUTE)

        small.writer.on("create", hook=wait)
        assert (await small.compact()).changed == 1
        assert await small.compacted(name) is None

    in_small(work)


@pytest.mark.parametrize("harm", ["missing", "damaged", "other"])
def test_files_that_are_not_what_they_should_be_stay_and_are_told(harm: str) -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        path = (await small.files(name))[3].path
        data = await small.store.get(path)
        await small.world.workspace.handle(Role.COLLECTOR).delete(path)
        if harm != "missing":
            other = parquet(7, 8, 9) if harm == "other" else data[:8] + b"\0" * (len(data) - 16) + data[-8:]
            await small.store.put(path, other, only_if_absent=True)
        done = await small.compact()
        assert (done.compacted, [one.version.materialization_id for one in done.unmerged]) == ([], [name])
        assert await small.compacted(name) is None

    in_small(work)


# What is decided


def test_only_the_same_number_of_rows_in_files_of_the_compaction_is_taken() -> None:
    async def work(small: Small) -> None:
        name = await small.make((1, 2), (3,))
        runtime, decide = small.world.runtime, small.world.workspace.decide
        own = new_ulid(runtime, runtime)
        place = f"data/{small.asset_id}/compaction-{own}/arco_version={name}/x.parquet"

        def command(*files: DataFile, base: str = "") -> CompactFiles:
            return CompactFiles(small.asset_id, name, own, base, files)

        with pytest.raises(Invalid, match="another number"):
            await decide("activity", command(DataFile(place, 1, 4)), actor="me")
        with pytest.raises(Invalid, match="may have written"):
            await decide("activity", command(DataFile("data/other/x.parquet", 1, 3)), actor="me")
        with pytest.raises(Conflict):
            await decide("activity", command(DataFile(place, 1, 3), base=new_ulid(runtime, runtime)), actor="me")
        await decide("activity", command(DataFile(place, 1, 3)), actor="me")
        await decide("activity", command(DataFile(place, 1, 3)), actor="me")  # asked again: nothing happens
        row = await small.compacted(name)
        assert row is not None
        assert len(row.former) == 1
        old = msgspec.structs.replace(command(DataFile(place, 1, 3), base=own), compaction_id="0" * 26)
        with pytest.raises(Refused, match="longer than"):
            await decide("activity", old, actor="me")

    in_small(work)


def test_bounds_that_were_withheld_stay_withheld() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        files = await small.files(name)
        hidden = msgspec.structs.replace(files[4].stats[1], min=None, max=None)
        told = msgspec.structs.replace(files[4], stats=(files[4].stats[0], hidden))
        version = await small.version(name)
        due = _Due(version, "", (*files[:4], told, *files[5:]), (range(10),))
        (merged,) = due.with_merged([DataFile("new", 1, 10, files[0].stats)])
        assert [(stat.column, stat.max is None) for stat in merged.stats] == [("id", False), ("name", True)]

    in_small(work)


def test_merged_files_tell_no_bounds_of_personal_columns() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        await mark_personal(small.world, "Name")
        await small.compact()
        (merged,) = await small.files(name)
        assert [(stat.column, stat.max is None) for stat in merged.stats] == [("id", False), ("name", True)]

    in_small(work)


def test_statistics_are_those_of_the_files_that_are_there() -> None:
    async def work(small: Small) -> None:
        name = await small.make()
        files = await small.files(name)
        noted = msgspec.structs.replace(files[0], size_bytes=files[0].size_bytes)
        command = RefreshStatistics(small.asset_id, name, (noted,))
        await small.world.workspace.decide("activity", command, actor="me")
        await small.compact()
        replica = small.world.workspace.logs["activity"].replica
        assert await replica.rows(FILE_STATISTICS, small.asset_id) == []
        found = await refresh_statistics(small.world.workspace, small.asset_id, None, ASKED, dry_run=False)
        assert (found.read, found.refreshed, found.missing) == (1, [], [])

    in_small(work)


def test_retention_deletes_what_a_compaction_made_and_what_it_replaced() -> None:
    async def work(small: Small) -> None:
        first = await small.make()
        await small.compact()
        size = sum(file.size_bytes for file in await small.files(first))
        last = await small.make((1,))
        workspace, ids = small.world.workspace, [small.asset_id]
        done = await retire_versions(workspace, ids, STRICT, ASKED, dry_run=False)
        assert [(one.version.materialization_id, one.byte_size) for one in done.expired] == [(first, size)]
        assert done.expired[0].version.byte_size != size
        small.later(25 * HOUR)
        done = await retire_versions(workspace, ids, STRICT, ASKED, dry_run=False)
        assert len(done.deleted) == 1
        assert await small.paths() == {file.path for file in await small.files(last)}

    in_small(work)

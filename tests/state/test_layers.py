"""Reading files: damaged bytes are `Corrupt`, a missing file is `LostObject`, a failing store is `Unavailable`.

None of these is ever "no rows", and no damage gives other rows.
"""

import asyncio
import dataclasses

import pyarrow as pa
import pytest

from arco.core import Corrupt, LostObject, Unavailable
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS
from arco.state import File, Layer, LayerReader, Table
from arco.state import _codec as codec
from arco.state import _files as files
from arco.state._files import FileWriter, describe
from arco.state._layers import keep_alive
from arco.state._layout import Layout
from arco.storage import MemoryStore, ObjectMissing, StoreFailed
from tests.doubles import START, FakeRuntime, FaultyStore, run
from tests.state.doubles import PLACE, replica_of, segments_of
from tests.state.histories import ACTIVITY, completed

TABLES = [MATERIALIZATIONS, PARTITIONS]


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is large: it has several row groups and is read in parts."""
    monkeypatch.setattr(files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(codec, "ROW_GROUP_ROWS", 16)


async def encoded(table: Table, count: int = 60) -> tuple[pa.Table, bytes, File]:
    events = [completed(f"m{i}", asset=f"a{i % 20}", partition=f"p{i}") for i in range(count)]
    replica = await replica_of(ACTIVITY, [segments_of([events])])
    data = codec.to_arrow(table, replica.dirty[table.name].items())
    written = codec.to_parquet(table, data)
    return data, written, describe(table, data, written, "file", 0)


async def read(table: Table, file: File, stored: bytes, buckets: set[int] | None) -> pa.Table:
    store = MemoryStore()
    await store.put("file", stored, only_if_absent=True)
    return await LayerReader(store).read(table, file, buckets)


def only(data: pa.Table, buckets: set[int]) -> pa.Table:
    return data.filter(pa.compute.is_in(data.column("_bucket"), pa.array(sorted(buckets), pa.uint8())))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_changed_byte_anywhere_in_a_file_that_is_read_whole_is_corrupt(table: Table) -> None:
    async def main() -> None:
        data, written, file = await encoded(table, 12)
        assert file.footer is None
        assert (await read(table, file, written, None)).equals(data)
        for at in range(0, len(written), 7):
            broken = bytearray(written)
            broken[at] ^= 1 << at % 8
            with pytest.raises(Corrupt):
                await read(table, file, bytes(broken), None)
        for length in range(0, len(written), 101):
            with pytest.raises(Corrupt):
                await read(table, file, written[:length], {1})

    asyncio.run(main())


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_changed_byte_in_a_file_that_is_read_in_parts_never_gives_other_rows(table: Table) -> None:
    """Bytes that are not fetched may be anything; every fetched one is guarded by a checksum or means nothing."""

    async def main() -> None:
        data, written, file = await encoded(table)
        assert file.footer is not None
        buckets = set(data.column("_bucket").to_pylist()[:3])
        wanted = only(data, buckets)
        assert (await read(table, file, written, buckets)).equals(wanted)
        caught = 0
        for at in range(0, len(written), 23):
            broken = bytearray(written)
            broken[at] ^= 1 << at % 8
            try:
                assert (await read(table, file, bytes(broken), buckets)).equals(wanted)
            except Corrupt:
                caught += 1
                continue
            assert at < len(written) - file.footer[0], "a changed footer went unnoticed"
        assert caught > len(written) // 23 // 4
        for length in range(0, len(written), 701):
            with pytest.raises(Corrupt):
                await read(table, file, written[:length], buckets)

    asyncio.run(main())


@pytest.mark.usefixtures("in_parts")
def test_of_a_large_file_only_the_footer_and_the_row_groups_with_the_buckets_are_fetched() -> None:
    async def main() -> None:
        data, written, file = await encoded(MATERIALIZATIONS, 200)
        store = FaultyStore(MemoryStore())
        await store.put("file", written, only_if_absent=True)
        reader = LayerReader(store)
        buckets = {data.column("_bucket").to_pylist()[0]}
        store.calls.clear()
        assert (await reader.read(MATERIALIZATIONS, file, buckets)).equals(only(data, buckets))
        assert store.calls == [("get_range", "file")] * 2
        store.calls.clear()
        await reader.read(MATERIALIZATIONS, file, buckets)
        assert store.calls == [("get_range", "file")], "the footer is remembered"
        absent = next(bucket for bucket in range(256) if bucket not in data.column("_bucket").to_pylist())
        assert (await reader.read(MATERIALIZATIONS, file, {absent})).num_rows == 0

    asyncio.run(main())


@pytest.mark.usefixtures("in_parts")
def test_only_so_many_footers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    from arco.state import _layers

    monkeypatch.setattr(_layers, "FOOTERS", 1)

    async def main() -> None:
        data, written, file = await encoded(PARTITIONS)
        store = FaultyStore(MemoryStore())
        for name in ("one", "two"):
            await store.put(name, written, only_if_absent=True)
        reader = LayerReader(store)
        bucket = {data.column("_bucket").to_pylist()[0]}
        for name in ("one", "two", "one"):
            store.calls.clear()
            other = File(name, 0, file.length, file.sha256, file.rows, file.buckets, {}, file.footer)
            assert (await reader.read(PARTITIONS, other, bucket)).num_rows
            assert len(store.calls) == 2

    asyncio.run(main())


def test_a_file_that_vanished_is_a_lost_object_and_a_failing_store_is_unavailable() -> None:
    async def main() -> None:
        _, written, file = await encoded(PARTITIONS, 3)
        layer = Layer("partitions", 0, "0", "9", (file,))
        with pytest.raises(LostObject, match="file is missing although a manifest names it"):
            await LayerReader(MemoryStore()).rows(PARTITIONS, [layer])
        store = FaultyStore(MemoryStore())
        await store.put("file", written, only_if_absent=True)
        store.on("get_range", error=StoreFailed("503"), times=1)
        reader = LayerReader(store)
        with pytest.raises(Unavailable, match="file cannot be read now"):
            await reader.rows(PARTITIONS, [layer])
        assert (await reader.rows(PARTITIONS, [layer])).num_rows == 3

    asyncio.run(main())


def test_files_without_a_wanted_bucket_are_not_read() -> None:
    async def main() -> None:
        data, _, file = await encoded(PARTITIONS, 3)
        absent = next(bucket for bucket in range(256) if not file.has_bucket(bucket))
        layer = Layer("partitions", 0, "0", "9", (file,))
        assert (await LayerReader(MemoryStore()).rows(PARTITIONS, [layer], {absent})).num_rows == 0
        assert all(file.has_bucket(bucket) for bucket in data.column("_bucket").to_pylist())

    asyncio.run(main())


def test_rows_past_retention_fall_at_the_very_microsecond() -> None:
    async def main() -> None:
        events = [completed(f"m{i}", time=START + i) for i in range(4)]
        replica = await replica_of(ACTIVITY, [segments_of([events])])
        data = codec.to_arrow(MATERIALIZATIONS, replica.dirty["materializations"].items())
        assert keep_alive(MATERIALIZATIONS, data, START + 2).column("materialization_id").to_pylist() == ["m2", "m3"]
        assert keep_alive(MATERIALIZATIONS, data, None).equals(data)
        assert keep_alive(PARTITIONS, data, START + 2).equals(data)

    asyncio.run(main())


def writer(store: FaultyStore, runtime: FakeRuntime) -> FileWriter:
    return FileWriter(store, Layout(PLACE), "0-attempt", runtime)


def test_a_write_that_fails_is_repeated_and_one_that_landed_before_is_ours() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        store.on("create", error=StoreFailed("503"), times=2)
        store.on("create", error=StoreFailed("applied, then lost"), applied=True)
        await writer(store, FakeRuntime()).put("x", b"bytes")
        assert await store.get("x") == b"bytes"
        assert [call for call in store.calls if call[0] == "create"] == [("create", "x")] * 4

    run(main())


def test_a_store_that_keeps_failing_makes_the_writer_give_up() -> None:
    async def main() -> None:
        store = FaultyStore(MemoryStore())
        store.on("create", error=StoreFailed("503"), times=100)
        with pytest.raises(Unavailable, match="x cannot be written now"):
            await writer(store, FakeRuntime()).put("x", b"bytes")
        with pytest.raises(ObjectMissing):
            await store.get("x")

    run(main())


def test_nothing_of_the_values_in_a_private_table_stands_in_the_manifest() -> None:
    async def main() -> None:
        data, _, _ = await encoded(MATERIALIZATIONS)
        private = dataclasses.replace(MATERIALIZATIONS, private=True)
        store = FaultyStore(MemoryStore())
        (shown,) = await writer(store, FakeRuntime()).files(MATERIALIZATIONS, data, "shown")
        (hidden,) = await writer(store, FakeRuntime()).files(private, data, "hidden")
        assert sorted(shown.stats) == sorted(MATERIALIZATIONS.prune) != []
        assert hidden.stats == {}

    run(main())


def test_large_results_are_split_between_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        data, _, _ = await encoded(PARTITIONS)
        monkeypatch.setattr(files, "SPLIT_BYTES", data.nbytes // 4)
        store = FaultyStore(MemoryStore())
        written = await writer(store, FakeRuntime()).files(PARTITIONS, data, "merged")
        assert len(written) > 2
        assert sum(file.rows for file in written) == data.num_rows
        seen = 0
        for file in written:
            assert not int(file.buckets, 16) & seen, "a bucket stands in two files"
            seen |= int(file.buckets, 16)
        layer = Layer("partitions", 1, "0", "9", written)
        assert (await LayerReader(store).rows(PARTITIONS, [layer], dead=True)).equals(data)
        assert await writer(store, FakeRuntime()).files(PARTITIONS, data.slice(0, 0), "empty") == ()

    run(main())

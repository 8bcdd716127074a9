"""Rows that are made late: whatever was loaded, evicted or frozen, a replica shows what a scan of everything shows."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.log import Event, EventType
from arco.state import (
    Cadence,
    Definition,
    Domain,
    Group,
    Input,
    Kind,
    Replica,
    Snapshot,
    Stage,
    Table,
    define_log,
    freeze,
)
from arco.state import _bucket as buckets
from arco.storage import MemoryStore
from tests.doubles import FakeRuntime, run
from tests.state.doubles import Journal, digests, event, open_node, replica_of, segments_of
from tests.state.histories import ACTIVITY, CATALOG_LOG, activity_events, catalog_events, histories
from tests.state.toy import NOTES, NoteSet, dropped, noted
from tests.state.world import TOY, World, simulate

both = st.one_of(
    st.tuples(st.just(ACTIVITY), histories(activity_events, 8)),
    st.tuples(st.just(CATALOG_LOG), histories(catalog_events, 8)),
)
deeds = st.lists(st.sampled_from(["publish", "compact", "evict", "freeze", "check", "nothing"]), max_size=8)


async def check_groups(definition: Definition, source: Replica | Snapshot) -> None:
    """By key, by group and page by page: each time exactly the rows of a scan."""
    for table in definition.tables.values():
        data = await source.scan(table)
        names = data.column(table.group).to_pylist()
        count: dict[str, int] = {name: names.count(name) for name in names}
        for group in [*count, "absent"]:
            rows = await source.rows(table, group)
            assert len(rows) == count.get(group, 0)
            keys = [table.key_of(row) for row in rows]
            assert keys == sorted(keys)
            for key, row in zip(keys, rows, strict=True):
                assert await source.get(table, group, key) == row
            for size in (1, 2, 100):
                paged: list[Any] = []
                while page := await source.page(table, group, table.key_of(paged[-1]) if paged else None, size):
                    assert len(page) <= size
                    paged += page
                assert paged == rows


@pytest.mark.parametrize("large", [1, 2, 256])
def test_a_replica_shows_by_key_group_and_page_what_a_scan_shows_and_a_frozen_one_never_changes(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "LARGE", large)
    monkeypatch.setattr(buckets, "FIRST_ROWS", 1)

    @settings(deadline=None, max_examples=25)
    @given(both, deeds)
    def run_history(history: tuple[Definition, list[list[Event]]], found: list[str]) -> None:
        run(follow(*history, found))

    run_history()


async def follow(definition: Definition, segments: list[list[Event]], found: list[str]) -> None:
    runtime = FakeRuntime()
    store = MemoryStore(runtime)
    journal, node = Journal(store, runtime), await open_node(runtime, store, definition, cadence=Cadence(fan_in=3))
    frozen: list[tuple[Snapshot, int, dict[str, str]]] = []
    for number, events in enumerate(segments):
        await runtime.sleep(1)
        await journal.append(*events)
        await node.follower.catch_up()
        deed = found[number] if number < len(found) else "check"
        if deed == "publish":
            await node.compactor.publish()
        elif deed == "compact":
            await node.compactor.compact()
        elif deed == "evict":
            node.replica.evict()
        elif deed == "check":
            await check_groups(definition, node.replica)
        elif deed == "freeze":
            snapshot = freeze(definition, node.replica)
            frozen.append((snapshot, node.replica.watermark, await digests(definition, node.replica)))
    await check_groups(definition, node.replica)
    folded = await replica_of(definition, [segments_of(segments)])
    assert node.replica.watermark == folded.watermark
    for snapshot, position, before in frozen:
        assert snapshot.position == position
        assert await digests(definition, snapshot) == before
        await check_groups(definition, snapshot)


def test_a_frozen_replica_keeps_its_position_its_rows_and_their_pruning() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "old"), noted("b", "old"))
        await world.journal.append(noted("a", "new"), dropped("b"), noted("c", "new"))
        await node.follower.catch_up()
        snapshot = freeze(TOY, node.replica)
        world.store.calls.clear()
        await world.publish(node, dropped("a"), noted("b", "again"), noted("d", "late"))
        await node.compactor.compact()
        node.replica.evict()
        await node.follower.restart(lambda: node.replica.reset(node.compactor.head.manifest))
        assert snapshot.position == (3 << 20) - 1
        texts = {note: await snapshot.get(NOTES, note, note) for note in "abcd"}
        assert {note: row and row.text for note, row in texts.items()} == {"a": "new", "b": None, "c": "new", "d": None}
        assert await snapshot.rows(NOTES, "b") == []
        scanned = await snapshot.scan(NOTES, between={"made_at": (0, 2**60)})
        assert sorted(scanned.column("note").to_pylist()) == ["a", "c"]

    simulate(test)


def test_freezing_costs_no_request() -> None:
    async def test(world: World) -> None:
        node = await world.node()
        await world.publish(node, noted("a", "x"))
        await world.journal.append(noted("b", "y"))
        await node.follower.catch_up()
        world.store.calls.clear()
        snapshot = freeze(TOY, node.replica)
        assert (await snapshot.get(NOTES, "b", "b")).text == "y"
        assert world.store.calls == []
        assert (await snapshot.get(NOTES, "a", "a")).text == "x"
        assert len(world.store.calls) == 1

    simulate(test)


class Entry(msgspec.Struct, frozen=True):
    shelf: str
    name: str


ENTRIES = Table("entries", Entry, Kind.IMAGE, ("shelf", "name"), "shelf")


def test_what_a_decider_pages_through_has_the_earlier_members_of_its_group() -> None:
    def fold(group: Group, item: Input) -> None:
        payload: NoteSet = item.payload
        if payload.text:
            group.put(ENTRIES, Entry(group.key, payload.note))
        else:
            group.delete(ENTRIES, (group.key, payload.note))

    put = EventType("Put", NoteSet, recordable=True)
    stage = Stage("entries", (ENTRIES,), lambda item: ("s",), fold, events=("Put",))
    log = define_log("activity", [Domain("shelves", "activity", 1, (put,), (stage,))])

    def entry(name: str, there: bool = True) -> Event:
        return event("Put", NoteSet(name, "x" if there else ""), command="Put", operation=name)

    async def main() -> None:
        replica = await replica_of(log, [segments_of([[entry(name) for name in "bdfh"]])])
        draft = replica.draft()
        await draft.stage(2, 0, [entry("c"), entry("d", False), entry("f", False), entry("f"), entry("z")], 1)

        async def page(after: str | None, limit: int) -> str:
            found = await draft.page(ENTRIES, "s", ("s", after) if after else None, limit)
            return "".join(row.name for row in found)

        assert await page(None, 100) == "bcfhz"
        assert await page(None, 1) == "b"
        assert await page("c", 2) == "fh"
        assert await page("d", 1) == "f"
        assert await page("z", 5) == ""
        assert "".join(row.name for row in await draft.rows(ENTRIES, "s")) == "bcfhz"
        assert await draft.get(ENTRIES, "s", ("s", "d")) is None
        assert [row.name for row in await replica.page(ENTRIES, "s", None, 9)] == list("bdfh")

    asyncio.run(main())

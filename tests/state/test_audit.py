"""The audit: a fact per audited event with the rows it changed, written by the fold without reading anything."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from arco.core import Invalid
from arco.log import Event
from arco.state import AUDIT, REJECTIONS, Cadence, Kind, Replica, Table, bucket_of, define_log
from arco.state import Domain as DomainOf
from arco.state import Stage as StageOf
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import Journal, Node, cut, digests, event, open_node, replica_of, rows_of, segments_of
from tests.state.histories import sizes
from tests.state.toy import NOTES, NoteSet, dropped, noted, toy
from tests.state.world import TOY, World, simulate

AUDITED = toy(audit=True)


async def audit_of(source: Any) -> dict[str, dict[str, Any]]:
    """The audit by position, as people write one."""
    rows = await rows_of(source, AUDIT)
    return {f"{int(row['audit_id']) >> 20}:{int(row['audit_id']) & 0xFFFFF}": row for row in rows}


def decoded(row: dict[str, Any]) -> tuple[Any, Any]:
    return tuple(json.loads(row[name]) if row[name] is not None else None for name in ("before", "after"))  # type: ignore[return-value]


def test_an_audited_event_leaves_who_did_what_to_what_with_the_rows_before_and_after() -> None:
    async def main() -> None:
        asked = replace(
            noted("a", "x", "whisper"),
            operation="op-1",
            subject="the note a",
            correlation="request-7",
            traceparent="00-abc-def-01",
        )
        replica = await replica_of(AUDITED, [segments_of([[asked], [noted("a", "y"), dropped("a")]])])
        found = await audit_of(replica)
        assert sorted(found) == ["1:0", "2:0", "2:1"]
        first = found["1:0"]
        received = START + 1_000_000
        made = {"note": "a", "text": "x", "whispered": 7, "made_at": received}
        assert decoded(first) == (None, {"notes": [made]})
        assert int(first["recorded_at"].timestamp() * 1_000_000) == received
        assert {name: first[name] for name in first if name not in ("before", "after", "recorded_at", "audit_id")} == {
            "operation": "op-1",
            "actor": "tester",
            "action": "Set",
            "resource_type": "note",
            "resource": "the note a",
            "request_id": "request-7",
            "traceparent": "00-abc-def-01",
        }
        changed = {**made, "text": "y", "whispered": 0}
        assert decoded(found["2:0"]) == ({"notes": [made]}, {"notes": [changed]})
        assert decoded(found["2:1"]) == ({"notes": [changed]}, None)
        assert found["2:1"]["action"] == "Dropped"

    asyncio.run(main())


def test_private_rows_rejected_events_and_events_of_other_types_are_not_in_the_audit() -> None:
    async def main() -> None:
        segments = segments_of([[noted("a", "x", "whisper"), dropped("never there"), event("NoteSet", {"note": 7})]])
        replica = await replica_of(AUDITED, [segments])
        found = await audit_of(replica)
        assert sorted(found) == ["1:0"]
        assert "hidden" not in json.dumps(decoded(found["1:0"]))
        assert (await replica.scan(REJECTIONS)).num_rows == 2
        assert await audit_of(await replica_of(TOY, [segments])) == {}

    asyncio.run(main())


def test_a_private_table_cannot_be_audited_and_no_domain_may_call_a_table_audit() -> None:
    class Row(msgspec.Struct, frozen=True):
        key: str

    with pytest.raises(Invalid, match="private"):
        Table("hidden", Row, Kind.IMAGE, ("key",), "key", private=True, audited=True)
    own = Table("audit", Row, Kind.IMAGE, ("key",), "key")
    stage = StageOf("s", (own,), lambda item: (), lambda group, item: None)
    with pytest.raises(Invalid, match="the table audit"):
        define_log("activity", [DomainOf("own", "activity", 1, (), (stage,))])


events = st.one_of(
    st.builds(noted, st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from(["", "w"])),
    st.builds(dropped, st.sampled_from("abc")),
    st.just(event("NoteSet", {"note": 7})),
)
batches = st.lists(st.lists(events, min_size=1, max_size=4), min_size=1, max_size=10)


@settings(deadline=None, max_examples=60)
@given(batches, sizes)
def test_the_audit_is_the_same_however_events_are_cut_into_batches_and_tells_every_change(
    found: list[list[Event]], counts: list[int]
) -> None:
    async def main() -> None:
        segments = segments_of(found)
        whole = await replica_of(AUDITED, [segments])
        parts = await replica_of(AUDITED, cut(segments, counts))
        assert await digests(AUDITED, parts) == await digests(AUDITED, whole)
        rejected = {row["position"] for row in await rows_of(whole, REJECTIONS)}
        state: dict[str, Any] = {}
        rows = {int(row["audit_id"]): decoded(row) for row in await rows_of(whole, AUDIT)}
        expected = {(number << 20) + i for number, batch in enumerate(found, 1) for i in range(len(batch))} - rejected
        assert set(rows) == expected
        for position in sorted(rows):
            before, after = rows[position]
            for row in (before or {}).get("notes", []):
                assert state.pop(row["note"]) == row
            for row in (after or {}).get("notes", []):
                state[row["note"]] = row
        notes = await whole.scan(NOTES)
        assert {name: row["text"] for name, row in state.items()} == {
            row["note"]: row["text"] for row in notes.to_pylist()
        }

    asyncio.run(main())


@settings(deadline=None, max_examples=25)
@given(batches, st.lists(st.sampled_from(["publish", "evict", "look", "nothing"]), max_size=10))
def test_the_audit_is_whole_whenever_it_is_published_evicted_or_looked_at(
    found: list[list[Event]], deeds: list[str]
) -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, AUDITED, cadence=Cadence(fan_in=3))
        for number, batch in enumerate(found):
            await runtime.sleep(1)
            await journal.append(*batch)
            await node.follower.catch_up()
            deed = deeds[number] if number < len(deeds) else "look"
            if deed == "publish":
                await node.compactor.compact()
            elif deed == "evict":
                node.replica.evict()
            elif deed == "look":
                await check_each(node.replica)
        await check_each(node.replica)
        await node.compactor.compact()
        await check_each(node.replica)
        snapshot = await node.snapshot()
        assert await audit_of(snapshot) == await audit_of(node.replica)

    run(main())


async def check_each(replica: Replica) -> None:
    """Every row that a scan shows is found by its key, and the frozen replica shows the same."""
    frozen = replica.freeze()
    shown = (await replica.scan(AUDIT)).column("audit_id").to_pylist()
    for name in [*shown, "absent"]:
        found = await replica.get(AUDIT, name, name)
        assert (found is not None) == (name in shown)
        assert await frozen.get(AUDIT, name, name) == found
        assert await replica.rows(AUDIT, name) == ([found] if found else [])


def test_writing_the_audit_reads_nothing_of_it() -> None:
    async def test(world: World) -> None:
        node = await world.node(AUDITED)
        for number in range(300):
            await world.journal.append(noted(f"n{number}", "x"))
        await node.publish()
        other = await world.node(AUDITED)
        world.store.calls.clear()
        await world.journal.append(noted("new", "x"))
        await other.follower.catch_up()
        assert other.replica._buckets["audit"] == {}
        assert len(await audit_of(other.replica)) == 301
        await other.compactor.publish()
        assert other.replica._buckets["audit"] == {}
        assert other.replica._aside["audit"] == {}
        await world.equals_refold(other)

    simulate(test)


class Stalled:
    """The audit's bucket of a position, held up while it is read from a file."""

    def __init__(self, world: World, node: Node, position: int) -> None:
        self._go_on = asyncio.Event()
        self._reached = asyncio.Event()
        self._world = world
        self._load = node.replica.load(AUDIT, (bucket_of(str(position)),))
        manifest = node.replica.base
        # As if every file had rows of every bucket, so that this one is read although nothing of it is there yet.
        layers = tuple(
            replace(layer, files=tuple(replace(file, buckets="f" * 64) for file in layer.files))
            for layer in manifest.layers
        )
        node.replica.base = replace(manifest, layers=layers)

    async def __aenter__(self) -> None:
        async def stall() -> None:
            self._reached.set()
            await self._go_on.wait()

        self._world.store.on("get_range", hook=stall, applied=True)
        self._task = asyncio.create_task(self._load)
        await self._reached.wait()

    async def __aexit__(self, *exc: object) -> None:
        self._go_on.set()
        await self._task


def test_a_row_written_and_published_while_its_bucket_loads_is_there_afterwards() -> None:
    async def test(world: World) -> None:
        node = await world.node(AUDITED)
        await world.publish(node, noted("a", "x"))
        position = 2 << 20
        async with Stalled(world, node, position):
            await world.publish(node, noted("b", "y"))
        assert bucket_of(str(position)) in node.replica._buckets["audit"]
        assert (await node.replica.get(AUDIT, str(position), str(position))).action == "Set"

    simulate(test)


def test_a_bucket_that_was_loading_when_the_state_was_replaced_takes_nothing_from_the_new_state() -> None:
    async def test(world: World) -> None:
        node = await world.node(AUDITED)
        manifest = await world.publish(node, noted("a", "x"))
        position = 2 << 20
        async with Stalled(world, node, position):
            await world.journal.append(noted("b", "y"))
            await node.follower.restart(lambda: node.replica.reset(manifest))
        assert (await node.replica.get(AUDIT, str(position), str(position))).action == "Set"

    simulate(test)


def test_the_audit_expires_like_every_table_of_facts() -> None:
    async def main() -> None:
        advance = event(
            "RetentionAdvanced", {"table": "audit", "before": START + 2_000_000}, command="AdvanceRetention"
        )
        replica = await replica_of(AUDITED, [segments_of([[noted("a", "x")], [noted("b", "x")], [advance]])])
        assert sorted(await audit_of(replica)) == ["2:0"]
        assert await replica.get(AUDIT, str(1 << 20), str(1 << 20)) is None

    asyncio.run(main())


def test_several_writes_of_one_event_to_one_row_are_one_change() -> None:
    class Row(msgspec.Struct, frozen=True):
        key: str
        value: int

    counters = Table("counters", Row, Kind.IMAGE, ("key",), "key", audited=True)

    def fold(group: Any, item: Any) -> None:
        for value in (1, 2, 3):
            group.put(counters, Row(group.key, value))
        if item.payload.text == "gone":
            group.delete(counters, group.key)

    stage = StageOf("s", (counters,), lambda item: ("z", "a"), fold, events=("NoteSet",))
    kinds = tuple(kind for kind in AUDITED.registry if kind.name == "NoteSet")
    log = define_log("activity", [DomainOf("counts", "activity", 1, kinds, (stage,))])

    async def main() -> None:
        both = [event("NoteSet", NoteSet("n", text)) for text in ("kept", "gone")]
        found = await audit_of(await replica_of(log, [segments_of([both])]))
        rows = [{"key": "a", "value": 3}, {"key": "z", "value": 3}]
        assert decoded(found["1:0"]) == (None, {"counters": rows})
        assert decoded(found["1:1"]) == ({"counters": rows}, None)

    asyncio.run(main())


def test_the_text_of_a_row_does_not_tell_whether_it_came_from_memory_or_from_a_file() -> None:
    class Row(msgspec.Struct, frozen=True):
        key: str
        tags: dict[str, str]

    tagged = Table("tagged", Row, Kind.IMAGE, ("key",), "key", audited=True)

    def fold(group: Any, item: Any) -> None:
        group.put(tagged, Row(group.key, dict.fromkeys(item.payload.note, item.payload.text)))

    stage = StageOf("s", (tagged,), lambda item: ("k",), fold, events=("NoteSet",))
    kinds = tuple(kind for kind in AUDITED.registry if kind.name == "NoteSet")
    log = define_log("activity", [DomainOf("tags", "activity", 1, kinds, (stage,))])

    async def test(world: World) -> None:
        live = await world.node(log)
        await world.publish(live, noted("cab", "x"))
        fresh = await world.node(log)
        await world.journal.append(noted("b", "y"))
        for node in (live, fresh):
            await node.follower.catch_up()
            found = await audit_of(node.replica)
            assert found["2:0"]["before"] == '{"tagged":[{"key":"k","tags":{"a":"x","b":"x","c":"x"}}]}'

    simulate(test)

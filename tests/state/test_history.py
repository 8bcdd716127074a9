"""Which revisions are kept, where their list lives, and how older ones are found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import DAY, HOUR, MINUTE, SECOND, Corrupt, LostObject, NotFound
from arco.state import Entry, Manifest, _history, retained
from arco.storage import MemoryStore
from tests.doubles import FakeRuntime, run
from tests.state.doubles import ROOT, Journal, Node, event, open_node
from tests.state.histories import ACTIVITY, completed

NOW = 100 * DAY


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    ages = draw(
        st.lists(
            st.one_of(st.integers(0, 2 * HOUR), st.integers(0, 2 * DAY), st.integers(0, 40 * DAY), st.integers(-5, 5)),
            max_size=40,
        )
    )
    return [Entry(number, NOW - age, "0", "") for number, age in enumerate(sorted(ages, reverse=True), 1)]


pins = st.sets(st.integers(1, 40), max_size=4)


@given(entries(), pins)
def test_thinning_keeps_what_is_promised_and_no_more(found: list[Entry], pinned: set[int]) -> None:
    kept = retained(found, NOW, pinned)
    assert kept == sorted(kept, key=lambda entry: entry.revision)
    assert set(kept) <= set(found)
    assert {entry for entry in found if NOW - entry.published_at < HOUR} <= set(kept)
    assert {entry for entry in found if entry.revision in pinned} <= set(kept)
    for width, low, high in ((MINUTE, HOUR, DAY), (HOUR, DAY, 30 * DAY)):
        slots: dict[int, list[Entry]] = {}
        for entry in found:
            if low <= NOW - entry.published_at < high and entry.revision not in pinned:
                slots.setdefault(entry.published_at // width, []).append(entry)
        for members in slots.values():
            assert [entry for entry in members if entry in kept] == members[-1:]
    assert not [e for e in kept if NOW - e.published_at >= 30 * DAY and e.revision not in pinned]


@given(entries(), pins, st.integers(0, 3 * DAY))
def test_thinning_twice_is_thinning_once(found: list[Entry], pinned: set[int], later: int) -> None:
    once = retained(found, NOW, pinned)
    assert retained(once, NOW, pinned) == once
    assert retained(once, NOW + later, pinned) == retained(found, NOW + later, pinned)


async def publish_many(node: Node, journal: Journal, count: int, pause: float) -> list[Manifest]:
    found = []
    for _ in range(count):
        await node.runtime.sleep(pause)
        await journal.append(completed(f"m{journal.link.number}"))
        found.append(await node.publish())
    return found


def test_a_long_history_moves_to_a_file_and_every_retained_revision_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inline = 32
    monkeypatch.setattr(_history, "INLINE", inline)

    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, ACTIVITY)
        every = await publish_many(node, journal, 2 * inline, 0.3)
        head = every[-1]
        assert head.older is not None
        assert len(head.history) <= inline
        history = await node.revisions.history(head)
        assert [entry.revision for entry in history] == list(range(1, head.number))
        for entry in (history[0], history[20], history[-1]):
            manifest = await node.revisions.at_revision(head, entry.revision)
            assert manifest == every[entry.revision - 1]
            assert await node.revisions.received_by(head, entry.published_at) == manifest
            assert await node.revisions.below(head, int(entry.watermark)) == manifest
        assert await node.revisions.at_revision(head, head.number) == head
        assert await node.revisions.received_by(head, runtime.now()) == head
        # After a quiet day one revision an hour is left, and the file shrinks when it is written next.
        await runtime.sleep(24 * 3600)
        every += await publish_many(node, journal, inline + 1, 0.1)
        head = every[-1]
        old = [entry for entry in await node.revisions.history(head) if entry.revision <= 2 * inline]
        assert len(old) <= 2
        for entry in await node.revisions.history(head):
            assert (await node.revisions.read(entry)).number == entry.revision

    run(main())


def test_what_is_not_retained_is_not_found() -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, ACTIVITY)
        first, *_, last = await publish_many(node, journal, 3, 10)
        with pytest.raises(NotFound, match="revision 77 of activity"):
            await node.revisions.at_revision(last, 77)
        for empty in (
            await node.revisions.below(last, int(first.watermark) - 1),
            await node.revisions.received_by(last, first.published_at - 10 * SECOND),
        ):
            assert (empty.number, empty.layers) == (0, ())

    run(main())


def test_a_retained_revision_that_is_gone_or_altered_is_an_error() -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, ACTIVITY)
        *_, last = await publish_many(node, journal, 3, 1)
        path = f"{ROOT}/{node.revisions.sequence.path(1)}"
        data = await store.get(path)
        for at in range(0, len(data), 7):
            broken = bytearray(data)
            broken[at] ^= 1
            await store.put(path, bytes(broken), only_if_absent=False)
            with pytest.raises(Corrupt, match="arco doctor"):
                await node.revisions.at_revision(last, 1)
        await store.delete(path)
        with pytest.raises(LostObject, match="missing"):
            await node.revisions.at_revision(last, 1)

    run(main())


def test_a_pinned_revision_stays_until_the_pin_expires_or_is_released() -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, ACTIVITY)
        await publish_many(node, journal, 3, 1)

        def pin(name: str, revision: int, hours: int) -> object:
            expires = runtime.now() + hours * HOUR
            payload = {"pin_id": name, "revision": revision, "reason": "", "expires_at": expires}
            return event("RevisionPinned", payload, command="PinRevision")

        await journal.append(pin("short", 1, 2), pin("long", 2, 200))  # type: ignore[arg-type]
        manifest = await node.publish()
        assert [known.pin_id for known in manifest.pins] == ["long", "short"]
        await runtime.sleep(40 * 24 * 3600)
        (after, *_, last) = await publish_many(node, journal, 2, 1)
        assert 2 not in [entry.revision for entry in last.history], "both pins expired long ago"
        assert after.number > 2
        assert last.pins == (), "expired pins leave the manifest"

    run(main())


@settings(deadline=None, max_examples=10)
@given(st.lists(st.sampled_from([0.2, 5.0, 70.0, 4000.0]), min_size=1, max_size=25))
def test_a_pin_keeps_its_revision_through_any_thinning(pauses: list[float]) -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal, node = Journal(store, runtime), await open_node(runtime, store, ACTIVITY)
        await publish_many(node, journal, 1, 1)
        payload = {"pin_id": "p", "revision": 1, "reason": "", "expires_at": runtime.now() + 30 * DAY}
        await journal.append(event("RevisionPinned", payload))
        for pause in pauses:
            (head,) = await publish_many(node, journal, 1, pause)
            assert head.history[0].revision == 1
        await journal.append(event("PinReleased", {"pin_id": "p"}))
        assert (await node.publish()).pins == ()

    run(main())

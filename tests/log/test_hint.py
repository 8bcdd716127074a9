"""Hints are advice: written at most once a second, and missing or broken ones are no failure."""

import pytest

from arco.core import StoreRefused
from arco.log import Hint, HintFile, OwnerHint
from arco.storage import MemoryStore, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore, run


def test_a_hint_is_read_by_others() -> None:
    async def scenario() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        await HintFile(store, "hint", runtime).write(Hint(7, "local:a"))
        assert await HintFile(store, "hint", runtime).read() == Hint(7, "local:a")

    run(scenario())


def test_a_hint_is_written_at_most_once_a_second() -> None:
    async def scenario() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        hint = HintFile(store, "hint", runtime)
        for number in range(12):
            await hint.write(Hint(number))
            await runtime.sleep(0.25)
        assert len(store.calls) == 3
        assert await hint.read() == Hint(8)

    run(scenario())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"number":"x"}', b"\xff\xff", b'{"number":1,"address":"\xff"}'])
def test_a_broken_hint_says_nothing(data: bytes) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.put("hint", data, only_if_absent=False)
        assert await HintFile(store, "hint", FakeRuntime()).read() == Hint()

    run(scenario())


@pytest.mark.parametrize("error", [StoreFailed("503"), StoreRefused("no space")])
def test_a_hint_that_cannot_be_read_or_written_is_no_failure(error: Exception) -> None:
    async def scenario() -> None:
        store, runtime = FaultyStore(MemoryStore()), FakeRuntime()
        hint = HintFile(store, "hint", runtime)
        assert await hint.read() == Hint()
        store.on("put", error=error)
        await hint.write(Hint(1))
        store.on("get", error=error)
        assert await hint.read() == Hint()
        await runtime.sleep(1)
        await hint.write(Hint(2))
        assert await hint.read() == Hint(2)

    run(scenario())


def test_a_later_segment_is_later_news_than_a_hint_that_was_long_under_way() -> None:
    async def go() -> None:
        store, runtime = MemoryStore(), FakeRuntime()
        newest = Hint()
        owner = OwnerHint(store, "hint", runtime, lambda: newest)
        await HintFile(store, "hint", runtime).write(Hint(7, "local:a"))
        assert await owner.read() == Hint(7, "local:a")
        newest = Hint(7, "local:b")
        assert await owner.read() == Hint(7, "local:a")  # whoever found nobody there announced itself
        newest = Hint(8, "local:b")
        assert await owner.read() == Hint(8, "local:b")

    run(go())

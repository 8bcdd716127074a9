"""`MemoryStore` beyond the contract: it never suspends, and it is dated by the clock it is given."""

from collections.abc import Coroutine
from typing import Any

import pytest

from arco.core import Invalid
from arco.storage import MemoryStore
from tests.storage.contract import names, run


def ends_at_once(coroutine: Coroutine[Any, Any, object]) -> bool:
    """Whether one step is all it takes."""
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    coroutine.close()
    return False


def test_no_call_suspends() -> None:
    store = MemoryStore()
    assert ends_at_once(store.put("a/b", b"12", only_if_absent=True))
    for call in (
        store.get("a/b"),
        store.get_range("a/b", 0, 1),
        store.head("a/b"),
        names(store, "a"),
        store.persist("a/b"),
        store.delete("a/b"),
        store.close(),
    ):
        assert ends_at_once(call)


def test_objects_are_dated_by_the_clock() -> None:
    class Clock:
        def now(self) -> int:
            return 1234

        def boottime(self) -> float:
            return 0.0

    store = MemoryStore(Clock())
    run(store.put("a", b"", only_if_absent=True))
    assert run(store.head("a")).modified == 1234


def test_later_changes_of_a_buffer_do_not_reach_the_object() -> None:
    store, buffer = MemoryStore(), bytearray(b"abc")
    run(store.put("a", buffer, only_if_absent=True))  # type: ignore[arg-type]
    buffer[0] = 0
    assert run(store.get("a")) == b"abc"


def test_memory_has_no_urls() -> None:
    with pytest.raises(Invalid, match="have no URL"):
        run(MemoryStore().sign("a", expires_in=60))

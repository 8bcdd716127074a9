"""Slots and the mutex: first come first served, and a cancelled waiter neither keeps nor loses its turn."""

import contextlib
from collections.abc import Coroutine, Generator
from typing import Any, cast

from arco.core import Future, Mutex, Runtime, Slots


class Turn:
    """A future that is driven by hand: awaiting it yields until it is set."""

    def __init__(self) -> None:
        self._set = False

    def done(self) -> bool:
        return self._set

    def set(self, value: None) -> None:
        self._set = True

    def fail(self, error: BaseException) -> None:
        raise AssertionError("the mutex fails no turn")

    def __await__(self) -> Generator[Any, Any, None]:
        while not self._set:
            yield


class Turns:
    """The only part of a runtime a mutex asks for."""

    def future(self) -> Future[None]:
        return Turn()


class Cancelled(BaseException):
    pass


class OneStep:
    """Waits until the coroutine is stepped again."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield


class Holder:
    """A coroutine that takes the mutex, notes its name, and holds it until it is stepped again."""

    def __init__(self, mutex: Mutex, name: str, order: list[str]) -> None:
        self.name = name
        self._mutex = mutex
        self._order = order
        self._coroutine: Coroutine[Any, Any, None] = self._hold()

    async def _hold(self) -> None:
        async with self._mutex:
            self._order.append(self.name)
            await OneStep()

    def step(self) -> bool:
        """Run to the next wait; false at the end."""
        try:
            self._coroutine.send(None)
        except StopIteration:
            return False
        return True

    def cancel(self) -> None:
        try:
            self._coroutine.throw(Cancelled())
        except Cancelled:
            return
        raise AssertionError("the cancelled coroutine went on")


def holders(*names: str) -> tuple[list[Holder], list[str]]:
    order: list[str] = []
    mutex = Mutex(cast(Runtime, Turns()))
    return [Holder(mutex, name, order) for name in names], order


def test_the_mutex_has_one_holder_and_is_passed_on_in_the_order_of_asking() -> None:
    (a, b, c), order = holders("a", "b", "c")
    for holder in (a, b, c):
        assert holder.step()
    assert order == ["a"]
    assert b.step()
    assert order == ["a"]
    assert not a.step()
    assert c.step()
    assert order == ["a"]
    assert b.step()
    assert order == ["a", "b"]
    assert not b.step()
    assert c.step()
    assert order == ["a", "b", "c"]
    assert not c.step()


def test_a_mutex_that_was_released_is_free() -> None:
    (a, b), order = holders("a", "b")
    assert a.step()
    assert not a.step()
    assert b.step()
    assert order == ["a", "b"]


def test_a_waiter_cancelled_before_its_turn_is_skipped() -> None:
    (a, b, c), order = holders("a", "b", "c")
    for holder in (a, b, c):
        holder.step()
    b.cancel()
    assert not a.step()
    assert c.step()
    assert order == ["a", "c"]


def test_a_waiter_cancelled_after_it_got_its_turn_passes_it_on() -> None:
    (a, b, c), order = holders("a", "b", "c")
    for holder in (a, b, c):
        holder.step()
    assert not a.step()
    b.cancel()
    assert c.step()
    assert order == ["a", "c"]
    assert not c.step()


def test_a_holder_that_fails_releases_the_mutex() -> None:
    (a, b), order = holders("a", "b")
    a.step()
    b.step()
    a.cancel()
    assert b.step()
    assert order == ["a", "b"]


def test_of_several_slots_as_many_are_taken_and_one_that_is_given_goes_to_who_waits() -> None:
    slots, taken = Slots(cast(Runtime, Turns()), 2), list[str]()

    async def take(name: str) -> None:
        await slots.take()
        taken.append(name)

    work = {name: take(name) for name in "abcd"}
    for coroutine in work.values():
        with contextlib.suppress(StopIteration):
            coroutine.send(None)
    assert taken == ["a", "b"]
    slots.give()
    for name in "dc":
        with contextlib.suppress(StopIteration):
            work[name].send(None)
    assert taken == ["a", "b", "c"]
    work["d"].close()

"""`self_test`: does this store keep its promises? Run by `arco init` and at every writer's start.

Everything Arco agrees on rests on three promises: a create-if-absent is atomic, reads follow writes, missing is
`ObjectMissing`. Some servers accept `If-None-Match` and ignore it; some answer 403 for what is missing. The test tries
each promise below `selftest/{nonce}/`, cleans up, and raises `StoreRefused` with the promise that failed and its cure.
"""

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from arco.core import ArcoError, Runtime, StoreRefused, Unavailable
from arco.storage._store import ObjectExists, ObjectMissing, Store, StoreFailed

__all__ = ["self_test"]

P = ParamSpec("P")
T = TypeVar("T")

RACERS = 8
ROUNDS = 5
"""How often a race without a result, or a request without an answer, is repeated."""


async def self_test(store: Store, runtime: Runtime, nonce: str) -> None:
    """Try the store's promises in `selftest/{nonce}/`; the nonce must never have been used before.

    Raises `StoreRefused` for a store that cannot be used and `Unavailable` for one that does not answer now.
    """
    test = _SelfTest(store, runtime, f"selftest/{nonce}")
    try:
        await test.missing_is_missing()
        await test.creates_are_atomic()
        await test.reads_follow_writes()
        await test.lists_show_writes()
    except ArcoError:
        await test.leave_quietly()
        raise
    await test.clean_up()


class _SelfTest:
    def __init__(self, store: Store, runtime: Runtime, folder: str) -> None:
        self._store = store
        self._runtime = runtime
        self._folder = folder
        self._written: list[str] = []
        self._doubt = ""

    async def missing_is_missing(self) -> None:
        path = f"{self._folder}/absent"
        for read in (self._store.get, self._store.head):
            try:
                await self._answered(read, path)
            except ObjectMissing:
                continue
            except StoreRefused as error:
                raise _failed("it refused to look for an object that is missing", error.message) from error
            raise _failed("it shows an object that was never written", "use another store")

    async def creates_are_atomic(self) -> None:
        for number in range(ROUNDS):
            path = self._path(f"race-{number}")
            winners, undecided = await self._race(path)
            if len(winners) > 1:
                raise _failed(
                    f"{len(winners)} of {RACERS} concurrent creates of one object succeeded",
                    "it ignores If-None-Match: use a store that supports conditional writes",
                )
            try:
                stored = await self._answered(self._store.get, path)
            except ObjectMissing:
                if not winners:
                    continue  # every create failed without a decision
                raise _failed("a created object is not there", "use a store whose reads follow writes") from None
            if stored not in (winners or undecided):
                raise _failed("the bytes of the create that won are not those read back", "use another store")
            await self._second_create_loses(path, stored)
            return
        raise Unavailable(f"the store decided none of the self-test's creates ({self._doubt}); try again later")

    async def _race(self, path: str) -> tuple[list[bytes], list[bytes]]:
        """The bytes of the racers that won, and of those that were told neither."""
        winners: list[bytes] = []
        undecided: list[bytes] = []

        async def racer(data: bytes) -> None:
            try:
                await self._store.put(path, data, only_if_absent=True)
            except ObjectExists:
                return
            except StoreFailed as error:
                undecided.append(data)
                self._doubt = error.message
            else:
                winners.append(data)

        racers = [self._runtime.spawn(racer(f"racer {n}".encode()), f"self-test racer {n}") for n in range(RACERS)]
        errors: list[ArcoError] = []
        for task in racers:  # wait for all of them, so that none writes after the test is over
            try:
                await task
            except ArcoError as error:
                errors.append(error)
        for failure in errors:
            if isinstance(failure, StoreRefused):
                raise _failed("it does not let us create an object", failure.message) from failure
            raise failure
        return winners, undecided

    async def _second_create_loses(self, path: str, stored: bytes) -> None:
        try:
            await self._answered(self._store.put, path, b"second", only_if_absent=True)
        except ObjectExists:
            if await self._answered(self._store.get, path) == stored:
                return
        raise _failed(
            "a create replaced an object that was there",
            "it ignores If-None-Match: use a store that supports conditional writes",
        )

    async def reads_follow_writes(self) -> None:
        path = self._path("overwritten")
        for data in (b"first", b"second, longer"):
            await self._answered(self._store.put, path, data, only_if_absent=False)
            size = (await self._answered(self._store.head, path)).size
            if await self._answered(self._store.get, path) != data or size != len(data):
                raise _failed(
                    "a read shows something older than the last write", "use a store whose reads follow writes"
                )
        if await self._answered(self._store.get_range, path, 1, 3) != b"eco":
            raise _failed("a range of an object is not those bytes of it", "use a store with range requests")

    async def lists_show_writes(self) -> None:
        """Only if listing is allowed: it is needed for collection and `doctor`, not for being right."""
        try:
            seen = await self._answered(self._list)
        except StoreRefused:
            return
        if f"{self._folder}/overwritten" not in seen:
            raise _failed("a list does not show an object that was written", "use a store whose lists follow writes")

    async def clean_up(self) -> None:
        for path in self._written:
            try:
                await self._answered(self._store.delete, path)
            except StoreRefused as error:
                raise _failed("it does not let us delete below selftest/", error.message) from error
        try:
            await self._answered(self._store.get, self._written[0])
        except ObjectMissing:
            return
        raise _failed("a deleted object is still there", "use a store whose reads follow deletes")

    async def leave_quietly(self) -> None:
        for path in self._written:
            try:
                await self._store.delete(path)
            except ArcoError:
                return  # what is left below selftest/ harms nobody; the failed promise is what matters

    async def _list(self) -> set[str]:
        return {info.path async for info in self._store.list(self._folder)}

    def _path(self, name: str) -> str:
        path = f"{self._folder}/{name}"
        self._written.append(path)
        return path

    async def _answered(self, request: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        attempt = 0
        while True:
            try:
                return await request(*args, **kwargs)
            except StoreFailed as error:
                attempt += 1
                if attempt == ROUNDS:
                    raise Unavailable(f"the store does not answer: {error.message}; try again later") from error
            await self._runtime.sleep(0.05 * 2**attempt)


def _failed(promise: str, cure: str) -> StoreRefused:
    return StoreRefused(f"this store cannot be used: {promise}; {cure}")

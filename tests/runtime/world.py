"""A workspace under test: on memory or on disk, in virtual time, with every request to the store counted."""

import asyncio
import selectors
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.log import NewEvent
from arco.state import new_event
from arco.storage import ObjectInfo, Scope, Store
from tests.doubles import FakeRuntime, PassingStore

__all__ = ["SCOPE", "Counted", "made", "run"]

T = TypeVar("T")

SCOPE = Scope("acme", "prod")


class _Patient(selectors.SelectSelector):
    """Moves the clock instead of waiting, but waits for threads that are at work."""

    loop: "_ThreadLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or (self.loop.threads and timeout > 0):
            ready = super().select(30)
            if not ready:
                raise RuntimeError("everybody waits and nothing will ever happen")
            return ready
        self.loop.seconds += max(timeout, 0.0)
        return super().select(0)


class _ThreadLoop(asyncio.SelectorEventLoop):
    """Virtual time for stores that work in threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.threads = 0
        selector = _Patient()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.seconds

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._finished)
        return future

    def _finished(self, done: object) -> None:
        self.threads -= 1


def run(work: Callable[[FakeRuntime], Coroutine[Any, Any, T]]) -> T:
    """The result of a test's coroutine, in virtual time, whatever store it uses."""

    async def main() -> T:
        return await work(FakeRuntime())

    with asyncio.Runner(loop_factory=_ThreadLoop) as runner:
        return runner.run(main())


class Counted(PassingStore):
    """A store that counts the requests made to it (`persist` is none) and dates objects by virtual time."""

    def __init__(self, inner: Store, runtime: FakeRuntime) -> None:
        super().__init__(inner)
        self.requests: Counter[str] = Counter()
        self._runtime = runtime
        self._times: dict[str, int] = {}

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        if operation != "persist":
            self.requests[operation.removeprefix("get_")] += 1
        result = await action()
        if operation in ("create", "put"):
            self._times[path] = self._runtime.now()
        return result

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.requests["list"] += 1
        async for info in self.inner.list(prefix):
            yield ObjectInfo(info.path, info.size, self._times[info.path])


def made(runtime: FakeRuntime, name: str, asset: str = "a1", partition: str = "p1") -> NewEvent:
    """One version of a partition, as a worker records it."""
    payload = MaterializationCompleted(
        materialization_id=name,
        asset_id=asset,
        asset_key=f"key.{asset}",
        partition_id=partition,
        partition_key="",
        run_id="r1",
        task_id="t1",
        files=(DataFile("data/x", 1, 2),),
        row_count=5,
        byte_size=10,
        schema_hash="h",
        started_at=runtime.now(),
        completed_at=runtime.now(),
    )
    return new_event(MATERIALIZATION_COMPLETED, payload)

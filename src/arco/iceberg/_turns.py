"""Turns: who changes one table in this process, first come first served; and requests that own what they began.

The coroutine that issues a create must see it settled, whatever becomes of the request that asked for it. So the work
runs in a task of its own and the request waits for its answer. A request that goes away, or that waited too long, stops
the work if nothing was sent yet that could commit; else the work goes on, and the outcome is told by its operation id.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from arco.core import ArcoError, Corrupt, Future, Mutex, OutcomeUnknown, Runtime, Unavailable

__all__ = ["Turns", "Work", "beside", "carry_out", "together", "unknown"]

T = TypeVar("T")
U = TypeVar("U")

PATIENCE = 60.0
"""Seconds a request waits for its answer."""

MAX_WAITING = 256
"""Requests that may wait for one table."""


class Work(Generic[T]):
    """A change under way, as the request and the task that carries it out see it."""

    def __init__(self, runtime: Runtime, operation: str) -> None:
        self.operation = operation
        self.arrived = runtime.boottime()
        self.answer: Future[T] = runtime.future()
        self._sent = False
        self._stopped = False

    def send(self) -> None:
        """Call it right before the create that commits is sent, with nothing awaited in between."""
        if self._stopped:
            raise Unavailable("the request was given up before anything was committed; try again")
        self._sent = True

    def lose(self) -> None:
        """What was sent is settled, and it did not commit."""
        self._sent = False

    def stop(self) -> bool:
        """Nobody waits any more: send nothing. Whether nothing is under way that could commit."""
        self._stopped = True
        return not self._sent

    @property
    def is_sent(self) -> bool:
        """Whether something is under way, or done, that commits."""
        return self._sent

    @property
    def is_stopped(self) -> bool:
        return self._stopped


async def carry_out(runtime: Runtime, work: Work[T], steps: Callable[[], Awaitable[T]], name: str) -> T:
    """Let the steps run to their end and wait for the answer."""
    runtime.spawn(_own(work, steps), name)
    try:
        return await runtime.timeout(PATIENCE, _answer(work))
    except TimeoutError:
        if work.stop():
            raise Unavailable("the table is busy or the store is slow; nothing was committed, try again") from None
        raise unknown(work.operation) from None
    except BaseException:
        work.stop()
        raise


async def _own(work: Work[T], steps: Callable[[], Awaitable[T]]) -> None:
    try:
        work.answer.set(await steps())
    except Corrupt as error:
        # Damage that shows only afterwards says nothing about what was sent.
        work.answer.fail(unknown(work.operation, _damage(error)) if work.is_sent else error)
    except ArcoError as error:
        work.answer.fail(error)
    except BaseException:
        work.answer.fail(unknown(work.operation))
        raise


def _damage(error: Corrupt) -> str:
    return f"stored data is damaged ({error.message}), and it is not known whether the commit landed"


async def _answer(work: Work[T]) -> T:
    return await work.answer


def unknown(operation: str, why: str = "the store does not tell whether the commit landed") -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{why}; ask for operation {operation}, or send the request again with the same Idempotency-Key",
        operation=operation,
        retry_after=1,
    )


async def together(runtime: Runtime, works: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """All results, in order; they run at the same time. If one fails, the others still run to their end."""
    ends = [_begin(runtime, work) for work in works]
    return [await end for end in ends]


async def beside(
    runtime: Runtime, first: Callable[[], Awaitable[T]], second: Callable[[], Awaitable[U]]
) -> tuple[T, U]:
    """Both results; the two run at the same time."""
    end = _begin(runtime, first)
    other = await second()
    return await end, other


def _begin(runtime: Runtime, work: Callable[[], Awaitable[T]]) -> Future[T]:
    end: Future[T] = runtime.future()

    async def run() -> None:
        try:
            end.set(await work())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            end.fail(error)

    runtime.spawn(run(), "together")
    return end


class Turns:
    """One change at a time for each table."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queues: dict[str, tuple[Mutex, int]] = {}

    @asynccontextmanager
    async def of(self, table_ids: Iterable[str]) -> AsyncIterator[None]:
        """Wait for one's turn on all of the tables, always in the same order."""
        async with AsyncExitStack() as stack:
            for table_id in sorted(table_ids):
                await stack.enter_async_context(self._turn(table_id))
            yield

    @asynccontextmanager
    async def _turn(self, table_id: str) -> AsyncIterator[None]:
        mutex, waiting = self._queues.get(table_id) or (Mutex(self._runtime), 0)
        if waiting >= MAX_WAITING:
            raise Unavailable(f"{waiting} commits wait for the table {table_id} already; try again", retry_after=1)
        self._queues[table_id] = (mutex, waiting + 1)
        try:
            async with mutex:
                yield
        finally:
            mutex, waiting = self._queues.pop(table_id)
            if waiting > 1:
                self._queues[table_id] = (mutex, waiting - 1)

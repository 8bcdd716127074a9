"""`Jobs`: long work of one kind that manifests announce and this process does in the background.

A job is announced as `pending` in a manifest, done here, and settled by a create-once result object: whoever finishes
first. The compactor adopts results in a later manifest; one that finds another's pending job takes its result or does
it again.

A job that fails is left alone for a while, longer each time, and so begins by itself once there is room on the disk or
what was lost is put back. Meanwhile others go on, and so does publishing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from arco.core import ArcoError, Corrupt, Runtime, Task, Unavailable, check_format, format_in
from arco.state._manifest import Manifest, Pending
from arco.storage import ObjectExists, ObjectMissing, Store

__all__ = ["Failure", "Jobs"]

T = TypeVar("T")

FORMAT = 1
"""Of a result: a list. A later one must be an object that tells its `format`."""
RETRY_SECONDS = 1.0
MAX_PAUSE = 3600.0


@dataclass(frozen=True)
class Failure:
    """Why a job did not get on, and when it is tried again."""

    error: ArcoError
    pause: float
    until: float


class Jobs(Generic[T]):
    pause = 60.0
    """Seconds before a job is tried again that failed, unless somebody forgives; twice as long after each further time,
    up to `MAX_PAUSE`."""

    def __init__(
        self,
        kind: str,
        made: type[T],
        store: Store,
        root: str,
        runtime: Runtime,
        head: Callable[[], Manifest],
        done: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        """Directories lie below `root`; `head` is the newest manifest, `done` is told of every end, `changed` whenever
        `failures` may have changed."""
        self.results: dict[str, tuple[T, ...]] = {}
        """By id, what finished jobs made and no manifest has adopted yet."""
        self.failures: dict[str, Failure] = {}
        """By id, what became of jobs that do not get on."""
        self._kind = kind
        self._made = made
        self._store = store
        self._root = root
        self._runtime = runtime
        self._head = head
        self._done = done
        self._changed = changed
        self._running: dict[str, Task] = {}

    async def work(self, head: Manifest, pending: Pending) -> tuple[T, ...] | None:
        """What a job makes; None if nobody will adopt it any more."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    @property
    def trouble(self) -> ArcoError | None:
        """Why jobs do not get on, if some do not."""
        return next((failure.error for failure in self.failures.values()), None)

    @property
    def due(self) -> float:
        """Seconds until a job is to be tried again."""
        waiting = [failure.until for known, failure in self.failures.items() if known not in self._running]
        return max(0.0, min(waiting, default=float("inf")) - self._runtime.boottime())

    def start(self) -> None:
        """Begin every announced job that nobody here works on, but for those that failed a short while ago."""
        pending = self._head().pending
        self.keep(pending)
        now = self._runtime.boottime()
        resting = {known for known, failure in self.failures.items() if now < failure.until}
        for known in pending:
            if known.kind == self._kind and known.id not in {*self._running, *self.results, *resting}:
                name = f"{self._kind} of {known.table}".removesuffix(" of ")
                self._running[known.id] = self._runtime.spawn(self._run(known), name)

    def forgive(self) -> None:
        """Try again what did not work."""
        self.failures.clear()

    def keep(self, pending: tuple[Pending, ...]) -> None:
        """Forget what became of jobs that are not pending any more."""
        left = {known.id for known in pending}
        for settled in set(self.results) - left:
            del self.results[settled]
        if not left.issuperset(self.failures):
            self.failures = {known: failure for known, failure in self.failures.items() if known in left}
            self._changed()

    async def wait(self) -> bool:
        """Until everything under way has ended; False if nothing was."""
        tasks = list(self._running.values())
        for task in tasks:
            await task
        return bool(tasks)

    def cancel(self) -> None:
        """Leave what is under way to the next compactor."""
        for task in self._running.values():
            task.cancel()

    async def _run(self, pending: Pending) -> None:
        try:
            self.results[pending.id] = await self._result(pending)
            self.failures.pop(pending.id, None)
            self._changed()
        except Unavailable:  # the next publish starts it again
            await self._runtime.sleep(RETRY_SECONDS)
        except ArcoError as error:  # the inputs stay as they are
            self._fail(pending.id, error)
        finally:
            self._running.pop(pending.id, None)
        self._done()

    def _fail(self, job: str, error: ArcoError) -> None:
        before = self.failures.get(job)
        pause = self.pause if before is None else min(2 * before.pause, MAX_PAUSE)
        self.failures[job] = Failure(error, pause, self._runtime.boottime() + pause)
        self._changed()

    async def _result(self, pending: Pending) -> tuple[T, ...]:
        """Somebody's result from before, or ours. The first result object counts."""
        path = f"{self._root}/{pending.directory}/result"
        try:
            return await self._read(path)
        except ObjectMissing:
            pass
        made = await self.work(self._head(), pending)
        if made is None:
            return ()
        try:
            await self._store.put(path, msgspec.json.encode(made), only_if_absent=True)
            return made
        except ObjectExists:
            return await self._read(path)

    async def _read(self, path: str) -> tuple[T, ...]:
        data = await self._store.get(path)
        try:
            return tuple(msgspec.json.decode(data, type=list[self._made]))  # type: ignore[name-defined]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            check_format("result", format_in(data), FORMAT, path)
            raise Corrupt(
                f"{path} is no result of a {self._kind}: {error}; delete this one object, then run `arco compact`",
                path=path,
            ) from error

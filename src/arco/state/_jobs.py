"""`Jobs`: long work of one kind that manifests announce and this process does in the background.

A job is announced as `pending` in a manifest, done here, and settled by a create-once result object: whoever finishes
first. The compactor adopts results in a later manifest; one that finds another's pending job takes its result or does
it again.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from arco.core import ArcoError, Corrupt, Runtime, StoreRefused, Task, Unavailable, check_format, format_in
from arco.state._manifest import Manifest, Pending
from arco.storage import ObjectExists, ObjectMissing, Store

__all__ = ["Jobs"]

T = TypeVar("T")

FORMAT = 1
"""Of a result: a list. A later one must be an object that tells its `format`."""
RETRY_SECONDS = 1.0


class Jobs(Generic[T]):
    rest = 0.0
    """Seconds before a job is tried again that the store refused, unless somebody forgives."""

    def __init__(
        self,
        kind: str,
        made: type[T],
        store: Store,
        root: str,
        runtime: Runtime,
        head: Callable[[], Manifest],
        done: Callable[[], None],
    ) -> None:
        """Directories lie below `root`; `head` is the newest manifest, `done` is told of every end."""
        self.results: dict[str, tuple[T, ...]] = {}
        """By id, what finished jobs made and no manifest has adopted yet."""
        self.trouble: ArcoError | None = None
        """Why jobs do not get on, if they do not."""
        self._kind = kind
        self._made = made
        self._store = store
        self._root = root
        self._runtime = runtime
        self._head = head
        self._done = done
        self._running: dict[str, Task] = {}
        self._resting_until = float("-inf")
        self._damaged: set[str] = set()  # their inputs cannot be read: not tried again by this process

    async def work(self, head: Manifest, pending: Pending) -> tuple[T, ...] | None:
        """What a job makes; None if nobody will adopt it any more."""
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    def start(self) -> None:
        """Begin every announced job that nobody here works on."""
        if self._runtime.boottime() < self._resting_until:
            return
        for known in self._head().pending:
            if known.kind == self._kind and known.id not in {*self._running, *self.results, *self._damaged}:
                name = f"{self._kind} of {known.table}".removesuffix(" of ")
                self._running[known.id] = self._runtime.spawn(self._run(known), name)

    def forgive(self) -> None:
        """Try again what did not work."""
        self.trouble = None
        self._damaged.clear()
        self._resting_until = float("-inf")

    def keep(self, pending: tuple[Pending, ...]) -> None:
        """Forget the results of jobs that are not pending any more."""
        for settled in set(self.results) - {known.id for known in pending}:
            del self.results[settled]

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
            self._done()
        except StoreRefused as error:
            self.trouble = error
            self._resting_until = self._runtime.boottime() + self.rest
        except Unavailable:  # the next publish starts it again
            await self._runtime.sleep(RETRY_SECONDS)
            self._done()
        except ArcoError as error:
            self.trouble = error  # the inputs stay as they are; `arco doctor` tells what is wrong with them
            self._damaged.add(pending.id)
        finally:
            self._running.pop(pending.id, None)

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

"""`Merging`: the merges of one log that this process works on.

A merge is announced as `pending` in a manifest, done by the runner in the background, and settled by a create-once
result object: whoever finishes first. The compactor adopts results in a later manifest; one that finds another's
pending merge takes its result or does it again.
"""

from collections.abc import Callable

import msgspec

from arco.core import ArcoError, Runtime, StoreRefused, Task, Unavailable, new_ulid
from arco.state._definition import Definition
from arco.state._layout import Layout
from arco.state._manifest import File, Manifest, Pending
from arco.state._merge import inputs_of
from arco.state._runner import MergeJob, Runner
from arco.storage import ObjectExists, ObjectMissing, Store

__all__ = ["Merging"]

RETRY_SECONDS = 1.0


class Merging:
    def __init__(
        self,
        definition: Definition,
        store: Store,
        layout: Layout,
        runner: Runner,
        runtime: Runtime,
        head: Callable[[], Manifest],
        cutoff: Callable[[str], int | None],
        done: Callable[[], None],
    ) -> None:
        """`head` is the newest manifest, `cutoff` what retention says of a table, `done` is told of every end."""
        self.results: dict[str, tuple[File, ...]] = {}
        """By id, what finished merges wrote and no manifest has adopted yet."""
        self.trouble: ArcoError | None = None
        """Why merges do not get on, if they do not."""
        self._definition = definition
        self._store = store
        self._layout = layout
        self._runner = runner
        self._runtime = runtime
        self._head = head
        self._cutoff = cutoff
        self._done = done
        self._running: dict[str, Task] = {}
        self._damaged: set[str] = set()  # their inputs cannot be read: not tried again by this process

    def start(self) -> None:
        """Begin every announced merge that nobody here works on."""
        for known in self._head().pending:
            if known.kind == "merge" and known.id not in {*self._running, *self.results, *self._damaged}:
                self._running[known.id] = self._runtime.spawn(self._run(known), f"merge of {known.table}")

    def forgive(self) -> None:
        """Try again what did not work."""
        self.trouble = None
        self._damaged.clear()

    def keep(self, pending: tuple[Pending, ...]) -> None:
        """Forget the results of merges that are not pending any more."""
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
        except Unavailable:  # the next publish starts it again
            await self._runtime.sleep(RETRY_SECONDS)
            self._done()
        except ArcoError as error:
            self.trouble = error  # the inputs stay as they are; `arco doctor` tells what is wrong with them
            self._damaged.add(pending.id)
        finally:
            self._running.pop(pending.id, None)

    async def _result(self, pending: Pending) -> tuple[File, ...]:
        """Somebody's result from before, or ours. The first result object counts."""
        head = self._head()
        path = f"{self._layout.state}/{pending.directory}/result"
        try:
            return await self._read(path)
        except ObjectMissing:
            pass
        layers = tuple(inputs_of(head, pending))
        if len(layers) != len(pending.inputs):
            return ()  # the inputs are gone, so nobody will adopt this
        files = await self._runner.merge(
            MergeJob(
                table=self._definition.tables[pending.table],
                layers=layers,
                oldest=head.layers_of(pending.table)[0] == layers[0],
                cutoff=self._cutoff(pending.table),
                directory=f"{pending.directory}/{new_ulid(self._runtime, self._runtime)}",
            )
        )
        try:
            await self._store.put(path, msgspec.json.encode(files), only_if_absent=True)
            return files
        except ObjectExists:
            return await self._read(path)

    async def _read(self, path: str) -> tuple[File, ...]:
        return msgspec.json.decode(await self._store.get(path), type=tuple[File, ...])

"""One process of the kill test: `python -m tests.prove.worker ROLE NAME FOLDER`. It works until somebody kills it.

- `writer`: records facts, repeats some of them, claims names, tries what must be refused; in bursts with pauses, so
  that the ownership of the logs goes round. Every answer is written to its ack file before the next request.
- `compactor`: folds, publishes, merges, and now and then rebuilds everything.
- `collector`: deletes what nobody can reach, with a minimum age of seconds instead of an hour.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from arco.core import (
    HOUR,
    SECOND,
    ArcoError,
    Corrupt,
    Invalid,
    OutcomeUnknown,
    Refused,
    StoreRefused,
    Superseded,
    Unavailable,
    new_ulid,
)
from arco.domains.catalog import CreateNamespace
from arco.domains.execution import MATERIALIZATION_COMPLETED, DataFile, MaterializationCompleted
from arco.log import NewEvent
from arco.runtime import AsyncRuntime, Workspace
from arco.state import Cadence, Collector, new_event
from arco.storage import LocalStore, Role, Scope
from tests.prove.acks import Ack, AckFile

__all__ = ["ASSETS", "CADENCE", "MIN_AGE", "SCOPE", "STORE", "materialization", "open_workspace"]

SCOPE = Scope("prove", "kill")
STORE = "store"
MIN_AGE = 2.0
CADENCE = Cadence(interval=0.05, fan_in=4, keep_all=3 * SECOND)
ASSETS = 20
NAMES = 100_000
"""Names to claim are drawn from the newest few of so many, so that most are wanted by more than one."""


def materialization(runtime: AsyncRuntime, *, ahead: int = 0) -> tuple[str, NewEvent]:
    """A new version of some partition; `ahead` dates it into the future. Its file is of others: nobody writes it, and
    `arco doctor` misses only what should lie in the workspace."""
    number = int(runtime.uniform(0, ASSETS * 5))
    identity, now = new_ulid(runtime, runtime), runtime.now() + ahead
    payload = MaterializationCompleted(
        materialization_id=identity,
        asset_id=f"01ARZ3NDEKTSV4RRFFQ69G{number // 5:04d}",
        asset_key=f"prove.asset_{number // 5}",
        partition_id=f"part_{number:032x}",
        partition_key=f"number={number}",
        run_id=new_ulid(runtime, runtime),
        task_id=f"task_{number}",
        files=(DataFile(f"landing/{identity}/part-00000.parquet", 1_000, 10),),
        row_count=10,
        byte_size=1_000,
        schema_hash="5f" * 16,
        started_at=now - SECOND,
        completed_at=now,
        status="quarantined" if number % 7 == 3 else "published",
    )
    return identity, new_event(MATERIALIZATION_COMPLETED, payload)


async def open_workspace(folder: Path, runtime: AsyncRuntime, *, may_own: bool) -> Workspace:
    store = LocalStore(folder / STORE)
    return await Workspace.open(
        store, SCOPE, runtime, compact=False, test_store=False, may_own=may_own, cadence=CADENCE, min_age=MIN_AGE
    )


class Writer:
    def __init__(self, folder: Path, name: str, runtime: AsyncRuntime) -> None:
        self._folder = folder
        self._name = name
        self._runtime = runtime
        self._acks = AckFile(folder, name)
        self._known: list[tuple[str, NewEvent]] = []
        self._started = runtime.now()

    async def run(self) -> None:
        while True:
            async with await open_workspace(self._folder, self._runtime, may_own=True) as workspace:
                for _ in range(int(self._runtime.uniform(1, 6))):
                    for _ in range(int(self._runtime.uniform(1, 30))):
                        await self._one(workspace)
                    await self._runtime.sleep(self._runtime.uniform(0.0, 0.6))

    async def _one(self, workspace: Workspace) -> None:
        chance = self._runtime.uniform(0, 1)
        kinds: tuple[tuple[float, Callable[[Workspace], Awaitable[None]]], ...] = (
            (0.60, self._record),
            (0.70, self._record_with_key),
            (0.78, self._repeat),
            (0.95, self._claim),
            (1.01, self._refused),
        )
        await next(action for limit, action in kinds if chance < limit)(workspace)

    async def _record(self, workspace: Workspace) -> None:
        new = [materialization(self._runtime) for _ in range(int(self._runtime.uniform(1, 6)))]
        await self._submit(workspace, new)

    async def _record_with_key(self, workspace: Workspace) -> None:
        """The same request twice, as by a client that missed the answer: one operation, one place in the log."""
        new, key = [materialization(self._runtime)], new_ulid(self._runtime, self._runtime)
        if await self._submit(workspace, new, key=key):
            await self._submit(workspace, new, key=key, again=True)

    async def _repeat(self, workspace: Workspace) -> None:
        """A fact that is in the log, told once more under another operation: in the log twice, in the state once."""
        if self._known:
            self._acks.write(Ack("repeating", ids=(self._known[-1][0],)))
            await self._submit(workspace, [self._known[-1]], again=True)

    async def _submit(
        self, workspace: Workspace, new: list[tuple[str, NewEvent]], *, key: str = "", again: bool = False
    ) -> bool:
        """Whether the events are durable now."""
        ids = tuple(identity for identity, _ in new)
        try:
            receipt = await workspace.record("activity", [event for _, event in new], actor=self._name, key=key)
        except (Unavailable, Superseded) as error:
            self._not_told(error, ids, again)
            return False
        kind: Literal["recorded", "repeated"] = "repeated" if again else "recorded"
        self._acks.write(Ack(kind, int(receipt.first), int(receipt.last), ids))
        self._known = new
        return True

    def _not_told(self, error: ArcoError, ids: tuple[str, ...], again: bool = False) -> None:
        """Only `OutcomeUnknown` leaves it open whether something was written; what was there before stays there."""
        open_ = again or isinstance(error, OutcomeUnknown)
        self._acks.write(Ack("unknown" if open_ else "refused", ids=ids, name=f"{error.name}: {error.message}"))

    async def _claim(self, workspace: Workspace) -> None:
        """Names advance with the time, so that all writers want the same ones at once. The description tells whose
        claim was granted."""
        identity = new_ulid(self._runtime, self._runtime)
        name = f"claim_{self._runtime.now() // (200 * 1_000) % NAMES}"
        try:
            await workspace.decide("catalog", CreateNamespace((name,), identity), actor=self._name)
        except (Refused, Unavailable, Superseded) as error:
            self._not_told(error, (identity,))
        else:
            self._acks.write(Ack("claimed", ids=(identity,), name=name))

    async def _refused(self, workspace: Workspace) -> None:
        identity, event = materialization(self._runtime, ahead=HOUR)
        try:
            await workspace.record("activity", [event], actor=self._name)
        except (Invalid, Unavailable, Superseded) as error:
            self._not_told(error, (identity,))


async def compact(folder: Path, name: str, runtime: AsyncRuntime) -> None:
    while True:
        async with await open_workspace(folder, runtime, may_own=False) as workspace:
            for _ in range(int(runtime.uniform(5, 60))):
                for log in workspace.logs.values():
                    try:
                        if runtime.uniform(0, 1) < 0.01:
                            await log.compactor.rebuild()
                        else:
                            await log.compactor.compact()
                    except (Unavailable, Superseded):
                        pass  # the other one went on; so do we
                await runtime.sleep(runtime.uniform(0.02, 0.2))


async def collect(folder: Path, name: str, runtime: AsyncRuntime) -> None:
    acks = AckFile(folder, name)
    workspace = await open_workspace(folder, runtime, may_own=False)
    store = workspace.handle(Role.COLLECTOR)
    while True:
        for log in workspace.logs.values():
            try:
                done = await Collector(store, log.place, runtime, min_age=MIN_AGE).collect()
                acks.write(Ack("collected", name=str(len(done.manifests)), count=len(done.files) + len(done.manifests)))
            except Unavailable:
                pass
        await runtime.sleep(runtime.uniform(0.2, 0.8))


async def write(folder: Path, name: str, runtime: AsyncRuntime) -> None:
    await Writer(folder, name, runtime).run()


async def leave_with_parent() -> None:
    """A worker whose proof was killed must not go on alone."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    os._exit(0)


async def main(role: str, name: str, folder: Path) -> None:
    runtime = AsyncRuntime()
    watching = asyncio.create_task(leave_with_parent())
    while not watching.done():
        try:
            await {"writer": write, "compactor": compact, "collector": collect}[role](folder, name, runtime)
        except (Corrupt, StoreRefused) as error:
            # Not expected, so it fails the proof; the worker goes on to show whether it is lasting.
            AckFile(folder, name).write(Ack("trouble", name=f"{role}: {error.name}: {error.message}"))
            await runtime.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))

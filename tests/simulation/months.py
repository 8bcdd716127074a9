"""`live`: a busy workspace in memory on the virtual clock, for days or a year, with every request and object counted.

A *load* says what happens in a day, evenly spread; a *day* is what was counted of one. What else runs (collection by
default) is a list of *chores*, each with its own period, and of *loops*, which act by themselves as in a server;
`tests.simulation.year` has all of them. With `faults` that share of all writes fails, half of them after they took
effect. Whatever was acknowledged is noted, so that it can be looked for at the end.

    month = run(live(30, BUSY))
    month.days[-1].requests, month.days[-1].objects

`python -m tests.simulation.months [days] [calm]` prints a month.
"""

import asyncio
import hashlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from arco.backup import collect_workspace
from arco.catalog import namespace_info
from arco.core import StoreRefused, Unavailable
from arco.cost import Load
from arco.domains.catalog import CreateNamespace
from arco.domains.execution import MATERIALIZATION_COMPLETED, MaterializationCompleted
from arco.domains.orchestration import FinishTask
from arco.log import Command, Gateway, NewEvent, Receipt
from arco.runtime import Workspace, init_workspace
from arco.servo import Asked, Envelope, Mode, RunRequest, Servo, deploy, open_envelope, prepare_deploy
from arco.state import Cadence, Manifest, new_event
from arco.storage import MemoryStore, ObjectInfo, Operation, Role, Scope, StoreFailed
from tests.doubles import FakeRuntime, run
from tests.servo.world import SECRET, WORKER, chain, project, result_of

__all__ = [
    "BUSY",
    "CALM",
    "CODE",
    "COLLECTION",
    "SCOPE",
    "Chore",
    "Day",
    "Life",
    "Load",
    "Loop",
    "Observed",
    "Prefix",
    "fact",
    "folder_of",
    "live",
    "plain_result",
    "run",
]

T = TypeVar("T")

SCOPE = Scope("acme", "busy")
DAY_SECONDS = 86_400.0
CODE = b"an archive"
PREFIXES = ("ledger", "state", "private", "manifests", "packs", "iceberg", "blobs", "code", "data", "logs")


BUSY = Load()
CALM = Load(runs=1, tasks=3, posts=2, facts=10, changes=1, reads=4)
"""Little enough for a month of it in every run of the tests."""


@dataclass(frozen=True)
class Prefix:
    """What lies below one folder of the workspace."""

    objects: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Day:
    """What was counted in one day, and what was there at its end."""

    number: int
    requests: Counter[str]
    by_role: Counter[tuple[Role, Operation]]
    written: Counter[str]
    """Bytes, by folder."""
    stored: dict[str, Prefix]
    revisions: int
    """Published that day, both logs."""
    segments: int
    manifest: int
    """Bytes of the newest manifest of the log of runs."""
    memory: int
    """Rows that the process holds, both logs."""

    @property
    def objects(self) -> int:
        return sum(prefix.objects for prefix in self.stored.values())


@dataclass
class Life:
    """A workspace that is being lived in. Chores get it."""

    runtime: FakeRuntime
    store: "Observed"
    workspace: Workspace
    load: Load
    servo: Servo
    began: float = 0.0
    """When its first day begins, by the runtime's clock."""
    days: list[Day] = field(default_factory=list)
    acknowledged: list[tuple[str, Command, Receipt]] = field(default_factory=list)
    """Everything that was done for anybody, by log."""

    def head(self, log: str) -> Manifest:
        return self.workspace.logs[log].compactor.head.manifest


@dataclass(frozen=True)
class Chore:
    """Something that runs every `period` seconds beside the load."""

    name: str
    work: Callable[[Life], Awaitable[None]]
    period: float = DAY_SECONDS


class Loop(Protocol):
    """What acts by itself while a workspace is open."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


async def _collect(life: Life) -> None:
    await collect_workspace(life.store, SCOPE, life.runtime, counts=life.workspace.counts)


COLLECTION = Chore("collection", _collect)


class Observed(MemoryStore):
    """Counts requests and bytes, and fails some writes. It has folders as a local disk has them, which outlive what
    lies in them."""

    def __init__(self, runtime: FakeRuntime, faults: float = 0.0, seed: int = 0) -> None:
        super().__init__(runtime)
        self.requests: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.faults = faults
        self.folders: Counter[str] = Counter()
        """How many objects and folders lie in each."""
        self._chance = random.Random(seed)

    async def get(self, path: str) -> bytes:
        self.requests["get"] += 1
        return await super().get(path)

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        self.requests["range"] += 1
        return await super().get_range(path, offset, length)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        self.requests["create" if only_if_absent else "put"] += 1
        fails = self._chance.random() < self.faults
        if fails and self._chance.random() < 0.5:
            raise StoreFailed(f"{path} was not written", path=path)
        is_new = path not in self._objects
        await super().put(path, data, only_if_absent=only_if_absent)
        if is_new:
            self._enter(path)
        self.written[folder_of(path) if only_if_absent else "hints"] += len(data)
        if fails:
            raise StoreFailed(f"the answer about {path} was lost", path=path)

    async def head(self, path: str) -> ObjectInfo:
        self.requests["head"] += 1
        return await super().head(path)

    async def delete(self, path: str) -> None:
        self.requests["delete"] += 1
        if path in self._objects:
            self.folders[_above(path)] -= 1
        await super().delete(path)

    def _enter(self, path: str) -> None:
        while path:
            path, is_there = _above(path), _above(path) in self.folders
            self.folders[path] += 1
            if is_there:
                return

    async def remove_empty(self, folder: str, is_over: Callable[[str], bool]) -> int:
        below = [name for name in self.folders if name == folder or name.startswith(f"{folder}/")]
        removed = 0
        for name in sorted(below, key=len, reverse=True):
            if not self.folders[name] and is_over(name):
                del self.folders[name]
                self.folders[_above(name)] -= 1
                removed += 1
        return removed

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.requests["list"] += 1
        async for info in super().list(prefix):
            yield info

    def infos(self) -> tuple[ObjectInfo, ...]:
        """Everything that is stored; a look from outside that counts as no request."""
        return tuple(ObjectInfo(path, len(data), modified) for path, (data, modified) in self._objects.items())

    def census(self) -> dict[str, Prefix]:
        """What is stored, by folder."""
        found: dict[str, Prefix] = {}
        for info in self.infos():
            name = folder_of(info.path)
            before = found.get(name, Prefix())
            found[name] = Prefix(before.objects + 1, before.bytes + info.size)
        return found


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def folder_of(path: str) -> str:
    """The folder below the workspace or its incarnation that an object belongs to."""
    first, second = path.removeprefix(f"{SCOPE.root}/").split("/")[:2]
    return second if first.startswith("inc-") else first


async def plain_result(life: Life, envelope: Envelope) -> FinishTask:
    """What a worker says that made something and wrote no file."""
    return result_of(envelope, life.runtime.now())


async def live(
    days: int,
    load: Load = BUSY,
    *,
    chores: Sequence[Chore] = (COLLECTION,),
    loops: Callable[[Life], Sequence[Loop]] = lambda life: (),
    result: Callable[[Life, Envelope], Awaitable[FinishTask]] = plain_result,
    cadence: Cadence | None = None,
    faults: float = 0.0,
    seed: int = 0,
    ended: Callable[[Life], None] = lambda life: None,
) -> Life:
    """So many days of a workspace. `ended` is told of every day; `result` is what workers do."""
    runtime = FakeRuntime(seed)
    store = Observed(runtime, seed=seed)
    await init_workspace(store, SCOPE, runtime)
    async with await Workspace.open(store, SCOPE, runtime, test_store=False, cadence=cadence) as workspace:
        life = Life(runtime, store, workspace, load, Servo(workspace, SECRET))
        await _prepare(life)
        store.faults = faults
        running = loops(life)
        for loop in running:
            loop.start()
        actors = _actors(life, chores, result)
        work = [asyncio.ensure_future(_repeat(life, name, period, act, days)) for name, period, act in actors]
        try:
            for number in range(days):
                before = _mark(life)
                await _until(life, (number + 1) * DAY_SECONDS, work)
                life.days.append(await _day(life, number, before))
                ended(life)
        finally:
            store.faults = 0.0
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            for loop in running:
                await loop.stop()
    return life


async def _prepare(life: Life) -> None:
    for name, log in life.workspace.logs.items():
        _note(life, name, log.gateway)
    sha256 = hashlib.sha256(CODE).hexdigest()
    await life.workspace.handle(Role.OWNER).put(Servo.code_path(sha256), CODE, only_if_absent=True)
    made = msgspec.structs.replace(project(chain(int(life.load.tasks))), code_sha256=sha256)
    plan = await prepare_deploy(life.workspace, made)
    await deploy(life.workspace, plan, actor="me")
    await life.workspace.decide("catalog", CreateNamespace(("n",)), actor="me")
    life.began = life.runtime.boottime()


def _note(life: Life, log: str, gateway: Gateway) -> None:
    """Keep every receipt that leaves the door of a log, whoever asked."""
    submit = gateway.submit

    async def noting(command: Command) -> Receipt:
        receipt = await submit(command)
        life.acknowledged.append((log, command, receipt))
        return receipt

    gateway.submit = noting  # type: ignore[method-assign]


_Act = Callable[[int], Awaitable[None]]


def _actors(
    life: Life, chores: Sequence[Chore], result: Callable[[Life, Envelope], Awaitable[FinishTask]]
) -> list[tuple[str, float, _Act]]:
    load = life.load
    found: list[tuple[str, float, _Act]] = []

    def every(count: float, name: str, act: _Act) -> None:
        if count:
            found.append((name, DAY_SECONDS / count, act))

    async def change(number: int) -> None:
        receipt = await life.workspace.decide("catalog", CreateNamespace((f"n{number}",)), actor="me")
        await life.workspace.published("catalog", receipt.position)

    async def post(number: int) -> None:
        events = [fact(life.runtime, number, index) for index in range(int(load.facts))]
        await life.workspace.record("activity", events, actor="outside")

    async def read(number: int) -> None:
        await life.workspace.logs["catalog"].read(lambda view: namespace_info(view, "n"))

    every(load.runs, "run", lambda number: _carry_out(life, result))
    every(load.posts, "post", post)
    every(load.changes, "change", change)
    every(load.reads, "read", read)
    return found + [(chore.name, chore.period, partial(_do, chore, life)) for chore in chores]


async def _do(chore: Chore, life: Life, number: int) -> None:
    await chore.work(life)


async def _repeat(life: Life, name: str, period: float, act: _Act, days: int) -> None:
    """Each actor begins somewhere within its first period, so that they do not all act at once."""
    began = life.runtime.boottime()
    offset = random.Random(name).uniform(0.1, 0.9) * period
    for number in range(int(days * DAY_SECONDS / period)):
        await life.runtime.sleep(max(0.0, began + offset + number * period - life.runtime.boottime()))
        while True:
            try:
                await act(number)
                break
            except (Unavailable, StoreRefused):
                await life.runtime.sleep(5.0)


async def _carry_out(life: Life, result: Callable[[Life, Envelope], Awaitable[FinishTask]]) -> None:
    """One run from trigger to end: every result claims what comes next."""
    work = life.servo.work
    request = RunRequest("*", mode=Mode.FORCE, at=life.runtime.now())
    await life.servo.runs.trigger(request, Asked("me"))
    claimed = await _insist(life, lambda: work.claim(WORKER, 1, 0.0))
    while claimed:
        envelope = _opened(life, claimed[0])
        await life.runtime.sleep(life.load.task_seconds)
        made = await result(life, envelope)
        done = await _insist(life, lambda made=made: work.finish([made], WORKER, 1))  # type: ignore[misc]
        claimed = done.envelopes


async def _insist(life: Life, ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except Unavailable:
            await life.runtime.sleep(5.0)


def _opened(life: Life, data: bytes) -> Envelope:
    return open_envelope(SECRET, data, tenant=SCOPE.tenant, workspace=SCOPE.workspace, now=life.runtime.now())


def fact(runtime: FakeRuntime, number: int, index: int) -> NewEvent:
    """Something that somebody made outside."""
    payload = MaterializationCompleted(
        materialization_id=f"m{number}-{index}",
        asset_id=f"x{index}",
        asset_key=f"outside.x{index}",
        partition_id="p",
        partition_key="",
        run_id=f"r{number}",
        task_id=f"t{index}",
        files=(),
        row_count=5,
        byte_size=10,
        schema_hash="h",
        started_at=runtime.now(),
        completed_at=runtime.now(),
    )
    return new_event(MATERIALIZATION_COMPLETED, payload)


@dataclass(frozen=True)
class _Mark:
    requests: Counter[str]
    by_role: Counter[tuple[Role, Operation]]
    written: Counter[str]
    revisions: int
    segments: int


def _mark(life: Life) -> _Mark:
    logs = life.workspace.logs
    return _Mark(
        Counter(life.store.requests),
        Counter(life.workspace.counts.table()),
        Counter(life.store.written),
        sum(life.head(log).number for log in logs),
        sum(log.follower.tail.number for log in logs.values()),
    )


async def _until(life: Life, seconds: float, work: Sequence["asyncio.Future[None]"]) -> None:
    """Until so many seconds of the life have passed; a failed actor fails the day."""
    await life.runtime.sleep(life.began + seconds - life.runtime.boottime())
    for task in work:
        if task.done() and not task.cancelled():
            task.result()


async def _day(life: Life, number: int, before: _Mark) -> Day:
    now = _mark(life)
    head = life.workspace.logs["activity"]
    path = f"{SCOPE.root}/{head.revisions.sequence.path(life.head('activity').number)}"
    return Day(
        number,
        now.requests - before.requests,
        now.by_role - before.by_role,
        now.written - before.written,
        life.store.census(),
        now.revisions - before.revisions,
        now.segments - before.segments,
        len(await MemoryStore.get(life.store, path)),
        sum(log.rows_held() for log in life.workspace.logs.values()),
    )


def _print(life: Life) -> None:
    day = life.days[-1]
    with suppress(BrokenPipeError):
        stored = {name: (prefix.objects, prefix.bytes) for name, prefix in sorted(day.stored.items())}
        print(day.number, dict(day.requests), day.segments, day.revisions, day.manifest, stored, flush=True)


if __name__ == "__main__":
    run(live(int(sys.argv[1]) if len(sys.argv) > 1 else 30, CALM if "calm" in sys.argv else BUSY, ended=_print))

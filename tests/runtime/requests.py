"""How many requests each operation makes: measured here, written in docs/requests.md, compared by test_requests.py.

`python -m tests.runtime.requests` prints the table.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from arco.core import Conflict, new_ulid
from arco.domains.catalog import NAMESPACES, CreateNamespace
from arco.domains.execution import PARTITIONS
from arco.log import NewEvent
from arco.runtime import Workspace, init_workspace
from arco.state import Collector, new_event
from arco.state._definition import Definition
from arco.storage import MemoryStore, Role, Store
from tests.doubles import FakeRuntime
from tests.runtime.world import SCOPE, Counted, made, run
from tests.state.toy import SET, NoteSet, toy

__all__ = ["COLUMNS", "MEASURES", "measure_all", "render"]

COLUMNS = ("create", "get", "range", "head", "list", "delete")
"""Hints are plain overwrites, at most one a second for each log and kind; they are left out here."""

Made = Callable[[FakeRuntime], Store]
Counts = dict[str, int]


class Bench:
    """One open workspace that publishes only when told to."""

    def __init__(self, runtime: FakeRuntime, store: Counted, workspace: Workspace) -> None:
        self.runtime = runtime
        self.store = store
        self.workspace = workspace

    async def count(self, work: Callable[[], Awaitable[object]]) -> Counts:
        await self.runtime.sleep(2)  # let hints of earlier work go out first
        before = self.store.requests.copy()
        await work()
        await asyncio.sleep(0)
        return {name: self.store.requests[name] - before[name] for name in COLUMNS}

    async def record(self, *events: NewEvent) -> int:
        return (await self.workspace.record("activity", events, actor="w")).position

    async def create(self, *path: str) -> int:
        command = CreateNamespace(path)
        return (await self.workspace.decide("catalog", command, actor="me")).position

    async def publish(self, log: str = "activity") -> None:
        await self.workspace.logs[log].compactor.publish()

    async def reopen(self, *, test_store: bool = False, compact: bool = False) -> Workspace:
        return await Workspace.open(self.store, SCOPE, self.runtime, test_store=test_store, compact=compact)


@asynccontextmanager
async def bench(
    runtime: FakeRuntime, base: Store, *, compact: bool = False, definitions: tuple[Definition, ...] = ()
) -> AsyncIterator[Bench]:
    store = Counted(base, runtime)
    await init_workspace(store, SCOPE, runtime)
    options = {"definitions": definitions} if definitions else {}
    workspace = await Workspace.open(store, SCOPE, runtime, compact=compact, **options)  # type: ignore[arg-type]
    async with workspace:
        yield Bench(runtime, store, workspace)


async def record(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        first = await b.count(lambda: b.record(made(runtime, "m0")))
        one = await b.count(lambda: b.record(made(runtime, "m1")))
        group = await b.count(lambda: asyncio.gather(*(b.record(made(runtime, f"g{n}")) for n in range(16))))
        return {
            "first record of a process (it becomes the owner)": first,
            "record": one,
            "16 records at once": group,
        }


async def decide(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async def refused(work: Awaitable[object]) -> None:
        try:
            await work
        except Conflict:
            return
        raise AssertionError("not refused")

    async with bench(runtime, base) as b:
        await b.create("a")
        granted = await b.count(lambda: b.create("b"))
        no = await b.count(lambda: refused(b.create("a")))
        key = new_ulid(runtime, runtime)
        command = CreateNamespace(("c",))
        await b.workspace.decide("catalog", command, actor="me", key=key)
        again = await b.count(lambda: b.workspace.decide("catalog", command, actor="me", key=key))
        return {"decide": granted, "decide, refused": no, "decide, repeated under its request key": again}


async def publish(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        await b.record(made(runtime, "m0"))
        await b.publish()
        await b.record(made(runtime, "m1"))
        something = await b.count(b.publish)
        nothing = await b.count(b.publish)
        return {"publish": something, "publish, nothing new": nothing}


async def publish_private(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base, definitions=(toy(),)) as b:
        await b.record(new_event(SET, NoteSet("a", "x", "hush")))
        return {"publish with a private table": await b.count(b.publish)}


async def ddl(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async def whole(b: Bench, name: str) -> None:
        await b.workspace.published("catalog", await b.create(name))

    found = {}
    async with bench(runtime, base, compact=True) as b:
        for existing, name in ((10, "10"), (1000, "1,000")):
            rows = (await b.workspace.logs["catalog"].replica.scan(NAMESPACES)).num_rows
            await asyncio.gather(*(b.create(f"n{number}") for number in range(rows, existing)))
            await b.workspace.logs["catalog"].compactor.compact()
            found[f"DDL and its publish, {name} namespaces exist"] = await b.count(partial(whole, b, f"x{existing}"))
    return found


async def reading(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async def row(workspace: Workspace) -> None:
        snapshot = await workspace.logs["activity"].snapshot()
        assert await snapshot.get(PARTITIONS, "a7", "p1") is not None

    async with bench(runtime, base) as b:
        for number in range(40):
            await b.record(made(runtime, f"m{number}", asset=f"a{number}"))
            await b.publish()
            await runtime.sleep(2)
        await b.workspace.logs["activity"].compactor.compact()
        await runtime.sleep(2)
        tested = await b.count(lambda: _close(b.reopen(test_store=True)))
        cold = await b.count(lambda: _close(b.reopen()))
        workspace = await b.reopen()
        first = await b.count(lambda: row(workspace))
        again = await b.count(lambda: row(workspace))
        log = workspace.logs["activity"]
        strong = await b.count(log.snapshot)
        stale = await b.count(lambda: log.snapshot(strong=False))
        older = await b.count(lambda: log.snapshot(revision=3))
        exact = await b.count(lambda: log.snapshot(position=3 << 20))
        await workspace.close()
        return {
            "open a workspace, self-test included": tested,
            "open a workspace (cold), without self-test": cold,
            "first row read after opening, strong": first,
            "the same row again, strong": again,
            "look whether a newer revision exists (strong read of what is loaded)": strong,
            "bounded-stale read of what is loaded": stale,
            "state at a retained revision": older,
            "state at a position in the segment after a retained revision": exact,
        }


async def _close(opening: Awaitable[Workspace]) -> None:
    await (await opening).close()


async def idle(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base, compact=True) as b:
        await b.workspace.published("activity", await b.record(made(runtime, "m0")))
        await runtime.sleep(3601)
        return {"an idle hour of an open workspace (two logs)": await b.count(lambda: runtime.sleep(3600))}


async def merging(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        for number in range(7):
            await b.record(made(runtime, f"m{number}"))
            await b.publish()
        await b.record(made(runtime, "m7"))
        merged = await b.count(b.workspace.logs["activity"].compactor.compact)
        return {"compact: publish the 8th delta, merge 8 deltas of 2 tables, adopt both": merged}


async def collecting(runtime: FakeRuntime, base: Store) -> dict[str, Counts]:
    async with bench(runtime, base) as b:
        log = b.workspace.logs["activity"]
        for number in range(6):
            await b.record(made(runtime, f"m{number}"))
            await b.publish()
            await runtime.sleep(2)
        collector = Collector(b.workspace.handle(Role.COLLECTOR), log.place, runtime)
        nothing = await b.count(collector.collect)
        await runtime.sleep(40 * 24 * 3600)
        await b.record(made(runtime, "late"))
        await b.publish()
        collector = Collector(b.workspace.handle(Role.COLLECTOR), log.place, runtime)
        return {
            "collect, 5 older revisions retained, nothing to delete": nothing,
            "collect, 6 older revisions expired": await b.count(collector.collect),
        }


MEASURES = (record, decide, publish, publish_private, ddl, reading, idle, merging, collecting)


def measure_all(store: Made) -> dict[str, Counts]:
    """Every row of the table, each measure on a fresh store."""
    found: dict[str, Counts] = {}
    for measure in MEASURES:
        found |= run(lambda runtime, measure=measure: measure(runtime, store(runtime)))  # type: ignore[misc]
    return found


def render(found: dict[str, Counts]) -> str:
    lines = [f"| operation | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    lines += [f"| {name} | {' | '.join(str(counts[c] or '') for c in COLUMNS)} |" for name, counts in found.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(measure_all(MemoryStore)))

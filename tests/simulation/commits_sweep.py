"""A crash at every storage operation of a commit, on both sides of it; then another server goes on.

The work runs once to count its operations. Then for each of them it runs in a process that dies right before the
operation is applied, and once more in one that dies right after. A request with a key is sent again to the other server
and must be carried out exactly once; without a key it happened or not, and never half. Then the other server commits to
every table without waiting longer than for a dead transaction.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.core import Corrupt
from tests.iceberg.stage import new_key
from tests.simulation.commits import CommitWorld
from tests.simulation.commits_checkers import check_commits
from tests.simulation.commits_history import Request
from tests.simulation.observe import watching
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Violation
from tests.simulation.store import Mix
from tests.simulation.sweep import SIDES, Swept

__all__ = ["COMMIT_WORKS", "CommitWork", "sweep_commits"]

SEED = 7
TABLES = ("T0", "T1", "T2")


@dataclass(frozen=True)
class CommitWork:
    name: str
    request: Callable[[], Request]
    keyed: bool = False
    cold: bool = True
    """Whether the server meets the tables for the first time."""


COMMIT_WORKS = (
    CommitWork("commit", lambda: Request("mark", TABLES[:1], "work")),
    CommitWork("commit to a hot table", lambda: Request("mark", TABLES[:1], "work"), cold=False),
    CommitWork("commit with a requirement", lambda: Request("mark", TABLES[:1], "work", "before")),
    CommitWork("commit with a key", lambda: Request("mark", TABLES[:1], "work", "before"), keyed=True),
    CommitWork("transaction", lambda: Request("mark", TABLES, "work")),
    CommitWork("transaction with a key", lambda: Request("mark", TABLES, "work", "before"), keyed=True),
    CommitWork("drop", lambda: Request("drop", TABLES[:1], "work")),
)


def _play(work: CommitWork, crash: tuple[int, str] | None) -> tuple[int, str]:
    """One run; how many storage operations the work made, and what a checker found."""
    probe = Probe()
    with watching(probe):
        world = CommitWorld(SEED, probe)
        world.tables, world.slow, world.deaf = list(TABLES), 0.0, 0.0
        counted = 0

        async def script() -> None:
            nonlocal counted
            first = world.boot("first", Mix())
            for table in TABLES:
                await first.runtime.spawn(first.server.create(table), f"create {table}")
                await world.send(first, _noted(world, Request("mark", (table,), "before")), 90.0)
            first.process.crash()
            node = world.boot("worker", Mix())
            if not work.cold:
                for table in TABLES:
                    await node.runtime.spawn(world.read(node, table), "look")
            request = _noted(world, work.request())
            request.key = new_key(node.runtime, "work") if work.keyed else None
            begin = node.process.operations
            if crash is not None:
                node.process.crash_at = (begin + crash[0], crash[1])
            await world.send(node, request, 90.0)
            counted = node.process.operations - begin
            if crash is not None and node.process.alive:
                raise Violation("progress", f"there is no operation {crash[0]} to crash at")
            rescuer = world.boot("rescuer", Mix())
            if work.keyed:
                await world._promptly(rescuer, request)
            for table in TABLES:
                if request.kind == "drop" and table == TABLES[0]:
                    await world._promptly(rescuer, _noted(world, Request("make", (table,), "back")))
                await world._promptly(rescuer, _noted(world, Request("mark", (table,), f"after on {table}")))
            await world._promptly(rescuer, _noted(world, Request("mark", TABLES, "last")))
            for table in TABLES:
                await rescuer.runtime.spawn(world.read(rescuer, table), "look")
            await world.scheduler.sleep(60.0)

        try:
            main = world.scheduler.spawn(script(), "sweep")
            world.scheduler.run(main, max_steps=100_000, max_seconds=3600.0)
            check_commits(world.history, probe)
        except (Violation, Corrupt) as error:
            return counted, f"{work.name}, {crash}: {error}"
        finally:
            world.scheduler.close()
    return counted, ""


def _noted(world: CommitWorld, request: Request) -> Request:
    world.history.requests.append(request)
    return request


def sweep_commits(work: CommitWork) -> Swept:
    """Crash at each storage operation, on both sides of it."""
    operations, failure = _play(work, None)
    swept = Swept(work.name, operations, 0, 0, [failure] if failure else [])
    for point in range(1, operations + 1):
        swept.points += len(SIDES)
        for side in SIDES:
            _, failure = _play(work, (point, side))
            if failure:
                swept.failures.append(failure)
            else:
                swept.recovered += 1
    return swept

"""The exhaustive crash sweep: for every kind of work, a crash at every storage operation, on both sides of it.

The work runs once to count its storage operations. Then, for each of them, it runs again on the same seed in a process
that dies right before the operation is applied, and once more in one that dies after it is applied and before the
answer. Another process takes over, does the work again, and every checker must be satisfied.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from arco.core import Corrupt
from arco.domains.catalog import CreateNamespace
from arco.state import Cadence, PackSize, packed_through
from tests.simulation.checkers import check_everything
from tests.simulation.clients import Ask
from tests.simulation.look import true_head
from tests.simulation.node import Node
from tests.simulation.observe import watching
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Violation
from tests.simulation.stage import Stage

__all__ = ["WORKS", "Swept", "Work", "report_sweep", "sweep"]

HOURS = 3600.0
SEED = 7
SMALL = PackSize(segments=2, keep=1, fan=2)
SIDES = ("before", "after")


@dataclass(frozen=True)
class Work:
    name: str
    prepare: Callable[[Stage], Awaitable[None]]
    """What is there before; by a process of its own, which is gone then."""
    perform: Callable[[Stage, Node], Awaitable[None]]
    """The work, in a process that may die; again, by the one that takes over."""
    fan_in: int = 100
    packs: PackSize = field(default_factory=PackSize)


@dataclass
class Swept:
    work: str
    operations: int
    points: int
    recovered: int
    failures: list[str]


async def _nothing(stage: Stage) -> None: ...


async def _some_names(stage: Stage) -> None:
    node = await stage.boot("before", compact=False)
    for name in ("n0", "n1", "n2"):
        await stage.create(node, name)
        await stage.publish(node)
        await stage.scheduler.sleep(2.0)
    await stage.drop(node, "n1")
    await stage.scheduler.sleep(2.0)
    node.process.crash()


async def _garbage(stage: Stage) -> None:
    """Superseded manifests, old layers and files of a publish that never was."""
    node = await stage.boot("before", compact=False)
    for turn in range(4):
        await stage.create(node, f"n{turn}")
        await stage.publish(node)
        await stage.scheduler.sleep(2.0)
    node.process.crash_at = (node.process.operations + 2, "after")
    task = stage.start(node, node.log("catalog").compactor.rebuild())
    await task
    await stage.scheduler.sleep(2 * HOURS)
    node = await stage.boot("later", compact=False)
    await stage.create(node, "n5")
    await stage.publish(node)
    await stage.start(node, node.log("catalog").compactor.rebuild())
    await stage.scheduler.sleep(2 * HOURS)
    await stage.create(node, "n6")
    await stage.publish(node)
    await stage.scheduler.sleep(2.0)
    node.process.crash()


async def _again(stage: Stage, node: Node, make: Callable[[], Ask]) -> None:
    """Ask; whoever takes over asks for the same operation again."""
    open_asks = [ask for ask in stage.history.asks if ask.asked_at and ask.answer in ("pending", "unknown")]
    ask = open_asks[-1] if open_asks else make()
    await stage.start(node, stage.asking.perform(node, ask))


async def _record(stage: Stage, node: Node) -> None:
    await _again(stage, node, lambda: stage.asking.record(node, (stage.asking.materialization(node),)))


async def _decide(stage: Stage, node: Node) -> None:
    make = CreateNamespace(("n7",), stage.asking._ulid(node))
    await _again(stage, node, lambda: stage.asking.ask(node, "catalog", "create", "n7", make))


async def _publish(stage: Stage, node: Node) -> None:
    await stage.publish(node)
    await stage.scheduler.sleep(2.0)


async def _merge(stage: Stage, node: Node) -> None:
    async def work() -> None:
        await node.log("catalog").compactor.compact()

    await stage.start(node, work())
    if node.alive and true_head(stage.cluster, "catalog").pending:
        raise Violation("progress", "a merge is still pending")


async def _rebuild(stage: Stage, node: Node) -> None:
    async def work() -> None:
        await node.log("catalog").compactor.rebuild()

    await stage.start(node, work())
    if node.alive and true_head(stage.cluster, "catalog").generation == 0:
        raise Violation("progress", "the rebuild was not published")


async def _collect(stage: Stage, node: Node) -> None:
    await stage.start(node, node.collect("catalog"))
    if node.alive:
        again = await stage.start(node, node.collect("catalog"))
        if again is not None and again.objects:
            raise Violation("progress", "a collection leaves garbage behind")


async def _pack(stage: Stage, node: Node) -> None:
    async def work() -> None:
        await node.log("catalog").compactor.compact()

    await stage.start(node, work())
    head = true_head(stage.cluster, "catalog")
    if node.alive and (head.pending or packed_through(head) < 2):
        raise Violation("progress", "segments that are due were not packed")


async def _packed(stage: Stage) -> None:
    """Segments in packs, older than an hour, and a lost attempt to pack."""
    await _some_names(stage)
    node = await stage.boot("packer", compact=False)
    await _pack(stage, node)
    await stage.create(node, "n8")
    await stage.create(node, "n9")
    node.process.crash_at = (node.process.operations + 6, "after")
    await _pack(stage, node)
    await stage.scheduler.sleep(2 * HOURS)
    node = await stage.boot("later", compact=False)
    await stage.create(node, "n5")
    await _pack(stage, node)
    await stage.scheduler.sleep(2.0)
    node.process.crash()


WORKS = (
    Work("record", _nothing, _record),
    Work("decide", _some_names, _decide),
    Work("publish", _some_names, _publish),
    Work("merge", _some_names, _merge, fan_in=2),
    Work("rebuild swap", _some_names, _rebuild),
    Work("collection", _garbage, _collect),
    Work("packing", _some_names, _pack, packs=SMALL),
    Work("dropping packed segments", _packed, _collect, packs=SMALL),
)


def _play(work: Work, crash: tuple[int, str] | None) -> tuple[int, str]:
    """One run; how many storage operations the work made, and what a checker found."""
    with watching(Probe()) as sight:
        stage = Stage(SEED, sight, Cadence(interval=1.0, fan_in=work.fan_in, packs=work.packs))
        counted = 0

        async def script() -> None:
            nonlocal counted
            await stage.cluster.init()
            await work.prepare(stage)
            node = await stage.boot("worker", compact=False)
            begin = node.process.operations
            if crash is not None:
                node.process.crash_at = (begin + crash[0], crash[1])
            await work.perform(stage, node)
            await stage.settle()
            counted = node.process.operations - begin
            if crash is not None and node.alive:
                raise Violation("progress", f"there is no operation {crash[0]} to crash at")
            rescuer = await stage.boot("rescuer", compact=False)
            await work.perform(stage, rescuer)
            for log in ("catalog", "activity"):
                await stage.publish(rescuer, log)
            asked = [ask for ask in stage.history.asks if ask.answer not in ("acknowledged", "refused")]
            if asked:
                raise Violation("progress", f"{asked[0].kind} is {asked[0].answer} in the end")

        try:
            main = stage.scheduler.spawn(script(), "sweep")
            stage.scheduler.run(main, max_steps=100_000, max_seconds=48 * HOURS)
            check_everything(stage.cluster, stage.history, sight, sample=0)
        except (Violation, Corrupt) as error:
            return counted, f"{work.name}, {crash}: {error}"
        finally:
            stage.scheduler.close()
    return counted, ""


def sweep(work: Work) -> Swept:
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


def report_sweep(console: Console, sweeps: Sequence[Callable[[], Swept]]) -> int:
    table = Table("operation", "storage operations", "crash points", "recovered")
    failures = []
    for each in sweeps:
        swept = each()
        table.add_row(swept.work, str(swept.operations), str(swept.points), f"{swept.recovered} of {swept.points}")
        failures += swept.failures
    console.print(table)
    for failure in failures:
        print(failure)
    print(f"{len(failures)} crash points without recovery")
    return 1 if failures else 0

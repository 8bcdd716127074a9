"""The stage for scripted worlds: a cluster without faults of its own, and what a script does with it.

A script says what happens in which order; how the steps of several processes interleave still comes from the seed.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from arco.core import Corrupt
from arco.domains.catalog import CreateNamespace, DropNamespace, Ref, UpdateNamespace
from arco.state import Cadence, PackSize
from tests.simulation.checkers import check_deletion, check_everything
from tests.simulation.clients import Ask, Asking, History, Reading
from tests.simulation.node import Cluster, Node
from tests.simulation.observe import Sight, watching
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Scheduler, SimTask, Violation
from tests.simulation.store import Mix

__all__ = ["HOURS", "SMALL_PACKS", "Scenario", "Stage", "run_scenario"]

HOURS = 3600.0

SMALL_PACKS = PackSize(segments=3, keep=1, fan=2)


class Stage:
    """A cluster without faults of its own, and what scripts do with it."""

    def __init__(self, seed: int, sight: Sight, cadence: Cadence | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.sight = sight
        cadence = cadence or Cadence(interval=1.0, fan_in=3, max_rows=2_000, packs=SMALL_PACKS)
        self.cluster = Cluster(self.scheduler, Mix(), cadence, sight.probe)
        self.cluster.disk.on_delete = lambda path: check_deletion(self.cluster, path)
        self.history = History()
        self.asking = Asking(self.cluster, self.history, self.scheduler.child("clients"), patience=False)
        self.reading = Reading(self.cluster, self.history, self.scheduler.child("readers"))

    async def boot(self, name: str, **options: Any) -> Node:
        node = await self.cluster.boot(name, **options)
        if node is None:
            raise Violation("progress", f"{name} does not start")
        return node

    def start(self, node: Node, coroutine: Coroutine[Any, Any, Any]) -> SimTask:
        """Run something in the node's process; await the task for its result."""
        task = node.spawn(coroutine, f"script in {node.name}")
        node.process.on_crash.append(lambda: task.ended.set(None))
        return task

    async def ask(self, node: Node, log: str, kind: str, subject: str, payload: msgspec.Struct) -> Ask:
        ask = self.asking.ask(node, log, kind, subject, payload)
        await self.start(node, self.asking.perform(node, ask))
        return ask

    async def create(self, node: Node, name: str) -> Ask:
        return await self.ask(node, "catalog", "create", name, CreateNamespace((name,), self.asking._ulid(node)))

    async def update(self, node: Node, name: str, text: str) -> Ask:
        return await self.ask(node, "catalog", "update", name, UpdateNamespace(Ref(path=(name,)), text))

    async def drop(self, node: Node, name: str) -> Ask:
        return await self.ask(node, "catalog", "drop", name, DropNamespace(Ref(path=(name,))))

    async def publish(self, node: Node, log: str = "catalog") -> int:
        """Everything that is appended, published by this node. The revision's number."""

        async def work() -> int:
            await node.log(log).follower.catch_up()
            return (await node.log(log).compactor.publish()).number

        number: int = await self.start(node, work())
        return number

    async def settle(self) -> None:
        """Let everybody finish what is under way."""
        await self.scheduler.sleep(20.0)


Scenario = Callable[[Stage], Awaitable[None]]


def run_scenario(scenario: Scenario, seed: int, cadence: Cadence | None = None) -> tuple[str, str, Probe]:
    """The checker that was not satisfied and what it said, both empty if all were."""
    probe = Probe()
    with watching(probe) as sight:
        stage = Stage(seed, sight, cadence)

        async def play() -> None:
            await stage.cluster.init()
            await scenario(stage)
            last = await stage.boot("last", compact=False)
            for log in ("catalog", "activity"):
                await stage.publish(last, log)
            for node in stage.cluster.alive():
                for opened in node.workspace.logs.values():
                    if opened.compactor.failed is not None:
                        raise Violation("progress", f"the compactor of {node.name} stopped: {opened.compactor.failed}")

        try:
            main = stage.scheduler.spawn(play(), "script")
            stage.scheduler.run(main, max_steps=200_000, max_seconds=10 * 24 * HOURS)
            check_everything(stage.cluster, stage.history, sight)
        except Violation as violation:
            return violation.checker, str(violation), probe
        except Corrupt as error:
            return "nothing is corrupt", str(error), probe
        except Exception as error:  # noqa: BLE001 - whatever reaches the script was not expected there
            return "errors have their place", repr(error), probe
        finally:
            stage.scheduler.close()
    return "", "", probe

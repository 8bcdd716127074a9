"""A queue outside, as a cloud offers it: it loses messages, delivers them more than once and in any order.

A dispatcher notes what it will enqueue (`RequestDispatch`), enqueues it, and notes that it has (`ConfirmDispatch`). It
may do all of this twice. The queue knows a task by its cloud-safe name and takes each once; what it delivers is no more
than a wake-up: whoever gets it asks for tasks.
"""

from typing import TYPE_CHECKING

from arco.core import ArcoError, Conflict
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    READY_TASKS,
    WORKSPACE,
    ConfirmDispatch,
    ReadyTaskRow,
    RequestDispatch,
    cloud_task_id,
    dispatch_id,
)
from tests.simulation.peers import Plane

if TYPE_CHECKING:
    from tests.simulation.runs import RunsWorld

__all__ = ["OutsideQueue"]


class OutsideQueue:
    def __init__(self, world: "RunsWorld") -> None:
        self.world = world
        self.random = world.scheduler.child("queue outside")
        self.taken: set[str] = set()
        """Names that it was given; each is taken once."""

    async def run(self) -> None:
        """Dispatch what is ready, now and then, wherever; until the end of the world."""
        while True:
            await self.world.scheduler.sleep(self.random.uniform(1.0, 15.0))
            planes = [plane for plane in self.world.planes_alive() if not plane.process.stalled]
            for plane in self.random.sample(planes, min(len(planes), 2)):
                plane.node.spawn(self._dispatch(plane), "dispatcher")

    async def _dispatch(self, plane: Plane) -> None:
        replica = plane.node.log("activity").replica
        try:
            for run in await replica.rows(ACTIVE_RUNS, WORKSPACE):
                ready: list[ReadyTaskRow] = await replica.page(READY_TASKS, run.run_id, None, 3)
                for row in ready:
                    await self._enqueue(plane, row)
        except ArcoError:
            return  # the next round, here or elsewhere, finds the same rows

    async def _enqueue(self, plane: Plane, row: ReadyTaskRow) -> None:
        name = dispatch_id(row.run_id, row.task_key, row.attempt)
        workspace = plane.node.workspace
        request = RequestDispatch(row.run_id, row.task_key, row.attempt, "outside")
        twice = self.random.random() < 0.3
        if twice:
            self.world.probe.fault("dispatch repeated")
        try:
            for _ in range(2 if twice else 1):
                await workspace.decide("activity", request, actor="dispatcher")
        except Conflict:
            return  # claimed or over by now
        self._take(cloud_task_id("d", name))
        for _ in range(2 if twice else 1):
            await workspace.decide("activity", ConfirmDispatch(row.run_id, name), actor="dispatcher")
        self.world.probe.path("dispatched outside")

    def _take(self, name: str) -> None:
        if name in self.taken:
            return
        self.taken.add(name)
        copies = self.random.choice((0, 1, 1, 2, 3))
        if copies != 1:
            self.world.probe.fault("wake-up duplicated" if copies else "wake-up lost")
        for _ in range(copies):
            worker = self.random.choice(self.world.workers)
            self.world.scheduler.after(self.random.uniform(0.0, 20.0), worker.poke)

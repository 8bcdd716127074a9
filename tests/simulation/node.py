"""`Node`: one simulated process that has the workspace open, and `Cluster`: all of them on one disk and one network."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from arco.core import Unavailable
from arco.domains.catalog import CATALOG
from arco.domains.execution import EXECUTION
from arco.log import Place
from arco.runtime import Incarnation, OpenLog, Peers, Workspace, init_workspace, read_incarnation
from arco.state import Cadence, Collection, Collector, Definition, define_log
from arco.storage import MIN_AGE, Role, Scope
from tests.simulation.claims import CLAIMS, RESERVING
from tests.simulation.network import Network, SimForwarder
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Process, Scheduler, SimRuntime, SimTask
from tests.simulation.store import Mix, SimDisk, SimStore

__all__ = ["DEFINITIONS", "OLD_DEFINITIONS", "SCOPE", "Cluster", "Node"]

SCOPE = Scope("acme", "prod")
DEFINITIONS: tuple[Definition, ...] = (define_log("catalog", [CATALOG]), define_log("activity", [EXECUTION, RESERVING]))
OLD_DEFINITIONS: tuple[Definition, ...] = (DEFINITIONS[0], define_log("activity", [EXECUTION, CLAIMS]))
"""The release before: it does not know `AttemptReserved`."""


@dataclass(eq=False)
class Node:
    process: Process
    runtime: SimRuntime
    store: SimStore
    workspace: Workspace
    definitions: tuple[Definition, ...]

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def alive(self) -> bool:
        return self.process.alive

    def log(self, name: str) -> OpenLog:
        return self.workspace.logs[name]

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimTask:
        return self.runtime.spawn(coroutine, name)

    async def collect(self, log: str, *, min_age: float = MIN_AGE) -> Collection:
        collector = Collector(self.workspace.handle(Role.COLLECTOR), self.log(log).place, self.runtime, min_age=min_age)
        return await collector.collect()


@dataclass
class Cluster:
    scheduler: Scheduler
    mix: Mix
    cadence: Cadence = field(default_factory=lambda: Cadence(interval=4.0, fan_in=3, max_rows=2_000))
    probe: Probe = field(default_factory=Probe)
    peers: Callable[[Process], Peers] | None = None
    """How processes reach each other beyond forwarding; without it each only sees the store."""

    def __post_init__(self) -> None:
        self.disk = SimDisk(self.scheduler, self.probe)
        self.network = Network(self.scheduler, self.probe)
        self.nodes: list[Node] = []
        self._births = 0
        self.incarnation: Incarnation

    def place(self, log: str) -> Place:
        return Place(SCOPE.tenant, SCOPE.workspace, self.incarnation.id, log)

    async def init(self) -> None:
        """Create the workspace, on a store that works."""
        process = self.process("init")
        store = SimStore(self.disk, process, Mix())
        self.incarnation = await init_workspace(store, SCOPE, SimRuntime(process))

    def process(self, name: str) -> Process:
        self._births += 1
        return Process(self.scheduler, name, self._births)

    async def boot(
        self,
        name: str,
        *,
        definitions: tuple[Definition, ...] = DEFINITIONS,
        compact: bool = True,
        may_own: bool = True,
        prepare: Callable[[Process], None] = lambda process: None,
    ) -> Node | None:
        """Start a process and open the workspace in it; None if it dies on the way."""
        process = self.process(name)
        prepare(process)
        runtime = SimRuntime(process)
        store = SimStore(self.disk, process, self.mix)
        opened: list[Node] = []

        async def start() -> None:
            address = process.name if self.peers is None else f"http://{process.name}"
            workspace = await self._open(store, runtime, address, definitions, may_own)
            node = Node(process, runtime, store, workspace, definitions)
            for log in workspace.logs.values():
                self.network.gateways[log.gateway.address, log.gateway.log] = (process, log.gateway)
            if compact:
                workspace.start()
            for log in workspace.logs.values():
                log.follow()
            opened.append(node)

        task = runtime.spawn(start(), f"start of {process.name}")
        process.on_crash.append(lambda: task.ended.set(None))
        await task
        if not opened or not process.alive:
            return None
        self.nodes.append(opened[0])
        process.on_crash.append(lambda: self._forget(opened[0]))
        self.scheduler.note("boot", process.name)
        return opened[0]

    async def _open(
        self,
        store: SimStore,
        runtime: SimRuntime,
        address: str,
        definitions: tuple[Definition, ...],
        may_own: bool,
    ) -> Workspace:
        while True:
            try:
                incarnation = await read_incarnation(store, SCOPE, runtime)
                workspace = Workspace(
                    store,
                    SCOPE,
                    runtime,
                    incarnation,
                    address=address,
                    forwarder=SimForwarder(self.network, runtime.process),
                    peers=self.peers(runtime.process) if self.peers is not None else None,
                    may_own=may_own,
                    cadence=self.cadence,
                )
                for definition in definitions:
                    await workspace.open_log(definition)
                return workspace
            except Unavailable:
                await runtime.sleep(1.0)

    def _forget(self, node: Node) -> None:
        if node in self.nodes:
            self.nodes.remove(node)

    def alive(self) -> list[Node]:
        return [node for node in self.nodes if node.alive]

"""Calls between simulated processes, with loss, delay, duplicates and reordering.

A call may arrive twice, or after its sender gave up. One whose answer has got through does not arrive again: a
transport that repeats on its own does so for lack of an answer.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from arco.core import Unavailable
from arco.log import Command, Gateway, Receipt
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Process, Scheduler, SimFuture

__all__ = ["Network", "SimForwarder"]


@dataclass
class Network:
    """Who listens where, and how bad the wires are. `noun` is what travels on them, in the names of its faults."""

    scheduler: Scheduler
    probe: Probe
    rates: dict[str, float] = field(default_factory=dict)
    gateways: dict[tuple[str, str], tuple[Process, Gateway]] = field(default_factory=dict)
    noun: str = "message"
    purpose: str = "network"

    def __post_init__(self) -> None:
        self.random: Random = self.scheduler.child(self.purpose)
        self.sent = 0
        self.newest_delivered = 0

    def draw(self) -> str | None:
        draw = self.random.random()
        for kind, rate in self.rates.items():
            draw -= rate
            if draw < 0:
                return kind
        return None

    async def call(
        self, sender: Process, target: Process | None, what: str, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        """What `work` returns or raises in the target's process. It may never answer: the sender brings patience."""
        fault = self.draw()
        latency = self.random.uniform(0.001, 0.05)
        self.scheduler.note(sender.name, what, fault or "")
        if fault is not None:
            self.probe.fault(fault)
        if target is None or not target.alive:
            await self.scheduler.sleep(latency)
            raise Unavailable("nobody listens there")
        self.sent += 1
        number, answer = self.sent, SimFuture()
        if fault == f"{self.noun} lost":
            await answer
        if fault == f"{self.noun} delayed":
            latency += self.random.uniform(2.0, 90.0)
        if fault == f"{self.noun} duplicated":
            # The first answer does not get through, so it is sent again; the second one may be lost as well.
            self._deliver(target, number, work, latency, SimFuture())
            late = self.random.random() < 0.5
            latency += self.random.uniform(0.0, 60.0 if late else 0.2)
            self._deliver(target, number, work, latency, SimFuture() if late else answer)
        else:
            is_lost = fault is not None and fault.endswith("answer lost")
            self._deliver(target, number, work, latency, SimFuture() if is_lost else answer)
        kind, value = await answer
        await self.scheduler.sleep(self.random.uniform(0.001, 0.05))
        if kind == "error":
            raise value
        return value

    def _deliver(
        self,
        process: Process,
        number: int,
        work: Callable[[], Coroutine[Any, Any, Any]],
        delay: float,
        answer: SimFuture,
    ) -> None:
        async def carry() -> None:
            try:
                value = await work()
            except Exception as error:  # noqa: BLE001 - every error travels back
                answer.set(("error", error))
            else:
                answer.set(("value", value))

        def arrive() -> None:
            if number < self.newest_delivered:
                self.probe.fault(f"{self.noun} reordered")
            self.newest_delivered = max(number, self.newest_delivered)
            if process.alive:
                self.scheduler.spawn(carry(), f"{self.noun} that arrived", process)
            # A dead process says nothing; whoever sent it waits until it loses patience.

        self.scheduler.after(delay, arrive)


class SimForwarder:
    """One process's end of the network. Implements `arco.log.Forwarder`."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def forward(self, address: str, log: str, command: Command) -> Receipt:
        target, gateway = self._network.gateways.get((address, log), (None, None))

        async def receive() -> Receipt:
            assert gateway is not None
            return await gateway.receive(command)

        what = f"forward {log} {command.operation}"
        receipt: Receipt = await self._network.call(self._process, target, what, receive)
        return receipt

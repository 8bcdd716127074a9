"""Forwarding of commands between simulated processes, with loss, delay, duplicates and reordering.

A command may arrive twice, or after its sender gave up. One whose answer has got through does not arrive again: a
transport that repeats on its own does so for lack of an answer.
"""

from dataclasses import dataclass, field
from random import Random

from arco.core import Unavailable
from arco.log import Command, Gateway, Receipt
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Process, Scheduler, SimFuture

__all__ = ["Network", "SimForwarder"]


@dataclass
class Network:
    """Who listens where, and how bad the wires are."""

    scheduler: Scheduler
    probe: Probe
    rates: dict[str, float] = field(default_factory=dict)
    gateways: dict[tuple[str, str], tuple[Process, Gateway]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random: Random = self.scheduler.child("network")
        self.sent = 0
        self.newest_delivered = 0

    def draw(self) -> str | None:
        draw = self.random.random()
        for kind, rate in self.rates.items():
            draw -= rate
            if draw < 0:
                return kind
        return None


class SimForwarder:
    """One process's end of the network. Implements `arco.log.Forwarder`."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def forward(self, address: str, log: str, command: Command) -> Receipt:
        network = self._network
        target = network.gateways.get((address, log))
        fault = network.draw()
        latency = network.random.uniform(0.001, 0.05)
        network.scheduler.note(self._process.name, "forward", log, command.operation, fault or "")
        if fault is not None:
            network.probe.fault(fault)
        if target is None or not target[0].alive:
            await network.scheduler.sleep(latency)
            raise Unavailable(f"nobody listens at {address}")
        network.sent += 1
        number, answer = network.sent, SimFuture()
        if fault == "message lost":
            await answer
        if fault == "message delayed":
            latency += network.random.uniform(2.0, 90.0)
        if fault == "message duplicated":
            # The first answer does not get through, so it is sent again; the second one may be lost as well.
            self._deliver(target, number, command, latency, SimFuture())
            late = network.random.random() < 0.5
            latency += network.random.uniform(0.0, 60.0 if late else 0.2)
            self._deliver(target, number, command, latency, SimFuture() if late else answer)
        else:
            self._deliver(target, number, command, latency, SimFuture() if fault == "answer lost" else answer)
        kind, value = await answer
        await network.scheduler.sleep(network.random.uniform(0.001, 0.05))
        if kind == "error":
            raise value
        return value

    def _deliver(
        self, target: tuple[Process, Gateway], number: int, command: Command, delay: float, answer: SimFuture
    ) -> None:
        network, (process, gateway) = self._network, target

        async def carry() -> None:
            try:
                receipt = await gateway.receive(command)
            except Exception as error:  # noqa: BLE001 - every error travels back
                answer.set(("error", error))
            else:
                answer.set(("receipt", receipt))

        def arrive() -> None:
            if number < network.newest_delivered:
                network.probe.fault("message reordered")
            network.newest_delivered = max(number, network.newest_delivered)
            if process.alive:
                network.scheduler.spawn(carry(), "forwarded command", process)
            # A dead process says nothing; whoever sent it waits until it loses patience.

        network.scheduler.after(delay, arrive)

"""`SimPeers`: how the processes of a control plane reach each other in a simulation.

Commands, questions for a publish and signs of life are calls on the network and suffer what that does to them. A stream
of segments stays open until it breaks by chance or its other end dies, stands still or owns the log no more.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from arco.core import Superseded, Unavailable
from arco.log import Command, Place, Receipt, Subscription
from arco.runtime import OpenLog
from arco.servo import Beat, Callback, Servo
from tests.simulation.network import Network, SimForwarder
from tests.simulation.node import Node
from tests.simulation.scheduler import Process, SimRuntime

__all__ = ["Plane", "SimPeers"]

ANSWER_SECONDS = 5.0
HEARTBEAT = 15.0
"""Seconds after which a silent stream says how far the log goes; more than in earnest, to simulate less of nothing."""


class Plane:
    """One process of the control plane: the workspace open in it, and what workers ask of it."""

    def __init__(self, node: Node, servo: Servo) -> None:
        self.node = node
        self.servo = servo
        self.began = node.runtime.boottime()

    @property
    def process(self) -> Process:
        return self.node.process


class SimPeers:
    """One process's way to the others. Implements `arco.runtime.Peers` and `arco.servo.Relay`."""

    def __init__(self, network: Network, process: Process, find: Callable[[str], Plane | None]) -> None:
        self._network = network
        self._process = process
        self._find = find
        self._forwarder = SimForwarder(network, process)

    async def forward(self, address: str, place: Place, command: Command) -> Receipt:
        return await self._forwarder.forward(address, place.log, command)

    async def publish(self, address: str, place: Place, position: int) -> int:
        async def work(plane: Plane) -> int:
            manifest = await plane.node.log(place.log).publishing.publish_here(position)
            return int(manifest.watermark)

        covered: int = await self._call(address, f"publish {place.log}", work)
        return covered

    async def beat(self, address: str, place: Place, attempts: Sequence[Callback]) -> list[Beat]:
        async def work(plane: Plane) -> list[Beat]:
            for attempt in attempts:
                plane.servo.check_callback(attempt.attempt_id, attempt.token)
            return await plane.servo.work.beat_here(attempts)

        heard: list[Beat] = await self._call(address, f"relay {attempts[0].attempt_id}", work)
        return heard

    async def _call(self, address: str, what: str, work: Callable[[Plane], Coroutine[Any, Any, Any]]) -> Any:
        plane = self._find(address)
        target = plane.process if plane is not None else None
        answer = self._network.call(self._process, target, what, lambda: work(plane))  # type: ignore[arg-type]
        try:
            return await SimRuntime(self._process).timeout(ANSWER_SECONDS, answer)
        except TimeoutError:
            raise Unavailable(f"{address} does not answer") from None

    def segments(self, address: str, place: Place) -> AsyncGenerator[tuple[int, bytes], None]:
        stream: Any = _Segments(self._network, self._process, self._find(address), place)
        return stream


class _Segments:
    """A stream as its receiver sees it. No generator: one that is dropped with its process must not wait."""

    def __init__(self, network: Network, process: Process, plane: Plane | None, place: Place) -> None:
        self._network = network
        self._process = process
        self._plane = plane
        self._place = place
        self._subscription: Subscription | None = None

    def __aiter__(self) -> "_Segments":
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        plane = self._plane
        await self._network.scheduler.sleep(self._network.random.uniform(0.001, 0.05))
        if plane is None or not plane.process.alive or plane.process.stalled:
            raise Unavailable("nobody streams there")
        log = plane.node.log(self._place.log)
        if self._subscription is None:
            if not log.owning or log.stream.closed:
                raise Superseded("it does not own the log")
            self._subscription = log.stream.subscribe()
            return log.follower.tail.number, b""
        if self._network.random.random() < self._network.rates.get("stream broken", 0.0):
            self._network.probe.fault("stream broken")
            raise Unavailable("the stream broke")
        return await self._next(plane, log, self._subscription)

    async def _next(self, plane: Plane, log: OpenLog, subscription: Subscription) -> tuple[int, bytes]:
        try:
            tail, data = await SimRuntime(self._process).timeout(HEARTBEAT, subscription.next())
        except TimeoutError:
            if not plane.process.alive or plane.process.stalled:
                raise Unavailable("nobody streams there any more") from None
            if not log.owning:
                raise StopAsyncIteration from None
            return log.follower.tail.number, b""
        return tail.number, data

    async def aclose(self) -> None:
        if self._subscription is not None:
            self._subscription.close()

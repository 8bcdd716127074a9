"""`Wires`: the peers of workspaces that live in one test, by address, with wires that can be cut."""

from collections.abc import AsyncGenerator

from arco.core import Superseded, Unauthenticated, Unavailable
from arco.log import Command, Place, Receipt
from arco.runtime import OpenLog, Workspace
from tests.doubles import FakeRuntime

__all__ = ["Wires"]


class Wires:
    """Implements `arco.runtime.Peers` for all workspaces in `found`."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self.found: dict[str, Workspace] = {}
        self.cut: set[str] = set()
        """Addresses that nobody reaches."""
        self.strange: set[str] = set()
        """Addresses where somebody with another secret listens."""
        self.asked: list[str] = []
        """What went over the wires: forward, publish or segments, and to whom."""
        self._runtime = runtime

    def _log(self, what: str, address: str, place: Place) -> OpenLog:
        self.asked.append(f"{what} {address}")
        if address in self.strange:
            raise Unauthenticated(f"{address} does not accept this process")
        if address in self.cut or address not in self.found:
            raise Unavailable(f"nobody listens at {address}")
        return self.found[address].logs[place.log]

    async def forward(self, address: str, place: Place, command: Command) -> Receipt:
        return await self._log("forward", address, place).gateway.receive(command)

    async def publish(self, address: str, place: Place, position: int) -> int:
        return int((await self._log("publish", address, place).publishing.publish_here(position)).watermark)

    async def segments(self, address: str, place: Place) -> AsyncGenerator[tuple[int, bytes], None]:
        log = self._log("segments", address, place)
        if not log.owning:
            raise Superseded(f"{address} is not the owner")
        subscription = log.stream.subscribe()
        try:
            yield log.follower.tail.number, b""
            while log.owning:
                try:
                    tail, data = await self._runtime.timeout(2.0, subscription.next())
                except TimeoutError:
                    tail, data = log.follower.tail, b""
                if address in self.cut:
                    raise Unavailable(f"the stream of {address} broke")
                yield tail.number, data
        finally:
            subscription.close()

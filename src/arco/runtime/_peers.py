"""The other processes that have the same workspace open, and what this one does about them.

- `Peers` is the port: commands to an owner, waiting for a publisher, segments from an owner. HTTP is in `arco.api`.
- `OwnerFeed` keeps a follower at what the owner wins while this process does not own the log:

      wake -> hint -> owner's stream -> follower.accept -> arrived
      (idle) <- no owner that can be reached, or owner here

It asks the store only if there is reason to believe that somebody appends: at the start, when a reader found segments
that no stream had brought, when a command was forwarded, when a stream broke. An idle process on a stream makes no
request, and one without an owner makes none but a probe an hour.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

from arco.core import ArcoError, Future, Invalid, LostObject, Refused, Runtime, Unauthenticated
from arco.log import Command, Follower, Hint, HintFile, OwnerHint, Place, Receipt, is_http
from arco.storage import Store, Tail

__all__ = ["FedHint", "OwnerFeed", "PeerForwarder", "Peers"]

PROBE_SECONDS = 3600.0

FIRST_PAUSE, LAST_PAUSE = 0.5, 8.0
"""Seconds before a broken stream is tried again; after the last pause only a wake helps."""

SETTLED = 10.0
"""Seconds after which a stream that breaks is no sign that the next one will break too."""


class Peers(Protocol):
    """Other processes, by address. All of it may fail; nothing is repeated by itself."""

    async def forward(self, address: str, place: Place, command: Command) -> Receipt:
        """Hand a command to the owner there; see `arco.log.Forwarder` for what it raises."""
        ...

    async def publish(self, address: str, place: Place, position: int) -> int:
        """Wait until the publisher there has a revision that covers a position; how far it goes."""
        ...

    def segments(self, address: str, place: Place) -> AsyncGenerator[tuple[int, bytes], None]:
        """What the owner there wins from now on. Without bytes it only says how far its log goes, now and then."""
        ...


class OwnerFeed:
    def __init__(
        self,
        peers: Peers,
        follower: Follower,
        hint: HintFile,
        runtime: Runtime,
        address: str,
        *,
        owning: Callable[[], bool],
        arrived: Callable[[], None],
        probe: Callable[[], Awaitable[bool]],
        renew: Callable[[], Awaitable[bool]],
    ) -> None:
        """`probe` looks once an hour whether somebody appended unseen; `renew` as in `Gateway`."""
        self._peers = peers
        self._follower = follower
        self._hint = hint
        self._runtime = runtime
        self._address = address
        self._owning = owning
        self._arrived = arrived
        self._probe = probe
        self._renew = renew
        self._known = ""
        self._wakeup: Future[None] = runtime.future()
        self.source = ""
        """Where segments come from now; empty while no stream is open."""
        self._doubted = False
        self._wakeup.set(None)

    @property
    def owner(self) -> str:
        """Who streams to us is the owner, unless it failed us otherwise."""
        return "" if self._doubted else self.source

    def doubt(self, address: str) -> None:
        """Somebody did not get an answer there that an owner gives."""
        self._doubted = self._doubted or address == self.source

    def wake(self, owner: str = "") -> None:
        """Somebody appends: this owner, if it is known, else the one that the hint names."""
        if self.source or self._owning():
            return
        self._known = owner
        self._wakeup.set(None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            woken = await self._wait(PROBE_SECONDS)
            self._wakeup = self._runtime.future()
            try:
                if woken or (not self._owning() and await self._probe()):
                    await self._follow()
            except ArcoError:
                continue  # a reader or a command meets the same trouble and says so

    async def _follow(self) -> None:
        """Stay on the stream of whoever is the owner, as long as there is one."""
        pause = FIRST_PAUSE
        while not self._owning() and pause <= LAST_PAUSE:
            owner, self._known = self._known or (await self._hint.read()).address, ""
            if not is_http(owner) or owner == self._address:
                return
            started = self._runtime.boottime()
            await self._listen(owner)
            pause = FIRST_PAUSE if self._runtime.boottime() - started > SETTLED else pause * 2
            await self._runtime.sleep(pause * self._runtime.uniform(0.5, 1.0))

    async def _listen(self, owner: str) -> None:
        """Take what arrives until the stream ends, or until it is plain that others append behind the owner's back."""
        behind = 0
        try:
            async with aclosing(self._peers.segments(owner, self._follower.place)) as stream:
                async for number, data in stream:
                    self._doubted = self._doubted and self.source == owner and not data
                    self.source = owner
                    behind = behind + 1 if number < self._follower.tail.number and not data else 0
                    if behind > 1 or self._owning():
                        return
                    if number > self._follower.tail.number:
                        await self._take(number, data)
                        self._arrived()
        except ArcoError:
            return  # the stream, or the store while a gap was filled: both are tried again
        finally:
            self.source = ""

    async def _take(self, number: int, data: bytes) -> None:
        try:
            if data:
                # Our own older proof also holds for the number after it; the owner's counts on its own clock only.
                await self._follower.accept(data, Tail(number, self._follower.tail.proven))
            else:
                await self._follower.catch_up(at_least=number)
        except LostObject:
            if not await self._renew():
                raise

    async def _wait(self, seconds: float) -> bool:
        """Until somebody wakes us (True), or so many seconds."""

        async def wait() -> None:
            await self._wakeup

        try:
            await self._runtime.timeout(seconds, wait())
        except TimeoutError:
            return False
        return True


class PeerForwarder:
    """`arco.log.Forwarder` for one log, which tells the feed who turned out to be the owner, and who did not."""

    def __init__(self, peers: Peers, place: Place, feed: OwnerFeed) -> None:
        self._peers = peers
        self._place = place
        self._feed = feed

    async def forward(self, address: str, log: str, command: Command) -> Receipt:
        answered = False
        try:
            receipt = await self._peers.forward(address, self._place, command)
            answered = True
        except (Invalid, Refused) as error:
            answered = not isinstance(error, Unauthenticated)
            raise
        finally:
            if answered:
                self._feed.wake(address)
            else:
                self._feed.doubt(address)  # also when the gateway lost patience and cancelled this
        return receipt


class FedHint(OwnerHint):
    """The hint of a log whose owner streams to us: then no request is needed to know who it is."""

    def __init__(self, store: Store, path: str, runtime: Runtime, newest: Callable[[], Hint], feed: OwnerFeed) -> None:
        super().__init__(store, path, runtime, newest)
        self._feed = feed

    async def read(self) -> Hint:
        return Hint(0, self._feed.owner) if self._feed.owner else await super().read()

"""`Publishing`: who publishes a log, among all processes that have it open.

- The owner's process publishes what it wins. Another one asks the publisher that the hint of the manifests names, and
  publishes itself only if that one does not answer; so several processes do not race.
- A process that compacts but may not own (the role `compactor`) publishes whatever the stream brings. It announces
  itself in the hint; a new owner that publishes nothing itself tells it whose stream to follow.
- Without peers there is nobody to ask: who compacts publishes.
"""

from collections.abc import Callable
from contextlib import suppress

from arco.core import ArcoError, Forbidden, Runtime, Superseded, Task, Unauthenticated, Unavailable
from arco.log import Gateway, Hint, HintFile, is_http
from arco.runtime._peers import Peers
from arco.state import Compactor, Manifest, Replica, Revisions

__all__ = ["Publishing"]

NAMED_FOR = 10.0
"""Seconds for which the publisher that the hint named, or that did not answer, is remembered."""

AHEAD = 256
"""Segments that a replica may be ahead of its base before it takes over what another process published."""

NOBODY_FOR = 1.0
"""Seconds for which it is remembered that the hint names nobody; a publisher may be starting."""

ANNOUNCED_AFTER = (0.0, 1.0, 4.0, 16.0)
"""Seconds to wait before each try to tell a publisher of a new owner; after them the next segment begins anew."""

PATIENCE = 20.0
"""Seconds to wait for a publisher that nobody can name."""


class Publishing:
    def __init__(
        self,
        compactor: Compactor,
        replica: Replica,
        revisions: Revisions,
        gateway: Gateway,
        peers: Peers | None,
        runtime: Runtime,
        hint: HintFile,
        *,
        may_own: bool,
        asked: Callable[[], None],
    ) -> None:
        """`asked` hears that somebody wanted something published, who therefore knows of an owner."""
        self.compacts = False
        """Whether this process publishes: what it wins, what it is asked for, or all it hears of."""
        self._place = revisions.place
        self._compactor = compactor
        self._replica = replica
        self._revisions = revisions
        self._gateway = gateway
        self._peers = peers
        self._runtime = runtime
        self._hint = hint
        self._may_own = may_own
        self._asked = asked
        self._head = compactor.head
        self._publisher: tuple[str, float] = ("", float("-inf"))  # its address, and until when that holds
        self._told = 0  # a position that another process says is published
        self._rejoined = float("-inf")
        self._announced = 0  # the newest term of ownership that the publisher was told of
        self._announcing = False
        self._loop: Task | None = None

    # Its life

    @property
    def running(self) -> bool:
        return self._loop is not None

    def start(self) -> None:
        """Publish from now on. Without peers, or if that is this process's only job, the loop runs at once."""
        self.compacts = True
        if self._peers is None or not self._may_own:
            self._run()
        if self._peers is not None and not self._may_own:
            hint = Hint(self._compactor.head.manifest.number, self._gateway.address)
            self._runtime.spawn(self._hint.write(hint), f"hint of {self._place.log} manifests")

    def ours(self) -> bool:
        """Whether what is folded here is this process's to publish."""
        return self.running and (self._peers is None or self._gateway.owning or not self._may_own)

    async def close(self, *, publish: bool) -> None:
        try:
            if publish and self._compactor.failed is None:
                await self._compactor.publish()
        except Superseded:
            pass  # this program may only read, so there is nothing of its own to publish
        finally:
            await self._compactor.close()
            if self._loop is not None:
                await self._loop
                self._loop = None

    def _run(self) -> None:
        if self._loop is None:
            self._loop = self._runtime.spawn(self._compactor.run(), f"compactor of {self._place.log}")

    # What it hears

    def won(self) -> None:
        """This process appended."""
        self.keep_up()
        if self.compacts:
            self._run()
            self._compactor.notify()
        elif self._peers is not None and self._announced < self._gateway.terms and not self._announcing:
            self._announcing = True
            self._runtime.spawn(self._announce(self._peers), f"new owner of {self._place.log}")

    def arrived(self) -> None:
        """The stream brought something."""
        if self.compacts and not self._may_own:
            self._run()
            self._compactor.notify()
        self.keep_up()

    async def _announce(self, peers: Peers) -> None:
        """Tell the publisher whose stream to follow. If both start at once, the hint may not name it yet."""
        try:
            for pause in ANNOUNCED_AFTER:
                await self._runtime.sleep(pause)
                term = self._gateway.terms
                if await self._ask(peers, self._replica.watermark):
                    self._announced = term
                    return
        finally:
            self._announcing = False

    def keep_up(self) -> None:
        """Who does not publish itself stands on what others publish, or what changed since then fills its memory."""
        ahead, now = self._replica.link.number - self._replica.base.link.number, self._runtime.boottime()
        if ahead > AHEAD and now - self._rejoined > NAMED_FOR:
            self._rejoined = now
            self._runtime.spawn(self._rejoin(), f"newest revision of {self._place.log}")

    async def _rejoin(self) -> None:
        with suppress(ArcoError):  # tried again with the segments to come
            await self._compactor.rejoin()

    # What others ask

    async def wait_for(self, position: int) -> int:
        """Wait until a revision covers a position: published by the owner, by whom the hint names, or here.

        Returns a position that is published. `Unavailable` if nobody publishes it in time; what was appended stays
        appended.
        """
        if self._known() >= position:
            return self._known()
        if self._peers is not None and not (self.compacts and (self._gateway.owning or not self._may_own)):
            await self._ask(self._peers, position)
        if self._known() < position:
            await (self.publish_here(position) if self.compacts else self._await(self._peers, position))
        return self._known()

    async def publish_here(self, position: int) -> Manifest:
        """Wait for this process's own publisher."""
        if not self.compacts:
            raise Unavailable(f"this process does not publish the log {self._place.log}; ask another one")
        if not self.running:
            self._run()
            await self._runtime.sleep(0)  # it must have begun before anybody can wait for it
        manifest = await self._compactor.wait_for(position)
        self._asked()
        return manifest

    async def covers(self, position: int) -> bool:
        """Whether a revision covers a position now; one request if nothing is newer than what is known."""
        if self._known() < position:
            await self._refresh()
        return self._known() >= position

    async def head(self, position: int = 0, *, strong: bool = False) -> Manifest:
        """The newest revision that is known here; waits until one covers a position, and looks for a newer if asked."""
        if strong:
            await self._refresh()
        if self._newest() < position:
            await self.wait_for(position)
        if self._newest() < position:
            await self._refresh()  # somebody else said that it is published
        return self._head.manifest

    def _newest(self) -> int:
        """How far the newest revision goes that this process has read."""
        if self._compactor.head.manifest.number > self._head.manifest.number:
            self._head = self._compactor.head
        return int(self._head.manifest.watermark)

    def _known(self) -> int:
        return max(self._newest(), self._told)

    async def _refresh(self) -> None:
        self._newest()
        self._head = await self._revisions.refresh(self._head)

    async def _ask(self, peers: Peers, position: int) -> bool:
        """Wait for the publisher that the hint names, if there is one and it answers."""
        address, until = self._publisher
        now = self._runtime.boottime()
        if now > until:
            address = (await self._revisions.hint.read()).address
            self._publisher = (address, now + (NAMED_FOR if is_http(address) else NOBODY_FOR))
        if not is_http(address) or address == self._gateway.address:
            return False
        try:
            self._told = max(self._told, await peers.publish(address, self._place, position))
        except (Forbidden, Superseded, Unauthenticated, Unavailable):
            self._publisher = ("", now + NAMED_FOR)
            return False
        return True

    async def _await(self, peers: Peers | None, position: int) -> None:
        """A publisher that starts is named nowhere yet: look for it and for its work now and then while we wait."""
        until, pause = self._runtime.boottime() + PATIENCE, 0.1
        while not await self.covers(position):
            if self._runtime.boottime() >= until:
                raise Unavailable(
                    f"nobody has published position {position} of {self._place.log}; see whether a compactor runs"
                )
            await self._runtime.sleep(pause)
            pause = min(2 * pause, 2.0)
            if peers is not None:
                await self._ask(peers, position)

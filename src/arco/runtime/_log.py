"""`OpenLog`: one log of an open workspace: the fold, the door for commands, the publisher and the readers.

Readers of now take the replica, which stands at what the owner won or the stream brought, and never wait for a publish:

    current -> look at the store (one for all who ask at once) -> replica at a position
    read    -> current -> work on the replica, repeated if it moved meanwhile, at last on a frozen copy

Readers of what is published, and of the past, take a `Snapshot`. Who publishes is a matter of its own: `Publishing`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeVar

from arco.core import ArcoError, LostObject, Outdated, Stale, Superseded, Task
from arco.log import Admission, Blobs, Follower, Forwarder, Gateway, Hint, HintFile, OwnerHint, SegmentStream, is_http
from arco.runtime._looks import Looks
from arco.runtime._peers import FedHint, OwnerFeed, PeerForwarder, Peers
from arco.runtime._publishing import Publishing
from arco.state import (
    Compactor,
    Definition,
    Head,
    LayerReader,
    Layout,
    Replica,
    Revisions,
    Snapshot,
    base_for,
    check_versions,
    freeze,
    open_ledger,
    snapshot_at_position,
    snapshot_at_revision,
    snapshot_at_time,
)
from arco.storage import Glance, Role, Tail

if TYPE_CHECKING:
    from arco.runtime._workspace import Workspace

__all__ = ["BOUND", "OpenLog"]

T = TypeVar("T")

BOUND = 5.0
"""Seconds by which a read that is not strong may be behind."""

ANSWER_SECONDS = 2.0
"""How long another server has to answer before this one is named in its place."""

TRIES = 8
"""How often a read is repeated because the state moved under it, before it is done on a frozen copy."""


class OpenLog:
    def __init__(self, workspace: "Workspace", definition: Definition, head: Head, revisions: Revisions) -> None:
        store, runtime = workspace.handle, workspace.runtime
        self.definition = definition
        self.place = revisions.place
        self.layout = Layout(self.place)
        self.revisions = revisions
        self._runtime = runtime
        self._address = workspace.address
        self._may_own = workspace.may_own
        self._peers: Peers | None = workspace.peers
        self._is_replaced_by_newer = workspace.is_replaced
        self._newest: Snapshot | None = None  # readers of one revision share what was loaded of it
        self._max_rows = workspace.cadence.max_rows
        self._store = store(Role.READER)
        self._looks = Looks(self._look, runtime)
        self._looked = float("-inf")
        self._seen = 0  # the newest position that anybody was shown
        self._tail: Tail | None = None  # what `_unchanged` looks behind
        self._unchanged: Glance | None = None
        self._feeding: Task | None = None
        owning, compacting = store(Role.OWNER), store(Role.COMPACTOR)
        self.replica = Replica(definition, LayerReader(self._store, runtime), base_for(definition, head.manifest))
        ledger = open_ledger(owning, revisions, head.manifest.packs)
        self.follower = Follower(ledger, self.replica, runtime, known=head.manifest.link.number)
        if head.manifest.seal:
            self.follower.seal()
        try:
            check_versions(head.manifest, definition.versions)
        except Outdated as error:
            self.follower.forbid_writing(error.message)
        self.stream = SegmentStream(runtime)
        self.compactor = Compactor(
            definition,
            compacting,
            self.follower,
            self.replica,
            Revisions(compacting, self.place, runtime, min_age=workspace.min_age),
            head,
            workspace.runner(compacting, self.place),
            runtime,
            workspace.address,
            workspace.cadence,
        )
        forwarder: Forwarder = workspace.forwarder
        self._hint = hint = OwnerHint(owning, self.layout.ledger_hint, runtime, self.follower.newest)
        self.feed: OwnerFeed | None = None
        if self._peers is not None:
            self.feed = self._feed(self._peers, hint)
            forwarder = PeerForwarder(self._peers, self.place, self.feed)
            hint = FedHint(owning, self.layout.ledger_hint, runtime, self.follower.newest, self.feed)
        self.admission = Admission(definition.registry, Blobs(owning), runtime)
        self.gateway = Gateway(
            self.follower,
            self.admission,
            hint,
            forwarder,
            runtime,
            workspace.address,
            may_own=workspace.may_own,
            stream=self.stream,
            on_won=lambda tail: self.publishing.won(),
            renew=self._renew,
        )
        self.publishing = Publishing(
            self.compactor,
            self.replica,
            revisions,
            self.gateway,
            self._peers,
            runtime,
            HintFile(compacting, self.layout.manifests_hint, runtime),
            may_own=workspace.may_own,
            asked=self.feed.wake if self.feed is not None else lambda: None,
        )

    def _feed(self, peers: Peers, hint: HintFile) -> OwnerFeed:
        return OwnerFeed(
            peers,
            self.follower,
            hint,
            self._runtime,
            self._address,
            owning=lambda: self.owning,
            arrived=lambda: self.publishing.arrived(),
            probe=self._probe,
            renew=self._renew,
        )

    @property
    def owning(self) -> bool:
        """Whether this process is the owner, as far as it and the others know."""
        return self.gateway.leading

    # What it holds

    def rows_held(self) -> int:
        """Rows in memory."""
        return self.replica.loaded_rows() + (0 if self._newest is None else self._newest.rows_held())

    def shed(self) -> None:
        """Let go of the rows that can be read again."""
        self._newest = None
        self.replica.evict()

    def is_unsettled(self) -> bool:
        """Whether something waits to be appended, or is merged or packed."""
        compactor = self.compactor
        return self.gateway.waiting > 0 or compactor.merging.is_running or compactor.packing.is_running

    # Its life

    def start(self) -> None:
        """Publish from now on what is this process's business to publish."""
        self.publishing.start()

    def follow(self) -> None:
        """Stay at what the owner in another process wins."""
        if self.feed is not None and self._feeding is None:
            self._feeding = self._runtime.spawn(self.feed.run(), f"feed of {self.place.log}")

    async def close(self) -> None:
        """Settle what is queued, publish what is folded if that is this process's business, stop."""
        ours = self.publishing.ours()
        self.stream.close()
        if self._feeding is not None:
            self._feeding.cancel()
            with suppress(asyncio.CancelledError):
                await self._feeding
            self._feeding = None
        await self.gateway.close()
        await self.publishing.close(publish=ours)

    async def announce(self) -> None:
        """Let the hint name this process, unless it names another one that answers: then that one is found as well.

        A server that has appended nothing yet is found by this. The hint is advice, so nothing depends on it.
        """
        if self._peers is None or not self._may_own or not is_http(self._address):
            return
        hint = await self._hint.read()
        if hint.address == self._address:
            return
        if is_http(hint.address) and await self._answers(self._peers, hint.address):
            return
        await self.current()  # a hint that says less than the newest segment would not be believed
        await self._hint.write(Hint(self.follower.tail.number, self._address))

    async def leads(self) -> bool:
        """Whether this process acts for the log: it owns it, or the hint names it and not another one that answers.

        Asked only when something is due, or after this process stood still. Whoever finds that nobody leads lets the
        hint name it, so that signs of life go there from then on; an owner that finds another one named gives way. Two
        that both believe it are harmless: every act is decided by the owner.
        """
        if self.owning:
            if not await self._is_replaced():
                return True
            self.gateway.resign()
            return False
        if not self._may_own or await self.owner_address():
            return False
        await self.announce()
        return True

    async def _is_replaced(self) -> bool:
        """Whether this owner did not answer for a while, and the hint names another process that does."""
        address = (await self._hint.read()).address if self._peers is not None else ""
        if self._peers is None or not is_http(address) or address == self._address:
            return False
        return await self._answers(self._peers, address)

    async def owner_address(self) -> str:
        """Where the process answers that owns the log, or did last; empty if that is this one, or if none answers."""
        if self.owning or self._peers is None:
            return ""
        if self.feed is not None and self.feed.owner:
            return self.feed.owner
        address = (await self._hint.read()).address
        if not is_http(address) or address == self._address:
            return ""
        return address if await self._answers(self._peers, address) else ""

    async def _answers(self, peers: Peers, address: str) -> bool:
        async def first() -> None:
            async with aclosing(peers.segments(address, self.place)) as stream:
                await anext(stream)

        try:
            await self._runtime.timeout(ANSWER_SECONDS, first())
        except Superseded:
            return True  # it owns the log no more, but it is the one that others know of
        except (ArcoError, TimeoutError, StopAsyncIteration):
            return False
        return True

    async def published(self, position: int) -> int:
        """Wait until a revision covers a position, and return a position that is published; see `Publishing`."""
        return await self.publishing.wait_for(position)

    async def is_published(self, position: int) -> bool:
        """Whether a revision covers a position now; one request if nothing is newer than what is known."""
        return await self.publishing.covers(position)

    # The present

    async def current(self, *, strong: bool = True, min_position: int = 0) -> int:
        """Bring the replica to where the caller needs it, and return its position.

        A strong read looks at the store once after this call. Another one does so only if nobody looked for `BOUND`
        seconds. `Stale` if the log ends before `min_position`, `Superseded` if the workspace was restored since.
        """
        proven = max(self._looked, self.follower.tail.proven)
        if strong or self.replica.watermark < min_position or self._runtime.boottime() - proven > BOUND:
            await self._looks.look()
        for _ in range(TRIES):
            if self.replica.watermark >= self._seen:
                break
            await self._looks.look()  # it is being set back to another revision, and readers never go back
        if self.replica.watermark < max(min_position, self._seen):
            raise Stale(f"the log {self.place.log} ends before position {max(min_position, self._seen)} as of now")
        if self.follower.sealed and await self._is_replaced_by_newer():
            raise Superseded(
                f"incarnation {self.place.incarnation} is sealed and the workspace goes on in another one; reopen it"
            )
        self._seen = self.replica.watermark
        return self._seen

    def is_at(self, position: int) -> bool:
        """Whether a read would find the state of this position, as far as that can be told without waiting: nothing
        newer is folded here, and this process owns the log and somebody looked within `BOUND` seconds, or a glance
        shows that nothing follows. Who is told no reads as always."""
        if self.replica.watermark != position or self._seen > position:
            return False
        tail = self.follower.tail
        if self.owning:
            return self._runtime.boottime() - max(self._looked, tail.proven) <= BOUND
        if self._tail is not tail:
            self._tail, self._unchanged = tail, self.follower.ledger.sequence.unchanged(tail)
        return self._unchanged is not None and self._unchanged()

    async def read(
        self, work: Callable[[Replica | Snapshot], Awaitable[T]], *, strong: bool = True, min_position: int = 0
    ) -> tuple[T, int]:
        """What `work` finds in the state of one position, and that position. It may run more than once.

        Rows that are loaded are read without a pause. If the state moved all the same, what was found is mixed and
        counts for nothing, a refusal included.
        """
        position = await self.current(strong=strong, min_position=min_position)
        for _ in range(TRIES):
            if self.replica.watermark < position:
                await self.follower.catch_up()  # it is being set back to another revision: wait until it is there again
            before = (self.replica.watermark, self.follower.epoch)
            try:
                found = await self._renewing(lambda: work(self.replica))
            except ArcoError:
                if before == (self.replica.watermark, self.follower.epoch):
                    raise
                continue
            if before == (self.replica.watermark, self.follower.epoch):
                self._seen = max(self._seen, before[0])
                return found, before[0]
        frozen = await self.frozen(strong=False, min_position=position)
        return await work(frozen), frozen.position

    async def frozen(self, *, strong: bool = True, min_position: int = 0) -> Snapshot:
        """The state of now as something that does not change; for work that takes long."""
        position = await self.current(strong=strong, min_position=min_position)
        while self.replica.watermark < position:
            await self.follower.catch_up()
        return freeze(self.definition, self.replica)

    async def _look(self) -> None:
        before = self.follower.tail.number
        sent = self._runtime.boottime()
        await self._renewing(self.follower.catch_up)
        self._looked = sent
        if self.follower.tail.number > before:
            self.publishing.keep_up()
            if self.feed is not None:
                self.feed.wake()

    async def _renewing(self, work: Callable[[], Awaitable[T]]) -> T:
        """Who idled may stand on files that were merged and collected since: the newest revision has them all."""
        try:
            return await work()
        except LostObject:
            if not await self._renew():
                raise
            return await work()

    async def _renew(self) -> bool:
        """Stand on the newest revision. If its incarnation is deleted, that is known from now on."""
        try:
            return await self.compactor.renew()
        except Superseded:
            self.follower.seal()
            raise

    async def _probe(self) -> bool:
        """Once an hour: has somebody appended and gone without publishing? Whoever runs the loop asks that itself."""
        if not self.publishing.compacts or self.publishing.running:
            return False
        before = self.follower.tail.number
        await self._looks.look()
        await self.published(self.replica.watermark)
        return self.follower.tail.number > before

    # Published and past states

    async def snapshot(
        self,
        *,
        revision: int | None = None,
        position: int | None = None,
        time: int | None = None,
        min_position: int = 0,
        strong: bool = True,
    ) -> Snapshot:
        """The state at the newest revision, at a retained one, exactly at a position, or as of a time.

        A strong read asks the store once whether something is newer; another one takes the newest revision this process
        knows, at no request; its `position` says how far that goes. `min_position` waits until a revision covers it.
        """
        try:
            head = await self.publishing.head(min_position, strong=strong)
        except Superseded:
            self.follower.seal()
            raise
        log = self.follower.ledger
        if time is not None:
            return await snapshot_at_time(self.definition, self._store, self.revisions, log, head, time)
        if position is not None:
            return await snapshot_at_position(self.definition, self._store, self.revisions, log, head, position)
        if revision is not None and revision != head.number:
            manifest = await self.revisions.at_revision(head, revision)
            return snapshot_at_revision(self.definition, self._store, manifest, self._runtime)
        if self._newest is None or self._newest.manifest.id != head.id or self._newest.rows_held() > self._max_rows:
            self._newest = snapshot_at_revision(self.definition, self._store, head, self._runtime)
        return self._newest

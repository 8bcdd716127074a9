"""`Compactor`: the one loop per log that creates manifests.

Durability is the append; publishing serves other readers. A publish is files first, then one create of the next
manifest. Two compactors are waste, not corruption: who loses a number stands on the winner's revision and goes on.

    notify / wait_for -> loop -> catch up -> delta -> manifest N+1 -> waiters
                          merges, packing: pending in a manifest -> job -> result -> adopted by a later manifest

Rules: who sees a newer fold version only reads. A replica that does not stand on the head (a new fold version, a
skipped type that is known now, a rebuild) is published whole, as a new generation; what other folds made is pinned by
the revision that replaces it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from arco.core import (
    DAY,
    HOUR,
    ArcoError,
    Future,
    LostObject,
    Mutex,
    Outdated,
    Runtime,
    Stale,
    StoreRefused,
    Superseded,
    Unavailable,
    new_ulid,
)
from arco.log import Follower, Hint, Pack, is_http
from arco.state._definition import Definition
from arco.state._files import FileWriter
from arco.state._history import with_history, with_pins
from arco.state._layers import LayerReader
from arco.state._layout import Layout
from arco.state._manifest import Layer, Manifest, Pending, encode_manifest, entry_of, format_of
from arco.state._merge import adopt, can_adopt, plan_merges
from arco.state._merging import Merging
from arco.state._packing import Gauge, Packing, PackSize, can_adopt_packs, packed_through, plan_pack
from arco.state._replica import Replica
from arco.state._revisions import Head, Revisions, base_for, check_versions
from arco.state._runner import RefoldJob, Runner, carry_over
from arco.state._waiters import Waiters
from arco.storage import Lost, Store, Tail, Won

__all__ = ["Cadence", "Compactor"]

PROBE_SECONDS = 3600.0
RETRY_SECONDS = 1.0
PATIENCE = 30.0
"""Seconds a caller waits for a revision that covers its position."""


@dataclass(frozen=True)
class Cadence:
    """How often to publish while nobody waits, and when to merge."""

    interval: float = 0.25
    """Seconds between two publishes at least; four times the time of a PUT if that is longer."""
    fan_in: int = 8
    max_rows: int = 8_000_000
    """Rows held in memory before clean buckets are dropped."""
    keep_all: int = HOUR
    """Microseconds for which every revision is retained; older ones are thinned."""
    packs: PackSize = field(default_factory=PackSize)


class Compactor:
    def __init__(
        self,
        definition: Definition,
        store: Store,
        follower: Follower,
        replica: Replica,
        revisions: Revisions,
        head: Head,
        runner: Runner,
        runtime: Runtime,
        name: str,
        cadence: Cadence | None = None,
    ) -> None:
        self.head = head
        self._definition = definition
        self._store = store
        self._layout = Layout(revisions.place)
        self._follower = follower
        self._replica = replica
        self._revisions = revisions
        self._runner = runner
        self._runtime = runtime
        self._name = name
        self._cadence = cadence or Cadence()
        self._mutex = Mutex(runtime)
        self._waiters = Waiters(runtime)
        self._wakeup: Future[None] = runtime.future()
        self._urgent: Future[None] = runtime.future()
        self._told = 0
        self._running = False
        self._closing = False
        self._failed: ArcoError | None = None
        self.on_trouble: Callable[[ArcoError | None], None] = lambda trouble: None
        """Called when merges or packing begin to fail or fail in another way, and with None when they get on again."""
        self._told_of: type[ArcoError] | None = None
        self.merging = Merging(
            definition,
            store,
            self._layout,
            runner,
            runtime,
            head=lambda: self.head.manifest,
            done=self.notify,
            changed=self._tell,
        )
        size = self._cadence.packs
        self._gauge = Gauge(2 * (size.segments + size.keep))
        follower.on_read = self._gauge.note
        self.packing = Packing(
            follower.ledger,
            store,
            self._layout,
            runtime,
            size,
            head=lambda: self.head.manifest,
            done=self.notify,
            changed=self._tell,
        )
        self._put_seconds = 0.0
        self._rolls_back = False

    # What others call

    def notify(self, number: int = 0) -> None:
        """There is something to publish, sooner or later; `number` is a segment that an appender says it won."""
        self._told = max(self._told, number)
        self._wakeup.set(None)

    async def wait_for(self, position: int) -> Manifest:
        """The first revision here that covers a position; the loop publishes at once for whoever waits."""
        if int(self.head.manifest.watermark) >= position:
            return self.head.manifest
        if self._failed:
            raise self._failed
        if not self._running:
            raise Stale(
                f"nothing here publishes the log {self._layout.place.log}, so position {position} is not covered"
            )
        waiter = self._waiters.add(position)
        self._urgent.set(None)
        self.notify()

        async def wait() -> Manifest:
            return await waiter

        try:
            return await self._runtime.timeout(PATIENCE, wait())
        except TimeoutError:
            raise Unavailable(f"position {position} was not published within {PATIENCE:.0f} s; try again") from None

    async def publish(self) -> Manifest:
        """Publish whatever is folded; the head itself if there is nothing new, or if another one published as much.

        Else whoever publishes beside a busy one would lose number after number, and be behind again each time.
        """
        async with self._mutex:
            folded = self._replica.watermark
            while not self._is_published(folded):
                await self._stand_on_head()
                if await self._publish_on_head(self._replica):
                    break
                self._waiters.answer(self.head.manifest)
            self.merging.start()
            self.packing.start()
        self._waiters.answer(self.head.manifest)
        return self.head.manifest

    async def compact(
        self,
        is_bulk: Callable[[int, int], Awaitable[bool]] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Manifest:
        """Catch up, publish, finish every merge that is due, and pack the segments that are.

        `is_bulk` is asked whether the segments after a number, up to another, are better folded by the runner. If the
        runner cannot do what it is given, that is told: to fold it here instead is for the caller to say.
        """
        self.merging.forgive()
        self.packing.forgive()
        await self._replace_older_folds(progress)
        if is_bulk is not None and not self._is_of_older_folds():
            behind = self.head.manifest.link.number
            tail = await self._follower.sequence.tail(self._follower.tail.number)
            if behind < tail.number and await is_bulk(behind, tail.number):
                await self.rebuild(progress, self.head.manifest)
        await self._follower.catch_up()
        await self.publish()
        while await self.merging.wait() or await self.packing.wait():
            await self.publish()
            if self.trouble is not None:
                raise self.trouble  # what cannot be done would be tried for ever
        return self.head.manifest

    async def rebuild(
        self, progress: Callable[[int, int], None] = lambda done, total: None, onto: Manifest | None = None
    ) -> Manifest:
        """Fold the whole log anew beside the live state, then swap everything in one publish.

        With `onto`, a revision of these folds, only what came after it is folded.
        """
        rebuild_id = new_ulid(self._runtime, self._runtime)
        # Not by catching up: that may need the very files a rebuild replaces because they are damaged.
        tail = await self._follower.sequence.tail(self._follower.tail.number)
        async with self._mutex:
            directory = await self._register(rebuild_id)
        packs = self.head.manifest.packs
        base = await self._runner.refold(RefoldJob(self._definition, tail.number, directory, progress, onto, packs))
        shadow = Replica(self._definition, LayerReader(self._store), base)
        follower = Follower(self._follower.ledger, shadow, self._runtime)
        async with self._mutex:
            while True:
                self._check_head()
                await follower.catch_up()
                if self._rolls_back and shadow.skips:
                    raise Outdated(
                        f"{shadow.skipped()}: a newer program wrote it, and the way back would lose it; stay with that "
                        "program, or restore a backup"
                    )
                if all(known.id != rebuild_id for known in self.head.manifest.pending):
                    raise Superseded("another compactor took over during the rebuild; start it again")
                if await self._publish_on_head(shadow, drop=rebuild_id):
                    break
            await self._follower.restart(lambda: self._replica.reset(self.head.manifest))
        self._waiters.answer(self.head.manifest)
        return self.head.manifest

    async def roll_back(self, progress: Callable[[int, int], None] = lambda done, total: None) -> Manifest:
        """Fold the whole log by this program's folds although newer ones made the head, and swap that in.

        `Outdated` if the log holds what this program does not know: nothing is published then. No newer program may
        run meanwhile: it would fold everything its way again.
        """
        self._rolls_back = True
        try:
            return await self.rebuild(progress)
        finally:
            self._rolls_back = False

    async def run(self) -> None:
        """The loop. Ends by `close`, or when this program may only read."""
        next_publish = 0.0
        self._running = True
        try:
            try:
                await self._replace_older_folds()
            except (StoreRefused, Unavailable):
                self.notify()  # the next publish, which is a whole one then, does the same in memory
            while not self._closing:
                told = await self._wait(self._wakeup, min(PROBE_SECONDS, self.merging.due, self.packing.due))
                if not self._waiters:
                    await self._wait(self._urgent, next_publish - self._runtime.boottime())
                self._wakeup, self._urgent = self._runtime.future(), self._runtime.future()
                if self._closing:
                    return
                asked = self._waiters.asked()
                try:
                    if not told or max(self._told, self._waiters.segment()) > self._follower.tail.number:
                        await self._follower.catch_up(at_least=self._told)
                    await self.publish()
                    self._waiters.give_up(asked, self._follower.watermark)
                except LostObject:
                    if not await self.renew():
                        raise
                    self.notify()
                except (Unavailable, StoreRefused) as error:
                    self._waiters.fail(error)
                    await self._wait(self._urgent, RETRY_SECONDS)
                    self.notify()
                next_publish = self._runtime.boottime() + max(self._cadence.interval, 4 * self._put_seconds)
        except ArcoError as error:
            self._failed = error
        except BaseException as error:
            self._failed = Unavailable(f"the compactor of {self._layout.place.log} stopped: {error!r}; reopen it")
            raise
        finally:
            self._running = False
            self._waiters.fail(self._failed or Stale(f"the compactor of {self._layout.place.log} was closed"))

    def _is_published(self, position: int) -> bool:
        """Whether another one published a revision that covers a position and leaves no work of this process behind."""
        self._check_head()
        head, made = self.head.manifest, {*self.merging.results, *self.packing.results}
        if head.id == self._replica.base.id or self._is_of_older_folds():
            return False
        return int(head.watermark) >= position and not any(known.id in made for known in head.pending)

    def _is_of_older_folds(self) -> bool:
        return base_for(self._definition, self.head.manifest).id != self.head.manifest.id

    async def _replace_older_folds(self, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """If older folds made the head, rebuild it. If another compactor does so too, the next publish settles it."""
        if not self._is_of_older_folds():
            return
        try:
            await self.rebuild(progress)
        except Outdated:
            raise
        except Superseded:
            self.notify()

    async def renew(self) -> bool:
        """Stand on the newest revision, if another process has published one. True if it has."""
        async with self._mutex:
            before = self.head.manifest.id
            self.head = await self._revisions.refresh(self.head)
            if self.head.manifest.id == before:
                return False
            base = base_for(self._definition, self.head.manifest)
            await self._follower.restart(lambda: self._replica.reset(base))
            return True

    async def rejoin(self) -> None:
        """Stand on the newest revision without forgetting what is loaded, and let go of the changes it covers.

        For a process that follows the log while another one publishes: else its changes would pile up for ever.
        """
        async with self._mutex:
            self.head = await self._revisions.refresh(self.head)
            await self._stand_on_head()
            if self._replica.loaded_rows() > self._cadence.max_rows:
                self._replica.evict()

    async def close(self) -> None:
        """Stop the loop; merges and packing that are under way are left for the next compactor."""
        self._closing = True
        self._urgent.set(None)
        self.notify()
        self.merging.cancel()
        self.packing.cancel()

    @property
    def failed(self) -> ArcoError | None:
        """Why the loop ended, if not by `close`."""
        return self._failed

    @property
    def trouble(self) -> ArcoError | None:
        """Why merges or packing do not get on, if they do not. They are tried again, and publishing goes on."""
        return self.merging.trouble or self.packing.trouble

    def _tell(self) -> None:
        # By the class of the error: its text names another attempt each time.
        trouble = self.trouble
        kind = None if trouble is None else type(trouble)
        if kind is not self._told_of:
            self._told_of = kind
            self.on_trouble(trouble)

    # Publishing

    def _check_head(self) -> None:
        """Raise `Outdated` or `Superseded` if this program may only read."""
        if not self._rolls_back:
            check_versions(self.head.manifest, self._definition.versions)
        if self._follower.newer and not self._rolls_back:
            raise Outdated(f"{self._follower.newer}; upgrade arco: this program publishes nothing any more")
        if self.head.manifest.seal:
            raise Superseded(f"the state of {self.head.manifest.log} is sealed: the workspace was restored; reopen it")

    async def _register(self, rebuild_id: str) -> str:
        """Announce a rebuild in a manifest that is otherwise the head's, and return its directory."""
        while True:
            self._check_head()
            head = self.head.manifest
            # The directory names the very revision it builds on: a collector that knows only the next one keeps it.
            directory = self._layout.attempt(head.number, rebuild_id)
            pending = Pending(rebuild_id, "rebuild", directory, self._runtime.now())
            attempt = new_ulid(self._runtime, self._runtime)
            writer = FileWriter(self._store, self._layout, self._layout.attempt(head.number, attempt), self._runtime)
            manifest = msgspec.structs.replace(
                head,
                number=head.number + 1,
                id=attempt,
                previous=self.head.sha256,
                publisher=self._name,
                published_at=max(self._runtime.now(), head.published_at + 1),
                pending=(*head.pending, pending),
            )
            manifest = await with_history(manifest, self.head, self._revisions, writer, self._cadence.keep_all)
            if await self._create(manifest, None):
                return directory

    async def _publish_on_head(self, replica: Replica, *, drop: str = "") -> bool:
        """Create the next manifest from a replica. False if another one is there first; the head has moved then."""
        head = self.head.manifest
        swap = replica.base.id != head.id
        base = replica.base if swap else head
        writes = {name: {group: dict(rows) for group, rows in found.items()} for name, found in replica.dirty.items()}
        manifest = carry_over(replica, base.layers)
        # Packing has nothing to do with layers, so it goes on when they are swapped.
        kept = tuple(known for known in head.pending if known.kind == "pack" or not swap)
        layers, pending = self._adopt(manifest.layers, kept, drop)
        new, pending = self._adopt_packs(pending)
        unchanged = manifest.watermark == head.watermark and layers == head.layers and pending == head.pending
        if unchanged and not swap and not writes and plan_pack(head, self._cadence.packs, self._gauge) is None:
            return True
        attempt = new_ulid(self._runtime, self._runtime)
        now = max(self._runtime.now(), head.published_at + 1)
        directory = self._layout.attempt(head.number, attempt)
        writer = FileWriter(self._store, self._layout, directory, self._runtime)
        if writes:
            layers += tuple(await writer.delta(self._definition, writes, int(base.watermark), int(manifest.watermark)))
        manifest = msgspec.structs.replace(
            manifest,
            number=head.number + 1,
            id=attempt,
            previous=self.head.sha256,
            publisher=self._name,
            published_at=now,
            generation=head.generation + 1 if swap and head.number else head.generation,
            layers=layers,
            pending=pending,
            packs=await self.packing.grown(head.packs, new, directory),
            seal=self._follower.sealed and manifest.link == self._follower.fold.link,
        )
        manifest = msgspec.structs.replace(manifest, format=format_of(manifest.packs))
        is_refold = dict(head.folds) != dict(manifest.folds) or self._is_of_older_folds()
        manifest = with_pins(manifest, head, is_refold=is_refold)
        manifest = await with_history(manifest, self.head, self._revisions, writer, self._cadence.keep_all)
        manifest = self._with_packing(self._with_merges(manifest))
        return await self._create(manifest, replica)

    def _adopt(
        self, layers: tuple[Layer, ...], pending: tuple[Pending, ...], drop: str
    ) -> tuple[tuple[Layer, ...], tuple[Pending, ...]]:
        """Replace the inputs of finished merges; forget merges whose inputs are gone."""
        left = []
        for known in pending:
            if known.id == drop or (known.kind == "rebuild" and self._runtime.now() - known.started_at > DAY):
                continue  # whoever still works on a rebuild after a day finds it gone and starts again
            if known.kind == "merge":
                current = msgspec.structs.replace(self.head.manifest, layers=layers)
                if not can_adopt(current, known):
                    continue
                files = self.merging.results.get(known.id)
                if files is not None:
                    layers = adopt(layers, known, files)
                    continue
            left.append(known)
        return layers, tuple(left)

    def _adopt_packs(self, pending: tuple[Pending, ...]) -> tuple[tuple[Pack, ...], tuple[Pending, ...]]:
        """What finished packing adds to the packs of the head; it is forgotten if others packed the same meanwhile."""
        new: tuple[Pack, ...] = ()
        left = []
        for known in pending:
            if known.kind == "pack":
                if not can_adopt_packs(self.head.manifest, known):
                    continue
                if known.id in self.packing.results:
                    new = self.packing.results[known.id]
                    continue
            left.append(known)
        return new, tuple(left)

    def _with_packing(self, manifest: Manifest) -> Manifest:
        """Announce that segments are being packed, if enough have gathered."""
        planned = plan_pack(manifest, self._cadence.packs, self._gauge)
        if planned is None:
            return manifest
        pack_id = new_ulid(self._runtime, self._runtime)
        directory = self._layout.attempt(manifest.number - 1, pack_id)
        inputs = ((str(planned[0]), str(planned[1])),)
        pending = Pending(pack_id, "pack", directory, manifest.published_at, inputs=inputs)
        return msgspec.structs.replace(manifest, pending=(*manifest.pending, pending))

    def _with_merges(self, manifest: Manifest) -> Manifest:
        """Announce the merges that are due, so that the collector leaves their directories alone."""
        planned = []
        if manifest.seal:
            return manifest
        for run in plan_merges(manifest, self._cadence.fan_in, self._definition.tables):
            merge_id = new_ulid(self._runtime, self._runtime)
            planned.append(
                Pending(
                    id=merge_id,
                    kind="merge",
                    directory=self._layout.attempt(manifest.number - 1, merge_id),
                    started_at=manifest.published_at,
                    table=run[0].table,
                    inputs=tuple((layer.first, layer.last) for layer in run),
                )
            )
        return msgspec.structs.replace(manifest, pending=(*manifest.pending, *planned))

    async def _create(self, manifest: Manifest, replica: Replica | None) -> bool:
        data = encode_manifest(manifest)
        try:
            await self._follower.sequence.persist(manifest.link.number)
        except Superseded:  # packed and dropped: this process slept while others published
            self.head = await self._revisions.head()
            return False
        started = self._runtime.boottime()
        outcome: Won | Lost | None = None
        while outcome is None:
            try:
                outcome = await self._revisions.sequence.create(self.head.tail, data)
            except Unavailable:
                await self._runtime.sleep(RETRY_SECONDS)  # the number stays open until these very bytes are settled
            except Superseded:
                self.head = await self._revisions.head()
                return False
        self._put_seconds = self._runtime.boottime() - started
        if isinstance(outcome, Won):
            self.head = Head(manifest, entry_of(manifest, data).sha256, outcome.tail)
            self.merging.keep(manifest.pending)
            self.packing.keep(manifest.pending)
            self._follower.ledger.know(manifest.packs)
            self._gauge.drop(packed_through(manifest))
            if replica is self._replica:
                replica.rebase(manifest)
                if replica.loaded_rows() > self._cadence.max_rows:
                    replica.evict()
            hint = Hint(manifest.number, self._name if is_http(self._name) else "")
            self._runtime.spawn(self._revisions.hint.write(hint), f"hint of {manifest.log} manifests")
            return True
        tail = Tail(manifest.number, self.head.tail.proven)
        self.head = await self._revisions.refresh(self._revisions.follow(self.head, outcome.data, tail))
        return False

    async def _stand_on_head(self) -> None:
        """If somebody else published, go on from there. It may have failed half-way the last time."""
        self._check_head()
        manifest = self.head.manifest
        if self._replica.base.id == manifest.id:
            return
        await self._follower.catch_up(at_least=manifest.link.number)
        base = base_for(self._definition, manifest)
        if base.id != manifest.id:
            return  # made by an older fold: ours is published whole on top of it
        if manifest.generation != self._replica.base.generation or self._replica.base.number == 0:
            await self._follower.restart(lambda: self._replica.reset(manifest))
        else:
            self._replica.rebase(manifest)

    async def _wait(self, signal: Future[None], seconds: float) -> bool:
        """Until somebody sets the signal (True), or so many seconds."""

        async def wait() -> None:
            await signal

        if seconds > 0 and not signal.done():
            try:
                await self._runtime.timeout(seconds, wait())
            except TimeoutError:
                return False
        return signal.done()

"""`examine_log`: is everything a log and its state promise really there? Reads everything, writes nothing.

A `Finding` is an error (something is lost or altered), a warning (works, but look at it) or a note.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from arco.core import DAY, PUT_BACK, ArcoError, Corrupt, LostObject, Outdated, Runtime, StoreRefused
from arco.log import FIRST_LINK, Ledger, Link, Place, Unknown, read_log
from arco.state._definition import Definition
from arco.state._layers import LayerReader
from arco.state._layout import Layout
from arco.state._manifest import Manifest
from arco.state._open_ledger import open_ledger
from arco.state._replica import Replica
from arco.state._revisions import Revisions, check_versions
from arco.state._system import REJECTIONS
from arco.storage import ObjectMissing, Sequence, Store, Tail

__all__ = ["Finding", "Level", "examine_log", "verify_chain"]


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    level: Level
    log: str
    check: str
    message: str
    path: str = ""


@dataclass(frozen=True)
class Chain:
    """What reading a whole log came to."""

    segments: int
    events: int
    bytes: int
    link: Link


async def verify_chain(
    log: Ledger, progress: Callable[[int, int], None] = lambda done, total: None, *, known: int = 0
) -> Chain:
    """Read every segment and check the chain; `Corrupt` or `LostObject` names the first that does not hold.

    `known` is a number that somebody says exists: the tail is looked for from there, so that a hole below it shows.
    """
    tail = await log.sequence.tail(known)
    segments = events = size = 0
    link = FIRST_LINK
    async for found in read_log(log, Tail(0, Unknown), link, at_least=tail.number):
        if isinstance(found, Tail):
            break
        segment, link, length = found
        segments, events, size = segments + 1, events + len(segment.events), size + length
        progress(segments, max(tail.number, segments))
    return Chain(segments, events, size, link)


async def examine_log(
    definition: Definition,
    store: Store,
    place: Place,
    runtime: Runtime,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Finding]:
    """Everything there is to say about one log, errors first where they were found.

    `Outdated` if a newer program wrote a part of it: then this one can tell nothing of its health.
    """
    return await _Examination(definition, store, place, runtime, progress).run()


class _Examination:
    def __init__(
        self,
        definition: Definition,
        store: Store,
        place: Place,
        runtime: Runtime,
        progress: Callable[[int, int], None],
    ) -> None:
        self._definition = definition
        self._store = store
        self._place = place
        self._runtime = runtime
        self._progress = progress
        self._layout = Layout(place)
        self._revisions = Revisions(store, place, runtime)
        self._log = open_ledger(store, self._revisions)
        self._reader = LayerReader(store)
        self._findings: list[Finding] = []
        self._seen: set[str] = set()

    async def run(self) -> list[Finding]:
        chain = await self._chain()
        manifest = await self._head()
        if manifest is not None:
            await self._packs(manifest)
            await self._history(manifest)
            await self._files(manifest)
            self._layers(manifest)
            await self._watermark(manifest, chain)
            await self._worth_a_look(manifest)
        return self._findings

    def _say(self, level: Level, check: str, message: str, path: str = "") -> None:
        self._findings.append(Finding(level, self._place.log, check, message, path))

    def _fail(self, check: str, error: ArcoError) -> None:
        if isinstance(error, Outdated):
            raise error  # what this program cannot read may be as it must be
        self._say(Level.ERROR, check, error.message, str(error.details.get("path", "")))

    async def _chain(self) -> Chain | None:
        chain = None
        with suppress(ArcoError):  # what is wrong with the head is told later
            await self._log.renew()
        try:
            chain = await verify_chain(self._log, self._progress)
            self._say(Level.OK, "chain", f"{chain.segments} segments, {chain.events} events, every link holds")
        except (Corrupt, LostObject) as error:
            self._fail("chain", error)
        if chain is not None:
            await self._density(self._log.sequence, "segment", chain.segments)
        return chain

    async def _density(self, sequence: Sequence, what: str, last: int) -> None:
        """A hole makes what lies above it invisible to everybody who does not list."""
        listed = [0]
        try:
            async for info in self._store.list(sequence.prefix):
                name = info.path.rsplit("/", 1)[1]
                if name.isdigit() and "/floor/" not in info.path:
                    listed.append(int(name))
        except StoreRefused as error:
            self._say(Level.WARNING, "density", f"not checked, because the store does not list: {error.message}")
            return
        # What exists now was appended since: somebody is writing, and nothing is missing.
        if max(listed) > last and not await sequence.exists(last + 1):
            message = f"{what} {last + 1} is missing although {what} {max(listed)} exists; {PUT_BACK}"
            self._say(Level.ERROR, "density", message, sequence.path(last + 1))

    async def _head(self) -> Manifest | None:
        try:
            manifest = (await self._revisions.head()).manifest
        except ArcoError as error:
            self._fail("head", error)
            return None
        await self._density(self._revisions.sequence, "revision", manifest.number)
        if manifest.number == 0:
            self._say(Level.NOTE, "head", "nothing is published yet")
            return None
        self._say(Level.OK, "head", f"revision {manifest.number} covers the log up to segment {manifest.link.number}")
        try:
            check_versions(manifest, self._definition.versions)
        except ArcoError as error:
            self._say(Level.WARNING, "fold version", error.message)
        return manifest

    async def _packs(self, manifest: Manifest) -> None:
        """Every pack has the bytes that were promised; its segments are read with the chain."""
        self._log.know(manifest.packs)
        floor = await self._log.sequence.floor()
        if floor > self._log.packed:
            message = f"segments up to {floor} may be deleted, and packs have them up to {self._log.packed} only"
            self._say(Level.ERROR, "packs", f"{message}: a manifest was lost; {PUT_BACK}")
        if not manifest.packs:
            return
        packs = broken = 0
        try:
            async for entry in self._log.entries():
                packs += not entry.level
                try:
                    if not entry.level:
                        await self._log.whole(entry)
                except (Corrupt, LostObject) as error:
                    broken += 1
                    self._fail("packs", error)
        except (Corrupt, LostObject) as error:
            broken += 1
            self._fail("packs", error)
        if not broken:
            text = f"{packs} packs hold segments 1 to {self._log.packed}, with the bytes that the head promises"
            self._say(Level.OK, "packs", text)

    async def _history(self, manifest: Manifest) -> None:
        try:
            entries = await self._revisions.history(manifest)
        except ArcoError as error:
            self._fail("history", error)
            return
        before, broken = 0, 0
        for entry in entries:
            try:
                found = await self._revisions.read(entry)
                if entry.revision <= before or int(found.watermark) > int(manifest.watermark):
                    raise Corrupt(f"revision {entry.revision} is out of order")
                before = entry.revision
                await self._exist(found)
            except ArcoError as error:
                broken += 1
                self._fail("history", error)
        if not broken:
            self._say(Level.OK, "history", f"{len(entries)} older revisions are retained and their files exist")

    async def _exist(self, manifest: Manifest) -> None:
        for path in {file.path for layer in manifest.layers for file in layer.files} - self._seen:
            try:
                await self._store.head(path)
            except ObjectMissing:
                raise LostObject(
                    f"{path} is missing although revision {manifest.number} names it; run `arco rebuild`", path=path
                ) from None
            self._seen.add(path)

    async def _files(self, manifest: Manifest) -> None:
        files = [file for layer in manifest.layers for file in layer.files]
        broken = 0
        for file in files:
            try:
                await self._reader.bytes_of(file)
            except ArcoError as error:
                broken += 1
                self._fail("files", error)
        if not broken:
            self._say(Level.OK, "files", f"{len(files)} files of the head have the bytes it promises")

    def _layers(self, manifest: Manifest) -> None:
        for table in sorted({layer.table for layer in manifest.layers}):
            last = 0
            for layer in manifest.layers_of(table):
                if int(layer.first) < last or int(layer.last) <= int(layer.first):
                    message = f"layers of {table} overlap at position {layer.first}; run `arco rebuild`"
                    self._say(Level.ERROR, "layers", message)
                last = int(layer.last)

    async def _watermark(self, manifest: Manifest, chain: Chain | None) -> None:
        if chain is None:
            return
        missing = chain.segments + 1
        if manifest.link.number > chain.segments and not await self._log.sequence.exists(missing):
            self._say(
                Level.ERROR,
                "watermark",
                f"revision {manifest.number} covers segment {manifest.link.number}, the log ends at {chain.segments}: "
                f"segment {missing} was lost; {PUT_BACK}",
                self._log.sequence.path(missing),
            )
        elif manifest.link.number < chain.segments:
            behind = chain.segments - manifest.link.number
            self._say(Level.NOTE, "watermark", f"{behind} segments are not published yet; `arco compact` does it")

    async def _worth_a_look(self, manifest: Manifest) -> None:
        for skip in manifest.skipped:
            message = f"{skip.count} events of the unknown type {skip.type} were skipped; upgrade arco"
            self._say(Level.WARNING, "skipped", message)
        for known in manifest.pending:
            if self._runtime.now() - known.started_at > DAY:
                message = f"the {known.kind} {known.id} has been pending for more than a day; `arco compact` ends it"
                self._say(Level.WARNING, "pending", message)
        try:
            replica = Replica(self._definition, self._reader, manifest)
            rejected = (await replica.scan(REJECTIONS)).num_rows
        except ArcoError as error:
            self._fail("rejections", error)
            return
        if rejected:
            self._say(Level.WARNING, "rejections", f"{rejected} events could not be folded; see `arco state show`")

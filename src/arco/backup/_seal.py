"""Sealing an incarnation: after it nothing can be acknowledged there, by whoever slept for however long.

    a last segment of the catalog's log    no table can be created or renamed any more
    a last segment of the activity's log   no task can be claimed or finished any more
    a last manifest of each log            nothing is published any more
    a last pointer of every Iceberg table  no commit can land any more

Each is the next number of its sequence, so that a process that believes it is at the tail loses its next create. The
catalog comes first: it names the tables, and a table that is created later is none, because its name cannot be logged.
An incarnation that is damaged can be sealed too: nothing is folded for it.
"""

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from arco.backup._vault import in_parallel
from arco.core import Corrupt, Outdated, Runtime, Unavailable, new_ulid
from arco.iceberg import Pointers, Who, decode_pointer
from arco.log import FIRST_LINK, Header, HintFile, Link, Place, decode_segment, encode_segment, link_of, seal_writer
from arco.log import SEGMENT_FORMAT as FORMAT
from arco.state import Layout, decode_manifest, empty_manifest, encode_manifest
from arco.storage import Sequence, Store, Tail, Won

__all__ = ["Sealed", "check_formats", "end_manifests", "find_seal", "seal_incarnation", "table_ids"]

PATIENCE = 60.0
"""Seconds for which a seal tries for the next number while somebody appends."""
LOOKS = 12
"""How many looks for the next segments are under way at once meanwhile."""
AHEAD = 3
"""For how many numbers they look."""
LOOK_SECONDS = 0.002
"""Seconds at most that each of them rests after it found nothing."""
ROUNDS = 1_000
"""How often a seal tries for the next manifest: with the log at its end there is little left to publish."""


@dataclass(frozen=True)
class Sealed:
    """Where an incarnation ended."""

    links: dict[str, Link]
    """The last segment of each log before its seal."""
    tables: int


async def seal_incarnation(
    store: Store,
    tenant: str,
    workspace: str,
    incarnation: str,
    runtime: Runtime,
    who: Who,
    *,
    known: dict[str, int],
    manifests: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Sealed:
    """Seal both logs, their manifests and every table. Again is no error.

    `known` has numbers of segments that are known to exist, by log: below them the end of a log is not looked for.
    Without `manifests` those are left to `end_manifests`: what is published of a sealed log is right, if of no use.
    """
    links = {}
    for log in ("catalog", "activity"):
        place = Place(tenant, workspace, incarnation, log)
        links[log] = await _seal_log(store, place, runtime, who, known.get(log, 0))
    for log in ("catalog", "activity") if manifests else ():
        await _seal_manifests(store, Place(tenant, workspace, incarnation, log), runtime, who)
    pointers = Pointers(store, f"{incarnation}/iceberg", runtime, incarnation)
    newest = await _newest_pointers(store, incarnation)
    done = 0

    async def seal(table_id: str) -> None:
        nonlocal done
        await pointers.seal(table_id, who, newest=newest[table_id])
        done += 1
        progress(done, len(newest))

    await in_parallel(runtime, sorted(newest), seal)
    return Sealed(links, len(newest))


async def check_formats(store: Store, tenant: str, workspace: str, incarnation: str, runtime: Runtime) -> None:
    """`Outdated` if a newer program wrote what the seals of an incarnation would come after.

    It is asked before the first seal: a log that is sealed while the rest cannot be takes no writes, from anybody. What
    is damaged or lost keeps nothing from its seal.
    """
    for log in ("catalog", "activity"):
        place = Place(tenant, workspace, incarnation, log)
        await find_seal(store, place, runtime)
        with suppress(Corrupt):
            sequence = Sequence(store, Layout(place).manifests, runtime)
            hint = await HintFile(store, Layout(place).manifests_hint, runtime).read()
            if newest := (await sequence.tail(hint.number)).number:
                decode_manifest(await sequence.read_known(newest), sequence.path(newest))
    numbers = await _newest_pointers(store, incarnation)

    async def check(table_id: str) -> None:
        sequence = Sequence(store, f"{_pointers(incarnation)}/{table_id}", runtime)
        with suppress(Corrupt):
            decode_pointer(await sequence.read_known(numbers[table_id]), sequence.path(numbers[table_id]))

    await in_parallel(runtime, sorted(numbers), check)


async def find_seal(store: Store, place: Place, runtime: Runtime) -> tuple[Header | None, int]:
    """The header of the last segment if that is the seal, and the number of the newest one that is none.

    A damaged segment is no seal: who reads the log finds the damage, and who replaces it can do without.
    """
    sequence = Sequence(store, Layout(place).ledger, runtime)
    tail = await _tail(store, sequence, place, runtime, 0)
    if tail.number == 0:
        return None, 0
    try:
        header = decode_segment(await sequence.read_known(tail.number), sequence.path(tail.number)).header
    except Corrupt:
        return None, tail.number
    return (header, tail.number - 1) if header.seal else (None, tail.number)


async def _seal_log(store: Store, place: Place, runtime: Runtime, who: Who, known: int) -> Link:
    sequence = Sequence(store, Layout(place).ledger, runtime)
    tail = await _tail(store, sequence, place, runtime, known)
    ending = _Ending(sequence, place, runtime, who, tail)
    await ending.follow(await sequence.read_known(tail.number) if tail.number else None)
    if ending.last is None:
        await in_parallel(runtime, range(LOOKS), ending.chase, limit=LOOKS)
    if ending.last is None:
        raise Unavailable(
            f"others append to the log {place.log} faster than it can be sealed from here; "
            "try again nearer to the store, or stop them"
        )
    return ending.last


class _Ending:
    """A log on its way to its seal.

    An owner with work to do creates the next segment as soon as it knows of the last one. A seal can be as fast only if
    it learns of that as soon. So several looks are under way at any time, for the next number and, since more come to
    be while an answer is on its way, for those after it; and the look that finds one tries for the number after that
    one while the others look on.
    """

    def __init__(self, sequence: Sequence, place: Place, runtime: Runtime, who: Who, tail: Tail) -> None:
        self.last: Link | None = None  # the segment before the seal, once there is one
        self._sequence = sequence
        self._place = place
        self._runtime = runtime
        self._writer = seal_writer(who.client, who.operation)
        self._tail = tail
        self._until = runtime.boottime() + PATIENCE

    async def chase(self, look: int) -> None:
        """Look for new segments and follow them, until the log is sealed or nobody believes in it any more."""
        runtime = self._runtime
        while self.last is None and runtime.boottime() < self._until:
            tail, look = self._tail, look + 1
            number = tail.number + 1 + look % AHEAD
            try:
                data = await self._sequence.read(number)
                if data is None:
                    await runtime.sleep(runtime.uniform(0.0, LOOK_SECONDS))
                elif number > self._tail.number:
                    self._tail = Tail(number, tail.proven)
                    await self.follow(data)
            except BaseException:
                self._until = -math.inf  # the other looks end as well
                raise

    async def follow(self, data: bytes | None) -> None:
        """Try for the number after the tail, given what the tail holds. If it is lost, somebody else's is there."""
        tail, link = self._tail, FIRST_LINK
        if data is not None:
            link, before = _last(data, tail.number, self._sequence.path(tail.number))
            if before is not None:
                self.last = before
                return
        header = Header(
            format=FORMAT,
            log=self._place.log,
            number=tail.number + 1,
            id=new_ulid(self._runtime, self._runtime),
            previous=link.sha256,
            incarnation=self._place.incarnation,
            tenant=self._place.tenant,
            workspace=self._place.workspace,
            writer=self._writer,
            received=max(self._runtime.now(), link.received),
            folds={},
            seal=True,
        )
        if isinstance(await self._sequence.create(tail, encode_segment(header, ())), Won):
            self.last = link


def _last(data: bytes, number: int, path: str) -> tuple[Link, Link | None]:
    """What links to the last segment and, if that is the seal, to the one before it. A damaged one is sealed too."""
    try:
        segment = decode_segment(data, path)
    except Outdated:
        raise
    except Corrupt:
        return Link(number, hashlib.sha256(data).hexdigest()), None
    link = link_of(segment, data)
    if segment.header.seal:
        return link, Link(number - 1, segment.header.previous, segment.header.received)
    return link, None


async def _tail(store: Store, sequence: Sequence, place: Place, runtime: Runtime, known: int) -> Tail:
    """The newest segment. Above a hole there may be more, which somebody may still append to: a listing shows them."""
    hint = await HintFile(store, Layout(place).ledger_hint, runtime).read()
    tail = await sequence.tail(max(hint.number, known))
    async for info in store.list(sequence.prefix):
        name = info.path.rsplit("/", 1)[1]
        if name.isdigit() and "/floor/" not in info.path and int(name) > tail.number:
            tail = Tail(int(name), tail.proven)
    return tail


async def _seal_manifests(store: Store, place: Place, runtime: Runtime, who: Who) -> None:
    """Repeat the newest manifest as the last one; if it is damaged, an empty one ends the sequence."""
    sequence = Sequence(store, Layout(place).manifests, runtime)
    hint = await HintFile(store, Layout(place).manifests_hint, runtime).read()
    tail = await sequence.tail(hint.number)
    data = await sequence.read_known(tail.number) if tail.number else b""
    for _ in range(ROUNDS):
        last = empty_manifest(place)
        if data:
            with suppress(Corrupt):
                last = decode_manifest(data, sequence.path(tail.number))
        if last.seal:
            return
        manifest = msgspec.structs.replace(
            last,
            number=tail.number + 1,
            id=new_ulid(runtime, runtime),
            previous=hashlib.sha256(data).hexdigest() if data else "",
            publisher=f"seal:{who.operation}",
            published_at=max(runtime.now(), last.published_at + 1),
            pending=(),
            seal=True,
        )
        outcome = await sequence.create(tail, encode_manifest(manifest))
        if isinstance(outcome, Won):
            return
        data, tail = outcome.data, Tail(tail.number + 1, tail.proven)
    raise Unavailable(f"others publish {place.log} faster than it can be sealed; stop them, or try again")


async def end_manifests(store: Store, place: Place, runtime: Runtime) -> None:
    """Put a bare manifest after the last one of a superseded incarnation, so that the last one can go: it names files
    and has values of their rows in its statistics. Again is no error."""
    sequence = Sequence(store, Layout(place).manifests, runtime)
    tail = await sequence.tail()
    if tail.number == 0:
        return
    data = await sequence.read_known(tail.number)
    with suppress(Corrupt):
        last = decode_manifest(data, sequence.path(tail.number))
        if last.seal and last.link == FIRST_LINK:
            return
    bare = msgspec.structs.replace(
        empty_manifest(place),
        number=tail.number + 1,
        id=new_ulid(runtime, runtime),
        previous=hashlib.sha256(data).hexdigest(),
        published_at=runtime.now(),
        seal=True,
    )
    await sequence.create(tail, encode_manifest(bare))  # who loses this loses it to another one like it


async def table_ids(store: Store, incarnation: str) -> set[str]:
    """Every table that has a pointer. A listing, so that a catalog that cannot be read keeps nothing from its seal."""
    return set(await _newest_pointers(store, incarnation))


async def _newest_pointers(store: Store, incarnation: str) -> dict[str, int]:
    """The newest number of every table, 0 if only floors are left of it; in one listing."""
    prefix = _pointers(incarnation)
    found: dict[str, int] = {}
    async for info in store.list(prefix):
        table_id, _, rest = info.path.removeprefix(f"{prefix}/").partition("/")
        name = rest.rsplit("/", 1)[-1]
        number = int(name) if name.isdigit() and not rest.startswith("floor/") else 0
        found[table_id] = max(found.get(table_id, 0), number)
    return found


def _pointers(incarnation: str) -> str:
    return f"{incarnation}/iceberg/pointers"

"""Routing: the first task of a refold reads segments and sends each event to the groups that fold it.

Of most events only what tells their groups is decoded here. The others are decoded as the fold does it, so that what is
unknown is counted and retention is known before the first stage runs. What is sent is the event as it stands in the
log; one that does not fit is turned away here or by the groups it was sent to.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

import msgspec

from arco.core import ArcoError, Corrupt
from arco.log import (
    Event,
    Found,
    Header,
    Link,
    Segment,
    check_link,
    link_of,
    parse_segment,
    position_of,
    segment_text,
)
from arco.runtime import AsyncRuntime
from arco.spark._course import Course, Step
from arco.spark._parcels import BARE, LOG, WHOLE, Audited, Outbox, Plain, Report, Told, Turned, report_parcel
from arco.spark._site import Assignment, Sent, perform
from arco.spark._source import Source
from arco.spark._typed import decode_event, envelope
from arco.state import FoldBatch, Input, Reject, Skipped, bucket_of

__all__ = ["route_segments"]

FLUSH_BYTES = 256 << 20
"""Bytes of events that a task gathers before it sends them: of the more, the more a parcel has of each group."""

AHEAD = 8
"""Segments that wait to be looked at while more are fetched."""

_encode = msgspec.json.Encoder().encode


def route_segments(assignment: Assignment, task: int, first: int, last: int) -> list[Sent]:
    """Read the segments `first` to `last` and send what is in them."""
    site, partitions = assignment.site, assignment.partitions

    async def work(runtime: AsyncRuntime, sent: list[Sent]) -> None:
        course = assignment.course
        router = _Router(course, Source(assignment, runtime), partitions)
        link: Link | None = None
        opening: tuple[int, str] | None = None
        sealed = events = 0
        log = site.log(runtime, assignment.packs)
        async for number, data, path in _ahead(log.known(first, last)):
            text = segment_text(data, path)
            slim = course.typed.segment(text)
            segment = Segment(slim[0], ()) if slim is not None else parse_segment(text, path)
            # Whether the first one continues its predecessor is for the driver to see.
            check_link(segment, site.place, link or Link(number - 1, segment.header.previous), path)
            if sealed:
                raise Corrupt(f"{path} stands after the seal of its incarnation; run `arco log verify`", path=path)
            if link is None:
                opening = (number, segment.header.previous)
            link = link_of(segment, data)
            sealed = number if segment.header.seal else sealed
            if slim is not None:
                events += len(slim[1])
                await router.route_slim(*slim)
            else:
                events += len(segment.events)
                await router.route(segment.header, segment.events)
            if router.size >= FLUSH_BYTES:
                sent += router.flush(number)
        sent += router.flush(last)
        report = Report(
            task,
            sent=router.outbox.sent,
            first=opening,
            last=(link.number, link.sha256, link.received) if link else None,
            sealed=sealed,
            events=events,
            retention=router.retention,
            skipped={name: (skip.first, skip.events) for name, skip in router.skipped.items()},
        )
        sent.append(report_parcel(report, partitions))

    return list(perform(task, partitions, work))


async def _ahead(segments: AsyncIterator[Found]) -> AsyncIterator[Found]:
    """The next ones are asked for before these are looked at: a store far away answers while this one works."""
    import asyncio

    queue: asyncio.Queue[Found | ArcoError | None] = asyncio.Queue(AHEAD)

    async def fetch() -> None:
        try:
            async for found in segments:
                await queue.put(found)
            await queue.put(None)
        except ArcoError as error:
            await queue.put(error)

    fetching = asyncio.ensure_future(fetch())
    try:
        while (found := await queue.get()) is not None:
            if isinstance(found, ArcoError):
                raise found
            await asyncio.sleep(0)  # else nothing would be asked before the queue is empty
            yield found
    finally:
        fetching.cancel()


class _Pile:
    """Events for one bucket of one step, with what each of its groups sees of them."""

    __slots__ = ("audited", "groups", "parts", "places", "positions", "texts")

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.texts: list[bytes | msgspec.Raw] = []
        self.groups: list[str] = []
        self.places: list[int] = []
        self.parts: list[int] = []
        self.audited: list[int] = []

    def add(self, position: int, text: bytes | msgspec.Raw, group: str, part: int = WHOLE) -> None:
        if not self.positions or self.positions[-1] != position:
            self.positions.append(position)
            self.texts.append(text)
        self.groups.append(group)
        self.places.append(len(self.texts) - 1)
        self.parts.append(part)

    def told(self, step: int) -> Told:
        text = b"[%b]" % b",".join(self.texts)
        return Told(step, self.positions, text, self.groups, self.places, self.parts, self.audited)


class _Lists(dict[str, tuple[list[int], list[msgspec.Raw]]]):
    """By group: positions and texts of the events that no other group of the step sees."""

    def __missing__(self, group: str) -> tuple[list[int], list[msgspec.Raw]]:
        found = self[group] = ([], [])
        return found


class _Router:
    def __init__(self, course: Course, source: Source, partitions: int) -> None:
        self.outbox = Outbox(partitions)
        self.size = 0
        self.retention: list[tuple[int, str, int]] = []
        self.skipped: dict[str, Skipped] = {}
        self._course = course
        self._keys = {
            name: tuple((step, attrgetter(f"data.{field}")) for step, field in fields)
            for name, fields in course.fields.items()
        }
        self._source = source
        self._registry = course.definition.registry
        self._piles: list[dict[int, _Pile]] = [{} for _ in course.steps]
        self._lists = [_Lists() for _ in course.steps]
        self._received: dict[int, int] = {}
        self._turn = 0

    async def route_slim(self, header: Header, events: Sequence[Any], texts: Sequence[msgspec.Raw]) -> None:
        """Route the events of a segment of which all are known. Nearly all events come this way."""
        self._received[header.number] = received = header.received
        plain = self._course.plain
        routes = {name: [(self._lists[step], key_of) for step, key_of in keys] for name, keys in self._keys.items()}
        self.size += sum(map(len, texts))
        for position, event, text in zip(count(position_of(header.number, 0)), events, texts, strict=False):
            name = event.type
            if name in routes:
                for lists, key_of in routes[name]:
                    positions, known = lists[key_of(event)]
                    positions.append(position)
                    known.append(text)
                if event.command or event.key:
                    self._route_bare(Input(position, received, decode_event(text), None))
            elif name in plain:
                item = Input(position, received, event, event.data)
                for step in plain[name]:
                    for key, pile in self._piles_of(step, item):
                        pile.add(position, text, key)
                if event.command or event.key:
                    self._route_bare(Input(position, received, event, None))
            else:
                await self._route_event(position, received, decode_event(text))

    async def route(self, header: Header, events: Iterable[Event]) -> None:
        """Route the events of a segment of which some are not known or do not fit."""
        self._received[header.number] = header.received
        for position, event in enumerate(events, position_of(header.number, 0)):
            self.size += len(event.data)
            await self._route_event(position, header.received, event)

    async def _route_event(self, position: int, received: int, event: Event) -> None:
        batch = FoldBatch(self._course.definition.domains, self._source, {})
        (item,) = await batch.read(self._registry, [(position, received, event)])
        if item.payload is not None:
            if event.type in self._registry.composite:
                self._route_parts(item)
            else:
                text = _encode(event)
                for step, _ in self._course.folding.get(event.type, ()):
                    for key, pile in self._piles_of(step, item):
                        pile.add(position, text, key)
                if event.type in self._course.audits:
                    self._audit(item, [event.type])
        if event.command or event.key:
            self._route_bare(Input(position, received, event, None))
        self._take(batch)

    def _route_parts(self, item: Input) -> None:
        """An event and the facts it contains, to each step in the order in which the step sees them."""
        event = item.event
        told = [(event.type, WHOLE, item)]
        for number, (name, part) in enumerate(self._registry.composite[event.type](item.payload)):
            told.append((name, number, Input(item.position, item.received, event, part)))
        found = [
            (step.number, place, part, step, given)
            for name, part, given in told
            for step, place in self._course.folding.get(name, ())
        ]
        text = _encode(event)
        self.size += len(text)
        kinds = [name for name, _, _ in told if name in self._course.audits]
        if kinds:
            self._audit(item, kinds)
        for _, _, part, step, given in sorted(found, key=lambda entry: entry[:3]):
            for key, pile in self._piles_of(step, given):
                pile.add(item.position, text, key, part)
                if kinds:
                    pile.audited.append(item.position)

    def _route_bare(self, bare: Input) -> None:
        text = _encode(envelope(bare.event))
        for step, _ in self._course.folding.get("*", ()):
            for key, pile in self._piles_of(step, bare):
                pile.add(bare.position, text, key, BARE)

    def _piles_of(self, step: Step, item: Input) -> list[tuple[str, _Pile]]:
        """The groups an input concerns, and where it goes; none if it is turned away before it has one."""
        try:
            keys = step.stage.group(item)
        except Reject as error:
            self._reject(step, item, error)
            return []
        return [(key, self._pile(step.number, key)) for key in keys]

    def _pile(self, step: int, group: str) -> _Pile:
        bucket = bucket_of(group)
        found = self._piles[step].get(bucket)
        if found is None:
            found = self._piles[step][bucket] = _Pile()
        return found

    def _reject(self, step: Step, item: Input, error: Reject) -> None:
        self._turn += 1
        self._turn_away(item, step.number, self._turn, step.domain.name, str(error))

    def _turn_away(self, item: Input, step: int, turn: int, domain: str, reason: str) -> None:
        turned = Turned(item.position, step, False, "", turn, item.received, item.event.type, domain, reason)
        self.outbox.chunk(self._course.closing, str(item.position)).turned.append(turned)

    def _audit(self, item: Input, kinds: list[str]) -> None:
        found = Audited(item.position, item.received, kinds, _encode(envelope(item.event)))
        self.outbox.chunk(self._course.closing, str(item.position)).audited.append(found)

    def _take(self, batch: FoldBatch) -> None:
        """What reading the events of a segment found out."""
        for table, steps in batch.retention.items():
            self.retention += [(position, table, before) for position, before in steps]
        for name, skip in batch.skipped.items():
            known = self.skipped.get(name)
            self.skipped[name] = Skipped(known.first, known.events + skip.events) if known else skip
        for item, domain, reason in batch.rejected:
            self._turn_away(item, LOG, 0, domain, reason)

    def flush(self, number: int) -> list[Sent]:
        for step, piles in zip(self._course.steps, self._piles, strict=True):
            for bucket, pile in piles.items():
                chunk = self.outbox.chunk_of(step.round, bucket)
                chunk.received = self._received
                chunk.told.append(pile.told(step.number))
        # One parcel at a time, from the texts of its events to what is sent: it never leaves the cache.
        groups: dict[tuple[int, int], list[tuple[int, str]]] = {}
        for step, lists in zip(self._course.steps, self._lists, strict=True):
            for group in lists:
                groups.setdefault((step.round, bucket_of(group)), []).append((step.number, group))
        sent = []
        for (round, bucket), names in groups.items():
            chunk = self.outbox.chunk_of(round, bucket)
            chunk.received = self._received
            for step_number, group in names:
                positions, texts = self._lists[step_number].pop(group)
                chunk.plain.append(Plain(step_number, group, positions, memoryview(b",".join(texts))))
            sent.append(self.outbox.send(round, bucket, number))
        sent += self.outbox.flush(number)
        self._received, self.size = {}, 0
        self._piles = [{} for _ in self._course.steps]
        return sent

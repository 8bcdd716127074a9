"""Routing: the first task of a refold reads segments and sends each event to the groups that fold it.

Every event is decoded here as the fold does it, so that what is unknown is counted, what does not fit is turned away
and retention is known before the first stage runs. What is sent is the event as it stands in the log.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import count
from typing import Any

import msgspec

from arco.core import Corrupt, LostObject
from arco.log import (
    Event,
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
from arco.spark._course import Course, Step, plain_steps
from arco.spark._parcels import BARE, WHOLE, Audited, Outbox, Report, Told, Turned, report_parcel
from arco.spark._site import Assignment, Sent, perform
from arco.spark._source import Source
from arco.spark._typed import decode_event, envelope
from arco.state import FoldBatch, Input, Reject, Skipped, bucket_of
from arco.storage import Sequence as Numbers

__all__ = ["route_segments"]

FLUSH_BYTES = 64 << 20
"""Bytes of events that a task gathers before it sends them."""

AHEAD = 8
"""Segments that are fetched at once: a bucket far away answers each request after tens of milliseconds."""

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
        log = site.log(runtime)
        async for number, data in _read(log, first, last):
            path = log.path(number)
            text = segment_text(data, path)
            typed = course.typed.segment(text)
            segment = Segment(typed[0], ()) if typed is not None else parse_segment(text, path)
            # Whether the first one continues its predecessor is for the driver to see.
            check_link(segment, site.place, link or Link(number - 1, segment.header.previous), path)
            if sealed:
                raise Corrupt(f"{path} stands after the seal of its incarnation; run `arco log verify`", path=path)
            if link is None:
                opening = (number, segment.header.previous)
            link = link_of(segment, data)
            sealed = number if segment.header.seal else sealed
            if typed is not None:
                events += len(typed[1])
                await router.route_typed(*typed)
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


async def _read(log: Numbers, first: int, last: int) -> AsyncIterator[tuple[int, bytes]]:
    import asyncio

    for start in range(first, last + 1, AHEAD):
        numbers = range(start, min(start + AHEAD, last + 1))
        for number, data in zip(numbers, await asyncio.gather(*map(log.read, numbers)), strict=True):
            if data is None:
                raise LostObject(
                    f"{log.path(number)} is missing although a newer segment exists; run `arco doctor`, then restore "
                    "it from a backup",
                    path=log.path(number),
                )
            yield number, data


class _Pile:
    """The events for one bucket of one step."""

    __slots__ = ("audited", "groups", "parts", "places", "positions", "texts")

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.texts: list[bytes | msgspec.Raw] = []
        self.groups: list[str] = []
        self.places: list[int] | None = None
        self.parts: list[int] | None = None
        self.audited: list[int] = []

    def add(self, position: int, text: bytes | msgspec.Raw, group: str, part: int = WHOLE) -> None:
        if self.places is None or self.parts is None:
            self.places = list(range(len(self.groups)))
            self.parts = [WHOLE] * len(self.groups)
        if not self.positions or self.positions[-1] != position:
            self.positions.append(position)
            self.texts.append(text)
        self.groups.append(group)
        self.places.append(len(self.texts) - 1)
        self.parts.append(part)

    def told(self, step: int) -> Told:
        text = b"[%b]" % b",".join(self.texts)
        return Told(step, self.positions, text, self.groups, self.places, self.parts, self.audited)


class _Router:
    def __init__(self, course: Course, source: Source, partitions: int) -> None:
        self.outbox = Outbox(partitions)
        self.size = 0
        self.retention: list[tuple[int, str, int]] = []
        self.skipped: dict[str, Skipped] = {}
        self._course = course
        self._plain = plain_steps(course)
        self._source = source
        self._registry = course.definition.registry
        self._piles: list[dict[int, _Pile]] = [{} for _ in course.steps]
        self._received: dict[int, int] = {}
        self._turn = 0

    async def route_typed(self, header: Header, events: Sequence[Any], texts: Sequence[msgspec.Raw]) -> None:
        """Route the events of a segment that were decoded with their payloads. Nearly all events come this way."""
        self._received[header.number] = received = header.received
        piles, plain = self._piles, self._plain
        self.size += sum(map(len, texts))
        for position, event, text in zip(count(position_of(header.number, 0)), events, texts, strict=False):
            steps = plain.get(event.type)
            if steps is None:
                await self._route_event(position, received, decode_event(text))
                continue
            item = Input(position, received, event, event.data)
            for step, group_of in steps:
                try:
                    keys = group_of(item)
                except Reject as error:
                    self._reject(self._course.steps[step], item, error)
                    continue
                for key in keys:
                    bucket = bucket_of(key)
                    pile = piles[step].get(bucket)
                    if pile is None:
                        pile = piles[step][bucket] = _Pile()
                    if pile.places is None and len(keys) == 1:
                        pile.positions.append(position)
                        pile.texts.append(text)
                        pile.groups.append(key)
                    else:
                        pile.add(position, text, key)
            if event.command or event.key:
                self._route_bare(Input(position, received, envelope(event), None))

    async def route(self, header: Header, events: Iterable[Event]) -> None:
        """Route the events of a segment of which some are not known or do not fit."""
        self._received[header.number] = header.received
        for position, event in enumerate(events, position_of(header.number, 0)):
            self.size += len(event.data)
            await self._route_event(position, header.received, event)

    async def _route_event(self, position: int, received: int, event: Event) -> None:
        batch = FoldBatch((), self._source, {})
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
        known = self._piles[step.number]
        return [(key, known.setdefault(bucket_of(key), _Pile())) for key in keys]

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
            self._turn_away(item, -1, 0, domain, reason)

    def flush(self, number: int) -> list[Sent]:
        for step, piles in zip(self._course.steps, self._piles, strict=True):
            for bucket, pile in piles.items():
                chunk = self.outbox.chunk_of(step.round, bucket)
                chunk.received = self._received
                chunk.told.append(pile.told(step.number))
        sent = list(self.outbox.flush(number))
        self._piles, self._received, self.size = [{} for _ in self._course.steps], {}, 0
        return sent

"""Routing: the first task of a refold reads segments and sends each event to the groups that fold it.

Every event is decoded here as the fold does it, so that what is unknown is counted, what does not fit is turned away
and retention is known before the first stage runs. What is sent is the event as it stands in the log.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from arco.core import Corrupt, LostObject
from arco.log import (
    Blobs,
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
from arco.spark._site import Sent, Site, perform
from arco.spark._typed import decode_event, envelope
from arco.state import FoldBatch, Input, Key, Reject, Skipped, Table, Versioned
from arco.storage import Sequence as Numbers

__all__ = ["Attachments", "route_segments"]

FLUSH_BYTES = 32 << 20
"""Bytes of events that a task gathers before it sends them."""

AHEAD = 8
"""Segments that are fetched at once: a bucket far away answers each request after tens of milliseconds."""

_encode = msgspec.json.Encoder().encode


def route_segments(
    site: Site, versions: Mapping[str, int], partitions: int, task: int, first: int, last: int
) -> list[Sent]:
    """Read the segments `first` to `last` and send what is in them."""

    async def work(runtime: AsyncRuntime, sent: list[Sent]) -> None:
        course = site.course(versions)
        router = _Router(course, Attachments(course, Blobs(site.store(runtime))), partitions)
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


class Attachments:
    """What events have as blobs. Implements `RowSource` for folds that begin with nothing."""

    def __init__(self, course: Course, blobs: Blobs) -> None:
        self._registry = course.definition.registry
        self._blobs = blobs
        self._last: tuple[str, Any] = ("", None)

    async def attachment(self, event: Event) -> Any:
        sha256 = event.blobs[0]
        if self._last[0] != sha256:
            self._last = (sha256, self._registry.decode_attachment(event.type, await self._blobs.get(sha256)))
        return self._last[1]

    async def load(self, table: Table, buckets: object) -> None:
        """There is nothing before the first event."""

    def group(self, table: Table, group: str) -> Mapping[Key, Versioned]:
        return {}


class _Group:
    """The events for one group of one step."""

    __slots__ = ("audited", "events", "parts", "positions")

    def __init__(self) -> None:
        self.audited: list[int] = []
        self.positions: list[int] = []
        self.events: list[bytes | msgspec.Raw] = []
        self.parts: list[list[int]] | None = None

    def add(self, position: int, event: bytes) -> None:
        self.positions.append(position)
        self.events.append(event)
        if self.parts is not None:
            self.parts.append([WHOLE])

    def add_part(self, position: int, event: bytes, part: int) -> None:
        if self.parts is None:
            self.parts = [[WHOLE] for _ in self.positions]
        if self.positions and self.positions[-1] == position:
            self.parts[-1].append(part)
            return
        self.positions.append(position)
        self.events.append(event)
        self.parts.append([part])


class _Router:
    def __init__(self, course: Course, source: Attachments, partitions: int) -> None:
        self.outbox = Outbox(partitions)
        self.size = 0
        self.retention: list[tuple[int, str, int]] = []
        self.skipped: dict[str, Skipped] = {}
        self._course = course
        self._plain = plain_steps(course)
        self._source = source
        self._registry = course.definition.registry
        self._groups: list[dict[str, _Group]] = [{} for _ in course.steps]
        self._received: dict[int, int] = {}
        self._turn = 0

    async def route_typed(self, header: Header, events: Sequence[Any], texts: Sequence[msgspec.Raw]) -> None:
        """Route the events of a segment that were decoded with their payloads. Nearly all events come this way."""
        self._received[header.number] = received = header.received
        groups, plain = self._groups, self._plain
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
                    group = groups[step].get(key)
                    if group is None:
                        group = groups[step][key] = _Group()
                    group.positions.append(position)
                    group.events.append(text)
                    if group.parts is not None:
                        group.parts.append([WHOLE])
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
                    for group in self._groups_of(step, item):
                        group.add(position, text)
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
            for group in self._groups_of(step, given):
                group.add_part(item.position, text, part)
                if kinds:
                    group.audited.append(item.position)

    def _route_bare(self, bare: Input) -> None:
        for step, _ in self._course.folding.get("*", ()):
            text = _encode(envelope(bare.event) if step.stage.events == ("*",) else bare.event)
            for group in self._groups_of(step, bare):
                group.add_part(bare.position, text, BARE)

    def _groups_of(self, step: Step, item: Input) -> list[_Group]:
        """The groups an input concerns; none if it is turned away before it has one."""
        try:
            keys = step.stage.group(item)
        except Reject as error:
            self._reject(step, item, error)
            return []
        known = self._groups[step.number]
        return [known.setdefault(key, _Group()) for key in keys]

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
        for step, groups in zip(self._course.steps, self._groups, strict=True):
            for key, group in groups.items():
                chunk = self.outbox.chunk(step.round, key)
                chunk.received = self._received
                text = b"[%b]" % b",".join(group.events)
                chunk.told.append(Told(step.number, key, group.positions, group.parts, group.audited, text))
        sent = list(self.outbox.flush(number))
        self._groups, self._received, self.size = [{} for _ in self._course.steps], {}, 0
        return sent

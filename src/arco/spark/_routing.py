"""Routing: the first task of a refold reads segments and sends each event to the groups that fold it.

Every event is decoded here as the fold does it, so that what is unknown is counted, what does not fit is turned away
and retention is known before the first stage runs. What is sent is the event as it stands in the log.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from arco.core import Corrupt, LostObject
from arco.log import Blobs, Event, Link, Segment, check_link, decode_segment, link_of, position_of
from arco.runtime import AsyncRuntime
from arco.spark._course import Course, Step
from arco.spark._parcels import BARE, WHOLE, Audited, Outbox, Report, Told, Turned, report_parcel
from arco.spark._site import Sent, Site, perform
from arco.state import FoldBatch, Input, Key, Reject, Skipped, Table, Versioned
from arco.storage import Sequence

__all__ = ["Attachments", "route_segments"]

FLUSH_BYTES = 32 << 20
"""Bytes of events that a task gathers before it sends them."""

AHEAD = 8
"""Segments that are fetched at once: a bucket far away answers each request after tens of milliseconds."""

_NOTHING = msgspec.Raw(b"null")
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
        async for number, data in _read(site.log(runtime), first, last):
            path = site.log(runtime).path(number)
            segment = decode_segment(data, path)
            # Whether the first one continues its predecessor is for the driver to see.
            check_link(segment, site.place, link or Link(number - 1, segment.header.previous), path)
            if sealed:
                raise Corrupt(f"{path} stands after the seal of its incarnation; run `arco log verify`", path=path)
            if link is None:
                opening = (number, segment.header.previous)
            link = link_of(segment, data)
            sealed = number if segment.header.seal else sealed
            events += len(segment.events)
            await router.route(segment)
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


async def _read(log: Sequence, first: int, last: int) -> AsyncIterator[tuple[int, bytes]]:
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
        self.events: list[bytes] = []
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
        self._source = source
        self._registry = course.definition.registry
        self._groups: dict[tuple[int, str], _Group] = {}
        self._received: dict[int, int] = {}
        self._turn = 0

    async def route(self, segment: Segment) -> None:
        header = segment.header
        self._received[header.number] = header.received
        first = position_of(header.number, 0)
        batch = FoldBatch((), self._source, {})
        events = ((position, header.received, event) for position, event in enumerate(segment.events, first))
        folding, composite = self._course.folding, self._registry.composite
        audits = self._course.audits
        for item in await batch.read(self._registry, events):
            event = item.event
            name = event.type
            if item.payload is not None:
                if name in composite:
                    self._route_parts(item)
                else:
                    text = b""
                    for step, _ in folding.get(name, ()):
                        text = text or _encode(event)
                        for group in self._groups_of(step, item):
                            group.add(item.position, text)
                    self.size += len(text)
                    if name in audits:
                        self._audit(item, [name])
            if event.command or event.key:
                self._route_bare(item)
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

    def _route_bare(self, item: Input) -> None:
        bare = Input(item.position, item.received, item.event, None)
        text = b""
        for step, _ in self._course.folding.get("*", ()):
            only = len(step.stage.events) == 1
            text = _encode(_stripped(item.event)) if only else _encode(item.event)
            for group in self._groups_of(step, bare):
                group.add_part(item.position, text, BARE)
        self.size += len(text)

    def _groups_of(self, step: Step, item: Input) -> list[_Group]:
        """The groups an input concerns; none if it is turned away before it has one."""
        try:
            keys = step.stage.group(item)
        except Reject as error:
            self._turn += 1
            self._turn_away(item, step.number, self._turn, step.domain.name, str(error))
            return []
        found = []
        for key in keys:
            group = self._groups.get((step.number, key))
            if group is None:
                group = self._groups[step.number, key] = _Group()
            found.append(group)
        return found

    def _turn_away(self, item: Input, step: int, turn: int, domain: str, reason: str) -> None:
        turned = Turned(item.position, step, False, "", turn, item.received, item.event.type, domain, reason)
        self.outbox.chunk(self._course.closing, str(item.position)).turned.append(turned)

    def _audit(self, item: Input, kinds: list[str]) -> None:
        found = Audited(item.position, item.received, kinds, _encode(_stripped(item.event)))
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
        steps = self._course.steps
        for (step, key), group in self._groups.items():
            chunk = self.outbox.chunk(steps[step].round, key)
            chunk.received = self._received
            text = b"[%b]" % b",".join(group.events)
            chunk.told.append(Told(step, key, group.positions, group.parts, group.audited, text))
        sent = list(self.outbox.flush(number))
        self._groups, self._received, self.size = {}, {}, 0
        return sent


def _stripped(event: Event) -> Event:
    """The event without its payload."""
    return msgspec.structs.replace(event, data=_NOTHING)

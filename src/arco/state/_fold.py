"""The fold: from events in position order to the rows they determine. Pure but for loading the groups it needs.

`fold_batch` runs every stage of every domain over a batch and returns what changed; it changes nothing itself. A
replica commits the result; a draft keeps it on top of a replica. The result does not depend on how events are cut into
batches: every stage sees its inputs one by one in position order, and retention holds from its event's position on.

`FoldBatch` is what the stages of a batch share. A runner that spreads groups over many machines drives it itself: it
reads events in one place and folds each group in another.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import msgspec

from arco.core import Invalid
from arco.log import Event, EventRegistry, EventType
from arco.state._domain import Change, Domain, Input, Reject, Stage
from arco.state._system import AUDIT, REJECTED, REJECTIONS, Audit, Rejection, RetentionAdvanced
from arco.state._table import Key, Table, bucket_of

__all__ = [
    "FoldBatch",
    "Folded",
    "Rejected",
    "Retention",
    "RowSource",
    "Rows",
    "Skipped",
    "Versioned",
    "Writes",
    "advance",
    "audit_row",
    "cutoff",
    "fold_batch",
    "name_rejections",
    "row_text",
]

Versioned = tuple[int, Any]
"""A row with the position that determined it; the row is None where it was deleted."""

Rows = dict[Key, Versioned]

Writes = dict[str, dict[str, Rows]]
"""Per table and group, the last write of each key."""

Retention = dict[str, list[tuple[int, int]]]
"""Per table: from which position on rows older than which time are gone; both ascending."""


class Skipped(NamedTuple):
    """Events of a type that nobody here knows: the first one's position and how many."""

    first: int
    events: int


class Rejected(NamedTuple):
    """An input that could not be folded."""

    item: Input
    domain: str
    reason: str


class Folded(NamedTuple):
    writes: Writes
    skipped: dict[str, Skipped]
    """Per event type and version that nobody here knows, written `Type v2`."""
    retention: Retention


class RowSource(Protocol):
    """Rows before the batch."""

    async def load(self, table: Table, buckets: Iterable[int]) -> None: ...

    def group(self, table: Table, group: str) -> Mapping[Key, Versioned]:
        """The rows of a group whose bucket was loaded."""
        ...

    async def attachment(self, event: Event) -> Any:
        """What the event's blob holds, decoded; `Invalid` if it does not fit."""
        ...


def cutoff(retention: Retention, table: str, position: int) -> int | None:
    """Facts older than this time do not exist for an event at `position`."""
    found = None
    for since, before in retention.get(table, ()):
        if since >= position:
            break
        found = before
    return found


def advance(retention: Retention, table: str, position: int, before: int) -> None:
    """Note a step of retention; one that does not reach further changes nothing."""
    steps = retention.setdefault(table, [])
    if not steps or before > steps[-1][1]:
        steps.append((position, before))


@cache
def _expiring_together(domains: tuple[Domain, ...]) -> dict[str, list[str]]:
    """By the table that retention names, those whose rows it takes."""
    found: dict[str, list[str]] = {}
    for table in (REJECTIONS, AUDIT, *(table for domain in domains for table in domain.tables)):
        if table.time is not None:
            found.setdefault(table.expires_with or table.name, []).append(table.name)
    return found


class _Slot:
    """What a group needs of one table, looked up once."""

    __slots__ = ("expires", "group_of", "is_fact", "key_of", "noted", "prior", "writes")

    def __init__(self, table: Table, key: str, batch: "FoldBatch") -> None:
        self.writes: Rows = batch.writes[table.name].setdefault(key, {})
        self.prior = batch.source.group(table, key)
        self.is_fact = table.is_fact
        self.key_of = table.key_of
        self.group_of = table.group_of
        self.expires = _may_expire(table, key, batch.retention)
        self.noted = table.name in batch.watched or (table.audited and bool(batch.audited))


def _may_expire(table: Table, group: str, retention: Retention) -> bool:
    """Whether rows of a group may have expired in a batch. Those of a run are all as old as the run."""
    steps = retention.get(table.name)
    if not steps or table.time is None:
        return False
    return table.time != table.group or group < table.limit(steps[-1][1])


class _Group:
    """The rows of one group during a stage. Writes of a rejected input are taken back.

    Every event passes here several times: lookups are few and nothing is built that is not kept.
    """

    __slots__ = ("_batch", "_input", "_slots", "_undo", "key")

    def __init__(self, key: str, batch: "FoldBatch", tables: Sequence[Table]) -> None:
        self.key = key
        self._batch = batch
        self._slots = {table: _Slot(table, key, batch) for table in tables}
        self._undo: list[tuple[Rows, Key, Versioned | None]] = []
        self._input: Input

    def get(self, table: Table, key: Key) -> Any:
        slot = self._slots[table]
        found = slot.writes.get(key) or slot.prior.get(key)
        if found is None:
            return None
        row = found[1]
        if slot.expires and row is not None and self._expired(table, row):
            return None
        return row

    def rows(self, table: Table) -> list[Any]:
        slot = self._slots[table]
        rows = [row for _, (_, row) in sorted({**slot.prior, **slot.writes}.items()) if row is not None]
        if slot.expires:
            rows = [row for row in rows if not self._expired(table, row)]
        return rows

    def put(self, table: Table, row: Any) -> None:
        slot = self._slots[table]
        key, writes = slot.key_of(row), slot.writes
        old = writes.get(key)
        if slot.expires or (slot.is_fact and (old is not None or key in slot.prior)):
            self._check_new(table, key, row)
        if slot.group_of(row) != self.key:
            raise Reject(f"a row of {table.name} belongs to group {slot.group_of(row)!r}, not {self.key!r}")
        if slot.noted:
            self._note(table, key, row)
        self._undo.append((writes, key, old))
        writes[key] = (self._input.position, row)

    def _check_new(self, table: Table, key: Key, row: Any) -> None:
        if table.is_fact and self.get(table, key) is not None:
            raise Reject(f"{table.name} has a row with the key {key} already")
        if self._slots[table].expires and self._expired(table, row):
            raise Reject(f"older than the retention of {table.expires_with or table.name}")

    def delete(self, table: Table, key: Key) -> None:
        if table.is_fact:
            raise Reject(f"{table.name} holds facts, which are never deleted")
        if self.get(table, key) is not None:
            slot = self._slots[table]
            if slot.noted:
                self._note(table, key, None)
            self._undo.append((slot.writes, key, slot.writes.get(key)))
            slot.writes[key] = (self._input.position, None)

    def _note(self, table: Table, key: Key, row: Any) -> None:
        """Tell those who watch the table, and the audit."""
        item, batch = self._input, self._batch
        if table.name in batch.watched:
            change = Change(table.name, self.get(table, key), row)
            batch.changes.append(Input(item.position, item.received, item.event, change))
        if table.audited and item.position in batch.audited:
            batch.note(item.position, table, key, self.get(table, key), row)

    def _expired(self, table: Table, row: Any) -> bool:
        return table.is_expired(row, cutoff(self._batch.retention, table.name, self._input.position))

    def run(self, stage: Stage, domain: str, items: Iterable[Input]) -> None:
        """Fold the group's inputs one by one; what a rejected one did is undone."""
        batch, undo, fold = self._batch, self._undo, stage.fold
        for item in items:
            self._input = item
            noted = len(batch.changes)
            try:
                fold(self, item)
            except Reject as error:
                del batch.changes[noted:]
                for writes, key, old in reversed(undo):
                    if old is None:
                        del writes[key]
                    else:
                        writes[key] = old
                batch.reject(item, domain, str(error))
            undo.clear()


class FoldBatch:
    """What the stages of one batch share."""

    def __init__(self, domains: Sequence[Domain], source: RowSource, retention: Retention) -> None:
        self.source = source
        self.writes: Writes = {table.name: {} for domain in domains for table in domain.tables}
        self.writes[REJECTIONS.name] = {}
        self.writes[AUDIT.name] = {}
        self.watched = {table.name for domain in domains for stage in domain.stages for table in stage.changes}
        self.retention: Retention = {name: list(steps) for name, steps in retention.items()}
        self._together = _expiring_together(tuple(domains))
        self.skipped: dict[str, Skipped] = {}
        self.rejected: list[Rejected] = []
        self.changes: list[Input] = []
        """What the stages of the domain that runs did to watched tables."""
        self.audited: dict[int, dict[tuple[str, Key], tuple[Any, Any]]] = {}
        """By position of an audited event: per table and key, the row before it and after it."""

    def note(self, position: int, table: Table, key: Key, before: Any, after: Any) -> None:
        """What an audited event did to a row; of several writes the first says what was there before."""
        noted = self.audited[position]
        name = (table.name, key)
        noted[name] = (noted[name][0] if name in noted else before, after)

    def reject(self, item: Input, domain: str, reason: str) -> None:
        self.rejected.append(Rejected(item, domain, reason))

    async def read(self, registry: EventRegistry, events: Iterable[tuple[int, int, Event]]) -> list[Input]:
        """Decode payloads; what is unknown is counted, what does not fit is rejected, retention is noted."""
        inputs = []
        for position, received, event in events:
            payload = attached = None
            try:
                if event.blobs and registry.has_attachment(event.type):
                    attached = await self.source.attachment(event)
                payload = registry.decode(event.type, event.version, event.data)
            except Invalid as error:
                self.reject(Input(position, received, event, None), "log", error.message)
            else:
                if payload is None:
                    name = f"{event.type} v{event.version}"
                    first, seen = self.skipped.get(name, Skipped(position, 0))
                    self.skipped[name] = Skipped(first, seen + 1)
                elif isinstance(payload, RetentionAdvanced):
                    for name in self._together.get(payload.table, ()):
                        advance(self.retention, name, position, payload.before)
            inputs.append(Input(position, received, event, payload, attached))
        return inputs

    async def run_domain(self, domain: Domain, inputs: Mapping[str, list[Input]]) -> None:
        """Run the stages over inputs given by event type."""
        self.changes = []
        for stage in domain.stages:
            mine = [item for name in stage.events for item in inputs.get(name, ())]
            if stage.changes:
                watched = {table.name for table in stage.changes}
                mine += [item for item in self.changes if item.payload.table in watched]
            if not mine:
                continue
            mine.sort(key=_by_position)
            await self.run_stage(stage, domain.name, mine)

    async def run_stage(self, stage: Stage, domain: str, items: Iterable[Input]) -> None:
        """Fold group by group; in each the inputs come in position order."""
        groups: dict[str, list[Input]] = {}
        for item in items:
            try:
                keys = stage.group(item)
            except Reject as error:
                self.reject(item, domain, str(error))
                continue
            for key in keys:
                if key in groups:
                    groups[key].append(item)
                else:
                    groups[key] = [item]
        for table in stage.tables:
            await self.source.load(table, {bucket_of(key) for key in groups})
        for key in sorted(groups):
            self.run_group(stage, domain, key, groups[key])

    def run_group(self, stage: Stage, domain: str, key: str, items: Iterable[Input]) -> None:
        """Fold the inputs of one group, given in order; its rows were loaded."""
        _Group(key, self, stage.tables).run(stage, domain, items)

    def write_audit(self, kind: EventType, items: Iterable[Input], rejected: Collection[int]) -> None:
        """A row per event of an audited type. It has a key of its own, so nothing needs to be read."""
        for item in items:
            if item.position not in rejected:
                noted = [
                    (table, row_text(before), row_text(after))
                    for (table, _), (before, after) in sorted(self.audited[item.position].items())
                ]
                row = audit_row(kind, item.position, item.received, item.event, noted)
                self.writes[AUDIT.name][row.audit_id] = {row.audit_id: (item.position, row)}


def audit_row(
    kind: EventType,
    position: int,
    received: int,
    event: Event,
    noted: Iterable[tuple[str, bytes | None, bytes | None]],
) -> Audit:
    """What the audit says of an event; `noted` are the rows it changed, before and after, by table and key."""
    action, resource_type = kind.audit or ("", "")
    changed = list(noted)
    return Audit(
        audit_id=str(position),
        operation=event.operation,
        actor=event.actor,
        action=action,
        resource_type=resource_type,
        resource=event.subject,
        request_id=event.correlation,
        traceparent=event.traceparent,
        before=_rows_text((table, before) for table, before, _ in changed),
        after=_rows_text((table, after) for table, _, after in changed),
        recorded_at=received,
    )


def row_text(row: Any) -> bytes | None:
    """A row as JSON; None if there is none. Fields without a value are left out: most rows have many.

    Maps that were read from a file are in another order than those that were folded, so the keys are sorted. And values
    that are left out because they are defaults are told by identity, which no value from a file has.
    """
    if row is None:
        return None
    fields = zip(row.__struct_fields__, msgspec.structs.astuple(row), strict=True)
    said = {name: _settled(value) for name, value in fields if value is not None and value != () and value != {}}
    return msgspec.json.encode(said, order="deterministic")


def _settled(value: Any) -> Any:
    """The value with the very objects of its classes in the place of what equals a default."""
    if isinstance(value, list | tuple):
        return [_settled(item) for item in value]
    if isinstance(value, dict):
        return {name: _settled(item) for name, item in value.items()}
    if not isinstance(value, msgspec.Struct):
        return value
    settled = {}
    for field in _fields(type(value)):
        given = getattr(value, field.name)
        settled[field.name] = field.default if given == field.default else _settled(given)
    return type(value)(**settled)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _rows_text(found: Iterable[tuple[str, bytes | None]]) -> str | None:
    """Rows by table as JSON; None if there are none."""
    rows: dict[str, list[msgspec.Raw]] = {}
    for table, text in found:
        if text is not None:
            rows.setdefault(table, []).append(msgspec.Raw(text))
    return msgspec.json.encode(rows, order="deterministic").decode() if rows else None


def name_rejections(rejected: Iterable[tuple[int, int, str, str, str]]) -> list[Rejection]:
    """Rows of what was rejected, given as (position, received, type, domain, reason).

    Those of one event and domain are numbered in the order they come: an event with parts may be rejected repeatedly.
    """
    counts: Counter[tuple[int, str]] = Counter()
    named = []
    for position, received, kind, domain, reason in rejected:
        counts[position, domain] += 1
        count = counts[position, domain]
        name = f"{position}:{domain}" if count == 1 else f"{position}:{domain}:{count}"
        named.append(Rejection(name, position, kind, domain, reason, received))
    return named


def _rejections(rejected: Sequence[Rejected]) -> Iterable[Input]:
    """What the fold of rejections is given."""
    rows = name_rejections(
        (item.position, item.received, item.event.type, domain, reason) for item, domain, reason in rejected
    )
    for (item, _, _), row in zip(rejected, rows, strict=True):
        yield Input(item.position, item.received, item.event, row)


def _by_position(item: Input) -> int:
    return item.position


async def fold_batch(
    domains: Sequence[Domain],
    registry: EventRegistry,
    source: RowSource,
    events: Iterable[tuple[int, int, Event]],
    retention: Retention,
) -> Folded:
    """Fold events, given as (position, received time, event) in position order, on top of `source`."""
    batch = FoldBatch(domains, source, retention)
    inputs: dict[str, list[Input]] = {"*": []}
    for item in await batch.read(registry, events):
        event = item.event
        if item.payload is not None:
            inputs.setdefault(event.type, []).append(item)
            if (parts := registry.composite.get(event.type)) is not None:
                for name, part in parts(item.payload):
                    inputs.setdefault(name, []).append(Input(item.position, item.received, event, part))
        if event.command or event.key:
            inputs["*"].append(Input(item.position, item.received, event, None))
    audited = [kind for kind in registry if kind.audit is not None and kind.name in inputs]
    batch.audited = {item.position: {} for kind in audited for item in inputs[kind.name]}
    for domain in domains:
        await batch.run_domain(domain, inputs)
    rejected = {found.item.position for found in batch.rejected}
    for kind in audited:
        batch.write_audit(kind, inputs[kind.name], rejected)
    if batch.rejected:
        await batch.run_stage(REJECTED, "system", sorted(_rejections(batch.rejected), key=_by_position))
    writes = {
        table: kept
        for table, groups in batch.writes.items()
        if (kept := {group: rows for group, rows in groups.items() if rows})
    }
    return Folded(writes, batch.skipped, batch.retention)

"""Logs for tests of the runner: events of any type a program knows, at random, and both runners over one store."""

import random
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import msgspec

from arco.core import DAY, derive_ulid
from arco.log import Event, Instant, Pack, Place, encode_pack
from arco.runtime import AsyncRuntime
from arco.spark import Site, SparkRunner
from arco.spark._site import definition_of
from arco.state import (
    Definition,
    LayerReader,
    LocalRunner,
    Manifest,
    RefoldJob,
    Replica,
    RetentionAdvanced,
    Revisions,
    digest_rows,
    open_ledger,
)
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store
from tests.domains.orchestration.facts import claim, finish, plan_of, planned, triggered
from tests.doubles import START
from tests.state.doubles import Journal

__all__ = ["Chance", "TwoRunners", "with_runs", "write_log"]

HASH = 64
"""Digits of a hash."""


class TwoRunners:
    """A log in a store, and both runners over it."""

    def __init__(
        self,
        base: Store,
        url: str,
        place: Place,
        session: Callable[[], Any],
        define: Callable[[str], Definition] = definition_of,
        options: dict[str, str | bool] | None = None,
    ) -> None:
        self.runtime = AsyncRuntime()
        self.place = place
        self.definition = define(place.log)
        self.store = RoleStore(base, Scope(place.tenant, place.workspace), Role.COMPACTOR, RequestCounts())
        self.local = LocalRunner(self.store, place, self.runtime)
        self.spark = SparkRunner(self.store, Site.of(url, options or {}, place, define), self.runtime, session)

    async def pack(self, base: Store, through: int, size: int) -> tuple[Pack, ...]:
        """Put the first segments into packs of so many, and delete them."""
        ledger = open_ledger(self.store, Revisions(self.store, self.place, self.runtime))
        packs = []
        for first in range(1, through + 1, size):
            last = min(first + size - 1, through)
            found = [data async for _, data, _ in ledger.known(first, last)]
            path = f"{self.place.incarnation}/packs/{self.place.log}/{0:020d}-x/{first:020d}.pack"
            data, pack = encode_pack(path, self.place, first, found)
            await self.store.put(path, data, only_if_absent=True)
            packs.append(pack)
            for number in range(first, last + 1):
                await base.delete(f"{self.place.tenant}/{self.place.workspace}/{ledger.sequence.path(number)}")
        return tuple(packs)

    async def tables(self, manifest: Manifest) -> dict[str, tuple[int, str]]:
        """Rows and digest of every table as a reader of the manifest sees it."""
        replica = Replica(self.definition, LayerReader(self.store), manifest)
        found = {}
        for name, table in self.definition.tables.items():
            data = await replica.scan(table)
            found[name] = (data.num_rows, digest_rows(table, data))
        return found

    async def compare(self, through: int, base: Manifest | None = None) -> tuple[Manifest, dict[str, int]]:
        """Fold with both; everything but the files must be the same. What Spark made, and the rows of each table.

        With a base, Spark goes on from there, and the local runner begins at the beginning all the same.
        """
        name = f"{through}-{base.link.number if base is not None else 0}"
        here = await self.local.refold(RefoldJob(self.definition, through, f"{0:020d}-local-{name}"))
        there = await self.spark.refold(RefoldJob(self.definition, through, f"{0:020d}-spark-{name}", base=base))
        tables = await self.tables(there)
        assert tables == await self.tables(here)
        assert msgspec.structs.replace(there, layers=()) == msgspec.structs.replace(here, layers=())
        return there, {name: rows for name, (rows, _) in tables.items()}


async def write_log(store: Store, place: Place, segments: list[list[Event]]) -> int:
    """Append segments to an empty log; the number of the last one."""
    journal = Journal(store, AsyncRuntime(), place)  # type: ignore[arg-type]
    for events in segments:
        await journal.append(*events)
    return journal.link.number


def with_runs(segments: list[list[Event]]) -> list[list[Event]]:
    """The same history, among which two runs begin and do not end: plans of random tasks are hardly ever whole."""
    facts = []
    for name, batch in (("alone", 1), ("batched", 2)):
        run = derive_ulid(START + DAY, name)
        plan = plan_of({"a": (), "b": (), "c": ("a",), "d": ("a",), "e": ("c", "d")}, batch=batch)
        facts += [triggered(plan, run=run), planned(plan, run=run)]
        facts += [claim("a", 1, run=run), finish("a", 2, run=run), claim("b", 3, run=run)]
    between = len(segments) // len(facts)
    told = {place * between: fact.event for place, fact in enumerate(facts)}
    return [[*events, told[place]] if place in told else events for place, events in enumerate(segments)]


MILLISECOND = 1_000
"""What ids tell apart, in microseconds."""


class Chance:
    """Values of types, as JSON has them, from small spaces, so that ids collide and facts repeat."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def segments(self, definition: Definition, count: int) -> list[list[Event]]:
        """Segments with events of every type of a log, some of them not valid and some of types that nobody knows."""
        return [[self.event(definition) for _ in range(self._random.randint(1, 6))] for _ in range(count)]

    def event(self, definition: Definition) -> Event:
        kinds = list(definition.registry)
        kind = self._random.choice(kinds)
        if kind.name.endswith(("Dropped", "Released", "Removed", "Revoked")) and self._random.random() < 0.7:
            kind = self._random.choice(kinds)
        name, version, payload = kind.name, kind.version, self.value(kind.payload)
        what = self._random.random()
        if what < 0.03:
            payload = {"no": 1}
        elif what < 0.06:
            payload |= {"no": 1}  # does not fit either, but its group can be told
        elif what < 0.09:
            name, version, payload = "Unheard", self._random.randint(1, 2), {}
        elif name == RetentionAdvanced.__name__:
            expiring = [table for table in definition.tables.values() if table.time]
            table, steps = self._random.choice(expiring), self._random.randint(0, 3)
            payload = {"table": table.name, "before": START + steps * (MILLISECOND if table.expires_by_id else 1)}
        command, key = self._random.choice([("", ""), ("", ""), ("Do", ""), ("Do", self.word()), ("", self.word())])
        return Event(
            id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
            type=name,
            time="2026-01-01T00:00:00.000000Z",
            source="test",
            actor=self.word(),
            operation=self.word(),
            data=msgspec.Raw(msgspec.json.encode(payload)),
            version=version,
            command=command,
            key=key,
            subject="subject",
        )

    def word(self) -> str:
        return self._random.choice("abcde")

    def value(self, hint: Any) -> Any:
        chance = self._random
        if hint == Instant:
            return START + chance.randint(0, 5)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            if getattr(args[1], "min_length", None) == HASH:
                return self.word() * HASH
            return self.value(args[0]) or [self.value(typing.get_args(args[0])[0])]
        if origin in (types.UnionType, typing.Union):
            option = chance.choice(args)
            return None if option is type(None) else self.value(option)
        if origin is tuple:
            return [self.value(args[0]) for _ in range(chance.randint(0, 2))]
        if origin is dict:
            return {self.value(args[0]): self.value(args[1]) for _ in range(chance.randint(0, 2))}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return chance.choice(list(hint)).value
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            hints = typing.get_type_hints(hint, include_extras=True)
            fields = {name: self.value(hints[name]) for name in hint.__struct_fields__}
            if isinstance(fields.get("status"), str) and fields["status"] in "abc":
                fields["status"] = "published"
            if isinstance(fields.get("run_id"), str) and chance.random() < 0.7:
                fields["run_id"] = derive_ulid(START + chance.randint(0, 3) * MILLISECOND, self.word())
            tagged = hint.__struct_config__
            return fields if tagged.tag is None else {tagged.tag_field: tagged.tag, **fields}
        if hint is str:
            return self.word()
        return {int: chance.randint(1, 3), float: 0.5, bool: chance.random() < 0.5}[hint]

"""Appending: what the log costs on top of the store it stands on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from arco.domains.catalog import CreateNamespace
from arco.log import NewEvent, number_of
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import LocalStore, MemoryStore, Scope, Store
from bench._measure import Line, Stopwatch, middle
from bench._sample import new_completed

__all__ = ["measure_append"]

SECTION = "append (local disk)"
BUCKET = "append (a bucket)"
PRODUCERS = 16
BUCKET_SECONDS = 0.02
"""How long a write to the stand-in for a bucket takes: about what S3 needs from the same region."""


async def measure_append(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    """Four kinds of writes take turns, so that a slow moment of the disk meets all of them."""
    rounds, count = (3, 60) if quick else (6, 200)
    store, scope = LocalStore(folder), Scope("bench", "append")
    await init_workspace(store, scope, runtime)
    async with await Workspace.open(store, scope, runtime, compact=False, test_store=False) as workspace:
        writer = _Writer(store, workspace, runtime)
        rates: dict[str, list[float]] = {"raw": [], "one": [], "many": [], "decide": []}
        groups: list[float] = []
        for _ in range(rounds):
            rates["raw"].append(await _rate(writer.raw, range(count)))
            rates["one"].append(await _rate(writer.record, writer.events(count)))
            rates["decide"].append(await _rate(writer.decide, range(count)))
            events, segments, seconds = await writer.many(count)
            rates["many"].append(segments / seconds)
            groups.append(events / segments)
    raw, one, many, decide = (middle(rates[name]) for name in ("raw", "one", "many", "decide"))
    group = middle(groups)
    return [
        await _measure_bucket(runtime, quick),
        Line(SECTION, "raw create of 1 KB, one at a time", f"{raw:,.0f}/s"),
        Line(SECTION, "record, 1 producer, 1 event each", f"{one:,.0f}/s", f"raw {raw:,.0f}/s", one / raw),
        Line(
            SECTION,
            f"record, {PRODUCERS} producers, groups of {group:.1f}",
            f"{many * group:,.0f} events/s",
            f"raw × group {raw * group:,.0f}/s",
            many / raw,
            "≥ 0.8",
            many / raw >= 0.8,
        ),
        Line(SECTION, "decide, 1 caller", f"{decide:,.0f}/s", f"raw {raw:,.0f}/s", decide / raw),
    ]


class _Bucket(MemoryStore):
    """A store in memory whose writes take as long as a bucket's."""

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        await asyncio.sleep(BUCKET_SECONDS)
        await super().put(path, data, only_if_absent=only_if_absent)


async def _measure_bucket(runtime: AsyncRuntime, quick: bool) -> Line:
    """Group commit where the store is what takes the time."""
    store, scope = _Bucket(runtime), Scope("bench", "bucket")
    await init_workspace(store, scope, runtime)
    async with await Workspace.open(store, scope, runtime, compact=False, test_store=False) as workspace:
        writer = _Writer(store, workspace, runtime)
        raw = await _rate(writer.raw, range(20 if quick else 100))
        events, segments, seconds = await writer.many(20 if quick else 100)
    group, rate = events / segments, segments / seconds
    return Line(
        BUCKET,
        f"record, {PRODUCERS} producers, groups of {group:.1f}, {1000 * BUCKET_SECONDS:.0f} ms a write",
        f"{rate * group:,.0f} events/s",
        f"raw × group {raw * group:,.0f}/s",
        rate / raw,
        "≥ 0.8",
        rate / raw >= 0.8,
    )


async def _rate(write: Callable[[Any], Awaitable[Any]], items: Sequence[Any]) -> float:
    with Stopwatch() as watch:
        for item in items:
            await write(item)
    return len(items) / watch.wall


class _Writer:
    def __init__(self, store: Store, workspace: Workspace, runtime: AsyncRuntime) -> None:
        self._store = store
        self._workspace = workspace
        self._runtime = runtime
        self._number = 0
        self._data = runtime.bytes(1_024)

    def events(self, count: int) -> list[NewEvent]:
        """Made beforehand: producing them is not what is measured."""
        self._number += count
        return [new_completed(self._number + i, self._runtime.now()) for i in range(count)]

    async def raw(self, _: int) -> None:
        self._number += 1
        await self._store.put(f"raw/{self._number >> 12}/{self._number}", self._data, only_if_absent=True)

    async def record(self, event: NewEvent) -> int:
        """Append one event; the number of its segment."""
        return number_of((await self._workspace.record("activity", [event], actor="bench")).position)

    async def decide(self, _: int) -> None:
        self._number += 1
        command = CreateNamespace((f"namespace_{self._number}",))
        await self._workspace.decide("catalog", command, actor="bench")

    async def many(self, count: int) -> tuple[int, int, float]:
        """Events and segments that all producers together appended, and the seconds it took."""
        numbers: list[int] = []

        async def produce(events: list[NewEvent]) -> None:
            numbers.extend([await self.record(event) for event in events])

        work = [self.events(count) for _ in range(PRODUCERS)]
        with Stopwatch() as watch:
            await asyncio.gather(*(produce(events) for events in work))
        return len(numbers), len(set(numbers)), watch.wall

"""From an event to what a reader sees: an embedded workspace under a steady load."""

import asyncio
from pathlib import Path

from arco.log import Place
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import Revisions
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope
from bench._measure import Line, percentile
from bench._sample import new_completed

__all__ = ["measure_visible"]

RATE = 1_000
TICKS = 100
"""Moments a second at which events arrive."""
LOOK = 0.01
"""Seconds between two looks of the reader."""


async def measure_visible(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    seconds = 3 if quick else 10
    store, scope = LocalStore(folder), Scope("bench", "visible")
    incarnation = await init_workspace(store, scope, runtime)
    place = Place(scope.tenant, scope.workspace, incarnation.id, "activity")
    reader = Revisions(RoleStore(store, scope, Role.READER, RequestCounts()), place, runtime)
    sent: list[tuple[int, float, float]] = []
    seen: list[tuple[int, float]] = []
    async with await Workspace.open(store, scope, runtime, test_store=False) as workspace:
        looking = asyncio.create_task(_look(reader, seen, runtime))
        started = runtime.boottime()
        pending = []
        for tick in range(seconds * TICKS):
            await asyncio.sleep(max(0.0, started + tick / TICKS - runtime.boottime()))
            numbers = range(tick * RATE // TICKS, (tick + 1) * RATE // TICKS)
            pending += [asyncio.create_task(_send(workspace, number, sent, runtime)) for number in numbers]
        await asyncio.gather(*pending)
        elapsed = runtime.boottime() - started
        last = max(position for position, _, _ in sent)
        while not seen or seen[-1][0] < last:
            await asyncio.sleep(LOOK)
        looking.cancel()
    visible = [_first(seen, position) - begun for position, begun, _ in sent]
    durable = [done - begun for _, begun, done in sent]
    p95 = percentile(visible, 95)
    return [
        Line(
            "event to visible (local disk, embedded)",
            f"p95 at {len(sent) / elapsed:,.0f} events/s, {len(seen)} revisions",
            f"{p95:.3f} s",
            f"durable {percentile(durable, 95):.3f} s",
            p95 / percentile(durable, 95),
            "< 0.5 s",
            p95 < 0.5,
        )
    ]


async def _send(workspace: Workspace, number: int, sent: list[tuple[int, float, float]], runtime: AsyncRuntime) -> None:
    begun = runtime.boottime()
    receipt = await workspace.record("activity", [new_completed(number, runtime.now())], actor="bench")
    sent.append((receipt.position, begun, runtime.boottime()))


async def _look(reader: Revisions, seen: list[tuple[int, float]], runtime: AsyncRuntime) -> None:
    """Note when each revision was first seen, as another process would see it."""
    head = await reader.head()
    while True:
        known, head = head, await reader.refresh(head)
        if head.manifest.number > known.manifest.number:
            seen.append((int(head.manifest.watermark), runtime.boottime()))
        await asyncio.sleep(LOOK)


def _first(seen: list[tuple[int, float]], position: int) -> float:
    return next(when for watermark, when in seen if watermark >= position)

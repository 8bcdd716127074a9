"""State: rebuilding, publishing and reading at a small and a large size, and what merges write again.

A state of n rows is the refold of a log of n materializations (one file each) on local disk, so building it measures
the rebuild. Publishing must cost the same at both sizes, because a publish writes what changed and nothing else.
"""

from dataclasses import dataclass
from pathlib import Path

from arco.core import Runtime
from arco.domains.execution import MATERIALIZATIONS
from arco.log import Place
from arco.runtime import AsyncRuntime, OpenLog, Workspace, init_workspace
from arco.state import Cadence, Layout
from arco.storage import LocalStore, MemoryStore, Scope, Sequence
from bench._measure import Line, MeteredStore, Stopwatch, middle
from bench._sample import asset_id, completed, fill_log, new_completed

__all__ = ["measure_merges", "measure_states"]

CHANGED = 100
SCOPE = Scope("bench", "state")


@dataclass(frozen=True)
class _Size:
    """What one size of state came to."""

    rows: int
    rebuilt: float
    """Events a second, wall time."""
    publish_ms: float
    publish_bytes: float
    cold_ms: float
    cold_requests: int
    cold_bytes: int
    hot_ms: float
    hot_requests: int
    known_ms: float
    load_ms: float


async def measure_states(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    sizes = (10_000, 50_000) if quick else (10_000, 1_000_000)
    small, large = [await _measure(folder / str(rows), rows, runtime, quick) for rows in sizes]
    return [*_rebuild_lines(small, large), *_publish_lines(small, large), *_read_lines(small, large)]


async def _measure(folder: Path, rows: int, runtime: AsyncRuntime, quick: bool) -> _Size:
    assets = max(rows // 500, 200)
    metered = MeteredStore(LocalStore(folder))
    incarnation = await init_workspace(metered, SCOPE, runtime)
    place = Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, "activity")
    await fill_log(_ledger(folder, place, runtime), place, rows, runtime, assets=assets, files=1)
    rebuilt = await _rebuild(metered, rows, runtime)
    cold = await _read_cold(metered, runtime)
    # Merges have their own lines; here none is due, so that none runs beside a publish.
    no_merges = Cadence(fan_in=1_000)
    async with await Workspace.open(
        metered, SCOPE, runtime, compact=False, test_store=False, cadence=no_merges
    ) as workspace:
        log = workspace.logs["activity"]
        hot = await _read_hot(metered, log)
        with Stopwatch() as load:
            await workspace.record("activity", [new_completed(rows, runtime.now(), assets=assets)], actor="bench")
        times, sizes = [], []
        for turn in range(5 if quick else 15):
            # The same hundred assets each time: after the first turn their buckets are in memory.
            events = [
                new_completed(assets * (rows + turn) + i % assets, runtime.now(), assets=assets) for i in range(CHANGED)
            ]
            await workspace.record("activity", events, actor="bench")
            metered.reset()
            with Stopwatch() as watch:
                await log.compactor.publish()
            times.append(watch.wall * 1_000)
            sizes.append(float(metered.bytes_written["delta"] + metered.bytes_written["manifest"]))
    return _Size(rows, rebuilt, middle(times), middle(sizes), *cold, *hot, load.wall * 1_000)


def _ledger(folder: Path, place: Place, runtime: Runtime) -> Sequence:
    return Sequence(LocalStore(folder / SCOPE.root), Layout(place).ledger, runtime)


async def _rebuild(store: MeteredStore, rows: int, runtime: AsyncRuntime) -> float:
    async with await Workspace.open(store, SCOPE, runtime, compact=False, test_store=False) as workspace:
        compactor = workspace.logs["activity"].compactor
        with Stopwatch() as watch:
            await compactor.rebuild()
    return rows / watch.wall


async def _read_cold(store: MeteredStore, runtime: AsyncRuntime) -> tuple[float, int, int]:
    """One row, by a process that has just started: milliseconds, requests, bytes."""
    wanted = completed(1, 0)
    store.reset()
    with Stopwatch() as watch:
        async with await Workspace.open(store, SCOPE, runtime, compact=False, test_store=False) as workspace:
            snapshot = await workspace.logs["activity"].snapshot()
            found = await snapshot.get(MATERIALIZATIONS, asset_id(1), wanted.materialization_id)
    assert found is not None
    return watch.wall * 1_000, store.requests.total(), store.bytes_read


async def _read_hot(store: MeteredStore, log: OpenLog) -> tuple[float, int, float]:
    """One row whose bucket is in memory: strong (milliseconds, requests), and bounded-stale (milliseconds)."""
    wanted = completed(1, 0).materialization_id
    await log.replica.get(MATERIALIZATIONS, asset_id(1), wanted)
    store.reset()
    rounds = 200
    with Stopwatch() as strong:
        for _ in range(rounds):
            await log.snapshot()
            await log.replica.get(MATERIALIZATIONS, asset_id(1), wanted)
    requests = store.requests.total()
    with Stopwatch() as known:
        for _ in range(rounds):
            await log.replica.get(MATERIALIZATIONS, asset_id(1), wanted)
    assert store.requests.total() == requests
    return strong.wall / rounds * 1_000, requests // rounds, known.wall / rounds * 1_000


def _rebuild_lines(small: _Size, large: _Size) -> list[Line]:
    section = "rebuild (local disk)"
    return [
        Line(section, f"refold of {size.rows:,} events and publish", f"{size.rebuilt:,.0f} events/s")
        for size in (small, large)
    ]


def _publish_lines(small: _Size, large: _Size) -> list[Line]:
    section = f"publish of {CHANGED} changes (local disk)"
    time, size = large.publish_ms / small.publish_ms, large.publish_bytes / small.publish_bytes
    return [
        Line(
            section,
            f"time at {large.rows:,} rows",
            f"{large.publish_ms:.1f} ms",
            f"at {small.rows:,}: {small.publish_ms:.1f} ms",
            time,
            "≤ 1.5",
            time <= 1.5,
        ),
        Line(
            section,
            f"bytes at {large.rows:,} rows",
            f"{large.publish_bytes:,.0f}",
            f"at {small.rows:,}: {small.publish_bytes:,.0f}",
            size,
            "≤ 1.5",
            size <= 1.5,
        ),
        Line(
            section,
            f"first event of a group at {large.rows:,} rows",
            f"{large.load_ms:.1f} ms",
            f"at {small.rows:,}: {small.load_ms:.1f} ms",
            large.load_ms / small.load_ms,
        ),
    ]


def _read_lines(small: _Size, large: _Size) -> list[Line]:
    section = "read of one row (local disk)"
    return [
        Line(
            section,
            f"cold, {large.rows:,} rows: {large.cold_requests} requests, {large.cold_bytes:,} bytes",
            f"{large.cold_ms:.1f} ms",
            f"at {small.rows:,}: {small.cold_ms:.1f} ms",
            large.cold_ms / small.cold_ms,
        ),
        Line(
            section,
            "hot, strong",
            f"{large.hot_requests} request, {large.hot_ms:.3f} ms",
            f"at {small.rows:,}: {small.hot_ms:.3f} ms",
            large.hot_ms / small.hot_ms,
            "1 request",
            large.hot_requests == 1 and small.hot_requests == 1,
        ),
        Line(
            section,
            "hot, bounded-stale",
            f"0 requests, {large.known_ms:.4f} ms",
            f"at {small.rows:,}: {small.known_ms:.4f} ms",
            large.known_ms / small.known_ms,
            "0 requests",
            True,
        ),
    ]


async def measure_merges(runtime: AsyncRuntime, quick: bool) -> list[Line]:
    """Rows that merges write again for each row published, at a growing number of deltas."""
    lines = []
    for deltas, levels in ((8, 1), (64, 2)) if quick else ((8, 1), (64, 2), (512, 3)):
        store = MeteredStore(MemoryStore(), count_rows=True)
        await init_workspace(store, SCOPE, runtime)
        cadence = Cadence(fan_in=8)
        async with await Workspace.open(
            store, SCOPE, runtime, compact=False, test_store=False, cadence=cadence
        ) as workspace:
            compactor, published = workspace.logs["activity"].compactor, 0
            manifest = compactor.head.manifest
            for turn in range(deltas):
                events = [new_completed(turn * 20 + i, runtime.now(), files=1) for i in range(20)]
                await workspace.record("activity", events, actor="bench")
                manifest = await compactor.compact()
                published += 40  # a materialization and a partition each
        again = store.rows_written["merged"] / published
        layers = max(len(manifest.layers_of(table)) for table in ("materializations", "partitions"))
        lines.append(
            Line(
                "merges (memory)",
                f"{deltas} deltas: {layers} layers a table at the end",
                f"{store.rows_written['merged']:,} rows written again",
                f"{published:,} published",
                again,
                f"≤ {levels}",
                again <= levels,
            )
        )
    return lines

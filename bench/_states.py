"""State: rebuilding, publishing and reading at a small and a large size, and what merges write again.

A state of n rows is the refold of a log of n materializations (one file each) on local disk, so building it measures
the rebuild. Publishing must cost the same at both sizes, because a publish writes what changed and nothing else.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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


@dataclass
class _State:
    """A workspace with so many rows, and what was measured on it."""

    rows: int
    store: MeteredStore
    rebuilt: float = 0.0
    """Events a second, wall time."""
    cold: tuple[float, int, int] = (0.0, 0, 0)
    """Milliseconds, requests, bytes."""
    hot: tuple[float, int, float] = (0.0, 0, 0.0)
    """Milliseconds and requests of a strong read, milliseconds of a bounded-stale one."""
    load_ms: float = 0.0
    publish_ms: list[float] = field(default_factory=list)
    publish_bytes: list[float] = field(default_factory=list)

    @property
    def assets(self) -> int:
        return max(self.rows // 500, 200)


async def measure_states(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    sizes = (10_000, 50_000) if quick else (10_000, 1_000_000)
    small, large = [await _build(folder / str(rows), rows, runtime) for rows in sizes]
    # Merges have their own lines; here none is due, so that none runs beside a publish.
    options: dict[str, Any] = {"compact": False, "test_store": False, "cadence": Cadence(fan_in=1_000)}
    async with (
        await Workspace.open(small.store, SCOPE, runtime, **options) as one,
        await Workspace.open(large.store, SCOPE, runtime, **options) as other,
    ):
        for state, workspace in ((small, one), (large, other)):
            state.hot = await _read_hot(state.store, workspace.logs["activity"])
            event = new_completed(state.rows, runtime.now(), assets=state.assets)
            with Stopwatch() as watch:
                await workspace.record("activity", [event], actor="bench")
            state.load_ms = watch.wall * 1_000
        # Taking turns, so that a slow moment of the disk meets both.
        for turn in range(8 if quick else 20):
            for state, workspace in ((small, one), (large, other)):
                await _publish(state, workspace, turn, runtime)
    return [*_rebuild_lines(small, large), *_publish_lines(small, large), *_read_lines(small, large)]


async def _build(folder: Path, rows: int, runtime: AsyncRuntime) -> _State:
    state = _State(rows, MeteredStore(LocalStore(folder)))
    incarnation = await init_workspace(state.store, SCOPE, runtime)
    place = Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, "activity")
    await fill_log(_ledger(folder, place, runtime), place, rows, runtime, assets=state.assets, files=1)
    state.rebuilt = await _rebuild(state.store, rows, runtime)
    state.cold = await _read_cold(state.store, runtime)
    return state


async def _publish(state: _State, workspace: Workspace, turn: int, runtime: AsyncRuntime) -> None:
    """Change a hundred rows, the same assets each time: after the first turn their buckets are in memory."""
    first = state.assets * (state.rows + turn)
    events = [new_completed(first + i, runtime.now(), assets=state.assets) for i in range(CHANGED)]
    await workspace.record("activity", events, actor="bench")
    state.store.reset()
    with Stopwatch() as watch:
        await workspace.logs["activity"].compactor.publish()
    if turn:
        written = state.store.bytes_written
        state.publish_ms.append(watch.wall * 1_000)
        state.publish_bytes.append(float(written["delta"] + written["manifest"]))


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


def _rebuild_lines(small: _State, large: _State) -> list[Line]:
    section = "rebuild (local disk)"
    return [
        Line(section, f"refold of {state.rows:,} events and publish", f"{state.rebuilt:,.0f} events/s")
        for state in (small, large)
    ]


def _compared(
    section: str, name: str, values: tuple[float, float], small: _State, shown: str, limit: float | None = None
) -> Line:
    """The value at the large size against that at the small one."""
    large_value, small_value = values
    ratio = large_value / small_value
    return Line(
        section,
        name,
        shown.format(large_value),
        f"at {small.rows:,}: {shown.format(small_value)}",
        ratio,
        "" if limit is None else f"≤ {limit}",
        None if limit is None else ratio <= limit,
    )


def _publish_lines(small: _State, large: _State) -> list[Line]:
    section = f"publish of {CHANGED} changes (local disk)"
    times = middle(large.publish_ms), middle(small.publish_ms)
    sizes = middle(large.publish_bytes), middle(small.publish_bytes)
    return [
        _compared(section, f"time at {large.rows:,} rows", times, small, "{:.1f} ms", 1.5),
        _compared(section, f"bytes at {large.rows:,} rows", sizes, small, "{:,.0f}", 1.5),
        _compared(
            section, f"first event of a group at {large.rows:,}", (large.load_ms, small.load_ms), small, "{:.1f} ms"
        ),
    ]


def _read_lines(small: _State, large: _State) -> list[Line]:
    section = "read of one row (local disk)"
    _, requests, size = large.cold
    cold = f"cold, {large.rows:,} rows: {requests} requests, {size:,} bytes"
    strong = large.hot[0], small.hot[0]
    known = large.hot[2], small.hot[2]
    return [
        _compared(section, cold, (large.cold[0], small.cold[0]), small, "{:.1f} ms"),
        replace(
            _compared(section, f"hot, strong: {large.hot[1]} request", strong, small, "{:.3f} ms"),
            budget="1 request",
            ok=large.hot[1] == small.hot[1] == 1,
        ),
        _compared(section, "hot, bounded-stale: no request", known, small, "{:.4f} ms"),
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

"""The catalog at a small and a large size: what a DDL costs at each, and what readers pay at the large one.

Both catalogs are refolds of logs of created tables on local disk, open in one process that owns, publishes and merges.
DDLs take turns between them, so that a slow moment of the machine meets both, and begin when the merges of the one
before are done: those have a line of their own. Three states of memory are told apart:

- *cold*: the first of its kind after the workspace was opened.
- *first touch*: other parts of the catalog were read before, but not those that it needs.
- *warm*: everything it needs is in memory, as in a server that has run for a while.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from arco.core import Runtime
from arco.domains.catalog import AddColumn, AlterTable, CreateTable, DropTable, Ref, RenameTable
from arco.log import Place
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import AUDIT, BUCKETS, Cadence, Layout
from arco.storage import LocalStore, Scope, Sequence, Store
from bench._lookups import measure_lookups
from bench._measure import Line, MeteredStore, Stopwatch, middle, percentile
from bench._sample import LARGE, append, chain, encoded_catalog, encoded_lineage, table_id, table_path

__all__ = ["measure_catalog"]

SCOPE = Scope("bench", "catalog")
COLUMNS = 20
KINDS = ("create", "alter", "rename", "drop")
FLAT = 1.5
"""How much longer a DDL may take at the large size."""


class _Store(MeteredStore):
    """Tells what a DDL writes itself (`segment`, `delta`, `manifest`) from what merges write beside it (`merge`)."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.created: Counter[str] = Counter()
        self.created_bytes: Counter[str] = Counter()

    def reset(self) -> None:
        super().reset()
        self.created.clear()
        self.created_bytes.clear()

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        if only_if_absent:  # else it is a hint
            self.created[_kind(path)] += 1
            self.created_bytes[_kind(path)] += len(data)
        await super().put(path, data, only_if_absent=only_if_absent)


def _kind(path: str) -> str:
    if path.endswith("/delta"):
        return "delta"
    return "segment" if "/ledger/" in path else "manifest" if "/manifests/" in path else "merge"


@dataclass
class _Catalog:
    """A workspace with so many tables, and what its DDLs took, in milliseconds."""

    tables: int
    store: _Store
    workspace: Workspace
    cold: dict[str, float] = field(default_factory=dict)
    touching: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    warm: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    merging: float = 0.0
    created: deque[str] = field(default_factory=deque)
    turn: int = 0

    async def round(self, times: dict[str, list[float]] | None) -> None:
        """One DDL of each kind on tables all over the catalog."""
        self.turn += 1
        for kind in KINDS:
            if kind == "drop" and len(self.created) < 2:
                continue  # not the table that was created just now, whose rows are at hand
            milliseconds = await self._carry_out(self._command(kind))
            self.cold.setdefault(kind, milliseconds)
            if times is not None:
                times[kind].append(milliseconds)
            await self._settle()

    def _command(self, kind: str) -> msgspec.Struct:
        # Of the tables there from the start, those with even numbers are altered and the others renamed.
        other = self.turn * 7_919 * 2 % self.tables // 2 * 2
        match kind:
            case "create":
                self.created.append(f"created_{self.turn:06d}")
                columns = tuple(AddColumn(f"column_{number:02d}", "string") for number in range(COLUMNS))
                return CreateTable((LARGE, self.created[-1]), columns=columns)
            case "alter":
                return AlterTable(Ref(path=table_path(other)), (AddColumn(f"added_{self.turn:06d}", "long"),))
            case "rename":
                other += 1
                return RenameTable(Ref(id=table_id(other)), (table_path(other)[0], f"renamed_{other}_{self.turn}"))
            case _:
                return DropTable(Ref(path=(LARGE, self.created.popleft())))

    async def _carry_out(self, command: msgspec.Struct) -> float:
        with Stopwatch() as watch:
            receipt = await self.workspace.decide("catalog", command, actor="bench")
            await self.workspace.published("catalog", receipt.position)
        return watch.wall * 1_000

    async def _settle(self) -> None:
        """Until the merges that this DDL set off are done and adopted."""
        compactor = self.workspace.logs["catalog"].compactor
        with Stopwatch() as watch:
            while await compactor.merging.wait() or compactor.head.manifest.pending:
                await asyncio.sleep(0.001)
        self.merging += watch.wall * 1_000


async def measure_catalog(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    sizes = (10, 2_000) if quick else (10, 100_000)
    nodes, edges = (1_000, 2_000) if quick else (50_000, 100_000)
    stores = [_Store(LocalStore(folder / str(tables))) for tables in sizes]
    built = [
        await _build(store, folder / str(tables), tables, (nodes, edges) if tables == sizes[1] else None, runtime)
        for store, tables in zip(stores, sizes, strict=True)
    ]
    lines = [
        Line(
            "catalog: rebuild (local disk)",
            f"refold of {sizes[1]:,} tables with {COLUMNS} columns",
            f"{built[1]:.1f} s",
        )
    ]
    lines += await _measure_ddl(sizes, stores, runtime, quick)
    samples = 30 if quick else 90
    lines += await measure_lookups(
        stores[1], SCOPE, runtime, tables=sizes[1], nodes=nodes, edges=edges, samples=samples
    )
    return lines


async def _build(
    store: _Store, folder: Path, tables: int, lineage: tuple[int, int] | None, runtime: AsyncRuntime
) -> float:
    """A workspace with so many tables, and lineage between them; the seconds its catalog took to fold."""
    incarnation = await init_workspace(store, SCOPE, runtime)
    place = Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, "catalog")
    at = runtime.now()
    await append(_ledger(folder, place, runtime), chain(place, encoded_catalog(tables, COLUMNS), 500, at), runtime)
    if lineage is not None:
        place = msgspec.structs.replace(place, log="activity")
        await append(_ledger(folder, place, runtime), chain(place, encoded_lineage(*lineage, at), 5_000, at), runtime)
    async with await Workspace.open(store, SCOPE, runtime, compact=False, test_store=False) as workspace:
        with Stopwatch() as watch:
            await workspace.logs["catalog"].compactor.rebuild()
        await workspace.logs["catalog"].compactor.compact()
        await workspace.logs["activity"].compactor.rebuild()
        await workspace.logs["activity"].compactor.compact()
    return watch.wall


def _ledger(folder: Path, place: Place, runtime: Runtime) -> Sequence:
    return Sequence(LocalStore(folder / SCOPE.root), Layout(place).ledger, runtime)


async def _measure_ddl(sizes: tuple[int, int], stores: list[_Store], runtime: AsyncRuntime, quick: bool) -> list[Line]:
    rounds = 16 if quick else 40
    # Merges are adopted at once, so that nobody waits for them.
    options: dict[str, Any] = {"test_store": False, "cadence": Cadence(interval=0.0)}
    before = _resident()
    async with (
        await Workspace.open(stores[0], SCOPE, runtime, **options) as one,
        await Workspace.open(stores[1], SCOPE, runtime, **options) as other,
    ):
        small, large = _Catalog(sizes[0], stores[0], one), _Catalog(sizes[1], stores[1], other)
        both = (small, large)
        await _alternate(both, rounds, lambda catalog: catalog.round(catalog.touching))
        for catalog in both:
            await _load_everything(catalog.workspace)
        await _alternate(both, 2, lambda catalog: catalog.round(None))
        for catalog in both:
            catalog.store.reset()
            catalog.merging = 0.0
        await _alternate(both, rounds, lambda catalog: catalog.round(catalog.warm))
        resident, rows = _resident() - before, other.logs["catalog"].replica.loaded_rows()
        lines = [*_time_lines(small, large), *map(_write_line, both), _merge_line(small, large)]
    memory = Line(_SECTION, f"memory of both, {rows:,} rows held", f"{resident >> 20:,} MB")
    return [*lines, memory]


async def _alternate(both: tuple[_Catalog, _Catalog], rounds: int, work: Callable[[_Catalog], Awaitable[None]]) -> None:
    for _ in range(rounds):
        for catalog in both:
            await work(catalog)


async def _load_everything(workspace: Workspace) -> None:
    """What many DDLs and lookups bring into memory over time; nobody reads the audit row by row."""
    opened = workspace.logs["catalog"]
    for table in opened.definition.tables.values():
        if table is not AUDIT:
            await opened.replica.load(table, range(BUCKETS))


def _resident() -> int:
    """Bytes of memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    return pages * 4096


_SECTION = "catalog: a DDL and its publish (local disk)"


def _time_lines(small: _Catalog, large: _Catalog) -> list[Line]:
    lines = []
    for kind in KINDS:
        values = large.warm[kind], small.warm[kind]
        ratio = middle(values[0]) / middle(values[1])
        lines.append(
            Line(
                _SECTION,
                f"{kind} at {large.tables:,} tables, warm",
                f"{middle(values[0]):.1f} ms, p95 {percentile(values[0], 95):.1f}",
                f"at {small.tables}: {middle(values[1]):.1f} ms, p95 {percentile(values[1], 95):.1f}",
                ratio,
                f"≤ {FLAT}",
                ratio <= FLAT,
            )
        )
    touched = [middle([ms for times in catalog.touching.values() for ms in times]) for catalog in (large, small)]
    lines.append(
        Line(
            _SECTION,
            "any, first touch of its parts",
            f"{touched[0]:.1f} ms",
            f"at {small.tables}: {touched[1]:.1f} ms",
            touched[0] / touched[1],
        )
    )
    cold = max(large.cold.values()), max(small.cold.values())
    lines.append(
        Line(
            _SECTION,
            "the slowest first one, cold",
            f"{cold[0]:.0f} ms",
            f"at {small.tables}: {cold[1]:.0f} ms",
            cold[0] / cold[1],
        )
    )
    return lines


def _write_line(catalog: _Catalog) -> Line:
    """Each DDL is one segment, one delta and one manifest. What merges add is none of its writes."""
    number = sum(map(len, catalog.warm.values()))
    created, size = catalog.store.created, catalog.store.created_bytes
    adopting = created["manifest"] - created["delta"]
    writes = (created["segment"] + created["delta"] + created["manifest"] - adopting) / number
    sizes = ", ".join(f"{kind} {size[kind] // max(created[kind], 1):,}" for kind in ("segment", "delta", "manifest"))
    return Line(
        _SECTION,
        f"writes a DDL at {catalog.tables:,} tables, {number} DDLs",
        f"{writes:.2f} creates",
        f"bytes: {sizes}",
        budget="3",
        ok=created["segment"] == created["delta"] == number,
    )


def _merge_line(small: _Catalog, large: _Catalog) -> Line:
    """What merges took and wrote for each DDL. Each row is written again once a level; more rows are more levels."""
    number = sum(map(len, large.warm.values()))
    created, size = large.store.created, large.store.created_bytes
    return Line(
        _SECTION,
        f"merges: {created['merge'] / number:.1f} creates, {size['merge'] // number:,} bytes a DDL",
        f"{large.merging / number:.1f} ms a DDL",
        f"at {small.tables}: {small.merging / number:.1f} ms",
        large.merging / small.merging,
    )

"""Readers of a large catalog: lookups by name and by id, pages, walks along lineage, SQL.

Everything is read as the routes of the API read it. A strong read looks at the store once, a bounded one not at all.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from arco.catalog import (
    CatalogResolver,
    Limits,
    Namer,
    Sandbox,
    SystemRelations,
    View,
    find_table,
    list_tables,
    resolve_table,
    table_info,
    walk,
)
from arco.runtime import AsyncRuntime, Workspace
from arco.storage import Role, Scope
from bench._measure import Line, MeteredStore, Stopwatch, middle, percentile
from bench._sample import LARGE, table_id, table_path

__all__ = ["measure_lookups"]

SECTION = "catalog: readers at {:,} tables (local disk)"
LIMIT_MS = 100.0
HOPS = 5
PAGE = 100

Ask = Callable[[bool], Awaitable[Any]]
"""One read, strong or not."""


@dataclass(frozen=True)
class _Took:
    milliseconds: float
    requests: int
    bytes: int


class _Reader:
    """One open workspace."""

    def __init__(self, store: MeteredStore, workspace: Workspace, tables: int) -> None:
        self.store = store
        self._workspace = workspace
        self._section = SECTION.format(tables)

    def table(self, ref: str) -> Ask:
        return lambda strong: self._catalog(lambda view: table_info(view, ref), strong)

    def page(self, cursor: str | None) -> Ask:
        return lambda strong: self._catalog(lambda view: list_tables(view, LARGE, cursor, PAGE), strong)

    def lineage(self, number: int) -> Ask:
        """Everything so many hops up and down, with names. It looks at both logs."""

        async def read(strong: bool) -> Any:
            start = await self._catalog(lambda view: resolve_table(view, f"id:{table_id(number)}"), strong)
            activity = self._workspace.logs["activity"]

            async def walked(catalog: View) -> Any:
                names = Namer(catalog)
                found, _ = await activity.read(lambda view: walk(view, start.id, "both", HOPS, names), strong=strong)
                return found

            return await self._catalog(walked, False)

        return read

    async def _catalog(self, work: Callable[[View], Awaitable[Any]], strong: bool) -> Any:
        found, _ = await self._workspace.logs["catalog"].read(work, strong=strong)
        return found

    async def took(self, ask: Ask, strong: bool) -> _Took:
        self.store.reset()
        with Stopwatch() as watch:
            await ask(strong)
        return _Took(watch.wall * 1_000, self.store.requests.total(), self.store.bytes_read)

    async def compare(self, name: str, asks: Sequence[Ask], looks: int) -> list[Line]:
        """Each once untouched, then all of them again: strong, and bounded."""
        first = [await self.took(ask, True) for ask in asks]
        strong = [await self.took(ask, True) for ask in asks]
        bounded = [await self.took(ask, False) for ask in asks]
        times = [[took.milliseconds for took in found] for found in (first, strong, bounded)]
        # A bounded read looks once in five seconds, which is not what one read costs.
        requests = [middle([float(took.requests) for took in found]) for found in (strong, bounded)]
        untouched = first[0]
        return [
            Line(
                self._section,
                f"{name}, warm: {requests[0]:.0f} requests, {max(took.bytes for took in strong):,} bytes",
                f"{middle(times[1]):.2f} ms, p95 {percentile(times[1], 95):.2f}",
                f"bounded, {requests[1]:.0f} requests: {middle(times[2]):.2f} ms",
                middle(times[1]) / middle(times[2]),
                f"< {LIMIT_MS:.0f} ms",
                percentile(times[1], 95) < LIMIT_MS and requests == [looks, 0],
            ),
            Line(
                self._section,
                f"{name}, cold: {untouched.requests} requests, {untouched.bytes:,} bytes",
                f"{untouched.milliseconds:.1f} ms",
                f"median of {len(asks)} untouched: {middle(times[0]):.1f} ms",
            ),
        ]


async def measure_lookups(
    store: MeteredStore, scope: Scope, runtime: AsyncRuntime, *, tables: int, nodes: int, edges: int, samples: int
) -> list[Line]:
    """Every kind of read on a workspace that was opened for it, so that its first one finds nothing in memory."""
    numbers = [sample * 7_919 * 2 % tables // 2 * 2 for sample in range(1, samples + 1)]
    roots = [nodes // 4 + number * 7_919 % (nodes // 2) for number in range(samples // 3)]

    async def opened() -> Workspace:
        return await Workspace.open(store, scope, runtime, compact=False, test_store=False)

    async with await opened() as workspace:
        reader = _Reader(store, workspace, tables)
        cursors = await _cursors(reader)
        reached = middle([len((await reader.lineage(root)(False)).nodes) for root in roots])
        lines = await _measure_sql(store, workspace, runtime, tables)
    walks = f"{HOPS} hops, {reached:.0f} tables, {edges:,} edges"
    kinds: dict[str, Callable[[_Reader], list[Ask]]] = {
        "by name": lambda reader: [reader.table(".".join(table_path(number))) for number in numbers],
        "by id": lambda reader: [reader.table(f"id:{table_id(number)}") for number in numbers],
        f"page of {PAGE} of {tables // 5:,}": lambda reader: [reader.page(cursor) for cursor in cursors],
        walks: lambda reader: [reader.lineage(root) for root in roots],
    }
    found = []
    for name, asks in kinds.items():
        async with await opened() as workspace:
            reader = _Reader(store, workspace, tables)
            found += await reader.compare(name, asks(reader), looks=2 if name == walks else 1)
    return found + lines


async def _cursors(reader: _Reader) -> list[str | None]:
    """The cursor of every page of the large namespace."""
    cursors: list[str | None] = [None]
    while (following := (await reader.page(cursors[-1])(False)).next_cursor) is not None:
        cursors.append(following)
    return cursors


async def _measure_sql(store: MeteredStore, workspace: Workspace, runtime: AsyncRuntime, tables: int) -> list[Line]:
    """Queries with a process that waits ready for each, as a server has it. Nothing is kept between two queries."""
    queries = {
        "count of system.columns": "select count(*) from system.columns",
        "columns of one table": f"select name, data_type from system.columns where table_id = '{table_id(2)}'",
        "tables of one namespace": "select full_name from system.tables where namespace = 'team_02' limit 100",
    }
    sandbox, lines = Sandbox(runtime), []
    limits = Limits(max_input_bytes=4 << 30, max_seconds=300)
    try:
        await sandbox.run("select 1", await _resolver(workspace, limits), limits)
        for name, sql in queries.items():
            await runtime.sleep(1.0)  # until the next process is ready
            store.reset()
            with Stopwatch() as watch:
                result = await sandbox.run(sql, await _resolver(workspace, limits), limits)
            lines.append(
                Line(
                    SECTION.format(tables),
                    f"SQL, {name}: {store.requests.total()} requests, {store.bytes_read:,} bytes",
                    f"{watch.wall * 1_000:.0f} ms",
                    f"{result.bytes_read:,} bytes in memory, {result.row_count} rows",
                )
            )
    finally:
        await sandbox.close()
    return lines


async def _resolver(workspace: Workspace, limits: Limits) -> CatalogResolver:
    catalog, activity = await workspace.logs["catalog"].frozen(), await workspace.logs["activity"].frozen()
    return CatalogResolver(
        SystemRelations(catalog, activity),
        lambda path: find_table(catalog, path),
        activity,
        lambda: workspace.logs["activity"].frozen(strong=False, min_position=activity.position),
        workspace.handle(Role.READER),
        workspace.runtime,
        limits.max_input_bytes,
    )

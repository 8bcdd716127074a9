"""The runner on Spark gives the tables that the local one gives, for every domain."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.log import Place
from arco.runtime import DEFINITIONS, AsyncRuntime, read_incarnation
from arco.spark import Site, SparkRunner
from arco.spark._site import definition_of
from arco.state import (
    Definition,
    LayerReader,
    LocalRunner,
    Manifest,
    RefoldJob,
    Replica,
    digest_rows,
)
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope, Store
from tests.recorded.record import HERE, SCOPE

# PySpark leaves the sockets over which results come to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


class Bench:
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

    async def tables(self, manifest: Manifest) -> dict[str, tuple[int, str]]:
        """Rows and digest of every table as a reader of the manifest sees it."""
        replica = Replica(self.definition, LayerReader(self.store), manifest)
        found = {}
        for name, table in self.definition.tables.items():
            data = await replica.scan(table)
            found[name] = (data.num_rows, digest_rows(table, data))
        return found

    async def compare(self, through: int) -> tuple[Manifest, dict[str, tuple[int, str]]]:
        """Fold with both; everything but the files must be the same."""
        here = await self.local.refold(RefoldJob(self.definition, through, f"{0:020d}-local"))
        there = await self.spark.refold(RefoldJob(self.definition, through, f"{0:020d}-spark"))
        tables = await self.tables(there)
        assert tables == await self.tables(here)
        assert msgspec.structs.replace(there, layers=()) == msgspec.structs.replace(here, layers=())
        return there, tables


@pytest.mark.parametrize("log", [definition.log for definition in DEFINITIONS])
def test_a_workspace_with_every_kind_of_event_is_rebuilt_to_the_same_tables(
    spark: Any, tmp_path: Path, log: str
) -> None:
    shutil.copytree(HERE / "0.1" / "store", tmp_path / "store")
    base = LocalStore(tmp_path / "store")

    async def work() -> None:
        incarnation = await read_incarnation(base, SCOPE, AsyncRuntime())
        place = Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, log)
        bench = Bench(base, f"file://{tmp_path / 'store'}", place, lambda: spark)
        from arco.state import Layout
        from arco.storage import Sequence

        tail = await Sequence(bench.store, Layout(place).ledger, bench.runtime).tail()
        _, tables = await bench.compare(tail.number)
        print({name: rows for name, (rows, _) in tables.items()})

    asyncio.run(work())

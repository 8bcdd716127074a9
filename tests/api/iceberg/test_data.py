"""SQL over the data of Iceberg tables that PyIceberg wrote through a server on local disk."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.types import LongType

from arco.api import Door, ServeOptions, serve
from arco.core import Refused
from arco.iceberg import IcebergRelation, Locations
from arco.runtime import AsyncRuntime, init_workspace
from arco.storage import LocalStore, MemoryStore, Scope

SCOPE = Scope("acme", "prod")


class Served:
    def __init__(self, url: str) -> None:
        self.url = url
        self.catalog = RestCatalog("arco", uri=f"{url}/iceberg/", warehouse="prod")
        self.http = httpx.Client(base_url=url)

    def close(self) -> None:
        self.http.close()
        self.catalog._session.close()

    def rows(self, sql: str, **more: Any) -> Any:
        answer = self.http.post("/api/v1/query", json={"sql": sql, **more})
        assert answer.is_success, answer.text
        return answer.json()["rows"]

    def refused(self, sql: str) -> str:
        answer = self.http.post("/api/v1/query", json={"sql": sql})
        assert 400 <= answer.status_code < 500, answer.text
        return str(answer.json()["detail"])

    def settle(self, count: int) -> None:
        """Wait until the log was told of so many commits."""
        for _ in range(200):
            if self.rows("SELECT count(*) FROM system.table_commits") == [[count]]:
                return
        raise AssertionError(self.rows("SELECT number, state FROM system.table_commits"))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), list[str]()
    stop = asyncio.Event()

    async def work() -> None:
        runtime = AsyncRuntime()
        await init_workspace(LocalStore(tmp_path), SCOPE, runtime)
        options = ServeOptions(f"file://{tmp_path}", (SCOPE,), port=0)

        def tell(url: str, door: Door) -> None:
            found.append(url)
            ready.set()

        await serve(options, runtime, tell, stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    try:
        assert ready.wait(60)
        made = Served(found[0])
        yield made
        made.close()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


def test_sql_reads_what_pyiceberg_wrote_now_and_in_the_past(served: Served) -> None:
    served.catalog.create_namespace("shop")
    first = pa.table({"id": pa.array([1, 2], pa.int32()), "note": ["a", None]})
    table = served.catalog.create_table("shop.orders", first.schema)
    served.settle(1)
    assert served.rows("SELECT count(*) FROM shop.orders") == [[0]]
    table.append(first)
    served.settle(2)
    assert served.rows("SELECT id, note FROM shop.orders ORDER BY id") == [[1, "a"], [2, None]]
    position = served.rows("SELECT max(_position) FROM system.table_commits")[0][0]
    with table.update_schema() as update:
        update.rename_column("note", "remark")
        update.update_column("id", LongType())
        update.add_column("extra", LongType())
    table.append(pa.table({"id": pa.array([3], pa.int64()), "remark": ["c"], "extra": pa.array([9], pa.int64())}))
    served.settle(4)
    assert served.rows("SELECT id, remark, extra FROM shop.orders ORDER BY id") == [
        [1, "a", None],
        [2, None, None],
        [3, "c", 9],
    ]
    past = served.rows("SELECT id, note FROM shop.orders ORDER BY id", as_of=f"activity:{position}")
    assert past == [[1, "a"], [2, None]]
    both = "SELECT count(*) FROM shop.orders o JOIN system.columns c ON c.table_name = 'shop.orders'"
    assert served.rows(both) == [[9]]
    table.delete("id = 2")  # PyIceberg writes the file anew
    served.settle(5)
    assert served.rows("SELECT id FROM shop.orders ORDER BY id") == [[1], [3]]


def test_what_sql_does_not_read_is_refused(served: Served) -> None:
    served.catalog.create_namespace("shop")
    served.catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    view = {
        "name": "v",
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "view-version": {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
            "default-namespace": ["shop"],
        },
        "properties": {},
    }
    config = served.http.get("/iceberg/v1/config", params={"warehouse": "prod"}).json()
    answer = served.http.post(f"/iceberg/v1/{config['overrides']['prefix']}/namespaces/shop/views", json=view)
    assert answer.is_success, answer.text
    assert "a view of other engines" in served.refused("SELECT * FROM shop.v")


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ({"delete-files": [{}], "file-scan-tasks": []}, "row-level deletes"),
        ({"file-scan-tasks": [{"data-file": {"file-path": "x", "file-format": "orc"}}]}, "is orc, which SQL"),
    ],
)
def test_deletes_and_other_formats_are_refused(plan: dict[str, Any], text: str) -> None:
    async def planned(*args: object, **options: object) -> dict[str, Any]:
        return plan

    async def load() -> None:
        runtime = AsyncRuntime()
        locations = Locations(MemoryStore(runtime), "memory://store", SCOPE.root)
        await IcebergRelation("shop.orders", [], {}, 0, locations, runtime, 1 << 20).load(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arco.iceberg._sql.plan_scan", planned)
        with pytest.raises(Refused, match=text):
            asyncio.run(load())

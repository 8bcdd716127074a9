"""Writes: carried out once under one key, answered the same way again, and what became of them can be asked."""

import asyncio
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.core import Unavailable, new_ulid, ulid_to_uuid
from arco.storage import Role
from tests.api.content import fill, materialization
from tests.api.world import World, run_world

COLUMNS = [{"name": "id", "type": "long"}]


def _key(world: World) -> dict[str, str]:
    return {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}


async def _tables(world: World) -> None:
    await world.done("POST", "/namespaces", {"name": "sales"})
    await world.done("POST", "/tables", {"name": "sales.orders", "columns": COLUMNS})
    await world.done("POST", "/tables", {"name": "sales.daily", "columns": COLUMNS})


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/namespaces", {"name": "other"}),
    ("PATCH", "/namespaces/sales", {"description": "new"}),
    ("POST", "/namespaces/sales/rename", {"new_name": "shop"}),
    ("DELETE", "/namespaces/sales?cascade=true", None),
    ("POST", "/tables", {"name": "sales.new", "columns": COLUMNS}),
    ("PATCH", "/tables/sales.orders", {"description": "new", "owners": ["ann"]}),
    ("POST", "/tables/sales.orders/rename", {"new_name": "sales.o2"}),
    ("POST", "/tables/sales.orders/alter", {"changes": [{"action": "add", "name": "x", "type": "int"}]}),
    ("PUT", "/tables/sales.orders/schema", {"columns": [*COLUMNS, {"name": "y", "type": "int"}]}),
    ("PATCH", "/tables/sales.orders/columns/id", {"description": "new"}),
    ("PUT", "/tables/sales.orders/contract", {"description": "new"}),
    ("DELETE", "/tables/sales.orders/contract", None),
    ("PUT", "/tables/sales.orders/sla", {"freshness_seconds": 60}),
    ("DELETE", "/tables/sales.orders/sla", None),
    ("DELETE", "/tables/sales.orders", None),
    ("POST", "/lineage/edges", {"source": "sales.orders", "target": "sales.daily"}),
    ("PUT", "/roles/bob@example.com", {"role": "viewer"}),
    ("PATCH", "/settings", {"values": {"query.max_rows": 5}}),
]


async def _undone(world: World) -> None:
    """Change and drop everything that the writes above are about."""
    for method, path, body in (
        ("PATCH", "/settings", {"values": {"query.max_rows": None, "query.max_seconds": 9}}),
        ("POST", "/namespaces", {"name": "elsewhere"}),
        ("POST", "/namespaces/other/rename", {"new_name": "elsewhere.other"}),
        ("POST", "/tables/sales.orders/rename", {"new_name": "sales.away"}),
        ("PATCH", "/tables/sales.away", {"description": "changed since"}),
        ("DELETE", "/tables/sales.away", None),
        ("DELETE", "/tables/sales.o2", None),
        ("DELETE", "/tables/sales.new", None),
        ("POST", "/namespaces/sales/rename", {"new_name": "elsewhere.sales"}),
        ("POST", "/namespaces/shop/rename", {"new_name": "elsewhere.shop"}),
    ):
        await world.ask(method, path, body)


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=[f"{method} {path}" for method, path, _ in WRITES])
def test_the_same_key_and_request_is_answered_the_same_way_and_carried_out_once(
    method: str, path: str, body: Any
) -> None:
    async def work(world: World) -> tuple[httpx.Response, list[httpx.Response], int]:
        await _tables(world)
        await world.done("PUT", "/tables/sales.orders/contract", {})
        await world.done("PUT", "/tables/sales.orders/sla", {"freshness_seconds": 1})
        headers = _key(world)

        async def ask() -> httpx.Response:
            return await world.http.request(method, f"/api/v1{path}", json=body, headers=headers)

        first = await ask()
        again = [await ask()]
        await _undone(world)
        before = [await opened.current() for opened in world.workspace().logs.values()]
        again.append(await ask())
        after = [await opened.current() for opened in world.workspace().logs.values()]
        return first, again, before == after

    first, again, untouched = run_world(work)
    assert first.is_success, first.text
    assert first.json()["replayed"] is False
    for answer in again:
        assert answer.status_code == first.status_code, answer.text
        assert answer.json() == first.json() | {"replayed": True}
    assert untouched


def test_the_same_key_for_another_request_is_refused_with_both_fingerprints() -> None:
    async def work(world: World) -> list[httpx.Response]:
        headers = _key(world)
        return [
            await world.ask("POST", "/namespaces", {"name": "a"}, headers=headers),
            await world.ask("POST", "/namespaces", {"name": "b"}, headers=headers),
            await world.ask("POST", "/namespaces", {"name": "a", "description": "x"}, headers=headers),
            await world.ask("DELETE", "/namespaces/a", headers=headers),
            await world.ask("GET", "/namespaces/b"),
        ]

    first, *others, missing = run_world(work)
    assert first.status_code == 201
    for answer in others:
        assert answer.status_code == 409
        details = answer.json()["details"]
        assert details["stored"] != details["given"]
        assert len(details["stored"]) == len(details["given"]) == 64
    assert len({answer.json()["details"]["given"] for answer in others}) == 3
    assert missing.status_code == 404


def test_a_keyed_request_that_changes_nothing_is_remembered_too() -> None:
    async def work(world: World) -> list[Any]:
        await world.done("POST", "/namespaces", {"name": "a"})
        headers = _key(world)
        body = {"name": "a", "if_not_exists": True}
        found = [await world.done("POST", "/namespaces", body, headers=headers) for _ in range(2)]
        conflict = await world.ask("POST", "/namespaces", {"name": "b"}, headers=headers)
        operation = await world.done("GET", f"/operations/{found[0]['operation_id']}")
        return [*found, conflict.status_code, operation]

    first, again, conflict, operation = run_world(work)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert first | {"replayed": True} == again
    assert conflict == 409
    assert operation["status"] == "done"


def test_one_key_sent_many_times_at_once_is_carried_out_once() -> None:
    async def work(world: World) -> list[Any]:
        headers = _key(world)
        return await asyncio.gather(
            *(world.done("POST", "/namespaces", {"name": "a"}, headers=headers) for _ in range(20))
        )

    answers = run_world(work)
    assert sum(not answer["replayed"] for answer in answers) == 1
    assert len({(answer["operation_id"], answer["namespace"]["id"]) for answer in answers}) == 1


def test_a_refused_request_leaves_its_key_free() -> None:
    async def work(world: World) -> list[int]:
        headers = _key(world)
        first = await world.ask("POST", "/tables", {"name": "later.t", "columns": COLUMNS}, headers=headers)
        await world.done("POST", "/namespaces", {"name": "later"})
        again = await world.ask("POST", "/tables", {"name": "later.t", "columns": COLUMNS}, headers=headers)
        return [first.status_code, again.status_code]

    assert run_world(work) == [404, 201]


def test_keys_are_ulids_or_uuids_of_version_7_with_a_suffix() -> None:
    async def work(world: World) -> list[bool]:
        runtime = world.host.runtime
        ulid = new_ulid(runtime, runtime)
        head, rest = ulid_to_uuid(ulid)[:14], ulid_to_uuid(ulid)[15:]
        uuid = f"{head}7{rest[:4]}8{rest[5:]}"
        found = []
        for index, key in enumerate((ulid, f"{ulid}:a", uuid, uuid.upper(), f"{uuid}:x.Y_z-1")):
            body = {"name": f"n{index if key != uuid.upper() else 2}"}
            answer = await world.ask("POST", "/namespaces", body, headers={"Idempotency-Key": key})
            assert answer.is_success, answer.text
            found.append(answer.json()["replayed"])
        return found

    assert run_world(work) == [False, False, False, True, False]


@pytest.mark.parametrize(
    "key",
    [
        "x",
        "",
        "0" * 26 + ":",
        "01M7GXS7DJER941K48GRXQYZH6:a b",
        "00000000-0000-4000-8000-000000000000",
        "00000000-0000-7000-8000-000000000000",
        "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "x" * 200,
        "hunter2-secret-token",
    ],
)
def test_a_key_that_is_none_too_old_or_of_the_future_is_refused_and_not_repeated(key: str) -> None:
    async def work(world: World) -> httpx.Response:
        return await world.ask("POST", "/namespaces", {"name": "a"}, headers={"Idempotency-Key": key})

    answer = run_world(work)
    assert answer.status_code in (400, 409)
    assert "hunter2" not in answer.text


# Keys of events


def test_a_batch_of_events_is_recorded_once() -> None:
    async def work(world: World) -> list[Any]:
        content = await fill(world)
        event = materialization(world, content.table_id, content.table, "one-run")
        refused = {"type": "AssetObserved", "data": {}}
        headers = _key(world)
        body = {"events": [event, refused]}
        found = [await world.done("POST", "/events", body, headers=headers) for _ in range(2)]
        outputs = await world.done("GET", "/runs/one-run/outputs")
        return [*found, len(outputs["materializations"])]

    first, again, outputs = run_world(work)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert (first["operation_id"], first["position"]) == (again["operation_id"], again["position"])
    assert [item["status"] for item in again["results"]] == ["recorded", "refused"]
    assert first["results"][0]["position"] == again["results"][0]["position"]
    assert outputs == 1


# Waiting


def test_a_write_is_published_when_it_is_answered_and_durable_at_once_if_asked() -> None:
    async def work(world: World) -> list[bool]:
        found = []
        for wait in ("published", "durable"):
            made = await world.done("POST", "/namespaces", {"name": wait}, wait=wait)
            head = world.workspace().logs["catalog"].compactor.head.manifest.watermark
            found.append(int(head) >= int(made["position"]))
        return found

    assert run_world(work)[0] is True


def test_without_a_publisher_a_write_is_503_with_its_operation_which_then_is_done() -> None:
    async def work(world: World) -> tuple[httpx.Response, Any, Any, Any]:
        headers = _key(world)

        async def never(position: int) -> int:
            raise Unavailable("nobody publishes")

        opened = world.workspace().logs["catalog"]
        kept, opened.published = opened.published, never  # type: ignore[method-assign]
        answer = await world.ask("POST", "/namespaces", {"name": "a"}, headers=headers)
        opened.published = kept  # type: ignore[method-assign]
        operation = await world.done("GET", f"/operations/{answer.json()['operation_id']}")
        there = await world.done("GET", "/namespaces/a")
        again = await world.done("POST", "/namespaces", {"name": "a"}, headers=headers)
        return answer, operation, there, again

    answer, operation, there, again = run_world(work)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["type"] == "urn:arco:problem:outcome-unknown"
    assert answer.json()["details"]["durable"] is True
    assert operation["status"] == "done"
    assert operation["last_position"] == answer.json()["details"]["position"]
    assert there["name"] == "a"
    assert again["replayed"] is True
    assert again["operation_id"] == operation["operation_id"]


# Operations


def test_an_operation_tells_where_it_is_and_who_asked() -> None:
    async def work(world: World) -> list[Any]:
        content = await fill(world)
        asked = (content.operation_id, content.activity_operation_id)
        return [await world.done("GET", f"/operations/{id}") for id in asked]

    catalog, activity = run_world(work)
    assert (catalog["status"], catalog["log"], catalog["command"]) == ("done", "catalog", "CreateTable")
    assert (activity["status"], activity["log"]) == ("done", "activity")
    assert catalog["actor"] == activity["actor"] == "developer"
    assert catalog["published"] is True
    assert int(catalog["first_position"]) <= int(catalog["last_position"])


@pytest.mark.parametrize(("id", "status"), [("x", 400), ("0" * 26, 200), ("0" * 65, 400)])
def test_an_operation_that_is_none_is_refused_or_unknown(id: str, status: int) -> None:
    async def work(world: World) -> httpx.Response:
        return await world.ask("GET", f"/operations/{id}")

    answer = run_world(work)
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["status"] == "unknown"


# Many at once


def test_a_write_succeeds_even_if_what_it_wrote_is_gone_when_it_is_answered() -> None:
    async def work(world: World) -> list[int]:
        await world.done("POST", "/namespaces", {"name": "a"})

        async def make_and_drop(number: int) -> list[int]:
            found = []
            for _ in range(10):
                made = asyncio.ensure_future(
                    world.ask("POST", "/tables", {"name": f"a.t{number}", "columns": COLUMNS}, wait="durable")
                )
                gone = asyncio.ensure_future(
                    world.ask("DELETE", f"/tables/a.t{number}", if_exists="true", wait="durable")
                )
                found += [(await made).status_code, (await gone).status_code]
                await world.ask("DELETE", f"/tables/a.t{number}", if_exists="true", wait="durable")
            return found

        return [status for found in await asyncio.gather(*map(make_and_drop, range(4))) for status in found]

    assert set(run_world(work)) == {200, 201}


def test_an_answer_shows_what_was_created_even_if_its_name_is_somebody_else_s_by_then() -> None:
    async def work(world: World) -> tuple[Any, Any]:
        await world.done("POST", "/namespaces", {"name": "s"})
        log = world.workspace().logs["catalog"]
        held, waiting, publish = asyncio.Event(), asyncio.Event(), log.published

        async def slow(position: int) -> int:
            waiting.set()
            await held.wait()
            return await publish(position)

        vars(log)["published"] = slow
        body = {"name": "s.t", "columns": [{"name": "mine", "type": "int"}]}
        first = asyncio.create_task(world.done("POST", "/tables", body))
        await waiting.wait()
        await world.done("DELETE", "/tables/s.t?wait=durable")
        theirs = {"name": "s.t", "columns": [{"name": "theirs", "type": "int"}]}
        second = await world.done("POST", "/tables?wait=durable", theirs)
        held.set()
        return await first, second

    mine, theirs = run_world(work)
    assert [column["name"] for column in mine["table"]["columns"]] == ["mine"]
    assert mine["table"]["id"] != theirs["table"]["id"]


def test_a_registered_table_has_its_files_however_late_it_is_published() -> None:
    async def work(world: World) -> tuple[int, list[list[Any]]]:
        await fill(world)
        log = world.workspace().logs["catalog"]

        async def never(position: int) -> int:
            raise Unavailable("nobody publishes")

        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [1, 2, 3]}), sink)
        store = world.workspace().handle(Role.WORKER)
        await store.put("data/late/a.parquet", bytes(sink.getvalue()), only_if_absent=True)
        vars(log)["published"] = never
        body = {"name": "sales.late", "location": "data/late"}
        answer = await world.ask("POST", "/tables/register", body)
        del vars(log)["published"]
        rows = await world.done("POST", "/query", {"sql": "SELECT count(*) FROM sales.late"})
        return answer.status_code, rows["rows"]

    assert run_world(work) == (503, [[3]])

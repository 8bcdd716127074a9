"""Reads: which state answers, what the headers say of it, and what need not be sent again."""

from typing import Any

import httpx
import pytest

from arco.core import format_time
from tests.api.content import fill, materialization
from tests.api.world import World, run_world

COLUMNS = [{"name": "id", "type": "long"}]


async def _tables(world: World) -> None:
    await world.done("POST", "/namespaces", {"name": "sales"})
    await world.done("POST", "/tables", {"name": "sales.orders", "columns": COLUMNS})


# ETags


@pytest.mark.parametrize("path", ["/namespaces/sales", "/tables/sales.orders"])
def test_what_the_caller_has_is_not_sent_again(path: str) -> None:
    async def work(world: World) -> list[httpx.Response]:
        await _tables(world)
        first = await world.ask("GET", path)
        tag = first.headers["etag"]
        given = [tag, f"W/{tag}", f'"other", {tag}', "*"]
        return [first, *[await world.ask("GET", path, headers={"If-None-Match": text}) for text in given]]

    first, *again = run_world(work)
    assert first.status_code == 200
    for answer in again:
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer.headers["etag"] == first.headers["etag"]
        assert answer.headers["arco-position"] == first.headers["arco-position"]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/tables/sales.orders", ("PATCH", "/tables/sales.orders", {"description": "new"})),
        ("/tables/sales.orders", ("POST", "/namespaces/sales/rename", {"new_name": "shop"})),
        ("/tables/sales.orders", ("PUT", "/tables/sales.orders/contract", {})),
        ("/tables/sales.orders", ("PATCH", "/tables/sales.orders/columns/id", {"description": "new"})),
        ("/namespaces/sales", ("PATCH", "/namespaces/sales", {"description": "new"})),
    ],
)
def test_a_tag_changes_with_whatever_the_answer_shows(path: str, change: tuple[str, str, Any]) -> None:
    async def work(world: World) -> tuple[str, httpx.Response]:
        await _tables(world)
        tag = (await world.ask("GET", path)).headers["etag"]
        await world.done(*change)
        return tag, await world.ask("GET", path, headers={"If-None-Match": tag})

    tag, answer = run_world(work)
    assert answer.status_code == 200
    assert answer.headers["etag"] != tag


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/tables/sales.orders", {"description": "new"}),
        ("POST", "/tables/sales.orders/rename", {"new_name": "sales.o2"}),
        ("POST", "/tables/sales.orders/alter", {"changes": [{"action": "add", "name": "x", "type": "int"}]}),
        ("PUT", "/tables/sales.orders/schema", {"columns": [{"name": "x", "type": "int"}]}),
        ("PATCH", "/tables/sales.orders/columns/id", {"description": "new"}),
        ("DELETE", "/tables/sales.orders", None),
        ("PATCH", "/namespaces/sales", {"description": "new"}),
        ("POST", "/namespaces/sales/rename", {"new_name": "shop"}),
        ("DELETE", "/namespaces/sales?cascade=true", None),
    ],
)
def test_a_change_of_what_somebody_else_changed_is_refused(method: str, path: str, body: Any) -> None:
    async def work(world: World) -> list[httpx.Response]:
        await _tables(world)
        target = "/namespaces/sales" if "/namespaces" in path else "/tables/sales.orders"
        seen = (await world.ask("GET", target)).headers["etag"]
        await world.done("PATCH", target, {"description": "somebody was here"})
        now = (await world.ask("GET", target)).headers["etag"]
        return [
            await world.http.request(method, f"/api/v1{path}", json=body, headers={"If-Match": tag})
            for tag in (seen, now)
        ]

    stale, fresh = run_world(work)
    assert stale.status_code == 412
    assert stale.json()["type"] == "urn:arco:problem:precondition-failed"
    assert fresh.status_code == 200


@pytest.mark.parametrize("tag", ["7", '"x"', '"7', '"-1"', '"7-XYZ"', '"1","2"', '"' + "9" * 30 + '"', '"\xb2"'])
def test_an_if_match_that_is_no_tag_of_ours_is_refused(tag: str) -> None:
    async def work(world: World) -> int:
        await _tables(world)
        headers: Any = {"If-Match": tag.encode("latin-1")}
        return (await world.http.patch("/api/v1/tables/sales.orders", json={}, headers=headers)).status_code

    assert run_world(work) == 400


@pytest.mark.parametrize("tag", ['"1"', 'W/"1"', '"1-0123abcd"', "*"])
def test_an_if_match_compares_the_version_alone(tag: str) -> None:
    async def work(world: World) -> int:
        await _tables(world)
        body = {"description": "new"}
        return (await world.ask("PATCH", "/tables/sales.orders", body, headers={"If-Match": tag})).status_code

    assert run_world(work) == 200


# Positions


def test_a_position_that_was_written_can_be_waited_for() -> None:
    async def work(world: World) -> tuple[int, int]:
        made = await world.done("POST", "/namespaces", {"name": "a"}, wait="durable")
        answer = await world.ask("GET", "/namespaces/a", consistency="bounded", min_position=made["position"])
        return int(made["position"]), int(answer.headers["arco-position"])

    written, read = run_world(work)
    assert read >= written


@pytest.mark.parametrize("path", ["/namespaces", "/audit", "/runs/x/outputs", "/tables/sales.orders/lineage"])
def test_a_position_that_nobody_wrote_is_not_there_yet(path: str) -> None:
    async def work(world: World) -> httpx.Response:
        await _tables(world)
        return await world.ask("GET", path, min_position="1000:0")

    answer = run_world(work)
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:arco:problem:stale"
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("position", ["x", "-1", "1.5", "1:", ":1", "1:2:3", "9" * 41, "1:99999999", "²"])
def test_a_position_that_is_none_is_refused(position: str) -> None:
    async def work(world: World) -> int:
        return (await world.ask("GET", "/namespaces", min_position=position)).status_code

    assert run_world(work) == 400


def test_a_strong_read_asks_the_store_once_and_a_bounded_one_never() -> None:
    async def work(world: World) -> list[int]:
        await _tables(world)
        counts, found = world.workspace().counts, []
        for consistency in ("strong", "bounded"):
            await world.done("GET", "/tables/sales.orders")
            before = counts.count()
            await world.done("GET", "/tables/sales.orders", consistency=consistency)
            found.append(counts.count() - before)
        return found

    assert run_world(work) == [1, 0]


# The past


async def _history(world: World) -> dict[str, Any]:
    """A table with a name of two lives, and points between them."""
    content = await fill(world)
    before = await world.ask("GET", f"/tables/{content.table}")
    runtime = world.host.runtime
    await runtime.sleep(0.002)
    time = format_time(runtime.now())
    await runtime.sleep(0.002)
    await world.done("POST", f"/tables/{content.table}/rename", {"new_name": "sales.renamed"})
    event = materialization(world, content.table_id, content.table, "later-run")
    recorded = await world.done("POST", "/events", {"events": [event]})
    await runtime.sleep(0.002)
    await world.done("DELETE", "/tables/sales.renamed")
    return {
        "before": before.json(),
        "position": before.headers["arco-position"],
        "time": time,
        "activity": recorded["position"],
        "id": content.table_id,
    }


@pytest.mark.parametrize("way", ["time", "position", "catalog:"])
def test_the_past_is_read_as_it_was(way: str) -> None:
    async def work(world: World) -> tuple[Any, httpx.Response]:
        points = await _history(world)
        as_of = points["time"] if way == "time" else ("catalog:" if way == "catalog:" else "") + points["position"]
        return points, await world.ask("GET", "/tables/sales.orders", as_of=as_of)

    points, answer = run_world(work)
    assert answer.json() == points["before"]
    if way != "time":
        assert answer.headers["arco-position"] == points["position"]


@pytest.mark.parametrize("way", ["run:later-run", "activity:{activity}"])
def test_a_point_of_activity_means_the_catalog_of_that_moment(way: str) -> None:
    async def work(world: World) -> Any:
        points = await _history(world)
        return await world.done("GET", f"/tables/id:{points['id']}", as_of=way.format(**points))

    assert run_world(work)["name"] == "sales.renamed"


def test_before_the_first_write_there_was_nothing() -> None:
    async def work(world: World) -> list[Any]:
        await _history(world)
        listed = await world.done("GET", "/namespaces", as_of="catalog:0")
        gone = await world.ask("GET", "/tables/sales.orders", as_of="2001-01-01T00:00:00Z")
        return [listed["items"], gone.status_code]

    assert run_world(work) == [[], 404]


@pytest.mark.parametrize(
    "as_of",
    [
        "",
        "yesterday",
        "run:",
        "run:" + "x" * 300,
        "catalog:",
        "catalog:x",
        "catalog:1,catalog:2",
        "other:1",
        "catalog:1,other:2",
        "2026-13-01T00:00:00Z",
        "2026-01-01",
        "99999-01-01T00:00:00Z",
        "9" * 200,
        "\x00",
    ],
)
def test_a_point_that_is_none_is_refused(as_of: str) -> None:
    async def work(world: World) -> int:
        return (await world.ask("GET", "/namespaces", as_of=as_of)).status_code

    assert run_world(work) == 400


def test_a_point_and_a_position_together_mean_nothing() -> None:
    async def work(world: World) -> int:
        return (await world.ask("GET", "/namespaces", as_of="catalog:0", min_position="0")).status_code

    assert run_world(work) == 400


def test_a_run_that_wrote_nothing_has_no_state() -> None:
    async def work(world: World) -> list[int]:
        paths = ("/namespaces", "/audit", "/runs/x/outputs")
        return [(await world.ask("GET", path, as_of="run:nobody")).status_code for path in paths]

    assert run_world(work) == [404, 404, 404]


# Pages


def test_pages_show_everything_once_whatever_is_written_meanwhile() -> None:
    async def work(world: World) -> list[str]:
        for name in "acegik":
            await world.done("POST", "/namespaces", {"name": name}, wait="durable")
        found, cursor = [], None
        while True:
            page = await world.done("GET", "/namespaces", limit=2, **({"cursor": cursor} if cursor else {}))
            found += [item["name"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found
            await world.done("POST", "/namespaces", {"name": f"b{len(found)}"}, wait="durable")

    found = run_world(work)
    assert [name for name in found if len(name) == 1] == list("acegik")
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("cursor", ["x", "WyJ4Il0", "'", "é", "A" * 5000, ""])
def test_a_cursor_of_nothing_is_refused(cursor: str) -> None:
    async def work(world: World) -> set[int]:
        await fill(world)
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("/namespaces", {}),
            ("/tables", {"namespace": "sales"}),
            ("/audit", {}),
            ("/revisions", {}),
            ("/tables/sales.orders/checks", {}),
        )
        return {(await world.ask("GET", path, cursor=cursor, **query)).status_code for path, query in asked}

    assert run_world(work) == {400}

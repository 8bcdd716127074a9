"""Namespaces: created, nested, listed, changed, dropped; and what a client is told when that cannot be."""

from typing import Any

import httpx
import pytest

from arco.core import uuid_to_ulid
from tests.api.iceberg.content import VIEW, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import ACME, World, run_world

KEY = "01930b8c-0000-7000-8000-000000000001"


def _answers(work: Any) -> Any:
    return run_world(work)


def test_a_namespace_is_created_loaded_and_found() -> None:
    async def work(world: World) -> None:
        made = await done(world, "POST", "/namespaces", {"namespace": ["sales"], "properties": {"owner": "ann"}})
        assert made == {"namespace": ["sales"], "properties": {"owner": "ann"}}
        assert await done(world, "GET", namespace("sales")) == made
        assert (await ask(world, "HEAD", namespace("sales"))).status_code == 204
        assert (await ask(world, "HEAD", namespace("nothing"))).status_code == 404

    run_world(work)


def test_nested_namespaces_are_listed_level_by_level() -> None:
    async def work(world: World) -> None:
        for path in (["a"], ["a", "b"], ["a", "b", "c"], ["d"]):
            await done(world, "POST", "/namespaces", {"namespace": path})
        assert (await done(world, "GET", "/namespaces"))["namespaces"] == [["a"], ["d"]]
        assert (await done(world, "GET", "/namespaces", parent="a"))["namespaces"] == [["a", "b"]]
        assert (await done(world, "GET", "/namespaces", parent="a\x1fb"))["namespaces"] == [["a", "b", "c"]]
        assert (await done(world, "GET", namespace("a", "b", "c")))["namespace"] == ["a", "b", "c"]
        missing = await ask(world, "GET", "/namespaces", parent="x")
        assert error_of(missing) == (404, "NoSuchNamespaceException", "Namespace does not exist: x")

    run_world(work)


def test_a_namespace_below_nothing_and_one_that_exists_are_refused() -> None:
    async def work(world: World) -> tuple[httpx.Response, httpx.Response]:
        await done(world, "POST", "/namespaces", {"namespace": ["a"]})
        again = await ask(world, "POST", "/namespaces", {"namespace": ["a"]})
        return again, await ask(world, "POST", "/namespaces", {"namespace": ["x", "y"]})

    again, below = run_world(work)
    assert error_of(again) == (409, "AlreadyExistsException", "Namespace already exists: a")
    assert error_of(below)[:2] == (404, "NoSuchNamespaceException")
    assert error_of(below)[2].startswith("Namespace does not exist: x")


def test_a_namespace_that_holds_something_is_not_dropped() -> None:
    async def work(world: World) -> httpx.Response:
        await done(world, "POST", "/namespaces", {"namespace": ["a"]})
        await done(world, "POST", "/namespaces", {"namespace": ["a", "b"]})
        refused = await ask(world, "DELETE", namespace("a"))
        assert (await ask(world, "DELETE", namespace("a", "b"))).status_code == 204
        assert (await ask(world, "DELETE", namespace("a"))).status_code == 204
        assert error_of(await ask(world, "DELETE", namespace("a"))) == (
            404,
            "NoSuchNamespaceException",
            "Namespace does not exist: a",
        )
        return refused

    status, name, message = error_of(run_world(work))
    assert (status, name) == (409, "NamespaceNotEmptyException")
    assert message.startswith("Namespace a is not empty")


def test_properties_are_set_and_removed() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["a"], "properties": {"x": "1", "y": "2"}})
        answer = await done(
            world, "POST", namespace("a") + "/properties", {"removals": ["x", "z"], "updates": {"y": "3", "w": "4"}}
        )
        assert answer == {"updated": ["y", "w"], "removed": ["x"], "missing": ["z"]}
        assert (await done(world, "GET", namespace("a")))["properties"] == {"y": "3", "w": "4"}
        both = await ask(world, "POST", namespace("a") + "/properties", {"removals": ["y"], "updates": {"y": "3"}})
        assert error_of(both)[:2] == (422, "UnprocessableEntityException")
        nowhere = await ask(world, "POST", namespace("b") + "/properties", {"removals": ["y"]})
        assert error_of(nowhere) == (404, "NoSuchNamespaceException", "Namespace does not exist: b")

    run_world(work)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"namespace": "a"},
        {"namespace": []},
        {"namespace": [1]},
        {"namespace": ["a"], "properties": {"x": 1}},
    ],
)
def test_a_body_that_is_no_namespace_is_refused(body: Any) -> None:
    answer = run_world(lambda world: ask(world, "POST", "/namespaces", body))
    assert error_of(answer)[:2] == (400, "BadRequestException")


def test_lists_are_paged_when_a_page_is_asked_for() -> None:
    async def work(world: World) -> None:
        for index in range(5):
            await done(world, "POST", "/namespaces", {"namespace": [f"n{index}"]})
        everything = await done(world, "GET", "/namespaces", pageSize="2")
        assert len(everything["namespaces"]) == 5
        assert everything["next-page-token"] is None
        found, token, pages = [], "", 0
        while token is not None:
            page = await done(world, "GET", "/namespaces", pageToken=token, pageSize="2")
            found += page["namespaces"]
            token, pages = page["next-page-token"], pages + 1
        assert found == everything["namespaces"]
        assert pages == 3
        for wrong in ({"pageToken": "nonsense"}, {"pageToken": "", "pageSize": "0"}, {"pageSize": "x"}):
            assert error_of(await ask(world, "GET", "/namespaces", **wrong))[:2] == (400, "BadRequestException")

    run_world(work)


def test_a_list_shows_what_was_made_since() -> None:
    async def work(world: World) -> None:
        assert (await done(world, "GET", "/namespaces"))["namespaces"] == []
        await done(world, "POST", "/namespaces", {"namespace": ["a"]})
        assert (await done(world, "GET", "/namespaces"))["namespaces"] == [["a"]]
        assert (await done(world, "GET", "/namespaces"))["namespaces"] == [["a"]]

    run_world(work)


def test_what_is_created_in_a_namespace_lies_at_its_location() -> None:
    async def work(world: World) -> None:
        own = world.host.warehouse_of(ACME).locations.url
        await done(world, "POST", "/namespaces", {"namespace": ["a"], "properties": {"location": f"{own}/a/"}})
        await done(world, "POST", "/namespaces", {"namespace": ["a", "b"]})
        await done(world, "POST", "/namespaces", {"namespace": ["c"]})
        properties = f"{namespace('a', 'b')}/properties"

        async def place(levels: tuple[str, ...], name: str, **more: Any) -> str:
            made = await done(world, "POST", f"{namespace(*levels)}/tables", table(name, **more))
            uuid, location = made["metadata"]["table-uuid"], str(made["metadata"]["location"])
            if not more:
                assert location.endswith(f"/{uuid_to_ulid(uuid).lower()}")
                assert (
                    made["metadata-location"].startswith(f"{location}/metadata/") or made["metadata-location"] is None
                )
            return location.rpartition("/")[0]

        assert await place(("a",), "t") == f"{own}/a"
        assert await place(("a", "b"), "t") == f"{own}/a"
        assert await place(("c",), "t") == own
        assert await place(("a",), "u", location=f"{own}/else/where") == f"{own}/else"
        await done(world, "POST", properties, {"updates": {"location": f"{own}/b"}})
        assert await place(("a", "b"), "u") == f"{own}/b"
        view = await done(world, "POST", f"{namespace('a', 'b')}/views", VIEW)
        assert view["metadata"]["location"].startswith(f"{own}/b/")
        staged = await done(world, "POST", f"{namespace('a', 'b')}/tables", table("w", stage=True))
        assert staged["metadata"]["location"].startswith(f"{own}/b/")
        await done(world, "POST", properties, {"removals": ["location"]})
        assert await place(("a", "b"), "x") == f"{own}/a"
        assert (await done(world, "GET", namespace("a")))["properties"] == {"location": f"{own}/a/"}

    run_world(work)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"location": "s3://elsewhere/x"}, "outside of the warehouse"),
        ({"location": "memory://store/acme/prod"}, "outside of the warehouse"),
        ({"location": ""}, "is not a URL"),
        ({"location": "a/b"}, "is not a URL"),
        ({"arco.owner": "eve"}, "properties that begin with arco."),
        ({" Arco.owner": "eve"}, "properties that begin with arco."),
    ],
)
def test_properties_that_cannot_be_are_refused(properties: dict[str, str], text: str) -> None:
    async def work(world: World) -> None:
        refused = await ask(world, "POST", "/namespaces", {"namespace": ["a"], "properties": properties})
        assert error_of(refused)[:2] == (400, "BadRequestException")
        assert text in error_of(refused)[2]
        await done(world, "POST", "/namespaces", {"namespace": ["a"], "properties": {"any": "thing"}})
        where = f"{namespace('a')}/properties"
        assert text in error_of(await ask(world, "POST", where, {"updates": properties}))[2]
        if "location" not in properties:
            assert text in error_of(await ask(world, "POST", where, {"removals": list(properties)}))[2]
        assert (await done(world, "GET", namespace("a")))["properties"] == {"any": "thing"}

    run_world(work)


def test_a_location_that_is_not_allowed_any_more_is_the_operators_business() -> None:
    async def work(world: World) -> None:
        await world.done("POST", "/namespaces", {"name": "a", "properties": {"location": "s3://old/a"}})
        status, name, message = error_of(await ask(world, "POST", f"{namespace('a')}/tables", table("t")))
        assert (status, name) == (403, "ForbiddenException")
        assert "s3://old/a" in message
        assert "--allowed-location" in message

    run_world(work)

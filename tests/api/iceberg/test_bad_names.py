"""Names that would escape, widen, deceive or never end: refused where they would be created, unknown where they are
read; nothing is written and nothing is answered with a fault."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.iceberg.content import VIEW, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.test_bad_input import BAD_NAMES
from tests.api.world import World, run_world

NAMES = {name: text for name, text in BAD_NAMES.items() if "." not in text and text and '"' not in text} | {
    "a double quote": 'a"b',
    "dots": "..",
    "one dot": ".",
    "a wildcard": "*",
    "a separator": "a\x1fb",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_bad_name_is_not_given_to_anything(name: str) -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        await done(world, "POST", namespace("ns") + "/tables", table())
        before = await world.workspace().logs["catalog"].current()
        renamed: dict[str, Any] = {"source": {"namespace": ["ns"], "name": "t"}}
        asks: list[tuple[str, Any]] = [
            ("/namespaces", {"namespace": [name]}),
            ("/namespaces", {"namespace": ["ns", name]}),
            (namespace("ns") + "/tables", table(name)),
            (namespace("ns") + "/tables", table(name, stage=True)),
            (namespace("ns") + "/views", {**VIEW, "name": name}),
            (namespace("ns") + "/register", {"name": name, "metadata-location": "memory://store/x"}),
            ("/tables/rename", renamed | {"destination": {"namespace": ["ns"], "name": name}}),
            ("/tables/rename", renamed | {"destination": {"namespace": [name], "name": "t"}}),
        ]
        for path, body in asks:
            answer = await ask(world, "POST", path, body)
            assert answer.status_code in (400, 404), (path, answer.text)
            error_of(answer)
            assert len(answer.content) < 4_000
        assert await world.workspace().logs["catalog"].current() == before

    run_world(work)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_bad_name_is_not_found(name: str) -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        text = quote(name, safe="").replace(".", "%2E")
        for method, path in (
            ("GET", f"/namespaces/{text}"),
            ("HEAD", f"/namespaces/{text}"),
            ("DELETE", f"/namespaces/{text}"),
            ("GET", f"/namespaces/{text}/tables"),
            ("GET", f"/namespaces/ns/tables/{text}"),
            ("HEAD", f"/namespaces/ns/tables/{text}"),
            ("DELETE", f"/namespaces/ns/tables/{text}"),
            ("GET", f"/namespaces/{text}/tables/t"),
            ("GET", f"/namespaces/ns/views/{text}"),
            ("HEAD", f"/namespaces/ns/views/{text}"),
            ("DELETE", f"/namespaces/ns/views/{text}"),
        ):
            answer = await ask(world, method, path)
            assert answer.status_code == 404, (method, path, answer.status_code, answer.text)
            if method != "HEAD":
                error_of(answer)

    run_world(work)


def test_a_thousand_levels_are_refused() -> None:
    async def work(world: World) -> None:
        levels = ["a"] * 1000
        assert error_of(await ask(world, "POST", "/namespaces", {"namespace": levels}))[0] == 400
        for path in (namespace(*levels), namespace(*levels) + "/tables", namespace(*levels) + "/tables/t"):
            answer = await ask(world, "GET", path)
            assert error_of(answer)[0] == 404
            assert len(answer.content) < 2_000
        answer = await ask(world, "GET", "/namespaces", parent="\x1f".join(levels))
        assert error_of(answer)[:2] == (404, "NoSuchNamespaceException")

    run_world(work)


def test_strange_but_good_names_work() -> None:
    async def work(world: World) -> None:
        for name in ("größe", "a b", "a+b", "a.b", "表", "a:b", "%20", "a&b=c"):
            await done(world, "POST", "/namespaces", {"namespace": [name]})
            await done(world, "POST", namespace(name) + "/tables", table(name))
            found = await done(world, "GET", f"{namespace(name)}/tables/{quote(name, safe='')}")
            assert found["metadata"]["location"].isascii()
            listed = await done(world, "GET", namespace(name) + "/tables")
            assert listed["identifiers"] == [{"namespace": [name], "name": name}]

    run_world(work)

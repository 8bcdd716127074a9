"""Bad input: names that would escape, deceive or never end, types nobody knows, renames in circles, drops of what is
in use. Every one is refused with a reason, and nothing is written."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.world import World, run_world

COLUMNS = [{"name": "id", "type": "long"}]

BAD_NAMES = {
    "nothing": "",
    "a slash": "a/b",
    "a backslash": "a\\b",
    "a star": "a*",
    "a question mark": "a?",
    "a single quote": "a'b",
    "a backtick": "a`b",
    "NUL": "a\x00b",
    "a line end": "a\nb",
    "a tab": "a\tb",
    "delete": "a\x7f",
    "a C1 control": "a\x85b",
    "a right-to-left override": "a\u202eb",
    "a zero width space": "a\u200bb",
    "a zero width joiner": "a\u200db",
    "a soft hyphen": "a\u00adb",
    "a line separator": "a\u2028b",
    "a byte order mark": "\ufeffa",
    "a tag character": "a\U000e0041",
    "a space before": " a",
    "a space after": "a ",
    "a no-break space after": "a\u00a0",
    "10,000 characters": "a" * 10_000,
    "256 characters": "a" * 256,
    "only dots in quotes": '"..."',
    "a dot at the end": "a.",
    "a dot at the beginning": ".a",
    "two dots": "a..b",
    "an open quote": '"a',
    "a quote inside": 'a"b',
    "text after a quote": '"a"b',
    "an empty quote": '""',
    "a Cyrillic letter among Latin ones": "p\u0430ypal",
    "a Greek letter among Latin ones": "\u03bfrders",
    "an Armenian letter among Latin ones": "\u0585rders",
    "fullwidth letters": "\uff4f\uff52\uff44",
    "mathematical letters": "\U0001d428\U0001d42b\U0001d41d",
    "not normalised": "cafe\u0301",
    "seventeen levels": ".".join("abcdefghijklmnopq"),
}


async def _base(world: World) -> None:
    await world.done("POST", "/namespaces", {"name": "ns"})
    await world.done("POST", "/tables", {"name": "ns.t", "columns": COLUMNS})


async def _position(world: World) -> int:
    return await world.workspace().logs["catalog"].current()


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_bad_name_is_refused_wherever_one_is_given(name: str) -> None:
    async def work(world: World) -> list[tuple[str, httpx.Response]]:
        await _base(world)
        before = await _position(world)
        asks: list[tuple[str, str, Any]] = [
            ("POST", "/namespaces", {"name": name}),
            ("POST", "/namespaces/ns/rename", {"new_name": name}),
            ("POST", "/tables/ns.t/rename", {"new_name": f"ns.{name}"}),
            ("POST", "/tables", {"name": f"ns.{name}", "columns": COLUMNS}),
        ]
        if not name.startswith(('"', ".")) and "." not in name:
            columns = [{"name": name, "type": "long"}]
            alter = {"changes": [{"action": "alter", "column": "id", "new_name": name}]}
            asks += [
                ("POST", "/tables", {"name": "ns.new", "columns": columns}),
                ("POST", "/tables/ns.t/alter", alter),
                ("PUT", "/tables/ns.t/schema", {"columns": columns}),
            ]
        answers = [(path, await world.ask(method, path, body)) for method, path, body in asks]
        assert await _position(world) == before
        return answers

    for path, answer in run_world(work):
        assert answer.status_code in (400, 413), (path, answer.text)
        assert len(answer.text) < 2000
        assert "\\u202e" not in answer.text.lower() or "U+202E" in answer.text


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_bad_name_in_a_path_is_refused_or_unknown(name: str) -> None:
    async def work(world: World) -> set[int]:
        await _base(world)
        encoded = quote(name, safe="")
        asks = [
            ("GET", f"/namespaces/{encoded}"),
            ("GET", f"/tables/ns.{encoded}"),
            ("DELETE", f"/tables/ns.{encoded}"),
            ("GET", f"/tables/ns.{encoded}/lineage"),
            ("PATCH", f"/tables/ns.t/columns/{encoded}"),
        ]
        return {(await world.ask(method, path, {} if method == "PATCH" else None)).status_code for method, path in asks}

    assert run_world(work) <= {400, 404, 405, 413}


def test_names_that_only_look_strange_are_taken() -> None:
    names = ["größe", "таблица", "表", "a b", "a-b", "a_b", "A", "naïve", "été", "🙂", "a:b", "a@b", "id", "%20"]

    async def work(world: World) -> list[str]:
        found = []
        for name in names:
            await world.done("POST", "/namespaces", {"name": name}, wait="durable")
            read = await world.done("GET", f"/namespaces/{quote(name, safe='')}")
            found.append(read["name"])
        return found

    assert run_world(work) == names


@pytest.mark.parametrize(
    "type",
    [
        "",
        "text!",
        "varchar(10)",
        "int8",
        "decimal",
        "decimal(0,0)",
        "decimal(99,2)",
        "decimal(5,9)",
        "decimal(1e9,1)",
        "decimal(" + "9" * 5000 + ",1)",
        "list",
        "list<>",
        "list<list<int>",
        "map<int>",
        "struct<>",
        "struct<a>",
        "struct<a:int,a:int>",
        "list<" * 500 + "int" + ">" * 500,
        "fixed(-1)",
        "fixed(" + "9" * 5000 + ")",
        "long\x00",
        "l" * 20_000,
        "SELECT 1",
        "interval",
    ],
)
def test_an_unknown_type_is_refused_wherever_one_is_given(type: str) -> None:
    async def work(world: World) -> set[int]:
        await _base(world)
        before = await _position(world)
        column = {"name": "c", "type": type}
        asks: list[tuple[str, str, Any]] = [
            ("POST", "/tables", {"name": "ns.new", "columns": [column]}),
            ("POST", "/tables/ns.t/alter", {"changes": [{"action": "add", **column}]}),
            ("POST", "/tables/ns.t/alter", {"changes": [{"action": "alter", "column": "id", "type": type}]}),
            ("PUT", "/tables/ns.t/schema", {"columns": [column]}),
        ]
        found = {(await world.ask(method, path, body)).status_code for method, path, body in asks}
        assert await _position(world) == before
        return found

    assert run_world(work) <= {400, 413}


# Circles


def test_a_namespace_cannot_be_moved_into_itself() -> None:
    async def work(world: World) -> list[int]:
        for name in ("a", "a.b", "a.b.c"):
            await world.done("POST", "/namespaces", {"name": name})
        moves = [("a", "a.a"), ("a", "a.b.x"), ("a.b", "a.b.c.b"), ("a", "a.b.c.a")]
        found = []
        for name, to in moves:
            answer = await world.ask("POST", f"/namespaces/{name}/rename", {"new_name": to})
            found.append(answer.status_code)
        assert (await world.done("GET", "/namespaces/a.b.c"))["name"] == "a.b.c"
        return found

    assert all(status in (400, 409) for status in run_world(work))


def test_names_that_are_exchanged_mean_what_they_are_now() -> None:
    async def work(world: World) -> list[str]:
        await world.done("POST", "/namespaces", {"name": "n"})
        ids = {}
        for name in ("a", "b"):
            made = await world.done("POST", "/tables", {"name": f"n.{name}", "columns": COLUMNS})
            ids[made["table"]["id"]] = name
        for name, to in (("n.a", "n.tmp"), ("n.b", "n.a"), ("n.tmp", "n.b")):
            await world.done("POST", f"/tables/{name}/rename", {"new_name": to})
        return [ids[(await world.done("GET", f"/tables/n.{name}"))["id"]] for name in ("a", "b", "tmp")]

    assert run_world(work) == ["b", "a", "a"]


def test_columns_that_exchange_their_names_in_one_step_do_so_or_nothing_happens() -> None:
    async def work(world: World) -> tuple[int, list[Any], list[Any]]:
        await world.done("POST", "/namespaces", {"name": "n"})
        columns = [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]
        await world.done("POST", "/tables", {"name": "n.t", "columns": columns})
        before = (await world.done("GET", "/tables/n.t"))["columns"]
        changes = [
            {"action": "alter", "column": "a", "new_name": "b"},
            {"action": "alter", "column": "b", "new_name": "a"},
        ]
        answer = await world.ask("POST", "/tables/n.t/alter", {"changes": changes})
        return answer.status_code, before, (await world.done("GET", "/tables/n.t"))["columns"]

    status, before, after = run_world(work)
    if status == 200:
        assert [(column["id"], column["name"]) for column in after] == [
            (before[0]["id"], "b"),
            (before[1]["id"], "a"),
        ]
    else:
        assert status in (400, 409)
        assert after == before


def test_an_edge_from_a_table_to_itself_and_edges_in_a_circle_are_walked_once() -> None:
    async def work(world: World) -> list[Any]:
        await world.done("POST", "/namespaces", {"name": "n"})
        for name in "abc":
            await world.done("POST", "/tables", {"name": f"n.{name}", "columns": COLUMNS})
        for source, target in ("ab", "bc", "ca"):
            await world.done("POST", "/lineage/edges", {"source": f"n.{source}", "target": f"n.{target}"})
        own = await world.ask("POST", "/lineage/edges", {"source": "n.a", "target": "n.a"})
        graph = await world.done("GET", "/tables/n.a/lineage")
        return [own.status_code, sorted(node["name"] for node in graph["nodes"]), len(graph["edges"])]

    own, names, edges = run_world(work)
    assert own in (201, 400, 409)
    assert set(names) | {"n.a"} == {"n.a", "n.b", "n.c"}
    assert len(names) == len(set(names))
    assert edges in (3, 4)


# In use


def test_what_is_in_use_or_gone_cannot_be_dropped() -> None:
    async def work(world: World) -> list[int]:
        await _base(world)
        return [
            (await world.ask("DELETE", "/namespaces/ns")).status_code,
            (await world.ask("DELETE", "/tables/ns.none")).status_code,
            (await world.ask("DELETE", "/tables/ns.none", if_exists="true")).status_code,
            (
                await world.ask("POST", "/tables/ns.t/alter", {"changes": [{"action": "drop", "column": "none"}]})
            ).status_code,
            (await world.ask("DELETE", "/tables/ns.t/contract")).status_code,
            (await world.ask("DELETE", "/tables/ns.t/sla")).status_code,
            (await world.ask("DELETE", "/lineage/edges/none")).status_code,
        ]

    found = run_world(work)
    assert found[0] == 409
    assert found[2] == 200
    assert all(status in (404, 400, 409) for status in found[:2] + found[3:])


@pytest.mark.parametrize(
    "body",
    [
        {"name": "ns.new", "columns": [{"name": "a", "type": "long"}, {"name": "A", "type": "long"}]},
        {"name": "ns.new", "columns": [{"name": f"c{n}", "type": "int"} for n in range(10_001)]},
        {"name": "ns.new", "format": "ORC"},
        {"name": "ns.new", "format": "parquet"},
        {"name": "ns.new", "tags": {"": "x"}},
        {"name": "ns.new", "tags": {"a": "x" * 10_000}},
        {"name": "ns.new", "tags": {f"t{n}": "" for n in range(501)}},
        {"name": "ns.new", "owners": [""]},
        {"name": "ns.new", "owners": [f"o{n}" for n in range(101)]},
        {"name": "ns.new", "description": "x" * 10_001},
        {"name": "ns.new", "description": "a\x00b"},
        {"name": "ns.new", "properties": {"a": None}},
        {"name": "ns.new", "side": "both"},
        {"name": "ns.new", "columns": [{"name": "a", "type": "long", "pii_type": "UNKNOWN"}]},
        {"name": "ns.new", "columns": [{"name": "a", "type": "long", "sensitivity": "SECRET"}]},
        {"name": "ns.new", "columns": [{"name": "a", "type": "long", "nullable": "yes"}]},
        {"name": "new"},
        {"name": ["ns", "new"]},
        {},
    ],
)
def test_a_table_that_cannot_be_is_refused_and_nothing_is_written(body: dict[str, Any]) -> None:
    async def work(world: World) -> int:
        await _base(world)
        before = await _position(world)
        answer = await world.ask("POST", "/tables", body)
        assert await _position(world) == before
        return answer.status_code

    assert run_world(work) in (400, 409, 413)

"""What a client sends and understands, beyond retries: errors, positions, paths, bodies, pages, secrets."""

import json
import traceback
from typing import Any

import httpx
import pytest

import arco.core
from arco.client import AsyncClient, Client, is_loopback, kind_of
from arco.core import ArcoError, Invalid, NotFound, PreconditionFailed
from arco.wire import (
    ColumnAdd,
    ColumnAlter,
    ColumnChange,
    ColumnUpdate,
    EdgeAdd,
    NamespaceCreate,
    NamespaceUpdate,
    TableAlter,
    TableUpdate,
)
from tests.client import unasync
from tests.client.conftest import NAMESPACE, TOKEN, WRITTEN, Script, ok, problem

ERRORS = [
    found
    for name in arco.core.__all__
    if isinstance(found := getattr(arco.core, name), type) and issubclass(found, ArcoError)
]


def test_the_client_that_blocks_is_what_the_script_makes_of_the_other() -> None:
    assert list(unasync.stale()) == [], "run `python -m tests.client.unasync --write`"


# Errors


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_each_problem_is_raised_as_the_error_it_stands_for(server: Script, error: type[ArcoError]) -> None:
    more: dict[str, Any] = {
        "details": {"path": "a.b", "message": "x", "self": 1},
        "operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    }
    items = [{"where": "query.limit", "message": "too much"}]
    server.answers(problem(418, kind_of(error), "it is so", errors=items, **more))
    with pytest.raises(error) as raised:
        server.ask(lambda client: client.get_namespace("sales"))
    assert type(raised.value) is error
    assert raised.value.message == "it is so"
    assert raised.value.details == {
        "path": "a.b",
        "hint": "h",
        "request_id": "r1",
        "operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "errors": items,
    }


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "Invalid"),
        (401, "Unauthenticated"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "Conflict"),
        (412, "PreconditionFailed"),
        (413, "TooLarge"),
        (418, "Invalid"),
        (500, "ArcoError"),
    ],
)
def test_a_problem_of_a_later_version_and_no_problem_at_all_are_told_by_the_status(
    server: Script, status: int, name: str
) -> None:
    for answer in (problem(status, "of-the-future"), httpx.Response(status, text="<html>"), httpx.Response(status)):
        server.answers(answer)
        with pytest.raises(ArcoError) as raised:
            server.ask(lambda client: client.get_namespace("sales"))
        assert raised.value.name == name


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"<html>", b"\xff", b"[1]"])
def test_an_answer_that_is_none_is_refused_with_the_address(server: Script, body: bytes) -> None:
    server.answers(httpx.Response(200, content=body))
    with pytest.raises(Invalid, match=r"http://arco\.test answers, but not with NamespaceInfo"):
        server.ask(lambda client: client.get_namespace("sales"))


def test_fields_of_later_servers_are_ignored(server: Script) -> None:
    server.answers(ok({**NAMESPACE, "colour": "red"}))
    assert server.ask(lambda client: client.get_namespace("sales")).name == "sales"


# Secrets and addresses


def test_the_token_is_sent_and_shown_nowhere(server: Script) -> None:
    server.answers(httpx.ReadError(f"no way with {TOKEN[:5]}"))
    with pytest.raises(ArcoError) as raised:
        server.ask(lambda client: client.create_namespace(NamespaceCreate(name="sales")))
    assert server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + repr(raised.value.details)
    assert "hunter2" not in shown + repr(server.client) + str(server.client)


def test_without_a_token_nothing_claims_an_identity(server: Script) -> None:
    server.answers(ok(NAMESPACE), token=None)
    server.ask(lambda client: client.get_namespace("sales"))
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize("token", ["", "hunter2\n", "hunter2 x", "hunter2é", "\x00hunter2"])
@pytest.mark.parametrize("kind", [AsyncClient, Client])
def test_a_token_no_header_can_carry_is_refused_without_showing_it(kind: Any, token: str) -> None:
    with pytest.raises(Invalid, match="not an API key") as raised:
        kind("http://arco.test", token)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["", "arco.test", "ftp://arco.test", "http://", "http://me:hunter2@x", "http://x?k=hunter2", "http://x#y"]
)
@pytest.mark.parametrize("kind", [AsyncClient, Client])
def test_an_address_that_is_none_is_refused_without_showing_it(kind: Any, url: str) -> None:
    with pytest.raises(Invalid, match="not the address of a server") as raised:
        kind(url)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8020", True),
        ("http://127.1.2.3", True),
        ("https://[::1]:8020/x", True),
        ("http://localhost:8020", True),
        ("http://127.0.0.1.evil.test", False),
        ("http://127.evil.test", False),
        ("http://localhost.evil.test", False),
        ("http://0.0.0.0:8020", False),
        ("http://10.0.0.1", False),
        ("http://evil.test/127.0.0.1", False),
        ("http://127.0.0.1@evil.test", False),
        ("http://", False),
    ],
)
def test_only_what_no_name_server_decides_is_on_this_machine(url: str, here: bool) -> None:
    assert is_loopback(url) is here


# What is sent


def test_a_server_below_a_path_is_asked_there(server: Script) -> None:
    server.answers(ok(NAMESPACE), url="http://arco.test/tools/arco/")
    server.ask(lambda client: client.get_namespace("a/b"))
    assert server.requests[0].url.raw_path == b"/tools/arco/api/v1/namespaces/a%2Fb"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("sales.orders", b"/api/v1/tables/sales.orders"),
        ('"a.b".orders', b"/api/v1/tables/%22a.b%22.orders"),
        ("id:01ARZ3NDEKTSV4RRFFQ69G5FAV", b"/api/v1/tables/id%3A01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("a/b", b"/api/v1/tables/a%2Fb"),
        ("a?b#c", b"/api/v1/tables/a%3Fb%23c"),
        ("a%2Fb", b"/api/v1/tables/a%252Fb"),
        ("日本", b"/api/v1/tables/%E6%97%A5%E6%9C%AC"),
    ],
)
def test_a_name_is_one_segment_of_the_path_whatever_it_holds(server: Script, name: str, path: bytes) -> None:
    server.answers(problem(404, "not-found"))
    with pytest.raises(NotFound):
        server.ask(lambda client: client.get_table(name))
    assert server.requests[0].url.raw_path == path


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_be_another_path_is_not_sent(server: Script, name: str) -> None:
    server.answers(ok(NAMESPACE))
    with pytest.raises(Invalid, match="is no namespace"):
        server.ask(lambda client: client.drop_namespace(name))
    with pytest.raises(Invalid, match="is no column"):
        server.ask(lambda client: client.describe_column("sales.orders", name, ColumnUpdate()))
    assert server.requests == []


def sent(server: Script) -> Any:
    return json.loads(server.requests[-1].content)


def test_a_patch_has_what_was_given_and_nothing_else(server: Script) -> None:
    server.answers(ok({**WRITTEN, "namespace": NAMESPACE}))
    server.ask(lambda client: client.update_namespace("sales", NamespaceUpdate(description=None)))
    assert sent(server) == {"description": None}
    server.ask(lambda client: client.update_namespace("sales", NamespaceUpdate(set_properties={"a": "b"})))
    assert sent(server) == {"set_properties": {"a": "b"}}
    server.answers(problem(404, "not-found"))
    with pytest.raises(NotFound):
        server.ask(lambda client: client.update_table("t", TableUpdate(owners=[])))
    assert sent(server) == {"owners": []}


def test_a_post_has_what_tells_its_kind(server: Script) -> None:
    server.answers(problem(404, "not-found"))
    changes: list[ColumnChange] = [ColumnAdd(name="a", type="int"), ColumnAlter(column="b", nullable=True)]
    with pytest.raises(NotFound):
        server.ask(lambda client: client.alter_table("t", TableAlter(changes=changes)))
    assert [change["action"] for change in sent(server)["changes"]] == ["add", "alter"]


def test_a_version_that_must_still_hold_is_sent_as_an_etag(server: Script) -> None:
    server.answers(problem(412, "precondition-failed"))
    with pytest.raises(PreconditionFailed):
        server.ask(lambda client: client.drop_table("t", if_match=7, if_exists=True, wait="durable"))
    request = server.requests[0]
    assert request.headers["If-Match"] == '"7"'
    assert dict(request.url.params) == {"if_exists": "true", "wait": "durable"}


# Positions


def test_a_bounded_read_is_not_older_than_what_was_seen(server: Script) -> None:
    server.answers(
        ok({**WRITTEN, "namespace": NAMESPACE}),
        ok(NAMESPACE, Arco_Position="4194304"),
        ok(NAMESPACE, Arco_Position="1048576"),
        ok(NAMESPACE),
    )
    server.ask(lambda client: client.create_namespace(NamespaceCreate(name="sales")))
    for _ in range(3):
        server.ask(lambda client: client.get_namespace("sales", consistency="bounded"))
    wanted = [request.url.params.get("min_position") for request in server.requests]
    assert wanted == [None, "3145728", "4194304", "4194304"]
    assert server.client.positions == {"catalog": "4194304"}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, None),
        ({"consistency": "strong"}, None),
        ({"consistency": "bounded", "as_of": "2026-01-01T00:00:00Z"}, None),
        ({"consistency": "bounded", "min_position": "7"}, "7"),
        ({"min_position": "8"}, "8"),
    ],
)
def test_no_other_read_is_told_a_position_it_was_not_given(
    server: Script, options: dict[str, Any], wanted: str | None
) -> None:
    server.answers(ok(NAMESPACE, Arco_Position="4194304"))
    server.ask(lambda client: client.get_namespace("sales"))
    server.ask(lambda client: client.get_namespace("sales", **options))
    assert server.requests[-1].url.params.get("min_position") == wanted


def test_each_log_has_positions_of_its_own(server: Script) -> None:
    server.answers(ok({**WRITTEN, "edge_id": "e"}), ok(NAMESPACE))
    server.ask(lambda client: client.add_lineage_edge(EdgeAdd(source="a.b", target="a.c")))
    assert server.client.positions == {"activity": "3145728"}
    server.ask(lambda client: client.get_namespace("sales", consistency="bounded"))
    assert "min_position" not in server.requests[-1].url.params


# Pages


def test_a_list_is_read_to_its_end_page_by_page(server: Script) -> None:
    def page(number: int, more: str | None) -> Any:
        return ok({"items": [{**NAMESPACE, "name": f"n{number}"}], "next_cursor": more, "position": "1"})

    server.answers(page(1, "c1"), page(2, "c2"), page(3, None))
    names = [found.name for found in server.ask(lambda client: client.list_namespaces("a", limit=1, as_of="7"))]
    assert names == ["n1", "n2", "n3"]
    asked = [dict(request.url.params) for request in server.requests]
    assert [found.get("cursor") for found in asked] == [None, "c1", "c2"]
    assert all(found.items() >= {"parent": "a", "limit": "1", "as_of": "7"}.items() for found in asked)


def test_one_page_can_be_asked_for(server: Script) -> None:
    server.answers(ok({"items": [NAMESPACE], "next_cursor": "c1", "position": "1"}))
    page = server.ask(lambda client: client.list_namespaces().page("c0"))
    assert (page.next_cursor, len(page.items)) == ("c1", 1)
    assert server.requests[0].url.params["cursor"] == "c0"

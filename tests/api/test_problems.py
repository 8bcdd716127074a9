"""Problems: every error has a status and a type that stays, names the request, and tells nothing it should not."""

import json
import logging
from typing import Any

import httpx
import pytest

from arco.api._problems import MEDIA_TYPE, problem_kind, problem_response, status_of
from arco.core import ArcoError, Conflict, Corrupt, NotFound, OutcomeUnknown, RateLimited, Refused, Unavailable
from arco.storage import ObjectExists, ObjectMissing, StoreFailed
from tests.api.world import World, run_world

# The contract with clients: changing a line breaks somebody.
EXPECTED = {
    "Invalid": (400, "urn:arco:problem:invalid"),
    "TooLarge": (413, "urn:arco:problem:too-large"),
    "Refused": (409, "urn:arco:problem:refused"),
    "NotFound": (404, "urn:arco:problem:not-found"),
    "Conflict": (409, "urn:arco:problem:conflict"),
    "PreconditionFailed": (412, "urn:arco:problem:precondition-failed"),
    "Unauthenticated": (401, "urn:arco:problem:unauthenticated"),
    "Forbidden": (403, "urn:arco:problem:forbidden"),
    "Unavailable": (503, "urn:arco:problem:unavailable"),
    "RateLimited": (429, "urn:arco:problem:rate-limited"),
    "OutcomeUnknown": (503, "urn:arco:problem:outcome-unknown"),
    "Stale": (503, "urn:arco:problem:stale"),
    "Superseded": (503, "urn:arco:problem:superseded"),
    "Outdated": (503, "urn:arco:problem:outdated"),
    "StoreRefused": (503, "urn:arco:problem:store-refused"),
    "Corrupt": (500, "urn:arco:problem:corrupt"),
    "LostObject": (500, "urn:arco:problem:lost-object"),
}


def _tree(root: type[ArcoError]) -> list[type[ArcoError]]:
    return [found for child in root.__subclasses__() for found in (child, *_tree(child))]


def _answer(error: ArcoError) -> tuple[int, dict[str, str], Any]:
    response = problem_response(error, "request-1")
    return response.status_code, dict(response.headers), json.loads(bytes(response.body))


def test_the_table_has_every_error_of_core() -> None:
    core = {kind.__name__ for kind in _tree(ArcoError) if kind.__module__ == "arco.core._errors"}
    assert core == set(EXPECTED)


@pytest.mark.parametrize("kind", [kind for kind in _tree(ArcoError) if kind.__name__ in EXPECTED])
def test_each_error_has_the_status_and_type_that_clients_know(kind: type[ArcoError]) -> None:
    status, headers, body = _answer(kind("it went wrong", where="here"))
    assert (status, body["type"]) == EXPECTED[kind.__name__]
    assert body["status"] == status
    assert body["detail"] == "it went wrong"
    assert body["details"] == {"where": "here"}
    assert body["request_id"] == "request-1"
    assert body["title"]
    assert body["hint"].endswith(".")
    assert headers["content-type"] == MEDIA_TYPE
    assert ("retry-after" in headers) is (status in (429, 503))
    assert ("www-authenticate" in headers) is (status == 401)


@pytest.mark.parametrize("error", [ObjectMissing("a"), ObjectExists("a"), StoreFailed("slow")])
def test_what_the_store_answers_is_never_unanswerable(error: ArcoError) -> None:
    """Layers above turn these into their own words; one that slips through is still a problem and not a crash."""
    status, _, body = _answer(error)
    assert status >= 500
    assert body["type"] == problem_kind(type(error).__name__)


def test_an_error_without_a_line_of_its_own_is_answered_like_its_ancestor() -> None:
    class Stolen(Conflict):
        pass

    assert status_of(Stolen) == 409
    assert _answer(Stolen("gone"))[2]["type"] == "urn:arco:problem:stolen"


def test_an_operation_stands_where_programs_look_for_it() -> None:
    body = _answer(OutcomeUnknown("not settled", operation="01M7GXS7DJER941K48GRXQYZH6", position="7"))[2]
    assert body["operation_id"] == "01M7GXS7DJER941K48GRXQYZH6"
    assert body["details"] == {"position": "7"}


@pytest.mark.parametrize(("given", "sent"), [({}, "1"), ({"retry_after": 7}, "7"), ({"retry_after": 0}, "1")])
def test_retry_after_says_how_long(given: dict[str, int], sent: str) -> None:
    assert _answer(RateLimited("slow down", **given))[1]["retry-after"] == sent
    assert _answer(Unavailable("not now", **given))[1]["retry-after"] == sent


def test_details_of_any_kind_become_json() -> None:
    assert _answer(NotFound("x", seen={"a"}, error=ValueError("b"), raw=b"\xff"))[0] == 404


# Through the application


def _asked(method: str, path: str, **options: Any) -> httpx.Response:
    async def work(world: World) -> httpx.Response:
        return await world.http.request(method, path, **options)

    return run_world(work)


def test_an_unknown_path_is_a_problem() -> None:
    answer = _asked("GET", "/api/v1/nothing")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json()["type"] == "urn:arco:problem:no-such-path"


@pytest.mark.parametrize("path", ["/api/v1/tables/", "/api/v1//tables", "/api/v1/tables/a.b/", "/API/v1/tables", "//"])
def test_paths_are_taken_as_they_are(path: str) -> None:
    answer = _asked("GET", path)
    assert answer.status_code == 404
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/v1/tables", "GET, POST"),
        ("/api/v1/tables/a.b", "DELETE, GET, PATCH"),
        ("/api/v1/tables/a.b/contract", "DELETE, PUT"),
        ("/api/v1/whoami", "GET"),
    ],
)
def test_an_unknown_method_is_a_problem_that_lists_all_known_ones(path: str, methods: str) -> None:
    answer = _asked("QUERY", path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == methods
    assert answer.json()["type"] == "urn:arco:problem:method-not-allowed"


def test_the_request_id_is_echoed_or_made() -> None:
    given = _asked("GET", "/api/v1/tables/a.b", headers={"X-Request-Id": "mine-1"})
    assert given.headers["x-request-id"] == given.json()["request_id"] == "mine-1"
    made = _asked("GET", "/api/v1/tables/a.b")
    assert made.headers["x-request-id"] == made.json()["request_id"]
    assert len(made.headers["x-request-id"]) == 26


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "é", '"><script>', "a\tb"])
def test_a_request_id_that_is_none_is_replaced(bad: str) -> None:
    answer = _asked("GET", "/healthz", headers={"X-Request-Id": bad.encode()})
    assert len(answer.headers["x-request-id"]) == 26


def test_what_does_not_fit_is_listed_without_its_value() -> None:
    body = {"name": 7, "password": "hunter2", "columns": [{"name": "a"}, {"name": "b", "type": ["hunter2"]}]}
    answer = _asked("POST", "/api/v1/tables", json=body)
    assert answer.status_code == 400
    assert {item["where"] for item in answer.json()["errors"]} == {
        "body.name",
        "body.password",
        "body.columns.0.type",
        "body.columns.1.type",
    }
    assert "hunter2" not in answer.text


def test_many_complaints_are_cut() -> None:
    answer = _asked("POST", "/api/v1/tables", json={"name": "a.b", "columns": [{}] * 500})
    assert len(answer.json()["errors"]) == 20
    assert "more" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"name=a",
        b"\xff\xfe{}",
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"name": NaN}',
        b'{"name": 1e999}',
        b'{"name": "a",}',
        b'{"name": "a"} {}',
        b"\xef\xbb\xbf{}",
        b"null",
        b"[]",
        b'"a"',
        b"7",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_a_body_that_is_not_json_or_no_object_is_a_problem(body: bytes) -> None:
    answer = _asked("POST", "/api/v1/namespaces", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:arco:problem:invalid"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_a_body_that_is_not_declared_as_json_is_refused(media_type: str) -> None:
    answer = _asked("POST", "/api/v1/namespaces", content=b'{"name": "a"}', headers={"content-type": media_type})
    assert answer.status_code == 400
    assert "application/json" in answer.json()["detail"]


def test_a_charset_may_be_named() -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert _asked("POST", "/api/v1/namespaces", content=b'{"name": "a"}', headers=headers).status_code == 201


@pytest.mark.parametrize("query", ["as_off=catalog:1", "limit=1&limit=2", "limit=1&limit=1", "x", "="])
def test_a_parameter_that_is_unknown_or_given_twice_is_refused(query: str) -> None:
    assert _asked("GET", f"/api/v1/namespaces?{query}").status_code == 400


def test_what_nobody_foresaw_tells_nothing_but_the_request_id(caplog: pytest.LogCaptureFixture) -> None:
    async def work(world: World) -> httpx.Response:
        def fail(*_: Any) -> None:
            raise RuntimeError("the password is hunter2")

        world.app.state.rates.take = fail
        transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.get("/api/v1/settings", headers={"X-Request-Id": "seen-1"})

    with caplog.at_level(logging.ERROR, "arco.api"):
        answer = run_world(work)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json()["type"] == "urn:arco:problem:internal"
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "seen-1"
    assert "hunter2" not in answer.text
    assert "RuntimeError" not in answer.text
    assert "seen-1" in caplog.text


def test_damage_is_logged_and_a_refusal_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def work(world: World) -> list[int]:
        found = []
        for error in (Corrupt("segment 7 is damaged"), Refused("no")):

            def fail(error: ArcoError = error) -> Any:
                raise error

            world.app.state.rates.take = lambda *_, fail=fail: fail()
            found.append((await world.ask("GET", "/whoami")).status_code)
        return found

    with caplog.at_level(logging.INFO, "arco.api"):
        assert run_world(work) == [500, 409]
    assert [record.getMessage() for record in caplog.records] == ["acme/prod: GET /api/v1/whoami: segment 7 is damaged"]

"""What passes is tried again within the deadline, under one request key; what does not is raised at once."""

import httpx
import pytest

from arco.core import (
    ArcoError,
    Conflict,
    Invalid,
    OutcomeUnknown,
    Outdated,
    RateLimited,
    StoreRefused,
    Unavailable,
    parse_request_key,
)
from arco.wire import NamespaceCreate, QueryRequest
from tests.client.conftest import NAMESPACE, WRITTEN, Script, Step, described, ok, problem

CREATE = NamespaceCreate(name="sales")
CREATED = ok({**WRITTEN, "namespace": NAMESPACE})
UNAVAILABLE = problem(503, "unavailable")
PASSING: list[Step] = [
    UNAVAILABLE,
    problem(503, "stale"),
    problem(503, "superseded"),
    problem(429, "rate-limited"),
    httpx.Response(503, text="a proxy says so"),
    httpx.Response(502, text="bad gateway"),
    httpx.Response(504),
    httpx.ConnectError("refused"),
    httpx.ConnectTimeout("slow"),
    httpx.ReadTimeout("slow"),
    httpx.ReadError("reset"),
    httpx.RemoteProtocolError("closed"),
]


@pytest.mark.parametrize("failure", PASSING, ids=described)
def test_a_read_is_tried_again_until_it_succeeds(server: Script, failure: Step) -> None:
    server.answers(failure, failure, ok(NAMESPACE))
    assert server.ask(lambda client: client.get_namespace("sales")).name == "sales"
    assert len(server.requests) == 3
    assert server.keys == [None] * 3


@pytest.mark.parametrize("failure", PASSING, ids=described)
def test_a_write_is_tried_again_under_the_same_key(server: Script, failure: Step) -> None:
    server.answers(failure, failure, CREATED)
    assert server.ask(lambda client: client.create_namespace(CREATE)).namespace.name == "sales"
    assert len(set(server.keys)) == 1
    assert len(server.requests) == 3
    assert parse_request_key(str(server.keys[0]))
    assert len({request.content for request in server.requests}) == 1


def test_every_write_has_a_key_of_its_own_unless_one_is_given(server: Script) -> None:
    given = "01ARZ3NDEKTSV4RRFFQ69G5FAV:mine"
    server.answers(CREATED)
    for _ in range(2):
        server.ask(lambda client: client.create_namespace(CREATE))
    server.ask(lambda client: client.create_namespace(CREATE, key=given))
    assert len(set(server.keys)) == 3
    assert server.keys[-1] == given


def test_a_key_that_is_none_is_refused_before_anything_is_sent(server: Script) -> None:
    server.answers(CREATED)
    with pytest.raises(Invalid, match="carries no time"):
        server.ask(lambda client: client.create_namespace(CREATE, key="hunter2"))
    assert server.requests == []


def test_sql_is_a_read_and_carries_no_key(server: Script) -> None:
    result = {"columns": [], "rows": [], "row_count": 0, "truncated": False}
    server.answers(UNAVAILABLE, ok({**result, "bytes_read": 0, "elapsed_ms": 1.0, "positions": {}}))
    assert server.ask(lambda client: client.run_query(QueryRequest(sql="select 1"))).rows == []
    assert server.keys == [None, None]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (problem(400, "invalid"), Invalid),
        (problem(409, "conflict"), Conflict),
        (problem(503, "outdated"), Outdated),
        (problem(503, "store-refused"), StoreRefused),
        (problem(500, "internal"), ArcoError),
        (httpx.Response(500), ArcoError),
        (httpx.Response(301, headers={"Location": "http://evil.test"}), Invalid),
        (httpx.LocalProtocolError("bad header hunter2"), Invalid),
    ],
    ids=described,
)
def test_what_no_waiting_mends_is_raised_at_once(server: Script, failure: Step, error: type[ArcoError]) -> None:
    server.answers(failure, CREATED)
    with pytest.raises(error) as raised:
        server.ask(lambda client: client.create_namespace(CREATE))
    assert type(raised.value) is error
    assert len(server.requests) == 1
    assert "hunter2" not in str(raised.value)


def test_a_failure_that_stays_is_raised_before_the_deadline_passes(server: Script) -> None:
    server.answers(UNAVAILABLE, timeout=20.0)
    with pytest.raises(Unavailable):
        server.ask(lambda client: client.get_namespace("sales"))
    assert 10.0 < server.time.seconds < 20.0
    assert server.time.slept == sorted(server.time.slept[:6]) + server.time.slept[6:]
    assert max(server.time.slept) <= 5.0


def test_the_server_says_how_long_to_wait(server: Script) -> None:
    server.answers(problem(429, "rate-limited", headers={"Retry-After": "7"}), ok(NAMESPACE))
    server.ask(lambda client: client.get_namespace("sales"))
    assert len(server.time.slept) == 1
    assert 7.0 <= server.time.slept[0] <= 7.0 * 1.25


def test_a_wait_beyond_the_deadline_is_not_begun(server: Script) -> None:
    server.answers(problem(429, "rate-limited", headers={"Retry-After": "3600"}), ok(NAMESPACE))
    with pytest.raises(RateLimited) as raised:
        server.ask(lambda client: client.get_namespace("sales"))
    assert raised.value.details["retry_after"] == 3600
    assert server.time.slept == []


@pytest.mark.parametrize("text", ["Wed, 21 Oct 2026 07:28:00 GMT", "-5", "nan", "1e9", "", "9999999999"])
def test_a_wait_nobody_understands_is_ours_to_choose(server: Script, text: str) -> None:
    server.answers(problem(503, "unavailable", headers={"Retry-After": text}), ok(NAMESPACE))
    server.ask(lambda client: client.get_namespace("sales"))
    assert 0 < server.time.slept[0] <= 0.1


@pytest.mark.parametrize(
    "lost",
    [httpx.ReadTimeout("slow"), httpx.ReadError("reset"), httpx.Response(504), httpx.Response(502)],
    ids=described,
)
def test_a_write_whose_answer_was_lost_may_have_happened_whatever_fails_later(server: Script, lost: Step) -> None:
    server.answers(lost, httpx.ConnectError("refused"))
    with pytest.raises(OutcomeUnknown, match="may have been carried out") as raised:
        server.ask(lambda client: client.create_namespace(CREATE))
    assert raised.value.details["request_key"] == server.keys[0]
    assert str(server.keys[0]) in raised.value.message


@pytest.mark.parametrize(
    "failure", [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), UNAVAILABLE], ids=described
)
def test_a_write_that_was_never_taken_did_not_happen(server: Script, failure: Step) -> None:
    server.answers(failure)
    with pytest.raises(Unavailable) as raised:
        server.ask(lambda client: client.create_namespace(CREATE))
    assert type(raised.value) is Unavailable
    assert raised.value.details["request_key"] == server.keys[0]


def test_a_read_whose_answer_was_lost_is_only_unavailable(server: Script) -> None:
    server.answers(httpx.ReadTimeout("slow"))
    with pytest.raises(Unavailable) as raised:
        server.ask(lambda client: client.get_namespace("sales"))
    assert type(raised.value) is Unavailable


def test_the_operation_that_settles_it_is_kept_from_the_try_that_told_it(server: Script) -> None:
    unknown = problem(503, "outcome-unknown", operation_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    server.answers(unknown, httpx.ConnectError("refused"))
    with pytest.raises(OutcomeUnknown) as raised:
        server.ask(lambda client: client.create_namespace(CREATE))
    assert raised.value.details["operation_id"] == "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    assert "01ARZ3NDEKTSV4RRFFQ69G5FAV" in raised.value.message


def test_a_fault_of_the_server_leaves_the_key_to_ask_again_with(server: Script) -> None:
    server.answers(httpx.ReadTimeout("slow"), problem(500, "internal"))
    with pytest.raises(OutcomeUnknown) as raised:
        server.ask(lambda client: client.create_namespace(CREATE))
    assert raised.value.details["request_key"] == server.keys[0]


def test_a_refusal_after_a_lost_answer_stands(server: Script) -> None:
    server.answers(httpx.ReadTimeout("slow"), problem(409, "conflict"))
    with pytest.raises(Conflict):
        server.ask(lambda client: client.create_namespace(CREATE))


def test_health_is_asked_once_and_unwell_is_an_answer(server: Script) -> None:
    body = {"status": "degraded", "version": "1", "checks": {"publishing": "stopped"}}
    server.answers(httpx.Response(503, json=body))
    assert server.ask(lambda client: client.ready()).status == "degraded"
    server.answers(httpx.ConnectError("refused"))
    with pytest.raises(Unavailable, match="no connection to http://arco"):
        server.ask(lambda client: client.health())
    assert len(server.requests) == 2

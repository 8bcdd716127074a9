"""Callback tokens: each is good for one attempt of one workspace until it expires."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Invalid, Unauthenticated
from arco.servo._tokens import callback_token, check_callback

SECRET = bytes(range(32))
NOW = 1_700_000_000_000_000
GOOD = {"tenant": "acme", "workspace": "prod", "attempt_id": "01HF000000000000000000000A"}
TOKEN = callback_token(SECRET, **GOOD, expires_at=NOW + 10)


def test_a_token_holds_for_its_attempt_until_it_expires() -> None:
    check_callback(SECRET, TOKEN, **GOOD, now=NOW)
    check_callback(SECRET, TOKEN, **GOOD, now=NOW + 9)
    with pytest.raises(Unauthenticated):
        check_callback(SECRET, TOKEN, **GOOD, now=NOW + 10)


@pytest.mark.parametrize("field", ["tenant", "workspace", "attempt_id"])
def test_a_token_holds_for_nothing_else(field: str) -> None:
    with pytest.raises(Unauthenticated):
        check_callback(SECRET, TOKEN, **{**GOOD, field: GOOD[field] + "x"}, now=NOW)


def test_parts_of_two_names_cannot_be_exchanged() -> None:
    token = callback_token(SECRET, "a", "b-c", "x", NOW + 10)
    with pytest.raises(Unauthenticated):
        check_callback(SECRET, token, "a-b", "c", "x", NOW)


def test_another_secret_is_not_taken_and_a_short_one_is_refused() -> None:
    with pytest.raises(Unauthenticated):
        check_callback(bytes(32), TOKEN, **GOOD, now=NOW)
    with pytest.raises(Invalid):
        callback_token(b"short", **GOOD, expires_at=NOW)


def test_a_later_expiry_cannot_be_written_into_a_token() -> None:
    with pytest.raises(Unauthenticated):
        check_callback(SECRET, TOKEN.replace(str(NOW + 10), str(NOW + 99)), **GOOD, now=NOW)


@given(st.text() | st.integers(0, len(TOKEN) - 1))
def test_whatever_else_is_sent_is_refused_alike(token: str | int) -> None:
    sent = (
        token if isinstance(token, str) else TOKEN[:token] + ("0" if TOKEN[token] != "0" else "1") + TOKEN[token + 1 :]
    )
    with pytest.raises(Unauthenticated) as caught:
        check_callback(SECRET, sent, **GOOD, now=NOW)
    assert str(caught.value) == "this callback carries no valid token of the attempt; send the one of its envelope"

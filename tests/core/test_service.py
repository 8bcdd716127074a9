"""Service identities: what was signed is what is accepted, for a minute, and nothing tells the secret."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import SECOND, Invalid, ServiceIdentity, Unauthenticated, derive_secret
from arco.core import SERVICE_LIFE as LIFE

SECRET = bytes(range(32))
CALL: dict[str, Any] = {"method": "POST", "path": "/internal/acme/prod/sync-compact?incarnation=i", "body": b"{}"}


@dataclasses.dataclass
class StoppedClock:
    time: int = 1_700_000_000 * SECOND

    def now(self) -> int:
        return self.time

    def boottime(self) -> float:
        return 0.0


def identity(secret: bytes = SECRET, name: str = "api", clock: StoppedClock | None = None) -> ServiceIdentity:
    return ServiceIdentity(secret, name, clock or StoppedClock())


texts = st.text(st.characters(codec="ascii"), max_size=60)


@given(method=st.sampled_from(["GET", "POST"]), path=texts, body=st.binary(max_size=200))
def test_what_one_process_signs_another_one_with_the_same_secret_accepts(method: str, path: str, body: bytes) -> None:
    headers = identity(name="one").headers(method, path, body)
    assert identity(name="other").verify(headers, method, path, body) == "one"


@given(
    change=st.sampled_from(["method", "path", "body", "arco-service", "arco-expires", "arco-signature"]),
    path=texts,
    other=texts,
)
def test_nothing_of_a_call_can_be_changed(change: str, path: str, other: str) -> None:
    call: dict[str, Any] = {**CALL, "path": path}
    headers = identity().headers(**call)
    before = {**call, **headers}
    if change in call:
        call[change] = other.encode() if change == "body" else other
    else:
        headers[change] = other
    if {**call, **headers} == before:
        return
    with pytest.raises(Unauthenticated):
        identity().verify(headers, **call)


def test_parts_cannot_be_shifted_into_each_other() -> None:
    headers = identity().headers("POST", "/a", b"x")
    for method, path in (("POST\n/a", ""), ("POS", "T\n/a"), ("", "POST\n/a")):
        with pytest.raises(Unauthenticated):
            identity().verify(headers, method, path, b"x")


@pytest.mark.parametrize("missing", ["arco-service", "arco-expires", "arco-body", "arco-signature"])
def test_a_call_without_all_of_its_headers_is_unknown(missing: str) -> None:
    headers = identity().headers(**CALL)
    del headers[missing]
    with pytest.raises(Unauthenticated):
        identity().verify(headers, **CALL)


@pytest.mark.parametrize("expires", ["", "-1", "1e3", "nan", "٣", "9" * 12, "9" * 400, " 5", "0x10"])
def test_an_expiry_that_is_no_near_time_is_unknown(expires: str) -> None:
    signer = identity()
    digest = signer.headers(**CALL)["arco-body"]
    signature = signer._sign("api", expires, CALL["method"], CALL["path"], digest)
    headers = {"arco-service": "api", "arco-expires": expires, "arco-body": digest, "arco-signature": signature}
    with pytest.raises(Unauthenticated):
        signer.verify(headers, **CALL)


@given(late=st.integers(-3 * LIFE, 3 * LIFE))
def test_a_call_lives_a_minute_and_clocks_may_differ_by_as_much(late: int) -> None:
    clock = StoppedClock()
    headers = identity().headers(**CALL)
    clock.time += late * SECOND
    if -LIFE <= late < LIFE:
        assert identity(clock=clock).verify(headers, **CALL) == "api"
    else:
        with pytest.raises(Unauthenticated):
            identity(clock=clock).verify(headers, **CALL)


def test_another_secret_is_unknown() -> None:
    headers = identity(bytes(32)).headers(**CALL)
    with pytest.raises(Unauthenticated):
        identity().verify(headers, **CALL)


@given(secret=st.binary(min_size=4, max_size=31))
def test_a_short_secret_is_refused_and_not_shown(secret: bytes) -> None:
    with pytest.raises(Invalid, match="at least 32") as caught:
        identity(secret)
    for shown in (secret.hex(), repr(secret)[2:-1]):
        assert shown not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "ä", "x" * 201])
def test_a_name_that_a_header_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="name of a service"):
        identity(name=name)


def test_every_purpose_has_a_key_of_its_own() -> None:
    keys = {derive_secret(SECRET, purpose) for purpose in ("service", "objects", "", "service ")}
    assert len(keys) == 4
    assert all(len(key) == 32 and SECRET not in key for key in keys)
    assert derive_secret(SECRET, "objects") == derive_secret(SECRET, "objects")
    assert derive_secret(SECRET, "objects") != derive_secret(bytes(32), "objects")


def test_nothing_shows_the_secret() -> None:
    secret = b"correct horse battery staple 0123456789"
    found = identity(secret)
    with pytest.raises(Unauthenticated) as caught:
        found.verify({}, **CALL)
    for text in (repr(found), str(found), repr(caught.value), str(caught.value.details)):
        assert "horse" not in text
        assert derive_secret(secret, "service").hex() not in text

"""ULIDs carry their time and survive every spelling; request keys without a time are refused."""

import uuid
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arco.core import (
    SECOND,
    Invalid,
    Ulid,
    new_ulid,
    parse_request_key,
    parse_ulid,
    request_key_time,
    ulid_time,
    ulid_to_uuid,
    uuid_to_ulid,
)

TIME_MAX_US = (2**48 - 1) * 1000 + 999
times = st.integers(min_value=0, max_value=TIME_MAX_US)
randoms = st.binary(min_size=10, max_size=10)
numbers = st.integers(min_value=0, max_value=2**128 - 1)
suffixes = st.text("abcXYZ019._-", min_size=1, max_size=64)


@dataclass(frozen=True)
class World:
    """A clock that stands still and chance that is known."""

    time: int
    random: bytes

    def now(self) -> int:
        return self.time

    def boottime(self) -> float:
        return 0.0

    def bytes(self, count: int) -> "bytes":
        assert count == len(self.random)
        return self.random

    def uniform(self, low: float, high: float) -> float:
        return low


def made(time: int, random: bytes) -> Ulid:
    world = World(time, random)
    return new_ulid(world, world)


def test_the_example_of_the_ulid_specification() -> None:
    assert made(1469922850259 * 1000, bytes.fromhex("d6764c61efb99302bd5b")) == "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@given(times, randoms)
def test_an_id_carries_its_millisecond_and_all_of_its_random_bits(time: int, random: bytes) -> None:
    ulid = made(time, random)
    assert parse_ulid(ulid) == ulid
    assert ulid_time(ulid) == time // 1000 * 1000
    assert uuid.UUID(ulid_to_uuid(ulid)).bytes[6:] == random


@given(times, times, randoms, randoms)
def test_text_order_follows_time(first: int, second: int, one: bytes, other: bytes) -> None:
    a, b = made(first, one), made(second, other)
    if first // 1000 < second // 1000:
        assert a < b
    assert (a < b) == ((first // 1000, one) < (second // 1000, other))


@given(numbers)
def test_ulid_and_uuid_are_two_texts_of_one_number(number: int) -> None:
    text = str(uuid.UUID(int=number))
    ulid = uuid_to_ulid(text)
    assert ulid_to_uuid(parse_ulid(ulid)) == text
    assert uuid_to_ulid(text.upper()) == ulid


@pytest.mark.parametrize("time", [-1, TIME_MAX_US + 1])
def test_a_clock_no_id_can_carry_is_refused(time: int) -> None:
    with pytest.raises(Invalid, match="set the clock"):
        made(time, bytes(10))


@st.composite
def nearly_ulids(draw: st.DrawFn) -> str:
    """A ULID with one place replaced: random text is never almost right."""
    text = uuid_to_ulid(str(uuid.UUID(int=draw(numbers))))
    start = draw(st.integers(0, len(text)))
    stop = min(len(text), start + draw(st.integers(0, 1)))
    return text[:start] + draw(st.text("0789AZILOUaz\n \u0661", max_size=1)) + text[stop:]


@given(nearly_ulids())
@example("81ARZ3NDEKTSV4RRFFQ69G5FAV")
@example("01ARZ3NDEKTSV4RRFFQ69G5FAV\n")
def test_what_is_accepted_as_ulid_is_one_number_of_128_bits(text: str) -> None:
    try:
        ulid = parse_ulid(text)
    except Invalid:
        return
    assert len(text) == 26
    assert uuid_to_ulid(ulid_to_uuid(ulid)) == text


@given(times, randoms, suffixes | st.none())
def test_a_request_key_of_a_ulid_carries_its_time(time: int, random: bytes, suffix: str | None) -> None:
    text = made(time, random) + (f":{suffix}" if suffix else "")
    key = parse_request_key(text)
    assert key == text
    assert request_key_time(key) == time // 1000 * 1000


@given(times, randoms, suffixes | st.none())
def test_a_request_key_of_a_uuid7_carries_its_time(time: int, random: bytes, suffix: str | None) -> None:
    number = (time // 1000 << 80) | int.from_bytes(random, "big")
    number = number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = str(uuid.UUID(int=number)) + (f":{suffix}" if suffix else "")
    assert request_key_time(parse_request_key(text)) == time // 1000 * 1000


@given(st.uuids().filter(lambda u: u.version != 7))
def test_uuids_of_other_versions_are_refused_as_request_keys(other: uuid.UUID) -> None:
    with pytest.raises(Invalid, match="send a ULID or a UUIDv7"):
        parse_request_key(str(other))


def test_the_case_of_a_uuid_does_not_make_two_request_keys() -> None:
    text = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
    assert parse_request_key(f"{text.upper()}:A") == f"{text}:A"
    assert request_key_time(parse_request_key(text)) == 1645557742 * SECOND


@pytest.mark.parametrize("text", ["sk-live-4242", "01ARZ3NDEKTSV4RRFFQ69G5FAV:sk live 4242"])
def test_a_refused_request_key_is_not_repeated(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_request_key(text)
    assert "4242" not in str(refusal.value)

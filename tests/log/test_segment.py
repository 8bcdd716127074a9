"""Segments: what is written is read, and what was damaged, moved or written by a newer program is told apart."""

from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Corrupt, Invalid, Outdated, TooLarge, sha256_hex
from arco.log import (
    FIRST_LINK,
    MAX_SEGMENT_BYTES,
    Event,
    Header,
    Link,
    Place,
    Segment,
    check_link,
    check_segment,
    decode_segment,
    encode_segment,
    index_of,
    link_of,
    number_of,
    parse_position,
    position_of,
    seal_writer,
    sealed_by,
)
from tests.log.world import header

PLACE = Place("acme", "prod", "inc-1", "catalog")

text = st.text(st.characters(codec="utf-8"), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
events = st.builds(
    Event,
    id=text,
    type=text,
    time=text,
    source=text,
    actor=text,
    operation=text,
    data=json_values.map(lambda value: msgspec.Raw(msgspec.json.encode(value))),
    version=st.integers(1, 9),
    subject=text,
    span=st.integers(1, 5),
    command=text,
    key=text,
    keyhash=text,
    correlation=text,
    causation=text,
    traceparent=text,
    blobs=st.lists(text, max_size=2).map(tuple),
)
headers = st.builds(
    Header,
    format=st.just(1),
    log=text,
    number=st.integers(1, 2**40),
    id=text,
    previous=text,
    incarnation=text,
    tenant=text,
    workspace=text,
    writer=text,
    received=st.integers(0, 2**60),
    folds=st.dictionaries(text, st.integers(1, 9), max_size=3),
    seal=st.booleans(),
)


def encoded(first: Header, *members: Event) -> bytes:
    return encode_segment(first, [msgspec.json.encode(event) for event in members])


def packed(value: Any) -> bytes:
    """Any JSON value, packed as a segment is."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(msgspec.json.encode(value))


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def sample() -> Event:
    return Event("1", "NamespaceCreated", "2026-01-01T00:00:00Z", "arco", "ann", "op", msgspec.Raw(b'{"path":["a"]}'))


@settings(deadline=None)
@given(first=headers, members=st.lists(events, max_size=4))
def test_what_is_encoded_is_decoded(first: Header, members: list[Event]) -> None:
    found = decode_segment(encoded(first, *members), "path")
    assert found.header == first
    assert [plain(event) for event in found.events] == [plain(event) for event in members]


def test_fields_at_their_default_take_no_room() -> None:
    assert set(plain(sample())) == {"id", "type", "time", "source", "actor", "operation", "data"}


def test_a_segment_cut_short_anywhere_is_corrupt() -> None:
    data = encoded(header(PLACE), sample(), sample())
    for length in range(len(data)):
        with pytest.raises(Corrupt, match="some/path"):
            decode_segment(data[:length], "some/path")


def test_a_segment_with_a_flipped_bit_is_corrupt_or_means_the_same() -> None:
    """A checksum covers the content; the frame around it has a few bits that no reader looks at."""
    data = encoded(header(PLACE), sample(), sample())
    intact, harmless = decode_segment(data, "p"), 0
    for index in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            try:
                assert decode_segment(bytes(flipped), "p") == intact
                harmless += 1
            except Corrupt:
                continue
    assert harmless < len(data) * 8 / 100


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_other_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_segment(data, "p")


def test_bytes_after_a_segment_are_corrupt() -> None:
    with pytest.raises(Corrupt):
        decode_segment(encoded(header(PLACE), sample()) + b"more", "p")


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        None,
        {"header": {}, "events": []},
        {"header": {"format": "2"}, "events": []},
        {"header": [2], "events": []},
        {"events": []},
        {**plain(Segment(header(PLACE), ())), "events": [{}]},
        {"header": {**plain(header(PLACE)), "number": "1"}, "events": []},
    ],
)
def test_other_json_is_corrupt(value: Any) -> None:
    with pytest.raises(Corrupt, match="arco log verify"):
        decode_segment(packed(value), "p")


def test_text_that_is_no_json_is_corrupt() -> None:
    for content in (b"\xff\xfe", b"{", b'{"header":"\xff"}', b'{"header":' + b"[" * 100_000):
        with pytest.raises(Corrupt):
            decode_segment(zstandard.ZstdCompressor(write_checksum=True).compress(content), "p")


@pytest.mark.parametrize(
    "value",
    [
        {"header": {"format": 2}, "events": "in another object"},
        plain(Segment(header(PLACE, format=2), (sample(),))),
    ],
)
def test_a_newer_format_says_upgrade(value: Any) -> None:
    with pytest.raises(Outdated, match="segment format 2, this program knows 1; upgrade arco"):
        decode_segment(packed(value), "p")


def test_unknown_fields_of_the_same_format_are_left_alone() -> None:
    value = plain(Segment(header(PLACE), (sample(),)))
    value["header"]["later"] = 1
    value["events"][0]["later"] = {"x": 1}
    assert decode_segment(packed(value), "p").header == header(PLACE)


def test_a_segment_over_the_limit_is_refused_when_written_and_when_read() -> None:
    large = b'"%b"' % (b"x" * MAX_SEGMENT_BYTES)
    with pytest.raises(TooLarge, match="split the batch"):
        encode_segment(header(PLACE), [large])
    with pytest.raises(Corrupt):
        decode_segment(zstandard.ZstdCompressor().compress(large), "p")


def test_a_frame_that_hides_its_size_is_corrupt() -> None:
    text = msgspec.json.encode(Segment(header(PLACE), ()))
    with pytest.raises(Corrupt):
        decode_segment(zstandard.ZstdCompressor(write_content_size=False).compress(text), "p")


# The chain


def test_a_seal_says_which_command_made_it() -> None:
    writer = seal_writer("arco erase", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert sealed_by(header(PLACE, FIRST_LINK, seal=True, writer=writer)) == "arco erase"
    for other in (seal_writer("", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), "seal:01ARZ3NDEKTSV4RRFFQ69G5FAV", "http://a:80"):
        assert sealed_by(header(PLACE, FIRST_LINK, seal=True, writer=other)) == ""
    assert sealed_by(header(PLACE, FIRST_LINK, writer=writer)) == ""


def test_a_chain_of_segments_is_followed() -> None:
    link = FIRST_LINK
    for number in range(1, 5):
        data = encoded(header(PLACE, link), sample())
        segment, link = check_segment(data, PLACE, link, "p")
        assert segment.header.number == number
        assert link == link_of(segment, data)
    assert link.received == 4


@pytest.mark.parametrize("field", ["tenant", "workspace", "incarnation", "log"])
def test_a_segment_of_another_place_is_corrupt(field: str) -> None:
    stray = msgspec.structs.replace(PLACE, **{field: "other"})
    segment = decode_segment(encoded(header(stray)), "p")
    with pytest.raises(Corrupt, match=f"belongs to {field} 'other'"):
        check_link(segment, PLACE, FIRST_LINK, "p")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": 2}, "says it is number 2"),
        ({"number": 0}, "says it is number 0"),
        ({"previous": "0" * 64}, "does not continue its predecessor"),
    ],
)
def test_a_broken_chain_is_corrupt(changes: dict[str, Any], message: str) -> None:
    segment = decode_segment(encoded(header(PLACE, **changes)), "p")
    with pytest.raises(Corrupt, match=message):
        check_link(segment, PLACE, FIRST_LINK, "p")


def test_a_refilled_number_is_caught_by_its_successor() -> None:
    first = encoded(header(PLACE), sample())
    link = link_of(decode_segment(first, "p"), first)
    second = encoded(header(PLACE, link), sample())
    refilled = encoded(header(PLACE, writer="somebody else"), sample())
    _, other = check_segment(refilled, PLACE, FIRST_LINK, "p")
    with pytest.raises(Corrupt, match="segment 1 was lost and refilled, or altered"):
        check_segment(second, PLACE, other, "p")


# Positions


@settings(deadline=None)
@given(number=st.integers(0, 2**43 - 1), index=st.integers(0, 2**20 - 1))
def test_positions_are_taken_apart_and_parsed(number: int, index: int) -> None:
    position = position_of(number, index)
    assert (number_of(position), index_of(position)) == (number, index)
    assert parse_position(str(position)) == position
    assert parse_position(f"{number}:{index}") == position


@settings(deadline=None)
@given(a=st.tuples(st.integers(0, 2**40), st.integers(0, 2**20 - 1)), b=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_positions_sort_like_segment_and_index(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert (position_of(*a) < position_of(*b)) == (a < b)


@pytest.mark.parametrize("given_text", ["", "-1", "1:", ":1", "1:2:3", "1:1048576", "x", "1.5", "²", "1" * 41, " 1"])
def test_other_texts_are_no_positions(given_text: str) -> None:
    with pytest.raises(Invalid, match="arco log tail"):
        parse_position(given_text)


def test_a_link_names_the_bytes_of_its_segment() -> None:
    data = encoded(header(PLACE), sample())
    assert link_of(decode_segment(data, "p"), data) == Link(1, sha256_hex(data), 1)

"""Packs: what is written is found again segment by segment, and nothing altered passes."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Corrupt, Outdated
from arco.log import Pack, Place, decode_index, encode_list, encode_pack, list_packs

PLACE = Place("acme", "prod", "inc-1", "activity")


@given(st.integers(1, 10**9), st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_every_segment_lies_where_the_index_says(first: int, segments: list[bytes]) -> None:
    data, pack = encode_pack("p", PLACE, first, segments)
    assert (pack.first, pack.segments, pack.bytes) == (first, len(segments), len(data))
    assert pack.sha256 == hashlib.sha256(data).hexdigest()
    assert pack.index is not None
    index = decode_index(pack, PLACE, data[-pack.index[0] :])
    offsets = index.offsets()
    assert [data[offsets[i] : offsets[i + 1]] for i in range(len(segments))] == segments
    assert list(index.sha256) == [hashlib.sha256(segment).hexdigest() for segment in segments]


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_an_index_with_another_byte_is_refused(place: int, change: int) -> None:
    data, pack = encode_pack("p", PLACE, 1, [b"one", b"two"])
    assert pack.index is not None
    end = bytearray(data[-pack.index[0] :])
    end[place % len(end)] ^= change
    with pytest.raises(Corrupt, match="is damaged"):
        decode_index(pack, PLACE, bytes(end))


def test_a_pack_of_another_place_or_other_numbers_is_refused() -> None:
    data, pack = encode_pack("p", PLACE, 1, [b"one", b"two"])
    assert pack.index is not None
    end = data[-pack.index[0] :]
    with pytest.raises(Corrupt, match="belongs to"):
        decode_index(pack, Place("acme", "prod", "inc-2", "activity"), end)
    for other in ({"first": 2, "last": 3}, {"last": 3}, {"bytes": pack.bytes + 1}):
        with pytest.raises(Corrupt, match="does not hold"):
            decode_index(msgspec.structs.replace(pack, **other), PLACE, end)


def test_a_pack_of_a_newer_format_asks_for_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arco.log._pack.FORMAT", 2)
    data, pack = encode_pack("p", PLACE, 1, [b"one"])
    monkeypatch.setattr("arco.log._pack.FORMAT", 1)
    assert pack.index is not None
    with pytest.raises(Outdated, match="upgrade arco"):
        decode_index(pack, PLACE, data[-pack.index[0] :])


def test_a_list_names_its_entries_and_must_be_whole() -> None:
    entries = [Pack(f"p{n}", "s", n, n, 10) for n in range(1, 4)]
    data, listed = encode_list("l", entries)
    assert (listed.level, listed.first, listed.last, listed.bytes) == (1, 1, 3, len(data))
    assert list_packs(listed, data) == tuple(entries)
    with pytest.raises(Corrupt, match="not what the manifest promises"):
        list_packs(listed, data + b" ")
    gap, wrong = encode_list("l", [entries[0], entries[2]])
    with pytest.raises(Corrupt, match="do not follow one another"):
        list_packs(wrong, gap)


def test_the_format_stays_as_it_is() -> None:
    """Packs are read for as long as rebuilds are promised: these bytes must be readable for ever."""
    data, pack = encode_pack("inc-1/packs/activity/x/1.pack", PLACE, 7, [b"first segment", b"second"])
    assert data.startswith(b"ARCOPCK1first segmentsecond")
    assert data.endswith(b"ARCOPCK1")
    recorded = bytes.fromhex(RECORDED)
    index = (len(recorded) - 27, hashlib.sha256(recorded[27:]).hexdigest())
    known = Pack(pack.path, hashlib.sha256(recorded).hexdigest(), 7, 8, len(recorded), index)
    found = decode_index(known, PLACE, recorded[27:])
    assert (found.first, found.sizes) == (7, (13, 6))
    assert found.sha256 == tuple(hashlib.sha256(text).hexdigest() for text in (b"first segment", b"second"))
    assert msgspec.json.encode(known) == msgspec.json.encode(
        {
            "path": known.path,
            "sha256": known.sha256,
            "first": 7,
            "last": 8,
            "bytes": known.bytes,
            "index": list(index),
        }
    )


RECORDED = (
    "4152434f50434b316669727374207365676d656e747365636f6e6428b52ffd64000015060072cf2d1f7027d501105544d99f"
    "a1ff286a91b72523baaaf249286275a79c0540d5130209876b6fabaa94da40c386dfd373369ab5855a8615ae1b2d9598e3c5"
    "6ff51ec3caab5c33af2ad4793942aedb2804218bba1e734f7b31856f596c6689979579d932c89d5598cc4bec150831066354"
    "7843bb4a88039297832ac531b427f040262fdb3e1344c6971b4c492027c031f0f25368370e39d940b80df9f2772089b7c3e6"
    "4422801c052f8788e6b74f830d385f4efb640472c4230402005909ef0826143e29b3e3d0000000000000004152434f50434b"
    "31"
)
"""What the first release that packed wrote."""

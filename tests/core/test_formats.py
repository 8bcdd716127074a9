"""A document of a newer program is told as that, whether it decodes or not; whatever else is wrong is damage."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Corrupt, Outdated, decode_document, format_in, sha256_hex, with_checksum, without_checksum

KNOWN = 3


class Note(msgspec.Struct):
    text: str
    format: int = KNOWN


DECODER = msgspec.json.Decoder(Note)

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.integers(0, KNOWN), st.text())
def test_what_this_program_knows_is_read(version: int, text: str) -> None:
    data = msgspec.json.encode(Note(text, version))
    assert decode_document(DECODER, data, "note", KNOWN, "notes/1") == Note(text, version)


@given(st.integers(KNOWN + 1, 2**40), anything)
def test_a_newer_document_asks_for_an_upgrade_whatever_is_in_it(version: int, text: Any) -> None:
    data = msgspec.json.encode({"text": text, "format": version})
    with pytest.raises(Outdated, match=f"notes/1 has note format {version}, this program knows {KNOWN}; upgrade arco"):
        decode_document(DECODER, data, "note", KNOWN, "notes/1")


@given(st.integers(0, KNOWN) | st.booleans() | st.text() | st.none())
def test_what_does_not_decode_and_claims_nothing_newer_is_damage(version: Any) -> None:
    data = msgspec.json.encode({"text": 1, "format": version})
    with pytest.raises(Corrupt, match="notes/1 is no note"):
        decode_document(DECODER, data, "note", KNOWN, "notes/1")


@given(st.binary() | anything.map(msgspec.json.encode))
def test_any_bytes_tell_a_format_or_none(data: bytes) -> None:
    assert format_in(data) >= 0 or b'"format"' in data
    assert format_in(data, "header") >= 0 or b'"format"' in data


def test_the_format_may_stand_within_another_object() -> None:
    assert format_in(b'{"header": {"format": 7}, "format": 1}', "header") == 7
    assert format_in(b'{"header": [7]}', "header") == 0


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=9), min_size=1, max_size=3), st.data())
def test_no_other_bytes_have_the_checksum_of_a_document(document: dict[str, str], data: st.DataObject) -> None:
    text = msgspec.json.encode(document)
    stored = with_checksum(text)
    assert msgspec.json.decode(stored) == {**document, "sha256": sha256_hex(text)}
    assert without_checksum(stored) == text
    at = data.draw(st.integers(0, len(stored) - 1))
    bent = stored[:at] + bytes([stored[at] ^ data.draw(st.integers(1, 255))]) + stored[at + 1 :]
    for other in (bent, stored[:at], stored[at + 1 :]):
        with pytest.raises(msgspec.DecodeError, match="checksum"):
            without_checksum(other)

"""Reading JSON."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.iceberg import BadRequest
from arco.iceberg.metadata import decode
from arco.iceberg.metadata._reading import MAX_NESTING


def test_an_object() -> None:
    assert decode(b'{"a": [1, 2.0, "x"]}') == {"a": [1, 2.0, "x"]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"null",
        b'{"a": NaN}',
        b"\xff",
        b'{"a": "\\ud800"}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 9999 + b"}",
    ],
)
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(BadRequest, match="Cannot parse request body"):
        decode(data)


@pytest.mark.parametrize("depth", [MAX_NESTING, 900, 100_000])
@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[1,"\\"[",', b"]")])
def test_what_is_nested_too_deeply(depth: int, start: bytes, end: bytes) -> None:
    data = b'{"x":' + start * depth + b"1" + end * depth + b"}"
    with pytest.raises(BadRequest, match="nested"):
        decode(data)


def test_an_array_nested_deeply() -> None:
    with pytest.raises(BadRequest, match="expected a JSON object, got `list`"):
        decode(b"[" * 800 + b"]" * 800)


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[1,"\\"[",', b"]")])
def test_what_is_nested_as_deeply_as_it_may(start: bytes, end: bytes) -> None:
    depth = MAX_NESTING - 1
    decode(b'{"x":' + start * depth + b"1" + end * depth + b"}")


def test_brackets_in_texts_do_not_count() -> None:
    decode(b'{"x": "' + b"[{" * 9999 + b'"}')


def test_many_siblings_do_not_count() -> None:
    decode(b'{"x": [' + b",".join([b'{"a": [[]]}'] * 9999) + b"]}")


@given(st.binary())
def test_any_bytes_give_an_object_or_a_refusal(data: bytes) -> None:
    with suppress(BadRequest):
        assert isinstance(decode(data), dict)

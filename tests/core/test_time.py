"""Times are integers; their texts sort like them and say their offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import DAY, HOUR, SECOND, Invalid, format_time, parse_time

# From the year 1000 on, where every platform writes years with four digits.
times = st.integers(-30_610_224_000 * SECOND, 253_402_300_799 * SECOND)


@given(times)
def test_a_time_is_parsed_back(micros: int) -> None:
    assert parse_time(format_time(micros)) == micros


@given(times, times)
def test_texts_sort_like_times(one: int, other: int) -> None:
    assert (format_time(one) < format_time(other)) == (one < other)


def test_the_epoch_and_an_offset() -> None:
    assert format_time(0) == "1970-01-01T00:00:00.000000Z"
    assert parse_time("1970-01-02T01:00:00+01:00") == DAY
    assert parse_time("1970-01-01T00:00:00.000001-01:00") == HOUR + 1


@pytest.mark.parametrize(("text", "cure"), [("yesterday", "write it as"), ("2026-11-15T20:45:00", "append Z")])
def test_other_texts_are_refused_with_the_cure(text: str, cure: str) -> None:
    with pytest.raises(Invalid, match=cure):
        parse_time(text)

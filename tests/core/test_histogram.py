"""Histograms: every number is counted once, below the first bound that is not smaller."""

from hypothesis import given
from hypothesis import strategies as st

from arco.core import Histogram

BOUNDS = (0.5, 1.0, 5.0)


@given(st.lists(st.floats(0, 100)))
def test_how_many_numbers_are_at_most_each_bound(numbers: list[float]) -> None:
    found = Histogram(BOUNDS)
    for number in numbers:
        found.observe(number)
    expected = [(str(bound), sum(number <= bound for number in numbers)) for bound in BOUNDS]
    assert list(found.cumulative()) == [*expected, ("+Inf", len(numbers))]
    assert found.total == sum(numbers)

"""What a server counted, by class and price: so far, and a day once it can be told."""

import pytest

from arco.cost import Class, by_class, load_prices, price_counts, prices_named
from arco.storage import Operation

S3 = prices_named(load_prices(), "s3")
ONE_OF_EACH = dict.fromkeys(Operation, 1.0)


def test_requests_are_gathered_by_what_they_are_billed_as() -> None:
    found = {share.kind: share.requests for share in by_class(ONE_OF_EACH, S3)}
    assert found == {Class.WRITE: 2, Class.LIST: 1, Class.READ: 3, Class.DELETE: 1}, "to sign is no request"


def test_a_class_nobody_asked_for_is_there_with_nothing() -> None:
    assert [(share.kind, share.requests, share.dollars) for share in by_class({}, S3)] == [
        (kind, 0, 0) for kind in Class
    ]


def test_what_was_counted_is_priced_so_far_and_at_the_same_pace_for_a_day() -> None:
    counted = price_counts({Operation.CREATE: 1000, Operation.GET: 5000, Operation.LIST: 200}, 2 * 86_400, S3)
    assert counted.requests == 6200
    assert counted.dollars == pytest.approx(0.005 + 5 * 0.0004 + 0.2 * 0.005)
    assert counted.a_day is not None
    assert {share.kind: share.requests for share in counted.a_day} == {
        Class.WRITE: 500,
        Class.READ: 2500,
        Class.LIST: 100,
        Class.DELETE: 0,
    }
    assert sum(share.dollars for share in counted.a_day) == pytest.approx(counted.dollars / 2)


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 60.0, 3599.0])
def test_less_than_an_hour_says_nothing_of_a_day(seconds: float) -> None:
    """A server that begins opens the workspace; clocks may even differ."""
    assert price_counts(ONE_OF_EACH, seconds, S3).a_day is None
    assert price_counts(ONE_OF_EACH, seconds, S3).dollars > 0

"""The model at its far end: one of 10,000 tenants that together have a billion events a day, simulated for a day.

A day is too short for what only gets steady after weeks (packs, what a collection reads and deletes), so what appends
and publishes cost is compared, and the bill, which they make up nearly all of.
"""

from collections import Counter

import pytest

from arco.cost import Load, Scale, bill, load_prices, model, prices_named
from arco.storage import Operation
from tests.simulation.months import Day, live, run

pytestmark = pytest.mark.prove

EVENTS = 1_000_000_000 / 10_000
DENSE = Load(runs=24, tasks=6, posts=1_000, facts=98, changes=8, reads=96)
A_DAY = Scale(days=1)


@pytest.fixture(scope="module")
def day() -> Day:
    return run(live(1, DENSE)).days[-1]


def requests_of(day: Day) -> Counter[Operation]:
    names = {"range": Operation.GET_RANGE}
    return Counter({names.get(name) or Operation(name): number for name, number in day.requests.items()})


def test_it_has_the_events_of_one_tenant() -> None:
    assert pytest.approx(EVENTS, rel=0.02) == DENSE.events


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.PUT, Operation.GET_RANGE, Operation.LIST])
def test_appends_and_publishes_ask_what_the_model_says(day: Day, operation: Operation) -> None:
    assert requests_of(day)[operation] == pytest.approx(model(DENSE, A_DAY).total[operation], rel=0.05)


@pytest.mark.parametrize("name", ["s3", "gcs", "azure"])
def test_the_bill_is_the_models_within_a_tenth(day: Day, name: str) -> None:
    prices = prices_named(load_prices(), name)
    expected = bill(model(DENSE, A_DAY).requests, {}, prices).dollars_a_month
    assert bill({"all": requests_of(day)}, {}, prices).dollars_a_month == pytest.approx(expected, rel=0.10)


def test_objects_are_as_many_as_the_model_says_and_hold_no_more(day: Day) -> None:
    """Facts that many are posted at once compress better than those that the model was measured with."""
    for folder in ("ledger", "state", "manifests"):
        expected, found = model(DENSE, A_DAY).stored[folder], day.stored[folder]
        assert found.objects == pytest.approx(expected.objects, rel=0.05)
        assert 0.4 * expected.bytes <= found.bytes <= 1.1 * expected.bytes

"""Windows of a batch are judged as if each had run alone, one after the other."""

from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco import anomaly
from arco.assets import (
    AssetDefinition,
    CheckDefinition,
    Dimension,
    GatingPolicy,
    StaticPartitions,
    TimePartitions,
    measures_of,
    queries_of,
)
from arco.assets import GatingAction as Action
from arco.core import PartitionKey
from arco.domains.orchestration import FinishTask, Outcome
from arco.servo._envelope import Envelope, OutputPlace
from arco.worker._in_order import InOrder
from arco.worker._masking import Mask
from arco.worker._messages import MeasuredOutput, RaisedError, Report, WrittenFile, WrittenOutput
from arco.worker._outcome import Times, failed, finished

COUNT = anomaly(percent=50, versions=4, at_least=2)
TOTAL = anomaly("sum(x)", percent=50, versions=2, at_least=1)
PARTITIONS = (
    Dimension("date", TimePartitions("0 0 * * *", "2025-11-01")),
    Dimension("region", StaticPartitions(("eu", "us"))),
)
TIMES = Times(1, 2)
Numbers = tuple[int, int] | None
"""Rows and total of a window; None if its attempt fails."""


def envelope(day: int, region: str, history: dict[str, tuple[float | None, ...]], gating: GatingPolicy) -> Envelope:
    asset = AssetDefinition("n.a", partitions=PARTITIONS, checks=(COUNT, TOTAL), gating=gating)
    key = PartitionKey({"date": f"2025-11-{day:02d}", "region": region}).canonical
    place = OutputPlace("A", "n.a", f"p-{key}", key, f"m-{key}", f"data/{key}/", history=history, window_number=day)
    return Envelope("acme", "prod", "r", f"n.a[{key}]", "t", 1, key, "n.a", "c", "0", (asset,), (place,), "", 0, 9)


def end_of(one: Envelope, numbers: Numbers) -> Callable[[object], FinishTask]:
    if numbers is None:
        error = RaisedError(("builtins.ValueError", "builtins.Exception"), "boom")
        return lambda log: failed(one, error, TIMES, None, Mask(()))
    (count,), (total,) = measures_of(COUNT), queries_of(TOTAL)
    file = WrittenFile(f"{one.outputs[0].location}part-0.parquet", 1, numbers[0])
    measured = MeasuredOutput("n.a", {count.name: numbers[0], total.name: numbers[1]})
    report = Report(one.attempt_id, outputs=(WrittenOutput("n.a", (file,)),), measured=(measured,))
    return lambda log: finished(one, report, TIMES, None, Mask(()))


class Current:
    """What is current, as the control plane knows it: by region and day, rows and total."""

    def __init__(self, known: dict[tuple[str, int], tuple[int, int]]) -> None:
        self.known = dict(known)

    def history(self, region: str, day: int) -> dict[str, tuple[float | None, ...]]:
        found: dict[str, tuple[float | None, ...]] = {}
        for check, place in ((COUNT, 0), (TOTAL, 1)):
            numbers = [self.known.get((region, earlier)) for earlier in range(day - 1, max(day - 5, 0), -1)]
            found[check.name] = tuple(None if one is None else one[place] for one in numbers)
        return found

    def add(self, region: str, day: int, result: FinishTask, numbers: Numbers) -> None:
        bad = (Action.BLOCK_DOWNSTREAM, Action.QUARANTINE, Action.FAIL_TASK)
        held = any(check.gating is not None and check.gating.action in bad for check in result.checks)
        if result.outcome is Outcome.SUCCEEDED and not held and numbers is not None:
            self.known[region, day] = numbers


def told(result: FinishTask) -> object:
    checks = [(check.check_name, check.passed, check.expected_value, check.message) for check in result.checks]
    return result.outcome, checks


numbers = st.none() | st.tuples(st.sampled_from([10, 11, 12, 40, 900]), st.sampled_from([5, 6, 50]))
windows = st.tuples(st.sampled_from(["eu", "us"]), st.integers(1, 12))


@given(
    st.dictionaries(windows, st.tuples(st.sampled_from([10, 11]), st.sampled_from([5, 6])), max_size=10),
    st.dictionaries(windows, numbers, min_size=1, max_size=12),
    st.sampled_from([Action.BLOCK_DOWNSTREAM, Action.QUARANTINE, Action.FAIL_TASK, Action.WARN]),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_a_batch_finds_what_one_window_after_the_other_finds(
    known: dict[tuple[str, int], tuple[int, int]], made: dict[tuple[str, int], Numbers], action: Action, random: object
) -> None:
    gating = GatingPolicy("mine", {}, action)
    alone, current = {}, Current(known)
    for region, day in sorted(made):
        one = envelope(day, region, current.history(region, day), gating)
        result = end_of(one, made[region, day])(None)
        current.add(region, day, result, made[region, day])
        alone[one.attempt_id] = told(result)

    handed_out = Current(known)
    batch = {
        key: envelope(key[1], key[0], handed_out.history(*key), gating)
        for key in random.sample(sorted(made), len(made))  # type: ignore[attr-defined]
    }
    assert together(list(batch.values()), [(one, made[key]) for key, one in batch.items()]) == alone


def together(envelopes: Sequence[Envelope], ends: Sequence[tuple[Envelope, Numbers]]) -> dict[str, object]:
    """What becomes of attempts that end in this order."""
    order: InOrder[Numbers] = InOrder(envelopes)
    found = {}
    for one, end in ends:
        order.ended(one, end)
        while (due := order.due()) is not None:
            make = order.judged(due[0], end_of(*due))
            assert make is not None
            found[due[0].attempt_id] = told(make(None))
    return found


def test_who_is_not_heard_of_any_more_is_waited_for_until_the_batch_is_over() -> None:
    gating = GatingPolicy("mine", {}, Action.WARN)
    first, second, third = (envelope(day, "eu", {}, gating) for day in (1, 2, 3))
    order: InOrder[str] = InOrder([first, second, third])
    order.ended(third, "c")
    order.ended(second, "b")
    assert order.due() is None
    found = []
    while (due := order.due(is_over=True)) is not None:
        found.append(due[1])
        order.judged(due[0], None)
    assert found == ["b", "c"]


@pytest.mark.parametrize("checks", [(), (COUNT,)])
def test_attempts_wait_for_nobody_if_nothing_compares_windows(checks: tuple[CheckDefinition, ...]) -> None:
    first, second = (envelope(day, "eu", {}, GatingPolicy("mine", {})) for day in (1, 2))
    asset = msgspec.structs.replace(second.definitions[0], checks=checks)
    place = msgspec.structs.replace(second.outputs[0], window_number=None)
    second = msgspec.structs.replace(second, definitions=(asset,), outputs=(place,))
    order: InOrder[str] = InOrder([first, second])
    order.ended(second, "b")
    assert order.due() == (second, "b")

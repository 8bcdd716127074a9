"""Runs expire as a whole: all rows of older ones are gone at once, and what is told of them later is rejected."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import DAY, NotFound, Refused, derive_ulid
from arco.domains.orchestration import CancelRun, Outcome
from arco.log import Event
from arco.state import REJECTIONS, AdvanceRetention, ExpireRows
from tests.domains.decider import Decider, deciding
from tests.domains.orchestration.deciding import claim_all, finished, trigger
from tests.domains.orchestration.facts import LOG, Fact, claim, finish, plan_of, planned, triggered
from tests.doubles import START
from tests.state.doubles import cut, digests, event, replica_of, rows_of, segments_of

PLAN = plan_of({"a": (), "b": ("a",)})
OF_RUNS = [table for table in LOG.tables.values() if "runs" in (table.name, table.expires_with)]


def run_of(day: int) -> str:
    return derive_ulid(START + day * DAY, f"run of day {day}")


def retention(before: int) -> Event:
    return event("RetentionAdvanced", {"table": "runs", "before": before}, command="AdvanceRetention")


def life(day: int, chance: random.Random) -> list[Fact]:
    """A run from its trigger to some point."""
    run = run_of(day)
    facts = [
        triggered(PLAN, 1, run=run, run_key=f"key {day % 3}"),
        planned(PLAN, 2, run=run),
        claim("a", 3, run=run),
        finish("a", 4, run=run),
        claim("b", 5, run=run),
        finish("b", 6, run=run, outcome=chance.choice([Outcome.SUCCEEDED, Outcome.CANCELLED])),
    ]
    return facts[: chance.randint(1, 6)]


@settings(deadline=None, max_examples=25)
@given(
    st.sets(st.integers(0, 9), min_size=1), st.integers(0, 10), st.lists(st.integers(1, 5), max_size=8), st.integers()
)
def test_what_is_left_is_what_the_younger_runs_alone_give(
    days: set[int], cutoff: int, sizes: list[int], seed: int
) -> None:
    chance = random.Random(seed)
    facts = [fact.event for day in sorted(days) for fact in life(day, chance)]
    chance.shuffle(facts)
    before = START + cutoff * DAY
    late = chance.sample(facts, min(4, len(facts)))

    def run_in(item: Event) -> str:
        return str(LOG.registry.decode(item.type, item.version, item.data).run_id)

    young = [item for item in facts if run_in(item) >= run_of(cutoff)[:10]]

    async def main() -> None:
        history = [*facts, retention(before), *late]
        segments = segments_of(cut(history, sizes))
        whole = await replica_of(LOG, [segments])
        steps = await replica_of(LOG, [[segment] for segment in segments])
        assert await digests(LOG, whole) == await digests(LOG, steps)
        for table in OF_RUNS:
            assert all(row["run_id"] >= run_of(cutoff)[:10] for row in await rows_of(whole, table)), table.name
        # In one segment all times are the same, so that rows can be compared.
        left = await replica_of(LOG, [segments_of([history])])
        alone = await replica_of(LOG, [segments_of([[*young, *(item for item in late if item in young)]])])
        for table in OF_RUNS:
            if table.name != "run_keys":  # a key of an expired run is free, but nobody has taken it
                assert await rows_of(left, table) == await rows_of(alone, table), table.name
        reasons = {row["reason"] for row in await rows_of(left, REJECTIONS)}
        assert reasons <= {"older than the retention of runs"}
        assert bool(reasons) == any(run_in(item) < run_of(cutoff)[:10] for item in late)

    asyncio.run(main())


def test_a_run_is_held_until_it_ends_and_is_then_told_to_be_gone() -> None:
    async def test(decider: Decider) -> None:
        run_id = await trigger(decider, plan_of({"a": ()}), run_key="nightly")
        (claimed,) = await claim_all(decider)
        claimed_at = decider.replica.link.received
        await decider.runtime.sleep(100 * 86_400)
        await decider.append()
        limit = decider.now - DAY
        with pytest.raises(Refused, match=f"the run {run_id} has not ended"):
            await decider.decide(AdvanceRetention("runs", limit))
        await decider.decide(finished(claimed, claimed_at))
        (advanced,) = await decider.decide(ExpireRows({"runs": limit, "rejections": 0}))
        assert advanced.type == "RetentionAdvanced"
        assert await decider.decide(ExpireRows({"runs": limit})) == [], "it has come so far already"
        assert sorted(decider.replica.retention) == sorted(table.name for table in OF_RUNS)
        for table in OF_RUNS:
            assert await decider.rows(table) == []
        for command in (CancelRun(run_id), finished(claimed, claimed_at)):
            with pytest.raises(NotFound, match=f"the run {run_id} of 2026-01-01.* has expired: .*history.runs_days"):
                await decider.decide(command)
        again = await trigger(decider, plan_of({"a": ()}), run_key="nightly")
        assert again != run_id, "its key is free again"

    deciding(LOG, test)


def test_retention_names_what_expires_by_itself() -> None:
    async def test(decider: Decider) -> None:
        for table in ("tasks", "run_keys", "plan_tasks"):
            with pytest.raises(Exception, match=f"'{table}' does not expire by time"):
                await decider.decide(AdvanceRetention(table, 5))
        found: list[Any] = [table.name for table in OF_RUNS if table.expires_with is None]
        assert found == ["runs"]

    deciding(LOG, test)

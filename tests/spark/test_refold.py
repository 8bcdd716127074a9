"""A refold spread over many tasks folds what a refold in one place folds, whatever is cut where."""

import asyncio
import tempfile

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from arco.log import Event, Place
from arco.runtime import DEFINITIONS
from arco.state import Definition
from arco.storage import LocalStore
from tests.spark.logs import Chance, TwoRunners, write_log
from tests.spark.memory import memory_session


def both(definition: Definition, segments: list[list[Event]], cores: int, seed: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:

        async def work() -> dict[str, int]:
            base, place = LocalStore(folder), Place("acme", "prod", "inc-1", definition.log)
            through = await write_log(base, place, segments)
            runners = TwoRunners(base, f"file://{folder}", place, memory_session(cores, seed))
            _, rows = await runners.compare(through)
            return rows

        return asyncio.run(work())


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda known: known.log)
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 1 << 30), cores=st.integers(1, 6), count=st.integers(1, 60))
def test_any_history_gives_the_same_tables(definition: Definition, seed: int, cores: int, count: int) -> None:
    both(definition, Chance(seed).segments(definition, count), cores, seed)

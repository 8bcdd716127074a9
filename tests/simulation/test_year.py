"""A year in short: whoever stops packing, collecting or letting history go is found out by the checks of the year.

That nothing fails when nothing is left out is a proof of its own: `python -m tests.prove --quick --only year`.
"""

from dataclasses import replace

import pytest

from tests.simulation.months import run
from tests.simulation.year import SHORT, Form, live_year
from tests.simulation.year_checks import judge

LONG = (pytest.mark.prove, pytest.mark.minutes)


def failing(form: Form) -> set[str]:
    return {check.what for check in judge(run(live_year(form))) if not check.holds}


@pytest.mark.parametrize(
    ("form", "found"),
    [
        pytest.param(replace(SHORT, packing=False), "bounded: segments that are not packed", id="packing"),
        pytest.param(replace(SHORT, collection=False), "flat: objects of state", id="collection", marks=LONG),
        pytest.param(replace(SHORT, history=False), "flat: rows of what expires", id="history", marks=LONG),
    ],
)
def test_what_is_left_out_is_found(form: Form, found: str) -> None:
    assert found in failing(form)

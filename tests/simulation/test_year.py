"""A year in short: what must be flat is flat, nothing is lost, and whoever stops packing or collecting is found out."""

from dataclasses import replace

import pytest

from tests.simulation.months import run
from tests.simulation.year import SHORT, Form, live_year
from tests.simulation.year_checks import judge


def failing(form: Form) -> dict[str, str]:
    return {check.what: check.detail for check in judge(run(live_year(form))) if not check.holds}


def test_a_year_in_short_is_flat_and_whole() -> None:
    assert failing(SHORT) == {}


@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        ({"packing": False}, "bounded: segments that are not packed"),
        ({"collection": False}, "flat: objects of state"),
        ({"history": False}, "flat: rows of what expires"),
    ],
    ids=["nothing is packed", "nothing is collected", "history is kept"],
)
def test_what_is_left_out_is_found(mutant: dict[str, bool], found: str) -> None:
    assert found in failing(replace(SHORT, **mutant))  # type: ignore[arg-type]

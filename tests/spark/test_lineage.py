"""Column lineage on real Spark: every case of the corpus is exact."""

from typing import TYPE_CHECKING

import pytest

from arco.spark._lineage import Dependency, PlanLineage, lineage_of
from tests.spark.cases import Case, build, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = cases("lineage")


def shown(lineage: PlanLineage) -> list[str]:
    """A lineage as the corpus writes it."""
    lines = []
    for column in lineage.columns:
        doubt = "" if column.confidence == "high" else f" ({column.confidence}: {column.reason})"
        lines.append(f"{column.name} <- {_edges((*column.direct, *column.indirect))}{doubt}")
    if lineage.rows:
        lines.append(f"rows <- {_edges(lineage.rows)}")
    if lineage.reason:
        lines.append(f"because {lineage.reason}")
    return lines


def _edges(dependencies: tuple[Dependency, ...]) -> str:
    by_kind: dict[str, list[str]] = {}
    for input, column, kind in dependencies:
        by_kind.setdefault(kind, []).append(f"{input}.{column}")
    return "; ".join(f"{kind} {', '.join(sorted(names))}" for kind, names in sorted(by_kind.items())) or "nothing"


def normal(line: str) -> str:
    """A line of the corpus, its edges in order."""
    target, arrow, edges = line.partition(" <- ")
    if not arrow or edges == "nothing" or edges.startswith("nothing ("):
        return line
    listed, bracket, doubt = edges.partition(" (")
    kinds = sorted(part.strip() for part in listed.split(";"))
    sides = [f"{kind} {', '.join(sorted(n.strip() for n in names.split(',')))}" for kind, _, names in map(_cut, kinds)]
    return f"{target} <- {'; '.join(sides)}{bracket}{doubt}"


def _cut(text: str) -> tuple[str, str, str]:
    return text.partition(" ")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_lineage_is_exactly_this(spark: "SparkSession", case: Case) -> None:
    assert shown(lineage_of(build(spark, case))) == [normal(line) for line in case.expected]

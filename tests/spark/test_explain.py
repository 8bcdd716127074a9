"""Lineage from the text of a plan: less exact, never silently wrong."""

from typing import TYPE_CHECKING

import pytest

from arco.spark._lineage import Dependency, lineage_from_explain, lineage_of
from tests.spark.cases import Case, build, cases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = cases("lineage")


def explained(frame: "DataFrame") -> str:
    """The part of an extended explain that counts; the others would optimise the plan, and so run some functions."""
    analysed = frame._jdf.queryExecution().analyzed()
    schema = ", ".join(f"{field.name}: {field.dataType.simpleString()}" for field in frame.schema)
    return f"== Analyzed Logical Plan ==\n{schema}\n{analysed.treeString(True, False, 1_000, False, False)}"


def sources(dependencies: tuple[Dependency, ...]) -> set[tuple[str, str]]:
    return {(dependency.input, dependency.column) for dependency in dependencies}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_text_names_every_source_or_says_that_it_does_not(spark: "SparkSession", case: Case) -> None:
    frame = build(spark, case)
    exact, found = lineage_of(frame), lineage_from_explain(explained(frame), columns=frame.columns)
    assert found.reason
    assert len(found.columns) == len(exact.columns)
    for mine, its in zip(found.columns, exact.columns, strict=True):
        assert mine.confidence != "high"
        known = sources((*mine.direct, *mine.indirect))
        assert mine.confidence == "low" or known >= sources((*its.direct, *its.indirect))
    assert sources(found.rows) >= sources(exact.rows) or any(column.confidence == "low" for column in found.columns)

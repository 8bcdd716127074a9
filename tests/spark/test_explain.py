"""Lineage from the text of a plan: less exact, never silently wrong."""

import re
from typing import TYPE_CHECKING

import pytest

from arco.domains.lineage import Confidence
from arco.spark import Dependency, PlanLineage, lineage_from_explain, lineage_of
from tests.spark.cases import Case, build, cases
from tests.spark.test_lineage import shown

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


def edges(lineage: PlanLineage) -> list[str]:
    """What is known, without how well."""
    lines = shown(lineage)
    return [re.sub(r" \((low|medium): .*", "", line) for line in lines if not line.startswith("because ")]


LOSSY = {
    "conditions: assert_true looks at its argument",
    "conditions: decode compares and picks",
    "conditions: nested nullif",
    "conditions: nullif gives its first argument or nothing",
    "conditions: nullif of nullif on the right",
    "conditions: nvl2 tests its first argument only",
    "frames: pandas on Spark",
    "generators: arrays zipped, then exploded",
    "generators: explode of structs built here, then a field",
    "generators: inline of structs built here takes fields apart and has a fixed size",
    "generators: json_tuple",
    "nested: a field of a struct built here is only what it was made of",
    "nested: a field of a struct in a struct built here",
    "nested: a struct built here of other types",
    "nested: a struct built here survives a filter",
    "nested: a struct built on both sides of a union",
    "nested: a struct of the row before",
    "nested: an element of an array of structs built here",
    "nested: an element of the structs of a group",
    "nested: one of two structs built here",
    "nested: the first struct of a group",
    "nested: the row of the newest time as a struct",
    "opaque: a pandas function over a window",
    "opaque: a pandas function that aggregates",
    "opaque: an Arrow function that aggregates",
    "projections: a cast to the same type changes nothing",
    "projections: a view of SQL in between is looked through",
    "sets: union by name with missing fields of structs",
    "subqueries: a function in SQL that asks a table",
    "subqueries: a table function in SQL",
    "subqueries: a table function in SQL alone",
}
"""Where the text shows less than the plan: what a function compares, which field of a struct is meant, the types."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_text_gives_the_same_edges_or_names_every_source_or_says_that_it_does_not(
    spark: "SparkSession", case: Case
) -> None:
    frame = build(spark, case)
    exact, found = lineage_of(frame), lineage_from_explain(explained(frame), columns=frame.columns)
    assert found.reason
    assert {column.confidence for column in found.columns} <= {Confidence.LOW, Confidence.MEDIUM}
    assert (edges(found) != edges(exact)) == (str(case) in LOSSY)
    for mine, its in zip(found.columns, exact.columns, strict=True):
        known = sources((*mine.direct, *mine.indirect))
        assert mine.confidence == Confidence.LOW or known >= sources((*its.direct, *its.indirect))

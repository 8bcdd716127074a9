"""Column lineage on real Spark: every case of the corpus is exact."""

from pathlib import Path
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


def test_what_is_below_the_alias_of_an_input_does_not_count(spark: "SparkSession", tmp_path: Path) -> None:
    """The executor prunes and unites files there, and Spark hides a column of its own in every file."""
    spark.range(3).selectExpr("id as k", "id * 2 as a").write.parquet(str(tmp_path / "x"))
    files = spark.read.parquet(str(tmp_path / "x"))
    x = files.where("k > 1").union(files.where("a > 2")).alias("arco_input_x")
    assert shown(lineage_of(x.select("a"))) == ["a <- IDENTITY x.a"]
    y = files.alias("arco_input_y")
    assert shown(lineage_of(y.selectExpr("a", "_metadata.file_name"))) == ["a <- IDENTITY y.a", "file_name <- nothing"]


def test_the_inputs_of_a_plan_are_those_that_occur_anywhere_in_it(spark: "SparkSession") -> None:
    x, y, z = (spark.range(3).selectExpr("id as k").alias(f"arco_input_{name}") for name in ("x", "y", "z"))
    y.createOrReplaceTempView("y")
    assert lineage_of(x.where("exists (select 1 from y)")).inputs == frozenset({"x", "y"})
    assert lineage_of(x.select("k")).inputs == frozenset({"x"})
    assert lineage_of(spark.range(1)).inputs == frozenset()
    assert lineage_of(z.union(x.localCheckpoint(eager=False))).inputs is None
    assert lineage_of(z.join(x.localCheckpoint(eager=False).select("k"), "k", "left_semi")).inputs is None


def test_rows_that_a_function_gathered_before_may_be_those_of_an_input(spark: "SparkSession") -> None:
    x = spark.range(3).selectExpr("id as k").alias("arco_input_x")
    gathered = spark.createDataFrame(x.toArrow())
    assert shown(lineage_of(gathered, learned=True)) == [
        "k <- nothing (low: comes from rows that the program gave itself, maybe those of an input)",
        "because jobs ran before the plan was made; what they found is in it without where it is from",
    ]
    found = lineage_of(x.where("k > 1").select("k"), learned=True)
    assert (found.exact, found.inputs) == (1, None)
    assert found.reason.startswith("jobs ran before")


def test_no_value_stands_in_a_lineage(spark: "SparkSession") -> None:
    x = spark.range(3).selectExpr("id as k", "'open' as b").alias("arco_input_x")
    frame = x.where("b = 'top secret'").selectExpr("case when b like 'top%' then 4711 else k end as v")
    assert "top" not in repr(lineage_of(frame))
    assert "4711" not in repr(lineage_of(frame))


def test_5000_columns_of_a_real_frame(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    x = spark.range(1).select(*(F.lit(at).alias(f"c{at}") for at in range(5_000))).alias("arco_input_x")
    lineage = lineage_of(x.select("*", (F.col("c1") + F.col("c2")).alias("s")).where("c3 > 1"))
    assert len(lineage.columns) == 5_001
    assert lineage.exact == 1
    assert [found.column for found in lineage.columns[-1].direct] == ["c1", "c2"]


def test_a_frame_that_gives_no_plan_gives_a_lineage_that_says_so() -> None:
    class Broken:
        columns = ("a",)

        def _explain_string(self, extended: bool) -> str:
            raise RuntimeError("secret")

    lineage = lineage_of(Broken())
    assert [column.name for column in lineage.columns] == ["a"]
    assert lineage.coverage == 0
    assert "secret" not in repr(lineage)

"""The proof that partitions do not mix: verdicts, and what runs over data if they are right."""

import datetime
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from arco.spark._mixing import Keys, partition_mixing
from tests.spark.cases import Case, build, cases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = cases("mixing")
PROVEN = [case for case in CASES if case.expected[0].startswith("proven")]
DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]


def keys_of(case: Case) -> Keys:
    """`x(day=day) z()` as the proof takes it."""
    inputs = re.findall(r"(\w+)\(([^)]*)\)", case.notes["keys"])
    return {name: dict(re.findall(r"(\w+)=(\w+)", key)) for name, key in inputs}


@pytest.fixture(scope="module")
def quick(spark: "SparkSession") -> "SparkSession":
    """A session that does not compile code for a few rows."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_verdict_is_this(spark: "SparkSession", case: Case) -> None:
    plan = build(spark, case)._jdf.queryExecution().analyzed().toJSON()
    verdict = partition_mixing(plan, keys_of(case))
    (expected,) = case.expected
    word, _, rest = expected.partition(" ")
    assert word == ("proven" if verdict.proven else "refused"), verdict.reason
    if verdict.proven:
        assert " ".join(f"{name}={column}" for name, column in verdict.columns.items()) == rest
    else:
        assert rest in verdict.reason


@pytest.mark.parametrize("case", PROVEN, ids=str)
def test_what_is_proven_gives_the_same_rows_at_once_and_one_by_one(quick: "SparkSession", case: Case) -> None:
    keys = keys_of(case)
    places = sorted({name for key in keys.values() for name in key})
    partitions = [{"day": day, "region": region} for day in DAYS for region in ("a", "b", "c")]
    wanted = {tuple(partition[place] for place in places): partition for partition in partitions}

    def run(partition: Mapping[str, Any]) -> "DataFrame":
        def only(frame: "DataFrame", name: str) -> "DataFrame":
            for place, column in keys.get(name, {}).items():
                frame = frame.where(frame[column] == partition[place]) if partition else frame
            return frame

        return build(quick, case, only)

    at_once = Counter(map(str, run({}).collect()))
    parts = [run(partition) for partition in wanted.values()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    assert Counter(map(str, whole.collect())) == at_once
    assert at_once

"""Cases as text: `tests/spark/<folder>/*.txt`.

    <input>: <schema>                       inputs of every case of the file
    === <name of the case>
    <input>: <schema>                       inputs of this case only
    --- sql                                 or `--- python`: code that makes `out` of the inputs, `spark`, `F`, `Window`
    select a from x where k > 1
    --- lineage                             or another word: what is expected, a line each
    a <- IDENTITY x.a
    rows <- FILTER x.k

Lines that start with `#` are comments.
"""

import datetime
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Case", "build", "cases", "inputs"]

HERE = Path(__file__).parent


class Case(NamedTuple):
    file: str
    name: str
    inputs: Mapping[str, str]
    language: str
    code: str
    section: str
    """What is expected is a text of this kind."""
    expected: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


def cases(folder: str) -> list[Case]:
    found = [case for path in sorted((HERE / folder).glob("*.txt")) for case in _read(path)]
    assert len({str(case) for case in found}) == len(found), "two cases of one name"
    return found


def _read(path: Path) -> Iterator[Case]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    head, *parts = "\n".join(lines).split("\n=== ")
    common = _schemas(head)
    for part in parts:
        top, code, expected = part.split("\n--- ")
        name, _, own = top.partition("\n")
        language, _, text = code.partition("\n")
        section, _, wanted = expected.partition("\n")
        given = tuple(line.strip() for line in wanted.splitlines() if line.strip())
        yield Case(path.stem, name.strip(), {**common, **_schemas(own)}, language.strip(), text, section, given)


def _schemas(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip(): schema.strip() for name, _, schema in pairs}


def inputs(spark: "SparkSession", case: Case) -> "dict[str, DataFrame]":
    """Frames as the executor gives them: each below its alias, and a view of its name for SQL."""
    frames = {name: _frame(spark, name, schema) for name, schema in case.inputs.items()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return frames


@cache
def _frame(spark: "SparkSession", name: str, schema: str) -> "DataFrame":
    return spark.createDataFrame([], schema).alias(f"arco_input_{name}")


def build(spark: "SparkSession", case: Case) -> "DataFrame":
    """The frame that the code of a case makes."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    frames = inputs(spark, case)
    if case.language == "sql":
        return spark.sql(case.code)
    names: dict[str, Any] = {**frames, "spark": spark, "F": F, "Window": Window, "date": datetime.date}
    exec(case.code, names)  # noqa: S102  the code of the fixtures next to this file
    frame: DataFrame = names["out"]
    return frame

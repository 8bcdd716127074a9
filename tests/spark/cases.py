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
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Case", "build", "cases"]

ROWS = 40
HERE = Path(__file__).parent


Change = Callable[["DataFrame", str], "DataFrame"]


class Case(NamedTuple):
    file: str
    name: str
    inputs: Mapping[str, str]
    notes: Mapping[str, str]
    """What stands beside the inputs and is none: `keys`."""
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
        schemas = {**common, **_schemas(own)}
        notes = {note: schemas.pop(note) for note in ("keys",) if note in schemas}
        yield Case(path.stem, name.strip(), schemas, notes, language.strip(), text, section, given)


def _schemas(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip(): schema.strip() for name, _, schema in pairs}


def build(spark: "SparkSession", case: Case, change: Change = lambda frame, name: frame) -> "DataFrame":
    """The frame that the code of a case makes of frames as the executor gives them.

    Each input stands below its alias, and is a view of its name for SQL. `change` is applied below the alias.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

    frames = {
        name: change(_frame(spark, schema), name).alias(f"arco_input_{name}") for name, schema in case.inputs.items()
    }
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    if case.language == "sql":
        return spark.sql(case.code)
    names: dict[str, Any] = {**frames, "spark": spark, "F": F, "Window": Window}
    exec(case.code, names)  # noqa: S102  the code of the fixtures next to this file
    made: DataFrame = names["out"]
    return made


@cache
def _frame(spark: "SparkSession", schema: str) -> "DataFrame":
    """A few rows that differ in every column, the same in every run."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType, _parse_datatype_string

    fields = _parse_datatype_string(schema)
    assert isinstance(fields, StructType)
    chance = Random(schema)
    rows = [{field.name: _value(field.dataType.simpleString(), chance) for field in fields} for _ in range(ROWS)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(fields)))


def _value(kind: str, chance: Random) -> Any:
    """Few different values, so that keys meet."""
    if kind == "int":
        return chance.randint(0, 4)
    if kind == "string":
        return chance.choice("abc")
    if kind == "date":
        return datetime.date(2024, 1, chance.randint(1, 3))
    if kind == "array<int>":
        return [chance.randint(0, 4) for _ in range(chance.randint(0, 3))]
    return None

"""Outputs: what a function returned, looked at before anything is written, then written as Parquet.

    check_frame   is it a frame that can be kept at all?
    arrow_schema  its columns, as the catalog understands them; whoever declares columns compares these
    write_frame   one Spark job into the folder of the version, which nobody else writes to

Spark writes below `_temporary` and moves whole files into the folder when the job has succeeded. What is there then is
the output, and of it only the files that are told of count.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from arco.core import Invalid
from arco.spark._errors import BadFrame, NothingReturned, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MAX_COLUMNS", "MAX_FILE_ROWS", "analysed_plan", "arrow_schema", "check_frame", "empty_file", "write_frame"]

SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
"""Under which a file that Spark wrote has its columns as Spark knows them."""
MAX_COLUMNS: Final = 2_000
"""Of one frame: each is a buffer in every task that writes."""
MAX_FILE_ROWS: Final = 5_000_000
"""Rows of one file at most, so that a skewed partition becomes several files."""


def check_frame(key: str, value: Any) -> "DataFrame":
    """The frame that an asset's function returned; `BadFrame` if it is none that can be kept."""
    from pyspark.sql import DataFrame

    if value is None:
        raise NothingReturned(
            f"the function of {key} returned None; return the DataFrame it made (a write or an action returns none)"
        )
    if not isinstance(value, DataFrame):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise BadFrame(
            f"the function of {key} runs on Spark and returned {kind}; return a Spark DataFrame, such as "
            "context.spark.createDataFrame(value), or let it run on Python with engine='python'"
        )
    if _is_of_the_past(value):
        raise BadFrame(
            f"the function of {key} returned a DataFrame of a session that was stopped; remove spark.stop(), the "
            "session belongs to the worker"
        )
    if value.isStreaming:
        raise BadFrame(
            f"the function of {key} returned a stream, which has no end that a version could be made of; read with "
            "spark.read instead of spark.readStream"
        )
    _check_names(key, value.columns)
    return value


def arrow_schema(key: str, frame: "DataFrame", required: Sequence[str] = ()) -> bytes:
    """The serialized Arrow schema of a frame. Columns are nullable but for the required ones: what Spark derives from a
    plan changes with the plan."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import NullType

    for field in frame.schema.fields:
        if isinstance(field.dataType, NullType):
            raise BadFrame(
                f"the column {field.name} that {key} returned has no type, because it is NULL everywhere; write "
                f"CAST(NULL AS STRING) or lit(None).cast('string')"
            )
    try:
        schema = to_arrow_schema(frame.schema)
    except PySparkException as error:
        raise BadFrame(
            f"{key} returned a column of a type that no table can have: {text_of(error)[:300]}; cast it"
        ) from error
    fields = [field.with_nullable(field.name not in required) for field in schema]
    return bytes(pa.schema(fields).serialize().to_pybytes())


def write_frame(key: str, frame: "DataFrame", folder: str) -> None:
    """Write a frame as Parquet into a folder that does not exist yet."""
    try:
        frame.write.mode("error").option("maxRecordsPerFile", MAX_FILE_ROWS).parquet(folder)
    except Exception as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            raise Invalid(
                f"the folder of the new version of {key} has files already; only the worker writes there: remove what "
                "writes to it from the functions of the project"
            ) from error
        raise


def empty_file(frame: "DataFrame") -> bytes:
    """A file with the columns of a frame and no rows, as Spark would write it."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import to_arrow_schema

    metadata = {SPARK_SCHEMA: frame.schema.json().encode()}
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([], to_arrow_schema(frame.schema).with_metadata(metadata)), sink)
    return sink.getvalue()


def analysed_plan(frame: "DataFrame") -> str | None:
    """The analysed plan of a frame as JSON, with expression ids; None where Spark Connect hides it."""
    plan = getattr(frame, "_jdf", None)
    return None if plan is None else str(plan.queryExecution().analyzed().toJSON())


def _is_of_the_past(frame: "DataFrame") -> bool:
    context = getattr(frame.sparkSession, "_sc", None)
    return context is not None and context._jsc is None  # there is none with Spark Connect: its server answers for it


def _check_names(key: str, names: Sequence[str]) -> None:
    if not names:
        raise BadFrame(f"the DataFrame that {key} returned has no columns; select at least one")
    if len(names) > MAX_COLUMNS:
        raise BadFrame(
            f"the DataFrame that {key} returned has {len(names):,} columns, and a table has at most {MAX_COLUMNS:,}; "
            "turn columns into rows (unpivot), or keep them in an array, a map or a struct"
        )
    counts = Counter(name.lower() for name in names)
    double = [name for name in names if counts[name.lower()] > 1]
    if double:
        raise BadFrame(
            f"the DataFrame that {key} returned has columns of the same name, which may not differ in case alone: "
            f"{', '.join(double[:10])}; rename or drop one, such as after a join"
        )

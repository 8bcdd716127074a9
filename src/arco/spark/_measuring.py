"""Rules on Spark: aggregates ride on the write, the rest is asked of what was written.

    audit = Audit(asset.checks, frame, views)       before the write
    audit.frame.write ...                            the aggregates ride on it
    audit.values(session, written, inputs)           afterwards: what rode, and what was asked

`observed`, `observed_values` and `queried` are its steps; `grouped` measures many partitions of one frame in one job.

Spark may not tell what was observed: the plan may have been optimised around it, or its listener be late. Then the
aggregates are asked for in a query over what was written. The time zone of the session must be UTC, as it is for times
without one.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from arco.assets import (
    DATA,
    UNKNOWN,
    CheckDefinition,
    Dialect,
    Measure,
    NoValue,
    Query,
    Questions,
    SchemaColumn,
    Views,
    ask,
    questions_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

__all__ = ["Audit", "Found", "answered", "columns_of", "grouped", "observed", "observed_values", "queried"]

Found = dict[str, int | float | NoValue | None]
"""Numbers by the names of measures and queries."""

OBSERVED_SECONDS: Final = 10.0
"""How long to wait for what was observed after the write has ended."""
_TYPES: Final = {
    "tinyint": "int",
    "smallint": "int",
    "bigint": "long",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "void": UNKNOWN,
}
"""Types that Spark calls otherwise than the catalog; of nested ones no rule asks for more than their name."""
_REASON_MAX: Final = 300


class Audit:
    """The rules of one asset on one frame.

    What rides is computed by the first action on `frame`, which should be its write: no shuffle may come after it,
    because a stage that is repeated would be counted twice.
    """

    def __init__(self, checks: Sequence[CheckDefinition], frame: "DataFrame", views: Views) -> None:
        self.questions = questions_of(checks, columns_of(frame), views)
        self.frame, self._observation = observed(frame, self.questions.riding)

    def values(
        self,
        session: "SparkSession",
        written: "DataFrame",
        inputs: "Mapping[str, Callable[[], DataFrame]]",
        seconds: float = OBSERVED_SECONDS,
    ) -> Found:
        """All numbers. `written` reads what was written; `inputs` are opened as far as queries name them."""
        riding = self.questions.riding
        known = observed_values(self._observation, riding, seconds, lambda missing: {})
        return answered(session, self.questions, written, inputs, known)


def answered(
    session: "SparkSession",
    questions: Questions,
    written: "DataFrame",
    inputs: "Mapping[str, Callable[[], DataFrame]]",
    known: Found,
) -> Found:
    """All numbers that rules ask for; those that are not known yet are asked of what was written."""
    written.createOrReplaceTempView(DATA)
    for view in questions.views & inputs.keys():
        # One that is no table is not there for the query, which then says so.
        with suppress(Exception):
            inputs[view]().createOrReplaceTempView(view)
    missing = [measure for measure in (*questions.riding, *questions.measures) if measure.name not in known]
    return known | queried(session, missing, questions.queries)


def columns_of(frame: "DataFrame") -> tuple[SchemaColumn, ...]:
    """The columns of a frame, as rules are compared with them."""
    return tuple(
        SchemaColumn(field.name, _TYPES.get(kind := field.dataType.simpleString(), kind), field.nullable)
        for field in frame.schema.fields
    )


def observed(frame: "DataFrame", measures: Sequence[Measure]) -> "tuple[DataFrame, Observation | None]":
    """The frame, whose first action computes all measures. None if Spark refuses them: they are asked for later."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    if not measures:
        return frame, None
    columns = [functions.expr(measure.spark).alias(measure.name) for measure in measures]
    observation = _observation(frame)
    try:
        return frame.observe(observation, *columns), observation
    except PySparkException:
        return frame, None


def _observation(frame: "DataFrame") -> "Observation":
    """One that nobody else has: without a name, Spark makes one up."""
    if type(frame).__module__.startswith("pyspark.sql.connect."):
        from pyspark.sql.connect.observation import Observation as ConnectObservation

        return ConnectObservation()  # type: ignore[return-value]  # the same methods
    from pyspark.sql import Observation

    return Observation()


def observed_values(
    observation: "Observation | None",
    measures: Sequence[Measure],
    seconds: float,
    fallback: Callable[[Sequence[Measure]], Mapping[str, int | float | NoValue | None]],
) -> Found:
    """What was observed once the action is over; `fallback` is asked for what is not told within so many seconds."""
    told = {} if observation is None else _told(observation, seconds)
    found: Found = {measure.name: told[measure.name] for measure in measures if measure.name in told}
    missing = [measure for measure in measures if measure.name not in found]
    return found | dict(fallback(missing)) if missing else found


def _told(observation: "Observation", seconds: float) -> dict[str, Any]:
    """Spark waits for ever for what never comes; so another thread waits, and may do so until the process ends."""
    from threading import Thread

    told: list[dict[str, Any]] = []

    def wait() -> None:
        try:
            told.append(dict(observation.get))
        except Exception:  # noqa: BLE001  Whatever it raises, there is nothing.
            told.append({})

    waiting = Thread(target=wait, name="arco-observation", daemon=True)
    waiting.start()
    waiting.join(seconds)
    return told[0] if told else {}


def queried(session: "SparkSession", measures: Sequence[Measure], queries: Sequence[Query] = ()) -> Found:
    """Ask for what did not ride. `data` and the inputs of the queries are registered in the session."""
    return dict(ask(lambda text: tuple(session.sql(text).collect()[0]), Dialect.SPARK, _reason, measures, queries))


def grouped(frame: "DataFrame", keys: Sequence[str], measures: Sequence[Measure]) -> dict[tuple[Any, ...], Found]:
    """The measures of each partition of a frame that holds several, by the values of its key columns, in one job."""
    from pyspark.sql import functions

    columns = [functions.expr(measure.spark).alias(measure.name) for measure in measures]
    rows = frame.groupBy(*keys).agg(*columns).collect() if columns else []
    names = [measure.name for measure in measures]
    return {tuple(row[key] for key in keys): {name: row[name] for name in names} for row in rows}


def _reason(error: Exception) -> str:
    """Why there is no number. What Spark says of the text is told, what it says of values is not."""
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):
        return str(error).partition("\n")[0][:_REASON_MAX]
    return f"its query failed with {type(error).__name__} while it ran"

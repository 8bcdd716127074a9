"""Which runner does the heavy work of state: the one in this process, or the one on Spark.

`auto` goes by size: a Spark application takes seconds to start, so it pays only for what takes this process longer than
that. Without PySpark or Java `auto` means here, and `spark` says what is missing.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from arco.core import Invalid, Runtime
from arco.log import Place, decode_segment
from arco.spark._errors import SparkUnavailable
from arco.spark._runner import sample_numbers
from arco.spark._session import find_java
from arco.spark._settings import DEFAULT_MASTER
from arco.state import File, Layout, Manifest, MergeJob, RefoldJob, Runner
from arco.storage import Sequence, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ChoosingRunner", "CompactionEngine", "missing_for_spark", "require_spark", "spark_sessions"]

SPARK_FROM_EVENTS = 800_000
"""A log of fewer events is folded faster here (docs/measurements.md)."""

SPARK_FROM_ROWS = 2_300_000
"""A table of fewer rows is merged faster here."""

SAMPLES = 8
JAVA = 17


class CompactionEngine(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class ChoosingRunner:
    """Gives each job to the runner that the engine means, and tells which. Implements `Runner`."""

    def __init__(
        self,
        engine: CompactionEngine,
        local: Runner,
        spark: Runner,
        store: Store,
        place: Place,
        runtime: Runtime,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._engine = engine
        self._local = local
        self._spark = spark
        self._store = store
        self._place = place
        self._runtime = runtime
        self._tell = tell

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        rows = sum(layer.rows for layer in job.layers)
        runner = self._choose(f"merging {rows:,} rows of {job.table.name}", rows, SPARK_FROM_ROWS)
        return await runner.merge(job)

    async def is_bulk(self, after: int, through: int) -> bool:
        """Whether new segments are worth a job of their own. Else they are folded as ever, in memory."""
        if self._engine is CompactionEngine.AUTO:
            return await self._estimate(after, through) >= SPARK_FROM_EVENTS and missing_for_spark() is None
        return self._engine is CompactionEngine.SPARK

    async def refold(self, job: RefoldJob) -> Manifest:
        after = job.base.link.number if job.base is not None else 0
        events = await self._estimate(after, job.through) if self._engine is CompactionEngine.AUTO else 0
        size = f"about {events:,} events" if events else f"{job.through - after:,} segments"
        runner = self._choose(f"folding {size} of {self._place.log}", events, SPARK_FROM_EVENTS)
        return await runner.refold(job)

    def _choose(self, what: str, size: int, threshold: int) -> Runner:
        if self._engine is CompactionEngine.LOCAL:
            return self._local
        if self._engine is CompactionEngine.SPARK:
            self._tell(f"{what} on Spark")
            return self._spark
        if size < threshold:
            return self._local
        trouble = missing_for_spark()
        if trouble is not None:
            self._tell(f"{what} in this process; Spark would be faster: {trouble}")
            return self._local
        self._tell(f"{what} on Spark, because they are {threshold:,} or more")
        return self._spark

    async def _estimate(self, after: int, through: int) -> int:
        """About how many events the segments after a number have, by a few of them."""
        if through <= after:
            return 0
        log = Sequence(self._store, Layout(self._place).ledger, self._runtime)
        numbers = sample_numbers(after, through, SAMPLES)
        counts = [len(decode_segment(await log.read_known(number), log.path(number)).events) for number in numbers]
        return (through - after) * sum(counts) // len(counts)


def missing_for_spark() -> str | None:
    """What keeps Spark from starting here, and the cure; None if nothing is known to."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "PySpark is not installed; install it with: pip install 'arco[spark]'"
    try:
        find_java()
    except SparkUnavailable as error:
        return str(error)
    return None


def require_spark() -> None:
    """`Invalid` with the cure if Spark cannot start here."""
    trouble = missing_for_spark()
    if trouble is not None:
        raise Invalid(f"{trouble}; or leave out `--engine spark`")


@contextmanager
def spark_sessions(master: str = DEFAULT_MASTER) -> "Iterator[Callable[[], SparkSession]]":
    """Gives what starts a session when it is first needed; that session ends here."""
    started: list[Any] = []

    def start() -> "SparkSession":
        if not started:
            require_spark()
            started.append(_start(master))
        return started[0]  # type: ignore[no-any-return]

    try:
        yield start
    finally:
        for session in started:
            session.stop()


def _start(master: str) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.python.daemon.module": "arco.spark._daemon",
        # Parcels are compressed already.
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.master(master).appName("arco compaction").getOrCreate()
    except PySparkException as error:
        raise Invalid(
            f"Spark did not start at {master}: {str(error).splitlines()[0]}; Java {JAVA} or newer is needed, and "
            "a master that answers"
        ) from error

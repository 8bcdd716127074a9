"""Which runner does the heavy work of state: the one in this process, or the one on Spark.

`auto` goes by size: a Spark application takes seconds to start, so it pays only for what takes this process longer than
that. Where Spark cannot start (no PySpark, no Java, a master that does not answer, a server of Spark Connect) `auto`
means here, and `spark` says what is missing.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arco.core import Invalid, Runtime, Unavailable, check_master
from arco.log import Place, decode_segment
from arco.spark._errors import SparkFailed, SparkUnavailable, SparkUnreachable, text_of
from arco.spark._jobs import NO_CONNECT
from arco.spark._runner import sample_numbers
from arco.spark._session import ClassicApplication, check_reachable, find_java
from arco.spark._settings import DEFAULT_MASTER, SparkSettings
from arco.state import File, Manifest, MergeJob, RefoldJob, Revisions, Runner, open_ledger
from arco.storage import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ChoosingRunner", "CompactionEngine", "master_for", "missing_for_spark", "require_spark", "spark_sessions"]

SPARK_FROM_EVENTS = 400_000
"""A log of fewer events is folded faster here (docs/measurements.md)."""

SPARK_FROM_ROWS = 1_400_000
"""A table of fewer rows is merged faster here."""

SAMPLES = 8

_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.python.daemon.module": "arco.spark._daemon",
    # Parcels are compressed already.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Spark looks at these checksums only where it meets a damage that it can see, and it looks into no parcel.
    "spark.shuffle.checksum.enabled": "false",
    # Processes of executors keep the memory they freed, that of Arrow included: they need it again at once, and a page
    # that comes new from the system is zeroed and mapped first, and costs less if it is a large one
    # (docs/measurements.md).
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    # Java only passes parcels on: what its second compiler and parallel collector take, Python lacks.
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}
_SOCKET_FOLDER: Final = 60
"""In bytes. PySpark gives a socket a name of 42, and no system takes a path much longer than a hundred."""


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
        master: str = DEFAULT_MASTER,
    ) -> None:
        self._engine = engine
        self._local = local
        self._spark = spark
        self._store = store
        self._place = place
        self._runtime = runtime
        self._tell = tell
        self._master = master

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        rows = sum(layer.rows for layer in job.layers)
        runner = self._choose(f"merging {rows:,} rows of {job.table.name}", rows, SPARK_FROM_ROWS)
        try:
            return await runner.merge(job)
        except Unavailable as error:
            self._tell(error.message)  # whoever waits for the merge has it done once more, and says nothing
            raise

    async def is_bulk(self, after: int, through: int) -> bool:
        """Whether new segments are worth a job of their own. Else they are folded as ever, in memory."""
        if self._engine is not CompactionEngine.AUTO:
            return self._engine is CompactionEngine.SPARK
        events = await self._estimate(after, through)
        return events >= SPARK_FROM_EVENTS and self._is_possible(
            f"folding about {events:,} events of {self._place.log}"
        )

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
        if not self._is_possible(what):
            return self._local
        self._tell(f"{what} on Spark, because they are {threshold:,} or more")
        return self._spark

    def _is_possible(self, what: str) -> bool:
        """Whether Spark can start. Else it tells why the work that Spark was meant for is done here."""
        trouble = missing_for_spark(self._master)
        if trouble is not None:
            self._tell(f"{what} in this process; Spark would be faster: {trouble}")
        return trouble is None

    async def _estimate(self, after: int, through: int) -> int:
        """About how many events the segments after a number have, by a few of them."""
        if through <= after:
            return 0
        log = open_ledger(self._store, Revisions(self._store, self._place, self._runtime))
        numbers = sample_numbers(after, through, SAMPLES)
        counts = [len(decode_segment(await log.read(number), log.path(number)).events) for number in numbers]
        return (through - after) * sum(counts) // len(counts)


def master_for(engine: CompactionEngine, given: str | None, setting: str) -> str:
    """The master that `--master` or else the setting names; `Invalid` if `engine` can do nothing with it."""
    if engine is CompactionEngine.LOCAL:
        if given is not None:
            raise Invalid(
                "--master says where Spark runs, and `--engine local` does without Spark; leave out one of them"
            )
        return setting
    master = setting if given is None else check_master(given, connect=False)
    # What was set for workers is no mistake here, as long as nobody insists on Spark.
    if SparkSettings(master).is_connect and (given is not None or engine is CompactionEngine.SPARK):
        raise Invalid(NO_CONNECT)
    return master


def missing_for_spark(master: str = DEFAULT_MASTER) -> str | None:
    """What keeps Spark from starting here, and the cure; None if nothing is known to."""
    trouble = _missing_here()
    if trouble is None and SparkSettings(master).is_connect:
        return NO_CONNECT
    if trouble is None:
        try:
            _check_master_answers(master)
        except SparkUnreachable as error:
            return error.message
    return trouble


def require_spark(master: str = DEFAULT_MASTER) -> None:
    """`Invalid` with the cure if Spark cannot start here, `Unavailable` if its master does not answer."""
    trouble = _missing_here()
    if trouble is not None:
        raise Invalid(f"{trouble}; or leave out `--engine spark`")
    _check_master_answers(master)


def _missing_here() -> str | None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "PySpark is not installed; install it with: pip install 'arco[spark]'"
    try:
        find_java()
    except SparkUnavailable as error:
        return str(error)
    return None


def _check_master_answers(master: str) -> None:
    if master.startswith("spark://"):
        check_reachable(master)


@contextmanager
def spark_sessions(master: str = DEFAULT_MASTER) -> "Iterator[Callable[[], SparkSession]]":
    """Gives what starts an application when it is first needed, and its session; it ends here."""
    started: list[ClassicApplication] = []
    with tempfile.TemporaryDirectory(prefix="arco-spark-", ignore_cleanup_errors=True) as scratch:

        def start() -> "SparkSession":
            if not started:
                require_spark(master)
                started.append(_start(master, Path(scratch)))
            fate = started[0].fate()
            if fate is not None:  # whoever tries again would do so for ever
                raise SparkFailed(f"Spark at {master} has ended: {fate}; start again, or use `--engine local`")
            return started[0].session

        try:
            yield start
        finally:
            for application in started:
                application.stop()


def _start(master: str, scratch: Path) -> ClassicApplication:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    # Executors on other machines have Python in the same place, unless somebody says otherwise.
    python = {"spark.pyspark.python": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    settings = SparkSettings(master, {**_CONF, **python, **sockets(master, scratch)})
    try:
        return ClassicApplication(settings, "arco compaction", scratch, {})
    except (ConnectionError, Py4JError, PySparkException) as error:
        raise SparkUnavailable(
            f"Spark did not start at {master}: {text_of(error)}; check the master and the settings of Spark, or use "
            "`--engine local`"
        ) from error


def sockets(master: str, scratch: Path) -> dict[str, str]:
    """On one machine parcels pass between Java and Python through sockets of Unix, which take a third less of Java's
    time than TCP. Whoever may open one is not asked for a secret, so they lie in a folder that is ours alone; executors
    elsewhere do not have it."""
    if not SparkSettings(master).is_local or len(os.fsencode(scratch)) > _SOCKET_FOLDER:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(scratch)}

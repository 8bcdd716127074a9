"""`SparkMerger`: small files of data merged on a cluster, by the very code that merges them in one process.

    merges -> one task each -> executors read files from the store and write one into it -> what they wrote

Nothing but paths and footers passes through Spark, so both engines write the same files.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from arco.core import ArcoError, Runtime, Unavailable
from arco.domains.execution import DataFile
from arco.runtime import AsyncRuntime
from arco.servo import Merge, NotMerged, write_merged
from arco.spark._jobs import Share, on_spark
from arco.spark._site import Site, drive, reraise
from arco.storage import Role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SPARK_FROM_BYTES", "SparkMerger"]

SPARK_FROM_BYTES: Final = 2 << 30
"""Less than this is merged faster here, because Spark takes seconds to start (docs/measurements.md)."""

Error = tuple[str, str]


class SparkMerger:
    """Implements `Merger`."""

    room = 8 << 30
    """What a small cluster merges in a few minutes: a compaction must not take long."""

    def __init__(self, site: Site, runtime: Runtime, session: "Callable[[], SparkSession]") -> None:
        """`session` starts or finds a session when there is something to do for it."""
        self._site = site
        self._runtime = runtime
        self._session = session

    async def merge(self, merges: Sequence[Merge]) -> list[DataFile | NotMerged]:
        if not merges:
            return []

        def work(spark: Any, share: Share) -> list[DataFile | NotMerged | Error]:
            context = spark.sparkContext
            found: list[Any] = context.parallelize(merges, len(merges)).map(partial(_merge, self._site)).collect()
            return found

        results = await on_spark(self._runtime, self._session, "merge of small files", work)
        for result in results:
            if isinstance(result, tuple):
                reraise(result)
        return [result for result in results if not isinstance(result, tuple)]


def _merge(site: Site, merge: Merge) -> DataFile | NotMerged | Error:
    """A task of an executor. Of errors that a repetition may help against Spark hears, which tries it elsewhere."""
    runtime = AsyncRuntime()
    try:
        reader, writer = site.store(runtime, Role.READER), site.store(runtime, Role.WORKER)
        return drive(write_merged(reader, writer, runtime, merge))
    except Unavailable:
        raise
    except ArcoError as error:
        return type(error).__name__, error.message

"""A job of Spark beside the loop: started when it is needed, watched, and cancelled by whoever stops waiting."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from arco.core import Refused, Runtime, Unavailable, new_ulid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NO_CONNECT", "Share", "on_spark"]

T = TypeVar("T")

WATCH_SECONDS = 0.5

NO_CONNECT: Final = (
    "compaction needs a Spark application of its own, which Spark Connect (sc://) does not give; name a master with "
    "--master, such as spark://host:7077 or local[*], or use `--engine local`"
)
"""Executors run functions of ours, and Spark Connect takes nothing but queries."""


@dataclass
class Share:
    """Which part of a job runs, for whoever watches: from one fraction of the whole to another."""

    start: float = 0.0
    end: float = 1.0


async def on_spark(
    runtime: Runtime,
    session: "Callable[[], SparkSession]",
    what: str,
    work: Callable[[Any, Share], T],
    progress: Callable[[float], None] = lambda done: None,
) -> T:
    """Run blocking calls of Spark beside the loop, and tell how far they are.

    `session` starts or finds a session when there is something to do for it.
    """
    name, share = new_ulid(runtime, runtime), Share()
    contexts: list[Any] = []

    def run() -> T:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        spark: Any = session()
        if not hasattr(spark, "_jsparkSession"):
            raise Refused(NO_CONNECT)
        context = spark.sparkContext
        contexts.append(context)
        context.setJobGroup(name, what)
        try:
            return work(spark, share)
        except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
            raise Unavailable(
                f"the {what} on Spark did not end: {_reason(error)}; try again, or use `--engine local`"
            ) from error
        finally:
            with suppress(Py4JError, ConnectionError):  # if Spark is gone, that is told already
                context.setLocalProperty("spark.jobGroup.id", None)

    async def watch() -> None:
        while True:
            await runtime.sleep(WATCH_SECONDS)
            if contexts:
                progress(share.start + (share.end - share.start) * _done(contexts[0], name))

    watching = runtime.spawn(watch(), f"progress of the {what}")
    try:
        return await runtime.offload(run)
    except BaseException:
        if contexts:
            with suppress(Exception):  # Spark may be gone, which is why
                contexts[0].cancelJobGroup(name)  # who stops waiting does not stop the thread
        raise
    finally:
        watching.cancel()


def _done(context: Any, group: str) -> float:
    """Which part of its tasks the running job of a group has done."""
    tracker = context.statusTracker()
    for job in sorted(tracker.getJobIdsForGroup(group), reverse=True)[:1]:
        found = tracker.getJobInfo(job)
        stages = [tracker.getStageInfo(stage) for stage in found.stageIds] if found else []
        known = [stage for stage in stages if stage is not None and stage.numActiveTasks]
        tasks = sum(stage.numTasks for stage in known)
        return sum(stage.numCompletedTasks for stage in known) / tasks if tasks else 0.0
    return 0.0


def _reason(error: Exception) -> str:
    """The line of a long story that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by:", "arco.core."))]
    return (causes or lines or [type(error).__name__])[-1][:300]

"""A server of Spark Connect as the application of a driver: no JVM here, a session on the server for each task.

The server must see the store under the same paths. What its administrator has set for the whole server stays as it is.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from arco.spark._errors import SparkUnavailable, SparkUnreachable, text_of
from arco.spark._session import check_reachable
from arco.spark._settings import Progress, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ConnectApplication"]

_CONF = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""What `pyspark.sql.functions` look at to make columns for Spark Connect. After a task the environment is as before."""


class ConnectApplication:
    """Implements `Application`."""

    def __init__(self, settings: SparkSettings) -> None:
        check_reachable(settings.master)
        self.pid = 0
        self.concurrent = False
        self._settings = settings
        self._archives: list[str] = []
        self._session: Any = None
        self._progress: Progress | None = None

    def add_code(self, archive: str) -> None:
        """Let executors import what a file holds; each session gets it anew."""
        self._archives.append(archive)

    def open(self, tag: str, title: str, conf: Mapping[str, str]) -> "SparkSession":
        try:
            from pyspark.sql.connect.session import SparkSession
        except ImportError as error:
            raise SparkUnavailable(
                f"Spark Connect cannot be used: {error}; install it with: pip install 'arco[spark]'"
            ) from error
        self.close()  # of a batch whose tasks come one after the other, none needs the session of the one before
        os.environ[_MODE] = "1"
        try:
            session: Any = SparkSession.builder.remote(self._settings.master).create()
            for name, value in {**_CONF, **self._settings.conf, **conf}.items():
                session.conf.set(name, value)
            if self._archives:
                session.addArtifacts(*self._archives, pyfile=True)
        except Exception as error:
            if "UNAVAILABLE" in str(error):
                raise SparkUnreachable(
                    f"Spark Connect at {self._settings.master} does not answer: {text_of(error)[:300]}"
                ) from error
            raise
        session.addTag(tag)
        session.registerProgressHandler(self._on_progress)
        self._session, self._progress = session, None
        return session  # type: ignore[no-any-return]

    def activate(self, session: "SparkSession") -> None:
        pass  # the one that was created last is found

    def jobs(self, tag: str) -> int:
        return 0  # the server does not say

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # it may be gone already, and ends by itself in any case
                session.stop()

    def interrupt(self, tag: str) -> None:
        session = self._session
        if session is not None:
            session.interruptTag(tag)

    def progress(self) -> Progress | None:
        return self._progress

    def fate(self) -> BaseException | None:
        return None

    def _on_progress(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        running = [] if done else list(stages or ())
        self._progress = Progress(
            tasks_done=sum(stage.num_completed_tasks for stage in running),
            tasks_total=sum(stage.num_tasks for stage in running),
        )

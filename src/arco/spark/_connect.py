"""A server of Spark Connect as the application of a driver: no JVM here, a session on the server for each task.

The server must see the store under the same paths. What its administrator has set for the whole server stays as it is.
A server that goes away takes its sessions along: whatever ran there is lost, also if another one comes in its place.
"""

import contextlib
import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from arco.spark._errors import SparkUnavailable, SparkUnreachable, text_of
from arco.spark._session import check_reachable
from arco.spark._settings import Progress, SparkSettings, address_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ConnectApplication"]

_CONF = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

RETRIES: Final = 8
"""Of a question that the server does not answer, for 45 seconds altogether; PySpark itself asks for ten minutes."""
RETRY_MILLISECONDS: Final = 10_000
"""Between two of them at most."""

_LOST: Final = re.compile(r"StatusCode\.UNAVAILABLE|INVALID_HANDLE\.SESSION_(CHANGED|NOT_FOUND)")
"""Nobody answers, or a server that does not know the session."""

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

    def open(self, tags: Collection[str], title: str, conf: Mapping[str, str]) -> "SparkSession":
        check_reachable(self._settings.master)
        try:
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession
        except ImportError as error:
            raise SparkUnavailable(
                f"Spark Connect cannot be used: {error}; install it with: pip install 'arco[spark]'"
            ) from error
        self.close()  # of a batch whose tasks come one after the other, none needs the session of the one before
        os.environ[_MODE] = "1"
        try:
            session: Any = SparkSession.builder.remote(self._settings.master).create()
            session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=RETRY_MILLISECONDS)])
            for name, value in {**_CONF, **self._settings.conf, **conf}.items():
                session.conf.set(name, value)
            if self._archives:
                session.addArtifacts(*self._archives, pyfile=True)
        except Exception as error:
            if "UNAVAILABLE" in str(error):
                raise SparkUnreachable(
                    f"Spark Connect at {address_of(self._settings.master)} does not answer: {text_of(error)[:300]}"
                ) from error
            raise
        for tag in tags:
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

    def fate(self, error: BaseException | None = None) -> BaseException | None:
        try:
            check_reachable(self._settings.master)
        except SparkUnreachable as gone:
            return ConnectionError(f"the server of Spark Connect went away: {gone}")
        if type(error).__module__.startswith("pyspark.") and _LOST.search(str(error)):
            return ConnectionError(
                f"the server of Spark Connect at {address_of(self._settings.master)} does not have the session of the "
                f"task any more; see whether it was started anew ({str(error).splitlines()[0][:300]})"
            )
        return None

    def _on_progress(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        running = [] if done else list(stages or ())
        self._progress = Progress(
            tasks_done=sum(stage.num_completed_tasks for stage in running),
            tasks_total=sum(stage.num_tasks for stage in running),
        )

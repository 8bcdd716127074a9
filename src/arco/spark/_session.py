"""The Spark application of a driver process: started when a task first needs it, warm for all that follow.

- *Application*: one per driver. Its tasks come one after the other, each with a session of its own (own settings, own
  temporary views), and everything a session starts carries the attempt's id as a job tag.
- `ClassicApplication`: a JVM that this process starts and that ends with it. `arco.spark._connect` has the other kind,
  a server of Spark Connect.

What the JVM prints goes to standard error, where the task's log is; the end of it is kept, to say why it did not start.
"""

import contextlib
import logging
import os
import re
import shutil
import socket
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from arco.spark._errors import (
    SessionStopped,
    SparkOutOfMemory,
    SparkUnavailable,
    SparkUnreachable,
    text_of,
    without_stack,
)
from arco.spark._settings import Progress, SparkSettings, address_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["Application", "ClassicApplication", "check_reachable", "find_java", "load_pyspark", "start_application"]

JAVA_MIN: Final = 17
REACH_SECONDS: Final = 5.0
KEPT_BYTES: Final = 8_000
LISTEN_MILLISECONDS: Final = 5_000

_EXIT_OUT_OF_MEMORY: Final = 52
"""What Spark ends its own process with when Java has no memory left."""
_NOISE: Final = b"WARNING: Using incubator modules"
_NO_MEMORY: Final = (
    "Could not reserve enough space",
    "Cannot allocate memory",
    "insufficient memory",
    "Invalid maximum heap size",
    "INVALID_DRIVER_MEMORY",
    "OutOfMemoryError",
)
_DEAD_THREAD: Final = re.compile(rb'Exception in thread "[^"\n]*" java\.lang\.OutOfMemoryError')
"""A thread of Spark's own ended for lack of memory. What waits for it, such as a job for its tasks, waits for ever."""
_INSTALL_JAVA: Final = (
    f"install Java {JAVA_MIN} or newer where Spark starts (such as openjdk-{JAVA_MIN}-jre-headless), or set "
    "JAVA_HOME to it"
)
_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p spark.%c{1}: %m%n%ex{short}
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.context.name = org.apache.spark.SparkContext
logger.context.level = off
logger.host.name = org.apache.spark.util.Utils
logger.host.level = error
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = error
logger.plan.name = org.apache.spark.sql.catalyst.util.SparkStringUtils
logger.plan.level = error
logger.blocks.name = org.apache.spark.storage.DiskBlockObjectWriter
logger.blocks.level = error
"""
"""Warnings, but not what is said of every machine, and no stack of an error that reaches the task as an exception
anyway."""


class Application(Protocol):
    """A running Spark. `pid` is that of the process it started, 0 if it started none."""

    pid: int
    concurrent: bool
    """Whether several threads may have a session each."""

    def add_code(self, archive: str) -> None:
        """Let executors import what a file holds."""
        ...

    def open(self, tags: Collection[str], title: str, conf: Mapping[str, str]) -> "SparkSession":
        """A session for one task. What this thread starts from now on has these tags, and this title on Spark's
        pages."""
        ...

    def activate(self, session: "SparkSession") -> None:
        """Let `getOrCreate` find this session."""
        ...

    def jobs(self, tag: str) -> int:
        """How many jobs with this tag there were, as far as Spark remembers."""
        ...

    def close(self) -> None:
        """End the sessions of tasks, and forget what they cached."""
        ...

    def interrupt(self, tag: str) -> None:
        """End what runs with this tag. For another thread than the one that opened the session."""
        ...

    def progress(self) -> Progress | None: ...

    def fate(self, error: BaseException | None = None) -> BaseException | None:
        """Why it is gone; None if it is there. An error that came of it may be the only sign."""
        ...


def start_application(settings: SparkSettings, name: str, scratch: Path, hadoop: Mapping[str, str]) -> Application:
    """The application that the settings name. `hadoop` are settings of its file systems, which may be secret."""
    load_pyspark()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection
    if settings.is_connect:
        from arco.spark._connect import ConnectApplication

        return ConnectApplication(settings)
    return ClassicApplication(settings, name, scratch, hadoop)


def load_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise SparkUnavailable(
            "PySpark is not installed where the worker runs; install it with: pip install 'arco[spark]'"
        ) from error


def check_reachable(master: str) -> None:
    """`SparkUnreachable` if nobody listens there: Spark itself would find out after a minute."""
    errors = []
    master = address_of(master)
    for place in master.partition("://")[2].split("/")[0].split(","):
        parts = urlsplit(f"//{place}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or 15_002), REACH_SECONDS).close()
            return
        except (OSError, ValueError) as error:
            errors.append(f"{place}: {error}")
    raise SparkUnreachable(
        f"the Spark master {master} does not answer ({'; '.join(errors)}); start it, or correct --master or "
        "spark_master of the worker or command that uses it"
    )


class ClassicApplication:
    """Spark in a JVM of this process. Implements `Application`."""

    def __init__(self, settings: SparkSettings, name: str, scratch: Path, hadoop: Mapping[str, str]) -> None:
        if settings.master.startswith("spark://"):
            check_reachable(settings.master)
        with _environment(settings):
            self._java = Java(settings, name, scratch)
            self._context = _context_of(self._java, hadoop)
        self.pid: int = self._java.pid
        self.concurrent = True
        self.session = self._first_session()
        """What the sessions of tasks come from."""

    def add_code(self, archive: str) -> None:
        """Let executors import what a file holds."""
        self._context.addPyFile(archive)

    def open(self, tags: Collection[str], title: str, conf: Mapping[str, str]) -> "SparkSession":
        session = self.session.newSession()
        for name, value in conf.items():
            session.conf.set(name, value)
        self._context.clearJobTags()
        for tag in tags:
            self._context.addJobTag(tag)
        self._context.setJobDescription(title)
        return session

    def jobs(self, tag: str) -> int:
        context = self._context._jsc.sc()
        with contextlib.suppress(Exception):  # it is as busy as that; what it knows by now is nearly all
            context.listenerBus().waitUntilEmpty(LISTEN_MILLISECONDS)  # what began is noted a moment later
        return len(context.statusTracker().getJobIdsForTag(tag))

    def close(self) -> None:
        if self.fate() is not None:
            return
        self._context.clearJobTags()
        if self._context._jsc.getPersistentRDDs().size():
            self.session.catalog.clearCache()
        self.activate(self.session)

    def interrupt(self, tag: str) -> None:
        # By the context and not by the session: a session only knows the tags of the thread that asks.
        self._context.cancelJobsWithTag(tag)

    def progress(self) -> Progress | None:
        store = self._context._jsc.sc().statusStore()
        stages = store.activeStages()
        running = [stages.apply(place) for place in range(stages.size())]
        if not running:
            return Progress(ui=self._context.uiWebUrl or "")
        return Progress(
            tasks_done=sum(stage.numCompleteTasks() for stage in running),
            tasks_total=sum(stage.numTasks() for stage in running),
            stage=_title(running[-1])[:100],
            rows_written=sum(stage.outputRecords() for stage in running),
            bytes_written=sum(stage.outputBytes() for stage in running),
            ui=self._context.uiWebUrl or "",
        )

    def fate(self, error: BaseException | None = None) -> BaseException | None:
        ended = self._java.fate()
        if ended is not None:
            return ended
        was_told = self._context._jsc is None
        try:
            stopped = was_told or self._context._jsc.sc().isStopped()
        except Exception as broken:  # noqa: BLE001 - whatever it is, nobody answers there
            return self._java.fate(wait=True) or ConnectionError(f"Spark's process does not answer: {broken}")
        told = text_of(error) if error is not None else ""
        if stopped and (
            self._java.lacked_memory or "OutOfMemoryError" in told
        ):  # Spark stops itself then, in the middle of whatever it does
            return self._java.out_of_memory()
        if was_told:
            return SessionStopped(
                "the Spark session was stopped; it belongs to the worker: remove spark.stop() from the function"
            )
        if stopped:
            said = f": {told[:300]}" if told else ""
            return ConnectionError(f"the application was ended where Spark runs{said}; see the pages of its master")
        return None

    def stop(self) -> None:
        """End it with its JVM, in a process that goes on."""
        with contextlib.suppress(Exception):  # it may be gone already
            self.session.stop()
        self._java.end()

    def _first_session(self) -> "SparkSession":
        from pyspark.sql import SparkSession

        return SparkSession(self._context)

    def activate(self, session: "SparkSession") -> None:
        """Let `SparkSession.builder.getOrCreate()` and `getActiveSession()` find this one."""
        from pyspark.sql import SparkSession

        kind: Any = SparkSession
        kind._instantiatedSession = kind._activeSession = session
        java = kind._get_j_spark_session_class(self._context._jvm)
        java.setDefaultSession(session._jsparkSession)
        java.setActiveSession(session._jsparkSession)


def _title(stage: Any) -> str:
    """What a stage is for. Its name is a place in the source of Spark."""
    described = stage.description()
    return str(described.get() if described.isDefined() else stage.name())


class Java:
    """The JVM: started with these settings, listened to, and its end explained."""

    def __init__(self, settings: SparkSettings, name: str, scratch: Path) -> None:
        self._java = find_java()
        self.conf = _conf(settings, name, scratch)
        self._said = b""
        self._has_dead_thread = False
        self._process: Any = None
        self.gateway = self._launch()
        self._process = self.gateway.proc
        self.pid = self._process.pid

    def fate(self, *, wait: bool = False) -> BaseException | None:
        """Why the process is gone; None if it is not. Asked to wait, it gets a moment to be gone."""
        if wait:
            with contextlib.suppress(Exception):
                self._process.wait(timeout=2.0)
        code = self._process.poll()
        if code is None:
            return None
        if code == _EXIT_OUT_OF_MEMORY or self.lacked_memory:
            return self.out_of_memory()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        cure = "; perhaps the machine ran out of memory" if code in (-9, 137) else ""
        return ConnectionError(f"the Java process of Spark {how}{cure}")

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace").strip()

    @property
    def lacked_memory(self) -> bool:
        return self._has_dead_thread or "OutOfMemoryError" in self.said

    def out_of_memory(self) -> SparkOutOfMemory:
        memory = self.conf.get("spark.driver.memory") or os.environ.get("SPARK_DRIVER_MEMORY", "1g")
        return SparkOutOfMemory(
            f"the Java process of Spark ran out of memory, of which it may have {memory}; give it another amount "
            "(SPARK_DRIVER_MEMORY, or --spark-conf spark.driver.memory=... of a worker), or run fewer tasks at once "
            "(--slots)"
        )

    def end(self) -> None:
        """End the process. PySpark must forget it, or gives it to the next application."""
        from pyspark import SparkContext

        kind: Any = SparkContext
        if kind._gateway is self.gateway:
            kind._gateway = kind._jvm = None
        with contextlib.suppress(Exception):  # it may be gone already
            self.gateway.shutdown()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def _launch(self) -> Any:
        import threading

        from pyspark import SparkConf, java_gateway

        launch: Any = java_gateway.launch_gateway
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(self.conf.items()))
        ours, theirs = os.pipe()
        threading.Thread(target=self._listen, args=(ours,), name="arco-java", daemon=True).start()
        try:
            return launch(conf, {"stdout": theirs, "stderr": theirs})
        except Exception as error:
            raise self._why_not(error) from error
        finally:
            os.close(theirs)

    def _why_not(self, error: Exception) -> BaseException:
        said = self.said
        if any(sign in said for sign in _NO_MEMORY):
            return self.out_of_memory()
        if "UnsupportedClassVersionError" in said or "Unrecognized option: --add" in said:
            return SparkUnavailable(f"{self._java} is too old for Spark; {_INSTALL_JAVA}")
        told = f"; Java said: {without_stack(said)[-1000:]}" if said else ""
        return SparkUnavailable(
            f"Spark's Java process ended before Spark began ({text_of(error)[:200]}); check Java and the settings of "
            f"Spark{told}"
        )

    def _listen(self, pipe: int) -> None:
        """Pass on what the JVM prints, and keep the end of it. One that is only half alive is ended."""
        while data := os.read(pipe, 1 << 16):
            lines = [line for line in data.splitlines(keepends=True) if not line.startswith(_NOISE)]
            kept = b"".join(lines)
            said = self._said + kept
            self._said = said[-KEPT_BYTES:]
            with contextlib.suppress(OSError):
                os.write(2, kept)
            if self._process is not None and _DEAD_THREAD.search(said):
                self._has_dead_thread = True
                self._process.kill()
        os.close(pipe)


@contextlib.contextmanager
def _environment(settings: SparkSettings) -> Iterator[None]:
    """The environment that Spark starts in. Afterwards it is as before: tasks find what the worker gave them."""
    before = dict(os.environ)
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)
    if settings.is_local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # its pages are open to whoever reaches them
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "spark.pyspark.python" in settings.conf:
        # Only spark-submit reads the setting; a context goes by the environment, and else by what is in the path.
        os.environ["PYSPARK_PYTHON"] = settings.conf["spark.pyspark.python"]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def find_java() -> str:
    """The Java that Spark will start: the one of JAVA_HOME if that is set, whatever else there is."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none on the PATH"
        raise SparkUnavailable(f"Spark needs Java, and {where}; {_INSTALL_JAVA}")
    return found


def _conf(settings: SparkSettings, name: str, scratch: Path) -> dict[str, str]:
    """What the application begins with. The worker's own settings win."""
    scratch.mkdir(parents=True, exist_ok=True)
    properties = scratch / "log4j2.properties"
    properties.write_text(_LOGGING)
    conf = {
        "spark.app.name": name,
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        # The default, INT96, is a type that no other reader takes for a time with a zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    if settings.is_local:
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf |= settings.conf
    conf["spark.master"] = settings.master
    options = f"-Dlog4j2.configurationFile=file:{properties} -Djava.io.tmpdir={scratch}"
    conf["spark.driver.extraJavaOptions"] = f"{options} {conf.get('spark.driver.extraJavaOptions', '')}".strip()
    return conf


def _context_of(java: Java, hadoop: Mapping[str, str]) -> "SparkContext":
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=True, _jvm=java.gateway.jvm)
    conf.setAll(list(java.conf.items()))
    try:
        context = SparkContext(conf=conf, gateway=java.gateway)
    except Exception as error:
        ended = java.fate()
        text = text_of(error)
        java.end()
        if any(sign in text for sign in _NO_MEMORY):
            raise java.out_of_memory() from error
        raise ended or SparkUnavailable(
            f"Spark did not start at {java.conf['spark.master']}: {text[:1000]}; check the master and the settings of "
            "Spark"
        ) from error
    target = context._jsc.hadoopConfiguration()
    for name, value in hadoop.items():
        target.set(name, value)
    return context

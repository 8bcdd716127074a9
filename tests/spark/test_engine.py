"""Which runner gets which job, and what people are told."""

import asyncio
import builtins
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.core import Invalid, Unavailable
from arco.log import Place
from arco.runtime import DEFINITIONS, AsyncRuntime
from arco.spark import ChoosingRunner, CompactionEngine, _engine, master_for, missing_for_spark, require_spark
from arco.spark._errors import SparkUnreachable
from arco.state import File, Layer, Manifest, MergeJob, RefoldJob, empty_manifest
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope
from tests.emulators.servers import missing_component
from tests.spark.logs import Chance, write_log

DEFINITION = DEFINITIONS[1]
PLACE = Place("acme", "prod", "inc-1", DEFINITION.log)
NOBODY = "spark://127.0.0.1:1"
CONNECT = "sc://host:15002/;token=hunter2"


class Named:
    """A runner that only says that it was asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self._name = name
        self._asked = asked

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        self._asked.append(self._name)
        return ()

    async def refold(self, job: RefoldJob) -> Manifest:
        self._asked.append(self._name)
        return empty_manifest(PLACE)


@pytest.fixture
def choose(tmp_path: Path) -> Callable[..., tuple[list[str], list[str]]]:
    """Gives a log of 50 segments and a merge of 100 rows to an engine: who was asked, and what was told."""

    async def work(engine: CompactionEngine, master: str) -> tuple[list[str], list[str]]:
        base = LocalStore(tmp_path)
        through = await write_log(base, PLACE, Chance(1).segments(DEFINITION, 50))
        store = RoleStore(base, Scope("acme", "prod"), Role.COMPACTOR, RequestCounts())
        asked: list[str] = []
        told: list[str] = []
        runner = ChoosingRunner(
            engine, Named("local", asked), Named("spark", asked), store, PLACE, AsyncRuntime(), told.append, master
        )
        await runner.refold(RefoldJob(DEFINITION, through, "directory"))
        layer = Layer("runs", 1, "0", "1", (File("f", 0, 1, "", 100, ""),))
        await runner.merge(MergeJob(DEFINITION.tables["runs"], (layer,), True, None, "directory"))
        return asked, told

    return lambda engine, master="local[*]": asyncio.run(work(engine, master))


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)


@pytest.fixture
def without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **more: Any) -> Any:
        if name.split(".")[0] == "pyspark":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "SPARK_FROM_EVENTS", 100)
    monkeypatch.setattr(_engine, "SPARK_FROM_ROWS", 100)


def test_the_engine_local_does_everything_itself(choose: Callable[..., tuple[list[str], list[str]]]) -> None:
    assert choose(CompactionEngine.LOCAL) == (["local", "local"], [])


def test_the_engine_spark_gets_everything_and_says_so(choose: Callable[..., tuple[list[str], list[str]]]) -> None:
    asked, told = choose(CompactionEngine.SPARK)
    assert asked == ["spark", "spark"]
    assert told == ["folding 50 segments of activity on Spark", "merging 100 rows of runs on Spark"]


def test_auto_takes_small_jobs_itself(choose: Callable[..., tuple[list[str], list[str]]]) -> None:
    assert choose(CompactionEngine.AUTO) == (["local", "local"], [])


@pytest.mark.usefixtures("everything_is_large")
def test_auto_gives_large_jobs_to_spark_and_says_so(choose: Callable[..., tuple[list[str], list[str]]]) -> None:
    asked, told = choose(CompactionEngine.AUTO)
    assert asked == ["spark", "spark"]
    assert all("on Spark, because they are 100 or more" in text for text in told)


@pytest.mark.usefixtures("everything_is_large", "without_java")
def test_without_java_auto_does_large_jobs_itself_and_names_the_cure(
    choose: Callable[..., tuple[list[str], list[str]]],
) -> None:
    asked, told = choose(CompactionEngine.AUTO)
    assert asked == ["local", "local"]
    assert all("install Java 17 or newer" in text for text in told)


@pytest.mark.usefixtures("without_pyspark")
def test_whoever_insists_on_spark_without_pyspark_gets_the_cure() -> None:
    with pytest.raises(Invalid, match=r"pip install 'arco\[spark\]'"):
        require_spark()


@pytest.mark.usefixtures("without_java")
def test_whoever_insists_on_spark_without_java_gets_the_cure() -> None:
    with pytest.raises(Invalid, match="JAVA_HOME"):
        require_spark()


def test_a_wrong_java_home_is_told_although_there_is_a_java_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    require_spark()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(Invalid, match=r"JAVA_HOME is .*nowhere, where there is none; install Java 17"):
        require_spark()


def test_whoever_insists_on_a_master_that_does_not_answer_hears_it_at_once() -> None:
    with pytest.raises(SparkUnreachable, match=r"spark://127\.0\.0\.1:1 does not answer .* correct --master"):
        require_spark(NOBODY)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize(("master", "reason"), [(NOBODY, "does not answer"), (CONNECT, "Spark Connect")])
def test_auto_does_large_jobs_itself_where_spark_cannot_start_and_says_why(
    choose: Callable[..., tuple[list[str], list[str]]], master: str, reason: str
) -> None:
    asked, told = choose(CompactionEngine.AUTO, master)
    assert asked == ["local", "local"]
    assert all("in this process" in text and reason in text for text in told), told
    assert "hunter2" not in str(told)


@pytest.mark.usefixtures("everything_is_large")
def test_auto_says_why_new_segments_are_folded_in_memory(tmp_path: Path) -> None:
    async def work() -> tuple[bool, list[str]]:
        base, asked, told = LocalStore(tmp_path), list[str](), list[str]()
        through = await write_log(base, PLACE, Chance(1).segments(DEFINITION, 50))
        store = RoleStore(base, Scope("acme", "prod"), Role.COMPACTOR, RequestCounts())
        named = Named("local", asked), Named("spark", asked)
        runner = ChoosingRunner(CompactionEngine.AUTO, *named, store, PLACE, AsyncRuntime(), told.append, CONNECT)
        return await runner.is_bulk(0, through), told

    is_bulk, (text,) = asyncio.run(work())
    assert not is_bulk
    assert text.startswith("folding about ")
    assert "Spark Connect" in text


def test_a_merge_that_is_done_once_more_says_why(tmp_path: Path) -> None:
    class Dying(Named):
        async def merge(self, job: MergeJob) -> tuple[File, ...]:
            raise Unavailable("an executor was lost")

    told: list[str] = []
    store = RoleStore(LocalStore(tmp_path), Scope("acme", "prod"), Role.COMPACTOR, RequestCounts())
    runner = ChoosingRunner(
        CompactionEngine.SPARK, Named("local", []), Dying("spark", []), store, PLACE, AsyncRuntime(), told.append
    )
    with pytest.raises(Unavailable):
        asyncio.run(runner.merge(MergeJob(DEFINITION.tables["runs"], (), True, None, "directory")))
    assert told == ["merging 0 rows of runs on Spark", "an executor was lost"]


@pytest.mark.parametrize(
    ("engine", "given", "setting", "master"),
    [
        (CompactionEngine.AUTO, None, "yarn", "yarn"),
        (CompactionEngine.AUTO, "local[2]", CONNECT, "local[2]"),
        (CompactionEngine.AUTO, None, CONNECT, CONNECT),
        (CompactionEngine.SPARK, None, NOBODY, NOBODY),
        (CompactionEngine.SPARK, "k8s://https://h:6443", NOBODY, "k8s://https://h:6443"),
        (CompactionEngine.LOCAL, None, CONNECT, CONNECT),
    ],
)
def test_the_option_names_the_master_and_else_the_setting(
    engine: CompactionEngine, given: str | None, setting: str, master: str
) -> None:
    assert master_for(engine, given, setting) == master


@pytest.mark.parametrize(
    ("engine", "given", "setting", "words"),
    [
        (CompactionEngine.LOCAL, "yarn", "local[*]", "--engine local"),
        (CompactionEngine.AUTO, "bogus", "local[*]", "is no Spark master"),
        (CompactionEngine.SPARK, "", "local[*]", "is no Spark master"),
        (CompactionEngine.AUTO, CONNECT, "local[*]", "Spark Connect"),
        (CompactionEngine.SPARK, CONNECT, "local[*]", "Spark Connect"),
        (CompactionEngine.SPARK, None, CONNECT, "Spark Connect"),
    ],
)
def test_a_master_that_an_engine_can_do_nothing_with_is_refused(
    engine: CompactionEngine, given: str | None, setting: str, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        master_for(engine, given, setting)
    assert "sc://host" not in str(refused.value), "what was refused is not offered"


def test_where_everything_is_there_nothing_is_missing() -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    assert missing_for_spark() is None


def test_sockets_lie_in_a_private_folder_of_this_machine_and_else_nowhere(tmp_path: Path) -> None:
    private = Path("/tmp/arco-spark-x")
    on = _engine.sockets("local[2]", private)
    assert on["spark.python.unix.domain.socket.enabled"] == "true"
    assert on["spark.python.unix.domain.socket.dir"] == str(private)
    for master in ("spark://host:7077", "yarn", "k8s://https://host:6443"):
        assert _engine.sockets(master, private) == {}, "executors do not have the folder"
    for long in ("long" * 20, "длинная" * 5):
        assert _engine.sockets("local[*]", Path("/", long)) == {}, "no system takes such a path"


TALK = """
from pathlib import Path
from arco.spark import spark_sessions

with spark_sessions("local[1]") as session:
    context = session().sparkContext
    folder = Path(context.getConf().get("spark.python.unix.domain.socket.dir", ""))
    assert folder.stat().st_mode & 0o077 == 0
    assert context.parallelize(range(3), 1).map(str).collect() == ["0", "1", "2"]
    assert list(folder.glob(".*.sock")), "the daemon listens there"
assert not folder.exists()
"""


def test_spark_that_folds_here_talks_to_python_through_a_private_folder() -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    trouble = missing_for_spark()
    if trouble is not None:
        missing_component(trouble)
    # In a process of its own: there is one application in each, and this one has that of the suite. Where temporary
    # files lie may be too far down for a socket.
    environ = {**os.environ, "TMPDIR": "/tmp", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", TALK]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr

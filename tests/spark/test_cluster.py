"""A rebuild on a standalone cluster: a master and two workers as processes, executors in processes of their own."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from arco.storage import LocalStore, Store
from tests.emulators.servers import Emulator
from tests.recorded.record import HERE, SCOPE

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0


@dataclass(frozen=True)
class Cluster:
    master: str
    folder: Path

    def executors(self) -> int:
        """How many executors applications have had so far, each with a folder of its own."""
        return len(list(self.folder.glob("worker-*/app-*/*")))


def _environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    return {**kept, **local, **more}


def _start(log: Path, *args: str) -> subprocess.Popen[bytes]:
    import pyspark

    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(script), *args], stdout=output, stderr=output, env=_environ(), start_new_session=True
        )


def _wait_for(log: Path, pattern: str) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"{log.name} never said {pattern}: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    started = []
    try:
        master = "org.apache.spark.deploy.master.Master"
        started.append(_start(folder / "master.log", master, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        url = _wait_for(folder / "master.log", r"spark://127\.0\.0\.1:\d+")
        for number in (1, 2):
            options = ["--cores", "1", "--memory", "2g", "--webui-port", "0", "--host", "127.0.0.1"]
            options += ["--work-dir", str(folder / f"worker-{number}")]
            log = folder / f"worker-{number}.log"
            started.append(_start(log, "org.apache.spark.deploy.worker.Worker", *options, url))
            _wait_for(log, "Successfully registered with master")
        yield Cluster(url, folder)
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def arco(*args: str, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "arco.cli", *args],
        env=_environ(**environ),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def rebuild_and_verify(cluster: Cluster, **environ: str) -> None:
    scope = {"ARCO_TENANT_ID": SCOPE.tenant, "ARCO_WORKSPACE_ID": SCOPE.workspace}
    before = cluster.executors()
    command = ["rebuild", "--engine", "spark", "--master", cluster.master, "--json"]
    code, out, err = arco(*command, **scope, **environ)
    assert code == 0, err
    assert "on Spark" in err
    assert [step["log"] for step in json.loads(out)["logs"]] == ["catalog", "activity"]
    assert cluster.executors() >= before + 2, "one on each worker"
    code, out, err = arco("rebuild", "--verify", "--json", **scope, **environ)
    assert (code, json.loads(out)["equal"]) == (0, True), err
    _, out, err = arco("doctor", "--json", **scope, **environ)
    wrong = {found["check"] for found in json.loads(out)["findings"] if found["level"] == "error"}
    assert wrong == {"data"}, f"what was recorded came without the files of its assets; {err}"


def test_a_rebuild_with_the_store_on_disk(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(HERE / "0.1" / "store", tmp_path / "store")
    rebuild_and_verify(cluster, ARCO_STORE=f"file://{tmp_path / 'store'}")


def test_a_rebuild_with_the_store_in_a_bucket(cluster: Cluster, s3_server: Emulator) -> None:
    asyncio.run(_copy(LocalStore(HERE / "0.1" / "store"), s3_server.store("cluster")))
    options = {
        f"ARCO_STORE_OPTIONS_{name.upper()}": str(value).lower() if isinstance(value, bool) else value
        for name, value in s3_server.options.items()
    }
    rebuild_and_verify(cluster, ARCO_STORE=s3_server.url("cluster"), **options)


async def _copy(source: Store, target: Store) -> None:
    async for info in source.list(""):
        await target.put(info.path, await source.get(info.path), only_if_absent=False)

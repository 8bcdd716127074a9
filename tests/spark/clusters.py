"""Real clusters on this machine: a standalone master with workers, and a server of Spark Connect."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SECONDS = 120


def spark_home() -> Path:
    """Where PySpark lies; the test is skipped if there is none."""
    pyspark = pytest.importorskip("pyspark")
    return Path(str(pyspark.__file__)).parent


@contextlib.contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[str]:
    """A master and so many workers of one core each, all processes of their own; the URL of the master."""
    port = free_port()
    common = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_process(folder / "master", "spark-class", common))
        wait_for(port)
        url = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            work = folder / f"worker{number}"
            options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            arguments = ["org.apache.spark.deploy.worker.Worker", *options, "--work-dir", str(work), url]
            stack.enter_context(_process(work, "spark-class", arguments))
        yield url


@contextlib.contextmanager
def connect_server(folder: Path, conf: Mapping[str, str], port: int = 0) -> Iterator[str]:
    """A server of Spark Connect on two cores; its URL. The number of its process is in `connect/pid` of the folder."""
    port = port or free_port()
    settings = {**conf, "spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    arguments = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
    for name, value in settings.items():
        arguments += ["--conf", f"{name}={value}"]
    with _process(folder / "connect", "spark-submit", [*arguments, "spark-internal"]):
        wait_for(port)
        yield f"sc://127.0.0.1:{port}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait_for(port: int) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        assert time.monotonic() < deadline, f"nobody listens on {port}"
        time.sleep(0.2)


@contextlib.contextmanager
def _process(folder: Path, script: str, arguments: list[str]) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / script), *arguments],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / "pid").write_text(str(process.pid))
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

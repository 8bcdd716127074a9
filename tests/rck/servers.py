"""Iceberg REST catalogs as processes of their own: `arco serve`, or the reference server of Iceberg's test fixtures.

A `Server` keeps its address and its store, so that it can be killed and started again. Which one tests get is said by
the variable ARCO_TEST_CATALOG: `arco` (default), `reference`, or the URL of a catalog that runs already.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from tests.emulators.servers import Emulator
from tests.rck.jars import classpath

__all__ = ["Server", "arco_server", "chosen_server", "reference_server", "running"]

CHOICE: Final = "ARCO_TEST_CATALOG"
START_SECONDS: Final = 1_800.0
"""On a machine that others use too, which may leave a server at the lowest priority next to nothing."""
ANSWER_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
PR_SET_PDEATHSIG: Final = 1


@dataclass
class Server:
    """A catalog, and how it is started."""

    name: str
    uri: str
    """What a client is given as `uri`; `v1/...` follows it."""
    warehouse: str
    log: Path
    command: Sequence[str] = ()
    """Nothing for a server that runs already."""
    environ: Mapping[str, str] | None = None
    process: "subprocess.Popen[bytes] | None" = None
    settings: str = ""
    """URL to raise the limit of requests at: a test is one client that sends all it can."""

    def start(self) -> None:
        """Start it and wait until it answers."""
        if not self.command:
            return
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.log.parent,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the {self.name} server did not come up: {self._trouble(self.process)}")
            time.sleep(0.05)
        if self.settings:
            self._raise_limit()

    def kill(self) -> None:
        """As if its power went."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()

    def _trouble(self, process: "subprocess.Popen[bytes]") -> str:
        """What became of one that does not answer. It is killed if it still runs."""
        code, before = process.poll(), _used()
        self.kill()
        if code is not None:
            what = f"it ended with {code}"
        else:
            what = f"no answer in {START_SECONDS:,.0f} s, of which it had a processor for {_used() - before:.1f} s"
        return f"{what}; {self.log} ends with: {self.log.read_text(errors='replace')[-2_000:]}"

    def _answers(self) -> bool:
        url = f"{self.uri}v1/config?warehouse={self.warehouse}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                return False
            raise RuntimeError(f"the {self.name} server answers {error.code} for its configuration") from None
        except OSError:
            return False
        return True

    def _raise_limit(self) -> None:
        body = json.dumps({"values": {"rate.requests_per_minute": 1_000_000}}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.settings, method="PATCH", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
        self.settings = ""  # the workspace keeps it


def arco_server(folder: Path, *, emulator: Emulator | None = None, allowed: Sequence[str] = ()) -> Server:
    """`arco serve` on a new workspace, in the folder or on S3; tables may also lie below the `allowed` URLs."""
    folder.mkdir(parents=True, exist_ok=True)
    listen = f"127.0.0.1:{_free_port()}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    environ["ARCO_STORE"] = f"file://{folder.absolute()}/store" if emulator is None else emulator.url(folder.name)
    for name, value in (emulator.options if emulator else {}).items():
        environ[f"ARCO_STORE_OPTIONS_{name.upper()}"] = str(value).lower() if isinstance(value, bool) else value
    arco = [sys.executable, "-m", "arco.cli"]
    done = subprocess.run([*arco, "init"], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"arco init failed: {done.stdout}{done.stderr}")
    places = [part for url in allowed for part in ("--allowed-location", url)]
    command = [*arco, "serve", "--json", "--listen", listen, *places]
    address = f"http://{listen}"
    return Server(
        "arco",
        f"{address}/iceberg/",
        "default",
        folder / "server.log",
        command,
        environ,
        settings=f"{address}/api/v1/settings",
    )


def reference_server(folder: Path, *, emulator: Emulator | None = None) -> Server:
    """Iceberg's own, with its JDBC catalog on SQLite. As it is by default, a table makes the namespace it lies in."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    place = folder.absolute()
    warehouse = f"file:{place}/warehouse" if emulator is None else emulator.url(f"{folder.name}/warehouse")
    environ = {
        **os.environ,
        # Several connections write: without this one that waits for another fails at once.
        "CATALOG_URI": f"jdbc:sqlite:{place}/catalog.db?busy_timeout=60000&journal_mode=WAL",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_REST_PORT": str(port),
    }
    if emulator is not None:
        environ |= {
            "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            "CATALOG_S3_ENDPOINT": str(emulator.options["endpoint"]),
            "CATALOG_S3_PATH__STYLE__ACCESS": "true",
            "CATALOG_S3_ACCESS__KEY__ID": str(emulator.options["access_key_id"]),
            "CATALOG_S3_SECRET__ACCESS__KEY": str(emulator.options["secret_access_key"]),
            "CATALOG_CLIENT_REGION": str(emulator.options["region"]),
        }
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = ["java", quiet, "-cp", classpath(s3=emulator is not None), "org.apache.iceberg.rest.RESTCatalogServer"]
    return Server("reference", f"http://127.0.0.1:{port}/", "", folder / "server.log", command, environ)


def chosen_server(folder: Path, *, emulator: Emulator | None = None, allowed: Sequence[str] = ()) -> Server:
    choice = os.environ.get(CHOICE, "arco")
    if choice == "reference":
        return reference_server(folder, emulator=emulator)
    if choice == "arco":
        return arco_server(folder, emulator=emulator, allowed=allowed)
    folder.mkdir(parents=True, exist_ok=True)
    return Server("given", f"{choice.rstrip('/')}/", "default", folder / "server.log")


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _used() -> float:
    """Seconds of processors that processes had which this one started, of those that are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end_with_parent() -> None:
    """In a new process: be killed when the one that started it is gone, however that ends. Only Linux can do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port

"""The process from which executors fork theirs."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arco.spark._daemon import without_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _package(folder: Path, name: str) -> Path:
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    return package


@pytest.fixture
def site(tmp_path: Path) -> Path:
    _package(tmp_path / "site", "pyspark")
    _package(tmp_path / "site", "py4j")
    return tmp_path / "site"


def test_archives_of_the_installed_pyspark_leave_the_path(site: Path) -> None:
    archives = [str(site / "pyspark/python/lib" / name) for name in ("pyspark.zip", "py4j-src.zip")]
    assert without_archives([*archives, "/program", str(site)]) == ["/program", str(site)]


def test_what_comes_from_elsewhere_stays(site: Path) -> None:
    path = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-src.zip", "/code.zip", str(site)]
    assert without_archives(path) == path


def test_without_an_installed_pyspark_everything_stays(tmp_path: Path) -> None:
    _package(tmp_path, "pyspark")
    path = [str(tmp_path / "pyspark/python/lib/pyspark.zip"), str(tmp_path)]
    assert without_archives(path) == path


def _seen(_: Any) -> tuple[list[str], bool]:
    import sys

    return [entry for entry in sys.path if entry.endswith(".zip")], "arco.spark._runner" in sys.modules


def test_processes_of_executors_have_the_program_and_no_archives(spark: "SparkSession") -> None:
    ((archives, loaded),) = spark.sparkContext.parallelize([1], 1).map(_seen).collect()
    assert loaded
    assert not [entry for entry in archives if "pyspark" in entry]


def worked(main: str = "", *, authenticated: bool = True) -> subprocess.CompletedProcess[str]:
    """PySpark's `worker` in a process of its own, on a socket whose `other` end `main` has; without one, PySpark's own
    begins when the other end has closed.
    """
    program = f"""
import os, socket
from pyspark import daemon
from arco.spark._daemon import silence

here, other = socket.socketpair()
def main(infile, outfile):
{textwrap.indent(textwrap.dedent(main) or "pass", "    ")}
if {bool(main)}:
    daemon.worker_main = main
else:
    other.close()
silence(daemon)
print(daemon.worker(here, {authenticated}))
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "main",
    [
        "outfile.write(b'x'); other.close()",
        "other.close(); outfile.write(b'x' * (1 << 20))",
        "other.send(b'x'); infile.read(1); outfile.write(b'x'); other.close(); raise EOFError",
        "here.send(b'x'); other.close(); infile.read(1)",  # what nobody read makes this a reset, not an end
    ],
)
def test_a_process_ends_quietly_when_java_goes_before_it(main: str) -> None:
    done = worked(main)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() in ("0", "1")


@pytest.mark.parametrize("authenticated", [True, False])
def test_a_process_that_waits_for_a_task_ends_quietly_when_java_goes(authenticated: bool) -> None:
    done = worked(authenticated=authenticated)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() not in ("", "0")


def test_what_a_function_prints_and_any_other_failure_are_told_also_if_java_has_gone() -> None:
    done = worked("""
        import sys
        print("said", file=sys.stderr)
        outfile.write(b"x")
        other.close()
        raise ValueError("mine")
    """)
    assert done.stderr.startswith("said\n")
    assert "ValueError: mine" in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_an_output_that_fails_while_java_listens_is_told() -> None:
    done = worked("outfile.write(b'x'); os.close(outfile.fileno())")
    assert "failed to flush" in done.stderr
    assert "Bad file descriptor" in done.stderr


def test_what_java_still_hears_arrives() -> None:
    done = worked("outfile.write(b'x'); outfile.flush(); outfile.write(b'y'); print(other.recv(1))")
    assert (done.stdout.splitlines(), done.stderr) == (["b'x'", "0"], "")

"""The process from which executors fork theirs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from arco.spark._daemon import silent, without_archives

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


def test_a_process_ends_quietly_when_java_has_gone_before_it() -> None:
    def gone(socket: object, authenticated: bool) -> int:
        raise BrokenPipeError

    assert silent(gone)(None, True) == 1
    assert silent(lambda socket, authenticated: 0)(None, False) == 0

"""Spark that cannot start: each reason is told as what it is, with what to do."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from arco.domains.orchestration import FailureCategory, Outcome
from arco.spark import SparkSettings
from tests.worker.plane import World
from tests.worker.warm import CONF, on_spark

SOURCE = """
    @asset(namespace="n", engine="spark")
    def a(context): return context.spark.range(1)
"""
TOO_LARGE = """
    import os
    @asset(namespace="n", engine="spark")
    def a(context):
        pieces = [(os.urandom(20_000_000),) for _ in range(9)]
        return context.spark.createDataFrame(pieces, "x binary").coalesce(1)
"""


def fake_java(folder: Path, says: str) -> str:
    """A JAVA_HOME whose Java says this and ends."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(folder / "java")


def settings(master: str = "local[1]", **conf: str) -> SparkSettings:
    return SparkSettings(master, {**CONF, **{name.replace("_", "."): value for name, value in conf.items()}})


def check_failure(folder: Path, category: FailureCategory, *texts: str, source: str = SOURCE, **fields: Any) -> None:
    world = World(folder, source)
    world.patience = 180.0
    result = world.run_one(world.envelope(definitions=(on_spark("a"),)), **fields)
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.failure.category is category, result.failure
    hint = result.failure.hints[0].action
    assert (category is FailureCategory.CONFIGURATION_ERROR) == hint.startswith(
        "Install or set what the error asks for"
    )
    for text in texts:
        assert text in result.failure.message, result.failure.message


def test_without_java_the_failure_says_what_to_install(tmp_path: Path) -> None:
    check_failure(
        tmp_path,
        FailureCategory.CONFIGURATION_ERROR,
        "Spark needs Java",
        "install Java 17",
        environment={"JAVA_HOME": str(tmp_path / "nowhere")},
        spark=settings(),
    )


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "java.lang.UnsupportedClassVersionError: class file version 61.0")
    check_failure(
        tmp_path,
        FailureCategory.CONFIGURATION_ERROR,
        f"{home}/bin/java is too old",
        environment={"JAVA_HOME": home},
        spark=settings(),
    )


def test_what_java_said_before_it_ended_is_told(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "module java.management not found")
    check_failure(
        tmp_path,
        FailureCategory.CONFIGURATION_ERROR,
        "ended before Spark began",
        "module java.management not found",
        environment={"JAVA_HOME": home},
        spark=settings(),
    )


@pytest.mark.parametrize("memory", ["900000g", "100m"])
def test_too_much_and_too_little_memory_are_told(tmp_path: Path, memory: str) -> None:
    check_failure(
        tmp_path,
        FailureCategory.RESOURCE_EXHAUSTED,
        f"may have {memory}",
        "spark.driver.memory",
        spark=settings(spark_driver_memory=memory),
    )


@pytest.mark.prove
def test_a_java_that_runs_out_of_memory_in_the_middle_of_a_job_is_ended_and_told(tmp_path: Path) -> None:
    """The thread that hands out tasks dies of it, and the job would wait for ever."""
    check_failure(
        tmp_path,
        FailureCategory.RESOURCE_EXHAUSTED,
        "may have 500m",
        "spark.driver.memory",
        source=TOO_LARGE,
        spark=settings(spark_driver_memory="500m"),
    )


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1"])
def test_a_master_that_is_not_there_is_told_at_once(tmp_path: Path, master: str) -> None:
    check_failure(
        tmp_path, FailureCategory.UPSTREAM_FAILURE, f"{master} does not answer", "--master", spark=settings(master)
    )


def test_without_pyspark_the_failure_says_how_to_install_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "pyspark.py").write_text("raise ImportError('no module named pyspark')")
    path = os.pathsep.join([str(site), *(entry for entry in sys.path if entry)])
    check_failure(
        tmp_path,
        FailureCategory.CONFIGURATION_ERROR,
        "pip install 'arco[spark]'",
        environment={"PYTHONPATH": path},
        spark=settings(),
    )

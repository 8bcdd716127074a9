"""One catalog on local disk and one on emulated S3 for all tests of this folder, and what an engine is given for them.

`tests.rck.servers` says which server it is. What needs another environment or a JVM is marked `prove`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.emulators.servers import Emulator
from tests.engines.environments import Engine, running_engine
from tests.rck.servers import Server, chosen_server, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Lake:
    """A running catalog and where its tables lie."""

    server: Server
    emulator: Emulator | None

    @property
    def name(self) -> str:
        return "disk" if self.emulator is None else "s3"

    @property
    def properties(self) -> dict[str, str]:
        """What PyIceberg and DataFusion are given, and Spark but for how S3 is named."""
        found = {"uri": self.server.uri}
        if self.server.warehouse:
            found["warehouse"] = self.server.warehouse
        if self.emulator is not None:
            found["s3.endpoint"] = str(self.emulator.options["endpoint"])
            found["s3.access-key-id"] = str(self.emulator.options["access_key_id"])
            found["s3.secret-access-key"] = str(self.emulator.options["secret_access_key"])
            found["s3.path-style-access"] = "true"
            found["s3.region"] = str(self.emulator.options["region"])
        return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The engines leave sockets to the garbage collector, which tells of them in whatever test it runs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def disk_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("engines-disk")
    with running(chosen_server(folder)) as server:
        yield Lake(server, None)


@pytest.fixture(scope="session")
def s3_lake(tmp_path_factory: pytest.TempPathFactory, s3_server: Emulator) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("engines-s3")
    with running(chosen_server(folder, emulator=s3_server)) as server:
        yield Lake(server, s3_server)


@pytest.fixture(params=["disk", "s3"])
def lake(request: pytest.FixtureRequest) -> Lake:
    found: Lake = request.getfixturevalue(f"{request.param}_lake")
    return found


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; the test creates it."""
    return re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")[:60]


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[Engine]:
    with running_engine("duckdb") as engine:
        yield engine


@pytest.fixture(scope="session")
def datafusion_engine() -> Iterator[Engine]:
    with running_engine("datafusion") as engine:
        yield engine


@pytest.fixture(scope="session")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory, disk_lake: Lake, s3_lake: Lake) -> "Iterator[SparkSession]":
    """One session with both catalogs, named `disk` and `s3`."""
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    from tests.engines.spark_session import open_spark

    session = open_spark(
        tmp_path_factory.mktemp("iceberg-spark"), {lake.name: lake.properties for lake in (disk_lake, s3_lake)}
    )
    yield session
    session.stop()


@dataclass(frozen=True)
class Sql:
    """Statements in Spark; `{ns}` is the namespace of the test, `{catalog}` and `{plain}` its two parts."""

    session: "SparkSession"
    lake: Lake
    namespace: str

    def __call__(self, text: str, **names: object) -> list[tuple[Any, ...]]:
        place = f"{self.lake.name}.{self.namespace}"
        found = self.session.sql(text.format(ns=place, catalog=self.lake.name, plain=self.namespace, **names)).collect()
        return [tuple(row) for row in found]


@pytest.fixture
def sql(lake: Lake, iceberg_spark: "SparkSession", namespace: str) -> Sql:
    found = Sql(iceberg_spark, lake, namespace)
    found("create namespace {ns}")
    return found

"""Engines without access of their own: they read and write a table by what the catalog grants them for it, and reach
no other one. The emulator of S3 stands behind a guard that applies the policies of sessions, and denies what carries no
key."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.emulators.servers import run_guarded_moto
from tests.engines.conftest import Lake
from tests.engines.environments import Engine, EngineFailed, running_engine
from tests.rck.servers import arco_server, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLE = "arn:aws:iam::123456789012:role/arco-tables"
HEADER = "header.X-Iceberg-Access-Delegation"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


class Guarded(Lake):
    """A lake whose clients get no keys."""

    folder: Path

    def asking(self, way: str) -> dict[str, str]:
        return {"uri": self.server.uri, "warehouse": self.server.warehouse, HEADER: way}

    def denied(self) -> list[str]:
        """Resources that somebody wanted and did not get."""
        path = self.folder / "denied"
        return [json.loads(line)["resource"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    with pytest.MonkeyPatch.context() as patch, run_guarded_moto(folder) as emulator:
        for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE"):
            patch.delenv(f"AWS_{name}", raising=False)  # where the engines would find keys of their own
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        granting = replace(emulator, options={**emulator.options, "vend_role_arn": ROLE})
        with running(arco_server(tmp_path_factory.mktemp("engines-guarded"), emulator=granting)) as server:
            lake = Guarded(server, emulator)
            object.__setattr__(lake, "folder", folder)
            yield lake


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def _place(location: str) -> str:
    return location.removeprefix("s3://")


def read(catalog: Catalog, name: str) -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def test_pyiceberg_reads_and_writes_by_vended_credentials_and_no_other_table(guarded: Guarded, namespace: str) -> None:
    catalog = load_catalog("arco", type="rest", **guarded.asking("vended-credentials"))
    catalog.create_namespace(namespace)
    table = catalog.create_table(f"{namespace}.mine", SCHEMA)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert read(catalog, f"{namespace}.mine") == [1, 2, 3]
    assert guarded.denied() == []
    other = catalog.create_table(f"{namespace}.other", SCHEMA)
    assert guarded.denied() == []
    with pytest.raises(OSError, match=r"(?i)access.denied"):
        table.io.new_input(other.metadata_location).open().read()
    stray = table.io.new_output(f"{other.location()}/data/stray.parquet")
    with pytest.raises(OSError, match=r"(?i)access.denied"), stray.create(overwrite=True) as file:
        file.write(b"stray")
    assert guarded.denied()
    assert all(path.startswith(f"arn:aws:s3:::{_place(other.location())}") for path in guarded.denied())


def test_without_a_grant_there_is_no_access(guarded: Guarded, namespace: str) -> None:
    """So that the tests above do not pass because anybody may do anything."""
    granted = load_catalog("arco", type="rest", **guarded.asking("vended-credentials"))
    granted.create_namespace(namespace)
    granted.create_table(f"{namespace}.t", SCHEMA).append(rows(1))
    endpoint = str(guarded.emulator.options["endpoint"]) if guarded.emulator else ""
    plain = load_catalog(
        "arco", type="rest", **{**guarded.asking("none"), "s3.endpoint": endpoint, "s3.anonymous": "true"}
    )
    with pytest.raises(OSError, match=r"(?i)access.denied"):
        read(plain, f"{namespace}.t")


@pytest.fixture(scope="module")
def signing_engine() -> Iterator[Engine]:
    with running_engine("signing") as engine:
        yield engine


@pytest.mark.prove
def test_pyiceberg_reads_and_writes_by_signed_requests_and_no_other_table(
    guarded: Guarded, signing_engine: Engine, namespace: str
) -> None:
    def do(what: str, **options: Any) -> Any:
        return signing_engine.ask(do=what, **options)

    properties = {**guarded.asking("remote-signing"), "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    do("open", properties=properties)
    mine, other = f"{namespace}.mine", f"{namespace}.other"
    do("create", table=mine)
    do("create", table=other)
    do("append", table=mine, ids=[1, 2])
    do("append", table=mine, ids=[3])
    assert do("read", table=mine) == [1, 2, 3]
    with pytest.raises(EngineFailed, match=r"Failed to sign request 403"):
        do("touch", table=mine, location=do("location", table=other))
    assert do("touch", table=mine, location=do("location", table=mine)) > 0


class SparkOf:
    """Spark with a catalog that asks for access in one way, and has no keys."""

    def __init__(self, session: "SparkSession", catalog: str, asking: dict[str, str]) -> None:
        self._session, self._catalog = session, catalog
        settings = {"type": "rest", "cache-enabled": "false", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **asking}
        session.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in settings.items():
            session.conf.set(f"spark.sql.catalog.{catalog}.{key}", value)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._session.sql(text.format(lake=self._catalog)).collect()]

    def files(self, table: str) -> list[str]:
        return [path for (path,) in self.sql(f"select file_path from {{lake}}.{table}.files")]

    def read(self, table: str, location: str) -> int:
        """The first byte of any file, by the access that was granted for a table."""
        java: Any = self._session
        util = java._jvm.org.apache.iceberg.spark.Spark3Util
        stream = util.loadIcebergTable(java._jsparkSession, f"{self._catalog}.{table}").io().newInputFile(location)
        return int(stream.newStream().read())


@pytest.mark.prove
@pytest.mark.parametrize("way", ["vended-credentials", "remote-signing"])
def test_spark_reads_and_writes_only_by_grants(
    guarded: Guarded, iceberg_spark: "SparkSession", namespace: str, way: str
) -> None:
    spark, before = SparkOf(iceberg_spark, way.replace("-", "_"), guarded.asking(way)), guarded.denied()
    mine, other = f"{namespace}.mine", f"{namespace}.other"
    spark.sql(f"create namespace {{lake}}.{namespace}")
    for table in (mine, other):
        spark.sql(f"create table {{lake}}.{table} (id bigint) using iceberg")
        spark.sql(f"insert into {{lake}}.{table} values (1), (2)")
    spark.sql(f"delete from {{lake}}.{mine} where id = 2")
    spark.sql(f"insert into {{lake}}.{mine} values (3)")
    assert spark.sql(f"select id from {{lake}}.{mine} order by id") == [(1,), (3,)]
    assert guarded.denied() == before
    assert spark.read(mine, spark.files(mine)[0]) == ord("P")  # of Parquet
    with pytest.raises(Exception, match=r"(?i)access.denied|forbidden|403"):
        spark.read(mine, spark.files(other)[0])


@pytest.mark.prove
def test_spark_has_no_access_of_its_own(guarded: Guarded, iceberg_spark: "SparkSession", namespace: str) -> None:
    granted = SparkOf(iceberg_spark, "granted", guarded.asking("vended-credentials"))
    granted.sql(f"create namespace {{lake}}.{namespace}")
    granted.sql(f"create table {{lake}}.{namespace}.t (id bigint) using iceberg")
    granted.sql(f"insert into {{lake}}.{namespace}.t values (1)")
    options = guarded.emulator.options if guarded.emulator else {}
    where = {"s3.endpoint": options["endpoint"], "s3.path-style-access": "true", "client.region": options["region"]}
    plain = SparkOf(iceberg_spark, "plain", {**guarded.asking("none"), **{key: str(where[key]) for key in where}})
    with pytest.raises(Exception, match=r"(?i)unable to load credentials"):
        plain.sql(f"select id from {{lake}}.{namespace}.t")

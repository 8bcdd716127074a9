"""Spark with the Iceberg runtime and REST catalogs."""

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from tests.rck.jars import spark_jars

__all__ = ["open_spark"]


def open_spark(folder: Path, catalogs: Mapping[str, Mapping[str, str]], *, cores: int = 2) -> SparkSession:
    """A session with these catalogs, each with what its clients are given."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.jars": ",".join(spark_jars()),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "scratch"),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, properties in catalogs.items():
        prefix = f"spark.sql.catalog.{name}"
        conf[prefix] = "org.apache.iceberg.spark.SparkCatalog"
        conf[f"{prefix}.type"] = "rest"
        # What others commit is seen at once.
        conf[f"{prefix}.cache-enabled"] = "false"
        conf |= {f"{prefix}.{key}": value for key, value in properties.items()}
        if "s3.region" in properties:
            conf[f"{prefix}.io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
            conf[f"{prefix}.client.region"] = properties["s3.region"]
    builder = SparkSession.builder.master(f"local[{cores}]").appName("arco engines")
    for key, value in conf.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.getOrCreate()

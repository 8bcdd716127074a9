"""The same functions without anybody around them: `python script.py SETTINGS`, in the folder that has `functions.py`.

SETTINGS is a file with the settings of Spark as JSON. An order is a line of JSON on standard input, with the name of
what to do and its arguments; the answer is a line with the seconds it took, on a Spark that stays warm in between.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import functions  # type: ignore[import-not-found]
from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def report(spark: SparkSession, files: list[str], target: str) -> None:
    functions.report(spark.read.parquet(*files)).write.parquet(target)


def loop(spark: SparkSession, folder: str, days: list[str], target: str) -> None:
    """A job for each partition, one after the other."""
    for day in days:
        one = spark.read.parquet(f"{folder}/date={day}").withColumn("date", f.lit(day).cast("date"))
        functions.totals(one).write.parquet(f"{target}/date={day}")


def together(spark: SparkSession, folder: str, days: list[str], target: str) -> None:
    """One job for all partitions, as somebody writes it who knows that they do not mix."""
    read = spark.read.option("basePath", folder).parquet(*(f"{folder}/date={day}" for day in days))
    functions.totals(read).repartition("date").write.partitionBy("date").parquet(target)


ORDERS: dict[str, Callable[..., None]] = {"report": report, "loop": loop, "together": together}


def main() -> None:
    builder = SparkSession.builder
    for name, value in json.loads(Path(sys.argv[1]).read_text()).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        order = json.loads(line)
        began = time.perf_counter()
        ORDERS[order.pop("do")](spark, **order)
        print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

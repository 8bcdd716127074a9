"""What is measured, in PySpark alone: assets of Arco, a plain script and assets of Dagster call the same functions.

- *raw*: rows of one day. *totals*: an aggregate of each day, its partition among what it groups by, so that one plan
  over many days gives the same. *kinds*: the same aggregate without that, which nobody can prove to give the same.
- *events*: one large table. *report*: a job of many seconds over it: hashes, a window, two aggregates, a join.
  *cleaned*: a copy of it with two more columns.
"""

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

__all__ = ["cleaned", "events", "kinds", "raw", "report", "totals"]

KINDS = 50
USERS = 200_000


def raw(spark: SparkSession, day: str, rows: int) -> DataFrame:
    """One file: a small partition is one."""
    number = f.xxhash64("id", f.lit(day))
    return spark.range(0, rows, 1, 1).select(
        "id",
        f.lit(day).alias("day"),
        f.pmod(number, f.lit(KINDS)).cast("int").alias("kind"),
        (f.pmod(number, f.lit(100_003)) / 100).alias("price"),
        f.pmod(number, f.lit(7)).alias("items"),
    )


def totals(raw: DataFrame) -> DataFrame:
    return raw.groupBy("date", "kind").agg(*_sums())


def kinds(raw: DataFrame) -> DataFrame:
    return raw.groupBy("kind").agg(*_sums())


def _sums() -> list[Column]:
    return [
        f.count("*").alias("sales"),
        f.sum("price").alias("revenue"),
        f.avg("items").alias("items"),
        f.max("price").alias("most"),
    ]


def events(spark: SparkSession, rows: int) -> DataFrame:
    number = f.xxhash64("id")
    return spark.range(0, rows, 1, 8).select(
        "id",
        f.pmod(number, f.lit(USERS)).alias("user"),
        f.pmod(number, f.lit(KINDS)).cast("int").alias("kind"),
        f.timestamp_micros(f.lit(1_735_689_600_000_000) + f.col("id") * 250_000).alias("at"),
        (f.pmod(number, f.lit(100_003)) / 100).alias("amount"),
        f.hex(number).alias("note"),
    )


def report(events: DataFrame) -> DataFrame:
    """Of every user and kind: how often, how much, how long between two, and their share of the kind."""
    before = Window.partitionBy("user").orderBy("at", "id")
    seen = events.select(
        "*",
        f.sha2(f.concat_ws(":", "note", "user", "kind"), 256).alias("digest"),
        (f.unix_micros("at") - f.unix_micros(f.lag("at").over(before))).alias("pause"),
        f.row_number().over(before).alias("turn"),
    )
    each = seen.groupBy("user", "kind").agg(
        f.count("*").alias("count"),
        f.sum("amount").alias("amount"),
        f.avg("pause").alias("pause"),
        f.max("turn").alias("turn"),
        f.min("digest").alias("digest"),
    )
    whole = each.groupBy("kind").agg(f.sum("amount").alias("whole"))
    return each.join(f.broadcast(whole), "kind").select("*", (f.col("amount") / f.col("whole")).alias("share"))


def cleaned(events: DataFrame) -> DataFrame:
    """As many rows as there are events: the write is what takes the time."""
    digest = f.sha2(f.concat_ws(":", "note", "user", "kind"), 256)
    return events.select("*", digest.alias("digest"), f.to_date("at").alias("day"))

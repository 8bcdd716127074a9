"""The aggregate of `bench/spark/functions.py` as assets of Dagster; copied as `project.py` beside that module.

Each reads and writes Parquet by itself and returns nothing, which is Dagster's cheapest form: no IO manager is called.
What it reads and writes stands in environment variables.
"""

import os

import functions  # type: ignore[import-not-found]
from dagster import (  # type: ignore[import-not-found]
    AssetExecutionContext,
    BackfillPolicy,
    DailyPartitionsDefinition,
    Definitions,
    asset,
    define_asset_job,
    in_process_executor,
)
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

RAW, MADE = os.environ["BENCH_RAW"], os.environ["BENCH_MADE"]
DAYS = DailyPartitionsDefinition(os.environ["BENCH_FIRST_DAY"], end_date=os.environ["BENCH_END_DAY"])


def session() -> SparkSession:
    """The one that the driver started."""
    return SparkSession.builder.getOrCreate()


@asset(partitions_def=DAYS)  # type: ignore[untyped-decorator]
def totals(context: AssetExecutionContext) -> None:
    day = context.partition_key
    one = session().read.parquet(f"{RAW}/date={day}").withColumn("date", f.lit(day).cast("date"))
    functions.totals(one).write.mode("overwrite").parquet(f"{MADE}/totals/date={day}")


@asset(partitions_def=DAYS, backfill_policy=BackfillPolicy.single_run())  # type: ignore[untyped-decorator]
def together(context: AssetExecutionContext) -> None:
    """Written for many partitions at once."""
    folders = [f"{RAW}/date={day}" for day in context.partition_keys]
    read = session().read.option("basePath", RAW).parquet(*folders)
    functions.totals(read).repartition("date").write.partitionBy("date").mode("overwrite").parquet(f"{MADE}/together")


definitions = Definitions(
    assets=[totals, together],
    jobs=[
        define_asset_job(name, selection=[name], executor_def=in_process_executor) for name in ("totals", "together")
    ],
)

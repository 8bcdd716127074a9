"""What Arco knows of Spark: sessions, frames, audits, analysed plans, and the runner that compacts state on a cluster.

Nothing else imports PySpark. It is an optional dependency (`pip install arco[spark]`), so modules here import it only
inside functions, and a machine without it can still do everything that is not data.
"""

from arco.spark._engine import (
    ChoosingRunner,
    CompactionEngine,
    master_for,
    missing_for_spark,
    require_spark,
    spark_sessions,
)
from arco.spark._lineage import (
    Dependency,
    OutputColumn,
    PlanLineage,
    column_lineage,
    lineage_from_explain,
    lineage_from_plan,
    lineage_of,
    no_plan,
    overridden,
)
from arco.spark._merging import SPARK_FROM_BYTES, SparkMerger
from arco.spark._mixing import Keys, Verdict, partition_mixing
from arco.spark._plans import INPUT_PREFIX
from arco.spark._runner import SparkRunner
from arco.spark._settings import Progress, SparkSettings, parse_conf
from arco.spark._site import Site
from arco.spark._together import Apart, key_columns, write_together
from arco.spark._traces import Kind

__all__ = [
    "INPUT_PREFIX",
    "SPARK_FROM_BYTES",
    "Apart",
    "ChoosingRunner",
    "CompactionEngine",
    "Dependency",
    "Keys",
    "Kind",
    "OutputColumn",
    "PlanLineage",
    "Progress",
    "Site",
    "SparkMerger",
    "SparkRunner",
    "SparkSettings",
    "Verdict",
    "column_lineage",
    "key_columns",
    "lineage_from_explain",
    "lineage_from_plan",
    "lineage_of",
    "master_for",
    "missing_for_spark",
    "no_plan",
    "overridden",
    "parse_conf",
    "partition_mixing",
    "require_spark",
    "spark_sessions",
    "write_together",
]

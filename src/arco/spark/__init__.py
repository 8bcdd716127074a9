"""What Arco knows of Spark: sessions, frames, audits, analysed plans, and the runner that compacts state on a cluster.

Nothing else imports PySpark. It is an optional dependency (`pip install arco[spark]`), so modules here import it only
inside functions, and a machine without it can still do everything that is not data.
"""

from arco.spark._engine import ChoosingRunner, CompactionEngine, require_spark, spark_sessions
from arco.spark._runner import SparkRunner
from arco.spark._settings import DEFAULT_MASTER, Progress, SparkSettings, parse_conf
from arco.spark._site import Site

__all__ = [
    "DEFAULT_MASTER",
    "ChoosingRunner",
    "CompactionEngine",
    "Progress",
    "Site",
    "SparkRunner",
    "SparkSettings",
    "parse_conf",
    "require_spark",
    "spark_sessions",
]

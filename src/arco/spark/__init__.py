"""What Arco knows of Spark: sessions, frames, audits, analysed plans, and the runner that compacts state on a cluster.

Nothing else imports PySpark. It is an optional dependency (`pip install arco[spark]`), so modules here import it only
inside functions, and a machine without it can still do everything that is not data.
"""

from arco.spark._lineage import (
    Dependency,
    OutputColumn,
    PlanLineage,
    column_lineage,
    lineage_from_explain,
    lineage_from_plan,
    lineage_of,
)
from arco.spark._mixing import Keys, Verdict, partition_mixing
from arco.spark._plans import INPUT_PREFIX
from arco.spark._traces import Kind

__all__ = [
    "INPUT_PREFIX",
    "Dependency",
    "Keys",
    "Kind",
    "OutputColumn",
    "PlanLineage",
    "Verdict",
    "column_lineage",
    "lineage_from_explain",
    "lineage_from_plan",
    "lineage_of",
    "partition_mixing",
]

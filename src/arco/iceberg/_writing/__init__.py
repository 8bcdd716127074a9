"""Writing snapshots of Iceberg tables whose data files are there already. Pure; whoever commits writes the files."""

from arco.iceberg._writing._columns import (
    Fields,
    MixedColumns,
    check_columns,
    columns_of,
    evolve,
    is_readable,
    name_mapping,
)
from arco.iceberg._writing._manifests import Entry, Manifest, decode_list, decode_manifest
from arco.iceberg._writing._metrics import DataFile, describe
from arco.iceberg._writing._snapshots import Base, Plan, plan_snapshot

__all__ = [
    "Base",
    "DataFile",
    "Entry",
    "Fields",
    "Manifest",
    "MixedColumns",
    "Plan",
    "check_columns",
    "columns_of",
    "decode_list",
    "decode_manifest",
    "describe",
    "evolve",
    "is_readable",
    "name_mapping",
    "plan_snapshot",
]

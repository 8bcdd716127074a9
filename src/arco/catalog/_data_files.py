"""Files of data: what current versions are made of, and whether it is there.

A file that is there and as long as it was written counts as whole; what is in it is not read. Each table of the state
is scanned once, whatever the number of assets, and of versions only the current ones become rows.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from arco.domains.execution import COMPACTED_VERSIONS, MATERIALIZATIONS, PARTITIONS
from arco.state import Snapshot, Table

__all__ = ["current_data", "lost_data"]

_FOLDER = "data/"


async def current_data(activity: Snapshot) -> dict[str, tuple[str, int]]:
    """The version and the size of each file of the workspace that belongs to the current version of a partition."""
    partitions = (await activity.scan(PARTITIONS)).select(["asset_id", "current_materialization_id"])
    current = {(row["asset_id"], row["current_materialization_id"]) for row in partitions.drop_null().to_pylist()}
    versions = await _rows(activity, MATERIALIZATIONS, current, ["asset_key", "partition_key"])
    moved = await _rows(activity, COMPACTED_VERSIONS, current, [])
    found: dict[str, tuple[str, int]] = {}
    for key, version in sorted(versions.items()):  # those that retention took are none: their files go with them
        name = (
            f"{version['asset_key']}[{version['partition_key']}]" if version["partition_key"] else version["asset_key"]
        )
        for file in moved.get(key, version)["files"]:
            if file["path"].startswith(_FOLDER):
                found[file["path"]] = (name, file["size_bytes"])
    return found


async def _rows(
    activity: Snapshot, table: Table, wanted: set[tuple[str, str]], columns: list[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of versions with their files, by asset and version."""
    ids = pa.array({id for _, id in wanted}, pa.string())
    rows = (await activity.scan(table)).select(["asset_id", "materialization_id", "files", *columns])
    rows = rows.filter(pa.compute.is_in(rows.column("materialization_id"), ids))
    found = {(row["asset_id"], row["materialization_id"]): row for row in rows.to_pylist()}
    return {key: row for key, row in found.items() if key in wanted}


def lost_data(wanted: Mapping[str, tuple[str, int]], there: Mapping[str, int]) -> dict[str, str]:
    """What is wrong with files, by path; `there` has the size of those that exist."""
    found: dict[str, str] = {}
    for path, (version, size) in sorted(wanted.items()):
        if path not in there:
            found[path] = f"{path} of {version} is missing"
        elif there[path] != size:
            found[path] = f"{path} of {version} has {there[path]} bytes and was written with {size}"
    return found

"""Facts as other producers send them to `POST /api/v1/events`."""

import time
from typing import Any

from arco.core import AssetId, PartitionKey, Ulid, partition_id
from tests.acceptance.deployment import new_key

__all__ = ["asset", "check", "lineage", "materialization", "now", "observation"]


def now() -> int:
    """Microseconds."""
    return time.time_ns() // 1000


def asset() -> str:
    return new_key()


def materialization(asset_id: str, day: int = 1, at: int | None = None, **data: Any) -> dict[str, Any]:
    """A new version of one partition of an asset. Its file is of others: nobody writes it, and `arco doctor` misses
    only what should lie in the workspace's own folder of data."""
    key = PartitionKey({"day": day})
    completed = at if at is not None else now()
    return {
        "type": "MaterializationCompleted",
        "data": {
            "materialization_id": new_key(),
            "asset_id": asset_id,
            "asset_key": "sales.orders",
            "partition_id": partition_id(AssetId(Ulid(asset_id)), key),
            "partition_key": key.canonical,
            "run_id": "run",
            "task_id": f"day {day}",
            "files": [{"path": "landing/part.parquet", "size_bytes": 100, "row_count": 10}],
            "row_count": 10,
            "byte_size": 100,
            "schema_hash": "5f" * 16,
            "started_at": completed - 1_000,
            "completed_at": completed,
            **data,
        },
    }


def observation(asset_id: str, at: int) -> dict[str, Any]:
    data = {
        "observation_id": new_key(),
        "asset_id": asset_id,
        "asset_key": "sales.orders",
        "partition_id": partition_id(AssetId(Ulid(asset_id)), PartitionKey.empty()),
        "partition_key": "",
        "data_version": f"v{at}",
        "observed_at": at,
    }
    return {"type": "AssetObserved", "data": data}


def check(materialized: dict[str, Any], number: int, at: int) -> dict[str, Any]:
    """What a check found in a materialization."""
    of = materialized["data"]
    data = {
        "check_id": f"check {number}",
        "check_name": "not_null",
        "check_type": "not_null",
        "asset_id": of["asset_id"],
        "partition_id": of["partition_id"],
        "materialization_id": of["materialization_id"],
        "run_id": of["run_id"],
        "task_id": of["task_id"],
        "passed": number % 3 != 0,
        "severity": ("info", "warning", "error", "critical")[number % 4],
        "executed_at": at,
        "gating": {"action": "warn", "policy": "default"},
    }
    return {"type": "CheckExecuted", "data": data}


def lineage(source: str, target: str, number: int, at: int) -> dict[str, Any]:
    data = {
        "run_id": f"run {number}",
        "task_id": "task",
        "started_at": at - 1_000,
        "completed_at": at,
        "edges": [{"source_id": source, "target_id": target, "rows_read": number}],
    }
    return {"type": "LineageRecorded", "data": data}

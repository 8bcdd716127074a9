"""Reading the log `activity`: what a run wrote, and what checks found of a table."""

import heapq

import pyarrow.compute as pc

from arco.catalog._cursors import check_limit, decode_cursor, encode_cursor, number_in
from arco.catalog._names import View, position_of_view
from arco.catalog._plain import Row, plain_rows
from arco.core import NotFound, format_time, shown
from arco.domains.execution import MATERIALIZATIONS, VERSION_STATUS
from arco.domains.quality import CHECK_RESULTS, GATING_DECISIONS, CheckResult, GatingDecision
from arco.state import Snapshot
from arco.wire import CheckResultInfo, MaterializationInfo, Page, RunOutputs

__all__ = ["check_results", "run_outputs"]

_OUTPUT = (
    "asset_id",
    "asset_key",
    "partition_id",
    "partition_key",
    "version",
    "status",
    "run_id",
    "task_id",
    "row_count",
    "byte_size",
    "file_count",
    "schema_hash",
    "started_at",
    "completed_at",
)


async def run_outputs(activity: Snapshot, run_id: str, cursor: str | None = None, limit: int = 1000) -> RunOutputs:
    """Exactly what a run wrote, in the order it was recorded. Only files that can hold rows of the run are read."""
    place = f"outputs/{run_id}"
    last = decode_cursor(place, cursor, 1)
    data = await activity.scan(MATERIALIZATIONS, between={"run_id": (run_id, run_id)})
    if data.num_rows == 0:
        raise NotFound(f"nothing that the run {shown(run_id)} wrote is known")
    data = data.select(["materialization_id", *_OUTPUT, "_position"]).sort_by("_position")
    if last is not None:
        data = data.filter(pc.greater(data.column("_position"), number_in(last[0])))
    rows = plain_rows(data.slice(0, check_limit(limit)))
    await _tell_status(activity, rows)
    return RunOutputs(
        run_id=run_id,
        materializations=[
            MaterializationInfo(
                id=row["materialization_id"], position=row["_position"], **{name: row[name] for name in _OUTPUT}
            )
            for row in rows
        ],
        next_cursor=encode_cursor(place, (str(rows[-1]["_position"]),)) if data.num_rows > len(rows) else None,
        position=str(activity.position),
    )


async def _tell_status(activity: Snapshot, rows: list[Row]) -> None:
    """Say how versions stand now instead of how they were written."""
    groups = {row["asset_id"] for row in rows}
    held = await activity.scan(VERSION_STATUS, groups=groups)
    stand = dict(zip(*(held.column(name).to_pylist() for name in ("materialization_id", "status")), strict=True))
    for row in rows:
        row["status"] = stand.get(row["materialization_id"], row["status"])


async def check_results(
    activity: View, table_id: str, cursor: str | None = None, limit: int = 100
) -> Page[CheckResultInfo]:
    """What checks found of a table, newest first."""
    place = f"checks/{table_id}"
    last = decode_cursor(place, cursor, 2)
    after = None if last is None else (number_in(last[0]), last[1])
    rows: list[CheckResult] = await activity.rows(CHECK_RESULTS, table_id)
    older = [row for row in rows if after is None or _age(row) < after]
    found = heapq.nlargest(check_limit(limit) + 1, older, key=_age)
    items = []
    for row in found[:limit]:
        gating: GatingDecision | None = await activity.get(GATING_DECISIONS, table_id, row.result_id)
        items.append(_result(row, None if gating is None else gating.action))
    following = None
    if len(found) > limit:
        time, result = _age(found[limit - 1])
        following = encode_cursor(place, (str(time), result))
    return Page[CheckResultInfo](items=items, next_cursor=following, position=str(position_of_view(activity)))


def _age(row: CheckResult) -> tuple[int, str]:
    return row.executed_at, row.result_id


def _result(row: CheckResult, action: str | None) -> CheckResultInfo:
    return CheckResultInfo(
        id=row.result_id,
        check_id=row.check_id,
        check_name=row.check_name,
        check_type=row.check_type,
        asset_id=row.asset_id,
        partition_id=row.partition_id,
        materialization_id=row.materialization_id,
        run_id=row.run_id,
        passed=row.passed,
        severity=row.severity,
        expected_value=row.expected_value,
        actual_value=row.actual_value,
        message=row.message or None,
        action=action,
        executed_at=format_time(row.executed_at),
    )

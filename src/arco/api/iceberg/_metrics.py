"""Reports of metrics that engines send after a scan or a commit. They are checked and counted, and not kept: what a
commit did stands in its snapshot's summary."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._names import convert
from arco.api.iceberg._tables import check_table
from arco.iceberg import BadRequest

__all__ = ["METRICS"]


class _Report(msgspec.Struct, rename="kebab"):
    table_name: str
    snapshot_id: int
    metrics: dict[str, dict[str, Any]]


class _Scan(_Report, rename="kebab"):
    filter: Any
    schema_id: int
    projected_field_ids: list[int]
    projected_field_names: list[str]
    metadata: dict[str, str] | None = None


class _Commit(_Report, rename="kebab"):
    sequence_number: int
    operation: str
    metadata: dict[str, str] | None = None


_TYPES: Final[dict[str, type[_Report]]] = {"scan-report": _Scan, "commit-report": _Commit}


async def report_metrics(ask: Ask) -> Response:
    body = await ask.json()
    kind = body.get("report-type") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        raise BadRequest(f"report-type is {' or '.join(_TYPES)}")
    convert(body, _TYPES[kind])
    await check_table(ask)
    ask.warehouse.reports[kind] += 1
    return Response(status_code=204)


METRICS: Final = {("POST", "/v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"): report_metrics}
"""Handlers by operation."""

"""`GET /metrics`: what Prometheus scrapes. Everything is read when it is asked for, from counts that lie where they
are made: requests, the store's calls, the logs, commits to Iceberg tables and their receipts.

A caller sees its own workspace. Every number carries tenant and workspace; no label is a name that somebody gave.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arco import __version__
from arco.api._caller import Caller, authenticate, authorize
from arco.api._host import Host
from arco.api._limits import RateLimiter
from arco.api._measured import Measured
from arco.api._permissions import BESIDE
from arco.api._problems import problem_response
from arco.core import ArcoError, Histogram
from arco.domains.access import read_setting
from arco.iceberg import Upkeep
from arco.runtime import Workspace
from arco.storage import Scope

__all__ = ["families", "metrics_route"]

PATH: Final = "/metrics"
WHERE: Final = ("tenant_id", "workspace_id")
MAX_ACCEPT: Final = 1_000


def metrics_route(host: Host, measured: Measured, rates: RateLimiter) -> Route:
    async def serve(request: Request) -> Response:
        try:
            caller = await _admitted(host, request, rates)
        except ArcoError as error:
            return problem_response(error, str(request.scope.get("arco.request_id", "")))
        encode, media_type = choose_encoder(request.headers.get("accept", "")[:MAX_ACCEPT])
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Found(families(host, measured, caller.scope)))
        return Response(encode(registry), media_type=media_type)

    return Route(PATH, serve, methods=["GET"], include_in_schema=False)


async def _admitted(host: Host, request: Request, rates: RateLimiter) -> Caller:
    caller = await authenticate(host, request)
    authorize(caller, BESIDE["GET", PATH])
    rates.take(caller.bucket, await read_setting(caller.workspace.logs["catalog"].replica, "rate.requests_per_minute"))
    return caller


class _Found(Collector):
    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = tuple(found)

    def collect(self) -> Iterable[Metric]:
        return self._found


def families(host: Host, measured: Measured, scope: Scope) -> Iterator[Metric]:
    """What there is to tell of a workspace. Requests that were let into none are told with the default one."""
    where = [scope.tenant, scope.workspace]
    yield InfoMetricFamily("arco_build", "The program that answers", {"version": __version__})
    yield from _requests(measured, {scope, None} if scope == host.default else {scope})
    workspace = host.workspaces[scope]
    yield _store(workspace, where)
    yield from _logs(workspace, where)
    warehouse = host.warehouses.get(scope)
    if warehouse is not None:
        yield from _iceberg(warehouse.upkeep, where)
        reports = CounterMetricFamily(
            "arco_iceberg_reports", "Reports of metrics that engines sent", labels=[*WHERE, "report_type"]
        )
        for kind, count in sorted(warehouse.reports.items()):
            reports.add_metric([*where, kind], count)
        yield reports


def _requests(measured: Measured, scopes: set[Scope | None]) -> Iterator[Metric]:
    asked = ["method", "route"]
    total = CounterMetricFamily("http_requests", "Requests that were answered", labels=[*WHERE, *asked, "status"])
    for (what, status), count in list(measured.statuses.items()):
        if what.scope in scopes:
            total.add_metric([*_where(what.scope), what.method, what.route, str(status)], count)
    yield total
    seconds = HistogramMetricFamily(
        "http_request_duration_seconds", "Seconds until an answer began", labels=[*WHERE, *asked]
    )
    for what, found in list(measured.durations.items()):
        if what.scope in scopes:
            _add(seconds, [*_where(what.scope), what.method, what.route], found)
    yield seconds


def _store(workspace: Workspace, where: list[str]) -> Metric:
    found = CounterMetricFamily("arco_store_requests", "Calls to the store", labels=[*WHERE, "role", "operation"])
    for (role, operation), count in workspace.counts.table().items():
        found.add_metric([*where, role.value, operation.value], count)
    return found


def _logs(workspace: Workspace, where: list[str]) -> Iterator[Metric]:
    labels = [*WHERE, "log"]
    tail = GaugeMetricFamily("arco_log_tail_position", "The last position that this process knows", labels=labels)
    published = GaugeMetricFamily(
        "arco_log_published_position",
        "The last position that is published, where this process publishes",
        labels=labels,
    )
    behind = GaugeMetricFamily(
        "arco_log_unpublished_segments",
        "Segments that are not published yet, where this process publishes",
        labels=labels,
    )
    failing = GaugeMetricFamily(
        "arco_log_failing_jobs", "Merges and packs that cannot be made now and are tried again", labels=labels
    )
    for name, log in workspace.logs.items():
        tail.add_metric([*where, name], int(log.follower.watermark))
        jobs = (log.compactor.merging, log.compactor.packing)
        failing.add_metric([*where, name], sum(len(one.failures) for one in jobs))
        if log.publishing.ours():
            manifest = log.compactor.head.manifest
            published.add_metric([*where, name], int(manifest.watermark))
            behind.add_metric([*where, name], max(log.follower.tail.number - manifest.link.number, 0))
    yield from (tail, published, behind, failing)


def _iceberg(upkeep: Upkeep, where: list[str]) -> Iterator[Metric]:
    commits = CounterMetricFamily(
        "arco_iceberg_commits", "Commits to tables and views by how they ended", labels=[*WHERE, "source", "outcome"]
    )
    for (source, outcome), count in sorted(upkeep.outcomes.counts.items()):
        commits.add_metric([*where, source, outcome], count)
    yield commits
    lags = HistogramMetricFamily(
        "arco_iceberg_receipt_lag_seconds", "Seconds from a commit to its event in the log", labels=WHERE
    )
    _add(lags, where, upkeep.receipts.lags)
    yield lags
    lag = upkeep.receipts.lag()
    waiting = GaugeMetricFamily(
        "arco_iceberg_receipts_waiting", "Commits that the log is about to be told of", labels=WHERE
    )
    waiting.add_metric(where, lag.waiting)
    yield waiting
    for name, text, number in (
        ("refused", "Commits that the log did not take, or for which there was no room", lag.refused),
        ("restored", "Events of commits that were made from pointers, because their receipts were lost",
         upkeep.reconciler.restored),
    ):  # fmt: skip
        found = CounterMetricFamily(f"arco_iceberg_receipts_{name}", text, labels=WHERE)
        found.add_metric(where, number)
        yield found


def _where(scope: Scope | None) -> tuple[str, str]:
    return ("", "") if scope is None else (scope.tenant, scope.workspace)


def _add(family: HistogramMetricFamily, labels: list[str], found: Histogram) -> None:
    family.add_metric(labels, list(found.cumulative()), found.total)

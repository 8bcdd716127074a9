"""Calls that look: SQL, differences, revisions, audit, operations, signed URLs, health."""

from typing import Literal, Unpack

from arco.client._calls import Reading, path_of
from arco.client._sync._connection import Calls, Pages
from arco.wire import (
    AuditEntry,
    BrowserUrls,
    BrowserUrlsRequest,
    Health,
    OperationInfo,
    Page,
    QueryRequest,
    QueryResultInfo,
    RevisionInfo,
    SnapshotDiff,
)

__all__ = ["ReadingCalls"]

LogName = Literal["catalog", "activity"]


class ReadingCalls(Calls):
    def run_query(self, request: QueryRequest) -> QueryResultInfo:
        """Run SQL that reads `system.*` and the data of tables."""
        return self._connection.ask("/api/v1/query", request, QueryResultInfo)

    def diff_states(
        self,
        from_point: str,
        to_point: str | None = None,
        *,
        log: LogName = "catalog",
        table: str | None = None,
        limit: int | None = None,
    ) -> SnapshotDiff:
        """What changed in a log's tables between two points (`as_of` texts); to now if there is only one.

        `limit` is how many changes are listed for each table; the counts are whole.
        """
        query = {"log": log, "from": from_point, "to": to_point, "table": table, "limit": limit}
        return self._connection.read("/api/v1/diff", SnapshotDiff, query, {})

    def list_revisions(self, log: LogName = "catalog", *, limit: int | None = None) -> Pages[RevisionInfo]:
        """The retained revisions, newest first."""
        query = {"log": log, "limit": limit}
        return Pages(self._connection, "/api/v1/revisions", Page[RevisionInfo], query, {})

    def list_audit(
        self, log: LogName | None = None, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> Pages[AuditEntry]:
        """Who did what, newest first."""
        query = {"log": log, "limit": limit}
        return Pages(self._connection, "/api/v1/audit", Page[AuditEntry], query, options)

    def get_operation(self, operation_id: str) -> OperationInfo:
        """What became of a write."""
        path = path_of("/api/v1/operations/{operation_id}", operation_id=operation_id)
        return self._connection.read(path, OperationInfo, {}, {})

    def sign_browser_urls(self, request: BrowserUrlsRequest) -> BrowserUrls:
        """Signed addresses of exactly the files a query needs."""
        return self._connection.ask("/api/v1/browser/urls", request, BrowserUrls)

    def health(self) -> Health:
        """Whether the server runs. Asked once; needs no key."""
        return self._connection.probe("/healthz")

    def ready(self) -> Health:
        """Whether the server can work. Asked once; needs no key."""
        return self._connection.probe("/readyz")

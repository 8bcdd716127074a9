"""SQL, differences, revisions, audit, operations, signed URLs."""

from typing import Annotated, Any, Literal

from pydantic import Field

from arco.wire._base import Answer, Request

__all__ = [
    "AuditEntry",
    "BrowserFile",
    "BrowserLog",
    "BrowserTable",
    "BrowserUrls",
    "BrowserUrlsRequest",
    "DiffChange",
    "DiffTable",
    "Health",
    "OperationInfo",
    "QueryColumn",
    "QueryRequest",
    "QueryResultInfo",
    "RevisionInfo",
    "SnapshotDiff",
]

LogNames = Literal["catalog", "activity"]


class QueryRequest(Request):
    sql: Annotated[str, Field(min_length=1, max_length=100_000, examples=["SELECT full_name FROM system.tables"])]
    as_of: Annotated[str | None, Field(max_length=256)] = None
    """As the parameter `as_of` of other routes."""
    max_rows: Annotated[int | None, Field(ge=1, le=1 << 53)] = None
    """Less than the workspace's limit; more is cut to it."""


class QueryColumn(Answer):
    name: str
    type: str


class QueryResultInfo(Answer):
    columns: list[QueryColumn]
    rows: list[list[Any]]
    row_count: int
    truncated: bool
    """True if there are more rows than the limits allow."""
    bytes_read: int
    elapsed_ms: float
    positions: dict[str, str]
    """The position of each log it was read at."""


class DiffChange(Answer):
    change: Literal["added", "removed", "changed"]
    key: dict[str, str]
    before: dict[str, Any] | None
    """Of a changed row only the columns that differ."""
    after: dict[str, Any] | None


class DiffTable(Answer):
    table: str
    added: int
    removed: int
    changed: int
    changes: list[DiffChange]
    truncated: bool


class SnapshotDiff(Answer):
    log: LogNames
    from_position: str
    to_position: str
    tables: list[DiffTable]
    """Only those with a difference."""


class RevisionInfo(Answer):
    log: LogNames
    revision: int
    published_at: str
    position: str


class AuditEntry(Answer):
    id: str
    log: LogNames
    actor: str
    action: str
    resource_type: str
    resource: str
    operation_id: str
    request_id: str
    before: Any | None
    after: Any | None
    recorded_at: str


class OperationInfo(Answer):
    """What became of a write: `done` if it was carried out, `unknown` if the log has no trace of it.

    An operation that is unknown may still land while its request is under way: ask again, or send the same key again.
    """

    operation_id: str
    status: Literal["done", "unknown"]
    log: LogNames | None
    first_position: str | None
    last_position: str | None
    actor: str | None
    command: str | None
    received_at: str | None
    published: bool


class BrowserTable(Request):
    table: Annotated[str, Field(examples=["tables"])]
    groups: list[str] | None = None
    """Only files that can hold rows of these groups (a namespace's id for `names`, a table's id for `columns`)."""


class BrowserUrlsRequest(Request):
    tables: Annotated[list[BrowserTable], Field(min_length=1, max_length=100)]
    revision: Annotated[int | None, Field(ge=1, le=1 << 53)] = None
    """A retained revision; needs tables of one log. The newest if absent."""
    expires_in: Annotated[int, Field(ge=1, le=3600)] = 900


class BrowserFile(Answer):
    table: str
    url: str
    offset: int
    length: int
    sha256: str
    rows: int
    first: str
    """Positions the file covers: `first < position <= last`."""
    last: str


class BrowserLog(Answer):
    log: LogNames
    revision: int
    position: str
    manifest_url: str | None
    """Null before the first revision."""
    files: list[BrowserFile]


class BrowserUrls(Answer):
    expires_at: str
    logs: list[BrowserLog]


class Health(Answer):
    status: Literal["ok", "degraded"]
    version: str
    checks: dict[str, str]

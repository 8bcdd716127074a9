"""States of the past and what leads from one to the next: differences, revisions, audit, operations; signed URLs."""

from typing import Annotated, Literal

from fastapi import Path, Query, Request

from arco.api._reading import CallerDep, Cursor, Limit, ReadsDep, host_of
from arco.api._routing import router
from arco.catalog import audit_page, browser_urls, diff_snapshots, parse_as_of, revisions_page
from arco.core import format_time, parse_ulid
from arco.state import OPERATIONS
from arco.wire import AuditEntry, BrowserUrls, BrowserUrlsRequest, OperationInfo, Page, RevisionInfo, SnapshotDiff

__all__ = ["states"]

states = router("states")

LogQuery = Annotated[Literal["catalog", "activity"] | None, Query(description="Only this log; both if absent.")]
OneLog = Annotated[Literal["catalog", "activity"], Query(description="Of this log.")]


@states.get("/diff")
async def diff_states(
    request: Request,
    caller: CallerDep,
    from_point: Annotated[str, Query(alias="from", max_length=256, description="The earlier state, as `as_of`.")],
    to_point: Annotated[
        str | None, Query(alias="to", max_length=256, description="The later state; the present one if absent.")
    ] = None,
    log: OneLog = "catalog",
    table: Annotated[str | None, Query(max_length=128, description="Only this table of state.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Changes listed per table; counts are whole.")] = 1000,
) -> SnapshotDiff:
    """What is different between two states of a log, row by row."""
    points = host_of(request).points_of(caller.scope)
    before = await points.snapshot_at(log, parse_as_of(from_point))
    after = await points.snapshot_at(log, parse_as_of(to_point))
    return await diff_snapshots(before, after, table=table, limit=limit, runtime=caller.workspace.runtime)


@states.get("/revisions")
async def list_revisions(
    caller: CallerDep, log: OneLog = "catalog", cursor: Cursor = None, limit: Limit = 100
) -> Page[RevisionInfo]:
    """The retained revisions of a log, newest first."""
    return await revisions_page(caller.workspace, log, cursor, limit)


@states.get("/audit")
async def list_audit(
    reads: ReadsDep, log: LogQuery = None, cursor: Cursor = None, limit: Limit = 100
) -> Page[AuditEntry]:
    """Who did what, newest first, with the rows before and after."""
    return await audit_page(await reads.snapshots(), log=log, cursor=cursor, limit=limit)


@states.get("/operations/{operation_id}")
async def get_operation(
    caller: CallerDep,
    operation_id: Annotated[str, Path(max_length=64, description="`operation_id` of an answer or a problem.")],
) -> OperationInfo:
    """What became of a write. Ask this after a 503: what is `done` is done, what is `unknown` left no trace so far."""
    operation = parse_ulid(operation_id)
    for name, opened in caller.workspace.logs.items():
        await opened.current(strong=True)
        row = await opened.replica.get(OPERATIONS, operation, operation)
        if row is not None:
            return OperationInfo(
                operation_id=operation,
                status="done",
                log="catalog" if name == "catalog" else "activity",
                first_position=str(row.first),
                last_position=str(row.last),
                actor=row.actor,
                command=row.command,
                received_at=format_time(row.received_at),
                published=await opened.is_published(row.last),
            )
    return OperationInfo(
        operation_id=operation,
        status="unknown",
        log=None,
        first_position=None,
        last_position=None,
        actor=None,
        command=None,
        received_at=None,
        published=False,
    )


@states.post("/browser/urls")
async def sign_browser_urls(caller: CallerDep, body: BrowserUrlsRequest) -> BrowserUrls:
    """Signed, short-lived URLs of exactly the manifest and the files that a query in a browser needs."""
    return await browser_urls(caller.workspace, body)

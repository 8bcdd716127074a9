"""The retained revisions of a log, newest first, as pages."""

from typing import Literal

from arco.catalog._cursors import check_limit, decode_cursor, encode_cursor
from arco.core import Invalid, format_time
from arco.runtime import Workspace
from arco.wire import Page, RevisionInfo

__all__ = ["revisions_page"]


async def revisions_page(workspace: Workspace, log: str, cursor: str | None, limit: int) -> Page[RevisionInfo]:
    opened = workspace.logs[log]
    head = (await opened.snapshot(strong=True)).manifest
    place = f"revisions:{log}"
    after = decode_cursor(place, cursor, 1)
    if after is not None and not after[0].isdecimal():
        raise Invalid("this cursor does not belong to this list; pass the next_cursor of its last page, or none")
    found = [(entry.revision, entry.published_at, entry.watermark) for entry in await opened.revisions.history(head)]
    if head.number:
        found.append((head.number, head.published_at, head.watermark))
    wanted = [entry for entry in reversed(found) if after is None or entry[0] < int(after[0])]
    shown = wanted[: check_limit(limit)]
    name: Literal["catalog", "activity"] = "catalog" if log == "catalog" else "activity"
    return Page(
        items=[
            RevisionInfo(log=name, revision=number, published_at=format_time(published_at), position=watermark)
            for number, published_at, watermark in shown
        ],
        next_cursor=encode_cursor(place, [str(shown[-1][0])]) if len(wanted) > len(shown) else None,
        position=head.watermark,
    )

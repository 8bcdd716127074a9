"""Signed URLs for readers that open state themselves, such as a browser: one manifest a log and the files it needs.

Which files hold rows of a group follows from the buckets in the manifest, so nothing is read to answer. Private tables
do not exist here: they lie in objects that are never signed, and asking for one is asking for an unknown table.
"""

from typing import Any, cast

from arco.core import SECOND, Invalid, NotFound, format_time
from arco.runtime import OpenLog, Workspace
from arco.state import Layer, Manifest, bucket_of
from arco.storage import Role, Store
from arco.wire import BrowserFile, BrowserLog, BrowserTable, BrowserUrls, BrowserUrlsRequest

__all__ = ["browser_urls"]

MAX_GROUPS = 1_000


async def browser_urls(workspace: Workspace, request: BrowserUrlsRequest) -> BrowserUrls:
    """URLs of exactly the manifest and the files that the tables asked for need, of each log that has one of them."""
    wanted = _wanted(workspace, request)
    if request.revision is not None and len(wanted) != 1:
        raise Invalid("each log counts its own revisions; ask for tables of one log, or for the newest revision")
    expires_at = workspace.runtime.now() + request.expires_in * SECOND
    signer = _Signer(workspace.handle(Role.READER), request.expires_in)
    logs = []
    for log, tables in wanted.items():
        opened = workspace.logs[log]
        manifest = (await opened.snapshot(revision=request.revision)).manifest
        logs.append(await _signed(opened, manifest, tables, signer))
    return BrowserUrls(expires_at=format_time(expires_at), logs=logs)


def _wanted(workspace: Workspace, request: BrowserUrlsRequest) -> dict[str, dict[str, BrowserTable]]:
    """By log: the tables asked for. A table that both logs have is asked of both."""
    found: dict[str, dict[str, BrowserTable]] = {}
    for asked in request.tables:
        if asked.groups is not None and len(asked.groups) > MAX_GROUPS:
            raise Invalid(f"{asked.table} is asked for with more than {MAX_GROUPS} groups; ask for all of it")
        logs = [log for log, opened in workspace.logs.items() if asked.table in _public(opened)]
        if not logs:
            known = sorted({name for opened in workspace.logs.values() for name in _public(opened)})
            raise NotFound(f"there is no table {asked.table[:80]!r}; there are {', '.join(known)}")
        for log in logs:
            if asked.table in found.setdefault(log, {}):
                raise Invalid(f"the table {asked.table} is asked for twice; name all its groups at once")
            found[log][asked.table] = asked
    return found


def _public(opened: OpenLog) -> set[str]:
    return {name for name, table in opened.definition.tables.items() if not table.private}


async def _signed(
    opened: OpenLog, manifest: Manifest, tables: dict[str, BrowserTable], signer: "_Signer"
) -> BrowserLog:
    files = [
        await _files(layer, tables[layer.table].groups, signer) for layer in manifest.layers if layer.table in tables
    ]
    path = opened.revisions.sequence.path(manifest.number)
    return BrowserLog(
        log=cast(Any, opened.definition.log),
        revision=manifest.number,
        position=manifest.watermark,
        manifest_url=await signer.url(path) if manifest.number else None,
        files=[file for found in files for file in found],
    )


async def _files(layer: Layer, groups: list[str] | None, signer: "_Signer") -> list[BrowserFile]:
    buckets = None if groups is None else {bucket_of(group) for group in groups}
    return [
        BrowserFile(
            table=layer.table,
            url=await signer.url(file.path),
            offset=file.offset,
            length=file.length,
            sha256=file.sha256,
            rows=file.rows,
            first=layer.first,
            last=layer.last,
        )
        for file in layer.files
        if buckets is None or any(file.has_bucket(bucket) for bucket in buckets)
    ]


class _Signer:
    """Signs each object once, however many of its slices are asked for."""

    def __init__(self, store: Store, expires_in: int) -> None:
        self._store = store
        self._expires_in = expires_in
        self._urls: dict[str, str] = {}

    async def url(self, path: str) -> str:
        if path not in self._urls:
            self._urls[path] = await self._store.sign(path, expires_in=self._expires_in)
        return self._urls[path]

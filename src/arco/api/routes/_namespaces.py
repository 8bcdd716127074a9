"""Namespaces: list, create, show, update, rename, drop, history."""

import contextlib
from typing import Annotated, Any

import msgspec
from fastapi import Query
from msgspec import UNSET

from arco.api._reading import MAX_REF, Cursor, IfNoneMatch, Limit, NamespaceRef, ReadsDep, answer_one
from arco.api._routing import router
from arco.api._writing import IfExists, IfMatch, Writes, WritesDep
from arco.catalog import View, list_namespaces, namespace_history, namespace_info, parse_ref, resolve_namespace
from arco.core import NotFound, parse_path
from arco.domains.catalog import CreateNamespace, DropNamespace, Ref, RenameNamespace, UpdateNamespace
from arco.log import Receipt
from arco.servo import check_no_assets_below
from arco.wire import (
    HistoryEntry,
    NamespaceCreate,
    NamespaceInfo,
    NamespaceRename,
    NamespaceUpdate,
    NamespaceWritten,
    Page,
    Written,
)

__all__ = ["namespaces"]

namespaces = router("namespaces")


async def _written(writes: Writes, receipt: Receipt, ref: Ref, known: str | None) -> NamespaceWritten:
    """The namespace as the command left it: on a replay, as it was then. `ref` is what it is called after it."""
    info = await writes.left(receipt, known, lambda view, key: namespace_info(view, Ref(id=key) if key else ref))
    return NamespaceWritten(
        operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed, namespace=info
    )


async def _change(writes: Writes, ref: Ref, command: msgspec.Struct, after: Ref) -> NamespaceWritten:
    known = None
    with contextlib.suppress(NotFound):  # the command itself will say so
        catalog = writes.caller.workspace.logs["catalog"]
        found, _ = await catalog.read(lambda view: resolve_namespace(view, ref), strong=False)
        known = found.id
    return await _written(writes, await writes.decide("catalog", command), after, known)


@namespaces.get("/namespaces")
async def list_namespaces_route(
    reads: ReadsDep,
    parent: Annotated[
        str | None, Query(max_length=MAX_REF, description="Its children; the top level if absent.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[NamespaceInfo]:
    """List the namespaces directly below another, in order of name."""
    return await reads.catalog(lambda view: list_namespaces(view, parent, cursor, limit))


@namespaces.post("/namespaces", status_code=201)
async def create_namespace(writes: WritesDep, body: NamespaceCreate) -> NamespaceWritten:
    """Create a namespace. Its parent must exist."""
    path = parse_path(body.name)
    command = CreateNamespace(path, body.description, body.properties, body.if_not_exists)
    receipt = await writes.decide("catalog", command)
    return await _written(writes, receipt, Ref(path=path), await writes.created_id(receipt, "namespace"))


@namespaces.get("/namespaces/{namespace}", response_model=NamespaceInfo)
async def get_namespace(reads: ReadsDep, namespace: NamespaceRef, if_none_match: IfNoneMatch = None) -> Any:
    """Show a namespace, by its path or as `id:` and its id. A name it had before finds it too."""
    info = await reads.catalog(lambda view: namespace_info(view, namespace))
    return answer_one(reads, info, info.version, if_none_match)


@namespaces.patch("/namespaces/{namespace}")
async def update_namespace(
    writes: WritesDep, namespace: NamespaceRef, body: NamespaceUpdate, expected_version: IfMatch
) -> NamespaceWritten:
    """Change the description and properties of a namespace."""
    ref = parse_ref(namespace)
    command = UpdateNamespace(
        ref,
        body.description if "description" in body.model_fields_set else UNSET,
        body.set_properties,
        tuple(body.remove_properties),
        expected_version,
    )
    return await _change(writes, ref, command, ref)


@namespaces.post("/namespaces/{namespace}/rename")
async def rename_namespace(
    writes: WritesDep, namespace: NamespaceRef, body: NamespaceRename, expected_version: IfMatch
) -> NamespaceWritten:
    """Rename a namespace or move it below another, with everything it holds. Not if assets have their Iceberg tables in
    it, whose names are those of the assets."""
    ref, new_path = parse_ref(namespace), parse_path(body.new_name)
    await _check_no_assets(writes, ref)
    return await _change(writes, ref, RenameNamespace(ref, new_path, expected_version), Ref(path=new_path))


async def _check_no_assets(writes: Writes, ref: Ref) -> None:
    async def check(view: View) -> None:
        with contextlib.suppress(NotFound):  # which the command itself says better
            found = await resolve_namespace(view, ref)
            await check_no_assets_below(view, found.path)

    await writes.caller.workspace.logs["catalog"].read(check)


@namespaces.delete("/namespaces/{namespace}")
async def drop_namespace(
    writes: WritesDep,
    namespace: NamespaceRef,
    expected_version: IfMatch,
    if_exists: IfExists = False,
    cascade: Annotated[bool, Query(description="Drop everything it holds as well; refused by default.")] = False,
) -> Written:
    """Drop a namespace. One that holds something is refused unless `cascade` says otherwise."""
    command = DropNamespace(parse_ref(namespace), if_exists, cascade, expected_version)
    receipt = await writes.decide("catalog", command)
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


@namespaces.get("/namespaces/{namespace}/history")
async def get_namespace_history(reads: ReadsDep, namespace: NamespaceRef) -> Page[HistoryEntry]:
    """What a namespace has been called."""
    return await reads.catalog(lambda view: namespace_history(view, namespace))

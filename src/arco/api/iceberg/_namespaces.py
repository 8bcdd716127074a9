"""Namespaces: list, create, load, exists, drop, properties."""

from typing import Final

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask, split_namespace
from arco.api.iceberg._listing import list_page
from arco.api.iceberg._names import convert, decide, dotted, namespace_of, read
from arco.core import Conflict, NotFound, PreconditionFailed, Refused, Unavailable, fingerprint
from arco.domains.catalog import CreateNamespace, DropNamespace, Ref, UpdateNamespace
from arco.iceberg import (
    AlreadyExists,
    BadRequest,
    NamespaceNotEmpty,
    NoSuchNamespace,
    Unprocessable,
    check_namespace_properties,
    nothing_changed,
)

__all__ = ["NAMESPACES"]

TRIES: Final = 8


class _Create(msgspec.Struct):
    namespace: tuple[str, ...]
    properties: dict[str, str] | None = None


class _Properties(msgspec.Struct):
    removals: tuple[str, ...] | None = None
    updates: dict[str, str] | None = None


def _json(document: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")


async def list_namespaces(ask: Ask) -> Response:
    parent = ask.query.get("parent", "")
    return await list_page(ask, "namespaces", split_namespace(parent) if parent else ())


async def create_namespace(ask: Ask) -> Response:
    body = convert(await ask.json(), _Create)
    path, properties = body.namespace, body.properties or {}
    if not path:
        raise BadRequest("the namespace has no levels; send its names as a list")
    check_namespace_properties(ask.warehouse.locations, properties)
    try:
        with nothing_changed():
            await decide(ask, CreateNamespace(path, None, properties))
    except NotFound:
        raise NoSuchNamespace(f"Namespace does not exist: {dotted(path[:-1])}; create it first") from None
    except Conflict as error:
        if type(error) is not Conflict:
            raise
        raise AlreadyExists(f"Namespace already exists: {dotted(path)}") from None
    return _json({"namespace": path, "properties": properties})


async def load_namespace(ask: Ask) -> Response:
    row = await read(ask, lambda view: namespace_of(view, ask.namespace))
    return _json({"namespace": ask.namespace, "properties": row.properties})


async def namespace_exists(ask: Ask) -> Response:
    await read(ask, lambda view: namespace_of(view, ask.namespace))
    return Response(status_code=204)


async def drop_namespace(ask: Ask) -> Response:
    path = ask.namespace
    try:
        with nothing_changed():
            await _check_known(ask)
            await decide(ask, DropNamespace(Ref(path=path)))
    except NotFound:
        raise NoSuchNamespace(f"Namespace does not exist: {dotted(path)}") from None
    except Refused as error:
        if type(error) is not Refused:
            raise
        holds = error.message.partition("it holds ")[2].partition(";")[0]
        raise NamespaceNotEmpty(f"Namespace {dotted(path)} is not empty. It holds {holds}; drop them first") from None
    return Response(status_code=204)


async def _check_known(ask: Ask) -> None:
    """A name that cannot be is unknown, not wrong. A repeated drop is not asked: its namespace is gone."""
    if not ask.key:
        await read(ask, lambda view: namespace_of(view, ask.namespace))


async def update_properties(ask: Ask) -> Response:
    """The answer says which of the removed ones were not there, so it must be about the state that was changed: if
    somebody else is faster, it is looked at again."""
    path, body = ask.namespace, convert(await ask.json(), _Properties)
    removals, updates = tuple(dict.fromkeys(body.removals or ())), body.updates or {}
    both = sorted(set(removals) & updates.keys())
    if both:
        raise Unprocessable(f"Invalid namespace update, cannot set and remove keys: {', '.join(both)[:1000]}")
    check_namespace_properties(ask.warehouse.locations, updates, removals)
    asked = fingerprint({"namespace": list(path), "removals": list(removals), "updates": updates})
    for _ in range(TRIES):
        with nothing_changed():
            row = await read(ask, lambda view: namespace_of(view, path))
        command = UpdateNamespace(
            Ref(id=row.namespace_id),
            set_properties=updates,
            remove_properties=removals,
            expected_version=row.version,
        )
        try:
            with nothing_changed():
                receipt = await decide(ask, command, asked)
        except PreconditionFailed:
            continue
        except NotFound:
            raise NoSuchNamespace(f"Namespace does not exist: {dotted(path)}") from None
        before = row.properties
        if receipt.replayed:
            before = await _before(ask, int(receipt.first), path) or before
        missing = [key for key in removals if key not in before]
        removed = [key for key in removals if key in before]
        return _json({"updated": list(updates), "removed": removed, "missing": missing})
    raise Unavailable(f"the namespace {dotted(path)} changes too often to be updated; nothing was written, try again")


async def _before(ask: Ask, position: int, path: tuple[str, ...]) -> dict[str, str] | None:
    """The properties as they were when a request was carried out the first time."""
    snapshot = await ask.caller.workspace.logs["catalog"].snapshot(position=position - 1)
    try:
        return (await namespace_of(snapshot, path)).properties
    except NotFound:
        return None


_PATH: Final = "/v1/{prefix}/namespaces"
NAMESPACES: Final = {
    ("GET", _PATH): list_namespaces,
    ("POST", _PATH): create_namespace,
    ("GET", f"{_PATH}/{{namespace}}"): load_namespace,
    ("HEAD", f"{_PATH}/{{namespace}}"): namespace_exists,
    ("DELETE", f"{_PATH}/{{namespace}}"): drop_namespace,
    ("POST", f"{_PATH}/{{namespace}}/properties"): update_properties,
}
"""Handlers by operation."""

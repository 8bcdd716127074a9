"""Tables: list, create, stage, load, exists, commit, drop, rename, register, unregister; commits of several at once."""

from typing import Final

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._delegation import wanted_of
from arco.api.iceberg._hot import hold
from arco.api.iceberg._listing import list_page
from arco.api.iceberg._loading import answer_table, snapshots_of
from arco.api.iceberg._who import who_asks
from arco.iceberg import NoSuchTable
from arco.iceberg.metadata import (
    Identifier,
    parse_commit,
    parse_create,
    parse_register,
    parse_rename,
    parse_transaction,
)

__all__ = ["TABLES", "path_of"]


def path_of(identifier: Identifier) -> tuple[str, ...]:
    return (*identifier.namespace, identifier.name)


async def list_tables(ask: Ask) -> Response:
    return await list_page(ask, "tables", ask.namespace)


async def create_table(ask: Ask) -> Response:
    body = await ask.json()
    request, who = parse_create(body), who_asks(ask, body)
    path = (*ask.namespace, request.name)
    tables = ask.warehouse.tables
    made = await (tables.stage if request.stage_create else tables.create)(path, request, who)
    return await answer_table(ask, made)


async def load_table(ask: Ask) -> Response:
    snapshots = snapshots_of(ask)
    tables = ask.warehouse.tables
    found = await tables.load(ask.path)
    if not wanted_of(ask):
        hold(ask.request.scope, tables.unchanged(found))
    return await answer_table(ask, found, snapshots)


async def table_exists(ask: Ask) -> Response:
    found, holds = await ask.warehouse.tables.look(ask.path)
    hold(ask.request.scope, holds)
    return Response(status_code=204 if found else 404)


async def commit_table(ask: Ask) -> Response:
    body = await ask.json()
    committed = await ask.warehouse.tables.commit(ask.path, parse_commit(body), who_asks(ask, body))
    return await answer_table(ask, committed, delegate=False)


async def drop_table(ask: Ask) -> Response:
    purge = ask.flag("purgeRequested")
    await ask.warehouse.tables.drop(ask.path, who_asks(ask, {"purge": purge}), purge=purge)
    return Response(status_code=204)


async def rename_table(ask: Ask) -> Response:
    body = await ask.json()
    request = parse_rename(body)
    await ask.warehouse.tables.rename(path_of(request.source), path_of(request.destination), who_asks(ask, body))
    return Response(status_code=204)


async def register_table(ask: Ask) -> Response:
    body = await ask.json()
    request, who = parse_register(body), who_asks(ask, body)
    path = (*ask.namespace, request.name)
    made = await ask.warehouse.tables.register(path, request.metadata_location, request.overwrite, who)
    return await answer_table(ask, made)


async def unregister_table(ask: Ask) -> Response:
    left = await ask.warehouse.tables.unregister(ask.path, who_asks(ask, None))
    location = msgspec.json.encode(left.metadata_location)
    body = b'{"metadata-location":%b,"metadata":%b}' % (location, left.encoded)
    return Response(body, media_type="application/json")


async def commit_transaction(ask: Ask) -> Response:
    body = await ask.json()
    changes = []
    for request in parse_transaction(body):
        assert request.identifier is not None  # looked at while it was read
        changes.append((path_of(request.identifier), request))
    await ask.warehouse.tables.commit_all(changes, who_asks(ask, body))
    return Response(status_code=204)


async def check_table(ask: Ask) -> None:
    """`NoSuchTable` if the path of the request names none."""
    if not await ask.warehouse.tables.exists(ask.path):
        raise NoSuchTable(f"Table does not exist: {'.'.join(ask.path)[:1000]}")


_NAMESPACE: Final = "/v1/{prefix}/namespaces/{namespace}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
TABLES: Final = {
    ("GET", f"{_NAMESPACE}/tables"): list_tables,
    ("POST", f"{_NAMESPACE}/tables"): create_table,
    ("POST", f"{_NAMESPACE}/register"): register_table,
    ("GET", _TABLE): load_table,
    ("HEAD", _TABLE): table_exists,
    ("POST", _TABLE): commit_table,
    ("DELETE", _TABLE): drop_table,
    ("POST", f"{_TABLE}/unregister"): unregister_table,
    ("POST", "/v1/{prefix}/tables/rename"): rename_table,
    ("POST", "/v1/{prefix}/transactions/commit"): commit_transaction,
}
"""Handlers by operation."""

"""Views: list, create, load, exists, replace, drop, rename, register."""

from typing import Final

from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._listing import list_page
from arco.api.iceberg._loading import answer_view
from arco.api.iceberg._tables import path_of
from arco.api.iceberg._who import who_asks
from arco.iceberg.metadata import parse_create_view, parse_register, parse_rename, parse_view_commit

__all__ = ["VIEWS"]


async def list_views(ask: Ask) -> Response:
    return await list_page(ask, "views", ask.namespace)


async def create_view(ask: Ask) -> Response:
    body = await ask.json()
    request = parse_create_view(body)
    made = await ask.warehouse.views.create((*ask.namespace, request.name), request, who_asks(ask, body))
    return answer_view(made)


async def load_view(ask: Ask) -> Response:
    return answer_view(await ask.warehouse.views.load(ask.path))


async def view_exists(ask: Ask) -> Response:
    found = await ask.warehouse.views.exists(ask.path)
    return Response(status_code=204 if found else 404)


async def replace_view(ask: Ask) -> Response:
    body = await ask.json()
    return answer_view(await ask.warehouse.views.replace(ask.path, parse_view_commit(body), who_asks(ask, body)))


async def drop_view(ask: Ask) -> Response:
    await ask.warehouse.views.drop(ask.path, who_asks(ask, None))
    return Response(status_code=204)


async def rename_view(ask: Ask) -> Response:
    body = await ask.json()
    request = parse_rename(body)
    await ask.warehouse.views.rename(path_of(request.source), path_of(request.destination), who_asks(ask, body))
    return Response(status_code=204)


async def register_view(ask: Ask) -> Response:
    body = await ask.json()
    request = parse_register(body)
    path = (*ask.namespace, request.name)
    return answer_view(await ask.warehouse.views.register(path, request.metadata_location, who_asks(ask, body)))


_NAMESPACE: Final = "/v1/{prefix}/namespaces/{namespace}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"
VIEWS: Final = {
    ("GET", f"{_NAMESPACE}/views"): list_views,
    ("POST", f"{_NAMESPACE}/views"): create_view,
    ("POST", f"{_NAMESPACE}/register-view"): register_view,
    ("GET", _VIEW): load_view,
    ("HEAD", _VIEW): view_exists,
    ("POST", _VIEW): replace_view,
    ("DELETE", _VIEW): drop_view,
    ("POST", "/v1/{prefix}/views/rename"): rename_view,
}
"""Handlers by operation."""

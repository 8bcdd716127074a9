"""Lists of namespaces, tables and views, page by page or all at once.

Without `pageToken` Iceberg wants everything in one answer; an empty one begins to page. What was encoded once is kept
for as long as the catalog stays as it is.
"""

from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from arco.api.iceberg._ask import Ask
from arco.api.iceberg._names import namespace_id_of, read
from arco.catalog import View, decode_cursor, encode_cursor, position_of_view
from arco.core import Invalid
from arco.domains.catalog import NAMES, Name
from arco.iceberg import BadRequest

__all__ = ["Listed", "list_page"]

Listed = Literal["namespaces", "tables", "views"]

MAX_PAGE: Final = 1_000
CHUNK: Final = 1_000
_KINDS: Final[dict[Listed, str]] = {"namespaces": "namespace", "tables": "table", "views": "table"}
_FORMATS: Final[dict[Listed, str | None]] = {"namespaces": None, "tables": "ICEBERG", "views": "ICEBERG_VIEW"}


async def list_page(ask: Ask, listed: Listed, path: tuple[str, ...]) -> Response:
    """What is directly in a namespace, by name."""
    token, size = ask.query.get("pageToken"), _size(ask.query.get("pageSize"))
    lists = ask.warehouse.lists

    async def work(view: View) -> Response:
        parent = await namespace_id_of(view, path)
        # The path is part of the answer: a namespace that was moved is another list.
        position = position_of_view(view)
        key = (listed, path, parent, token, size, position)
        found = lists.get(key)
        if found is None:
            body = msgspec.json.encode(await _listed(view, listed, path, parent, token, size))
            found = Response(body, media_type="application/json")
            if position_of_view(view) == position:  # else it is mixed of two states, and this work is done again
                lists.put(key, found)
        return found

    return await read(ask, work)


async def _listed(
    view: View, listed: Listed, path: tuple[str, ...], parent: str, token: str | None, size: int
) -> dict[str, Any]:
    place = f"iceberg/{listed}/{parent}"
    try:
        after = decode_cursor(place, token or None, 1)
    except Invalid:
        raise BadRequest("this pageToken does not belong to this list; begin with an empty one") from None
    names, more = await _names(view, listed, parent, after[0] if after else "", size if token is not None else None)
    following = encode_cursor(place, (names[-1],)) if more else None
    if listed == "namespaces":
        return {"next-page-token": following, "namespaces": [(*path, name) for name in names]}
    return {"next-page-token": following, "identifiers": [{"namespace": path, "name": name} for name in names]}


async def _names(view: View, listed: Listed, parent: str, after: str, limit: int | None) -> tuple[list[str], bool]:
    """Names after one, at most so many; and whether there are more."""
    kind, format = _KINDS[listed], _FORMATS[listed]
    found: list[str] = []
    while True:
        rows: list[Name] = await view.page(NAMES, parent, (parent, kind, after), CHUNK)
        ours = [row for row in rows if row.kind == kind]
        found += [row.name for row in ours if format is None or row.format == format]
        if limit is not None and len(found) > limit:
            return found[:limit], True
        if len(ours) < CHUNK:
            return found, False
        after = ours[-1].name


def _size(text: str | None) -> int:
    if text is None:
        return MAX_PAGE
    if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= 1):
        raise BadRequest("pageSize is a whole number of at least 1")
    return min(int(text), MAX_PAGE)

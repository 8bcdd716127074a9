"""Access delegation: what a client gets to reach a table's files, if it asks for it.

`X-Iceberg-Access-Delegation` lists what a client can use. Credentials that are good for the table's location alone come
first; where the store cannot make such, requests are signed one by one, if the client can use that. Where neither can
be limited to the table nothing is granted, and the client uses what it has itself. Who may not write the table gets
what reads it and no more.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

from arco.api._permissions import Permission, allowed
from arco.api.iceberg._ask import SEPARATOR, Ask
from arco.api.iceberg._config import prefix_of
from arco.api.iceberg._vended import Vended
from arco.core import Forbidden
from arco.iceberg import Credentials, Loaded, Unsupported, asset_of, places_of

__all__ = ["Grant", "Kind", "delegated", "may_write", "still_granted", "vended", "wanted_of"]

Kind = Literal["", "vended", "signed"]

HEADER: Final = "x-iceberg-access-delegation"
VENDED: Final = "vended-credentials"
SIGNED: Final = "remote-signing"


@dataclass(frozen=True)
class Grant:
    config: dict[str, str] = field(default_factory=dict)
    credentials: list[dict[str, Any]] = field(default_factory=list)
    mark: str = ""
    """What the ETag says of it: `r` or `w` and the second the credentials end; `s` where requests are signed."""


def wanted_of(ask: Ask) -> Kind:
    """What the client can use and this warehouse has. Words that are not known are left aside: the header is a wish."""
    text = ask.request.headers.get(HEADER)
    if not text:
        return ""
    words = {part.strip().lower() for part in text.split(",")}
    if VENDED in words and ask.warehouse.vendor is not None:
        return "vended"
    return "signed" if SIGNED in words and ask.warehouse.signer is not None else ""


def _path_of_table(ask: Ask, path: tuple[str, ...], last: str) -> str:
    """The path below the catalog's URI that leads to an operation on a table."""
    namespace, name = quote(SEPARATOR.join(path[:-1]), safe=""), quote(path[-1], safe="")
    return f"v1/{prefix_of(ask.caller.scope)}/namespaces/{namespace}/tables/{name}/{last}"


async def delegated(ask: Ask, loaded: Loaded, *, write: bool) -> Grant:
    """What the client is granted for the files of a table."""
    warehouse, path = ask.warehouse, loaded.path
    kind = wanted_of(ask)
    if kind == "vended" and warehouse.vendor is not None:
        places_of(loaded.metadata, warehouse.locations)  # a place that is forbidden is told, and not left out
        try:
            found = await vended(ask, loaded, warehouse.vendor, write=write)
        except (Unsupported, Forbidden):
            return Grant()
        mark = f"{'w' if write else 'r'}{min(one.expires_at_ms for one in found) // 1000}"
        config = {warehouse.vendor.refresh_key: _path_of_table(ask, path, "credentials")}
        return Grant(config, [{"prefix": one.prefix, "config": one.config} for one in found], mark)
    if kind == "signed" and warehouse.signer is not None:
        return Grant(warehouse.signer.config(_path_of_table(ask, path, "sign")), mark="s")
    return Grant()


async def vended(ask: Ask, loaded: Loaded, vendor: Vended, *, write: bool) -> list[Credentials]:
    """Credentials for each place in which files of a table are."""
    places = places_of(loaded.metadata, ask.warehouse.locations)
    return [await vendor.vend(place, write=write) for place in places]


def may_write(ask: Ask, loaded: Loaded) -> bool:
    """Whether the caller may write a table. That of an asset is written by Arco alone."""
    return allowed(ask.caller.role, Permission.DEPLOY_ASSETS) and asset_of(loaded.metadata) is None


def still_granted(mark: str, wanted: Kind, later: int, *, write: bool) -> bool:
    """Whether what came with an ETag is what would be granted now, and holds at a later time (seconds)."""
    if wanted == "signed":
        return mark == "s"
    ends = mark[1:]
    return mark[:1] == ("w" if write else "r") and ends.isdecimal() and len(ends) < 15 and int(ends) > later

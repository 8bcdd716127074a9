"""Names as the Iceberg catalog knows them: those of now. A former name is free here, where Arco's own API goes on
finding what was renamed; engines take a name that answers for a table of that name."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from arco.api.iceberg._ask import Ask
from arco.catalog import View
from arco.core import Conflict
from arco.domains.catalog import NAMESPACES, ROOT, Namespace, find_namespace_id
from arco.iceberg import BadRequest, CommitFailed, NoSuchNamespace
from arco.log import Receipt

__all__ = ["convert", "decide", "dotted", "namespace_id_of", "namespace_of", "read"]

T = TypeVar("T")

MAX_SHOWN: Final = 1_000
MAX_LEVELS: Final = 64
"""More than any namespace can have; a path of thousands of levels is not even walked."""


def dotted(path: tuple[str, ...]) -> str:
    """A path as Iceberg's own messages show it."""
    text = ".".join(path)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


async def read(ask: Ask, work: Callable[[View], Awaitable[T]]) -> T:
    """What `work` finds in the catalog of now; the store is asked once whether something is newer."""
    found, _ = await ask.caller.workspace.logs["catalog"].read(work)
    return found


async def namespace_id_of(view: View, path: tuple[str, ...]) -> str:
    """The id of a namespace that exists; that of the empty path is the top's."""
    if path == ():
        return ROOT
    found = await find_namespace_id(view, path) if len(path) <= MAX_LEVELS else None
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {dotted(path)}")
    return found


async def namespace_of(view: View, path: tuple[str, ...]) -> Namespace:
    found = await namespace_id_of(view, path)
    row: Namespace | None = await view.get(NAMESPACES, found, found)
    if row is None:
        raise NoSuchNamespace(f"Namespace does not exist: {dotted(path)}")
    return row


async def decide(ask: Ask, command: msgspec.Struct, asked: str = "") -> Receipt:
    """Carry out a command of the catalog, once for each idempotency key."""
    caller = ask.caller
    try:
        return await caller.workspace.decide(
            "catalog",
            command,
            actor=caller.actor,
            key=ask.key,
            operation=ask.operation,
            correlation=caller.request_id,
            traceparent=caller.traceparent,
            asked=asked,
        )
    except Conflict as error:
        if "stored" in error.details:  # the key was used for another request
            raise CommitFailed(error.message) from error
        raise


def convert(document: object, kind: type[T]) -> T:
    """A part of a body as its type, or what is wrong with it. Fields that are not known are left aside: clients may be
    newer than this server."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body does not fit: {error}") from None

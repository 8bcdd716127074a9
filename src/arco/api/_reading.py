"""Reads: which state a request is answered from, and the headers that say so.

A read is strong by default: it asks the store once whether something is newer than what this process knows. A bounded
one asks nobody. `min_position` waits until this process knows a position, for whoever wrote elsewhere a moment ago.
`as_of` reads the past instead. Whatever it is, the answer names the position it holds for.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel

from arco.api._caller import Caller
from arco.api._host import Host
from arco.catalog import NOW, AsOf, View, parse_as_of
from arco.core import Invalid
from arco.log import parse_position
from arco.state import Snapshot

__all__ = [
    "MAX_REF",
    "CallerDep",
    "Cursor",
    "IfNoneMatch",
    "Limit",
    "NamespaceRef",
    "Reads",
    "ReadsDep",
    "TableRef",
    "answer_one",
    "host_of",
]

T = TypeVar("T")

MAX_REF = 5000
"""Sixteen levels and a name of 255 characters each, quoted; so many of any script still fit into an address."""

Limit = Annotated[int, Query(ge=1, le=1000, description="Items of a page.")]
Cursor = Annotated[str | None, Query(max_length=4096, description="`next_cursor` of the page before.")]

TableRef = Annotated[
    str, Path(min_length=1, max_length=MAX_REF, description="The table's path (`sales.orders`), or `id:` and its id.")
]
NamespaceRef = Annotated[
    str, Path(min_length=1, max_length=MAX_REF, description="The namespace's path (`sales.eu`), or `id:` and its id.")
]
IfNoneMatch = Annotated[
    str | None,
    Header(alias="If-None-Match", max_length=4096, description="Answer 304 if the object still has this ETag."),
]


def host_of(request: Request) -> Host:
    host: Host = request.app.state.host
    return host


async def _caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CallerDep = Annotated[Caller, Depends(_caller_of)]


@dataclass(frozen=True)
class Reads:
    """How one request wants to read."""

    host: Host
    caller: Caller
    as_of: AsOf
    strong: bool
    min_position: int
    response: Response

    async def catalog(self, work: Callable[[View], Awaitable[T]]) -> T:
        return await self._of("catalog", work)

    async def activity(self, work: Callable[[View], Awaitable[T]]) -> T:
        return await self._of("activity", work)

    async def snapshots(self) -> dict[str, Snapshot]:
        """Both logs at one moment, unchanging."""
        if self.min_position:
            await self.caller.workspace.logs["catalog"].current(min_position=self.min_position)
        found = await self.host.points_of(self.caller.scope).snapshots_at(self.as_of)
        self.response.headers["Arco-Position"] = str(found["catalog"].position)
        return found

    async def _of(self, log: str, work: Callable[[View], Awaitable[T]]) -> T:
        if self.as_of is not NOW:
            snapshot = (await self.snapshots())[log]
            return await work(snapshot)
        opened = self.caller.workspace.logs[log]
        # `min_position` is a position of the catalog, the log that people write to.
        least = self.min_position if log == "catalog" else 0
        result, position = await opened.read(work, strong=self.strong, min_position=least)
        if log == "catalog":
            self.response.headers["Arco-Position"] = str(position)
        return result


async def _reads(
    request: Request,
    response: Response,
    caller: CallerDep,
    as_of: Annotated[
        str | None,
        Query(
            max_length=256,
            description="Read the past: a time (RFC 3339), `run:<id>`, `catalog:<position>`, `activity:<position>`.",
        ),
    ] = None,
    consistency: Annotated[
        Literal["strong", "bounded"],
        Query(description="strong asks the store once whether something is newer; bounded asks nobody."),
    ] = "strong",
    min_position: Annotated[
        str | None, Query(max_length=40, description="Wait until this position of the catalog is known here.")
    ] = None,
) -> Reads:
    if as_of is not None and min_position is not None:
        raise Invalid("as_of names a state of the past, so min_position means nothing beside it; send one of them")
    least = parse_position(min_position) if min_position is not None else 0
    return Reads(host_of(request), caller, parse_as_of(as_of), consistency == "strong", least, response)


ReadsDep = Annotated[Reads, Depends(_reads)]


def answer_one(reads: Reads, model: BaseModel, version: int, if_none_match: str | None) -> Any:
    """A single object with its ETag, or 304 if the caller has it already.

    The tag begins with the object's version, which is what `If-Match` compares; the rest tells apart what the version
    does not cover, such as a parent that was renamed.
    """
    body = model.model_dump_json()
    tag = f'"{version}-{hashlib.sha256(body.encode()).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Arco-Position": reads.response.headers["Arco-Position"]}
    known = {given.strip().removeprefix("W/") for given in (if_none_match or "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)

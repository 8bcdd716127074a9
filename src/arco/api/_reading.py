"""Reads: which state a request is answered from, and the headers that say so.

A read is strong by default: it asks the store once whether something is newer than what this process knows. A bounded
one asks nobody. `min_position` waits until this process knows a position, for whoever wrote elsewhere a moment ago.
`as_of` reads the past instead. Whatever it is, the answer names the positions it holds for.
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
    "POSITION_HEADERS",
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

POSITION_HEADERS = {"catalog": "Arco-Position", "activity": "Arco-Activity-Position"}
"""Which header tells the position of each log."""

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
    min_activity: int = 0

    async def catalog(self, work: Callable[[View], Awaitable[T]]) -> T:
        return await self._of("catalog", work)

    async def activity(self, work: Callable[[View], Awaitable[T]]) -> T:
        return await self._of("activity", work)

    async def snapshots(self) -> dict[str, Snapshot]:
        """Both logs at one moment, unchanging."""
        await self._wait_for("catalog", "activity")
        found = await self.host.points_of(self.caller.scope).snapshots_at(self.as_of)
        for log, snapshot in found.items():
            self._tell(log, snapshot.position)
        return found

    async def _of(self, log: str, work: Callable[[View], Awaitable[T]]) -> T:
        if self.as_of is not NOW:
            snapshot = (await self.snapshots())[log]
            return await work(snapshot)
        await self._wait_for("catalog" if log == "activity" else "activity")
        result, position = await self.caller.workspace.logs[log].read(
            work, strong=self.strong, min_position=self._least(log)
        )
        self._tell(log, position)
        return result

    def _least(self, log: str) -> int:
        return self.min_position if log == "catalog" else self.min_activity

    async def _wait_for(self, *logs: str) -> None:
        """Know what the caller knows of logs that are not read themselves."""
        for log in logs:
            if self._least(log):
                await self.caller.workspace.logs[log].current(strong=False, min_position=self._least(log))

    def _tell(self, log: str, position: int) -> None:
        self.response.headers[POSITION_HEADERS[log]] = str(position)


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
        str | None,
        Query(
            max_length=100,
            description="Wait until this position of the catalog is known here, or `activity:<position>`, or both.",
        ),
    ] = None,
) -> Reads:
    if as_of is not None and min_position is not None:
        raise Invalid("as_of names a state of the past, so min_position means nothing beside it; send one of them")
    catalog, activity = _parse_least(min_position) if min_position is not None else (0, 0)
    return Reads(host_of(request), caller, parse_as_of(as_of), consistency == "strong", catalog, response, activity)


def _parse_least(text: str) -> tuple[int, int]:
    """Least positions of catalog and activity, written as in `as_of`."""
    if not text.startswith(("catalog:", "activity:")):
        return parse_position(text), 0
    found = parse_as_of(text)
    return found.catalog or 0, found.activity or 0


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

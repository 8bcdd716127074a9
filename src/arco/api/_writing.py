"""Writes: a command decided by the owner of the log, wherever that is, and when its caller gets the answer.

A write is durable once its segment is won. The default is to answer when a revision covers it, so that readers of the
published files see it too; `wait=durable` answers at once. If it is durable and cannot be published in time the answer
is 503 with the operation id: it is there, and will be published later.
"""

import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import msgspec
from fastapi import Depends, Header, Query

from arco.api._caller import Caller
from arco.api._reading import CallerDep
from arco.catalog import View
from arco.core import Invalid, NotFound, OutcomeUnknown, Superseded, Unavailable, new_ulid, parse_request_key
from arco.log import NewEvent, Receipt

__all__ = ["IfExists", "IfMatch", "Writes", "WritesDep"]

T = TypeVar("T")

_TAG = re.compile(r'(?:W/)?"([0-9]{1,18})(?:-[0-9a-f]*)?"')


def _version(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=128,
            description='Only if the object still has the version of this ETag, such as `"7-..."`, or just `"7"`.',
        ),
    ] = None,
) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        raise Invalid("If-Match is not an ETag of this API; send the ETag of the last GET")
    return int(found[1])


IfMatch = Annotated[int | None, Depends(_version)]
IfExists = Annotated[bool, Query(description="Succeed, and change nothing, if there is no such thing.")]


@dataclass(frozen=True)
class Writes:
    """How one request wants to write."""

    caller: Caller
    key: str
    published: bool

    async def decide(self, log: str, command: msgspec.Struct, minted: Mapping[str, str] | None = None) -> Receipt:
        """Carry out a command. Returns when it is as durable and as visible as the caller asked."""
        workspace, runtime = self.caller.workspace, self.caller.workspace.runtime
        receipt = await workspace.decide(
            log,
            command,
            actor=self.caller.actor,
            key=self.key,
            operation=new_ulid(runtime, runtime),
            correlation=self.caller.request_id,
            traceparent=self.caller.traceparent,
            minted=minted or {},
        )
        await self._wait(log, receipt)
        return receipt

    async def record(self, log: str, events: list[NewEvent]) -> Receipt:
        workspace, runtime = self.caller.workspace, self.caller.workspace.runtime
        return await workspace.record(
            log,
            events,
            actor=self.caller.actor,
            key=self.key,
            operation=new_ulid(runtime, runtime),
            correlation=self.caller.request_id,
            traceparent=self.caller.traceparent,
        )

    async def left(self, receipt: Receipt, work: Callable[[View], Awaitable[T]]) -> T:
        """What `work` finds in the catalog as a command left it: as it was then, on a replay or if it is gone since."""
        opened = self.caller.workspace.logs["catalog"]
        if not receipt.replayed:
            with contextlib.suppress(NotFound):
                found, _ = await opened.read(work, strong=False, min_position=receipt.position)
                return found
        return await work(await opened.snapshot(position=receipt.position))

    async def _wait(self, log: str, receipt: Receipt) -> None:
        if not self.published:
            return
        try:
            await self.caller.workspace.logs[log].published(receipt.position)
        except (Unavailable, Superseded) as error:
            raise OutcomeUnknown(
                f"operation {receipt.operation} is done and durable at position {receipt.last}, but not published yet: "
                f"{error.message}",
                operation=receipt.operation,
                position=receipt.last,
                durable=True,
            ) from error


def _writes(
    caller: CallerDep,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            max_length=128,
            description="A ULID or UUIDv7, optionally with `:suffix`; the same key and request is carried out once.",
        ),
    ] = None,
    wait: Annotated[
        Literal["published", "durable"],
        Query(description="Answer when a revision covers it, or as soon as it is durable."),
    ] = "published",
) -> Writes:
    key = parse_request_key(idempotency_key) if idempotency_key is not None else ""
    return Writes(caller, key, wait == "published")


WritesDep = Annotated[Writes, Depends(_writes)]

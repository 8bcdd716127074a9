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
from arco.core import (
    Invalid,
    NotFound,
    OutcomeUnknown,
    Superseded,
    Unavailable,
    derive_ulid,
    new_ulid,
    parse_request_key,
)
from arco.log import Command, NewEvent, Receipt
from arco.state import OPERATIONS

__all__ = ["IfExists", "IfMatch", "RecordsDep", "Writes", "WritesDep"]

T = TypeVar("T")

_TAG = re.compile(r'(?:W/)?"([0-9]{1,18})(?:-[0-9a-f]*)?"')


async def _version(
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
    operation: str
    """The id under which this request is carried out, if it is the first one with its key."""

    async def decide(
        self, log: str, command: msgspec.Struct, minted: Mapping[str, str] | None = None, asked: str = ""
    ) -> Receipt:
        """Carry out a command. Returns when it is as durable and as visible as the caller asked."""
        receipt = await self.append(log, command, minted, asked)
        await self.settle(log, receipt)
        return receipt

    async def repeated(self, log: str, command: type[msgspec.Struct], asked: str) -> tuple[Receipt, int] | None:
        """What became of this very request when it came before under its key, and when that was.

        For commands that hold what was found out about the request: that may be gone by now.
        """
        if not self.key:
            return None
        keyhash = Command("", self.caller.actor, command.__name__, asked=asked).request_hash()
        return await self.caller.workspace.find_request(log, self.key, keyhash)

    async def append(
        self, log: str, command: msgspec.Struct, minted: Mapping[str, str] | None = None, asked: str = ""
    ) -> Receipt:
        """Carry out a command. Returns when it is durable; `settle` waits for the rest."""
        return await self.caller.workspace.decide(
            log,
            command,
            actor=self.caller.actor,
            key=self.key,
            operation=self.operation,
            correlation=self.caller.request_id,
            traceparent=self.caller.traceparent,
            minted=minted or {},
            asked=asked,
        )

    async def record(self, log: str, events: list[NewEvent]) -> Receipt:
        """Append facts. Returns when they are as durable and as visible as the caller asked."""
        receipt = await self.caller.workspace.record(
            log,
            events,
            actor=self.caller.actor,
            key=self.key,
            operation=self.operation,
            correlation=self.caller.request_id,
            traceparent=self.caller.traceparent,
        )
        await self.settle(log, receipt)
        return receipt

    async def left(self, receipt: Receipt, known: str | None, work: Callable[[View, str | None], Awaitable[T]]) -> T:
        """What `work` finds in the catalog as a command left it.

        It is asked by the object's id (`known`) in the present. A name may belong to somebody else's object by now: it
        counts only in the state that the command itself left, where `work` gets no id.
        """
        opened = self.caller.workspace.logs["catalog"]
        if known is not None and not receipt.replayed:
            with contextlib.suppress(NotFound):
                found, _ = await opened.read(
                    lambda view: work(view, known), strong=False, min_position=receipt.position
                )
                return found
        return await work(await opened.snapshot(position=receipt.position), None)

    async def created_id(self, receipt: Receipt, label: str) -> str | None:
        """The id of what a command created: it follows from the operation, as the decider derived it."""
        opened = self.caller.workspace.logs["catalog"]
        operation = receipt.operation
        row, _ = await opened.read(
            lambda view: view.get(OPERATIONS, operation, operation), strong=False, min_position=receipt.position
        )
        return None if row is None else derive_ulid(row.received_at, f"{operation}:{label}")

    async def settle(self, log: str, receipt: Receipt) -> None:
        """Wait until a revision covers it, if the caller asked for that."""
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


Wait = Literal["published", "durable"]
WaitQuery = Query(description="Answer when a revision covers it, or as soon as it is durable.")
RequestKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=128,
        description="A ULID or UUIDv7, optionally with `:suffix`; the same key and request is carried out once.",
    ),
]


def _made(caller: Caller, key: str | None, wait: Wait) -> Writes:
    runtime = caller.workspace.runtime
    return Writes(
        caller, parse_request_key(key) if key is not None else "", wait == "published", new_ulid(runtime, runtime)
    )


async def _writes(
    caller: CallerDep, idempotency_key: RequestKeyHeader = None, wait: Annotated[Wait, WaitQuery] = "published"
) -> Writes:
    return _made(caller, idempotency_key, wait)


async def _records(
    caller: CallerDep, idempotency_key: RequestKeyHeader = None, wait: Annotated[Wait, WaitQuery] = "durable"
) -> Writes:
    return _made(caller, idempotency_key, wait)


WritesDep = Annotated[Writes, Depends(_writes)]
RecordsDep = Annotated[Writes, Depends(_records)]
"""For facts: many come at once, and nobody waits for a revision unless it is asked for."""

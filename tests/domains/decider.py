"""`Decider`: decides commands one by one on a replica, as an owner does, without a store."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from arco.core import new_ulid
from arco.log import Command, Event, Place
from arco.state import Definition, LayerReader, Replica, Table, empty_manifest
from arco.storage import MemoryStore
from tests.doubles import FakeRuntime, run
from tests.state.doubles import digests, replica_of, rows_of, segments_of

__all__ = ["Decider", "deciding"]


class Decider:
    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.place = Place("acme", "prod", "inc-1", definition.log)
        self.runtime = FakeRuntime()
        self.replica = Replica(definition, LayerReader(MemoryStore()), empty_manifest(self.place))
        self.batches: list[list[Event]] = []

    def id(self) -> str:
        return new_ulid(self.runtime, self.runtime)

    @property
    def now(self) -> int:
        """The received time of the next segment, which the log of `segments_of` gives it."""
        last = self.replica.link
        return max(self.runtime.now(), last.received) + 1_000_000

    async def decide(self, payload: msgspec.Struct, actor: str = "me", **minted: str) -> list[Event]:
        """Decide a command and append its events; the events it led to."""
        name, data = type(payload).__name__, msgspec.Raw(msgspec.json.encode(payload))
        command = Command(operation=self.id(), actor=actor, name=name, data=data, minted=minted)
        new = await self.replica.draft().decide(command, self.now)
        events = [
            Event(
                self.id(),
                item.type,
                "",
                "arco",
                actor,
                command.operation,
                item.data,
                version=item.version,
                subject=item.subject,
                command=name,
            )
            for item in new
        ]
        if events:
            await self.append(*events)
        return events

    async def append(self, *events: Event) -> None:
        self.batches.append(list(events))
        await self.replica.apply(segments_of(self.batches, self.place)[-1:])

    async def rows(self, table: Table) -> list[dict[str, Any]]:
        return await rows_of(self.replica, table)

    async def is_refold(self) -> bool:
        """Folding the log at once gives what folding it step by step gave."""
        again = await replica_of(self.definition, [segments_of(self.batches, self.place)], self.place)
        return await digests(self.definition, again) == await digests(self.definition, self.replica)


def deciding(definition: Definition, test: Callable[[Decider], Awaitable[None]]) -> None:
    """Run a test on a decider; whatever it did must refold to the same tables."""

    async def main() -> None:
        decider = Decider(definition)
        await test(decider)
        assert await decider.is_refold()

    run(main())

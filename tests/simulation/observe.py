"""What the engine does inside, as the simulation sees it: thin wrappers around a few calls that count and check.

They change nothing. `watching(probe)` puts them in place for one run.
"""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from arco.core import Superseded, Unavailable
from arco.log import Found, Ledger, Pack
from arco.state import Replica, Table, _files, _layers
from arco.storage import Lost, Sequence, Tail, Won
from tests.simulation.probe import Probe
from tests.simulation.scheduler import Violation

__all__ = ["Sight", "watching"]


@dataclass
class Sight:
    """What was seen of sequences during a run."""

    probe: Probe
    wins: dict[str, bytes] = field(default_factory=dict)
    """Per path of a sequence: the bytes that somebody was told are the ones."""


@contextmanager
def watching(probe: Probe, *, plain: bool = False) -> Iterator[Sight]:
    """Watch one run. Unless `plain`, what was once encoded as Parquet is not decoded again: the store is simulated
    here, the codec has its own tests."""
    sight = Sight(probe)
    create, evict = Sequence.create, Replica.evict
    load, check_floor = Replica.load, Sequence.check_floor
    from_pack = Ledger._from_pack

    async def seen_create(self: Sequence, tail: Tail, data: bytes) -> Won | Lost:
        path = self.path(tail.number + 1)
        try:
            outcome = await create(self, tail, data)
        except Unavailable:
            probe.path("outcome open")
            raise
        _judge(sight, self, path, data, outcome)
        return outcome

    async def seen_floor(self: Sequence, number: int, proven: float) -> None:
        try:
            await check_floor(self, number, proven)
        except Superseded:
            probe.path("fenced by floor")
            raise

    def seen_evict(self: Replica) -> None:
        before = self.loaded_rows()
        evict(self)
        if self.loaded_rows() < before:
            self.__dict__["sim_evicted"] = True

    async def seen_load(self: Replica, table: Any, buckets: Any) -> None:
        if self.__dict__.pop("sim_evicted", False):
            probe.path("evicted and reloaded")
        await load(self, table, buckets)

    async def seen_pack(self: Ledger, pack: Pack, first: int, last: int) -> AsyncIterator[Found]:
        probe.path("read from packs")
        async for found in from_pack(self, pack, first, last):
            yield found

    decoded: dict[tuple[str, bytes], pa.Table] = {}
    read_parquet: Any = getattr(_layers, "read_parquet")  # noqa: B009 - imported there, not exported
    to_parquet: Any = getattr(_files, "to_parquet")  # noqa: B009

    def read_once(table: Table, data: bytes, path: str) -> pa.Table:
        name = (table.name, hashlib.sha256(data).digest())
        if name not in decoded:
            decoded[name] = read_parquet(table, data, path)
        return decoded[name]

    def write_once(table: Table, data: pa.Table) -> bytes:
        encoded = to_parquet(table, data)
        decoded[table.name, hashlib.sha256(encoded).digest()] = data.select(table.schema.names)
        return encoded

    if not plain:
        setattr(_files, "to_parquet", write_once)  # noqa: B010
        setattr(_layers, "read_parquet", read_once)  # noqa: B010
    setattr(Sequence, "create", seen_create)  # noqa: B010 - mypy forbids assigning to a method, rightly
    setattr(Sequence, "check_floor", seen_floor)  # noqa: B010
    setattr(Ledger, "_from_pack", seen_pack)  # noqa: B010
    setattr(Replica, "evict", seen_evict)  # noqa: B010
    setattr(Replica, "load", seen_load)  # noqa: B010
    try:
        yield sight
    finally:
        setattr(_files, "to_parquet", to_parquet)  # noqa: B010
        setattr(_layers, "read_parquet", read_parquet)  # noqa: B010
        setattr(Sequence, "create", create)  # noqa: B010
        setattr(Sequence, "check_floor", check_floor)  # noqa: B010
        setattr(Ledger, "_from_pack", from_pack)  # noqa: B010
        setattr(Replica, "evict", evict)  # noqa: B010
        setattr(Replica, "load", load)  # noqa: B010


def _judge(sight: Sight, sequence: Sequence, path: str, data: bytes, outcome: Won | Lost) -> None:
    handle: Any = sequence._store
    full = f"{handle.scope.root}/{path}"
    unknown = full in handle._inner.unsettled
    if isinstance(outcome, Won):
        if sight.wins.setdefault(full, data) != data:
            raise Violation("no number is won twice", f"{path} was won before by somebody else")
        if unknown:
            sight.probe.path("won after unknown")
    else:
        if outcome.data == data:
            raise Violation("every answer agrees with the log", f"the create of {path} was called lost to itself")
        sight.probe.path("create lost")
        sight.probe.path("manifest lost" if "/manifests/" in path else "superseded owner")
        if unknown:
            sight.probe.path("lost after unknown")

"""`SimDisk`, the objects, and `SimStore`, one process's connection to them, on which every operation may go wrong.

An operation is sent, applied by the disk some time later in one atomic step, and answered some time after that. What
was sent lives on without its sender. Which faults a run has and how often is drawn from its seed (`Mix`): some runs
have few kinds of them, some many.
"""

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from arco.core import Corrupt
from arco.storage import ObjectExists, ObjectInfo, ObjectMissing, StoreFailed
from tests.simulation.probe import Probe
from tests.simulation.scheduler import EPOCH, Process, Scheduler, SimFuture

__all__ = ["Mix", "SimDisk", "SimStore"]

T = TypeVar("T")

READ_FAULTS = ("error before", "throttled", "slow", "crash before", "crash after")
WRITE_FAULTS = (
    "error before",
    "throttled",
    "slow",
    "applied then error",
    "applied then timeout",
    "delayed apply",
    "crash before",
    "crash after",
)
CREATE_FAULTS = (*WRITE_FAULTS, "conflict")


@dataclass
class Mix:
    """How likely each fault is, for one run."""

    rates: dict[str, float] = field(default_factory=dict)
    latency: tuple[float, float] = (0.001, 0.05)

    @classmethod
    def draw(cls, random: Random) -> "Mix":
        """Each kind is in with even chance; the overall level differs by an order of magnitude between runs."""
        level = random.choice((0.002, 0.01, 0.03))
        rates = {kind: level * random.uniform(0.3, 2.0) for kind in CREATE_FAULTS if random.random() < 0.5}
        for kind in ("crash before", "crash after"):
            if kind in rates:
                rates[kind] = min(rates[kind], 0.004)
        latency = random.choice(((0.001, 0.01), (0.01, 0.1), (0.001, 0.6)))
        return cls(rates, latency)


class SimDisk:
    """The objects, and what became of them."""

    def __init__(self, scheduler: Scheduler, probe: Probe) -> None:
        self.scheduler = scheduler
        self.probe = probe
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.created: dict[str, list[str]] = {}
        """Per path that was ever created only-if-absent: sha256 of what it held, one for each time it was created."""
        self.archive: dict[str, bytes] = {}
        """Every manifest and segment that was ever created, by sha256."""
        self.on_delete: Callable[[str], None] = lambda path: None
        self.on_create: Callable[[str, bytes], None] = lambda path, data: None

    def get(self, path: str) -> bytes:
        try:
            return self.objects[path][0]
        except KeyError:
            raise ObjectMissing(path) from None

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        data = self.get(path)
        if offset + length > len(data):
            raise Corrupt(f"{path} ends at {len(data)}, before {offset + length}", path=path)
        return data[offset : offset + length]

    def put(self, path: str, data: bytes, only_if_absent: bool) -> None:
        if only_if_absent:
            if path in self.objects:
                raise ObjectExists(path)
            sha256 = hashlib.sha256(data).hexdigest()
            self.created.setdefault(path, []).append(sha256)
            if "/manifests/" in path or "/ledger/" in path:
                self.archive[sha256] = data
            self.on_create(path, data)
        self.objects[path] = (data, self.now())

    def head(self, path: str) -> ObjectInfo:
        data, modified = self.objects.get(path, (None, 0))
        if data is None:
            raise ObjectMissing(path)
        return ObjectInfo(path, len(data), modified)

    def delete(self, path: str) -> None:
        if path in self.objects:
            self.on_delete(path)
            del self.objects[path]

    def list(self, prefix: str) -> list[ObjectInfo]:
        return [
            ObjectInfo(path, len(data), modified)
            for path, (data, modified) in sorted(self.objects.items())
            if path.startswith(f"{prefix}/")
        ]

    def now(self) -> int:
        return EPOCH + int(self.scheduler.time * 1e6)


class SimStore:
    """One process's connection. Implements `arco.storage.Store`."""

    def __init__(self, disk: SimDisk, process: Process, mix: Mix) -> None:
        self.disk = disk
        self.process = process
        self.mix = mix
        self.unsettled: set[str] = set()
        """Paths of creates that failed without a decision."""
        self.outage_until = 0.0
        self.broken = ""
        """Operations on paths that contain this text fail; empty for none."""
        self.delays: dict[str, float] = {}
        """Seconds more that an operation of a name takes."""
        self._random = disk.scheduler.child(f"store {process.name}")

    async def get(self, path: str) -> bytes:
        return await self._call("get", path, lambda: self.disk.get(path), READ_FAULTS)

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        return await self._call("get_range", path, lambda: self.disk.get_range(path, offset, length), READ_FAULTS)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        faults = CREATE_FAULTS if only_if_absent else WRITE_FAULTS
        try:
            await self._call(
                "create" if only_if_absent else "put",
                path,
                lambda: self.disk.put(path, data, only_if_absent),
                faults,
            )
        except StoreFailed:
            self.unsettled.add(path)
            raise

    async def head(self, path: str) -> ObjectInfo:
        return await self._call("head", path, lambda: self.disk.head(path), READ_FAULTS)

    async def delete(self, path: str) -> None:
        await self._call("delete", path, lambda: self.disk.delete(path), WRITE_FAULTS)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for info in await self._call("list", prefix, lambda: self.disk.list(prefix), READ_FAULTS):
            yield info

    async def sign(self, path: str, *, expires_in: int) -> str:
        raise NotImplementedError

    async def persist(self, path: str) -> None:
        """Everything here survives."""

    async def close(self) -> None:
        """Nothing to give back."""

    async def _call(self, name: str, path: str, apply: Callable[[], T], faults: tuple[str, ...]) -> T:
        process, scheduler = self.process, self.disk.scheduler
        process.operations += 1
        self.disk.probe.operations["storage operations"] += 1
        fault = self._draw(faults)
        if self.broken and self.broken in path:
            fault = "error before"
        if process.crash_at is not None and process.crash_at[0] == process.operations:
            fault = f"crash {process.crash_at[1]}"
        scheduler.note(process.name, name, path, fault or "")
        if fault is not None:
            self.disk.probe.fault(fault)
        latency = self._random.uniform(*self.mix.latency)
        latency += self.delays.get(name, 0.0)
        if fault == "slow":
            latency += self._random.uniform(1.0, 20.0)
        if fault == "crash before":
            await process.crash_now()
        if fault in ("error before", "throttled", "conflict"):
            await scheduler.sleep(latency)
            raise StoreFailed(f"{fault}: {name} {path}")
        answer = self._send(apply, latency * self._random.random(), fault)
        if fault in ("delayed apply", "applied then timeout"):
            await scheduler.sleep(self._random.uniform(2.0, 30.0))
            raise StoreFailed(f"no answer: {name} {path}")
        result, error = await answer
        if fault == "crash after":
            await process.crash_now()
        await scheduler.sleep(latency)
        if fault == "applied then error":
            raise StoreFailed(f"500 though applied: {name} {path}")
        if error is not None:
            raise error
        return result

    def _draw(self, faults: tuple[str, ...]) -> str | None:
        if self.disk.scheduler.time < self.outage_until:
            return "applied then error" if "conflict" in faults and self._random.random() < 0.2 else "error before"
        if not self.mix.rates:
            return None
        draw = self._random.random()
        for kind in faults:
            draw -= self.mix.rates.get(kind, 0.0)
            if draw < 0:
                return kind
        return None

    def _send(self, apply: Callable[[], T], delay: float, fault: str | None) -> SimFuture:
        """Let the disk apply it later, whatever becomes of the sender; the answer is (result, error)."""
        answer = SimFuture()

        def arrive() -> None:
            if not self.process.alive:
                lost = self._random.random() < 0.5
                self.disk.probe.fault("lost in flight" if lost else "applied in flight")
                if lost:
                    return
            result: Any = None
            error: Exception | None = None
            try:
                result = apply()
            except (ObjectExists, ObjectMissing, Corrupt) as raised:
                error = raised
            answer.set((result, error))

        if fault == "delayed apply":
            delay = self._random.choice((self._random.uniform(5.0, 60.0), self._random.uniform(60.0, 7200.0)))
        self.disk.scheduler.after(delay, arrive)
        return answer

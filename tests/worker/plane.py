"""A control plane in memory and projects made of text, for workers whose drivers are real processes."""

import asyncio
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from arco.assets import AssetDefinition, CheckDefinition, Dependency
from arco.core import SECOND, ArcoError, Conflict, PartitionKey, Unavailable, new_ulid, partition_id, sha256_hex
from arco.domains.orchestration import FinishTask
from arco.runtime import AsyncRuntime
from arco.sdk import pack_code
from arco.servo import Beat, Finished, Progress
from arco.servo._envelope import Envelope, InputPin, InputValue, OutputPlace, PinnedFile, data_location, sign_envelope
from arco.servo._tokens import callback_token
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope
from arco.worker import Worker, WorkerOptions, read_log
from arco.worker._control import Told

SECRET = bytes(range(32))
TENANT, WORKSPACE = "acme", "prod"
MODULE = "pipes"


class Plane:
    """What a worker talks to. Envelopes wait in `ready`; results arrive in `results`."""

    def __init__(self) -> None:
        self.ready: list[bytes] = []
        self.results: list[FinishTask] = []
        self.claims: list[int] = []
        self.sessions: list[tuple[str, str]] = []
        self.beats: list[str] = []
        self.progress: list[tuple[str, Progress]] = []
        self.cancelled: set[str] = set()
        self.stale: set[str] = set()
        self.archives: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.refusals: list[ArcoError] = []
        """What the next calls of `finish` answer with."""
        self.beaten: list[int] = []
        self.told: list[int] = []
        """Of how many attempts each sign of life and each call of `finish` spoke."""
        self._batches: list[list[bytes]] = []

    def add(self, *envelopes: Envelope, secret: bytes = SECRET) -> None:
        self.ready.extend(sign_envelope(secret, envelope) for envelope in envelopes)

    def add_batch(self, *envelopes: Envelope) -> list[Envelope]:
        """Envelopes that were claimed together; as they are handed out."""
        batch = [_in_batch(one, envelopes[0].attempt_id) for one in envelopes]
        self._batches.append([sign_envelope(SECRET, envelope) for envelope in batch])
        return batch

    def _pop(self, slots: int) -> list[bytes]:
        whole, self._batches = self._batches[:slots], self._batches[slots:]
        rest = slots - len(whole)
        taken, self.ready = self.ready[:rest], self.ready[rest:]
        return [*(data for batch in whole for data in batch), *taken]

    async def open_session(self, worker: str, session: str) -> None:
        self.sessions.append((worker, session))

    async def claim(self, slots: int, wait_seconds: float) -> list[bytes]:
        self.claims.append(slots)
        while not self.ready and not self._batches:
            await asyncio.sleep(0.002)
        return self._pop(slots)

    async def heartbeat(self, envelopes: Sequence[Envelope], progress: Progress | None = None) -> list[Beat]:
        self.beats += [envelope.attempt_id for envelope in envelopes]
        self.beaten.append(len(envelopes))
        if progress is not None:
            self.progress += [(envelope.attempt_id, progress) for envelope in envelopes]
        return [
            Beat(one.attempt_id in self.cancelled, "somebody wanted it", one.attempt_id in self.stale)
            for one in envelopes
        ]

    async def finish(self, told: Sequence[Told], claim: int) -> Finished:
        if self.refusals:
            error = self.refusals.pop(0)
            if isinstance(error, Unavailable):
                raise error
            self.results += [result for _, result in told[1:]]
            return Finished([], {told[0][0].attempt_id: error})
        self.told.append(len(told))
        over = Conflict("the attempt is over", code="stale_attempt")
        refused: dict[str, ArcoError] = {one.attempt_id: over for one, _ in told if one.attempt_id in self.stale}
        self.results += [result for _, result in told if result.attempt_id not in refused]
        return Finished(self._pop(claim), refused)

    async def code(self, sha256: str) -> bytes:
        self.fetched.append(sha256)
        return self.archives[sha256]


def _in_batch(envelope: Envelope, batch_id: str) -> Envelope:
    outputs = [
        msgspec.structs.replace(
            place,
            location=data_location(place.asset_id, place.partition_id, place.materialization_id, batch_id),
        )
        for place in envelope.outputs
    ]
    return msgspec.structs.replace(envelope, batch_id=batch_id, outputs=tuple(outputs))


class World:
    """A store, a project and a worker. `asset` makes definitions of functions of the project."""

    def __init__(self, folder: Path, source: str, *, files: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.patience = 60.0
        self.runtime = AsyncRuntime()
        self.store = LocalStore(folder / "store")
        self.plane = Plane()
        project = folder / "project"
        project.mkdir(exist_ok=True)
        header = (
            "import arco\nfrom arco.sdk import asset, check, multi_asset, observable, output, secret, CheckResult\n"
        )
        (project / f"{MODULE}.py").write_text(header + textwrap.dedent(source))
        for name, text in (files or {}).items():
            (project / name).write_text(textwrap.dedent(text))
        data = pack_code(project)
        self.sha256 = sha256_hex(data)
        self.plane.archives[self.sha256] = data

    @property
    def scoped(self) -> RoleStore:
        return RoleStore(self.store, Scope(TENANT, WORKSPACE), Role.READER, RequestCounts())

    def asset_id(self, key: str) -> str:
        from arco.core import derive_ulid

        return derive_ulid(1_700_000_000 * SECOND, key)

    def envelope(
        self,
        *names: str,
        inputs: tuple[InputValue, ...] = (),
        partition: str = "",
        definitions: tuple[AssetDefinition, ...] = (),
        **fields: Any,
    ) -> Envelope:
        """The envelope of a fresh attempt of the function that makes these assets of namespace `n`."""
        definitions = definitions or tuple(definition(name) for name in names)
        attempt_id = str(new_ulid(self.runtime, self.runtime))
        now = self.runtime.now()
        outputs = []
        for made in definitions:
            asset_id = self.asset_id(made.key)
            part = partition_id(asset_id, PartitionKey.parse(partition))  # type: ignore[arg-type]
            version = str(new_ulid(self.runtime, self.runtime))
            outputs.append(
                OutputPlace(asset_id, made.key, part, partition, version, data_location(asset_id, part, version))
            )
        values: dict[str, Any] = {
            "tenant": TENANT,
            "workspace": WORKSPACE,
            "run_id": "01HF0000000000000000000000",
            "task_key": definitions[0].key + (f"[{partition}]" if partition else ""),
            "task_id": "task_1",
            "attempt": 1,
            "attempt_id": attempt_id,
            "unit": definitions[0].unit or definitions[0].key,
            "code_version": "code_1",
            "code_sha256": self.sha256,
            "definitions": definitions,
            "outputs": tuple(outputs),
            "callback_token": callback_token(SECRET, TENANT, WORKSPACE, attempt_id, now + 3600 * SECOND),
            "issued_at": now,
            "expires_at": now + 3600 * SECOND,
            "inputs": inputs,
            "partition_key": partition,
            **fields,
        }
        return Envelope(**values)

    def options(self, **fields: Any) -> WorkerOptions:
        values: dict[str, Any] = {
            "name": "w1",
            "tenant": TENANT,
            "workspace": WORKSPACE,
            "secret": SECRET,
            "store": str(self.folder / "store"),
            "folder": self.folder / "work",
            "slots": 2,
            "cancel_grace_seconds": 5.0,
            "stop_grace_seconds": 5.0,
            **fields,
        }
        return WorkerOptions(**values)

    def worker(self, environment: Mapping[str, str] | None = None, **fields: Any) -> Worker:
        import os

        own = {**os.environ, **(environment or {})}
        return Worker(self.plane, self.store, self.options(**fields), self.runtime, own)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something the plane hears; a test that hangs fails."""
        async with asyncio.timeout(self.patience):
            while not condition():
                await asyncio.sleep(0.005)

    async def run(
        self, *envelopes: Envelope, environment: Mapping[str, str] | None = None, **fields: Any
    ) -> list[FinishTask]:
        """The results of envelopes, in their order, by one worker that then stops."""
        self.plane.add(*envelopes)
        return await self.results(envelopes, environment=environment, **fields)

    async def run_batch(self, *envelopes: Envelope, **fields: Any) -> tuple[list[Envelope], list[FinishTask]]:
        """The results of envelopes that were claimed together, as they were handed out."""
        batch = self.plane.add_batch(*envelopes)
        return batch, await self.results(batch, **fields)

    async def results(
        self, envelopes: Sequence[Envelope], environment: Mapping[str, str] | None = None, **fields: Any
    ) -> list[FinishTask]:
        """What becomes of envelopes that wait, in their order, by one worker that then stops."""
        worker = self.worker(environment, **fields)
        running = asyncio.create_task(worker.run())
        wanted = {envelope.attempt_id for envelope in envelopes}
        await self.until(lambda: running.done() or wanted <= {result.attempt_id for result in self.plane.results})
        worker.stop()
        await running
        by_attempt = {result.attempt_id: result for result in self.plane.results}
        return [by_attempt[envelope.attempt_id] for envelope in envelopes]

    def run_one(self, envelope: Envelope, **fields: Any) -> FinishTask:
        return asyncio.run(self.run(envelope, **fields))[0]

    def log_of(self, envelope: Envelope) -> str:
        return asyncio.run(read_log(self.scoped, envelope.run_id, envelope.batch_id or envelope.attempt_id)).text


def definition(name: str, **fields: Any) -> AssetDefinition:
    """An asset `n.<name>` that the function of that name makes."""
    return AssetDefinition(**{"key": f"n.{name}", "function": f"{MODULE}:{name}", "unit": f"n.{name}", **fields})


def check_of(name: str, **fields: Any) -> CheckDefinition:
    return CheckDefinition(name=name, function=f"{MODULE}:{name}", **fields)


def reads(parameter: str, key: str) -> Dependency:
    return Dependency(key, parameter)


def input_of(world: World, parameter: str, result: FinishTask, *, key: str = "") -> InputValue:
    """What a task wrote as the input of another one."""
    output = next(o for o in result.outputs if not key or o.asset_key == key)
    files = tuple(PinnedFile(file.path, file.row_count, file.size_bytes) for file in output.files)
    pin = InputPin(output.partition_id, output.partition_key, output.materialization_id, files)
    return InputValue(output.asset_id, output.asset_key, parameter, bool(output.partition_key), "", (pin,))


__all__ = [
    "MODULE",
    "SECRET",
    "TENANT",
    "WORKSPACE",
    "Plane",
    "Unavailable",
    "World",
    "check_of",
    "definition",
    "input_of",
    "reads",
]

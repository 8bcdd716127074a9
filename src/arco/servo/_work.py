"""`Work`: what workers ask of the control plane: a session, tasks, signs of life, results.

A session says which life of a worker this is; what an earlier life claimed is reaped at once. Results are decided by
the owner of the log: the first one for an attempt counts, a repetition of it is answered alike, anything later is
`stale_attempt`. Signs of life stay in the memory of the process that leads the log; one that arrives elsewhere is
passed on there.
"""

from collections.abc import Awaitable
from typing import Protocol

from arco.assets import Project
from arco.core import ArcoError, Conflict, Future, NotFound
from arco.domains.access import read_settings
from arco.domains.orchestration import (
    CLAIMS,
    RUNS,
    STALE_ATTEMPT,
    WORKSPACE,
    ClaimRow,
    FinishTask,
    ReapAttempt,
    ReapWorker,
    RunRow,
    RunState,
)
from arco.log import Place, Receipt
from arco.runtime import OpenLog, Workspace
from arco.servo._check_facts import with_check_facts
from arco.servo._controllers import Watch
from arco.servo._deployed import find_code_version
from arco.servo._envelope import sign_envelope
from arco.servo._handout import make_envelope
from arco.servo._planning import Projects
from arco.servo._protocol import Beat, Pulse
from arco.servo._queue import Queue, WorkerId

__all__ = ["Relay", "Work"]

_PULSE = Pulse()


class Relay(Protocol):
    async def beat(self, address: str, place: Place, attempt_id: str, token: str, pulse: Pulse) -> Beat:
        """Tell the process that leads the log, which is elsewhere."""
        ...


class Work:
    def __init__(
        self,
        workspace: Workspace,
        projects: Projects,
        watch: Watch,
        queue: Queue,
        secret: bytes,
        relay: Relay | None = None,
    ) -> None:
        self._workspace = workspace
        self._projects = projects
        self._watch = watch
        self._secret = secret
        self._relay = relay
        self._queue = queue
        self._knows_settings = False

    @property
    def _log(self) -> OpenLog:
        return self._workspace.logs["activity"]

    async def open_session(self, worker: WorkerId) -> None:
        """A worker begins: what its earlier lives claimed will not be finished by anybody."""
        await self._workspace.decide("activity", ReapWorker(worker.name, worker.session), actor=_actor(worker.name))

    async def claim(self, worker: WorkerId, slots: int, wait: float) -> list[bytes]:
        """Signed envelopes of up to `slots` tasks, all of them claimed; waits so many seconds for the first."""
        return await self._hand_out_all(await self._queue.take(worker, slots, await self._capacity(), wait))

    async def _hand_out(self, claim: ClaimRow) -> bytes | None:
        """The envelope of a claim; None if what it needs is gone: then the attempt ends here and now."""
        self._watch.note(claim.attempt_id, self._workspace.runtime.boottime())
        try:
            run: RunRow = await self._log.replica.get(RUNS, claim.run_id, claim.run_id)
            project = await self._project(run.code_version)
            envelope = await make_envelope(
                self._log.replica, claim, project, self._workspace.scope, self._secret, self._workspace.runtime.now()
            )
            envelope = await with_check_facts(envelope, self._log.replica, self._workspace.logs["catalog"].replica)
            return sign_envelope(self._secret, envelope)
        except ArcoError as error:
            await self._workspace.decide("activity", ReapAttempt(claim.attempt_id, error.message), actor="servo")
            return None

    async def _project(self, code_version: str) -> Project:
        """The definitions of a code version. They never change, so what is known is right; else the log is asked."""
        catalog = self._workspace.logs["catalog"]
        try:
            row = await find_code_version(catalog.replica, code_version)
        except NotFound:
            row, _ = await catalog.read(lambda view: find_code_version(view, code_version))
        return (await self._projects.get(self._workspace, row.manifest)).project

    async def beat(self, attempt_id: str, token: str, pulse: Pulse = _PULSE) -> Beat:
        """A sign of life of an attempt. `Conflict` if it is over: then its worker stops."""
        log = self._log
        if not log.owning and self._relay is not None:
            address = await log.owner_address()
            if address:
                return await self._relay.beat(address, log.place, attempt_id, token, pulse)
        return await self.beat_here(attempt_id, pulse)

    async def beat_here(self, attempt_id: str, pulse: Pulse = _PULSE) -> Beat:
        """A sign of life that arrived where the log is led."""
        log = self._log
        if not log.owning:
            await log.current(strong=False)
        claim: ClaimRow | None = await log.replica.get(CLAIMS, WORKSPACE, attempt_id)
        if claim is None:
            await log.current()  # it may have been claimed elsewhere a moment ago, and would be stopped for nothing
            claim = await log.replica.get(CLAIMS, WORKSPACE, attempt_id)
        if claim is None:
            raise Conflict(f"the attempt {attempt_id} is over or was never claimed; stop it", code=STALE_ATTEMPT)
        self._watch.note(attempt_id, self._workspace.runtime.boottime(), pulse.progress)
        run: RunRow | None = await log.replica.get(RUNS, claim.run_id, claim.run_id)
        if run is not None and run.state == RunState.CANCELLING:
            return Beat(cancel=True, reason=run.cancel_reason or "the run was cancelled")
        return Beat()

    async def finish(self, result: FinishTask, worker: WorkerId, slots: int = 0, traceparent: str = "") -> list[bytes]:
        """The end of an attempt, as one event, and envelopes of up to `slots` tasks that are ready then.

        Both commands reach the owner together, so that they are one append: what became ready by this very result is
        claimed without waiting for it. `Conflict` if the attempt ended otherwise before; what was claimed with it is
        given up again, because nobody will hear of it.
        """
        finished = self._workspace.decide("activity", result, actor=_actor(worker.name), traceparent=traceparent)
        if not slots:
            await finished
            return []
        answer: Future[None] = self._workspace.runtime.future()
        self._workspace.runtime.spawn(_settle(finished, answer), f"result of {result.attempt_id}")
        await self._workspace.runtime.sleep(0)  # the result enters the owner's queue first
        claims = await self._queue.claim(worker, slots, await self._capacity())
        try:
            await answer
        except ArcoError:
            for claim in claims:
                reason = "its worker was refused the result that it claimed this with"
                await self._workspace.decide("activity", ReapAttempt(claim.attempt_id, reason), actor="servo")
            raise
        return await self._hand_out_all(claims)

    async def _capacity(self) -> int:
        catalog = self._workspace.logs["catalog"]
        if not self._knows_settings:
            await catalog.current()  # what was set last may not be published yet; from now on it arrives by itself
            self._knows_settings = True
        settings = await read_settings(catalog.replica)
        return settings["servo.max_concurrent_tasks"]

    async def _hand_out_all(self, claims: list[ClaimRow]) -> list[bytes]:
        return [envelope for claim in claims if (envelope := await self._hand_out(claim)) is not None]


async def _settle(work: Awaitable[Receipt], answer: Future[None]) -> None:
    try:
        await work
    except ArcoError as error:
        answer.fail(error)
    else:
        answer.set(None)


def _actor(worker: str) -> str:
    return f"worker:{worker}"

"""`Work`: what workers ask of the control plane: a session, tasks, signs of life, results.

A session says which life of a worker this is; what an earlier life claimed is reaped at once. Results are decided by
the owner of the log: the first one for an attempt counts, a repetition of it is answered alike, anything later is
`stale_attempt`. Each is a decision and an event of its own; those that are told together are appended together. Signs
of life stay in the memory of the process that leads the log; those that arrive elsewhere are passed on there.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arco.assets import Project
from arco.core import ArcoError, Future, Invalid, NotFound, Refused
from arco.domains.access import read_settings
from arco.domains.orchestration import (
    CLAIMS,
    RUNS,
    WORKSPACE,
    ClaimRow,
    FinishTask,
    ReapAttempts,
    ReapWorker,
    RunRow,
    RunState,
)
from arco.log import Place, Receipt
from arco.runtime import OpenLog, Workspace
from arco.servo._check_facts import with_check_facts
from arco.servo._column_ids import with_column_ids
from arco.servo._controllers import Watch
from arco.servo._deployed import find_code_version
from arco.servo._envelope import Envelope, sign_envelope
from arco.servo._handout import make_envelope
from arco.servo._planning import Projects
from arco.servo._protocol import Beat, Callback
from arco.servo._queue import Queue, WorkerId
from arco.servo._replaced import there
from arco.state import View

__all__ = ["Finished", "Relay", "Work"]

REFUSALS = (Invalid, Refused)
"""What says that a result is not taken. Any other error leaves open whether it was, or will be if it is told again."""


class Relay(Protocol):
    async def beat(self, address: str, place: Place, attempts: Sequence[Callback]) -> list[Beat]:
        """Tell the process that leads the log, which is elsewhere."""
        ...


@dataclass(frozen=True)
class Finished:
    """What came of results that were told together."""

    envelopes: list[bytes] = field(default_factory=list)
    """Of what was claimed with them."""
    refused: dict[str, ArcoError] = field(default_factory=dict)
    """Why results were not taken, by attempt; all others were."""


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
        """Signed envelopes of up to `slots` tasks and batches, all claimed; waits so many seconds for the first."""
        return await self._hand_out_all(await self._queue.take(worker, slots, await self._capacity(), wait))

    async def _hand_out(self, claim: ClaimRow) -> bytes | None:
        """The envelope of a claim; None if what it needs is gone: then the attempt ends here and now."""
        workspace = self._workspace
        self._watch.note(claim.attempt_id, workspace.runtime.boottime())

        async def find_run(view: View) -> RunRow:
            run: RunRow | None = await view.get(RUNS, claim.run_id, claim.run_id)
            return there(run, f"run {claim.run_id}")

        async def fill(view: View) -> Envelope:
            now = workspace.runtime.now()
            envelope = await make_envelope(view, claim, project, workspace.scope, self._secret, now)
            return await with_check_facts(envelope, view, workspace.logs["catalog"].replica)

        try:
            run, _ = await self._log.read(find_run, strong=False)
            project = await self._project(run.code_version)
            envelope, _ = await self._log.read(fill, strong=False)
            return sign_envelope(self._secret, envelope)
        except ArcoError as error:
            await self._reap([claim], error.message)
            return None

    async def _project(self, code_version: str) -> Project:
        """The definitions of a code version. They never change, so what is known is right; else the log is asked."""
        catalog = self._workspace.logs["catalog"]
        try:
            row = await find_code_version(catalog.replica, code_version)
        except NotFound:
            row, _ = await catalog.read(lambda view: find_code_version(view, code_version))
        return (await self._projects.get(self._workspace, row.manifest)).project

    async def beat(self, attempts: Sequence[Callback]) -> list[Beat]:
        """Signs of life of attempts, and what each of them is answered, in the same order."""
        log = self._log
        if not log.owning and self._relay is not None:
            address = await log.owner_address()
            if address:
                return await self._relay.beat(address, log.place, attempts)
        return await self.beat_here(attempts)

    async def beat_here(self, attempts: Sequence[Callback]) -> list[Beat]:
        """Signs of life that arrived where the log is led."""
        log = self._log
        if not log.owning:
            await log.current(strong=False)
        claims = await self._claims(log.replica, attempts)
        if None in claims:  # it may have been claimed elsewhere a moment ago, and would be stopped for nothing
            claims, _ = await log.read(lambda view: self._claims(view, attempts))
        now = self._workspace.runtime.boottime()
        for attempt, claim in zip(attempts, claims, strict=True):
            if claim is not None:
                self._watch.note(attempt.attempt_id, now, attempt.progress)
        return [await self._answer(claim) for claim in claims]

    async def _claims(self, view: View, attempts: Sequence[Callback]) -> list[ClaimRow | None]:
        return [await view.get(CLAIMS, WORKSPACE, attempt.attempt_id) for attempt in attempts]

    async def _answer(self, claim: ClaimRow | None) -> Beat:
        if claim is None:
            return Beat(stale=True)
        run: RunRow | None = await self._log.replica.get(RUNS, claim.run_id, claim.run_id)
        if run is not None and run.state == RunState.CANCELLING:
            return Beat(cancel=True, reason=run.cancel_reason or "the run was cancelled")
        return Beat()

    async def finish(
        self, results: Sequence[FinishTask], worker: WorkerId, slots: int = 0, traceparent: str = ""
    ) -> Finished:
        """The ends of attempts, each an event, and envelopes of up to `slots` tasks and batches that are ready then.

        All commands reach the owner together, so that they are one append: what became ready by these very results is
        claimed without waiting for them. If it remains unknown whether a result was taken, this raises; what was
        claimed with it is given up again, because nobody will hear of it.
        """
        if len({result.attempt_id for result in results}) < len(results):
            raise Invalid("one request tells two ends of the same attempt; tell the one that it had")
        activity, catalog = self._log.replica, self._workspace.logs["catalog"].replica
        told = [await with_column_ids(result, activity, catalog) for result in results]
        answers = [self._tell(result, worker, traceparent) for result in told]
        claims: list[ClaimRow] = []
        if slots:
            await self._workspace.runtime.sleep(0)  # the results enter the owner's queue first
            claims = await self._queue.claim(worker, slots, await self._capacity())
        refused: dict[str, ArcoError] = {}
        unknown: ArcoError | None = None
        for result, answer in zip(results, answers, strict=True):
            try:
                await answer
            except REFUSALS as error:
                refused[result.attempt_id] = error
            except ArcoError as error:
                unknown = error
        if unknown is not None:
            if claims:
                reason = "its worker could not be told, because a result of its was not taken"
                await self._reap(claims, reason, began=False)
            raise unknown
        return Finished(await self._hand_out_all(claims), refused)

    def _tell(self, result: FinishTask, worker: WorkerId, traceparent: str) -> Future[None]:
        """Have one result decided; the answer comes later."""
        runtime = self._workspace.runtime
        answer: Future[None] = runtime.future()
        decided = self._workspace.decide("activity", result, actor=_actor(worker.name), traceparent=traceparent)
        runtime.spawn(_settle(decided, answer), f"result of {result.attempt_id}")
        return answer

    async def _reap(self, claims: Sequence[ClaimRow], reason: str, *, began: bool = True) -> None:
        ids = tuple(claim.attempt_id for claim in claims)
        await self._workspace.decide("activity", ReapAttempts(ids, reason, began), actor="servo")

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

"""`Controllers`: the loop that carries out what `reconcile` finds, in the process that leads the log.

It sleeps until an event is folded or the next deadline comes, whichever is first. Nothing is polled, and an idle
workspace costs nothing. While attempts run it wakes now and then to see whether it wakes in time: a process that stood
still (a machine that slept) has heard nobody, and begins to watch anew. What a crash interrupted needs no repair of its
own: after a restart the same rows give the same intents, which is why there is no outbox to lose work from.
"""

from contextlib import suppress

from arco.core import ArcoError, Runtime, Task
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    CLAIMS,
    WORKSPACE,
    ActiveRunRow,
    CancelRun,
    ClaimRow,
    ReapAttempts,
    RunState,
)
from arco.runtime import OpenLog, Workspace
from arco.servo._controllers import EndRun, Intent, Reap, Watch, reconcile

__all__ = ["ACTOR", "Controllers"]

ACTOR = "servo"
"""Who acts because time passed."""

RETRY_SECONDS = 5.0
"""Pause after an intent that could not be carried out, or while another process leads."""

LISTENING = 10.0
"""Seconds between two looks at whether this process runs at all, and by which it may be late."""


class Controllers:
    def __init__(self, workspace: Workspace, watch: Watch) -> None:
        self._workspace = workspace
        self._watch = watch
        self._task: Task | None = None
        self._leads: bool | None = None
        """Whether this process led the log when it last asked; None before it ever did."""
        self._terms = 0
        """How often it had become the owner by then."""
        self._known = 0
        """The newest segment that is known to exist."""
        self._due: float | None = None

    @property
    def _log(self) -> OpenLog:
        return self._workspace.logs["activity"]

    @property
    def _runtime(self) -> Runtime:
        return self._workspace.runtime

    def is_waiting(self) -> bool:
        """Whether something will have to be done because time passes."""
        return self._task is not None and (bool(self._watch.attempts) or self._due is not None)

    def start(self) -> None:
        if self._task is None:
            self._task = self._runtime.spawn(self._run(), "controllers")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while not self._log.follower.ended:
            folded, began = self._log.follower.tail.number, self._runtime.boottime()
            try:
                due = self._due = await self.step()
            except ArcoError:
                due = RETRY_SECONDS  # whoever asks for something meets the same trouble and says so
            self._check_awake(began)
            await self._wait(folded, due)

    async def _wait(self, folded: int, due: float | None) -> None:
        """Until something is folded after that segment, or so many seconds have passed."""
        if self._watch.attempts:
            due = LISTENING if due is None else min(due, LISTENING)
        if due is None:
            await self._log.follower.advanced(folded)
            return
        began, seconds = self._runtime.boottime(), max(due, 0.001)
        with suppress(TimeoutError):
            await self._runtime.timeout(seconds, self._log.follower.advanced(folded))
        self._check_awake(began + seconds)

    def _check_awake(self, expected: float) -> None:
        """Forget what was seen if this comes much later than expected: whoever stood still heard nobody."""
        if self._is_late(expected):
            self._watch.forget()
            self._leads = None

    def _is_late(self, expected: float) -> bool:
        return self._runtime.boottime() - expected > LISTENING

    async def step(self) -> float | None:
        """Carry out everything that is due; seconds until the next may be, or None if only an event can say."""
        began = self._runtime.boottime()
        if self._leads is None or self._lag() > 0:
            await self._log.current()  # what was not published yet when this process began concerns it too
        elif self._watch.attempts:
            # An owner that was replaced hears of it here: signs of life that it kept would be missing elsewhere.
            await self._log.current(strong=False)
        has_begun = self._log.owning and not (self._leads and self._terms == self._log.gateway.terms)
        if self._leads is None or has_begun:
            await self._ask_who_leads()
        intents, due = await self._reconciled()
        if not intents:
            return due
        # What was due on old rows may be settled by now, and who leads may be another one: look at the end of the log
        # before anything is done.
        await self._log.current()
        if not await self._ask_who_leads():
            return RETRY_SECONDS
        self._check_awake(began)
        intents, due = await self._reconciled()
        reconciled = self._runtime.boottime()
        for intent in intents:
            # Each takes its time, in which others may show life after all.
            if self._is_late(reconciled):
                break
            if not (isinstance(intent, Reap) and self._watch.has_heard(intent.attempt_ids, reconciled)):
                await self._carry_out(intent)
        return 0.0 if intents else due

    async def _ask_who_leads(self) -> bool:
        """Whether this process does. As long as it did not, signs of life went elsewhere: it begins to watch anew.

        Between two terms as the owner somebody else was it, also if nobody asked here meanwhile.
        """
        before, self._leads = self._leads, await self._log.leads()
        terms, self._terms = self._terms, self._log.gateway.terms
        if not (before and self._leads and terms == self._terms):
            self._watch.forget()
        return self._leads

    def _lag(self) -> int:
        """Segments that are known and not in the rows, because these are being set back to another revision."""
        self._known = max(self._known, self._log.follower.tail.number)
        return self._known - self._log.replica.link.number

    async def _reconciled(self) -> tuple[tuple[Intent, ...], float | None]:
        replica = self._log.replica
        claims: list[ClaimRow] = await replica.rows(CLAIMS, WORKSPACE)
        runs: list[ActiveRunRow] = await replica.rows(ACTIVE_RUNS, WORKSPACE)
        monotonic = self._runtime.boottime()
        cancelling = frozenset(run.run_id for run in runs if run.state == RunState.CANCELLING)
        self._watch.follow(claims, cancelling, monotonic)
        found = reconcile(
            claims,
            runs,
            self._watch.attempts,
            now=self._runtime.now(),
            monotonic=monotonic,
            lag=self._lag(),
        )
        return found.intents, found.due

    async def _carry_out(self, intent: Intent) -> None:
        """Decide it now or not at all: a command that lands much later would end what has shown life since."""
        with suppress(TimeoutError):
            await self._runtime.timeout(LISTENING, self._decide(intent))

    async def _decide(self, intent: Intent) -> None:
        match intent:
            case Reap(attempt_ids, reason):
                await self._workspace.decide("activity", ReapAttempts(attempt_ids, reason), actor=ACTOR)
            case EndRun(run_id, kind, reason):
                await self._workspace.decide("activity", CancelRun(run_id, kind, reason), actor=ACTOR)

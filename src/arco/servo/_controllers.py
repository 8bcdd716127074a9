"""Controllers: what must happen because time passed, as a pure function of a few rows and the time.

    rows of claims and active runs  +  signs of life  +  now   ->   reconcile   ->   intents, and when to look again

- `Watch` holds what is in nobody's log: when each attempt last showed life, and since when this process watches it. A
  process that begins to watch, or stood still, waits a full time-out before it believes that something is dead.
- `reconcile` covers every timer: heartbeats, the time an attempt or a run may take, the end of cancelled attempts, the
  next attempt of what waits for one. It does nothing while it lags: when the log is known to be longer than the rows.
- An intent is carried out by `decide`, which looks at the state again: what is over by then stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from arco.core import SECOND
from arco.domains.orchestration import ActiveRunRow, CancelKind, ClaimRow, RunState
from arco.servo._protocol import Progress

__all__ = ["GRACE", "EndRun", "Intent", "Reap", "Reconciled", "Watch", "Watched", "reconcile"]

GRACE: Final = 30.0
"""Seconds beyond a time-out before something is declared dead: beats are on their way."""

CANCEL_GRACE: Final = 60.0
"""Seconds that a cancelled attempt has to end by itself."""


@dataclass(frozen=True)
class Reap:
    """Nothing will be heard of these attempts: of one, or of all of a batch that have not ended."""

    attempt_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class EndRun:
    """This run took longer than it may."""

    run_id: str
    kind: CancelKind
    reason: str


Intent = Reap | EndRun


@dataclass(frozen=True)
class Watched:
    """An attempt as this process sees it. Times are seconds of a clock that never goes back."""

    since: float
    seen: float
    """Its last sign of life, or since when we watch."""
    cancelled: float | None = None
    """Since when its run is being cancelled."""
    progress: Progress | None = None
    """How far it had come when it last said so."""


@dataclass
class Watch:
    """Signs of life of claimed attempts. Lives in the memory of the process that owns the log, and nowhere else."""

    attempts: dict[str, Watched] = field(default_factory=dict)

    def note(self, attempt_id: str, now: float, progress: Progress | None = None) -> None:
        """A sign of life."""
        known = self.attempts.get(attempt_id) or Watched(now, now)
        self.attempts[attempt_id] = replace(known, seen=now, progress=progress or known.progress)

    def progress(self, attempt_id: str) -> Progress | None:
        """How far an attempt has come, if this process hears of it."""
        known = self.attempts.get(attempt_id)
        return known.progress if known is not None else None

    def has_heard(self, attempt_ids: Iterable[str], since: float) -> bool:
        """Whether one of these attempts has shown life since then."""
        known = [self.attempts[attempt_id] for attempt_id in attempt_ids if attempt_id in self.attempts]
        return any(watched.seen > since for watched in known)

    def follow(self, claims: Iterable[ClaimRow], cancelling: frozenset[str], now: float) -> None:
        """Watch what is claimed and forget what has ended. `cancelling` are runs that shall end."""
        after: dict[str, Watched] = {}
        for claim in claims:
            known = self.attempts.get(claim.attempt_id) or Watched(now, now)
            if claim.run_id in cancelling and known.cancelled is None:
                known = replace(known, cancelled=now)
            after[claim.attempt_id] = known
        self.attempts = after

    def forget(self) -> None:
        """Somebody else owns the log, or this process stood still: what was seen here says nothing any more."""
        self.attempts = {}


@dataclass(frozen=True)
class Reconciled:
    intents: tuple[Intent, ...]
    due: float | None
    """Seconds until the next one may be needed; None if only an event can change that."""


def reconcile(
    claims: Iterable[ClaimRow],
    runs: Iterable[ActiveRunRow],
    watch: Mapping[str, Watched],
    *,
    now: int,
    monotonic: float,
    lag: int = 0,
) -> Reconciled:
    """What time makes necessary. `now` is wall time in microseconds, for deadlines that stand in events.

    `lag` is the known tail of the log less what the rows cover: as long as there is any, an event that would settle the
    matter may be in it, so nothing is done and the caller folds first. That a workspace is idle is no lag.
    """
    if lag > 0:
        return Reconciled((), 0.0)
    intents: list[Intent] = []
    dues: list[float] = []
    for batch in _by_slot(claims):
        ids = tuple(sorted(claim.attempt_id for claim in batch))
        due, reason = _end_of(batch[0], _together([watch.get(one) or Watched(monotonic, monotonic) for one in ids]))
        if due <= monotonic:
            intents.append(Reap(ids, reason))
        else:
            dues.append(due - monotonic)
    for run in runs:
        if run.deadline is None or run.state != RunState.RUNNING:
            continue
        if run.deadline <= now:
            intents.append(EndRun(run.run_id, CancelKind.TIMED_OUT, "the run took longer than its time-out"))
        else:
            dues.append((run.deadline - now) / SECOND)
    return Reconciled(tuple(intents), min(dues, default=None))


def _by_slot(claims: Iterable[ClaimRow]) -> Iterable[list[ClaimRow]]:
    """What was claimed together lives and dies together: one driver has it."""
    found: dict[str, list[ClaimRow]] = {}
    for claim in claims:
        found.setdefault(claim.slot, []).append(claim)
    return found.values()


def _together(seen: Sequence[Watched]) -> Watched:
    """A sign of life of one attempt of a batch is one of all."""
    cancelled = [one.cancelled for one in seen if one.cancelled is not None]
    ends = max(cancelled) if len(cancelled) == len(seen) else None
    return Watched(max(one.since for one in seen), max(one.seen for one in seen), ends)


def _end_of(claim: ClaimRow, seen: Watched) -> tuple[float, str]:
    """When an attempt is taken for dead if nothing else is heard, and why."""
    beats = (
        seen.seen + claim.heartbeat_seconds + GRACE,
        f"no sign of life of worker {claim.worker} for {claim.heartbeat_seconds + GRACE:g} s",
    )
    ends = [beats]
    if claim.timeout_seconds is not None:
        # The worker ends it in time; this is for one that does not.
        ends.append(
            (
                seen.since + claim.timeout_seconds + 2 * GRACE,
                f"worker {claim.worker} did not end it though its {claim.timeout_seconds:g} s are over",
            )
        )
    if seen.cancelled is not None:
        ends.append(
            (seen.cancelled + CANCEL_GRACE, f"worker {claim.worker} did not end it though its run was cancelled")
        )
    return min(ends)

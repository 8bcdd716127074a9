"""What a run counts: faults that happened, recovery paths that were taken, operations that were done.

Over a set of seeds every fault and every path must have happened at least once; else the set proves nothing about it.
"""

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["COMMIT_FAULTS", "COMMIT_PATHS", "FAULTS", "PATHS", "RUN_FAULTS", "RUN_PATHS", "Probe"]

FAULTS: dict[str, str] = {
    "crash before": "the process dies before its operation is applied",
    "crash after": "the operation is applied, the process dies before the answer",
    "crash": "the process dies anywhere else",
    "lost in flight": "sent by a process that died, never applied",
    "applied in flight": "sent by a process that died, applied afterwards",
    "error before": "5xx, nothing applied",
    "applied then error": "applied, answered 5xx",
    "applied then timeout": "applied, no answer",
    "conflict": "409, nothing applied",
    "throttled": "429, nothing applied",
    "delayed apply": "applied after the client gave up",
    "outage": "the store answers nothing for a while",
    "slow": "answered after seconds",
    "stalled": "a process stands still for seconds",
    "suspended": "a process sleeps for hours",
    "clock jump": "a wall clock jumps",
    "owner change": "another process takes the log over",
    "message lost": "a forwarded command never arrives",
    "answer lost": "the answer of a forwarded command never arrives",
    "message delayed": "a forwarded command arrives after its sender gave up",
    "message duplicated": "a forwarded command arrives twice",
    "message reordered": "a forwarded command overtakes an earlier one",
    "request cancelled": "a caller goes away while its command is under way",
    "lost object": "an operator deletes what must exist",
}

PATHS: dict[str, str] = {
    "create lost": "somebody else had the number",
    "won after unknown": "a create without an answer turned out to be won",
    "lost after unknown": "a create without an answer turned out to be lost",
    "outcome open": "a create could not be settled for a while",
    "fenced by floor": "a number below the floor was not taken for won",
    "takeover": "a process replaced a silent owner",
    "forwarded": "a command was carried out by another process",
    "superseded owner": "an owner found another one in its place",
    "replayed by operation": "a repeated command was recognised by its operation",
    "replayed by key": "a repeated request was recognised by its key",
    "key conflict": "a key used for another request was refused",
    "answered unknown": "a caller was told that the outcome is unknown",
    "unknown had landed": "an operation of unknown outcome is in the log",
    "unknown had not landed": "an operation of unknown outcome is not in the log",
    "cancelled but landed": "a caller was gone, its command was carried out",
    "duplicate recorded": "a recorded fact stands in the log twice and in the state once",
    "manifest lost": "another compactor published first",
    "merge adopted": "a merge replaced its inputs",
    "merge dropped": "a merge was forgotten because its inputs were gone",
    "merge finished by another": "a merge's result came from somebody else",
    "rebuild swapped": "a rebuild replaced all layers at once",
    "rebuild given up": "a rebuild found that somebody else went on",
    "skipped type refolded": "a program that knows a skipped type folded it anew",
    "outdated only reads": "a program older than the data refused to write",
    "files collected": "unreachable files were deleted",
    "manifests collected": "superseded manifests were deleted below a floor",
    "segments packed": "packs took over segments",
    "packing finished by another": "packs came from somebody else's job",
    "segments dropped": "loose segments were deleted below a floor because packs have them",
    "read from packs": "a process that was behind read segments from packs",
    "evicted and reloaded": "rows were dropped from memory and read again",
    "history read": "a reader opened an older revision",
    "position read": "a reader folded forward from an older revision",
    "retention advanced": "facts expired",
    "pinned kept": "a pinned revision outlived the others",
    "lost object noticed": "a missing object stopped the work",
}

_ELSEWHERE = ("suspended", "owner change", "request cancelled", "lost object")
"""What only the world of the engine does."""

RUN_FAULTS: dict[str, str] = {
    **{kind: text for kind, text in FAULTS.items() if kind not in _ELSEWHERE},
    "stream broken": "segments of the owner do not arrive any more",
    "callback lost": "what a worker or a caller says never arrives",
    "callback answer lost": "it is carried out, the answer never arrives",
    "callback delayed": "it arrives after its sender gave up",
    "callback duplicated": "it arrives twice",
    "callback reordered": "it overtakes an earlier one",
    "worker dies": "a worker's process dies with all it knows",
    "worker stands still": "a worker's process stands still; its results come late",
    "task hangs": "a task takes far longer than others",
    "result repeated": "a result is told again after it was acknowledged",
    "result contradicted": "another result is told after one was acknowledged",
    "wake-up lost": "a queue outside loses a message",
    "wake-up duplicated": "a queue outside delivers a message more than once",
    "dispatch repeated": "the same dispatch is asked for twice",
    "driver dies": "a driver dies in the middle of a batch; some of its tasks were reported",
    "deadly task": "a task kills whoever runs it, each time",
}
"""What goes wrong in the world of whole runs."""

RUN_PATHS: dict[str, str] = {
    **{kind: PATHS[kind] for kind in ("create lost", "won after unknown", "lost after unknown", "superseded owner")},
    "attempt reaped": "an attempt of which nothing was heard was given up",
    "worker reaped": "a worker began anew and what it had claimed was given up",
    "acted after a restart": "a process gave up an attempt that another one had handed out",
    "attempt retried": "a task was tried again and succeeded",
    "stale result refused": "a result came after its attempt was given up",
    "cancelled by a caller": "a run was cancelled while it ran",
    "run timed out": "a run took longer than it may",
    "run failed fast": "a failure kept the rest of a run from beginning",
    "blocked by checks": "checks of a task kept what depends on it from beginning",
    "run key repeated": "a run key stood for a run that existed",
    "claimed by a finish": "a result brought the next task with its answer",
    "beat relayed": "a sign of life was passed on to the owner",
    "dispatched outside": "a task went through a queue outside",
    "claimed as a batch": "tasks were claimed together",
    "batch split": "what was lost together went on in smaller batches",
    "batch reaped": "all attempts of a batch were given up at once",
    "stood alone": "a task that was planned in a batch was lost until it stood alone, and failed",
    "told together": "results of a batch were one segment",
}
"""What must have happened there for a set of seeds to prove something."""

COMMIT_FAULTS: dict[str, str] = {
    kind: text
    for kind, text in FAULTS.items()
    if not kind.startswith("message") and kind not in ("answer lost", "owner change", "lost object")
}
"""What goes wrong in the world of Iceberg commits."""

COMMIT_PATHS: dict[str, str] = {
    **{
        kind: PATHS[kind]
        for kind in (
            "create lost",
            "won after unknown",
            "lost after unknown",
            "outcome open",
            "replayed by key",
            "answered unknown",
        )
    },
    "key taken over": "a repeated request made the next claim of its key",
    "transaction committed": "several tables were changed at one moment",
    "transaction aborted": "a transaction was decided against",
    "aborted under way": "a coordinator found its transaction aborted by another, and tried it as a new one",
    "settled after the answer": "a commit landed after its client was told that the outcome is unknown",
}
"""What must have happened there."""


@dataclass
class Probe:
    faults: Counter[str] = field(default_factory=Counter)
    paths: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)

    def fault(self, kind: str) -> None:
        assert kind in FAULTS or kind in RUN_FAULTS, kind
        self.faults[kind] += 1

    def path(self, kind: str) -> None:
        assert kind in PATHS or kind in RUN_PATHS or kind in COMMIT_PATHS, kind
        self.paths[kind] += 1

    def add(self, other: "Probe") -> None:
        self.faults.update(other.faults)
        self.paths.update(other.paths)
        self.operations.update(other.operations)

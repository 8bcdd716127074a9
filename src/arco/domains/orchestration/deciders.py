"""Which function decides which command. A refusal says why and what to do; a command without effect has no events."""

import msgspec

from arco.domains.orchestration import commands
from arco.domains.orchestration.decide_claims import (
    claim_tasks,
    confirm_dispatch,
    reap_attempts,
    reap_worker,
    request_dispatch,
)
from arco.domains.orchestration.decide_finish import finish_task
from arco.domains.orchestration.decide_runs import cancel_run, trigger_run
from arco.state import Decider

__all__ = ["COMMANDS"]

_DECIDERS: tuple[tuple[type[msgspec.Struct], Decider], ...] = (
    (commands.TriggerRun, trigger_run),
    (commands.CancelRun, cancel_run),
    (commands.ClaimTasks, claim_tasks),
    (commands.FinishTask, finish_task),
    (commands.ReapAttempts, reap_attempts),
    (commands.ReapWorker, reap_worker),
    (commands.RequestDispatch, request_dispatch),
    (commands.ConfirmDispatch, confirm_dispatch),
)

COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {kind.__name__: (kind, f) for kind, f in _DECIDERS}

"""The kill test: writers, compactors and a collector on one local disk, and somebody who kills one of them again and
again. Afterwards everything acknowledged is there, once."""

import asyncio
import random
import time
from pathlib import Path

from arco.runtime import AsyncRuntime, init_workspace
from arco.storage import LocalStore
from tests.prove.acks import read_acks
from tests.prove.check import check_workspace
from tests.prove.processes import Processes
from tests.prove.report import Report
from tests.prove.worker import SCOPE, STORE

__all__ = ["prove_kills"]

WORKERS = {
    **{f"writer{number}": "writer" for number in range(4)},
    **{f"compactor{number}": "compactor" for number in range(2)},
    "collector": "collector",
}


def prove_kills(folder: Path, seconds: float, report: Report) -> None:
    asyncio.run(init_workspace(LocalStore(folder / STORE), SCOPE, AsyncRuntime()))
    kills = dict.fromkeys(WORKERS.values(), 0)
    died: list[str] = []
    with Processes(folder).running() as processes:
        for name, role in WORKERS.items():
            processes.start(role, name)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(random.uniform(0.3, 1.5))
            for name in processes.ended():
                died.append(f"{name}: {processes.output(name)[-600:]}")
                processes.kill(name)
                processes.start(WORKERS[name], name)
            victim = random.choice(processes.names)
            processes.kill(victim)
            kills[WORKERS[victim]] += 1
            processes.start(WORKERS[victim], victim)
        restarts = processes.started - len(WORKERS)
    report.none("no worker ended by itself", died)
    report.say(f"processes killed: {sum(kills.values())} ({kills}); restarts: {restarts}")
    acks = read_acks(folder)
    for kind in ("recorded", "repeated", "claimed", "refused"):
        report.check(f"some requests were {kind}", any(ack.kind == kind for ack in acks))
    manifests = sum(int(ack.name) for ack in acks if ack.kind == "collected")
    report.check("manifests were really deleted", manifests > 0, f"{manifests:,}")
    check_workspace(folder, acks, report)

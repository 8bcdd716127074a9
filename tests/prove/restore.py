"""The restore drill: writers at work, backups and restores that are killed again and again, and a writer that sleeps
while the workspace is restored. Afterwards everything acknowledged stands in the log before its seal, or after the
restore in the new one; and what was restored is what was backed up.

Every restore that comes to its end opens an incarnation, so there may be more than two."""

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from arco.log import FIRST_LINK, Place, read_log
from arco.runtime import AsyncRuntime, init_workspace, read_incarnations
from arco.state import Revisions, open_ledger
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Tail
from tests.prove.acks import Ack, read_acks
from tests.prove.processes import Processes
from tests.prove.report import Report
from tests.prove.worker import SCOPE, STORE

__all__ = ["prove_restore"]

VAULT = "vault"
SETTLED = 3.0
"""Seconds that old processes get to say something wrong."""


class _Payload(msgspec.Struct):
    materialization_id: str = ""


def prove_restore(folder: Path, kills: int, report: Report) -> None:
    asyncio.run(init_workspace(LocalStore(folder / STORE), SCOPE, AsyncRuntime()))
    with Processes(folder).running() as processes:
        for name in ("one", "two"):
            processes.start("writer", name)
        _wait_for_acks(folder, 50)
        took = _arco(folder, report, "a backup while two processes write", "backup")
        killed = sum(_killed(folder, "backup", after=random.uniform(0.2, 1.1) * took) for _ in range(kills))
        _arco(folder, report, f"a backup after {killed} killed ones", "backup")
        _arco(folder, report, "every object of it is whole", "backup", "verify")
        processes.suspend("one")
        restore = ("restore", "--replace")
        killed = sum(_killed(folder, *restore, after=random.uniform(0.1, 0.8) * took) for _ in range(kills))
        _arco(folder, report, f"a restore after {killed} killed ones", *restore)
        before = len(_told(folder, "one"))
        processes.resume("one")
        time.sleep(SETTLED)
        _wait_for_acks(folder, len(read_acks(folder)) + 20)
        report.say(f"the one that slept was told {len(_told(folder, 'one')) - before} more things")
    acks = [ack for ack in read_acks(folder) if ack.kind in ("recorded", "repeated")]
    lives = asyncio.run(_lives(folder))
    report.check("a new incarnation was opened", len(lives) >= 2, f"{len(lives)} incarnations")
    old, new = lives[0], lives[-1]
    lost = [ack for ack in acks if not any(set(ack.ids) <= life for life in lives)]
    report.none(
        "everything acknowledged is in the log of an incarnation, before its seal",
        [f"{ack.ids} at {ack.first}" for ack in lost[:5]],
    )
    report.check("the old log has more than was restored", not old <= new, f"{len(old - new):,} facts")
    report.check("the new log went on", not new <= old, f"{len(new - old):,} facts")
    for command in (["doctor"], ["rebuild", "--verify"], ["restore", "--verify"]):
        _arco(folder, report, " ".join(command), *command)


async def _lives(folder: Path) -> list[set[str]]:
    """The materializations in the log of each incarnation. A segment after a seal would be `Corrupt`."""
    store, runtime = LocalStore(folder / STORE), AsyncRuntime()
    reader = RoleStore(store, SCOPE, Role.READER, RequestCounts())
    found = []
    for life in await read_incarnations(store, SCOPE, runtime, all_of_them=True):
        place = Place(SCOPE.tenant, SCOPE.workspace, life.id, "activity")
        ledger = open_ledger(reader, Revisions(reader, place, runtime))
        ids: set[str] = set()
        async for one in read_log(ledger, Tail(0, float("-inf")), FIRST_LINK):
            if not isinstance(one, Tail):
                ids |= {msgspec.json.decode(event.data, type=_Payload).materialization_id for event in one[0].events}
        found.append(ids)
    return found


def _command(folder: Path, *arguments: str) -> list[str]:
    place = [f"--store=file://{(folder / STORE).resolve()}", f"--tenant={SCOPE.tenant}"]
    place.append(f"--workspace={SCOPE.workspace}")
    if arguments[0] in ("backup", "restore"):
        flag = "--to" if arguments[0] == "backup" else "--from"
        place.append(f"{flag}=file://{(folder / VAULT).resolve()}")
    return [sys.executable, "-m", "arco.cli", *arguments, *place]


def _arco(folder: Path, report: Report, name: str, *arguments: str) -> float:
    """Run a command to its end, and say how long it took."""
    started = time.monotonic()
    done = subprocess.run(_command(folder, *arguments), capture_output=True, text=True, check=False)
    took = time.monotonic() - started
    shown = "" if done.returncode == 0 else f"exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}"
    report.check(name, not shown, shown or f"{took:.1f} s")
    return took


def _killed(folder: Path, *arguments: str, after: float = 0.0) -> bool:
    """Start a command and kill it; False if it came to its end first."""
    process = subprocess.Popen(
        _command(folder, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def _told(folder: Path, worker: str) -> list[Ack]:
    lines = [line for path in folder.glob(f"{worker}-*.acks") for line in path.read_bytes().split(b"\n")[:-1]]
    acks = [msgspec.json.decode(line, type=Ack) for line in lines]
    return [ack for ack in acks if ack.kind in ("recorded", "repeated", "claimed")]


def _wait_for_acks(folder: Path, count: int) -> None:
    until = time.monotonic() + 120
    while len(read_acks(folder)) < count and time.monotonic() < until:
        time.sleep(0.2)

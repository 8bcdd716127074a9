"""The restore drill: writers at work, backups and restores that are killed again and again, and an owner of a log that
sleeps while the workspace is restored. Afterwards everything acknowledged stands in the log before its seal, or after
the restore in the new one; and what was restored is what was backed up.

Every restore that comes to its end opens an incarnation, so there may be more than two."""

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from arco.log import FIRST_LINK, Place, decode_segment, read_log
from arco.runtime import AsyncRuntime, init_workspace, read_incarnations
from arco.state import Revisions, open_ledger
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Tail
from tests.prove.acks import Ack, read_acks
from tests.prove.processes import Processes
from tests.prove.report import Report
from tests.prove.worker import SCOPE, STORE

__all__ = ["prove_restore"]

VAULT = "vault"
PATIENCE = 60.0
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
        _kill(folder, report, kills, took, "backup")
        _arco(folder, report, "a backup after the killed ones", "backup")
        _arco(folder, report, "every object of it is whole", "backup", "verify")
        restore = ("restore", "--replace")
        took = _arco(folder, report, "a restore while two processes write", *restore)
        _wait_for_acks(folder, len(read_acks(folder)) + 50)
        report.check("the one that is put to sleep owns a log", _suspend_owner(folder, processes, "one"))
        _kill(folder, report, kills, took, *restore)
        _arco(folder, report, "a restore after the killed ones", *restore)
        before = len(_told(folder, "one"))
        processes.resume("one")
        time.sleep(SETTLED)
        _wait_for_acks(folder, len(read_acks(folder)) + 20)
        report.say(f"the one that slept was told {len(_told(folder, 'one')) - before} more things")
    acks = [ack for ack in read_acks(folder) if ack.kind in ("recorded", "repeated")]
    lives = asyncio.run(_lives(folder))
    report.check("each restore opened an incarnation", len(lives) >= 3, f"{len(lives)} incarnations")
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


def _suspend_owner(folder: Path, processes: Processes, name: str) -> bool:
    """Suspend a writer just when nobody has appended after it; False if that does not come to pass."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        processes.suspend(name)
        if asyncio.run(_appended_last(folder)) == name:
            return True
        processes.resume(name)
        time.sleep(random.uniform(0.05, 0.3))
    processes.suspend(name)
    return False


async def _appended_last(folder: Path) -> str:
    """Whose events end the log of activity. Writers cannot reach each other, so each appends its own."""
    store, runtime = LocalStore(folder / STORE), AsyncRuntime()
    life = (await read_incarnations(store, SCOPE, runtime))[-1]
    reader = RoleStore(store, SCOPE, Role.READER, RequestCounts())
    place = Place(SCOPE.tenant, SCOPE.workspace, life.id, "activity")
    sequence = open_ledger(reader, Revisions(reader, place, runtime)).sequence
    tail = await sequence.tail()
    segment = decode_segment(await sequence.read_known(tail.number), sequence.path(tail.number))
    return segment.events[-1].actor if segment.events else ""


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


def _kill(folder: Path, report: Report, kills: int, took: float, *arguments: str) -> None:
    """Kill a command so often, each time at another moment of the time it takes; one that was faster is no kill."""
    killed = tried = 0
    while killed < kills and tried < 5 * kills:
        started = time.monotonic()
        if _killed(folder, *arguments, after=random.uniform(0.2, 0.95) * took):
            killed += 1
        else:
            took = time.monotonic() - started
        tried += 1
    report.check(f"a {arguments[0]} is killed again and again", killed == kills, f"{killed} of {tried}")


def _killed(folder: Path, *arguments: str, after: float) -> bool:
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

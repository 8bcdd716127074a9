"""Faults that only a real machine has: a suspended owner, a full disk, a disk that turns read-only."""

import asyncio
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from arco.core import ArcoError, StoreRefused
from arco.log import NewEvent
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import LocalStore
from tests.prove.acks import Ack, read_acks
from tests.prove.check import check_workspace
from tests.prove.processes import Processes
from tests.prove.report import Report
from tests.prove.worker import SCOPE, STORE, materialization, open_workspace

__all__ = ["prove_full_disk", "prove_read_only", "prove_suspended"]

PATIENCE = 20.0


def prove_suspended(folder: Path, report: Report) -> None:
    """What the suspended one had sent may land or not; when it wakes it must see that others went on."""
    asyncio.run(init_workspace(LocalStore(folder / STORE), SCOPE, AsyncRuntime()))
    with Processes(folder).running() as processes:
        processes.start("compactor", "compactor")
        processes.start("collector", "collector")
        processes.start("writer", "first")
        report.check("the first writer owns the logs", _wait(lambda: _told(folder, "first") > 20))
        processes.suspend("first")
        stopped = time.monotonic()
        before = _told(folder, "first")
        processes.start("writer", "second")
        report.check(
            "a second writer takes over while the first is suspended", _wait(lambda: _told(folder, "second") > 20)
        )
        time.sleep(max(0.0, stopped + 3.0 - time.monotonic()))
        report.check("the suspended one was told nothing meanwhile", _told(folder, "first") == before)
        processes.resume("first")
        report.check("the first one works again after it woke", _wait(lambda: _told(folder, "first") > before + 20))
    check_workspace(folder, read_acks(folder), report)


def _told(folder: Path, worker: str) -> int:
    """Facts that a worker was told are durable."""
    acks = [line for path in folder.glob(f"{worker}-*.acks") for line in path.read_bytes().splitlines()]
    return sum(b'"kind":"recorded"' in line for line in acks)


def _wait(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def prove_full_disk(folder: Path, report: Report) -> None:
    """Fill a small disk with events; then make room and go on with the same process."""
    with _small_disk(folder / "disk", report) as disk:
        if disk is None:
            asyncio.run(_fill(folder, report, _limit_files(32_768)))
        else:
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(9 << 20))
            os.symlink(disk, folder / STORE)
            asyncio.run(_fill(folder, report, ballast.unlink))
        check_workspace(folder, read_acks(folder), report)


async def _fill(folder: Path, report: Report, make_room: Callable[[], None]) -> None:
    runtime = AsyncRuntime()
    await init_workspace(LocalStore(folder / STORE), SCOPE, runtime)
    async with await open_workspace(folder, runtime, may_own=True) as workspace:
        writing = _Recording(folder, workspace, runtime)
        refusal = None
        for _ in range(5_000):
            refusal = await writing.record(300)
            if refusal is not None:
                break
        report.check("a full disk refuses with StoreRefused", isinstance(refusal, StoreRefused), str(refusal))
        published = await _error_of(workspace, "activity")
        report.check(
            "publishing on the full disk fails cleanly or fits",
            published is None or isinstance(published, StoreRefused),
        )
        make_room()
        after = [await writing.record(3) for _ in range(5)]
        report.check("with room again the same process goes on", after == [None] * 5, str(after))
        report.say(f"{writing.done} batches were acknowledged, {writing.refused} refused")


class _Recording:
    """Records batches and notes the answers, on a disk that is not full."""

    def __init__(self, folder: Path, workspace: Workspace, runtime: AsyncRuntime) -> None:
        self._workspace = workspace
        self._runtime = runtime
        self._acks = folder / "filler.acks"
        self.done = 0
        self.refused = 0

    async def record(self, count: int) -> ArcoError | None:
        new: list[tuple[str, NewEvent]] = [materialization(self._runtime) for _ in range(count)]
        ids = tuple(identity for identity, _ in new)
        try:
            receipt = await self._workspace.record("activity", [event for _, event in new], actor="filler")
        except ArcoError as error:
            self.refused += 1
            self._note(Ack("refused" if isinstance(error, StoreRefused) else "unknown", ids=ids, name=error.message))
            return error
        self.done += 1
        self._note(Ack("recorded", int(receipt.first), int(receipt.last), ids))
        return None

    def _note(self, ack: Ack) -> None:
        with self._acks.open("ab") as file:
            file.write(msgspec.json.encode(ack) + b"\n")


async def _error_of(workspace: Workspace, log: str) -> ArcoError | None:
    try:
        await workspace.logs[log].compactor.publish()
    except ArcoError as error:
        return error
    return None


def prove_read_only(folder: Path, report: Report) -> None:
    with _small_disk(folder / "disk", report) as disk:
        if disk is None:
            report.say("skipped: only root can mount a disk of its own here")
            return
        os.symlink(disk, folder / STORE)
        asyncio.run(_turn_read_only(folder, disk, report))
        check_workspace(folder, read_acks(folder), report)


async def _turn_read_only(folder: Path, disk: Path, report: Report) -> None:
    runtime = AsyncRuntime()
    await init_workspace(LocalStore(folder / STORE), SCOPE, runtime)
    async with await open_workspace(folder, runtime, may_own=True) as workspace:
        writing = _Recording(folder, workspace, runtime)
        report.check("the disk takes events", [await writing.record(3) for _ in range(5)] == [None] * 5)
        _mount("-o", "remount,ro", str(disk))
        refusal = await writing.record(3)
        report.check("a read-only disk refuses with StoreRefused", isinstance(refusal, StoreRefused), str(refusal))
        snapshot = await workspace.logs["activity"].snapshot()
        report.check("it can still be read", snapshot.position >= 0)
        _mount("-o", "remount,rw", str(disk))
        after = [await writing.record(3) for _ in range(5)]
        report.check("writable again, the same process goes on", after == [None] * 5, str(after))


@contextmanager
def _small_disk(folder: Path, report: Report) -> Iterator[Path | None]:
    """A disk of 12 MB in memory; None where this user may not mount one."""
    folder.mkdir()
    if not _mount("-t", "tmpfs", "-o", "size=12m", "arco-prove", str(folder)):
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def _mount(*arguments: str) -> bool:
    try:
        return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _limit_files(size: int) -> Callable[[], None]:
    """Where no disk can be mounted: files of this process may not grow beyond a size, until the result is called."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

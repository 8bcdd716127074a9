"""Kill test of a real `arco dev`: a run of 200 tasks while the server, the worker and the drivers die at random.

Every task appends a line to a file of its own when it begins and when it is done, so that the test knows what really
ran, whatever the state says. In the end the run has succeeded, every task is done, and none began again after its
success was in the log.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from arco.client import Client
from arco.core import ArcoError
from arco.wire import RunRequestBody
from tests.prove.dev import Dev
from tests.prove.report import Report

__all__ = ["prove_dev_kills"]

PIPELINE = """
import os, pathlib, time
from arco import asset

__namespace__ = "n"
MARKS = pathlib.Path(os.environ["MARKS"])
WIDTH, DEPTH = {width}, {depth}


def mark(name, what):
    with open(MARKS / name, "a") as file:
        file.write(f"{{what}} {{time.time()}} {{os.getpid()}}\\n")


def make(layer, column):
    name = f"a{{layer:03d}}_{{column:03d}}"
    above = [f"n.a{{layer - 1:03d}}_{{(column + shift) % WIDTH:03d}}" for shift in (0, 1)] if layer else []

    @asset(name=name, deps=above)
    def body():
        mark(name, "begin")
        time.sleep(0.05)
        mark(name, "done")
        return {{"made": name}}

    globals()[name] = body


for layer in range(DEPTH):
    for column in range(WIDTH):
        make(layer, column)
"""


def prove_dev_kills(
    folder: Path, kills: int, report: Report, *, width: int = 10, depth: int = 20, seed: int = 0
) -> None:
    """Run width x depth tasks and kill so many processes meanwhile."""
    chance = random.Random(seed)
    marks = folder / "marks"
    marks.mkdir()
    project = folder / "project"
    project.mkdir()
    (project / "pipeline.py").write_text(PIPELINE.format(width=width, depth=depth))
    dev = Dev(project, {"MARKS": str(marks)}, "--slots", "4")
    dev.start()
    try:
        run_id = _triggered(dev)
        killed, kinds = {"server": 0, "worker": 0, "driver": 0}, ["driver", "worker", "server"]
        for turn in range(kills):
            if not _moved(dev, run_id, (turn + 1) * width * depth // (kills + 2)):
                break
            time.sleep(chance.uniform(0.0, 0.2))
            kind = kinds[turn % 3]
            targets = dev.family()[kind]
            if not targets:
                continue
            os.kill(chance.choice(targets), signal.SIGKILL)
            killed[kind] += 1
            if kind == "server":
                dev.reap()
                dev.start()
        state = _wait(dev, run_id)
        print(f"   killed {killed}, {dev.starts} starts")
        _check(dev, run_id, marks, width * depth, state, killed, report)
    finally:
        dev.stop()


def _triggered(dev: Dev) -> str:
    """The first run, as soon as something is deployed."""
    for _ in range(200):
        try:
            with Client(dev.url) as client:
                return client.trigger_run(RunRequestBody(selection="*", run_key="only")).run_id
        except ArcoError:
            time.sleep(0.2)
    raise RuntimeError("nothing could be triggered")


def _state(dev: Dev, run_id: str) -> str:
    try:
        with Client(dev.url, timeout=5) as client:
            return client.get_run(run_id).state
    except ArcoError:
        return ""


def _moved(dev: Dev, run_id: str, tasks: int) -> bool:
    """Wait until so many tasks have succeeded; False if the run is over before."""
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        try:
            with Client(dev.url, timeout=5) as client:
                run = client.get_run(run_id)
        except ArcoError:
            time.sleep(0.1)
            continue
        if run.state not in ("RUNNING", "PENDING"):
            return False
        if run.succeeded_count >= tasks and run.running_count:
            return True
        time.sleep(0.05)
    return True


def _wait(dev: Dev, run_id: str) -> str:
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        if dev.ended():
            dev.reap()
            dev.start()
        state = _state(dev, run_id)
        if state not in ("", "RUNNING", "PENDING"):
            return state
        time.sleep(0.5)
    return _state(dev, run_id)


def _lines(marks: Path) -> Iterator[tuple[str, str, float]]:
    for path in sorted(marks.iterdir()):
        for line in path.read_text().splitlines():
            what, moment, _ = line.split()
            yield path.name, what, float(moment)


def _check(dev: Dev, run_id: str, marks: Path, tasks: int, state: str, killed: dict[str, int], report: Report) -> None:
    report.check("processes of every kind were killed", all(killed.values()), str(killed))
    report.check("the run succeeded", state == "SUCCEEDED", state)
    with Client(dev.url) as client:
        found = list(client.list_run_tasks(run_id, limit=1000))
        detail = client.get_run(run_id)
        repeated = [task for task in found if task.attempt > 1]
        ended = {task.task_key.partition(".")[2]: task.ended_at for task in found}
    begun: dict[str, list[float]] = {}
    for name, what, moment in _lines(marks):
        if what == "begin":
            begun.setdefault(name, []).append(moment)
    report.check("every task succeeded", len(found) == tasks and all(task.state == "SUCCEEDED" for task in found))
    report.check("counts are right", detail.succeeded_count == tasks)
    report.check("every task really ran", len(begun) == tasks, f"{len(begun)} of {tasks}")
    late = [name for name, moments in begun.items() if moments[-1] > _seconds(ended[name])]
    report.check("no task began after its success was in the log", not late, ", ".join(late[:5]))
    report.check("what was lost ran again", bool(repeated), f"{len(repeated)} tasks needed another attempt")


def _seconds(text: str | None) -> float:
    return datetime.fromisoformat(text or "9999-01-01T00:00:00+00:00").timestamp()

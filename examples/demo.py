"""`make demo`: a shop's pipeline on Spark, deployed, backfilled for a quarter, put right, queried and explained.

    make demo                  in .work/demo
    make demo FOLDER=shop      in another folder
    make demo FRESH=1          from nothing, although it is there already

The folder stays, and a second time there is nothing to do in it, because nothing changed. The pipeline is what
`arco init --example` writes. Every line that begins with `$` is a command as anybody may type it; what follows is what
it said.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from arco.spark import missing_for_spark

FOLDER = Path(__file__).parents[1] / ".work" / "demo"
DONE = ".arco-demo"
"""A file that says that the demo was carried out in its folder to the end."""
QUARTER = "--from 2026-07-01 --to 2026-09-30"
DEV = "arco dev --slots 1"
# One Spark on a small machine: little memory, little to shuffle, no pages; compiled quickly rather than well, because
# it does not run for long.
SMALL = (
    "spark.driver.memory=1g",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions=2",
    "spark.ui.enabled=false",
)
START_SECONDS = 60
END_SECONDS = 60
NO_SPARK = 2
NOT_ALL = 8
"""How `arco backfill` ends if not all that was asked for could be made."""
PROGRESS = re.compile(r"  [\w.]+: \d+ of \d+ succeeded, .*running\n")

STEPS: Sequence[tuple[str, str]] = (
    (
        "Make the quarter: 92 days and 12 weeks of 8 assets. Checks look at every day before others may use it.",
        f"arco backfill '*' {QUARTER} --watch",
    ),
    ("Two days look wrong. They were set aside, and nothing was made of them.", "arco explain run last"),
    (
        "One of them in detail: amounts are far too high. The till of Torino sent cents.",
        "arco quarantine show shop.events -p date=2026-08-20",
    ),
    ("It sends the day again.", "arco run shop.raw_events -p date=2026-08-20 --force --watch"),
    (
        "The other one was the summer sale, and is right. Somebody says so, and it is in the audit.",
        "arco quarantine release shop.events -p date=2026-08-15 --reason 'the summer sale' --yes",
    ),
    (
        "The quarter once more: what was missing is made, and nothing else.",
        f"arco backfill '*' {QUARTER} --watch",
    ),
    (
        "And once more: there is nothing to do, because nothing changed.",
        f"arco backfill '*' {QUARTER} --watch",
    ),
    (
        "What came of it.",
        'arco query "select category, sum(orders)::int as orders, round(sum(revenue)) as revenue from '
        'shop.weekly_report group by category order by revenue desc"',
    ),
    ("Where does the revenue in the report come from?", "arco lineage show shop.weekly_report --column revenue"),
    ("Of how many columns is that known?", "arco lineage coverage"),
)

AGAIN: Sequence[tuple[str, str]] = (
    (
        "The demo was carried out here before. Nothing changed since, so there is nothing to do.",
        f"arco backfill '*' {QUARTER} --watch",
    ),
)

NEXT = """\
Next:
  {enter}
  pipeline.py         the eight assets, their checks, and what follows from them
  arco plan '*'       what a run would do and why, and how days are made together
  arco runs list      all of it, run by run; everything is in SQL too: arco query "select * from system.runs"
  arco audit          who decided what
And docs/servo.md says how it works."""


def main() -> int:
    parser = argparse.ArgumentParser(description="A shop's pipeline on Spark, from nothing to a report.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to do it; it stays")
    parser.add_argument("--fresh", action="store_true", help="begin from nothing, although it was done there before")
    given = parser.parse_args()
    folder: Path = given.folder.absolute()
    trouble = missing_for_spark()
    if trouble is not None:
        print(f"The demo runs on Spark: {trouble}.", file=sys.stderr)
        return NO_SPARK
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what it started, as Ctrl-C does
    begin = time.perf_counter()
    is_done = (folder / DONE).exists()
    # One that was cut off begins anew; a folder that somebody named may have other things in it.
    if (is_done and given.fresh) or (not is_done and folder == FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        code = Demo(folder).carry_out(again=is_done and not given.fresh)
    except KeyboardInterrupt:
        return 130
    if code == 0:
        (folder / DONE).touch()
        print(f"\nThat took {time.perf_counter() - begin:.0f} seconds.\n\n{NEXT.format(enter=_enter(folder))}")
    return code


def _enter(folder: Path) -> str:
    """How to get where the demo is, with `arco` at hand, as somebody here would type it."""
    activate = Path(sys.executable).parent / "activate"
    steps = [f". {_short(activate)}"] * activate.exists() + [f"cd {_short(folder)}"]
    return " && ".join(steps)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


class Demo:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
        if not sys.stdout.isatty():
            self._environment.setdefault("COLUMNS", "110")

    def carry_out(self, *, again: bool) -> int:
        if again:
            with self._serving("A server and a worker.", "\nServing "):
                return self._steps(AGAIN, 0)
        code = self._run("A folder with an example, and a workspace in it.", "arco init --example")
        if code:
            return code
        with self._serving("A server, a worker, and the pipeline deployed.", "\nDeployed "):
            return self._steps(STEPS, NOT_ALL)

    def _steps(self, steps: Sequence[tuple[str, str]], first: int) -> int:
        """Carry them out; the first one ends with the code `first`, the others with 0."""
        for number, (why, line) in enumerate(steps):
            code = self._run(why, line)
            if code != (0 if number else first):
                print(f"this ended with {code}", file=sys.stderr)
                return code or NOT_ALL
        return 0

    def _run(self, why: str, line: str) -> int:
        _tell(why, line)
        if not sys.stdout.isatty():
            return self._without_progress(line)
        return subprocess.run(_command(line), cwd=self._folder, env=self._environment, check=False).returncode

    def _without_progress(self, line: str) -> int:
        """Run a command and pass on what it says, but for lines that only tell how far it is."""
        with subprocess.Popen(
            _command(line),
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # in the order in which it is said
            text=True,
        ) as process:
            assert process.stdout is not None
            for said in process.stdout:
                if PROGRESS.fullmatch(said) is None:
                    print(said, end="", flush=True)
            return process.wait()

    @contextmanager
    def _serving(self, why: str, ready: str) -> Iterator[None]:
        """A server and a worker with a warm Spark while the block runs, which begins when it has said `ready`."""
        _tell(why, f"{DEV} &")
        conf = [part for pair in SMALL for part in ("--spark-conf", pair)]
        output = self._folder / ".arco-dev.log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [*_command(DEV), *conf, "--listen", "127.0.0.1:0"],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                print(_until_said(ready, process, output), end="", flush=True)
                yield
            finally:
                _end(process)


def _until_said(ready: str, process: "subprocess.Popen[bytes]", output: Path) -> str:
    """What `arco dev` says until it is ready."""
    for _ in range(START_SECONDS * 5):
        said = output.read_text(encoding="utf-8")
        if ready in f"\n{said}":
            return said
        if process.poll() is not None:
            break
        time.sleep(0.2)
    sys.exit(f"arco dev did not start:\n{output.read_text(encoding='utf-8')}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _command(line: str) -> list[str]:
    return [sys.executable, "-m", "arco.cli", *shlex.split(line)[1:]]


def _tell(why: str, line: str) -> None:
    shown = f"\x1b[1m$ {line}\x1b[0m" if sys.stdout.isatty() else f"$ {line}"
    print(f"\n# {why}\n{shown}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.prove [--quick] [--only NAME]`: the proofs that take long or need real processes and a real disk.

In order: kill test, kill test of a real `arco dev`, a backfill on Spark that is killed half-way, simulation with crash
sweep and mutants, a simulated year, Iceberg's REST Compatibility Kit, writers of Iceberg tables whose server is killed,
the restore drill, faults of the machine, tests marked `prove`. The last line says how many checks passed and failed;
the exit code is 1 if any failed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.prove.backfill import prove_backfill
from tests.prove.faults import prove_full_disk, prove_read_only, prove_suspended
from tests.prove.iceberg import prove_iceberg_writers
from tests.prove.kill import prove_kills
from tests.prove.report import Report
from tests.prove.restore import prove_restore
from tests.prove.servo import prove_dev_kills
from tests.prove.year import prove_year

SECTIONS = ("kill", "servo", "backfill", "simulation", "year", "rck", "iceberg", "restore", "faults", "pytest")


def simulation(report: Report, quick: bool) -> None:
    engine = ["--world", "engine", "--seeds", "60" if quick else "1000"]
    runs = ["--world", "runs", "--seeds", "100" if quick else "2000"]
    commits = ["--world", "commits", "--seeds", "300" if quick else "5000"]
    for arguments in (engine, runs, commits, ["--sweep"], ["--mutants"]):
        command(report, f"simulation {' '.join(arguments)}", "tests.simulation", *arguments)


def command(report: Report, name: str, module: str, *arguments: str) -> None:
    """Run a module; what it prints is shown, its exit code is the check."""
    with report.section(name):
        done = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
        report.check(name, done.returncode == 0, f"exit code {done.returncode}" if done.returncode else "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the short form that CI runs")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="run only this; may be repeated")
    parser.add_argument("--seconds", type=float, help="how long to kill processes: 300, or 25 with --quick")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the proofs below .work")
    options = parser.parse_args()
    chosen, report = options.only or SECTIONS, Report()
    above = Path(".work")
    above.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="prove-", dir=above)).resolve()
    try:
        if "kill" in chosen:
            seconds = options.seconds or (25.0 if options.quick else 300.0)
            with report.section(f"kill test: 7 processes on local disk for {seconds:.0f} s"):
                prove_kills(_below(folder, "kill"), seconds, report)
        if "servo" in chosen:
            kills = 6 if options.quick else 30
            with report.section(f"kill test of `arco dev`: 200 tasks, {kills} processes killed"):
                prove_dev_kills(_below(folder, "servo"), kills, report)
        if "backfill" in chosen:
            days = 60 if options.quick else 1000
            with report.section(f"backfill on Spark: 3 assets of {days} days, everything killed half-way"):
                prove_backfill(_below(folder, "backfill"), days, report)
        if "simulation" in chosen:
            simulation(report, options.quick)
        if "year" in chosen:
            with report.section(f"a year of a busy workspace{' in short' if options.quick else ''}"):
                prove_year(options.quick, report)
        if "rck" in chosen:
            command(report, "Iceberg's REST Compatibility Kit", "tests.rck")
        if "iceberg" in chosen:
            commits = 5 if options.quick else 100
            for tables in (1,) if options.quick else (1, 8):
                with report.section(f"Iceberg: 8 writers × {commits} commits, tables: {tables}, the server killed"):
                    prove_iceberg_writers(_below(folder, f"iceberg{tables}"), commits, tables, report)
        if "restore" in chosen:
            kills = 2 if options.quick else 12
            with report.section(f"restore drill: backups and restores killed {kills} times each, a writer asleep"):
                prove_restore(_below(folder, "restore"), kills, report)
        if "faults" in chosen:
            with report.section("an owner is suspended for 3 s and another one takes over"):
                prove_suspended(_below(folder, "suspended"), report)
            with report.section("a full disk"):
                prove_full_disk(_below(folder, "full"), report)
            with report.section("a disk that turns read-only"):
                prove_read_only(_below(folder, "read-only"), report)
        if "pytest" in chosen:
            marked = "prove and not minutes" if options.quick else "prove"
            command(report, f"tests marked {marked}", "pytest", "-q", "-m", marked, "tests")
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{report.summary()}")
    return 1 if report.failed else 0


def _below(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


if __name__ == "__main__":
    sys.exit(main())

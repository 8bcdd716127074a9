"""`python -m bench [--quick] [--only NAME] [--parquet] [--profile] [--save FILE]`: a table of ratios within one run.

Nothing is written unless `--save` names a file for the table. The exit code is 1 if a budget does not hold.
"""

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from arco.runtime import AsyncRuntime
from bench._append import measure_append
from bench._catalog import measure_catalog
from bench._clients import measure_clients
from bench._folding import measure_fold, profile_fold
from bench._iceberg import measure_iceberg
from bench._measure import Line, Stopwatch, work_folder
from bench._packs import measure_packs
from bench._parquet import measure_parquet
from bench._rebuild import measure_rebuild
from bench._servo import measure_servo
from bench._spark import measure_checks, measure_spark
from bench._spark_partitions import measure_partitions
from bench._states import measure_merges, measure_states
from bench._visible import measure_visible
from bench._workspaces import measure_workspaces

Measure = Callable[[Path, AsyncRuntime, bool], Awaitable[list[Line]]]


async def _fold(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    return await measure_fold(runtime, quick)


async def _merges(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    return await measure_merges(runtime, quick)


SECTIONS: dict[str, Measure] = {
    "append": measure_append,
    "fold": _fold,
    "states": measure_states,
    "merges": _merges,
    "visible": measure_visible,
    "catalog": measure_catalog,
    "clients": measure_clients,
    "iceberg": measure_iceberg,
    "servo": measure_servo,
    "spark": measure_spark,
    "checks": measure_checks,
    "partitions": measure_partitions,
    "rebuild": measure_rebuild,
    "packs": measure_packs,
    "workspaces": measure_workspaces,
}


async def run(names: list[str], quick: bool, console: Console) -> list[Line]:
    runtime, lines = AsyncRuntime(), []
    with work_folder() as folder:
        for name in names:
            with console.status(f"measuring {name}"), Stopwatch() as watch:
                lines += await SECTIONS[name](folder / name, runtime, quick)
            console.log(f"{name} took {watch.wall:.0f} s")
    return lines


def facts() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, {platform.system()}"


def show(lines: list[Line], console: Console) -> None:
    table = Table(title=f"Arco, measured in one run on {facts()}")
    for title in ("", "measured", "reference", "ratio", "budget", "ok"):
        table.add_column(title, justify="left" if title in ("", "reference") else "right")
    section = ""
    for line in lines:
        if line.section != section:
            section = line.section
            table.add_section()
            table.add_row(f"[bold]{section}[/bold]")
        ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
        verdict = "" if line.ok is None else ("yes" if line.ok else "[bold red]NO[/bold red]")
        table.add_row(f"  {line.name}", line.measured, line.reference, ratio, line.budget, verdict)
    console.print(table)


def show_parquet(rows: int, console: Console) -> None:
    table = Table(title=f"Parquet, {rows:,} materializations; below the first line only what differs from it")
    for title in ("", "bytes", "write ms", "read all ms", "one bucket ms", "one bucket bytes"):
        table.add_column(title, justify="left" if not title else "right")
    for trial in measure_parquet(rows):
        times = [f"{value:.1f}" for value in (trial.write_ms, trial.read_ms, trial.bucket_ms)]
        table.add_row(trial.name, f"{trial.bytes:,}", *times, f"{trial.bucket_bytes:,}")
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, some minutes")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="measure only this; may be repeated")
    parser.add_argument("--parquet", action="store_true", help="compare ways to write Parquet instead")
    parser.add_argument("--profile", action="store_true", help="profile the fold instead")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what is printed to a file too")
    options = parser.parse_args()
    wide = None if sys.stdout.isatty() else 150
    console = Console(record=options.save is not None, width=wide)
    lines: list[Line] = []
    if options.profile:
        console.print(asyncio.run(profile_fold(AsyncRuntime())), highlight=False)
    elif options.parquet:
        show_parquet(20_000 if options.quick else 200_000, console)
    else:
        lines = asyncio.run(run(options.only or list(SECTIONS), options.quick, console))
        show(lines, console)
    if options.save:
        options.save.write_text(console.export_text(), encoding="utf-8")
    return 1 if any(line.ok is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())

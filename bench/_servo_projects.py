"""Projects of assets that do nothing but note the time, as text: for Arco and for Dagster, of the same shape.

- *chain*: each asset needs the one before it. *fan*: one, then many that need it, then one that needs all of those.
- *grid*: layers of daily assets; each one needs two of the layer before, partition by partition.

Arco's assets take what they need as parameters, so that inputs are pinned and lineage is recorded. Dagster's name their
dependencies and return nothing, which is its cheapest form: no IO manager is called. When functions are called stands
in the file that the environment variable `BENCH_MARKS` names.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

__all__ = ["DAYS", "MARKS", "Needs", "chain", "days", "fan", "grid", "read_marks", "write_arco", "write_dagster"]

Needs = Mapping[str, tuple[str, ...]]

FIRST_DAY = date(2024, 1, 1)
DAYS = 365
LAYER = 100

MARKS = "BENCH_MARKS"
_MARK = f"""
import os
import time


def mark():
    with open(os.environ["{MARKS}"], "ab", 0) as file:
        file.write(b"%d\\n" % time.time_ns())
"""


def chain(count: int) -> Needs:
    return {_name(number): (_name(number - 1),) if number else () for number in range(count)}


def fan(count: int) -> Needs:
    """The first of so many, all between, the last."""
    between = tuple(_name(number) for number in range(1, count - 1))
    return {_name(0): (), **{name: (_name(0),) for name in between}, _name(count - 1): between}


def grid(count: int) -> Needs:
    def needs(number: int) -> tuple[str, ...]:
        layer, place = divmod(number, LAYER)
        return tuple(_name((layer - 1) * LAYER + (place + step) % LAYER) for step in (0, 1)) if layer else ()

    return {_name(number): needs(number) for number in range(count)}


def days(count: int) -> list[str]:
    """The first partitions of a grid."""
    return [str(FIRST_DAY + timedelta(number)) for number in range(count)]


def _name(number: int) -> str:
    return f"a{number:04d}"


def _arco_source(needs: Needs, *, daily: bool) -> str:
    partitions = f'partitions=daily("{FIRST_DAY}", end="{FIRST_DAY + timedelta(DAYS)}")' if daily else ""
    parts = ["from arco import asset, daily", _MARK]
    for name, before in needs.items():
        parts.append(f"@asset({partitions})\ndef {name}({', '.join(before)}):\n    mark()\n")
    return "\n\n".join(parts)


def _dagster_source(needs: Needs, *, daily: bool) -> str:
    """A module with the assets, and a job of all of them for each executor."""
    names = "DailyPartitionsDefinition, Definitions, asset, define_asset_job, in_process_executor"
    head = [f"from dagster import {names}", _MARK]
    partitions = ""
    if daily:
        head.append(f'days = DailyPartitionsDefinition("{FIRST_DAY}", end_date="{FIRST_DAY + timedelta(DAYS)}")\n')
        partitions = ", partitions_def=days"
    parts = [
        f"@asset(deps=[{', '.join(before)}]{partitions})\ndef {name}() -> None:\n    mark()\n"
        for name, before in needs.items()
    ]
    tail = (
        f"definitions = Definitions(\n    assets=[{', '.join(needs)}],\n"
        '    jobs=[define_asset_job("default"), define_asset_job("inside", executor_def=in_process_executor)],\n)\n\n\n'
        'def default():\n    return definitions.resolve_job_def("default")\n\n\n'
        'def inside():\n    return definitions.resolve_job_def("inside")\n'
    )
    return "\n\n".join([*head, *parts, tail])


def write_arco(folder: Path, needs: Needs, *, daily: bool = False) -> Path:
    """A project folder."""
    folder.mkdir(parents=True)
    (folder / "project.py").write_text(f'__namespace__ = "bench"\n{_arco_source(needs, daily=daily)}')
    return folder


def write_dagster(folder: Path, needs: Needs, *, daily: bool = False) -> Path:
    """A folder with a module `project`."""
    folder.mkdir(parents=True)
    (folder / "project.py").write_text(_dagster_source(needs, daily=daily))
    return folder


def read_marks(file: Path) -> list[float]:
    """The times in a file of marks, in order and in seconds; the file is gone afterwards."""
    found = sorted(int(line) / 1e9 for line in file.read_text().split())
    file.unlink()
    return found

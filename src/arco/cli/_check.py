"""`arco check`: what is wrong with a project, found without running it. And `read_project`, with which a deploy begins.

A project is loaded in a process of its own, so that nothing it does on import happens to the command.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from arco.assets import AssetDefinition, Problem, Project
from arco.cli._command import Session, command
from arco.cli._options import FolderArgument
from arco.cli._output import fitted, say, visible
from arco.core import Invalid, Unavailable

__all__ = ["ReadProject", "app", "problem_lines", "read_project"]

app = typer.Typer()

KINDS = {"asset": "made by functions", "sql": "by SQL", "external": "external", "observable": "observed"}
LISTED = 100
"""Assets that are listed one by one."""


@dataclass(frozen=True)
class ReadProject:
    """A project as it stands in its folder."""

    folder: Path
    project: Project
    problems: tuple[Problem, ...]
    code: bytes
    """The archive that workers load."""


def read_project(folder: Path) -> ReadProject:
    """Load a project and pack its code, both from the same files."""
    from arco.sdk import code_name, load_project, pack_code

    code = pack_code(folder)
    loaded = load_project(folder)
    if pack_code(folder) != code:
        raise Unavailable(f"files in {folder} changed while they were read; try again")
    return ReadProject(
        folder, msgspec.structs.replace(loaded.project, code_sha256=code_name(code)), loaded.problems, code
    )


@command(app)
async def check(session: Session, folder: FolderArgument = None) -> int | None:
    """Say what is wrong with a project, without running it.

    Its modules are imported to find assets; no asset is made and no store is asked. Exits with 2 if anything is wrong.
    """
    from arco.sdk import load_project

    place = folder or session.project.folder
    loaded = load_project(place)
    assets = loaded.project.assets
    document = {
        "folder": str(place.resolve()),
        "assets": [_asset_document(asset) for asset in assets],
        "problems": [msgspec.to_builtins(problem) for problem in loaded.problems],
    }
    if loaded.problems:
        session.output.emit(document, problem_lines(loaded.problems), say(_count(loaded.problems, assets), "bold red"))
        return Invalid.exit_code
    session.output.emit(document, *_summary(session, place, assets))
    return None


def problem_lines(problems: Sequence[Problem]) -> Text:
    """Each problem where it is, and below it what to do."""
    lines = []
    for problem in problems:
        where = f"{problem.file or 'unknown file'}:{problem.line}: "
        named = f"{problem.asset}: " if problem.asset else ""
        lines.append(Text.assemble(visible(where), (visible(named), "bold"), (visible(problem.message), "red")))
        lines.append(Text(f"  {visible(problem.cure)}"))
    return Text("\n").join(lines)


def _count(problems: Sequence[Problem], assets: Sequence[AssetDefinition]) -> str:
    many = "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
    return f"{many}; {_assets(len(assets))} could be read."


def _assets(count: int) -> str:
    return "1 asset" if count == 1 else f"{count:,} assets"


def _summary(session: Session, folder: Path, assets: Sequence[AssetDefinition]) -> list[RenderableType]:
    if not assets:
        return [say(f"There are no assets in {folder}; decorate a function with @asset from arco.", "yellow")]
    kinds = Counter(str(asset.kind) for asset in assets)
    made = ", ".join(f"{kinds[kind]:,} {word}" for kind, word in KINDS.items() if kind in kinds)
    parted = sum(bool(asset.partitions) for asset in assets)
    checks = sum(len(asset.checks) for asset in assets)
    told = [made, f"{parted:,} with partitions", "1 check" if checks == 1 else f"{checks:,} checks"]
    head = Text.assemble((f"{_assets(len(assets))}, nothing is wrong.", "green"), (f"  {' · '.join(told)}", "dim"))
    rows = [_row(asset) for asset in assets[:LISTED]]
    parts: list[RenderableType] = [
        head,
        fitted(session.output.people, ["asset", "kind", "partitions", "made of", "checks", "defined"], rows),
    ]
    if len(assets) > LISTED:
        parts.append(say(f"... and {len(assets) - LISTED:,} more; --json has all.", "dim"))
    return parts


def _row(asset: AssetDefinition) -> list[object]:
    return [
        asset.key,
        str(asset.kind),
        ", ".join(dimension.name for dimension in asset.partitions) or None,
        ", ".join(dependency.key for dependency in asset.dependencies) or None,
        len(asset.checks),
        f"{asset.file}:{asset.line}",
    ]


def _asset_document(asset: AssetDefinition) -> dict[str, Any]:
    return {
        "key": asset.key,
        "kind": str(asset.kind),
        "partitions": [dimension.name for dimension in asset.partitions],
        "dependencies": [dependency.key for dependency in asset.dependencies],
        "checks": [found.name for found in asset.checks],
        "file": asset.file,
        "line": asset.line,
    }

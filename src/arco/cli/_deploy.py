"""Commands on deployments: make a project the current one, list what was deployed, go back."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from arco.cli._answers import confirm, document_of, gather, list_out, page_size, placed
from arco.cli._check import ReadProject, problem_lines, read_project
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, FolderArgument, LimitOption, YesOption
from arco.cli._output import say, shown_size, shown_time
from arco.client import AsyncClient
from arco.core import Invalid, Refused
from arco.wire import DeployDiff, Deployed, DeploymentInfo, DeployRequest, RollbackRequest

__all__ = ["app", "current_deployment", "deploy_project", "deployments", "diff_lines"]

app = typer.Typer()
deployments = typer.Typer(help="List what was deployed, and go back.", no_args_is_help=True)

LISTED = 50
"""Lines of each kind of change."""

MessageOption = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="What it is about.")]
AllowBreakingOption = Annotated[
    bool, typer.Option("--allow-breaking", help="Deploy declared schemas that readers of the old ones do not survive.")
]


@changes(app)
async def deploy(
    session: Session,
    folder: FolderArgument = None,
    message: MessageOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    allow_breaking: AllowBreakingOption = False,
    yes: YesOption = False,
) -> None:
    """Make a project the current one: what runs from now on.

    It is checked first, compared with what is current, and refused if anything is wrong with it. Before assets are
    removed it asks.

    + added   ~ changed   - removed   -> renamed   ! not changed itself, but made of something that is
    """
    read = read_project(folder or session.project.folder)
    _refuse_problems(session, read)
    async with connect(replace(session, writes=not dry_run)) as client:
        current = await current_deployment(client)
        found = await client.create_deployment(_request(read, current, dry_run=True))
        if current is not None and found.code_version == current.code_version:
            same = f"Nothing to deploy: exactly this is deployed as {current.deployment_id}."
            session.output.emit(document_of(found), say(same))
            return
        if dry_run:
            session.output.emit(document_of(found), *_shown(found), say("Nothing was deployed: a dry run.", "dim"))
            return
        if not session.output.as_json:
            for part in _shown(found):
                session.output.people.print(part)
            session.output.people.print()
        _refuse_breaking(found, allow_breaking)
        if found.diff.removed:
            confirm(session, f"Deploy this, and remove {len(found.diff.removed):,} assets?", yes)
        done = await deploy_project(
            client, read, current, message=message, allow_breaking=allow_breaking, key=session.request_key
        )
    session.output.emit(document_of(done), _done(done, shown_size(len(read.code))))


async def deploy_project(
    client: AsyncClient,
    read: ReadProject,
    current: DeploymentInfo | None,
    *,
    message: str = "",
    allow_breaking: bool = False,
    key: str | None = None,
) -> Deployed:
    """Store the code, then deploy the definitions, if nobody else deployed since `current` was looked up."""
    await client.put_code(read.project.code_sha256, read.code)
    request = _request(read, current, message=message, allow_breaking=allow_breaking)
    return await client.create_deployment(request, key=key)


async def current_deployment(client: AsyncClient) -> DeploymentInfo | None:
    page = await client.list_deployments(limit=1).page()
    return page.items[0] if page.items else None


def _request(
    read: ReadProject,
    current: DeploymentInfo | None,
    *,
    message: str = "",
    allow_breaking: bool = False,
    dry_run: bool = False,
) -> DeployRequest:
    return DeployRequest(
        project=msgspec.to_builtins(read.project),
        message=message,
        allow_breaking=allow_breaking,
        expected_current=current.deployment_id if current is not None else "",
        dry_run=dry_run,
    )


def _refuse_problems(session: Session, read: ReadProject) -> None:
    if not read.project.assets and not read.problems:
        raise Invalid(f"there are no assets in {read.folder}; decorate a function with @asset from arco")
    if not read.problems:
        return
    if not session.output.as_json:
        session.output.aside.print(problem_lines(read.problems), soft_wrap=True)
    many = "is 1 problem" if len(read.problems) == 1 else f"are {len(read.problems):,} problems"
    raise Invalid(
        f"there {many} with the project, so nothing was deployed; correct what is said of each line, "
        "`arco check` looks again",
        problems=[msgspec.to_builtins(problem) for problem in read.problems],
    )


def _refuse_breaking(found: Deployed, allowed: bool) -> None:
    if found.warnings and not allowed:
        raise Refused(
            "declared schemas are not compatible with what readers know, so nothing was deployed: "
            f"{'; '.join(found.warnings)}; keep the columns, or --allow-breaking",
            breaking=found.warnings,
        )


def _shown(found: Deployed) -> list[RenderableType]:
    warnings = [say(f"breaking: {warning}", "bold yellow") for warning in found.warnings]
    return [diff_lines(found.diff), *warnings]


def diff_lines(diff: DeployDiff) -> Text:
    """What is different, a line for each asset."""
    lines = [
        *_group("+", "green", diff.added),
        *_group("~", "yellow", (f"{change.key}  ({', '.join(change.fields)})" for change in diff.changed)),
        *_group("-", "red", diff.removed),
        *_group("->", "cyan", (renamed.replace(" -> ", " is now ") for renamed in diff.renamed)),
        *_group("!", "magenta", diff.affected),
    ]
    if not lines:
        lines.append(say("  No asset is different; other files of the project are."))
    if diff.unchanged:
        lines.append(say(f"     {diff.unchanged:,} unchanged", "dim"))
    return Text("\n").join(lines)


def _group(sign: str, style: str, texts: Iterable[str]) -> list[Text]:
    found = list(texts)
    lines = [say(f"  {sign:<2} {text}", style) for text in found[:LISTED]]
    if len(found) > LISTED:
        lines.append(say(f"  {sign:<2} ... and {len(found) - LISTED:,} more", style))
    return lines


def _done(done: Deployed, size: str | None = None) -> Text:
    told = [f"code {done.code_version}", *([size] if size else []), f"position {placed(done.position)}"]
    again = ", before, under this request key" if done.replayed else ""
    return Text.assemble((f"Deployed {done.deployment_id}{again}.", "green"), "\n", (f"  {' · '.join(told)}", "dim"))


@asks(deployments, "list")
async def list_deployments(session: Session, as_of: AsOfOption = None, limit: LimitOption = 20) -> None:
    """List what was deployed, newest first."""
    async with connect(session) as client:
        items, more = await gather(client.list_deployments(limit=page_size(limit), as_of=as_of), limit)
    headers = ["deployment", "", "deployed", "by", "assets", "message", "code"]
    list_out(session, "deployments", items, more, headers, _row, "Nothing was deployed yet; `arco deploy` does it.")


def _row(found: DeploymentInfo) -> list[object]:
    what = found.message or None
    if found.rollback_of:
        what = f"back to {found.rollback_of}{f': {found.message}' if found.message else ''}"
    mark = say("current", "green") if found.current else ""
    head = [found.deployment_id, mark, shown_time(found.deployed_at), found.deployed_by]
    return [*head, found.asset_count, what, found.code_version]


@changes(deployments)
async def rollback(
    session: Session,
    deployment_id: Annotated[
        str,
        typer.Argument(metavar="DEPLOYMENT", help="Its id; `arco deployments list` has it.", show_default=False),
    ],
    message: MessageOption = "",
    allow_breaking: AllowBreakingOption = False,
    yes: YesOption = False,
) -> None:
    """Go back: deploy again what a former deployment made current.

    Data that was made since stays.
    """
    confirm(session, f"Deploy again what {deployment_id} made current?", yes)
    request = RollbackRequest(message=message, allow_breaking=allow_breaking)
    async with connect(session) as client:
        done = await client.rollback_deployment(deployment_id, request, key=session.request_key)
    session.output.emit(document_of(done), *_shown(done), _done(done))

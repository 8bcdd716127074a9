"""`arco upgrade`: let this program take over a workspace that an older one made, and the way back.

Nothing in the log changes. What is derived from it is folded anew beside the live state and swapped in by one revision;
the one before stays readable, pinned for a month. From then on older programs only read. The way back is for the older
program: it folds the log its own way, if it knows everything that is in it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import typer
from rich.console import RenderableType

from arco import __version__
from arco.cli._command import Session, command
from arco.cli._connect import FIND_SECONDS
from arco.cli._formats import FORMATS
from arco.cli._open import Reader, cadence_of, definitions, open_base, reading
from arco.cli._output import grid, say
from arco.core import DAY, Corrupt, Invalid, Outdated, Refused
from arco.log import HintFile, is_http
from arco.runtime import OpenLog, Workspace
from arco.state import (
    Definition,
    Layout,
    Manifest,
    PinRevision,
    TableCheck,
    UpgradePlan,
    plan_upgrade,
    verify_chain,
    verify_upgrade,
)
from arco.storage import Role

__all__ = ["app"]

app = typer.Typer()

ACTOR = "upgrade"
KEPT_DAYS = 30


@command(app)
async def upgrade(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check, and show what would be done.")] = False,
    rollback: Annotated[
        bool,
        typer.Option("--rollback", help="Take over from a newer program: fold the log the way of this one."),
    ] = False,
) -> int | None:
    """Bring the state of a workspace to the folds of this program, after checking it and before comparing it.

    Stop its servers first. The log is not changed, and the revision before stays readable for 30 days. If this program
    is the older one, --rollback goes back to it, unless the log holds what it does not know.
    """
    async with reading(session.project, session.runtime) as reader:
        plans = await _checked(session, reader)
        for plan in plans.values():
            _refuse(plan, rollback=rollback)
        due = [log for log, plan in plans.items() if plan.newer or (plan.is_refold and not rollback)]
        serving = await _serving(reader)
    if due and serving and not dry_run:
        raise Refused(
            f"the server at {serving} answers; stop it first: a program with other folds stops writing as soon as it "
            "sees the new revision"
        )
    if dry_run or not due:
        return _report(session, plans, due, serving, {})
    async with _opened(session) as workspace:
        checks = {log: await _carry_out(session, workspace, plans[log]) for log in due}
    return _report(session, plans, due, serving, checks, done=True)


# Before


async def _checked(session: Session, reader: Reader) -> dict[str, UpgradePlan]:
    """The plan of each log. Every segment and the newest revision must be readable."""
    plans = {}
    for definition in definitions(None):
        log = definition.log
        head = (await reader.revisions(log).head()).manifest
        with session.output.progress(f"checking {log}") as progress:
            await verify_chain(reader.ledger(log), progress, known=head.link.number)
        plans[log] = plan_upgrade(definition, head)
    return plans


def _refuse(plan: UpgradePlan, *, rollback: bool) -> None:
    if plan.newer and not rollback:
        names = ", ".join(f"{name} {plan.before[name]}" for name in plan.newer)
        mine = ", ".join(f"{name} {plan.after.get(name, 0)}" for name in plan.newer)
        raise Outdated(
            f"revision {plan.revision} of {plan.log} was folded by a newer program ({names}; this one has {mine}), so "
            "this would be a downgrade. Use the newer program, or go back to this one with `arco upgrade --rollback`"
        )
    if plan.unknown:
        raise Outdated(
            f"the log {plan.log} holds {', '.join(plan.unknown)}, which this program does not know and would lose; use "
            "the program that wrote it, or a newer one"
        )
    if rollback and plan.is_refold and not plan.newer:
        raise Invalid(f"the state of {plan.log} is older than this program, so there is no way back to it; upgrade it")


async def _serving(reader: Reader) -> str:
    """Where a server of the workspace answers; empty if none does."""
    for definition in definitions(None):
        layout = Layout(reader.place(definition.log))
        for path in (layout.ledger_hint, layout.manifests_hint):
            address = (await HintFile(reader.handle(), path, reader.runtime).read()).address
            if is_http(address) and await _answers(address):
                return address
    return ""


async def _answers(address: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=FIND_SECONDS, trust_env=False) as http:
            return (await http.get(f"{address}/healthz")).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


# Doing it


@asynccontextmanager
async def _opened(session: Session) -> AsyncIterator[Workspace]:
    """The workspace with all roles. No loop runs: the command says what happens."""
    project, runtime = session.project, session.runtime
    async with open_base(project, runtime) as base:
        opened = await Workspace.open(
            base, project.scope, runtime, definitions=definitions(None), compact=False, cadence=cadence_of(project)
        )
        async with opened:
            yield opened


async def _carry_out(session: Session, workspace: Workspace, plan: UpgradePlan) -> list[TableCheck]:
    opened = workspace.logs[plan.log]
    before = opened.compactor.head.manifest
    with session.output.progress(f"folding {plan.log} anew") as progress:
        if plan.newer:
            await opened.compactor.roll_back(progress)
        else:
            await opened.compactor.rebuild(progress)
    if before.number and not plan.newer:
        await _pin(workspace, opened, before)
    after = opened.compactor.head.manifest
    with session.output.progress(f"comparing {plan.log}") as progress:
        return await verify_upgrade(
            _definition(plan.log),
            workspace.handle(Role.READER),
            opened.follower.ledger,
            before,
            after,
            progress,
        )


async def _pin(workspace: Workspace, opened: OpenLog, before: Manifest) -> None:
    """Keep the revision before: it shows what the older program made of the log."""
    log = opened.place.log
    pin_id = f"upgrade-{log}-{before.number}"
    expires = workspace.runtime.now() + KEPT_DAYS * DAY
    pin = PinRevision(pin_id, before.number, f"before the upgrade to arco {__version__}", expires)
    await workspace.decide(log, pin, actor=ACTOR)
    await opened.compactor.publish()


def _definition(log: str) -> Definition:
    [found] = definitions(log)
    return found


# Telling


def _report(
    session: Session,
    plans: dict[str, UpgradePlan],
    due: list[str],
    serving: str,
    checks: dict[str, list[TableCheck]],
    *,
    done: bool = False,
) -> int | None:
    wrong = [f"{log}.{found.table}" for log, checked in checks.items() for found in checked if not found.equal]
    rows = [
        [log, domain, plan.before.get(domain) or None, plan.after.get(domain), _what(plan, domain, log in due)]
        for log, plan in plans.items()
        for domain in sorted({*plan.before, *plan.after})
    ]
    document: dict[str, Any] = {
        "version": __version__,
        "formats": {found.name: found.newest for found in FORMATS if found.newest},
        "done": done,
        "needed": bool(due),
        "serving": serving or None,
        "logs": [
            {
                "log": log,
                "revision": plan.revision,
                "refold": log in due,
                "folds_before": dict(plan.before),
                "folds_after": dict(plan.after),
                "learned": list(plan.learned),
                "tables": [
                    {"table": found.table, "rows": found.rows, "changed": found.changed, "equal": found.equal}
                    for found in checks.get(log, [])
                ],
            }
            for log, plan in plans.items()
        ],
        "different": wrong,
    }
    table = grid(["log", "domain", "before", "this program", ""], rows)
    is_back = any(plans[log].newer for log in due)
    session.output.emit(document, table, _verdict(due, wrong, serving, done=done, is_back=is_back))
    return Corrupt.exit_code if wrong else None


def _what(plan: UpgradePlan, domain: str, is_due: bool) -> str:
    if domain in plan.newer:
        return "folded back"
    if domain in plan.rising:
        return "folded anew"
    return "checked to be the same" if is_due else "stays"


def _verdict(due: list[str], wrong: list[str], serving: str, *, done: bool, is_back: bool) -> RenderableType:
    if wrong:
        return say(f"Not what the log says: {', '.join(wrong)}. Run `arco rebuild --verify`, and tell us.", "bold red")
    if not due:
        return say("Nothing to do: the state is of this program's folds.", "green")
    if done:
        after = "Older programs only read from now on."
        if is_back:
            after = "This program writes again; newer ones must stay stopped."
        return say(f"Done: {', '.join(due)} folded anew and compared. {after}", "green")
    server = f" Stop the server at {serving} first." if serving else ""
    return say(f"Would fold {', '.join(due)} anew, in one revision each.{server}", "yellow")

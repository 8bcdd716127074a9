"""`arco upgrade`: let this program take over a workspace that an older one made, and the way back.

Nothing in the log changes. What is derived from it is folded anew beside the live state and swapped in by one revision;
the one before stays readable, pinned for a month. From then on older programs only read. The way back is for the older
program: it folds the log its own way, if it knows everything that is in it.

As long as the revision before is pinned, each run compares with it: that is how an upgrade ends which was interrupted
after the swap, or which a server did by itself, and why one that came out wrong is told of until it is cured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import typer
from rich.console import RenderableType

from arco import __version__
from arco.cli._command import Session, command
from arco.cli._connect import FIND_SECONDS
from arco.cli._formats import FORMATS
from arco.cli._open import Reader, definitions, reading, writing
from arco.cli._output import grid, say
from arco.core import Corrupt, Invalid, Outdated, Refused
from arco.log import HintFile, is_http
from arco.runtime import Workspace
from arco.state import (
    Definition,
    Layout,
    Manifest,
    TableCheck,
    UpgradePlan,
    plan_upgrade,
    refold_pins,
    verify_chain,
    verify_upgrade,
)

__all__ = ["app"]

app = typer.Typer()


@dataclass(frozen=True)
class Comparison:
    """What became of a log when other folds took over."""

    revision: int
    """The one before."""
    is_back: bool
    """Whether newer folds made that."""
    tables: list[TableCheck]

    @property
    def different(self) -> list[str]:
        return [found.table for found in self.tables if not found.equal]


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
        heads = await _checked(session, reader)
        plans = {log: plan_upgrade(_definition(log), head) for log, head in heads.items()}
        for plan in plans.values():
            _refuse(plan, rollback=rollback)
        due = [log for log, plan in plans.items() if plan.newer or (plan.is_refold and not rollback)]
        serving = await _serving(reader)
        if dry_run:
            pinned = {log: _before(head) for log, head in heads.items() if refold_pins(head)}
            return _report(session, plans, due, {}, _would(due, pinned, serving), serving)
        if due and serving:
            raise Refused(
                f"the server at {serving} answers; stop it first: a program with other folds stops writing as soon as "
                "it sees the new revision"
            )
        if due:
            async with writing(session.project, session.runtime, None) as workspace:
                for log in due:
                    heads[log] = await _fold_anew(session, workspace, plans[log])
        compared = {log: await _compare(session, reader, head) for log, head in heads.items() if refold_pins(head)}
    return _report(session, plans, due, compared, _did(plans, due, compared), serving)


# Before


async def _checked(session: Session, reader: Reader) -> dict[str, Manifest]:
    """The newest revision of each log. It must be readable, and so must every segment."""
    heads = {}
    for definition in definitions(None):
        log = definition.log
        head = (await reader.revisions(log).head()).manifest
        with session.output.progress(f"checking {log}") as progress:
            await verify_chain(reader.ledger(log), progress, known=head.link.number)
        heads[log] = head
    return heads


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


async def _fold_anew(session: Session, workspace: Workspace, plan: UpgradePlan) -> Manifest:
    """Swap in what this program makes of a log. The revision that does so pins the one before."""
    compactor = workspace.logs[plan.log].compactor
    with session.output.progress(f"folding {plan.log} anew") as progress:
        return await (compactor.roll_back(progress) if plan.newer else compactor.rebuild(progress))


async def _compare(session: Session, reader: Reader, head: Manifest) -> Comparison:
    """A revision of this program's folds with a fold in memory, and with the one that stood before them."""
    before = await reader.revisions(head.log).at_revision(head, _before(head))
    with session.output.progress(f"comparing {head.log}") as progress:
        ledger = reader.ledger(head.log, head.packs)
        tables = await verify_upgrade(_definition(head.log), reader.handle(), ledger, before, head, progress)
    is_back = any(version > head.folds.get(domain, 0) for domain, version in before.folds.items())
    return Comparison(before.number, is_back, tables)


def _before(head: Manifest) -> int:
    """The revision that stood before the folds of this one took over."""
    return refold_pins(head)[-1].revision


def _definition(log: str) -> Definition:
    [found] = definitions(log)
    return found


# Telling


def _report(
    session: Session,
    plans: Mapping[str, UpgradePlan],
    due: list[str],
    compared: Mapping[str, Comparison],
    verdict: RenderableType,
    serving: str,
) -> int | None:
    wrong = [f"{log}.{table}" for log, found in compared.items() for table in found.different]
    rows = [
        [log, domain, plan.before.get(domain) or None, plan.after.get(domain), _what(plan, domain, log in due)]
        for log, plan in plans.items()
        for domain in sorted({*plan.before, *plan.after})
    ]
    document: dict[str, Any] = {
        "version": __version__,
        "formats": {found.name: found.newest for found in FORMATS if found.newest},
        "done": bool(due) and bool(compared),  # a dry run compares nothing, and what was folded anew is compared
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
                "compared_with": compared[log].revision if log in compared else None,
                "tables": [
                    {"table": found.table, "rows": found.rows, "changed": found.changed, "equal": found.equal}
                    for found in (compared[log].tables if log in compared else ())
                ],
            }
            for log, plan in plans.items()
        ],
        "different": wrong,
    }
    table = grid(["log", "domain", "before", "this program", ""], rows)
    session.output.emit(document, table, verdict)
    return Corrupt.exit_code if wrong else None


def _what(plan: UpgradePlan, domain: str, is_due: bool) -> str:
    if domain in plan.newer:
        return "folded back"
    if domain in plan.rising:
        return "folded anew"
    return "checked to be the same" if is_due else "stays"


def _would(due: list[str], pinned: Mapping[str, int], serving: str) -> RenderableType:
    if due:
        server = f" Stop the server at {serving} first." if serving else ""
        return say(f"Would fold {', '.join(due)} anew, in one revision each.{server}", "yellow")
    again = f" Would compare again: {_listed(pinned)}." if pinned else ""
    return say(f"Nothing to fold: the state is of this program's folds.{again}", "green")


def _did(plans: Mapping[str, UpgradePlan], due: list[str], compared: Mapping[str, Comparison]) -> RenderableType:
    wrong = {log: found for log, found in compared.items() if found.different}
    if wrong:
        return _went_wrong(wrong)
    if due:
        after = "Older programs only read from now on."
        if any(plans[log].newer for log in due):
            after = "This program writes again; newer ones must stay stopped."
        return say(f"Done: {', '.join(due)} folded anew and compared. {after}", "green")
    again = f" Compared again: {_listed({log: found.revision for log, found in compared.items()})}." if compared else ""
    return say(f"Nothing to fold: the state is of this program's folds.{again}", "green")


def _went_wrong(wrong: Mapping[str, Comparison]) -> RenderableType:
    """What to do about a state that came out wrong. This program cannot bring back the one before: it has other folds,
    and to publish that revision once more would hide what was written since."""
    tables = ", ".join(f"{log}.{table}" for log, found in wrong.items() for table in found.different)
    is_back = any(found.is_back for found in wrong.values())
    cure = "`arco upgrade` of the newer program" if is_back else "`arco upgrade --rollback` of the program before"
    return say(
        f"Not what the log or the revision before says: {tables}. The log is whole, but this state is live. Start "
        f"nothing of this program, and run {cure}: it folds the log its own way. `arco state show TABLE --revision N` "
        f"reads what stood before ({_listed({log: found.revision for log, found in wrong.items()})}). And tell us.",
        "bold red",
    )


def _listed(revisions: Mapping[str, int]) -> str:
    return ", ".join(f"{log} revision {revision}" for log, revision in revisions.items())

"""`arco erase`: take something out of the log for good, and what `arco gc` says of former incarnations."""

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from arco.backup import Backup, Buried, Erased, ErasurePlan, Selection, erase, plan_erasure
from arco.cli._answers import confirm
from arco.cli._backup import local_user, open_vault
from arco.cli._command import Session, command
from arco.cli._open import open_base
from arco.cli._options import YesOption
from arco.cli._output import grid, say, shown_position, shown_size, shown_time
from arco.core import ArcoError, Invalid, Refused, format_time
from arco.log import number_of, parse_position
from arco.storage import Role

__all__ = ["app", "buried_document", "buried_text"]

LISTED = 20
MAX_REASON = 500

app = typer.Typer()


@command(app, "erase")
async def erase_events(
    session: Session,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            metavar="LOG=POSITION",
            help="Erase this event whole (activity=12:0), or all from one to another (activity=12:0..14:3).",
        ),
    ] = None,
    about: Annotated[
        list[str] | None,
        typer.Option(
            "--about",
            metavar="ID",
            help="Erase all that is said of a table, asset, version or run, and its data. Repeatable.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="Erase this text wherever it stands in an event. Repeatable."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why. It stays in the log.", show_default=False)] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be erased.")] = False,
    yes: YesOption = False,
) -> None:
    """Take something out of the log for good: the workspace goes on without it in a new incarnation.

    The old incarnation is sealed first and deleted in the end; servers go on with the new one. If it is interrupted,
    run it again: it goes on where it was. Backups are left alone, and those that still hold it are named.
    """
    selection = Selection(_positions(event or ()), tuple(about or ()), tuple(text or ()))
    _check_reason(reason, selection)
    scope, runtime = session.project.scope, session.runtime
    async with open_base(session.project, runtime) as base:
        with session.output.steps() as progress:
            plan = await plan_erasure(base, scope, runtime, selection, reason, progress=progress)
        holding = await _holding(session, plan)
        if dry_run:
            parts = [*_plan_text(plan), *_backups_text(holding)]
            session.output.emit({**_planned(plan), "dry_run": True, "backups": holding}, *parts)
            return
        if not yes and not sys.stdin.isatty():
            raise Refused("what is erased does not come back; look at it with --dry-run, then say --yes")
        confirm(session, f"Erase {_counts(plan)} of {scope.root} for good? --dry-run shows what.", yes)
        with session.output.steps() as progress:
            done = await erase(base, scope, runtime, plan, actor=f"local:{local_user()}", progress=progress)
        try:
            again = await _holding(session, plan, done.incarnation.id)  # one may have been finished meanwhile
            holding = None if holding is None else sorted({*holding, *(again or ())})
        except ArcoError as error:  # it is erased, whatever is wrong with the vault now
            session.output.warn(
                "backups could not be looked through again, so one that was finished meanwhile may hold it too: "
                f"{error.message}; `arco backup list` shows when each was taken"
            )
    document = {**_planned(plan), "dry_run": False, "incarnation": done.incarnation.id, "deleted": done.deleted}
    document |= {"incarnations": [buried_document(one) for one in done.buried], "backups": holding}
    session.output.emit(document, *_done_text(done), *_backups_text(holding))


def _positions(given: Iterable[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for one in given:
        log, equals, where = one.partition("=")
        if not equals:
            raise Invalid(f"{one[:80]!r} names no event; write the log and the position, such as activity=12:0")
        first, _, last = where.partition("..")
        ends = parse_position(first), parse_position(last or first)
        if ends[1] < ends[0]:
            raise Invalid(f"{last} lies before {first}; swap them")
        found[log] = (*found.get(log, ()), ends)
    return found


def _check_reason(reason: str, selection: Selection) -> None:
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Invalid(f"say why with --reason, in at most {MAX_REASON} characters; it stays in the log")
    if any(text in reason for text in selection.texts):
        raise Invalid("the reason has the text in it that is to go; the reason stays, so say it otherwise")


async def _holding(session: Session, plan: ErasurePlan, opened: str = "") -> list[int] | None:
    """Backups that hold something of what goes; None if no setting says where backups are. One that cannot be read may
    hold it too. Those of the incarnation that was opened without it do not."""
    if not session.project.loaded.settings.backup_to:
        return None
    async with open_vault(session, None, None, Role.READER) as vault:
        survey = await vault.survey()
    holding = {one.number for one in survey.backups if one.incarnation != opened and _holds(one, plan)}
    return sorted(holding | survey.unreadable.keys() - survey.missing)


def _holds(backup: Backup, plan: ErasurePlan) -> bool:
    if plan.is_filled or (plan.objects and backup.data):
        return True
    ends = {log: copy.link.number for log, copy in backup.logs.items()}
    return any(ends.get(log, 0) >= number_of(first) for log, first in plan.first.items())


# What it says


def _count(by_log: dict[str, dict[str, int]]) -> int:
    return sum(count for types in by_log.values() for count in types.values())


def _counts(plan: ErasurePlan) -> str:
    whole, edited = _count(plan.whole), _count(plan.edited)
    return f"{whole:,} event{'s' * (whole != 1)} and parts of {edited:,} other{'s' * (edited != 1)}"


def _planned(plan: ErasurePlan) -> dict[str, Any]:
    return {
        "previous": plan.old.id,
        "sealed": plan.is_sealed,
        "segments": plan.segments,
        "events": plan.whole,
        "edited": plan.edited,
        "first": {log: str(position) for log, position in plan.first.items()},
        "rewritten_blobs": plan.blobs,
        "objects": list(plan.objects),
        "tables": list(plan.tables),
    }


def _plan_text(plan: ErasurePlan) -> list[RenderableType]:
    rows: list[list[object]] = []
    for log in plan.segments:
        types = {**plan.whole.get(log, {}), **plan.edited.get(log, {})}
        for kind in sorted(types):
            whole, edited = plan.whole[log].get(kind, 0), plan.edited[log].get(kind, 0)
            rows.append([log, kind, whole, edited])
    parts: list[RenderableType] = [say(f"Would erase {_counts(plan)}.", "bold")]
    if rows:
        parts.append(grid(["log", "event", "whole", "a part"], rows))
    for log, position in plan.first.items():
        parts.append(say(f"The first of {log} is at {shown_position(position)}."))
    segments = sum(plan.segments.values())
    parts.append(say(f"Would seal {plan.old.id}, and write {segments:,} segments anew."))
    if plan.objects:
        parts.append(grid(["would delete"], [[path] for path in plan.objects[:LISTED]]))
        if len(plan.objects) > LISTED:
            parts.append(say(f"and {len(plan.objects) - LISTED:,} more; --json lists all", "dim"))
    if plan.blobs:
        parts.append(say(f"Would write {plan.blobs:,} blobs anew."))
    if plan.selection.texts:
        parts.append(
            say("Not looked into: files of data, what tasks printed, archives of code, Iceberg metadata.", "dim")
        )
    return parts


def _done_text(done: Erased) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if done.plan.is_filled:
        parts.append(say(f"An erasure that was interrupted is finished: {done.incarnation.id} is open.", "green"))
        parts.append(say("If that was another one, run this again."))
    elif not done.plan.is_empty:
        parts.append(say(f"Erased {_counts(done.plan)}. The workspace goes on as {done.incarnation.id}.", "green"))
        parts.append(say(f"{done.deleted:,} objects that only they named are deleted.", ""))
    else:
        parts.append(say("It was erased before."))
    return [*parts, *buried_text(done.buried, "deleted")]


def buried_document(one: Buried) -> dict[str, Any]:
    return {
        "incarnation": one.incarnation,
        "objects": [info.path for info in one.objects],
        "bytes": one.bytes,
        "kept": one.kept,
        "waiting": one.waiting,
        "due": format_time(one.due) if one.waiting else None,
    }


def buried_text(buried: list[Buried], deleted: str) -> list[RenderableType]:
    """What went of former incarnations; nothing if nothing was left of them."""
    told = [one for one in buried if one.objects or one.waiting]
    if not told:
        return []
    rows = [
        [
            one.incarnation,
            len(one.objects),
            shown_size(one.bytes),
            one.kept,
            one.waiting,
            shown_time(format_time(one.due)) if one.waiting else None,
        ]
        for one in told
    ]
    parts: list[RenderableType] = [
        grid(["former incarnation", deleted, "size", "stays", "too young", "until"], rows),
    ]
    if any(one.waiting for one in told):
        parts.append(say("What is too young still holds the old log; `arco gc` deletes it then.", "yellow"))
    return parts


def _backups_text(holding: list[int] | None) -> list[RenderableType]:
    if holding is None:
        return [
            say(
                "Backups were not looked at, since ARCO_BACKUP_TO is not set. If there are any, they hold it.", "yellow"
            )
        ]
    if not holding:
        return []
    numbers = ", ".join(str(number) for number in holding)
    last = holding[-1]
    return [
        say(
            f"Backups still hold it: {numbers}. Take another one, then let them go: "
            f"arco backup && arco backup prune --before {last + 1}",
            "yellow",
        )
    ]

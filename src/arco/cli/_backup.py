"""`arco backup` and `arco restore`: copies of a workspace in another store, and going on from one of them."""

import getpass
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from typer.core import TyperGroup

from arco.backup import (
    Backup,
    Moment,
    Plan,
    Restored,
    Survey,
    Vault,
    compare_objects,
    compare_restored,
    plan_restore,
    prune,
    restore,
    shown_numbers,
    take_backup,
    verify_backup,
)
from arco.cli._command import Session, command, parse_options
from arco.cli._connect import open_peers
from arco.cli._doctor import report
from arco.cli._open import cadence_of, open_base
from arco.cli._output import grid, say, shown_size
from arco.core import DAY, Corrupt, Invalid, StoreRefused, format_time, parse_time
from arco.iceberg import Locations, open_locations, parse_location
from arco.log import number_of, parse_position
from arco.runtime import DEFINITIONS, Workspace, read_incarnation, read_incarnations
from arco.state import Finding, Level
from arco.storage import RequestCounts, Role, RoleStore, Store, open_store

__all__ = ["app", "backup_url", "local_user", "open_vault", "restoring"]

NUMBER = typer.Argument(metavar="NUMBER", help="Which backup; the newest one if left out.", show_default=False)


class _Group(TyperGroup):
    """`arco backup` alone takes one: whatever is not the name of a command belongs to `create`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["create", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group, help="Copies of the workspace in another store: take one (`arco backup`), list, check, let old ones go."
)
restoring = typer.Typer()

ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="URL", help="The store that backups go to; ARCO_BACKUP_TO.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="URL", help="The store that backups are in; ARCO_BACKUP_TO.", show_default=False),
]
BackupOptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--backup-option",
        metavar="NAME=VALUE",
        help="Open that store with this option, such as region=eu-west-1. Repeatable.",
    ),
]


@command(app, "create")
async def create(
    session: Session,
    to: ToOption = None,
    backup_options: BackupOptionsOption = None,
    data: Annotated[
        bool | None,
        typer.Option(
            "--data/--no-data", help="Copy the files of assets and of Iceberg tables too.", show_default="--no-data"
        ),
    ] = None,
) -> None:
    """Copy what is new to another store. The workspace may be written to meanwhile.

    A backup has the log, the state, blobs, code, and the pointers and metadata of Iceberg tables; their data files only
    with --data. If it is interrupted, run it again: it goes on where it was.
    """
    settings = session.project.loaded.settings
    async with AsyncExitStack() as stack:
        vault = await stack.enter_async_context(open_vault(session, to, backup_options, Role.BACKUP))
        workspace = await stack.enter_async_context(_writing(session))
        locations = await stack.enter_async_context(_locations(session, workspace.handle(Role.READER)))
        with _steps(session) as progress:
            taken = await take_backup(
                workspace,
                vault,
                locations,
                store=session.project.store,
                actor=f"local:{local_user()}",
                data=settings.backup_data == "yes" if data is None else data,
                progress=progress,
            )
    for trouble in taken.troubled:
        session.output.warn(f"the newest metadata of an Iceberg table is not in the backup: {trouble}")
    for lost in taken.lost_data:
        session.output.warn(f"a file of data is not in the backup: {lost}; run what makes it with --force")
    document = {**_document(taken.backup), "troubled": list(taken.troubled), "lost_data": list(taken.lost_data)}
    session.output.emit(document, _fields(taken.backup), _data_note(taken.backup))


@command(app, "list")
async def list_backups(session: Session, to: ToOption = None, backup_options: BackupOptionsOption = None) -> int | None:
    """List the backups that can be restored. Exits with 7 if one is damaged or missing."""
    async with open_vault(session, to, backup_options, Role.READER) as vault:
        survey = await vault.survey()
    headers = ["backup", "taken", "incarnation", "catalog", "activity", "size", "new objects", "new", "data"]
    rows = _rows(survey)
    shown: RenderableType = grid(headers, rows) if rows else say("There is no backup yet; `arco backup` takes one.")
    unreadable = [
        {"backup": number, "path": str(error.details.get("path", "")), "error": error.message}
        for number, error in sorted(survey.unreadable.items())
    ]
    session.output.emit({"backups": [_document(one) for one in survey.backups], "unreadable": unreadable}, shown)
    if not unreadable:
        return None
    _warn_of(session, survey)
    return Corrupt.exit_code


def _rows(survey: Survey) -> list[list[object]]:
    """A row for each backup; one for each run of those that are missing."""
    rows: dict[int, list[object]] = {
        one.number: [
            str(one.number),
            format_time(one.taken_at),
            one.incarnation,
            *(str(one.logs[log].link.number) for log in ("catalog", "activity")),
            shown_size(one.bytes),
            one.copied,
            shown_size(one.copied_bytes),
            "yes" if one.data else "no",
        ]
        for one in survey.backups
    }
    missing = survey.missing
    for number in survey.unreadable:
        if number not in missing:
            rows[number] = [str(number), "damaged", *[""] * 7]
        elif number - 1 not in missing:
            end = next(last for last in missing if last >= number and last + 1 not in missing)
            rows[number] = [shown_numbers(range(number, end + 1)), "missing", *[""] * 7]
    return [rows[number] for number in sorted(rows)]


def _warn_of(session: Session, survey: Survey) -> None:
    for number, error in sorted(survey.unreadable.items()):
        if number not in survey.missing:
            session.output.warn(error.message)
    if survey.missing:
        session.output.warn(
            f"missing: {shown_numbers(survey.missing)}. Something deletes objects in the vault, such as a lifecycle "
            "rule: stop it, and check what is there with `arco backup verify`"
        )


@command(app)
async def show(
    session: Session,
    number: Annotated[int | None, NUMBER] = None,
    to: ToOption = None,
    backup_options: BackupOptionsOption = None,
) -> None:
    """Show what a backup holds."""
    async with open_vault(session, to, backup_options, Role.READER) as vault:
        backup = await vault.backup(number)
    session.output.emit(_document(backup), _fields(backup), _data_note(backup))


@command(app)
async def verify(
    session: Session,
    number: Annotated[int | None, NUMBER] = None,
    to: ToOption = None,
    backup_options: BackupOptionsOption = None,
) -> int | None:
    """Read everything that a backup names: hashes, chains, density. Exits with 7 if it finds an error."""
    async with open_vault(session, to, backup_options, Role.READER) as vault:
        backup = await vault.backup(number)
        with _steps(session) as progress:
            findings = await verify_backup(vault, backup, DEFINITIONS, progress=progress)
    return report(session.output, {"backup": backup.number, "id": backup.id}, findings)


@command(app, "prune")
async def prune_backups(
    session: Session,
    to: ToOption = None,
    backup_options: BackupOptionsOption = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Keep backups so long; ARCO_BACKUP_DAYS.", show_default="30")
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(
            "--before",
            min=1,
            metavar="NUMBER",
            help="Delete all backups before this one, however young: they hold what was erased.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> None:
    """Delete old backups, and what no other backup names. The newest one always stays."""
    if days is not None and before is not None:
        raise Invalid("--days and --before are two ways to say which backups go; give one of them")
    keep = (days or session.project.loaded.settings.backup_days) * DAY
    async with open_vault(session, to, backup_options, Role.BACKUP) as vault:
        with session.output.progress("pruning") as progress:
            done = await prune(vault, session.runtime, keep=keep, before=before, dry_run=dry_run, progress=progress)
    document = {
        "dry_run": dry_run,
        "backups": done.backups,
        "objects": len(done.objects),
        "bytes": done.bytes,
        "kept": done.kept,
    }
    deleted = "Would delete" if dry_run else "Deleted"
    text = f"{deleted} {len(done.backups)} backups and {len(done.objects)} objects ({shown_size(done.bytes)})"
    session.output.emit(document, say(f"{text}; {done.kept} objects stay."))


@command(restoring, "restore")
async def restore_workspace(
    session: Session,
    source: FromOption = None,
    backup_options: BackupOptionsOption = None,
    number: Annotated[
        int | None, typer.Option("--backup", metavar="NUMBER", help="Which backup; the newest one if left out.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="Only what was there then: a time (2026-11-15T20:45:00Z), or the position of a log (catalog=12:0).",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Seal the workspace that is there, and go on from the backup.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be restored.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Restore nothing: check the backup whole, fold its log anew, and compare a workspace that was "
            "restored from it, with the bytes of its objects.",
        ),
    ] = False,
) -> int | None:
    """Go on from a backup, in a new incarnation of the workspace.

    The new incarnation is written first; then the old one is sealed, so that no process that still has it open can
    write any more, and the new one is opened. If it is interrupted, run it again: it goes on where it was.
    """
    if check and (at is not None or replace or dry_run):
        raise Invalid("--verify changes nothing and looks at a whole backup; leave out --at, --replace and --dry-run")
    moment = _moment(at) if at is not None else None
    async with AsyncExitStack() as stack:
        vault = await stack.enter_async_context(open_vault(session, source, backup_options, Role.READER))
        base = await stack.enter_async_context(open_base(session.project, session.runtime))
        if check:
            return await _verify(session, vault, base, number)
        scope, runtime = session.project.scope, session.runtime
        plan = await plan_restore(base, scope, vault, runtime, number=number, moment=moment)
        if dry_run:
            session.output.emit({**_planned(plan), "dry_run": True}, _plan_text(plan))
            return None
        admin = RoleStore(base, scope, Role.ADMIN, RequestCounts())
        locations = await stack.enter_async_context(_locations(session, admin))
        with _steps(session) as progress:
            done = await restore(
                base,
                scope,
                vault,
                runtime,
                plan,
                locations,
                actor=f"local:{local_user()}",
                replace=replace,
                progress=progress,
            )
    _tell(session, done)
    return None


def _tell(session: Session, done: Restored) -> None:
    for reason in done.elsewhere:
        session.output.warn(f"metadata of an Iceberg table was not put back: {reason}")
    backup = done.plan.backup
    if backup.store != session.project.store and done.tables:
        session.output.warn(
            f"the {done.tables} Iceberg tables have locations below {backup.store}, where the backup was taken; they "
            "can be read here only while those files exist and --allowed-location names that place"
        )
    if not backup.data:
        session.output.note("data files are not in the backup; those that the workspace names must still be there")
    positions = {log: str(position) for log, position in done.positions.items()}
    lines = [f"Restored backup {backup.number} as {done.incarnation.id}, number {done.incarnation.number}"]
    lines += [f"  {log} through segment {number_of(position)}" for log, position in sorted(done.positions.items())]
    if done.plan.old is not None:
        lines.append(f"  {done.plan.old.id} is sealed; servers open the new one with the next request")
    document = {**_planned(done.plan), "dry_run": False, "positions": positions, "tables": done.tables}
    session.output.emit(
        {**document, "elsewhere": list(done.elsewhere)},
        *(say(line, "green" if n == 0 else "") for n, line in enumerate(lines)),
    )


async def _verify(session: Session, vault: Vault, base: Store, number: int | None) -> int | None:
    backup = await vault.backup(number)
    document: dict[str, object] = {"backup": backup.number, "id": backup.id, "restored": None}
    scope, runtime = session.project.scope, session.runtime
    reader = RoleStore(base, scope, Role.READER, RequestCounts())
    there = await read_incarnations(base, scope, runtime)
    is_restored = bool(there) and there[-1].backup == backup.id
    with _steps(session) as progress:
        findings = await verify_backup(vault, backup, DEFINITIONS, refold=True, progress=progress)
        if is_restored:
            findings += await compare_objects(vault, backup, reader, there[-1], runtime, progress=progress)
    if is_restored:
        document["restored"] = there[-1].id
        compared = await compare_restored(vault, reader, there[-1], runtime, DEFINITIONS)
        for log, tables in compared.items():
            different = [one.table for one in tables if not one.equal]
            message = f"the restored workspace differs in {', '.join(different)}" if different else ""
            level = Level.ERROR if different else Level.OK
            findings.append(
                Finding(level, log, "restored", message or f"{len(tables)} tables of {there[-1].id} are the same")
            )
    return report(session.output, document, findings)


def _moment(text: str) -> Moment:
    log, equals, position = text.partition("=")
    if equals:
        return Moment(log=log, position=parse_position(position))
    try:
        return Moment(time=parse_time(text))
    except (Invalid, OverflowError):
        raise Invalid(
            f"{text[:80]!r} is no point to restore to; write a time with its offset (2026-11-15T20:45:00Z), or the "
            "position of a log (catalog=12:0)"
        ) from None


# What commands open


@asynccontextmanager
async def open_vault(session: Session, named: str | None, given: list[str] | None, role: Role) -> AsyncIterator[Vault]:
    project, runtime = session.project, session.runtime
    settings = project.loaded.settings
    url = backup_url(session, named)
    options = {**settings.backup_options, **(parse_options(given, "--backup-option") or {})}
    store = open_store(url, options, clock=runtime)
    try:
        yield Vault(
            RoleStore(store, project.scope, role, RequestCounts()),
            project.scope.tenant,
            project.scope.workspace,
            runtime,
        )
    finally:
        await store.close()


def backup_url(session: Session, named: str | None = None) -> str:
    """Where backups are: as the command says, else as the settings do. Never in the store that they protect."""
    project = session.project
    settings, origin = project.loaded.settings, project.loaded.origin
    url = named or settings.backup_to
    if not url:
        raise Invalid("nothing says where backups are; name a store with --to or --from, or set ARCO_BACKUP_TO")
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "memory":
        there = f"; write file://{url}" if url.startswith(("/", "~", ".")) else ""
        raise Invalid(f"the store of backups is named by a URL: file://, s3://, az:// or gs://{there}")
    if scheme == "file" and not rest.startswith("~"):
        here = named is not None or origin["backup_to"] != "arco.toml"
        url = f"file://{((Path.cwd() if here else project.folder) / rest).resolve()}"
    mine, other = parse_location(project.store), parse_location(url)
    if mine.holds(other) or other.holds(mine):
        raise StoreRefused(
            f"{url} and the workspace's store lie in each other: both would be lost at once; name another"
        )
    return url


@asynccontextmanager
async def _writing(session: Session) -> AsyncIterator[Workspace]:
    """The workspace, with the owner that answers if there is one: pins are events."""
    project, runtime = session.project, session.runtime
    async with AsyncExitStack() as stack:
        base = await stack.enter_async_context(open_base(project, runtime))
        await read_incarnation(base, project.scope, runtime)
        peers = await open_peers(session, stack)
        opened = await Workspace.open(
            base, project.scope, runtime, peers=peers, test_store=False, cadence=cadence_of(project)
        )
        yield await stack.enter_async_context(opened)


@asynccontextmanager
async def _locations(session: Session, store: RoleStore) -> AsyncIterator[Locations]:
    project, settings = session.project, session.project.loaded.settings
    places = settings.allowed_locations.split()
    locations = open_locations(
        store, project.store, project.scope.root, settings.store_options, places, session.runtime
    )
    try:
        yield locations
    finally:
        await locations.close()


def local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user that only exists as a number
        return "unknown"


@contextmanager
def _steps(session: Session) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each kind of thing that is copied, one after the other."""
    with session.output.steps() as told:
        yield told


# What they say


def _document(backup: Backup) -> dict[str, Any]:
    return {
        "backup": backup.number,
        "id": backup.id,
        "workspace": f"{backup.tenant}/{backup.workspace}",
        "incarnation": backup.incarnation,
        "store": backup.store,
        "taken_at": format_time(backup.taken_at),
        "finished_at": format_time(backup.finished_at),
        "actor": backup.actor,
        "data": backup.data,
        "objects": backup.objects,
        "bytes": backup.bytes,
        "copied": backup.copied,
        "copied_bytes": backup.copied_bytes,
        "logs": {
            log: {"segment": copy.link.number, "position": copy.watermark, "revision": copy.revision}
            for log, copy in backup.logs.items()
        },
        "lists": [{"kind": one.kind, "name": one.name, "count": one.count, "bytes": one.bytes} for one in backup.lists],
    }


def _fields(backup: Backup) -> RenderableType:
    logs = ", ".join(f"{log} through segment {copy.link.number}" for log, copy in sorted(backup.logs.items()))
    tables = sum(one.count for one in backup.lists_of("iceberg"))
    also = f" and the metadata of {tables:,} Iceberg table{'s' * (tables != 1)}" if tables else ""
    rows: list[list[object]] = [
        ["backup", str(backup.number)],
        ["of", f"{backup.tenant}/{backup.workspace}, {backup.incarnation}"],
        ["taken", f"{format_time(backup.taken_at)} by {backup.actor}"],
        ["logs", logs],
        ["holds", f"{backup.objects - tables:,} objects{also}, {shown_size(backup.bytes)}"],
        ["new", f"{backup.copied:,} objects, {shown_size(backup.copied_bytes)}"],
    ]
    return grid(["", ""], rows)


def _data_note(backup: Backup) -> RenderableType:
    if backup.data:
        return say("The files of assets and of Iceberg tables are in it.", "dim")
    return say("The files of assets and of Iceberg tables are not in it; --data copies them too.", "dim")


def _planned(plan: Plan) -> dict[str, Any]:
    return {
        "backup": plan.backup.number,
        "incarnation": plan.incarnation.id,
        "number": plan.incarnation.number,
        "previous": plan.incarnation.previous,
        "sealed": plan.is_sealed,
        "through": plan.incarnation.through,
        "lost_segments": plan.lost,
    }


def _plan_text(plan: Plan) -> RenderableType:
    rows: list[list[object]] = [
        ["backup", f"{plan.backup.number}, taken {format_time(plan.backup.taken_at)}"],
        ["of", f"{plan.backup.incarnation} at {plan.backup.store}"],
        ["would open", f"{plan.incarnation.id}, number {plan.incarnation.number}"],
        ["would seal", _sealing(plan)],
    ]
    for log, number in sorted(plan.cut.numbers.items()):
        lost = plan.lost.get(log, 0)
        rows.append([log, f"through segment {number}; {lost} segments after it would be left behind"])
    return grid(["", ""], rows)


def _sealing(plan: Plan) -> str:
    if plan.old is None:
        return "nothing: there is no workspace"
    if not plan.is_sealed:
        return f"{plan.old.id}, if you say --replace"
    begun = plan.sealed_by or "a restore or an erasure"
    return f"{plan.old.id}, which {begun} sealed and did not finish, if you say --replace"

"""`arco serve`: the server, in this process until it is told to end."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from arco.backup import Schedule
from arco.cli._backup import backup_url
from arco.cli._command import Session, listens
from arco.cli._open import cadence_of
from arco.cli._output import dump, say
from arco.core import DAY, HOUR, Invalid, shown
from arco.storage import Scope

__all__ = ["app"]

app = typer.Typer()

ALL = "all"
IDLE_MINUTES = 10

WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - recognised here, and only ever chosen by --listen


class ServerRole(StrEnum):
    """What this process does; `arco.api` has the same names, and loading it to show a help text would take long."""

    ALL = "all"
    API = "api"
    COMPACTOR = "compactor"
    COLLECTOR = "collector"


@listens(app)
async def serve(
    session: Session,
    role: Annotated[ServerRole, typer.Option("--role", help="What this process does.")] = ServerRole.ALL,
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Want a key on a loopback address too.")] = False,
    workspaces: Annotated[
        str | None,
        typer.Option(
            "--workspaces",
            metavar="all|FILE",
            help="Serve many workspaces of the store: all, or those a file names, one tenant/workspace a line.",
        ),
    ] = None,
    idle_minutes: Annotated[
        int | None,
        typer.Option(
            "--idle-minutes", min=1, max=1440, help=f"Close one of many that nobody asks for. [default: {IDLE_MINUTES}]"
        ),
    ] = None,
    memory_mb: Annotated[
        int | None,
        typer.Option(
            "--memory-mb", min=64, max=1 << 20, help="What open workspaces may hold. [default: 2048 if they are many]"
        ),
    ] = None,
) -> None:
    """Serve the workspace over HTTP until Ctrl-C.

    On a loopback address whoever is on this machine needs no key; elsewhere every request does. Several servers may
    serve one workspace: give them the same ARCO_SERVICE_SECRET. With --workspaces one server serves many: each is
    opened by the first request with a key of it, and closed when nobody asks for it. With ARCO_BACKUP_TO it takes
    backups of what it has open. Once a day (ARCO_COLLECT_HOURS) it deletes what `arco gc` would.
    """
    from arco.api import BackupOptions, Door, ProcessRole, ServeOptions, serve

    project = session.project
    settings = project.loaded.settings
    if workspaces is None and idle_minutes is not None:
        raise Invalid("one workspace stays open while it is served; give --idle-minutes with --workspaces")
    if workspaces is not None and role is not ServerRole.ALL:
        raise Invalid(f"a server of many workspaces does everything for them; leave out --role {role.value}")
    if role is ServerRole.COLLECTOR and not settings.collect_hours:
        raise Invalid(
            "collect_hours is 0, so a collector would have nothing to do; set it to the hours between two collections"
        )
    named = () if workspaces in (None, ALL) else read_names(Path(str(workspaces)))
    backup = None
    if settings.backup_to:
        schedule = Schedule(settings.backup_hours * HOUR, settings.backup_days * DAY, settings.backup_data == "yes")
        backup = BackupOptions(backup_url(session), schedule, settings.backup_options)
    host, _, port = settings.listen.rpartition(":")
    options = ServeOptions(
        store=project.store,
        scopes=(project.scope, *(scope for scope in named if scope != project.scope)),
        all_workspaces=workspaces == ALL,
        idle_seconds=60.0 * (idle_minutes or IDLE_MINUTES),
        memory_mb=memory_mb,
        host=host.strip("[]"),
        port=int(port),
        public_url=settings.public_url,
        role=ProcessRole(role.value),
        require_keys=require_keys,
        service_secret=settings.service_secret,
        store_options=settings.store_options,
        allowed_locations=tuple(settings.allowed_locations.split()),
        cadence=cadence_of(project),
        backup=backup,
        collect_every=settings.collect_hours * HOUR,
    )

    if host.strip("[]") in WILDCARDS and not settings.public_url and not session.output.as_json:
        session.output.warn(
            f"other servers of this workspace are told to reach this one at {settings.listen}, which they cannot; "
            "give --public-url if there are any"
        )

    what = project.scope.root
    if options.serves_many:
        what = f"all workspaces of {project.store}" if options.all_workspaces else f"{len(options.scopes)} workspaces"

    def ready(url: str, door: Door) -> None:
        if session.output.as_json:
            session.output.line(dump({"url": url, "door": door.value, "workspace": project.scope.root}))
            return
        session.output.people.print(say(f"Serving {what} at {url}", "green"))
        wanted = "Requests need a key." if door is Door.KEYS else "On this machine no key is needed."
        if options.serves_many and door is not Door.KEYS:
            wanted = f"On this machine no key is needed for {project.scope.root}; the others need one."
        session.output.people.print(say(f"  {wanted} Ctrl-C ends it.", "dim"))
        if role in (ServerRole.ALL, ServerRole.API):
            iceberg = f"  Iceberg REST: {url}/iceberg, warehouse {project.scope.workspace}"
            session.output.people.print(say(iceberg, "dim"))

    await serve(options, session.runtime, ready)


def read_names(path: Path) -> tuple[Scope, ...]:
    """Workspaces as a file names them: one `tenant/workspace` a line; empty lines and what follows a # say nothing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read the names of workspaces in {path}: {error}; name a file, or `all`") from error
    found: dict[Scope, None] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        tenant, slash, workspace = text.partition("/")
        if not slash:
            raise Invalid(f"{path}, line {number}: {shown(text)} is not tenant/workspace")
        try:
            found[Scope(tenant, workspace)] = None
        except Invalid as error:
            raise Invalid(f"{path}, line {number}: {error.message}") from None
    if not found:
        raise Invalid(f"{path} names no workspace; write one tenant/workspace a line")
    return tuple(found)

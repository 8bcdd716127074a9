"""`arco serve`: the server, in this process until it is told to end."""

from enum import StrEnum
from typing import Annotated

import typer

from arco.cli._command import Session, listens
from arco.cli._open import cadence_of
from arco.cli._output import dump, say

__all__ = ["app"]

app = typer.Typer()

WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - recognised here, and only ever chosen by --listen


class ServerRole(StrEnum):
    """What this process does; `arco.api` has the same names, and loading it to show a help text would take long."""

    ALL = "all"
    API = "api"
    COMPACTOR = "compactor"


@listens(app)
async def serve(
    session: Session,
    role: Annotated[ServerRole, typer.Option("--role", help="What this process does.")] = ServerRole.ALL,
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Want a key on a loopback address too.")] = False,
) -> None:
    """Serve the workspace over HTTP until Ctrl-C.

    On a loopback address whoever is on this machine needs no key; elsewhere every request does. Several servers may
    serve one workspace: give them the same ARCO_SERVICE_SECRET.
    """
    from arco.api import Door, ProcessRole, ServeOptions, serve

    project = session.project
    settings = project.loaded.settings
    host, _, port = settings.listen.rpartition(":")
    options = ServeOptions(
        store=project.store,
        scopes=(project.scope,),
        host=host.strip("[]"),
        port=int(port),
        public_url=settings.public_url,
        role=ProcessRole(role.value),
        require_keys=require_keys,
        service_secret=settings.service_secret,
        store_options=settings.store_options,
        cadence=cadence_of(project),
    )

    if host.strip("[]") in WILDCARDS and not settings.public_url and not session.output.as_json:
        session.output.warn(
            f"other servers of this workspace are told to reach this one at {settings.listen}, which they cannot; "
            "give --public-url if there are any"
        )

    def ready(url: str, door: Door) -> None:
        if session.output.as_json:
            session.output.line(dump({"url": url, "door": door.value, "workspace": project.scope.root}))
            return
        session.output.people.print(say(f"Serving {project.scope.root} at {url}", "green"))
        wanted = "Requests need a key." if door is Door.KEYS else "On this machine no key is needed."
        session.output.people.print(say(f"  {wanted} Ctrl-C ends it.", "dim"))

    await serve(options, session.runtime, ready)

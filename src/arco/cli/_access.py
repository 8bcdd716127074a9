"""Commands on who may do what: keys, roles, the workspace's settings, and who one is."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from arco.cli._answers import document_of, facts, gather, list_out, placed, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import IN_PROCESS, connect
from arco.cli._output import grid, say, shown_time, titled
from arco.cli._specs import parse_expiry, parse_pairs
from arco.core import Invalid, parse_time
from arco.wire import KeyCreate, KeyInfo, RoleBindingInfo, RoleGrant, SettingInfo, SettingsUpdate

__all__ = ["key", "role", "settings", "who"]

key = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)
role = typer.Typer(help="Say who may do what.", no_args_is_help=True)
settings = typer.Typer(help="Show and change the workspace's settings.", no_args_is_help=True)
who = typer.Typer()

PrincipalArgument = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="Whom: an e-mail address, a service.", show_default=False)
]
SETTING_HEADERS = ["setting", "value", "default", "from", "to", "description"]


class UserRole(StrEnum):
    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"
    OWNER = "owner"


@changes(key, "create")
async def create_key(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.", show_default=False)],
    role_: Annotated[UserRole | None, typer.Option("--role", help="What it may do.")] = None,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="NAME", help="Whose it is; without --role it has their role.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="A duration (30d) or a time.")
    ] = None,
) -> None:
    """Create an API key and show its token, once.

    Programs send it as ARCO_TOKEN, or as `Authorization: Bearer`.
    """
    if role_ is None and principal is None:
        raise Invalid("a key needs to know what it may do; give --role, or --principal to take that one's role")
    request = KeyCreate(
        name=name,
        role=role_.value if role_ else None,
        principal=principal,
        expires_at=parse_expiry(expires, session.runtime.now()) if expires is not None else None,
    )
    async with connect(session) as client:
        made = await client.create_key(request, key=session.request_key)
    if session.output.as_json or made.token is None:
        written_out(session, made, f"Created the key {made.key.name}.", f"id {made.key.id}")
        return
    until = f", until {shown_time(made.key.expires_at)}" if made.key.expires_at else ""
    session.output.emit(
        None,
        say(f"Created the key {made.key.name}{until}.", "green"),
        Text(made.token, "bold"),
        say(
            f"Keep it: it is shown this once. `arco key revoke {made.key.id}` ends it. "
            f"(position {placed(made.position)})",
            "dim",
        ),
    )


@asks(key, "list")
async def list_keys(session: Session) -> None:
    """List the keys of the workspace. Their tokens are nowhere to be seen."""
    async with connect(session) as client:
        items, more = await gather(client.list_keys(), 0)
    headers = ["name", "role", "principal", "created", "by", "ends", "state", "id"]
    now = session.runtime.now()
    list_out(session, "keys", items, more, headers, lambda found: _key_row(found, now), "There are no keys.")


def _key_row(found: KeyInfo, now: int) -> list[object]:
    ended = found.expires_at is not None and parse_time(found.expires_at) <= now
    state = say("revoked", "red") if found.revoked_at else say("expired", "yellow") if ended else say("good", "green")
    role_ = found.role or Text("as principal", "dim")
    times = [shown_time(found.created_at), found.created_by, shown_time(found.expires_at)]
    return [found.name, role_, found.principal, *times, state, found.id]


@changes(key, "revoke")
async def revoke_key(
    session: Session,
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The key's id; `arco key list` has it.", show_default=False)
    ],
) -> None:
    """Revoke an API key. Whoever still uses it is refused."""
    async with connect(session) as client:
        written = await client.revoke_key(key_id, key=session.request_key)
    written_out(session, written, f"The key {key_id} is revoked.")


@changes(role, "grant")
async def grant_role(
    session: Session,
    principal: PrincipalArgument,
    role_: Annotated[
        UserRole, typer.Argument(metavar="ROLE", help="viewer, editor, admin or owner.", show_default=False)
    ],
) -> None:
    """Give somebody a role, in place of the one they had."""
    async with connect(session) as client:
        written = await client.grant_role(principal, RoleGrant(role=role_.value), key=session.request_key)
    written_out(session, written, f"{principal} is {role_} now.")


@changes(role, "revoke")
async def revoke_role(session: Session, principal: PrincipalArgument) -> None:
    """Take somebody's role away."""
    async with connect(session) as client:
        written = await client.revoke_role(principal, key=session.request_key)
    written_out(session, written, f"{principal} has no role any more.")


@asks(role, "list")
async def list_roles(session: Session) -> None:
    """List who has which role."""
    async with connect(session) as client:
        items, more = await gather(client.list_roles(), 0)
    headers = ["principal", "role", "granted", "by"]
    list_out(session, "roles", items, more, headers, _role_row, "Nobody has a role; `arco role grant` gives one.")


def _role_row(found: RoleBindingInfo) -> list[object]:
    return [found.principal, found.role, shown_time(found.granted_at), found.granted_by]


@asks(settings, "show")
async def show_settings(session: Session) -> None:
    """Show the settings of the workspace, which all its servers follow."""
    async with connect(session) as client:
        items, more = await gather(client.list_settings(), 0)
    list_out(session, "settings", items, more, SETTING_HEADERS, _setting_row, "There are none.")


def _setting_row(found: SettingInfo) -> list[object]:
    value: object = found.value if found.value == found.default else Text(f"{found.value:,}", "bold")
    return [found.name, value, found.default, found.minimum, found.maximum, found.description]


@changes(settings, "set")
async def set_settings(
    session: Session,
    values: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="A whole number, or `default`.", show_default=False),
    ],
) -> None:
    """Change settings of the workspace.

    arco settings set query.max_rows=50000 query.max_seconds=default
    """
    wanted = {name: _setting(name, value) for name, value in parse_pairs("settings set", values).items()}
    async with connect(session) as client:
        written = await client.update_settings(SettingsUpdate(values=wanted), key=session.request_key)
    if session.output.as_json:
        session.output.emit(document_of(written))
        return
    session.output.emit(None, grid(SETTING_HEADERS, [_setting_row(found) for found in written.settings]))


def _setting(name: str, text: str) -> int | None:
    if text == "default":
        return None
    if not text.lstrip("-").isascii() or not text.lstrip("-").isdecimal() or len(text) > 18:
        raise Invalid(f"{name}={text[:80]!r} is not a whole number; write a number, or {name}=default")
    return int(text)


@asks(who)
async def whoami(session: Session) -> None:
    """Show whom the server takes you for, and what that allows."""
    async with connect(session) as client:
        found = await client.whoami()
        url = client.url if client.url != IN_PROCESS else None
    lines = facts(
        [
            ("role", found.role),
            ("workspace", f"{found.tenant}/{found.workspace}"),
            ("incarnation", found.incarnation),
            ("server", f"{url or 'none: this process opened the store'}, arco {found.version}"),
            ("may", found.permissions),
        ]
    )
    session.output.emit({"url": url, **document_of(found)}, titled(found.actor, lines))

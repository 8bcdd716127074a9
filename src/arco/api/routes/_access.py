"""Access: keys, roles, settings, and who one is. The tables behind it are private; only these routes read them."""

from typing import Annotated

from fastapi import Path

from arco import __version__
from arco.api._caller import format_token, new_secret
from arco.api._permissions import permissions_of
from arco.api._reading import CallerDep
from arco.api._routing import router
from arco.api._writing import WritesDep
from arco.catalog import View
from arco.core import NotFound, format_time, parse_time, parse_ulid, time_text
from arco.domains.access import (
    API_KEYS,
    KEY_NAMES,
    ROLE_BINDINGS,
    SETTINGS,
    ApiKey,
    CreateApiKey,
    GrantRole,
    RevokeApiKey,
    RevokeRole,
    UpdateSettings,
    UserRole,
    read_settings,
)
from arco.wire import (
    KeyCreate,
    KeyCreated,
    KeyInfo,
    Page,
    RequestCount,
    RequestCountsInfo,
    RoleBindingInfo,
    RoleGrant,
    SettingInfo,
    SettingsUpdate,
    SettingsWritten,
    WhoAmI,
    Written,
)

__all__ = ["access"]

access = router("access")

Principal = Annotated[str, Path(min_length=1, max_length=256, description="Whom: an e-mail address, a service.")]


@access.get("/whoami")
async def whoami(caller: CallerDep) -> WhoAmI:
    """Who the server takes the caller for, and what that allows."""
    return WhoAmI(
        tenant=caller.scope.tenant,
        workspace=caller.scope.workspace,
        incarnation=caller.workspace.incarnation.id,
        actor=caller.actor,
        role=caller.role.value,
        permissions=permissions_of(caller.role),
        version=__version__,
    )


@access.get("/requests")
async def list_requests(caller: CallerDep) -> RequestCountsInfo:
    """Requests to the store, by role and operation, that this process made since it opened the workspace."""
    counted = sorted(caller.workspace.counts.table().items())
    return RequestCountsInfo(
        since=format_time(caller.workspace.opened_at),
        requests=[RequestCount(role=role, operation=operation, count=count) for (role, operation), count in counted],
    )


def _key_info(key: ApiKey) -> KeyInfo:
    return KeyInfo(
        id=key.key_id,
        name=key.name,
        role=UserRole(key.role).value if key.role is not None else None,
        principal=key.principal,
        created_by=key.created_by,
        created_at=format_time(key.created_at),
        expires_at=time_text(key.expires_at),
        revoked_at=time_text(key.revoked_at),
        revoked_by=key.revoked_by,
    )


@access.get("/keys")
async def list_keys(caller: CallerDep) -> Page[KeyInfo]:
    """List the keys of this workspace, revoked ones too. Nobody can see their secrets again."""
    snapshot = await caller.workspace.logs["catalog"].frozen()
    ids = (await snapshot.scan(API_KEYS)).column("key_id").to_pylist()
    keys = [await snapshot.get(API_KEYS, key_id, key_id) for key_id in sorted(ids)]
    return Page(items=[_key_info(key) for key in keys], position=str(snapshot.position))


@access.post("/keys", status_code=201)
async def create_key(writes: WritesDep, body: KeyCreate) -> KeyCreated:
    """Create a key for this workspace. Its token is in this answer and nowhere else, ever."""
    caller = writes.caller
    secret, digest = new_secret(caller.workspace.runtime)
    expires_at = parse_time(body.expires_at) if body.expires_at is not None else None
    role = UserRole(body.role) if body.role is not None else None
    command = CreateApiKey(body.name, body.principal, role, expires_at)
    receipt = await writes.decide("catalog", command, minted={"secret_hash": digest})
    known = await writes.created_id(receipt, "key")
    key = await writes.left(receipt, known, lambda view, key: _key(view, key, body.name))
    # The answer to this very request may have got lost between two processes: then it is no replay to its caller.
    first = not receipt.replayed or receipt.operation == writes.operation
    token = format_token(caller.scope, key.key_id, secret) if first else None
    return KeyCreated(
        operation_id=receipt.operation,
        position=receipt.last,
        replayed=receipt.replayed,
        key=_key_info(key),
        token=token,
        warnings=[] if token else ["this is a replay: the token was shown once; revoke the key and make another"],
    )


async def _key(view: View, key_id: str | None, name: str) -> ApiKey:
    """A key by its id or, where the state is the one that made it, by its name."""
    if key_id is None:
        row = await view.get(KEY_NAMES, name, name)
        key_id = None if row is None else row.key_id
    key: ApiKey | None = await view.get(API_KEYS, key_id, key_id) if key_id is not None else None
    if key is None:
        raise NotFound(f"there is no key {name}; it was revoked, or never was")
    return key


@access.delete("/keys/{key_id}")
async def revoke_key(
    writes: WritesDep, key_id: Annotated[str, Path(max_length=64, description="The key's id, which is not its token.")]
) -> Written:
    """Revoke a key. Requests with it are refused as soon as a process knows of it, within seconds everywhere."""
    receipt = await writes.decide("catalog", RevokeApiKey(parse_ulid(key_id)))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


@access.get("/roles")
async def list_roles(caller: CallerDep) -> Page[RoleBindingInfo]:
    """List who has which role."""
    snapshot = await caller.workspace.logs["catalog"].frozen()
    names = (await snapshot.scan(ROLE_BINDINGS)).column("principal").to_pylist()
    bindings = [await snapshot.get(ROLE_BINDINGS, name, name) for name in sorted(names)]
    items = [
        RoleBindingInfo(
            principal=found.principal,
            role=found.role,
            granted_by=found.granted_by,
            granted_at=format_time(found.granted_at),
        )
        for found in bindings
    ]
    return Page(items=items, position=str(snapshot.position))


@access.put("/roles/{principal}")
async def grant_role(writes: WritesDep, principal: Principal, body: RoleGrant) -> Written:
    """Give a principal a role; its keys without a role of their own take it at once."""
    receipt = await writes.decide("catalog", GrantRole(principal, UserRole(body.role)))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


@access.delete("/roles/{principal}")
async def revoke_role(writes: WritesDep, principal: Principal) -> Written:
    """Take a principal's role away."""
    receipt = await writes.decide("catalog", RevokeRole(principal))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


async def _settings(view: View) -> list[SettingInfo]:
    values = await read_settings(view)
    return [
        SettingInfo(
            name=name,
            value=values[name],
            default=setting.default,
            minimum=setting.least,
            maximum=setting.most,
            description=setting.description,
        )
        for name, setting in sorted(SETTINGS.items())
    ]


@access.get("/settings")
async def list_settings(caller: CallerDep) -> Page[SettingInfo]:
    """Show the settings of this workspace."""
    items, position = await caller.workspace.logs["catalog"].read(_settings)
    return Page(items=items, position=str(position))


@access.patch("/settings")
async def update_settings(writes: WritesDep, body: SettingsUpdate) -> SettingsWritten:
    """Change settings; null sets one back to its default."""
    receipt = await writes.decide("catalog", UpdateSettings(body.values))
    return SettingsWritten(
        operation_id=receipt.operation,
        position=receipt.last,
        replayed=receipt.replayed,
        settings=await writes.left(receipt, "settings", lambda view, _: _settings(view)),
    )

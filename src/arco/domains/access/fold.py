"""The fold of access: keys, bindings and settings by their ids, then the names and owners that follow from them."""

import msgspec

from arco.domains.access.commands import COMMANDS
from arco.domains.access.events import (
    API_KEY_CREATED,
    API_KEY_REVOKED,
    EVENTS,
    ROLE_GRANTED,
    ROLE_REVOKED,
    SETTINGS_UPDATED,
    ApiKeyCreated,
    RoleGranted,
)
from arco.domains.access.roles import UserRole
from arco.domains.access.tables import (
    API_KEYS,
    BINDING,
    KEY,
    KEY_NAMES,
    OWNERS,
    ROLE_BINDINGS,
    SETTINGS_TABLE,
    ApiKey,
    KeyName,
    OwnerRow,
    RoleBinding,
    SettingRow,
)
from arco.state import Domain, Group, Input, Reject, Stage

__all__ = ["ACCESS"]


def _fold_key(group: Group, item: Input) -> None:
    event = item.payload
    row: ApiKey | None = group.get(API_KEYS, group.key)
    if isinstance(event, ApiKeyCreated):
        if row is not None:
            raise Reject(f"the API key {group.key} exists already")
        row = ApiKey(
            key_id=event.key_id,
            name=event.name,
            secret_hash=event.secret_hash,
            principal=event.principal,
            role=event.role,
            created_by=item.event.actor,
            created_at=item.received,
            expires_at=event.expires_at,
            revoked_at=None,
            revoked_by=None,
        )
    elif row is None:
        raise Reject(f"the API key {group.key} does not exist")
    elif row.revoked_at is not None:
        return
    else:
        row = msgspec.structs.replace(row, revoked_at=item.received, revoked_by=item.event.actor)
    group.put(API_KEYS, row)


def _fold_binding(group: Group, item: Input) -> None:
    event = item.payload
    if isinstance(event, RoleGranted):
        group.put(ROLE_BINDINGS, RoleBinding(event.principal, event.role, item.event.actor, item.received))
    else:
        group.delete(ROLE_BINDINGS, event.principal)


def _fold_setting(group: Group, item: Input) -> None:
    value = item.payload.values[group.key]
    if value is None:
        group.delete(SETTINGS_TABLE, group.key)
    else:
        group.put(SETTINGS_TABLE, SettingRow(group.key, value, item.event.actor, item.received))


def _fold_key_name(group: Group, item: Input) -> None:
    key: ApiKey = item.payload.after
    if key.revoked_at is None:
        group.put(KEY_NAMES, KeyName(key.name, key.key_id))
    elif (named := group.get(KEY_NAMES, key.name)) is not None and named.key_id == key.key_id:
        group.delete(KEY_NAMES, key.name)


def _owner_kind(item: Input) -> tuple[str, ...]:
    return (KEY if item.payload.table == API_KEYS.name else BINDING,)


def _fold_owner(group: Group, item: Input) -> None:
    before, after = _owner(item.payload.before), _owner(item.payload.after)
    if after is not None:
        group.put(OWNERS, after)
    elif before is not None:
        group.delete(OWNERS, (before.kind, before.id))


def _owner(row: ApiKey | RoleBinding | None) -> OwnerRow | None:
    """How this row makes somebody an owner, if it does."""
    if row is None or row.role != UserRole.OWNER:
        return None
    if isinstance(row, RoleBinding):
        return OwnerRow(BINDING, row.principal, None)
    return OwnerRow(KEY, row.key_id, row.expires_at) if row.revoked_at is None else None


ACCESS = Domain(
    name="access",
    log="catalog",
    version=1,
    events=EVENTS,
    stages=(
        Stage(
            "keys",
            (API_KEYS,),
            lambda item: (item.payload.key_id,),
            _fold_key,
            events=(API_KEY_CREATED.name, API_KEY_REVOKED.name),
        ),
        Stage(
            "bindings",
            (ROLE_BINDINGS,),
            lambda item: (item.payload.principal,),
            _fold_binding,
            events=(ROLE_GRANTED.name, ROLE_REVOKED.name),
        ),
        Stage(
            "settings",
            (SETTINGS_TABLE,),
            lambda item: tuple(sorted(item.payload.values)),
            _fold_setting,
            events=(SETTINGS_UPDATED.name,),
        ),
        Stage("key_names", (KEY_NAMES,), lambda item: (item.payload.after.name,), _fold_key_name, changes=(API_KEYS,)),
        Stage("owners", (OWNERS,), _owner_kind, _fold_owner, changes=(API_KEYS, ROLE_BINDINGS)),
    ),
    commands=COMMANDS,
)

"""Commands of access and what decides them. What is the case already decides to nothing; a refusal says why.

A key may always be revoked, even the last one with the role owner: a leaked key must go at once, and whoever holds the
store can make another.
"""

import msgspec

from arco.core import Conflict, Invalid, NotFound, Refused, check_catalog_name, shown
from arco.domains.access.events import (
    API_KEY_CREATED,
    API_KEY_REVOKED,
    ROLE_GRANTED,
    ROLE_REVOKED,
    SETTINGS_UPDATED,
    ApiKeyCreated,
    ApiKeyRevoked,
    RoleGranted,
    RoleRevoked,
    SecretHash,
    SettingsUpdated,
)
from arco.domains.access.roles import UserRole
from arco.domains.access.settings import SETTINGS
from arco.domains.access.tables import (
    API_KEYS,
    BINDING,
    KEY,
    KEY_NAMES,
    OWNERS,
    ROLE_BINDINGS,
    ApiKey,
    KeyName,
    OwnerRow,
    RoleBinding,
    read_settings,
)
from arco.log import Instant, NewEvent
from arco.state import Decider, Decision, View, new_event

__all__ = ["COMMANDS", "CreateApiKey", "GrantRole", "RevokeApiKey", "RevokeRole", "UpdateSettings"]

MAX_PRINCIPAL = 256


class CreateApiKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key with a role of its own, or one that has whatever role is bound to its principal when it is used.

    The hash of its secret comes beside the command, minted as `secret_hash` where the command entered.
    """

    name: str
    principal: str | None = None
    role: UserRole | None = None
    expires_at: Instant | None = None


class RevokeApiKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str


class GrantRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: str
    role: UserRole


class RevokeRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: str


class UpdateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    values: dict[str, int | None]
    """None: back to the default. Settings that are not named stay as they are."""


async def _create_key(command: CreateApiKey, view: View, decision: Decision) -> list[NewEvent]:
    check_catalog_name("API key", command.name)
    if command.principal is not None:
        _check_principal(command.principal)
    elif command.role is None:
        raise Invalid("an API key needs a role, or a principal whose role it has; give one of the two")
    if command.expires_at is not None and command.expires_at <= decision.received:
        raise Invalid("the API key would have expired already; give a time in the future, or none")
    taken: KeyName | None = await view.get(KEY_NAMES, command.name, command.name)
    if taken is not None:
        raise Conflict(
            f"the API key {shown(command.name)} exists already; revoke it first, or choose another name",
            key_id=taken.key_id,
        )
    event = ApiKeyCreated(
        decision.new_id("key"),
        command.name,
        _secret_hash(decision),
        command.principal,
        command.role,
        command.expires_at,
    )
    return [new_event(API_KEY_CREATED, event, subject=event.key_id)]


def _secret_hash(decision: Decision) -> str:
    try:
        return msgspec.convert(decision.command.minted.get("secret_hash"), SecretHash)
    except msgspec.ValidationError:
        # Without the cause, whose text might quote a secret that was sent instead of its hash.
        raise Invalid(
            "an API key needs the sha256 of its secret, minted as secret_hash in 64 digits of 0-9 a-f"
        ) from None


async def _revoke_key(command: RevokeApiKey, view: View, decision: Decision) -> list[NewEvent]:
    key: ApiKey | None = await view.get(API_KEYS, command.key_id, command.key_id)
    if key is None:
        raise NotFound(f"there is no API key {shown(command.key_id)}; list the keys to see their ids")
    if key.revoked_at is not None:
        return []
    return [new_event(API_KEY_REVOKED, ApiKeyRevoked(key.key_id), subject=key.key_id)]


async def _grant_role(command: GrantRole, view: View, decision: Decision) -> list[NewEvent]:
    _check_principal(command.principal)
    binding: RoleBinding | None = await view.get(ROLE_BINDINGS, command.principal, command.principal)
    if binding is not None and binding.role == command.role:
        return []
    if binding is not None and binding.role == UserRole.OWNER:
        await _check_other_owner(command.principal, view, decision)
    event = RoleGranted(command.principal, command.role)
    return [new_event(ROLE_GRANTED, event, subject=command.principal)]


async def _revoke_role(command: RevokeRole, view: View, decision: Decision) -> list[NewEvent]:
    binding: RoleBinding | None = await view.get(ROLE_BINDINGS, command.principal, command.principal)
    if binding is None:
        raise NotFound(f"{shown(command.principal)} has no role; list the roles to see who has one")
    if binding.role == UserRole.OWNER:
        await _check_other_owner(command.principal, view, decision)
    return [new_event(ROLE_REVOKED, RoleRevoked(command.principal), subject=command.principal)]


async def _check_other_owner(principal: str, view: View, decision: Decision) -> None:
    """Somebody must be left who may manage roles."""
    bindings: list[OwnerRow] = await view.rows(OWNERS, BINDING)
    keys: list[OwnerRow] = await view.rows(OWNERS, KEY)
    live = any(key.expires_at is None or decision.received < key.expires_at for key in keys)
    if not live and not any(binding.id != principal for binding in bindings):
        raise Refused(
            f"{shown(principal)} is the last owner and no API key has the role owner, so nobody could manage roles any "
            "more; make somebody else owner first, or create a key with the role owner"
        )


async def _update_settings(command: UpdateSettings, view: View, decision: Decision) -> list[NewEvent]:
    if not command.values:
        raise Invalid(f"no setting is named; the settings are {', '.join(SETTINGS)}")
    for name, value in command.values.items():
        _check_setting(name, value)
    now = await read_settings(view)
    wanted = {name: SETTINGS[name].default if value is None else value for name, value in command.values.items()}
    # A setting at its default needs no row: what the default will be later then holds.
    changed = {
        name: None if value == SETTINGS[name].default else value for name, value in wanted.items() if value != now[name]
    }
    if not changed:
        return []
    return [new_event(SETTINGS_UPDATED, SettingsUpdated(changed), subject=", ".join(sorted(changed)))]


def _check_setting(name: str, value: int | None) -> None:
    setting = SETTINGS.get(name)
    if setting is None:
        raise Invalid(f"there is no setting {shown(name)}; the settings are {', '.join(SETTINGS)}")
    if value is not None and not setting.least <= value <= setting.most:
        raise Invalid(
            f"{name} ({setting.description}) must lie between {setting.least} and {setting.most}, not {value}"
        )


def _check_principal(text: str) -> None:
    """Any text that is seen as it is: mail addresses, names of services, subjects of identity providers."""
    if not 1 <= len(text) <= MAX_PRINCIPAL:
        raise Invalid(f"a principal has 1 to {MAX_PRINCIPAL} characters, this one has {len(text)}")
    if not text.isprintable() or text.strip() != text:
        raise Invalid(f"the principal {shown(text)} has an unseen character, or a space at its begin or end; remove it")


COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {
    "CreateApiKey": (CreateApiKey, _create_key),
    "RevokeApiKey": (RevokeApiKey, _revoke_key),
    "GrantRole": (GrantRole, _grant_role),
    "RevokeRole": (RevokeRole, _revoke_role),
    "UpdateSettings": (UpdateSettings, _update_settings),
}

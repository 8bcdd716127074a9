"""Events of access: keys made and revoked, roles bound, settings changed. Of a key's secret only the hash is known."""

from typing import Annotated

import msgspec

from arco.domains.access.roles import UserRole
from arco.log import EventType, Instant

__all__ = [
    "API_KEY_CREATED",
    "API_KEY_REVOKED",
    "EVENTS",
    "ROLE_GRANTED",
    "ROLE_REVOKED",
    "SETTINGS_UPDATED",
    "ApiKeyCreated",
    "ApiKeyRevoked",
    "RoleGranted",
    "RoleRevoked",
    "SecretHash",
    "SettingsUpdated",
]

SecretHash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$", min_length=64, max_length=64)]
"""sha256 of a key's secret, in hexadecimal digits."""


class ApiKeyCreated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str
    name: str
    secret_hash: SecretHash
    principal: str | None
    role: UserRole | None
    expires_at: Instant | None


class ApiKeyRevoked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key_id: str


class RoleGranted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The principal has this role from now on, and no other."""

    principal: str
    role: UserRole


class RoleRevoked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: str


class SettingsUpdated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    values: dict[str, int | None]
    """None: the default holds again. Settings that are not named stay as they are."""


API_KEY_CREATED = EventType("ApiKeyCreated", ApiKeyCreated, audit=("CreateApiKey", "api_key"))
API_KEY_REVOKED = EventType("ApiKeyRevoked", ApiKeyRevoked, audit=("RevokeApiKey", "api_key"))
ROLE_GRANTED = EventType("RoleGranted", RoleGranted, audit=("UpdateRoles", "role"))
ROLE_REVOKED = EventType("RoleRevoked", RoleRevoked, audit=("UpdateRoles", "role"))
SETTINGS_UPDATED = EventType("SettingsUpdated", SettingsUpdated, audit=("UpdateTenantSettings", "settings"))

EVENTS = (API_KEY_CREATED, API_KEY_REVOKED, ROLE_GRANTED, ROLE_REVOKED, SETTINGS_UPDATED)

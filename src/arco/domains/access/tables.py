"""Tables of access, all of images and all private: they are in no signed object and in no SQL.

`api_keys`: every key there was, revoked ones too. `role_bindings`: the one role of each principal. `settings`: what was
set; a setting without a row has its default. Two more follow from these, so that a decision reads one group:
`key_names` (which key has a name; names of revoked keys are free) and `owners` (what makes somebody an owner).
"""

import msgspec

from arco.domains.access.settings import SETTINGS
from arco.state import Kind, Table, Time, View

__all__ = [
    "API_KEYS",
    "BINDING",
    "KEY",
    "KEY_NAMES",
    "OWNERS",
    "ROLE_BINDINGS",
    "SETTINGS_TABLE",
    "ApiKey",
    "KeyName",
    "OwnerRow",
    "RoleBinding",
    "SettingRow",
    "read_setting",
    "read_settings",
]

BINDING = "binding"
KEY = "key"


class ApiKey(msgspec.Struct, frozen=True):
    key_id: str
    name: str
    secret_hash: str
    principal: str | None
    """Whom the key speaks for; None if for itself."""
    role: str | None
    """None: the role bound to its principal at the time of use."""
    created_by: str
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    revoked_by: str | None

    def is_live(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class KeyName(msgspec.Struct, frozen=True):
    name: str
    key_id: str


class RoleBinding(msgspec.Struct, frozen=True):
    principal: str
    role: str
    granted_by: str
    granted_at: Time


class OwnerRow(msgspec.Struct, frozen=True):
    kind: str
    """`binding` or `key`: a principal bound to the role, or a key that has it itself and is not revoked."""
    id: str
    """The principal, or the key's id."""
    expires_at: Time | None


class SettingRow(msgspec.Struct, frozen=True):
    name: str
    value: int
    updated_by: str
    updated_at: Time


API_KEYS = Table("api_keys", ApiKey, Kind.IMAGE, ("key_id",), "key_id", private=True)
KEY_NAMES = Table("key_names", KeyName, Kind.IMAGE, ("name",), "name", private=True)
ROLE_BINDINGS = Table("role_bindings", RoleBinding, Kind.IMAGE, ("principal",), "principal", private=True)
OWNERS = Table("owners", OwnerRow, Kind.IMAGE, ("kind", "id"), "kind", private=True)
SETTINGS_TABLE = Table("settings", SettingRow, Kind.IMAGE, ("name",), "name", private=True)


async def read_setting(view: View, name: str) -> int:
    """What holds now for one setting."""
    row: SettingRow | None = await view.get(SETTINGS_TABLE, name, name)
    return SETTINGS[name].default if row is None else row.value


async def read_settings(view: View) -> dict[str, int]:
    """What holds now, by name, for every setting there is."""
    return {name: await read_setting(view, name) for name in SETTINGS}

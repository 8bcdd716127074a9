"""Domain `access` (log `catalog`, decided): API keys, roles of principals, settings of the workspace. All private."""

from arco.domains.access.commands import CreateApiKey, GrantRole, RevokeApiKey, RevokeRole, UpdateSettings
from arco.domains.access.fold import ACCESS
from arco.domains.access.roles import UserRole
from arco.domains.access.settings import SETTINGS, Setting
from arco.domains.access.tables import (
    API_KEYS,
    KEY_NAMES,
    OWNERS,
    ROLE_BINDINGS,
    SETTINGS_TABLE,
    ApiKey,
    KeyName,
    OwnerRow,
    RoleBinding,
    SettingRow,
    read_setting,
    read_settings,
)

__all__ = [
    "ACCESS",
    "API_KEYS",
    "KEY_NAMES",
    "OWNERS",
    "ROLE_BINDINGS",
    "SETTINGS",
    "SETTINGS_TABLE",
    "ApiKey",
    "CreateApiKey",
    "GrantRole",
    "KeyName",
    "OwnerRow",
    "RevokeApiKey",
    "RevokeRole",
    "RoleBinding",
    "Setting",
    "SettingRow",
    "UpdateSettings",
    "UserRole",
    "read_setting",
    "read_settings",
]

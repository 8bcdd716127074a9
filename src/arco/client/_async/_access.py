"""Calls on who may do what: keys, roles, settings."""

from typing import Unpack

from arco.client._async._connection import AsyncCalls, AsyncPages
from arco.client._calls import Writing, path_of
from arco.wire import (
    KeyCreate,
    KeyCreated,
    KeyInfo,
    Page,
    RequestCountsInfo,
    RoleBindingInfo,
    RoleGrant,
    SettingInfo,
    SettingsUpdate,
    SettingsWritten,
    WhoAmI,
    Written,
)

__all__ = ["AsyncAccessCalls"]

KEYS = "/api/v1/keys"
ROLES = "/api/v1/roles"
SETTINGS = "/api/v1/settings"


class AsyncAccessCalls(AsyncCalls):
    async def whoami(self) -> WhoAmI:
        """Whom the server takes us for, in which workspace, and what that allows."""
        return await self._connection.read("/api/v1/whoami", WhoAmI, {}, {})

    async def list_requests(self) -> RequestCountsInfo:
        """Requests to the store that the server made for this workspace since it opened it."""
        return await self._connection.read("/api/v1/requests", RequestCountsInfo, {}, {})

    def list_keys(self) -> AsyncPages[KeyInfo]:
        return AsyncPages(self._connection, KEYS, Page[KeyInfo], {}, {})

    async def create_key(self, request: KeyCreate, **options: Unpack[Writing]) -> KeyCreated:
        """The answer has the token, once. It is None if an earlier try had succeeded and its answer was lost."""
        return await self._connection.write("POST", KEYS, KeyCreated, options, body=request)

    async def revoke_key(self, key_id: str, **options: Unpack[Writing]) -> Written:
        path = path_of(KEYS + "/{key_id}", key_id=key_id)
        return await self._connection.write("DELETE", path, Written, options)

    def list_roles(self) -> AsyncPages[RoleBindingInfo]:
        return AsyncPages(self._connection, ROLES, Page[RoleBindingInfo], {}, {})

    async def grant_role(self, principal: str, request: RoleGrant, **options: Unpack[Writing]) -> Written:
        path = path_of(ROLES + "/{principal}", principal=principal)
        return await self._connection.write("PUT", path, Written, options, body=request)

    async def revoke_role(self, principal: str, **options: Unpack[Writing]) -> Written:
        path = path_of(ROLES + "/{principal}", principal=principal)
        return await self._connection.write("DELETE", path, Written, options)

    def list_settings(self) -> AsyncPages[SettingInfo]:
        return AsyncPages(self._connection, SETTINGS, Page[SettingInfo], {}, {})

    async def update_settings(self, request: SettingsUpdate, **options: Unpack[Writing]) -> SettingsWritten:
        return await self._connection.write("PATCH", SETTINGS, SettingsWritten, options, body=request)

"""Keys, roles, settings, and who one is."""

from typing import Annotated, Literal

from pydantic import Field

from arco.wire._base import Answer, Request, Written

__all__ = [
    "KeyCreate",
    "KeyCreated",
    "KeyInfo",
    "RequestCount",
    "RequestCountsInfo",
    "RoleBindingInfo",
    "RoleGrant",
    "RoleName",
    "SettingInfo",
    "SettingsUpdate",
    "SettingsWritten",
    "WhoAmI",
]

RoleName = Literal["viewer", "editor", "admin", "owner"]


class KeyCreate(Request):
    """A key has a role of its own, or takes the one bound to the principal it is for."""

    name: Annotated[str, Field(min_length=1, max_length=128, examples=["nightly-load"])]
    role: RoleName | None = None
    principal: Annotated[str | None, Field(max_length=256)] = None
    expires_at: Annotated[str | None, Field(description="RFC 3339.", examples=["2030-01-01T00:00:00Z"])] = None


class KeyInfo(Answer):
    id: str
    name: str
    role: RoleName | None
    principal: str | None
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    revoked_by: str | None


class KeyCreated(Written):
    key: KeyInfo
    token: str | None
    """Shown once, now. Null if this is the replay of an earlier request: revoke the key and make another."""


class RoleGrant(Request):
    role: RoleName


class RoleBindingInfo(Answer):
    principal: str
    role: RoleName
    granted_by: str
    granted_at: str


class SettingInfo(Answer):
    name: str
    value: int
    default: int
    minimum: int
    maximum: int
    description: str


class SettingsUpdate(Request):
    """Null sets a setting back to its default."""

    values: Annotated[
        dict[str, Annotated[int, Field(ge=-(1 << 53), le=1 << 53)] | None],
        Field(min_length=1, max_length=100, examples=[{"query.max_seconds": 60}]),
    ]


class SettingsWritten(Written):
    settings: list[SettingInfo]


class RequestCount(Answer):
    role: str
    operation: str
    count: int


class RequestCountsInfo(Answer):
    """Requests to the store that the answering process made for this workspace since it opened it."""

    since: str
    requests: list[RequestCount]


class WhoAmI(Answer):
    tenant: str
    workspace: str
    incarnation: str
    actor: str
    role: RoleName
    permissions: list[str]
    version: str
    """Of the server."""

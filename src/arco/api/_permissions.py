"""Who may do what: the fourteen permissions, the four roles, and the permission every route asks for.

`ROUTES` is the one table by which every request of the API is judged; a route that is not in it cannot be registered.
`BESIDE` is its part for what lies beside the API. `None` means that any known caller may ask.
"""

from enum import StrEnum
from typing import Final

from arco.domains.access import UserRole

__all__ = ["BESIDE", "MATRIX", "ROUTES", "Permission", "allowed", "permissions_of"]


class Permission(StrEnum):
    VIEW_ASSETS = "view_assets"
    VIEW_RUNS = "view_runs"
    VIEW_LINEAGE = "view_lineage"
    VIEW_QUALITY = "view_quality"
    DEPLOY_ASSETS = "deploy_assets"
    TRIGGER_RUNS = "trigger_runs"
    CANCEL_RUNS = "cancel_runs"
    EDIT_METADATA = "edit_metadata"
    MANAGE_CONTRACTS = "manage_contracts"
    MANAGE_SLAS = "manage_slas"
    QUARANTINE = "quarantine"
    MANAGE_ROLES = "manage_roles"
    MANAGE_KEYS = "manage_keys"
    TENANT_SETTINGS = "tenant_settings"


_EVERYBODY: Final = frozenset(UserRole)
_EDITORS: Final = frozenset({UserRole.EDITOR, UserRole.ADMIN, UserRole.OWNER})
_ADMINS: Final = frozenset({UserRole.ADMIN, UserRole.OWNER})
_OWNERS: Final = frozenset({UserRole.OWNER})

MATRIX: Final[dict[Permission, frozenset[UserRole]]] = {
    Permission.VIEW_ASSETS: _EVERYBODY,
    Permission.VIEW_RUNS: _EVERYBODY,
    Permission.VIEW_LINEAGE: _EVERYBODY,
    Permission.VIEW_QUALITY: _EVERYBODY,
    Permission.DEPLOY_ASSETS: _EDITORS,
    Permission.TRIGGER_RUNS: _EDITORS,
    Permission.CANCEL_RUNS: _EDITORS,
    Permission.EDIT_METADATA: _EDITORS,
    Permission.MANAGE_CONTRACTS: _ADMINS,
    Permission.MANAGE_SLAS: _ADMINS,
    Permission.QUARANTINE: _ADMINS,
    Permission.MANAGE_ROLES: _OWNERS,
    Permission.MANAGE_KEYS: _OWNERS,
    Permission.TENANT_SETTINGS: _OWNERS,
}

_P: Final = Permission
ROUTES: Final[dict[tuple[str, str], Permission | None]] = {
    ("GET", "/api/v1/namespaces"): _P.VIEW_ASSETS,
    ("POST", "/api/v1/namespaces"): _P.DEPLOY_ASSETS,
    ("GET", "/api/v1/namespaces/{namespace}"): _P.VIEW_ASSETS,
    ("PATCH", "/api/v1/namespaces/{namespace}"): _P.EDIT_METADATA,
    ("DELETE", "/api/v1/namespaces/{namespace}"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/namespaces/{namespace}/rename"): _P.DEPLOY_ASSETS,
    ("GET", "/api/v1/namespaces/{namespace}/history"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/tables"): _P.VIEW_ASSETS,
    ("POST", "/api/v1/tables"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/tables/register"): _P.DEPLOY_ASSETS,
    ("GET", "/api/v1/tables/{table}"): _P.VIEW_ASSETS,
    ("PATCH", "/api/v1/tables/{table}"): _P.EDIT_METADATA,
    ("DELETE", "/api/v1/tables/{table}"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/tables/{table}/rename"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/tables/{table}/alter"): _P.DEPLOY_ASSETS,
    ("PUT", "/api/v1/tables/{table}/schema"): _P.DEPLOY_ASSETS,
    ("GET", "/api/v1/tables/{table}/history"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/tables/{table}/commits"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/tables/{table}/columns"): _P.VIEW_ASSETS,
    ("PATCH", "/api/v1/tables/{table}/columns/{column}"): _P.EDIT_METADATA,
    ("GET", "/api/v1/tables/{table}/versions"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/tables/{table}/versions/diff"): _P.VIEW_ASSETS,
    ("PUT", "/api/v1/tables/{table}/contract"): _P.MANAGE_CONTRACTS,
    ("DELETE", "/api/v1/tables/{table}/contract"): _P.MANAGE_CONTRACTS,
    ("PUT", "/api/v1/tables/{table}/sla"): _P.MANAGE_SLAS,
    ("DELETE", "/api/v1/tables/{table}/sla"): _P.MANAGE_SLAS,
    ("GET", "/api/v1/tables/{table}/checks"): _P.VIEW_QUALITY,
    ("GET", "/api/v1/tables/{table}/lineage"): _P.VIEW_LINEAGE,
    ("POST", "/api/v1/lineage/edges"): _P.EDIT_METADATA,
    ("DELETE", "/api/v1/lineage/edges/{edge_id}"): _P.EDIT_METADATA,
    ("GET", "/api/v1/runs/{run_id}/outputs"): _P.VIEW_RUNS,
    ("POST", "/api/v1/events"): _P.TRIGGER_RUNS,
    ("GET", "/api/v1/assets"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/assets/{asset}"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/assets/{asset}/partitions"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/assets/{asset}/versions"): _P.VIEW_QUALITY,
    ("GET", "/api/v1/assets/{asset}/versions/{version}"): _P.VIEW_QUALITY,
    ("POST", "/api/v1/assets/{asset}/versions/{version}/quarantine"): _P.QUARANTINE,
    ("POST", "/api/v1/assets/{asset}/versions/{version}/release"): _P.QUARANTINE,
    ("GET", "/api/v1/quarantine"): _P.VIEW_QUALITY,
    ("POST", "/api/v1/maintenance/versions"): _P.QUARANTINE,
    ("POST", "/api/v1/maintenance/history"): _P.TENANT_SETTINGS,
    ("POST", "/api/v1/maintenance/orphans"): _P.QUARANTINE,
    ("POST", "/api/v1/maintenance/statistics"): _P.QUARANTINE,
    ("POST", "/api/v1/maintenance/compaction"): _P.QUARANTINE,
    ("POST", "/api/v1/maintenance/iceberg"): _P.QUARANTINE,
    ("PUT", "/api/v1/code/{sha256}"): _P.DEPLOY_ASSETS,
    ("GET", "/api/v1/deployments"): _P.VIEW_ASSETS,
    ("POST", "/api/v1/deployments"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/deployments/{deployment_id}/rollback"): _P.DEPLOY_ASSETS,
    ("GET", "/api/v1/partitions/{name}"): _P.VIEW_ASSETS,
    ("POST", "/api/v1/partitions/{name}"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/partitions/{name}/drop"): _P.DEPLOY_ASSETS,
    ("POST", "/api/v1/plans"): _P.TRIGGER_RUNS,
    ("GET", "/api/v1/runs"): _P.VIEW_RUNS,
    ("POST", "/api/v1/runs"): _P.TRIGGER_RUNS,
    ("GET", "/api/v1/runs/{run_id}"): _P.VIEW_RUNS,
    ("GET", "/api/v1/runs/{run_id}/tasks"): _P.VIEW_RUNS,
    ("GET", "/api/v1/runs/{run_id}/task"): _P.VIEW_RUNS,
    ("GET", "/api/v1/runs/{run_id}/logs"): _P.VIEW_RUNS,
    ("GET", "/api/v1/runs/{run_id}/progress"): _P.VIEW_RUNS,
    ("GET", "/api/v1/runs/{run_id}/explain"): _P.VIEW_RUNS,
    ("POST", "/api/v1/runs/{run_id}/cancel"): _P.CANCEL_RUNS,
    ("POST", "/api/v1/runs/{run_id}/rerun"): _P.TRIGGER_RUNS,
    ("POST", "/api/v1/query"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/diff"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/revisions"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/audit"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/operations/{operation_id}"): _P.VIEW_ASSETS,
    ("POST", "/api/v1/browser/urls"): _P.VIEW_ASSETS,
    ("GET", "/api/v1/keys"): _P.MANAGE_KEYS,
    ("POST", "/api/v1/keys"): _P.MANAGE_KEYS,
    ("DELETE", "/api/v1/keys/{key_id}"): _P.MANAGE_KEYS,
    ("GET", "/api/v1/roles"): _P.MANAGE_ROLES,
    ("PUT", "/api/v1/roles/{principal}"): _P.MANAGE_ROLES,
    ("DELETE", "/api/v1/roles/{principal}"): _P.MANAGE_ROLES,
    ("GET", "/api/v1/settings"): _P.TENANT_SETTINGS,
    ("PATCH", "/api/v1/settings"): _P.TENANT_SETTINGS,
    ("GET", "/api/v1/requests"): _P.TENANT_SETTINGS,
    ("GET", "/api/v1/whoami"): None,
}

BESIDE: Final[dict[tuple[str, str], Permission | None]] = {("GET", "/metrics"): _P.VIEW_ASSETS}
"""Routes that are not of the API and ask who wants to know nevertheless."""


def allowed(role: UserRole, permission: Permission | None) -> bool:
    return permission is None or role in MATRIX[permission]


def permissions_of(role: UserRole) -> list[str]:
    return [permission.value for permission in Permission if role in MATRIX[permission]]

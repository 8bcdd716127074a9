"""The operations of the Iceberg catalog below `/iceberg`, and the permission each asks for.

Paths are written as Iceberg's own document writes them, because clients compare them with what `/v1/config` lists. The
same table guards the routes, lists them there, and is walked by a test: an operation that is not in it cannot be asked.
"""

from typing import Final

from arco.api._permissions import Permission

__all__ = ["COMMITS", "ICEBERG_ROUTES", "LARGE", "PUBLIC", "Operation", "advertised"]

Operation = tuple[str, str]
"""Method and path."""

_P: Final = Permission
_N: Final = "/v1/{prefix}/namespaces"
_TABLES: Final = f"{_N}/{{namespace}}/tables"
_TABLE: Final = f"{_TABLES}/{{table}}"
_VIEWS: Final = f"{_N}/{{namespace}}/views"
_VIEW: Final = f"{_VIEWS}/{{view}}"

ICEBERG_ROUTES: Final[dict[Operation, Permission | None]] = {
    ("GET", "/v1/config"): None,
    ("POST", "/v1/oauth/tokens"): None,
    ("GET", _N): _P.VIEW_ASSETS,
    ("POST", _N): _P.DEPLOY_ASSETS,
    ("GET", f"{_N}/{{namespace}}"): _P.VIEW_ASSETS,
    ("HEAD", f"{_N}/{{namespace}}"): _P.VIEW_ASSETS,
    ("DELETE", f"{_N}/{{namespace}}"): _P.DEPLOY_ASSETS,
    ("POST", f"{_N}/{{namespace}}/properties"): _P.EDIT_METADATA,
    ("GET", _TABLES): _P.VIEW_ASSETS,
    ("POST", _TABLES): _P.DEPLOY_ASSETS,
    ("POST", f"{_N}/{{namespace}}/register"): _P.DEPLOY_ASSETS,
    ("GET", _TABLE): _P.VIEW_ASSETS,
    ("POST", _TABLE): _P.DEPLOY_ASSETS,
    ("DELETE", _TABLE): _P.DEPLOY_ASSETS,
    ("HEAD", _TABLE): _P.VIEW_ASSETS,
    ("POST", f"{_TABLE}/unregister"): _P.DEPLOY_ASSETS,
    ("GET", f"{_TABLE}/credentials"): _P.VIEW_ASSETS,
    ("POST", f"{_TABLE}/sign"): _P.VIEW_ASSETS,
    ("POST", f"{_TABLE}/metrics"): _P.VIEW_ASSETS,
    ("POST", f"{_TABLE}/plan"): _P.VIEW_ASSETS,
    ("GET", f"{_TABLE}/plan/{{plan-id}}"): _P.VIEW_ASSETS,
    ("DELETE", f"{_TABLE}/plan/{{plan-id}}"): _P.VIEW_ASSETS,
    ("POST", f"{_TABLE}/tasks"): _P.VIEW_ASSETS,
    ("POST", "/v1/{prefix}/tables/rename"): _P.DEPLOY_ASSETS,
    ("POST", "/v1/{prefix}/transactions/commit"): _P.DEPLOY_ASSETS,
    ("GET", _VIEWS): _P.VIEW_ASSETS,
    ("POST", _VIEWS): _P.DEPLOY_ASSETS,
    ("POST", f"{_N}/{{namespace}}/register-view"): _P.DEPLOY_ASSETS,
    ("GET", _VIEW): _P.VIEW_ASSETS,
    ("POST", _VIEW): _P.DEPLOY_ASSETS,
    ("DELETE", _VIEW): _P.DEPLOY_ASSETS,
    ("HEAD", _VIEW): _P.VIEW_ASSETS,
    ("POST", "/v1/{prefix}/views/rename"): _P.DEPLOY_ASSETS,
}
"""`None`: any known caller. Signing and credentials look at the role once more: only who may write gets a right to."""

PUBLIC: Final[frozenset[Operation]] = frozenset({("POST", "/v1/oauth/tokens")})
"""Asked by who has nothing but the key in the body."""

COMMITS: Final[frozenset[Operation]] = frozenset(
    {("POST", _TABLE), ("POST", _VIEW), ("POST", "/v1/{prefix}/transactions/commit")}
)
"""Where a conflict means that the client should read again and try on what it finds."""

LARGE: Final[frozenset[Operation]] = COMMITS | {("POST", _TABLES), ("POST", _VIEWS)}
"""Whose bodies hold parts of metadata documents, which have thousands of columns or snapshots."""


def advertised() -> list[str]:
    """What `/v1/config` lists: everything behind a prefix. How to begin is no capability."""
    return [f"{method} {path}" for method, path in ICEBERG_ROUTES if "{prefix}" in path]

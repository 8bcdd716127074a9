"""The rights of a role as a custom role of Azure with a condition (ABAC) on the paths of blobs.

`blobs/add/action` without `blobs/write` creates blobs and replaces none, which is what `create` means here. Built from
Microsoft's documentation, not tried against the service. Keys of the account and signatures made with them (SAS) are
above any condition: processes that shall be held to their role use identities of their own.
"""

from collections.abc import Sequence
from typing import Any

from arco.core import Invalid
from arco.storage._paths import below
from arco.storage._role import (
    NEVER_DELETED,
    SOME_INCARNATION,
    Action,
    Role,
    check_incarnation,
    in_policy,
    write_grants,
)
from arco.storage._scope import Scope

__all__ = ["azure_policy"]

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_PATH = f"@Resource[{_BLOBS}:path]"
_PREFIX = f"@Request[{_BLOBS}:prefix]"
_DATA_ACTIONS = {
    Action.CREATE: f"{_BLOBS}/add/action",
    Action.OVERWRITE: f"{_BLOBS}/write",
    Action.DELETE: f"{_BLOBS}/delete",
}
_CONTAINER = (
    "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Storage/storageAccounts/{account}"
    "/blobServices/default/containers/"
)
_NOT_EXPRESSED = [
    "who may read a private file may sign a URL for it: conditions do not see how a request is signed; Arco signs none",
]


def azure_policy(
    role: Role, container: str, scope: Scope, incarnation: str, prefix: str = "", *, former: Sequence[str] = ()
) -> dict[str, Any]:
    """A role definition and the condition of its assignment; the names in braces of its scope are to be filled in.
    `former` are the incarnations before the one in use."""
    root = below(prefix, scope.root)
    for name in (incarnation, *former):
        check_incarnation(name)
    if "'" in root:
        raise Invalid("a prefix with ' cannot stand in a condition of Azure; choose another one")
    actions = [f"{_BLOBS}/read"]
    clauses = [
        _clause(f"ActionMatches{{'{_BLOBS}/read'}} AND NOT SubOperationMatches{{'Blob.List'}}", _below(_PATH, root)),
        _clause(f"ActionMatches{{'{_BLOBS}/read'}} AND SubOperationMatches{{'Blob.List'}}", _below(_PREFIX, root)),
    ]

    def like(operator: str, pattern: str) -> list[str]:
        texts = in_policy(pattern, incarnation, former, SOME_INCARNATION)
        return [f"{_PATH} {operator} '{root}/{text}'" for text in texts]

    for action, name in _DATA_ACTIONS.items():
        patterns = [grant.pattern for grant in write_grants(role) if action in grant.actions]
        if not patterns:
            continue
        allowed = " OR ".join(term for pattern in patterns for term in like("StringLike", pattern))
        if action is Action.DELETE:
            kept = " AND ".join(term for pattern in NEVER_DELETED for term in like("StringNotLike", pattern))
            allowed = f"({allowed}) AND {kept}"
        actions.append(name)
        clauses.append(_clause(f"ActionMatches{{'{name}'}}", allowed))
    return {
        "role_definition": {
            "Name": f"Arco {role} of {scope.root}",
            "IsCustom": True,
            "Actions": [],
            "DataActions": actions,
            "AssignableScopes": [f"{_CONTAINER}{container}"],
        },
        "condition": " AND ".join(clauses),
        "condition_version": "2.0",
        "not_expressed": _NOT_EXPRESSED,
    }


def _clause(when: str, allowed: str) -> str:
    """Whatever is not the action passes; the action needs what follows."""
    return f"((!({when})) OR ({allowed}))"


def _below(attribute: str, root: str) -> str:
    return f"{attribute} StringStartsWith '{root}/'"

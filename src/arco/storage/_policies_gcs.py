"""The rights of a role as IAM bindings of Google Cloud, with conditions on object names.

Whoever may create an object there may not replace it: that takes the right to delete as well. So `create` alone is
what `create` means here, and who may overwrite a path can also delete it; the document says so. A condition knows no
`*` inside a name, but `extract` finds what stands between two texts; a pattern with several is asked for one after the
other. It may hold twelve logical operators, so that many patterns take several bindings. Built from Google's
documentation, not tried against the service.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from arco.storage._paths import below
from arco.storage._role import NEVER_DELETED, Action, Role, check_incarnation, in_policy, write_grants
from arco.storage._scope import Scope

__all__ = ["gcs_policy"]

MAX_OPERATORS = 12

_SOME_INCARNATION = "inc-*"

_OVERWRITER = "arco.objectOverwriter"
_DELETER = "arco.objectDeleter"
_CUSTOM = {
    _OVERWRITER: ["storage.objects.create", "storage.objects.delete"],
    _DELETER: ["storage.objects.delete"],
}
_NOT_EXPRESSED = [
    "folders of former incarnations are known by their names alone, at whatever depth; Arco has none of them twice",
    "who may overwrite a path may delete it too: an overwrite needs storage.objects.delete",
    "who may read a private file may sign a URL for it: conditions do not see how a request is signed; Arco signs none",
]


def gcs_policy(
    role: Role, bucket: str, scope: Scope, incarnation: str, prefix: str = "", *, former: Sequence[str] = ()
) -> dict[str, Any]:
    """Bindings for a role in one workspace, without members; `prefix` is that of the store's URL, `former` are the
    incarnations before the one in use.

    `custom_roles` are to be created once a project (`gcloud iam roles create`), `bindings` to be added to the bucket.
    """
    root = below(prefix, scope.root)
    for name in (incarnation, *former):
        check_incarnation(name)

    def matches(*patterns: str) -> list[str]:
        texts = (text for one in patterns for text in in_policy(one, incarnation, former, _SOME_INCARNATION))
        return [_matches(f"projects/_/buckets/{bucket}/objects/{root}/{text}") for text in texts]

    def granted(action: Action) -> list[str]:
        return matches(*(grant.pattern for grant in write_grants(role) if action in grant.actions))

    listed = f'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith({json.dumps(f"{root}/")})'
    kept = " || ".join(matches(*NEVER_DELETED))
    bindings = [_binding("roles/storage.objectViewer", "Read", " || ".join([*matches("*"), listed]))]
    bindings += _bindings("roles/storage.objectCreator", "Create", granted(Action.CREATE))
    bindings += _bindings(_OVERWRITER, "Overwrite", granted(Action.OVERWRITE))
    bindings += _bindings(_DELETER, "Delete", granted(Action.DELETE), unless=kept)
    return {
        "custom_roles": [
            {"name": name, "includedPermissions": permissions}
            for name, permissions in _CUSTOM.items()
            if any(binding["role"] == name for binding in bindings)
        ],
        "bindings": bindings,
        "not_expressed": _NOT_EXPRESSED,
    }


def _matches(pattern: str) -> str:
    """CEL for a pattern of `_role`, in which `*` is any text."""
    first, *between = pattern.split("*")
    if not between:
        return f"resource.name == {json.dumps(pattern)}"
    last = between.pop()
    if between:
        tests = [
            f'resource.name.extract({json.dumps(f"{before}{{any}}{after}")}) != ""'
            for before, after in pairwise([first, *between])
        ]
    else:
        tests = [f"resource.name.startsWith({json.dumps(first)})"]
    if last:
        tests.append(f"resource.name.endsWith({json.dumps(last)})")
    return tests[0] if len(tests) == 1 else f"({' && '.join(tests)})"


def _bindings(role: str, title: str, conditions: list[str], unless: str = "") -> list[dict[str, Any]]:
    """As many as it takes to stay below the limit of operators."""
    spent = _operators(unless) + 2 if unless else 0
    found: list[list[str]] = []
    left = 0
    for text in conditions:
        needed = _operators(text) + 1
        if not found or needed > left:
            found.append([])
            left = MAX_OPERATORS - spent
        found[-1].append(text)
        left -= needed
    bindings = []
    for number, texts in enumerate(found, 1):
        condition = " || ".join(texts)
        if unless:
            condition = f"({condition}) && !({unless})"
        bindings.append(_binding(role, title if len(found) == 1 else f"{title} {number}", condition))
    return bindings


def _operators(text: str) -> int:
    return sum(text.count(operator) for operator in ("&&", "||", "!("))


def _binding(role: str, title: str, expression: str) -> dict[str, Any]:
    return {"role": role, "members": [], "condition": {"title": f"Arco: {title}", "expression": expression}}

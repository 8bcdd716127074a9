"""What S3 decides by a policy document: as much of it as `arco policy` writes, and no more."""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["evaluate"]


def evaluate(policy: Mapping[str, Any], action: str, resource: str, context: Mapping[str, str]) -> bool:
    """A matching Deny wins, else a matching Allow is needed."""
    effects = [
        statement["Effect"]
        for statement in policy["Statement"]
        if statement["Action"] == action
        and any(like(pattern, resource) for pattern in statement["Resource"])
        and all(
            holds(operator, key, value, context)
            for operator, pairs in statement.get("Condition", {}).items()
            for key, value in pairs.items()
        )
    ]
    return "Allow" in effects and "Deny" not in effects


def like(pattern: str, text: str) -> bool:
    """`*` is any text, slashes included; `?` is any one character."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), text) is not None


def holds(operator: str, key: str, value: str, context: Mapping[str, str]) -> bool:
    if operator == "Null":
        return (key not in context) == (value == "true")
    if operator == "StringEquals":
        return context.get(key) == value
    assert operator == "StringLike"
    return key in context and like(value, context[key])

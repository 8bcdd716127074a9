"""Bucket policies for the roles, written from the same table that `RoleStore` decides by.

One document per role, for an S3 user or role, who may have several: none denies what another one grants. It names the
incarnation in use; export it again after a restore, which also shuts out whoever still runs on the old one. Only the
collector has rights on those before it, which it buries. The document of the role backup is for the bucket that backups
go to.

- Reading is granted for the whole workspace. The list right is what makes S3 answer 404 instead of 403 for a missing
  object; S3 takes the object's own name for `s3:prefix` then.
- Creating needs the `If-None-Match` header, overwriting does not: the condition key `s3:if-none-match` tells them
  apart.
- What must never be signed may not be read by a signed URL (`s3:authType`).
"""

from collections.abc import Sequence
from typing import Any

from arco.storage._paths import below
from arco.storage._role import (
    NEVER_DELETED,
    NEVER_SIGNED,
    SOME_INCARNATION,
    Action,
    Role,
    check_incarnation,
    in_policy,
    write_grants,
)
from arco.storage._scope import Scope

__all__ = ["s3_policy"]


def s3_policy(
    role: Role, bucket: str, scope: Scope, incarnation: str, prefix: str = "", *, former: Sequence[str] = ()
) -> dict[str, Any]:
    """The policy document of a role in one workspace; `prefix` is that of the store's URL, `former` are the
    incarnations before the one in use."""
    root = below(prefix, scope.root)
    for name in (incarnation, *former):
        check_incarnation(name)

    def objects(*patterns: str) -> list[str]:
        return [
            f"arn:aws:s3:::{bucket}/{root}/{text}"
            for pattern in patterns
            for text in in_policy(pattern, incarnation, former, SOME_INCARNATION)
        ]

    def granted(action: Action) -> list[str]:
        return objects(*(grant.pattern for grant in write_grants(role) if action in grant.actions))

    return {
        "Version": "2012-10-17",
        "Statement": [
            _statement("Read", "Allow", "s3:GetObject", objects("*")),
            _statement(
                "List", "Allow", "s3:ListBucket", [f"arn:aws:s3:::{bucket}"], StringLike={"s3:prefix": f"{root}/*"}
            ),
            _statement("Create", "Allow", "s3:PutObject", granted(Action.CREATE), Null={"s3:if-none-match": "false"}),
            _statement("Overwrite", "Allow", "s3:PutObject", granted(Action.OVERWRITE)),
            _statement("Delete", "Allow", "s3:DeleteObject", granted(Action.DELETE)),
            _statement("NeverDelete", "Deny", "s3:DeleteObject", objects(*NEVER_DELETED)),
            _statement(
                "NeverSign",
                "Deny",
                "s3:GetObject",
                objects(*NEVER_SIGNED),
                StringEquals={"s3:authType": "REST-QUERY-STRING"},
            ),
        ],
    }


def _statement(
    name: str, effect: str, action: str, resources: list[str], **condition: dict[str, str]
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Sid": name, "Effect": effect, "Action": action, "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement

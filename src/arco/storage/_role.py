"""Who may write where: one table from which `RoleStore` decides and `s3_policy` writes its documents.

A *role* is what a process does. A *grant* gives it actions on the paths that match a pattern, relative to the
workspace. In a pattern `*` is anything, `/` included, which is what it means in a bucket policy. The folder of an
incarnation (one segment) is `{inc}` for the one in use, `{any}` for that and all before it, `{former}` for those before
it alone. A handle does not know which one is in use and takes the first two for any; a policy tells them apart. What
only a former one may get needs its name: a handle is made for one, a policy names them all. Everybody may read
everything of the workspace. Nobody may sign what is private: a signed URL carries no role. Nobody deletes a floor: it
proves that numbers below it may be gone.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from arco.core import Invalid
from arco.storage._store import check_path

__all__ = [
    "NEVER_DELETED",
    "NEVER_SIGNED",
    "SHARED",
    "SOME_INCARNATION",
    "Action",
    "Grant",
    "Role",
    "check_incarnation",
    "in_policy",
    "may",
    "write_grants",
]


class Role(StrEnum):
    OWNER = "owner"
    COMPACTOR = "compactor"
    COLLECTOR = "collector"
    READER = "reader"
    ICEBERG = "iceberg"
    WORKER = "worker"
    SPARK = "spark"
    """A worker whose assets run on Spark. Spark writes below `_temporary`, renames, and never asks for a create."""
    ADMIN = "admin"
    """Creates incarnations: writes a whole one, seals the one before it, and deletes nothing."""
    BACKUP = "backup"
    """Copies a workspace to another store, and there lets old backups go. It holds no rights on the workspace."""


class Action(StrEnum):
    """What a path may be asked for, beside reading."""

    CREATE = "create"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Grant:
    pattern: str
    actions: frozenset[Action]


SHARED = frozenset({"backups", "blobs", "code", "data", "incarnations", "landing", "logs", "selftest", "warehouse"})
"""The folders beside the incarnations. No incarnation may have one of these names. In `landing` only others
write; in `warehouse` engines write the data of Iceberg tables, and Arco their metadata."""

SOME_INCARNATION = f"inc-{'?' * 26}"
"""Any incarnation, in a policy in which `?` is one character: `*` would reach into its folders."""

NEVER_SIGNED = ("{any}/private/*",)
_FLOORS = ("{any}/ledger/*/floor/*", "{any}/manifests/*/floor/*", "{any}/iceberg/pointers/*/floor/*")
NEVER_DELETED = (*_FLOORS, "backups/floor/*")

_SELF_TEST = Grant("selftest/*", frozenset({Action.CREATE, Action.OVERWRITE, Action.DELETE}))


def _grants(action: Action, *patterns: str) -> tuple[Grant, ...]:
    return tuple(Grant(pattern, frozenset({action})) for pattern in patterns)


_TABLE: dict[Role, tuple[Grant, ...]] = {
    Role.OWNER: (
        *_grants(Action.CREATE, "{inc}/ledger/*", "blobs/*", "code/*"),
        *_grants(Action.OVERWRITE, "{inc}/ledger/*/hint"),
    ),
    Role.COMPACTOR: (
        *_grants(Action.CREATE, "{inc}/state/*", "{inc}/private/*", "{inc}/manifests/*", "{inc}/packs/*"),
        *_grants(Action.OVERWRITE, "{inc}/manifests/*/hint"),
    ),
    Role.COLLECTOR: (
        *_grants(Action.CREATE, *_FLOORS),
        # The bare manifest after the last one of a former incarnation. Its number begins with 0, as all do.
        *_grants(Action.CREATE, "{former}/manifests/*/0*/*"),
        *_grants(Action.DELETE, "{any}/ledger/*", "{any}/state/*", "{any}/private/*", "{any}/manifests/*"),
        *_grants(Action.DELETE, "{any}/packs/*", "{any}/iceberg/*", "data/*", "logs/*", "warehouse/*"),
        # What only an erasure deletes, and what it leaves of the incarnation before it.
        *_grants(Action.DELETE, "blobs/*", "code/*", "{any}/successors/*"),
    ),
    Role.READER: (),
    Role.ICEBERG: _grants(Action.CREATE, "{inc}/iceberg/*", "warehouse/*"),
    Role.WORKER: _grants(Action.CREATE, "data/*", "logs/*"),
    Role.SPARK: (
        *_grants(Action.CREATE, "data/*", "logs/*"),
        *_grants(Action.OVERWRITE, "data/*"),
        *_grants(Action.DELETE, "data/*/_temporary/*"),
    ),
    Role.ADMIN: _grants(
        Action.CREATE,
        "incarnations/*",
        *(f"{{inc}}/{folder}/*" for folder in ("ledger", "manifests", "state", "private", "iceberg", "successors")),
        *(f"{folder}/*" for folder in ("blobs", "code", "data", "warehouse")),
    ),
    Role.BACKUP: (*_grants(Action.CREATE, "backups/*"), *_grants(Action.DELETE, "backups/*")),
}


def write_grants(role: Role) -> tuple[Grant, ...]:
    """Everything the role may write or delete, the self-test's folder included."""
    return (*_TABLE[role], _SELF_TEST)


def may(role: Role, action: Action, path: str, former: str = "") -> bool:
    """Whether the role may do this to a path of the workspace; `former` is the former incarnation that it may end."""
    if action is Action.SIGN:
        return not _matches_any(NEVER_SIGNED, path)
    if action is Action.DELETE and _matches_any(NEVER_DELETED, path):
        return False
    patterns = (grant.pattern for grant in write_grants(role) if action in grant.actions)
    known = (pattern.replace("{former}", former) for pattern in patterns if former or "{former}" not in pattern)
    return _matches_any(tuple(known), path)


def in_policy(pattern: str, incarnation: str, former: Iterable[str], some: str) -> list[str]:
    """What a pattern is in a policy for the incarnation in use and those before it; `some` is how it spells any."""
    if "{former}" in pattern:
        return [pattern.replace("{former}", name) for name in former]
    return [pattern.replace("{inc}", incarnation).replace("{any}", some)]


def check_incarnation(name: str) -> str:
    """The name itself if it may name an incarnation's folder, else `Invalid`."""
    if "/" in check_path(name) or name in SHARED:
        raise Invalid(f"{name!r} cannot name an incarnation; use one segment other than {', '.join(sorted(SHARED))}")
    return name


def _matches_any(patterns: tuple[str, ...], path: str) -> bool:
    return _compiled(patterns).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    incarnation = rf"(?!(?:{'|'.join(sorted(SHARED))})/)[^/]+"
    texts = (
        re.sub(r"\\{\w+\\}", lambda _: incarnation, re.escape(pattern)).replace(r"\*", ".*") for pattern in patterns
    )
    return re.compile("|".join(texts) or r"(?!)")

"""`look_behind`: the first incarnation is not there. Was the workspace never created, or is the object lost?

It is the oldest object of a workspace and is never written again, so a rule that deletes by age takes it first. Nothing
names it, so a list of what lies beside it is all that tells. The list is made only where the answer would else be that
there is no workspace, and all it can do is to refuse: who creates one is settled by the create.
"""

from collections.abc import Callable

from arco.core import LostObject, Runtime
from arco.storage import SHARED, RequestCounts, Role, RoleStore, Scope, Sequence, Store

__all__ = ["INCARNATIONS", "is_nameless", "look_behind"]

INCARNATIONS = "incarnations"

ENOUGH = 10_000
"""Objects that are looked at once something was found, or for somebody who may be anybody."""

_NO_SIGN = frozenset({"backups", "landing", "selftest"})
"""Folders that may be there before the workspace is: others write them, or an `init` that was killed."""


def _is_no_sign(path: str) -> bool:
    return path.partition("/")[0] in _NO_SIGN


async def look_behind(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    is_expected: Callable[[str], bool] = _is_no_sign,
    *,
    briefly: bool = False,
) -> bool:
    """Whether the workspace is there after all, because somebody created it meanwhile.

    `LostObject` if there is more of it than what `is_expected` says of paths without a workspace. Who only answers
    others may look `briefly`: what lies behind many objects of no workspace is not seen then.
    """
    store = RoleStore(base, scope, Role.READER, RequestCounts())
    found: set[str] = set()
    seen = 0
    async for info in store.list(""):
        seen += 1
        if not is_expected(info.path):
            found.add(info.path.partition("/")[0])
        if (found or briefly) and seen >= ENOUGH:
            break
    if not found:
        return False
    incarnations = Sequence(store, INCARNATIONS, runtime)
    if await incarnations.exists(1):
        return True
    raise _lost(scope, incarnations.path(1), found)


def is_nameless(error: LostObject) -> bool:
    """Whether what is lost is the first incarnation, so that the workspace cannot be found by its name."""
    return str(error.details.get("path", "")).startswith(f"{INCARNATIONS}/")


def _lost(scope: Scope, path: str, found: set[str]) -> LostObject:
    lives = sorted(found - SHARED)
    others = sorted(found & SHARED)
    beside = ", ".join(f"{folder}/" for folder in [*lives, *others])
    if lives or INCARNATIONS in found:
        cure = (
            "end that rule and stop the servers, then put the object back from the bucket's own versions, or write it "
            'anew (docs/stores.md, "Rules that delete"); if an `arco restore` into this store was interrupted, '
            "run the same one again"
        )
    else:
        cure = (
            "end that rule, then go on from the newest backup with `arco restore`; if these are of no workspace, "
            "move them away or choose another name"
        )
    return LostObject(
        f"{path} is missing, but of the workspace {scope.root} there is {beside}: something deleted the object, "
        f"perhaps a lifecycle rule of the bucket; {cure}",
        path=path,
        incarnations=lives,
    )

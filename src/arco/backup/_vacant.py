"""`check_vacant`: may a store without a workspace be restored into, or did a workspace lose its first incarnation?

Restoring beside one would leave its servers writing where nobody reads: which folder is the newest, and has to be
sealed, nobody can tell.
"""

from collections.abc import Callable

from arco.backup._cut import Cut
from arco.backup._format import Backup
from arco.backup._target import LOGS
from arco.core import Conflict, Runtime
from arco.log import Place
from arco.runtime import INCARNATIONS, Incarnation, look_behind
from arco.state import Layout
from arco.storage import SHARED, RequestCounts, Role, RoleStore, Scope, Sequence, Store

__all__ = ["check_vacant"]


async def check_vacant(base: Store, scope: Scope, runtime: Runtime, backup: Backup, cut: Cut, new: Incarnation) -> None:
    """`LostObject` if there is more than what others copied back, or what the same restore left when it was
    interrupted."""
    if await look_behind(base, scope, runtime, _leftovers(base, scope, runtime, backup, cut, new)):
        raise Conflict(f"the workspace {scope.root} was created meanwhile; look at it, then decide")


def _leftovers(
    base: Store, scope: Scope, runtime: Runtime, backup: Backup, cut: Cut, new: Incarnation
) -> Callable[[str], bool]:
    store = RoleStore(base, scope, Role.READER, RequestCounts())
    ends: dict[str, str] = {}
    for log in LOGS:
        ledger = Layout(Place(scope.tenant, scope.workspace, new.id, log)).ledger
        # One beyond the cut: the event that says where the new incarnation comes from.
        ends[f"{ledger}/0"] = Sequence(store, ledger, runtime).path(cut.numbers[log] + 1)

    def is_left_over(path: str) -> bool:
        folder = path.partition("/")[0]
        if folder == new.id:  # if it was opened and then lost, others wrote on
            return not any(path.startswith(ledger) and path > last for ledger, last in ends.items())
        if folder == backup.incarnation:  # the fence, which is raised before the last create
            return "/floor/" in path
        return folder in SHARED and folder != INCARNATIONS

    return is_left_over

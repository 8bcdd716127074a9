"""Whose a backup is. A vault is found by the names of tenant and workspace, and names may be the same by chance: each
`arco init` calls a workspace default/default. What tells them apart is where an incarnation comes from.
"""

from collections.abc import Sequence

from arco.backup._format import Backup
from arco.backup._vault import Vault
from arco.core import Refused
from arco.runtime import Incarnation, Workspace

__all__ = ["check_kin", "is_kin"]


def is_kin(backup: Backup, lives: Sequence[Incarnation]) -> bool:
    """Whether a workspace with these incarnations made the backup, or was restored from it or beside it."""
    known = {life.id for life in lives} | {life.previous for life in lives}
    return backup.incarnation in known or backup.id in {life.backup for life in lives}


async def check_kin(vault: Vault, workspace: Workspace, newest: Backup | None) -> None:
    """`Refused` if no backup in the vault is of this workspace: among those of another one its own would be taken for
    theirs. Nothing is asked if the newest one is of the incarnation that is open."""
    if newest is None or newest.incarnation == workspace.incarnation.id:
        return
    lives = await workspace.lives()
    if is_kin(newest, lives):
        return
    survey = await vault.survey()  # somebody may have restored an old one elsewhere, and backed that up here
    if not any(is_kin(backup, lives) for backup in survey.backups):
        raise Refused(
            f"the backups of {workspace.scope.root} there are of {newest.incarnation} at {newest.store}, and not of "
            "this workspace: another one has its name; name another store with --to"
        )

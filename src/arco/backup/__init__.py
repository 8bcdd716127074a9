"""Backups of a workspace in another store, and going on from one: in a new incarnation, with the old one sealed.

    take_backup -> Vault (backups/{n}, content by hash) -> plan_restore -> restore -> seal, incarnations/{n+1}

A backup is a pinned pair of positions with everything the log names, copied once and never again. docs/backup.md is the
guide, ADR 0035 has the reasons.
"""

from arco.backup._cut import Cut, Moment
from arco.backup._format import Backup
from arco.backup._prune import Pruned, prune
from arco.backup._restore import Plan, Restored, plan_restore, restore
from arco.backup._schedule import BackupLoop, Schedule
from arco.backup._take import Taken, take_backup
from arco.backup._vault import Vault
from arco.backup._verify import compare_restored, verify_backup

__all__ = [
    "Backup",
    "BackupLoop",
    "Cut",
    "Moment",
    "Plan",
    "Pruned",
    "Restored",
    "Schedule",
    "Taken",
    "Vault",
    "compare_restored",
    "plan_restore",
    "prune",
    "restore",
    "take_backup",
    "verify_backup",
]

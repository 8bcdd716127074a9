"""Backups of a workspace in another store, and going on from one: in a new incarnation, with the old one sealed.

    take_backup -> Vault (backups/{n}, content by hash) -> plan_restore -> restore -> seal, incarnations/{n+1} -> bury
    plan_erasure -> erase -> seal, incarnations/{n+1} -> bury

A backup is a pair of positions with everything the log names, copied once and never again. An erasure writes a
new incarnation too, without chosen events. `bury` deletes what is left of former incarnations, and `collect_workspace`
that and all else that nobody can reach. docs/backup.md and docs/erasure.md are the guides, ADR 0035 and 0040 have the
reasons.
"""

from arco.backup._collect import Cleared, collect_workspace
from arco.backup._collect_schedule import CollectionLoop, LastCollection
from arco.backup._cut import Cut, Moment
from arco.backup._erase import Erased, ErasurePlan, erase, plan_erasure
from arco.backup._format import Backup
from arco.backup._prune import Pruned, prune
from arco.backup._redact import Selection
from arco.backup._restore import Plan, Restored, plan_restore, restore
from arco.backup._schedule import BackupLoop, LastBackup, Schedule
from arco.backup._superseded import Buried, bury
from arco.backup._take import Taken, take_backup
from arco.backup._vault import Survey, Vault, shown_numbers
from arco.backup._verify import compare_objects, compare_restored, verify_backup

__all__ = [
    "Backup",
    "BackupLoop",
    "Buried",
    "Cleared",
    "CollectionLoop",
    "Cut",
    "Erased",
    "ErasurePlan",
    "LastBackup",
    "LastCollection",
    "Moment",
    "Plan",
    "Pruned",
    "Restored",
    "Schedule",
    "Selection",
    "Survey",
    "Taken",
    "Vault",
    "bury",
    "collect_workspace",
    "compare_objects",
    "compare_restored",
    "erase",
    "plan_erasure",
    "plan_restore",
    "prune",
    "restore",
    "shown_numbers",
    "take_backup",
    "verify_backup",
]

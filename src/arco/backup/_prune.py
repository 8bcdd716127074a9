"""Letting old backups go, and with them what no remaining backup names.

    which backups -> floor -> their manifests -> objects that nobody names

Backups go oldest first, so that those which stay are a run of numbers above the floor; the newest always stays. An
object goes only if no backup that stays names it and its folder lies below the newest number: an attempt that is still
under way builds on the newest one, names only what that one names, and writes into the newest folder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.backup._format import Backup
from arco.backup._vault import OBJECTS, Survey, Vault
from arco.core import Corrupt, LostObject, Refused, Runtime, new_ulid
from arco.storage import ObjectInfo

__all__ = ["Pruned", "prune"]


@dataclass(frozen=True)
class Pruned:
    backups: list[int]
    """Numbers of the backups that went, or would go."""
    objects: list[ObjectInfo]
    kept: int

    @property
    def bytes(self) -> int:
        return sum(info.size for info in self.objects)


async def prune(
    vault: Vault,
    runtime: Runtime,
    *,
    keep: int,
    before: int | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pruned:
    """Delete backups that were finished more than `keep` microseconds ago, or with `before` all of smaller numbers.

    One that cannot be read, or is missing, goes with those after it. If it would stay, nothing is deleted: nobody knows
    what it names.
    """
    survey = await vault.survey()
    if not survey.newest:
        return Pruned([], [], 0)
    if before is not None and before > survey.newest:
        raise Refused(
            f"backup {survey.newest} is the newest, which always stays; take another one first: `arco backup`"
        )
    through = before - 1 if before is not None else _old_through(survey.backups, runtime.now() - keep)
    stay = [backup for backup in survey.backups if backup.number > through]
    damaged = [number for number in sorted(survey.unreadable) if number > through]
    if damaged:
        raise _cannot_stay(survey, damaged[-1])
    named: set[str] = set()
    for backup in stay:
        async for content in vault.contents(backup, named):
            named.add(vault.path(content))
    garbage, kept = [], 0
    async for info in vault.objects():
        base = info.path.removeprefix(f"{OBJECTS}/").split("/", 1)[0]
        if not base.isdigit():
            raise Corrupt(f"{info.path} is nothing that a backup would write; look at it, then delete it yourself")
        if info.path in named or int(base) >= survey.newest:
            kept += 1
        else:
            garbage.append(info)
    goes = {*(backup.number for backup in survey.backups), *survey.unreadable} - {backup.number for backup in stay}
    numbers = sorted(goes.difference(survey.missing))
    if not dry_run:
        if goes:
            await vault.sequence.raise_floor(max(goes), new_ulid(runtime, runtime))
        for number in numbers:
            await vault.delete(vault.sequence.path(number))
        for done, info in enumerate(garbage, 1):
            await vault.delete(info.path)
            progress(done, len(garbage))
        await vault.remove_folders(survey.newest)
    return Pruned(numbers, garbage, kept)


def _old_through(backups: list[Backup], before: int) -> int:
    """The number of the last of the oldest that are old; one that is younger than its successors ends the run."""
    through = 0
    for backup in backups[:-1]:
        if backup.finished_at >= before:
            break
        through = backup.number
    return through


def _cannot_stay(survey: Survey, number: int) -> Corrupt:
    error = survey.unreadable[number]
    path = str(error.details.get("path", ""))
    what = f"backup {number} ({path}) {'is missing' if isinstance(error, LostObject) else 'cannot be read'}"
    if number == survey.newest:
        return Corrupt(f"{what}, and it is the newest, which always stays; `arco backup` says how to go on", path=path)
    return Corrupt(
        f"{what}, so nobody knows what it names, and nothing was deleted; `arco backup prune --before {number + 1}` "
        "lets it go with those before it",
        path=path,
    )

"""Letting old backups go, and with them what no remaining backup names.

    which backups -> floor -> their manifests -> objects that nobody names

Backups go oldest first, so that those which stay are a run of numbers above the floor; the newest always stays. An
object goes only if no backup that stays names it and its folder lies below the newest number: an attempt that is still
under way builds on the newest one, names only what that one names, and writes into the newest folder.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.backup._format import Backup
from arco.backup._vault import OBJECTS, Vault
from arco.core import Corrupt, Refused, Runtime, new_ulid
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

    A read error stops it before that.
    """
    backups = await vault.backups()
    if not backups:
        return Pruned([], [], 0)
    if before is not None and before > backups[-1].number:
        raise Refused(
            f"backup {backups[-1].number} is the newest, which always stays; take another one first: `arco backup`"
        )
    if before is not None:
        old = [backup for backup in backups if backup.number < before]
    else:
        old = [backup for backup in backups[:-1] if backup.finished_at < runtime.now() - keep]
    old = old[: _leading(backups, old)]
    stay = backups[len(old) :]
    named: set[str] = set()
    for backup in stay:
        async for content in vault.contents(backup, named):
            named.add(vault.path(content))
    garbage, kept = [], 0
    async for info in vault.objects():
        base = info.path.removeprefix(f"{OBJECTS}/").split("/", 1)[0]
        if not base.isdigit():
            raise Corrupt(f"{info.path} is nothing that a backup would write; look at it, then delete it yourself")
        if info.path in named or int(base) >= stay[-1].number:
            kept += 1
        else:
            garbage.append(info)
    numbers = [backup.number for backup in old]
    if not dry_run:
        if numbers:
            await vault.sequence.raise_floor(numbers[-1], new_ulid(runtime, runtime))
        for number in numbers:
            await vault.delete(vault.sequence.path(number))
        for done, info in enumerate(garbage, 1):
            await vault.delete(info.path)
            progress(done, len(garbage))
        await vault.remove_folders(stay[-1].number)
    return Pruned(numbers, garbage, kept)


def _leading(backups: list[Backup], old: list[Backup]) -> int:
    """How many of the oldest are old; one that is younger than its successors ends the run."""
    count = 0
    for backup, candidate in zip(backups, old, strict=False):
        if backup is not candidate:
            break
        count += 1
    return count

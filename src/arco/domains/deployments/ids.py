"""Which id each asset of a new project has. Ids stay through renames, removals and rollbacks.

In this order, the first that holds:

1. The key belongs to an asset that exists: that one.
2. It declares `renamed_from` a key whose asset goes with this deploy, or went before: that one.
3. The key belonged to an asset last: one that was removed comes back; one that was renamed and whose new key goes with
   this deploy gets its old key back (so that a rollback is the same deploy backwards).
4. A table of the catalog has that name: its id, because a table and the asset that makes it are one thing.
5. A new one.
"""

from collections.abc import Callable, Iterable, Mapping

from arco.assets import AssetDefinition
from arco.core import Invalid
from arco.domains.deployments.tables import AssetName, AssetRow, AssetStatus, NameState

__all__ = ["assign_ids"]


class _Assignment:
    def __init__(
        self, definitions: Iterable[AssetDefinition], assets: Mapping[str, AssetRow], names: Mapping[str, AssetName]
    ) -> None:
        self.definitions = {definition.key: definition for definition in definitions}
        self.assets = assets
        self.names = names
        self.ids: dict[str, str] = {}
        self.taken: dict[str, str] = {}

    def take(self, key: str, asset_id: str) -> None:
        self.ids[key] = asset_id
        self.taken[asset_id] = key

    def exists(self, key: str) -> bool:
        name = self.names.get(key)
        return name is not None and name.state == NameState.CURRENT

    def is_leaving(self, asset_id: str) -> bool:
        """Whether the new project has no asset under the key that this one has now."""
        return self.assets[asset_id].key not in self.definitions

    def declared(self, definition: AssetDefinition) -> str | None:
        """The asset that it says it was; `Invalid` if that cannot be."""
        for former in definition.renamed_from:
            name = self.names.get(former)
            if name is None:
                continue
            if former in self.definitions:
                if self.exists(former):
                    raise Invalid(
                        f"{definition.key} is declared as renamed from {former}, which is still in the project; remove "
                        f"{former} or the declaration"
                    )
                continue
            other = self.taken.get(name.asset_id)
            if other is not None:
                raise Invalid(f"{other} and {definition.key} are both declared as renamed from {former}; keep one")
            if self.is_leaving(name.asset_id) or self.assets[name.asset_id].status == AssetStatus.REMOVED:
                return name.asset_id
        return None

    def returning(self, key: str) -> str | None:
        """The asset that had the key last, if this deploy leaves it free."""
        name = self.names.get(key)
        if name is None or name.asset_id in self.taken:
            return None
        if name.state == NameState.REMOVED or self.is_leaving(name.asset_id):
            return name.asset_id
        return None


def assign_ids(
    definitions: Iterable[AssetDefinition],
    assets: Mapping[str, AssetRow],
    names: Mapping[str, AssetName],
    table_ids: Mapping[str, str],
    new_id: Callable[[str], str],
) -> dict[str, str]:
    """The id of every asset of a project, by key.

    `assets` by id, `names` by key: what is known before. `table_ids` by key: tables of the catalog with these names.
    """
    work = _Assignment(sorted(definitions, key=lambda definition: definition.key), assets, names)
    fresh: list[AssetDefinition] = []
    for key, definition in work.definitions.items():
        if work.exists(key):
            work.take(key, names[key].asset_id)
            _check_no_second_claim(work, definition)
        else:
            fresh.append(definition)
    rest: list[str] = []
    for definition in fresh:
        found = work.declared(definition)
        if found is None:
            rest.append(definition.key)
        else:
            work.take(definition.key, found)
    for key in rest:
        table = table_ids.get(key)
        usable = table is not None and table not in work.taken and table not in assets
        work.take(key, work.returning(key) or (table if usable and table else new_id(f"asset:{key}")))
    return work.ids


def _check_no_second_claim(work: _Assignment, definition: AssetDefinition) -> None:
    """An asset that exists cannot take over another one's history as well."""
    for former in definition.renamed_from:
        if work.exists(former) and former not in work.definitions:
            raise Invalid(
                f"{definition.key} is declared as renamed from {former}, but both exist; remove the declaration, or "
                f"remove {definition.key} in a deploy of its own first"
            )

"""Names: which asset a text means. People leave out the namespace, and use the key an asset had before."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches

import msgspec

from arco.assets._definition import AssetDefinition, CheckDefinition, Project
from arco.assets._rules import References
from arco.core import Invalid, shown

__all__ = ["ONLY_DIMENSION", "Lookup", "resolve"]

ONLY_DIMENSION = ""
"""Stands in the mappings of a dependency for its only dimension, until `resolve` knows its name."""

_NEAREST = 3


class Lookup:
    """Finds assets of a project by key, by former key, and by name alone where only one has it."""

    def __init__(self, assets: Iterable[AssetDefinition]) -> None:
        self._former: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        self._keys: dict[str, None] = {}
        # Sorted, so that of two assets that claim one former key the same one has it whatever their order.
        for asset in sorted(assets, key=lambda asset: asset.key):
            if asset.key in self._keys:
                continue
            self._keys[asset.key] = None
            self._names.setdefault(asset.key.partition(".")[2], []).append(asset.key)
            for former in asset.renamed_from:
                self._former.setdefault(former, asset.key)

    def find(self, text: str, namespace: str = "") -> str:
        """The key a text means. A name without namespace is looked for in `namespace` first, then everywhere."""
        for key in (text, f"{namespace}.{text}") if namespace and "." not in text else (text,):
            if key in self._keys:
                return key
            if key in self._former:
                return self._former[key]
        candidates = sorted(self._names.get(text, ()))
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise Invalid(
                f"{shown(text)} is ambiguous: {', '.join(candidates)}; write the key with its namespace",
                name=text,
                candidates=candidates,
            )
        near = self.nearest(text)
        cure = f"did you mean {' or '.join(near)}?" if near else self._hint()
        raise Invalid(f"there is no asset {shown(text)}; {cure}", name=text, nearest=near)

    def nearest(self, text: str) -> list[str]:
        """Keys that look like it."""
        close = get_close_matches(text, self._keys, _NEAREST)
        if "." not in text:
            names = get_close_matches(text, self._names, _NEAREST)
            close += [key for name in names for key in sorted(self._names[name])]
        return list(dict.fromkeys(close))[:_NEAREST]

    def _hint(self) -> str:
        known = sorted(self._keys)
        if not known:
            return "the project has no assets"
        return f"there are {len(known)} assets, such as {', '.join(known[:_NEAREST])}"


def resolve(project: Project) -> Project:
    """The project with every dependency and reference written as the key of the asset it means, sorted by key.

    What cannot be found stays as it is; `validate` reports it.
    """
    lookup = Lookup(project.assets)
    known = {asset.key: asset for asset in project.assets}
    assets = [_resolved(asset, lookup, known) for asset in project.assets]
    assets.sort(key=lambda asset: (asset.key, asset.file, asset.line))
    return msgspec.structs.replace(project, assets=tuple(assets))


def _resolved(asset: AssetDefinition, lookup: Lookup, known: Mapping[str, AssetDefinition]) -> AssetDefinition:
    namespace = asset.key.partition(".")[0]
    dependencies = []
    for dependency in asset.dependencies:
        try:
            key = lookup.find(dependency.key, namespace)
        except Invalid:
            dependencies.append(dependency)
            continue
        mappings = dict(dependency.mappings)
        if ONLY_DIMENSION in mappings and len(known[key].partitions) == 1:
            mappings[known[key].partitions[0].name] = mappings.pop(ONLY_DIMENSION)
        dependencies.append(msgspec.structs.replace(dependency, key=key, mappings=mappings))
    checks = tuple(_resolved_check(check, lookup, namespace) for check in asset.checks)
    return msgspec.structs.replace(asset, dependencies=tuple(dependencies), checks=checks)


def _resolved_check(check: CheckDefinition, lookup: Lookup, namespace: str) -> CheckDefinition:
    if not isinstance(check.rule, References):
        return check
    with suppress(Invalid):
        rule = msgspec.structs.replace(check.rule, asset=lookup.find(check.rule.asset, namespace))
        return msgspec.structs.replace(check, rule=rule)
    return check

"""What a deploy would change: a pure comparison of two projects.

- *added*, *removed*, *renamed*: by key. A rename is declared (`renamed_from`), or the way back from a declared one.
- *changed*: the code or fields of the definition. Where a definition stands in its file is no change, and neither is
  that a dependency has another name now.
- *affected*: whatever is made of something whose data may come out otherwise, directly or through others, with the
  nearest cause.
"""

from collections import deque
from typing import Final

import msgspec

from arco.assets import AssetDefinition, Project

__all__ = ["Affected", "Changed", "DeployDiff", "Renamed", "diff"]


class Value(msgspec.Struct, frozen=True):
    """A part of a difference."""


class Renamed(Value, frozen=True):
    before: str
    after: str


class Changed(Value, frozen=True):
    key: str
    """As the new project has it."""
    fields: tuple[str, ...]
    """Fields of the definition, sorted; `code` stands for the code that runs."""

    @property
    def is_code(self) -> bool:
        return _CODE in self.fields


class Affected(Value, frozen=True):
    key: str
    cause: str
    """The added, changed or renamed asset nearest to it."""
    through: str
    """The dependency of its own by which that reaches it; the cause itself if it is one."""

    @property
    def reason(self) -> str:
        if self.through == self.cause:
            return f"it is made of {self.cause}"
        return f"it is made of {self.through}, which depends on {self.cause}"


class DeployDiff(Value, frozen=True):
    added: tuple[str, ...] = ()
    changed: tuple[Changed, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    affected: tuple[Affected, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.removed or self.renamed)


_CODE: Final = "code"
_NOT_COMPARED: Final = frozenset({"key", "file", "line", "renamed_from"})
_HARMLESS: Final = frozenset(
    {"description", "owners", "tags", "retries", "timeout_seconds", "heartbeat_seconds", "checks", "gating", "format"}
)
"""Fields that change nothing in the data itself."""


def diff(before: Project | None, after: Project) -> DeployDiff:
    """What becomes of `before` when `after` is deployed."""
    old = {definition.key: definition for definition in before.assets} if before is not None else {}
    new = {definition.key: definition for definition in after.assets}
    renames = _renames(old, new)
    came_from = {after: before for before, after in renames.items()}
    changed = []
    for key in sorted(new):
        origin = came_from.get(key, key)
        if origin in old:
            fields = _changed_fields(old[origin], new[key], renames)
            if fields:
                changed.append(Changed(key, fields))
    added = tuple(key for key in sorted(new) if came_from.get(key, key) not in old)
    matters = [*added, *(change.key for change in changed if not set(change.fields) <= _HARMLESS)]
    return DeployDiff(
        added=added,
        changed=tuple(changed),
        removed=tuple(key for key in sorted(old) if key not in new and key not in renames),
        renamed=tuple(Renamed(key, renames[key]) for key in sorted(renames)),
        affected=_affected(new, matters),
    )


def _renames(old: dict[str, AssetDefinition], new: dict[str, AssetDefinition]) -> dict[str, str]:
    """Old key to new key. Only what goes can become what comes."""
    found: dict[str, str] = {}
    coming = [key for key in sorted(new) if key not in old]
    for key in coming:
        for former in new[key].renamed_from:
            if former in old and former not in new and former not in found:
                found[former] = key
                break
    taken = set(found.values())
    for former in sorted(old):
        if former in new or former in found:
            continue
        back = next((key for key in old[former].renamed_from if key in coming and key not in taken), None)
        if back is not None:
            found[former] = back
            taken.add(back)
    return found


def _changed_fields(old: AssetDefinition, new: AssetDefinition, renames: dict[str, str]) -> tuple[str, ...]:
    moved = msgspec.structs.replace(
        old,
        unit=renames.get(old.unit, old.unit),
        dependencies=tuple(
            msgspec.structs.replace(dependency, key=renames.get(dependency.key, dependency.key))
            for dependency in old.dependencies
        ),
    )
    fields = {
        name
        for name in new.__struct_fields__
        if name not in _NOT_COMPARED and getattr(moved, name) != getattr(new, name)
    }
    if "code_version" in fields:
        fields = fields - {"code_version"} | {_CODE}
    return tuple(sorted(fields))


def _affected(new: dict[str, AssetDefinition], causes: list[str]) -> tuple[Affected, ...]:
    downstream: dict[str, list[str]] = {}
    for key in sorted(new):
        for dependency in new[key].dependencies:
            downstream.setdefault(dependency.key, []).append(key)
    reached: dict[str, Affected] = {}
    queue = deque((key, key) for key in sorted(causes))
    known = set(causes)
    while queue:
        key, cause = queue.popleft()
        for below in downstream.get(key, ()):
            if below not in known:
                known.add(below)
                reached[below] = Affected(below, cause, key)
                queue.append((below, cause))
    return tuple(reached[key] for key in sorted(reached))

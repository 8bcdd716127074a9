"""What the Iceberg table of an asset lacks: a pure function of what it should hold and what it holds.

The branch `main` holds exactly the files of the current versions of all partitions. A version that is held back has a
branch of its own, on which its partition is as it would be if it were released; releasing it makes it current, so that
the next snapshot of `main` has its files and the branch goes.

    rows of versions -> `Wanted`  \
                                    -> `next_step` -> one change of the table, or nothing to do
    manifests        -> `Present` /

Whoever carries out a step asks again. After a crash it simply asks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "BRANCH",
    "CloseBranches",
    "HeldBack",
    "OpenBranch",
    "Present",
    "Publish",
    "Step",
    "Wanted",
    "branch_of",
    "next_step",
]

BRANCH: Final = "audit_"
"""What names of branches of held versions begin with."""


def branch_of(materialization_id: str) -> str:
    return f"{BRANCH}{materialization_id}"


@dataclass(frozen=True)
class HeldBack:
    """A version that its checks or somebody holds back."""

    materialization_id: str
    files: tuple[str, ...]
    replaces: tuple[str, ...]
    """Files of the current version of its partition."""


@dataclass(frozen=True)
class Wanted:
    files: Mapping[str, str]
    """Paths of the current versions, each with the version."""
    held: tuple[HeldBack, ...] = ()
    unknown: frozenset[str] = frozenset()
    """Current versions whose files nobody knows any more: what the table has of them stays."""


@dataclass(frozen=True)
class Present:
    files: Mapping[str, str]
    """Paths of the current snapshot, each with the version in whose folder it lies; empty if it is in none."""
    branches: frozenset[str] = field(default_factory=frozenset)
    """Names of branches of held versions."""


@dataclass(frozen=True)
class Publish:
    """The next snapshot of `main`."""

    operation: str
    """`append`, `overwrite`, `delete`, or `replace` where rows stay the same and lie in other files."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    versions: tuple[str, ...]
    """What is new in it."""


@dataclass(frozen=True)
class OpenBranch:
    name: str
    materialization_id: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class CloseBranches:
    names: tuple[str, ...]


Step = Publish | OpenBranch | CloseBranches


def next_step(wanted: Wanted, present: Present) -> Step | None:
    """What is to be done next; None if the table is as it should be."""
    added = tuple(path for path in wanted.files if path not in present.files)
    removed = tuple(
        path for path, version in present.files.items() if path not in wanted.files and version not in wanted.unknown
    )
    if added or removed:
        coming = _versions(wanted.files, added)
        new = tuple(name for name in coming if name not in set(present.files.values()))
        return Publish(_operation(wanted, present, added, removed), added, removed, new)
    names = {branch_of(one.materialization_id) for one in wanted.held}
    over = tuple(sorted(present.branches - names))
    if over:
        return CloseBranches(over)
    for one in wanted.held:
        name = branch_of(one.materialization_id)
        if name not in present.branches:
            new_files = tuple(path for path in one.files if path not in present.files)
            gone = tuple(path for path in one.replaces if path in present.files and path not in one.files)
            return OpenBranch(name, one.materialization_id, new_files, gone)
    return None


def _operation(wanted: Wanted, present: Present, added: Collection[str], removed: Collection[str]) -> str:
    if not removed:
        return "append"
    if not added:
        return "delete"
    coming, going = set(_versions(wanted.files, added)), set(_versions(present.files, removed))
    return "replace" if coming == going else "overwrite"


def _versions(files: Mapping[str, str], paths: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(files[path] for path in paths))

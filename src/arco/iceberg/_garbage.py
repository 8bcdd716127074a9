"""What of an Iceberg catalog's objects nobody needs any more: judged by what was listed and read, without any request.

- *Pointers* that are superseded, old, and told to the log. The newest of a table stays for ever.
- *Claims* of idempotency keys whose life is over: such a key is refused by the time in it, so nobody asks for them.
- *Decisions* of transactions that no pointer names any more.
- *Metadata files* of commits that lost their number to another, and, if the table wants that, those that fell out of
  its metadata log.
- *Manifests* of tables of assets, which Arco alone writes, that no snapshot names and none did a while ago.
- *Folders* of tables that were dropped to be purged.

Doubt deletes nothing: what does not look exactly like what Arco writes stays, and so does what is young, what the log
was not told yet, and every folder that another table may reach into.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from arco.storage import ObjectInfo

__all__ = [
    "Garbage",
    "GarbageKind",
    "contains",
    "logged_locations",
    "old_claims",
    "old_decisions",
    "old_manifests",
    "old_metadata",
    "pointer_floor",
    "pointer_place",
    "snapshot_of",
]

_POINTER = re.compile(r"(?P<table>[0-7][0-9A-HJKMNP-TV-Z]{25})/\d{13}/(?P<number>\d{20})")
_CLAIM = re.compile(r"(?P<key>[0-9a-f]{64})/\d{13}/\d{20}")
_METADATA = re.compile(r"(?P<number>\d{5,19})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.metadata\.json")

_MANIFEST = re.compile(r"(?:snap-(?P<snapshot>\d+)-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-m)?\.avro")

DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"


class GarbageKind(StrEnum):
    POINTER = "pointer"
    CLAIM = "claim"
    DECISION = "decision"
    METADATA = "metadata"
    MANIFEST = "manifest"
    PURGED = "purged"


@dataclass(frozen=True, slots=True)
class Garbage:
    kind: GarbageKind
    table_id: str
    """Empty for what belongs to no table."""
    info: ObjectInfo


def pointer_place(path: str, folder: str) -> tuple[str, int] | None:
    """Table and number of a pointer's path; None for anything else, such as a floor."""
    found = _POINTER.fullmatch(path.removeprefix(f"{folder}/"))
    return None if found is None else (found["table"], int(found["number"]))


def pointer_floor(listed: Mapping[int, ObjectInfo], *, newest: int, recorded_through: int, before: int) -> int:
    """The highest number up to which all pointers of a table may go; 0 if none may.

    Never the newest, nothing that the log was not told, and nothing as young as `before`.
    """
    floor = 0
    for number in sorted(listed):
        if number >= newest or number > recorded_through or listed[number].modified >= before:
            break
        floor = number
    return floor


def old_claims(listed: Iterable[ObjectInfo], folder: str, before: int) -> list[ObjectInfo]:
    """Claims of keys all of whose claims are older than that."""
    keys: dict[str, list[ObjectInfo]] = {}
    for info in listed:
        found = _CLAIM.fullmatch(info.path.removeprefix(f"{folder}/"))
        if found is not None:
            keys.setdefault(found["key"], []).append(info)
    return [info for claims in keys.values() if all(one.modified < before for one in claims) for info in claims]


def old_decisions(listed: Iterable[ObjectInfo], folder: str, named: Collection[str], before: int) -> list[ObjectInfo]:
    """Decisions that are old and that none of the transactions `named` by pointers needs."""
    return [info for info in listed if info.modified < before and info.path.removeprefix(f"{folder}/") not in named]


def old_metadata(
    listed: Iterable[ObjectInfo],
    *,
    properties: Mapping[str, Any],
    reachable: Collection[str],
    committed: Mapping[int, str],
    newest: int,
    before: int,
) -> list[ObjectInfo]:
    """Metadata files of a table that nobody needs. All paths are within the workspace.

    `reachable` is what metadata of any table names. `committed` are the files of its pointers, by number, empty
    for one that brought none; about a file whose number is not among them nothing is known, and it stays.
    """
    deletes = str(properties.get(DELETE_AFTER_COMMIT, "")).lower() == "true"
    won = set(committed.values())
    found = []
    for info in listed:
        name = _METADATA.fullmatch(info.path.rpartition("/")[2])
        if name is None or info.path in reachable or info.modified >= before:
            continue
        number = int(name["number"])
        if number not in committed or number >= newest:
            continue
        if info.path not in won or deletes:
            found.append(info)
    return found


def old_manifests(listed: Iterable[ObjectInfo], before: int) -> list[ObjectInfo]:
    """Manifests and manifest lists, as Arco names them, that are old enough to be nobody's."""
    return [info for info in listed if _MANIFEST.fullmatch(_name(info)) and info.modified < before]


def snapshot_of(info: ObjectInfo) -> int | None:
    """The snapshot whose manifest list a file is; None if it is none."""
    found = _MANIFEST.fullmatch(_name(info))
    return int(found["snapshot"]) if found is not None and found["snapshot"] else None


def _name(info: ObjectInfo) -> str:
    return info.path.rpartition("/")[2]


def logged_locations(metadata: Mapping[str, Any]) -> list[str]:
    """The metadata files that a document's log names."""
    log = metadata.get("metadata-log") or ()
    return [str(entry["metadata-file"]) for entry in log if isinstance(entry, dict) and "metadata-file" in entry]


def contains(folder: str, paths: Sequence[str] | Collection[str]) -> bool:
    """Whether any of the paths lies in the folder, is it, or holds it."""
    return any(f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/") for path in paths)

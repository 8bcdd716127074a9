"""What a backup is made of, as it is stored.

- `Backup`: the manifest of one backup, number n of the sequence `backups/`. It is created last, so that a backup of
  which something is missing does not exist. It names *lists*.
- `Listing`: a list, by its content. Lists are objects too; a later backup names the same ones again where nothing
  changed.
- `Entry`: one copied object: where it lay in the workspace, and its content.
- `Chunk`: neighbouring segments of a log, one after the other as they were stored, in one object.
- `TableCopy`: the pointers of one Iceberg table, the decisions they depend on, and the metadata files they lead to.

Content is named by its sha256 and by the backup that it was first copied on top of (`base`): the folder it lies in.
The format is documented in docs/formats.md.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import zstandard

from arco.core import Corrupt, check_format, format_in, with_checksum, without_checksum
from arco.iceberg import Kind, Outcome
from arco.log import Link

__all__ = [
    "CHUNK_MAGIC",
    "FORMAT",
    "Backup",
    "Chunk",
    "Content",
    "Entry",
    "Listing",
    "LogCopy",
    "TableCopy",
    "TableFile",
    "decode_backup",
    "decode_chunk",
    "decode_list",
    "encode_backup",
    "encode_chunk",
    "encode_list",
]

FORMAT = 1
CHUNK_MAGIC = b"ARCOSEG1"
MAX_LIST_BYTES = 1 << 30
_LENGTH = 8

T = TypeVar("T")


class Content(msgspec.Struct, frozen=True, array_like=True):
    """Bytes in a vault."""

    sha256: str
    size: int
    base: int


class Entry(msgspec.Struct, frozen=True, array_like=True):
    path: str
    """Where the object lay, relative to the workspace."""
    content: Content


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    first: int
    last: int
    received: int
    """When its last segment was received; of two chunks the later one has no smaller time."""
    content: Content


class TableFile(msgspec.Struct, frozen=True, array_like=True):
    location: str
    """As the pointer names it: a URL."""
    content: Content


class TableCopy(msgspec.Struct, frozen=True, omit_defaults=True):
    table_id: str
    kind: Kind
    pointers: tuple[str, ...]
    """Each as it was stored, oldest first; their numbers are dense."""
    first: int
    """Number of the first of them."""
    decisions: dict[str, Outcome] = {}
    """Outcome of each transaction that they name; one that is missing was undecided."""
    metadata: tuple[TableFile, ...] = ()
    missing: tuple[str, ...] = ()
    """Metadata files that were gone already, as engines delete those of superseded versions."""


class Listing(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    """`ledger`, `state`, `blobs`, `code`, `iceberg` or `data`."""
    name: str
    """The log, or the group of tables; empty where there is only one."""
    count: int
    bytes: int
    """Of what it names, all together."""
    content: Content


class LogCopy(msgspec.Struct, frozen=True):
    """How far a log was copied."""

    link: Link
    """Its last segment."""
    watermark: str
    revision: int
    manifest: Content
    """The published manifest that covers exactly this, as it was stored."""


class Backup(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    format: int
    number: int
    id: str
    previous: str
    """sha256 of the backup before it, empty for the first."""
    tenant: str
    workspace: str
    incarnation: str
    store: str
    """URL of the store that was copied: Iceberg metadata has whole locations in it."""
    taken_at: int
    """When the positions were pinned."""
    finished_at: int
    actor: str
    data: bool
    """Whether the files of assets and of Iceberg tables were copied too."""
    logs: dict[str, LogCopy]
    lists: tuple[Listing, ...]
    copied: int = 0
    """Objects that were new in this backup, and their bytes."""
    copied_bytes: int = 0

    def lists_of(self, kind: str, name: str | None = None) -> list[Listing]:
        return [known for known in self.lists if known.kind == kind and name in (None, known.name)]

    @property
    def objects(self) -> int:
        """As `copied` counts them, without lists; an Iceberg table counts as one, however many files it has."""
        return sum(known.count for known in self.lists) + len(self.logs)

    @property
    def bytes(self) -> int:
        return sum(known.bytes for known in self.lists) + sum(copy.manifest.size for copy in self.logs.values())


def encode_backup(backup: Backup) -> bytes:
    """JSON with its checksum, as a manifest of state has one."""
    return with_checksum(msgspec.json.encode(backup))


def decode_backup(data: bytes, path: str) -> Backup:
    check_format("backup", format_in(data), FORMAT, path)
    try:
        return msgspec.json.decode(without_checksum(data), type=Backup)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is not a backup or was altered: {error}; use another backup", path=path) from error


def encode_list(entries: Iterable[msgspec.Struct]) -> bytes:
    return zstandard.ZstdCompressor(level=3, write_content_size=True).compress(msgspec.json.encode(list(entries)))


def decode_list(data: bytes, kind: type[T], path: str) -> list[T]:
    try:
        if not 0 <= zstandard.frame_content_size(data) <= MAX_LIST_BYTES:
            raise Corrupt(f"{path} is no list of a backup; use another backup", path=path)
        text = zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_LIST_BYTES)
        found: Any = msgspec.json.decode(text, type=list[kind])  # type: ignore[valid-type]  # the class is an argument
    except (zstandard.ZstdError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is no list of a backup: {error}; use another backup", path=path) from error
    return list(found)


def encode_chunk(segments: Iterable[bytes]) -> bytes:
    parts = [CHUNK_MAGIC]
    for data in segments:
        parts += [len(data).to_bytes(_LENGTH, "big"), data]
    return b"".join(parts)


def decode_chunk(data: bytes, path: str) -> list[bytes]:
    """The segments in a chunk, each as it was stored."""
    if not data.startswith(CHUNK_MAGIC):
        raise Corrupt(f"{path} holds no segments; use another backup", path=path)
    found, at = [], len(CHUNK_MAGIC)
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "big")
        at += _LENGTH
        if at + length > len(data):
            raise Corrupt(f"{path} was cut off; use another backup", path=path)
        found.append(data[at : at + length])
        at += length
    return found

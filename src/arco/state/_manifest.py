"""The manifest: one published revision of a log's state. A reader sees all of it or none of it.

- `File`: a byte range of an object holding the Parquet of one table, with its sha256 and what prunes it.
- `Layer`: the files of one table that cover one contiguous range of positions. Level 0 layers are slices of deltas, the
  others plain Parquet files written by merges. Layers of a table stand oldest first; only neighbours merge.
- `Pending`: a merge, a rebuild or packing that somebody works on; its directory is reachable for the collector.
- `Entry`: a retained older revision. Manifests below the floor are trusted by the hash here, not by existence.

The format is documented in docs/formats.md.
"""

import hashlib

import msgspec

from arco.core import PUT_BACK, Corrupt, check_format, format_in, with_checksum, without_checksum
from arco.log import FIRST_LINK, Link, Pack

__all__ = [
    "FORMAT",
    "Entry",
    "File",
    "Layer",
    "Manifest",
    "Pending",
    "PinEntry",
    "SkippedType",
    "decode_manifest",
    "encode_manifest",
    "entry_of",
    "format_of",
]

FORMAT = 2
"""2 is a manifest with packs: a program that knows only 1 would look for segments that are gone. Those without packs
are still written as 1."""


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    offset: int
    length: int
    sha256: str
    rows: int
    buckets: str
    """256 bits as hex: which buckets have rows here."""
    stats: dict[str, tuple[str | int, str | int]] = {}
    """Least and greatest value of each prunable column; times in microseconds."""
    footer: tuple[int, str] | None = None
    """Of a large file: length and sha256 of its Parquet footer, so that parts of the file can be read on their own."""

    def has_bucket(self, bucket: int) -> bool:
        return bool(int(self.buckets, 16) >> bucket & 1)


class Layer(msgspec.Struct, frozen=True):
    table: str
    level: int
    first: str
    """Positions, as text: the layer covers `first < position <= last`."""
    last: str
    files: tuple[File, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.length for file in self.files)


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    kind: str
    """`merge`, `rebuild` or `pack`."""
    directory: str
    started_at: int
    table: str = ""
    inputs: tuple[tuple[str, str], ...] = ()
    """First and last position of each layer that a merge replaces; or the first and the last segment to pack."""


class SkippedType(msgspec.Struct, frozen=True):
    type: str
    first: str
    count: int


class PinEntry(msgspec.Struct, frozen=True):
    """A revision that is kept until the pin expires or is released."""

    pin_id: str
    revision: int
    expires_at: int


class Entry(msgspec.Struct, frozen=True, array_like=True):
    revision: int
    published_at: int
    watermark: str
    sha256: str


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    format: int
    log: str
    number: int
    id: str
    previous: str
    incarnation: str
    tenant: str
    workspace: str
    publisher: str
    published_at: int
    watermark: str
    """Every position up to this one is folded in."""
    link: Link = FIRST_LINK
    """The last segment folded in, for the chain."""
    folds: dict[str, int] = {}
    skipped: tuple[SkippedType, ...] = ()
    retention: dict[str, tuple[tuple[str, int], ...]] = {}
    """Per table: from which position on rows older than which time are gone. Tables that expire together have the same
    steps."""
    pins: tuple[PinEntry, ...] = ()
    generation: int = 0
    """Rises with every rebuild: rows held in memory from before are not to be trusted."""
    layers: tuple[Layer, ...] = ()
    pending: tuple[Pending, ...] = ()
    packs: tuple[Pack, ...] = ()
    """Where segments 1 to `packs[-1].last` are, whether or not they also exist as objects of their own."""
    history: tuple[Entry, ...] = ()
    """Retained revisions, oldest first, this one excluded."""
    older: File | None = None
    """Retained revisions before those in `history`: a JSON file."""
    seal: bool = False
    """The last revision of an incarnation: whoever reads it stops writing here."""

    def cutoff(self, table: str) -> int | None:
        """The time before which the rows of a table are gone for whoever reads this revision."""
        steps = self.retention.get(table)
        return steps[-1][1] if steps else None

    def layers_of(self, table: str) -> list[Layer]:
        return [layer for layer in self.layers if layer.table == table]


_decoder = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """JSON with its checksum: the head has no successor that vouches for it."""
    return with_checksum(msgspec.json.encode(manifest))


def decode_manifest(data: bytes, path: str) -> Manifest:
    """The manifest in an object; `Corrupt` if its bytes changed, `Outdated` if a newer program wrote it."""
    try:
        manifest = _decoder.decode(without_checksum(data))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        check_format("manifest", format_in(data), FORMAT, path)
        raise Corrupt(
            f"{path} is not a manifest or was altered: {error}; run `arco doctor`, then {PUT_BACK}", path=path
        ) from error
    check_format("manifest", manifest.format, FORMAT, path)
    return manifest


def format_of(packs: tuple[Pack, ...]) -> int:
    """The least format that says what a manifest says."""
    return 2 if packs else 1


def entry_of(manifest: Manifest, data: bytes) -> Entry:
    return Entry(manifest.number, manifest.published_at, manifest.watermark, hashlib.sha256(data).hexdigest())

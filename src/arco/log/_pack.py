"""A pack: many segments of a log in one object, as they are, with an index at its end.

- `Pack`: what a manifest says of a pack: where it is, which numbers it holds, and the hashes that prove it. Packs of a
  log follow one another from segment 1 on, without a gap. An entry of a level above 0 is a file that lists entries of
  the level below (`list_packs`), so that the list in a manifest stays short for years.
- `PackIndex`: where each segment lies in a pack, and its sha256. It is checked against the manifest, each segment is
  checked against it, and the chain of segments holds as it did before.

The object: `ARCOPCK1`, the segments one after the other, the index as JSON under zstd, its length in 8 bytes (least
first), `ARCOPCK1`. The format is documented in docs/formats.md.
"""

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import msgspec
import zstandard

from arco.core import PUT_BACK, Corrupt, check_format, format_in
from arco.log._segment import Place

__all__ = ["Pack", "PackIndex", "decode_index", "encode_list", "encode_pack", "list_packs"]

FORMAT = 1
PACK_MAGIC = b"ARCOPCK1"
TRAILER = 8 + len(PACK_MAGIC)
MAX_INDEX_BYTES = 64 << 20


class Pack(msgspec.Struct, frozen=True, omit_defaults=True):
    """Segments `first` to `last` in one object, or, above level 0, a file that lists such entries."""

    path: str
    sha256: str
    """Of the whole object."""
    first: int
    last: int
    bytes: int
    """Of the object."""
    index: tuple[int, str] | None = None
    """Length and sha256 of the end of a pack, index and trailer, so that segments can be read on their own."""
    level: int = 0

    @property
    def segments(self) -> int:
        return self.last - self.first + 1


class PackIndex(msgspec.Struct, frozen=True):
    format: int
    tenant: str
    workspace: str
    incarnation: str
    log: str
    first: int
    sizes: tuple[int, ...]
    sha256: tuple[str, ...]

    def offsets(self) -> list[int]:
        """Where each segment begins, and where the last one ends."""
        return list(accumulate(self.sizes, initial=len(PACK_MAGIC)))


def encode_pack(path: str, place: Place, first: int, segments: Sequence[bytes]) -> tuple[bytes, Pack]:
    """The object of a pack that will lie at `path`, and what a manifest says of it."""
    index = PackIndex(
        format=FORMAT,
        tenant=place.tenant,
        workspace=place.workspace,
        incarnation=place.incarnation,
        log=place.log,
        first=first,
        sizes=tuple(map(len, segments)),
        sha256=tuple(hashlib.sha256(data).hexdigest() for data in segments),
    )
    text = zstandard.ZstdCompressor(level=3, write_content_size=True, write_checksum=True).compress(
        msgspec.json.encode(index)
    )
    end = text + len(text).to_bytes(8, "little") + PACK_MAGIC
    data = b"".join((PACK_MAGIC, *segments, end))
    last = first + len(segments) - 1
    told = (len(end), hashlib.sha256(end).hexdigest())
    return data, Pack(path, hashlib.sha256(data).hexdigest(), first, last, len(data), told)


def decode_index(pack: Pack, place: Place, end: bytes) -> PackIndex:
    """The index of a pack from the bytes at its end, checked against what the manifest says."""
    if pack.index is None or (len(end), hashlib.sha256(end).hexdigest()) != pack.index:
        raise _broken(pack, "its index is not what the manifest promises")
    text = end[:-TRAILER]
    if end[-TRAILER:] != len(text).to_bytes(8, "little") + PACK_MAGIC:
        raise _broken(pack, "it does not end as a pack does")
    try:
        found = zstandard.ZstdDecompressor().decompress(text, max_output_size=MAX_INDEX_BYTES, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _broken(pack, f"its index cannot be decompressed: {error}") from error
    try:
        index = msgspec.json.decode(found, type=PackIndex)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        check_format("pack", format_in(found), FORMAT, pack.path)
        raise _broken(pack, f"its index cannot be read: {error}") from error
    check_format("pack", index.format, FORMAT, pack.path)
    if Place(index.tenant, index.workspace, index.incarnation, index.log) != place:
        raise _broken(pack, f"it belongs to {index.log} of {index.tenant}/{index.workspace}, {index.incarnation}")
    held = (index.first, len(index.sizes), len(index.sha256), index.offsets()[-1])
    if held != (pack.first, pack.segments, pack.segments, pack.bytes - len(end)):
        raise _broken(pack, "it does not hold the segments that the manifest promises")
    return index


def encode_list(path: str, entries: Sequence[Pack]) -> tuple[bytes, Pack]:
    """A file of neighbouring entries of one level, and the entry of the next level that stands for them."""
    data = msgspec.json.encode(entries)
    level = entries[0].level + 1
    sha256 = hashlib.sha256(data).hexdigest()
    return data, Pack(path, sha256, entries[0].first, entries[-1].last, len(data), level=level)


def list_packs(listed: Pack, data: bytes) -> tuple[Pack, ...]:
    """The entries in such a file."""
    if hashlib.sha256(data).hexdigest() != listed.sha256:
        raise _broken(listed, "it is not what the manifest promises")
    try:
        entries = msgspec.json.decode(data, type=tuple[Pack, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _broken(listed, f"it does not list packs: {error}") from error
    ends = [listed.first - 1, *(entry.last for entry in entries)]
    if [entry.first for entry in entries] != [end + 1 for end in ends[:-1]] or ends[-1] != listed.last:
        raise _broken(listed, "the packs it lists do not follow one another")
    return entries


def _broken(pack: Pack, why: str) -> Corrupt:
    return Corrupt(f"{pack.path} is damaged: {why}; run `arco doctor`, then {PUT_BACK}", path=pack.path)

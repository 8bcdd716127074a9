"""A segment: one object of a log. A header and the events that one group commit gathered, as JSON under zstd.

The header names its place (log, number, tenant, workspace, incarnation), its predecessor's sha256, a unique id, the
fold versions of its writer and the received time. `encode` and `decode` are the only readers and writers of the format;
`check_link` is the chain rule.
"""

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import zstandard

from arco.core import Corrupt, TooLarge, check_format, format_in
from arco.log._event import INDEX_BITS, Event

__all__ = [
    "FIRST_LINK",
    "MAX_EVENTS",
    "MAX_EVENT_BYTES",
    "MAX_SEGMENT_BYTES",
    "SEGMENT_FORMAT",
    "Header",
    "Link",
    "Place",
    "Segment",
    "check_link",
    "decode_header",
    "decode_segment",
    "encode_segment",
    "link_of",
    "parse_segment",
    "seal_writer",
    "sealed_by",
    "segment_text",
]

SEGMENT_FORMAT = 1
MAX_EVENT_BYTES = 1 << 20
MAX_SEGMENT_BYTES = 8 << 20
MAX_EVENTS = 1 << INDEX_BITS


class Place(msgspec.Struct, frozen=True):
    """Which log: a handle on one can neither read nor write another."""

    tenant: str
    workspace: str
    incarnation: str
    log: str


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    format: int
    log: str
    number: int
    id: str
    previous: str
    incarnation: str
    tenant: str
    workspace: str
    writer: str
    received: int
    """Microseconds since 1970 by the owner's clock; never less than its predecessor's."""
    folds: dict[str, int]
    """Fold version of each domain the writer knew."""
    seal: bool = False
    """The last segment of an incarnation: whoever reads it stops writing here."""


def seal_writer(command: str, operation: str) -> str:
    """What a seal says in place of an owner's address: the command that ends the incarnation, and its operation."""
    return f"seal:{command}:{operation}"


def sealed_by(header: Header) -> str:
    """The command that sealed an incarnation, such as `arco restore`; empty if its seal does not say."""
    kind, _, rest = header.writer.partition(":")
    return rest.rpartition(":")[0] if header.seal and kind == "seal" else ""


class Segment(msgspec.Struct, frozen=True):
    header: Header
    events: tuple[Event, ...]


class Link(msgspec.Struct, frozen=True):
    """What the next segment must refer to."""

    number: int
    sha256: str
    received: int = 0


FIRST_LINK = Link(0, "")


class _Headed(msgspec.Struct):
    """A segment of which only the header is looked at."""

    header: Header
    events: msgspec.Raw


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Segment)
_header_decoder = msgspec.json.Decoder(_Headed)

S = TypeVar("S", Segment, _Headed)


def encode_segment(header: Header, events: Iterable[bytes]) -> bytes:
    """The object of a segment, from its header and its already encoded events."""
    text = b'{"header":%b,"events":[%b]}' % (_encoder.encode(header), b",".join(events))
    if len(text) > MAX_SEGMENT_BYTES:
        raise TooLarge(f"a segment of {len(text)} bytes passes the limit of {MAX_SEGMENT_BYTES}; split the batch")
    # The chain finds a flipped bit only once there is a successor; the checksum finds it at once.
    return zstandard.ZstdCompressor(level=3, write_content_size=True, write_checksum=True).compress(text)


def segment_text(data: bytes, path: str) -> bytes:
    """The JSON in the object of a segment, or `Corrupt` with the path."""
    try:
        size = zstandard.frame_content_size(data)
        if not 0 < size <= MAX_SEGMENT_BYTES:
            raise Corrupt(f"{path} is not a segment or was cut off; run `arco log verify`", path=path)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_SEGMENT_BYTES, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Corrupt(f"{path} cannot be decompressed ({error}); run `arco log verify`", path=path) from error


def decode_segment(data: bytes, path: str) -> Segment:
    """The segment in an object, or `Corrupt` with the path."""
    return parse_segment(segment_text(data, path), path)


def parse_segment(text: bytes, path: str) -> Segment:
    """The segment that a text of JSON holds, or `Corrupt` with the path."""
    return _parsed(_decoder, text, path)


def decode_header(data: bytes, path: str) -> tuple[Header, str]:
    """The header of the segment in an object, without its events, and the object's sha256."""
    return _parsed(_header_decoder, segment_text(data, path), path).header, hashlib.sha256(data).hexdigest()


def _parsed(decoder: msgspec.json.Decoder[S], text: bytes, path: str) -> S:
    try:
        found = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        check_format("segment", format_in(text, "header"), SEGMENT_FORMAT, path)
        raise Corrupt(f"{path} is not a segment: {error}; run `arco log verify`", path=path) from error
    check_format("segment", found.header.format, SEGMENT_FORMAT, path)
    return found


def check_link(segment: Segment, place: Place, link: Link, path: str) -> None:
    """A segment must be the successor of `link` in the log, tenant, workspace and incarnation of `place`."""
    header = segment.header
    for field in ("log", "tenant", "workspace", "incarnation"):
        found, wanted = getattr(header, field), getattr(place, field)
        if found != wanted:
            raise Corrupt(f"{path} belongs to {field} {found!r}, not {wanted!r}; run `arco log verify`", path=path)
    if header.number != link.number + 1:
        raise Corrupt(f"{path} says it is number {header.number}; run `arco log verify`", path=path)
    if header.previous != link.sha256:
        raise Corrupt(
            f"{path} does not continue its predecessor: segment {link.number} was lost and refilled, or altered; "
            "run `arco log verify`",
            path=path,
        )


def link_of(segment: Segment, data: bytes) -> Link:
    return Link(segment.header.number, hashlib.sha256(data).hexdigest(), segment.header.received)

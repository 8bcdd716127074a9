"""Segments, positions, record and decide, owner and forwarding: the truth and how it grows.

caller -> Gateway -> Owner (this process, or forwarded) -> segment T+1 -> Follower -> fold
"""

from arco.log._admission import KEY_LIFE, MAX_AHEAD, Admission
from arco.log._blobs import MAX_BLOB_BYTES, Blobs
from arco.log._event import (
    Command,
    Event,
    Instant,
    NewEvent,
    Position,
    Receipt,
    index_of,
    number_of,
    parse_position,
    position_of,
)
from arco.log._fold import Draft, Fold
from arco.log._follower import Follower
from arco.log._gateway import Forwarder, Gateway, InProcessForwarder
from arco.log._hint import Hint, HintFile, OwnerHint, is_http
from arco.log._ledger import Found, Ledger, Unknown
from arco.log._owner import Owner
from arco.log._pack import Pack, PackIndex, decode_index, encode_list, encode_pack, list_packs
from arco.log._reader import check_segment, read_log
from arco.log._registry import EventRegistry, EventType, unchanged
from arco.log._secrets import check_no_secret, find_secret, may_hold_secret
from arco.log._segment import (
    FIRST_LINK,
    MAX_EVENT_BYTES,
    MAX_SEGMENT_BYTES,
    SEGMENT_FORMAT,
    Header,
    Link,
    Place,
    Segment,
    check_link,
    decode_header,
    decode_segment,
    encode_segment,
    link_of,
    parse_segment,
    seal_writer,
    sealed_by,
    segment_text,
)
from arco.log._stream import SegmentStream, Subscription, follow

__all__ = [
    "FIRST_LINK",
    "KEY_LIFE",
    "MAX_AHEAD",
    "MAX_BLOB_BYTES",
    "MAX_EVENT_BYTES",
    "MAX_SEGMENT_BYTES",
    "SEGMENT_FORMAT",
    "Admission",
    "Blobs",
    "Command",
    "Draft",
    "Event",
    "EventRegistry",
    "EventType",
    "Fold",
    "Follower",
    "Forwarder",
    "Found",
    "Gateway",
    "Header",
    "Hint",
    "HintFile",
    "InProcessForwarder",
    "Instant",
    "Ledger",
    "Link",
    "NewEvent",
    "Owner",
    "OwnerHint",
    "Pack",
    "PackIndex",
    "Place",
    "Position",
    "Receipt",
    "Segment",
    "SegmentStream",
    "Subscription",
    "Unknown",
    "check_link",
    "check_no_secret",
    "check_segment",
    "decode_header",
    "decode_index",
    "decode_segment",
    "encode_list",
    "encode_pack",
    "encode_segment",
    "find_secret",
    "follow",
    "index_of",
    "is_http",
    "link_of",
    "list_packs",
    "may_hold_secret",
    "number_of",
    "parse_position",
    "parse_segment",
    "position_of",
    "read_log",
    "seal_writer",
    "sealed_by",
    "segment_text",
    "unchanged",
]

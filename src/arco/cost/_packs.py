"""`packing`: what rewriting old segments into packs asks for, and what lies in packs after some time.

It follows the rules of `arco.state`: the newest segments stay loose, a pack is due when so many segments or bytes have
gathered below them, and what is left over waits. Each segment is read once; a pack, its result and the manifest that
adopts it are written.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from arco.cost._load import Scale
from arco.cost._profile import Profile
from arco.state import PackSize
from arco.storage import Operation

__all__ = ["WINDOW", "Packed", "packing"]

IN_THE_ROW = 32
"""Segments that are packed in the row of docs/requests.md."""
WINDOW = 256
"""Loose segments for which the floor is asked once."""


@dataclass(frozen=True)
class Packed:
    """One log after `days`."""

    packs: float
    segments: float
    """In all of them."""
    bytes: float
    requests: Mapping[Operation, float]
    """A day, on average since the first one: a log that is too young has packed nothing."""

    @property
    def lists(self) -> float:
        return self.packs // PackSize().fan


def packing(segments: float, size: float, scale: Scale, known: Profile) -> Packed:
    """Of a log that gets so many segments and bytes a day."""
    total = segments * scale.days
    each = max(1.0, min(scale.pack_segments, scale.pack_mib * 2**20 * segments / size if size else math.inf))
    packs = max(0.0, (total - max(scale.pack_keep, 1)) // each)
    packed, rate = packs * each, packs / scale.days
    row = known.requests["compact: publish, pack 32 of 40 segments, adopt the pack"]
    publish, look = known.requests["publish"], known.requests["compact, nothing new and nothing to pack"]
    before = known.requests["read one packed segment"]  # which the first one of a pack follows
    requests = {
        Operation.CREATE: rate * (row["create"] - publish["create"] + 1 / PackSize().fan),
        Operation.GET: rate * (each + row["get"] - IN_THE_ROW - look["get"]),
        Operation.GET_RANGE: rate * before["range"],
        Operation.HEAD: rate * row["head"] * math.ceil(each / WINDOW),
    }
    bytes_ = packed * (size / segments + known.index_bytes) if segments else 0.0
    return Packed(packs, packed, bytes_, requests)

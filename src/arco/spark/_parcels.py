"""Parcels: what travels from one round to the next through Spark's shuffle, and what tasks report to the driver.

A *parcel* is everything that one task has for one bucket of one round, as one compressed piece of bytes: Spark moves
few large values and looks into none of them. Groups are whole within their bucket, so a bucket is what is folded at a
time, and what must fit into memory. A parcel for a later round is carried along unopened.

- `Plain`: events of one group of a step, as they stand in the log. Nearly all events travel so.
- `Told`: events for the groups of a step, of which some see only a part.
- `Changed`: what an earlier step did to a row, for a group of a step that watches its table.
- `Audited`, `Noted`, `Turned`: for the closing round, by position: an audited event, what it did to a row, and an input
  that was turned away.
- `Report`: what a task found and wrote, for the driver. It travels as a parcel too, to a partition of its own, so that
  of several attempts of a task exactly one counts.
"""

from collections.abc import Iterable, Iterator

import msgspec
import zstandard

from arco.state import BUCKETS, File, Rejection, bucket_of

__all__ = [
    "BARE",
    "LOG",
    "WHOLE",
    "Audited",
    "Changed",
    "Chunk",
    "Noted",
    "Outbox",
    "Parcel",
    "Plain",
    "Report",
    "Told",
    "Turned",
    "open_parcel",
    "partition_of",
    "read_report",
    "report_parcel",
]

Parcel = tuple[int, int, int, bytes]
"""Round, bucket, what orders it among the parcels of its bucket, and the bytes of a `Chunk`."""

WHOLE, BARE = -1, -2
"""In the place of the number of a part: the event itself, or the event without its payload."""

LOG = -1
"""In the place of the number of a step."""

LEVEL = -3
"""Of zstd. Parcels cross the machine several times and the network once; still the time counts for more than the bytes
(docs/measurements.md)."""


class Plain(msgspec.Struct, array_like=True, gc=False):
    """Events in position order, each of which one group sees as a whole."""

    step: int
    group: str
    positions: list[int]
    events: memoryview
    """The items of a JSON array of events, one for each position. A view, so that opening a parcel copies none."""


class Told(msgspec.Struct, array_like=True, gc=False):
    """Events in position order, and who sees what of them: an *entry* is one input of one group."""

    step: int
    positions: list[int]
    events: bytes
    """A JSON array of events, one for each position."""
    groups: list[str]
    """The group of each entry."""
    places: list[int]
    """Which event each entry sees, and which part of it."""
    parts: list[int]
    audited: list[int]
    """Positions of events that have parts of which one is audited."""


class Changed(msgspec.Struct, array_like=True, gc=False):
    step: int
    group: str
    position: int
    source: int
    """The step that made the change, its group, and the how manieth change of the group it is: they order changes."""
    source_group: str
    turn: int
    received: int
    audited: bool
    event: bytes
    table: str
    before: bytes | None
    after: bytes | None

    def order(self) -> tuple[int, int, str, int]:
        return self.position, self.source, self.source_group, self.turn


class Audited(msgspec.Struct, array_like=True, gc=False):
    position: int
    received: int
    kinds: list[str]
    event: bytes


class Noted(msgspec.Struct, array_like=True, gc=False):
    position: int
    step: int
    group: str
    table: str
    key: str | tuple[str, ...]
    before: bytes | None
    after: bytes | None


class Turned(msgspec.Struct, array_like=True, gc=False):
    position: int
    step: int
    """`LOG` if the log itself turned it away."""
    folded: bool
    """False if it was turned away before it had a group."""
    group: str
    turn: int
    received: int
    type: str
    domain: str
    reason: str

    def order(self) -> tuple[int, int, bool, str, int]:
        return self.position, self.step, self.folded, self.group, self.turn


class Chunk(msgspec.Struct, array_like=True, gc=False):
    received: dict[int, int] = {}
    """By number of a segment, when it was received."""
    plain: list[Plain] = []
    told: list[Told] = []
    changed: list[Changed] = []
    audited: list[Audited] = []
    noted: list[Noted] = []
    turned: list[Turned] = []
    named: list[Rejection] = []


class Report(msgspec.Struct, array_like=True):
    task: int
    sent: dict[int, int] = {}
    """Parcels by round."""
    first: tuple[int, str] | None = None
    """Of the segments read: number of the first and what it says of its predecessor; number, hash and time of the
    last."""
    last: tuple[int, str, int] | None = None
    sealed: int = 0
    """The number of the segment that seals the log, if it was among them."""
    events: int = 0
    retention: list[tuple[int, str, int]] = []
    skipped: dict[str, tuple[int, int]] = {}
    files: list[tuple[str, File | None, bytes | None]] = []
    """In the order of their buckets: table, and the file that was written or the rows if they are few."""
    error: tuple[str, str] | None = None
    """Kind and text of what went wrong; there is nothing else then."""


_encoder = msgspec.msgpack.Encoder()
_chunks = msgspec.msgpack.Decoder(Chunk)
_reports = msgspec.msgpack.Decoder(Report)
_decompressor = zstandard.ZstdDecompressor()
_REPORT = -1


def partition_of(bucket: int, partitions: int) -> int:
    """Neighbouring buckets stay together, so that the files of all partitions, one after the other, are sorted."""
    return bucket * partitions // BUCKETS


def open_parcel(parcel: Parcel) -> Chunk:
    return _chunks.decode(_decompressor.decompress(parcel[3]))


def report_parcel(report: Report, partitions: int) -> tuple[int, Parcel]:
    return partitions, (_REPORT, 0, report.task, _encoder.encode(report))


def read_report(parcel: Parcel) -> Report:
    return _reports.decode(parcel[3])


class Outbox:
    """What one task sends, gathered by round and bucket."""

    def __init__(self, partitions: int) -> None:
        self.sent: dict[int, int] = {}
        self._partitions = partitions
        self._chunks: dict[tuple[int, int], Chunk] = {}
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._buffer = bytearray()
        """What is sent before it is compressed: parcel after parcel in the same memory."""

    def chunk(self, round: int, group: str) -> Chunk:
        return self.chunk_of(round, bucket_of(group))

    def chunk_of(self, round: int, bucket: int) -> Chunk:
        found = self._chunks.get((round, bucket))
        if found is None:
            found = self._chunks[round, bucket] = Chunk({}, [], [], [], [], [], [], [])
        return found

    def flush(self, order: int) -> Iterator[tuple[int, Parcel]]:
        """Everything gathered so far, with the partition each parcel goes to."""
        for round, bucket in list(self._chunks):
            yield self.send(round, bucket, order)

    def send(self, round: int, bucket: int, order: int) -> tuple[int, Parcel]:
        """What was gathered for a bucket, with the partition it goes to."""
        self.sent[round] = self.sent.get(round, 0) + 1
        _encoder.encode_into(self._chunks.pop((round, bucket)), self._buffer)
        # zstandard gives back all the memory that it asked for at first: as much as there was before it compressed.
        data = bytes(memoryview(self._compressor.compress(self._buffer)))
        return partition_of(bucket, self._partitions), (round, bucket, order, data)

    def carry(self, parcels: Iterable[Parcel]) -> Iterator[tuple[int, Parcel]]:
        """Parcels of later rounds, as they are."""
        for parcel in parcels:
            self.sent[parcel[0]] = self.sent.get(parcel[0], 0) + 1
            yield partition_of(parcel[1], self._partitions), parcel

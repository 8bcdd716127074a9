"""`SparkRunner`: rebuilds and merges of state on a Spark cluster. The driver's side.

    segments -> route -> shuffle by bucket -> fold the first round -> shuffle -> ... -> files -> manifest

Executors read segments and layers from the store and write files into it; nothing but parcels and reports passes
through Spark. The driver checks the chain of segments where one task's range ends and the next begins, puts the files
together in the order of their buckets, writes those that are small, and gives back what a `LocalRunner` would: the same
rows, in other files. It publishes nothing; the compactor adopts the result.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from arco.core import Corrupt, Runtime, new_ulid
from arco.log import Link, Pack, position_of
from arco.spark._jobs import Share, on_spark
from arco.spark._merge import merge_buckets
from arco.spark._parcels import Parcel, Report, read_report
from arco.spark._refold import fold_round
from arco.spark._routing import route_segments
from arco.spark._site import Assignment, Sent, Site, reraise
from arco.state import (
    PINS,
    File,
    FileWriter,
    Layer,
    LayerReader,
    Layout,
    Manifest,
    MergeJob,
    PinEntry,
    RefoldJob,
    Retention,
    Revisions,
    SkippedType,
    Table,
    advance,
    empty_manifest,
    from_arrow,
    open_ledger,
)
from arco.storage import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkRunner", "sample_numbers"]

T = TypeVar("T")

PARTITION_BYTES = 12 << 20
"""Bytes of segments, as they are stored, that one task of a round folds. They are ten times as many in memory."""

MAX_PARTITIONS = 48
"""A layer has at most 50 files of ordinary size."""

ROUTE_BYTES = 48 << 20
"""Bytes of segments that one task routes: while the last one runs, the other cores wait."""

SEGMENTS_A_TASK = 512
SAMPLES = 16
LEVEL_ROWS, LEVEL_FAN = 200_000, 8
"""A layer of up to so many rows is of level 1; one more level for every so many times as many. Else the first merges
after a rebuild would write everything once more."""


@dataclass
class _Findings:
    """What the tasks of a refold reported."""

    link: Link
    events: int
    retention: Retention
    skipped: dict[str, tuple[int, int]]
    files: dict[str, list[tuple[int, File | None, bytes | None]]]


class SparkRunner:
    def __init__(self, store: Store, site: Site, runtime: Runtime, session: "Callable[[], SparkSession]") -> None:
        """`session` starts or finds a session when there is something to do for it."""
        self._store = store
        self._site = site
        self._place = site.place
        self._layout = Layout(site.place)
        self._runtime = runtime
        self._session = session

    async def merge(self, job: MergeJob) -> tuple[File, ...]:
        size = sum(layer.bytes for layer in job.layers)

        def work(spark: Any, share: Share) -> list[Report]:
            context = spark.sparkContext
            partitions = _partitions(size, context.defaultParallelism)
            task = partial(
                merge_buckets, self._site, job.table.name, job.layers, job.oldest, job.cutoff, job.directory, partitions
            )
            found = context.parallelize(range(partitions), partitions).flatMap(task).collect()
            return _checked(parcel for _, parcel in found)

        reports = await self._on_spark(f"merge of {job.table.name}", work)
        return tuple(file for report in reports for _, file, _ in report.files if file is not None)

    async def refold(self, job: RefoldJob) -> Manifest:
        base = job.base or empty_manifest(self._place)
        if job.through <= base.link.number:
            return msgspec.structs.replace(base, folds=dict(job.definition.versions))
        size = await self._log_bytes(job.packs, base.link.number, job.through)
        found = await self._on_spark(
            f"fold of {self._place.log}",
            lambda spark, share: self._refold(spark, job, base, size, share),
            lambda done: job.progress(int(done * job.through), job.through),
        )
        job.progress(job.through, job.through)
        last = str(position_of(found.link.number + 1, 0) - 1)
        layers = list(base.layers)
        for name, parts in sorted(found.files.items()):
            files = await self._files(job.definition.tables[name], job.directory, parts)
            if files:
                layers.append(Layer(name, _level(sum(file.rows for file in files)), base.watermark, last, files))
        return msgspec.structs.replace(
            base,
            layers=tuple(layers),
            watermark=last,
            link=found.link,
            folds=dict(job.definition.versions),
            skipped=tuple(SkippedType(name, str(first), seen) for name, (first, seen) in sorted(found.skipped.items())),
            retention={
                name: tuple((str(since), before) for since, before in steps[-1:])
                for name, steps in sorted(found.retention.items())
            },
            pins=await self._pins(layers),
        )

    # On the cluster

    def _refold(self, spark: Any, job: RefoldJob, base: Manifest, size: int, share: Share) -> _Findings:
        context = spark.sparkContext
        cores = context.defaultParallelism
        partitions = _partitions(size, cores)
        first, count = base.link.number, job.through - base.link.number
        tasks = _routes(size, count, cores)
        ends = [first + count * task // tasks for task in range(tasks + 1)]
        ranges = [(task, ends[task] + 1, ends[task + 1]) for task in range(tasks)]
        versions = tuple(sorted(job.definition.versions.items()))
        assignment = Assignment(self._site, versions, partitions, job.directory, job.through, base.layers, job.packs)
        share.end = 0.5
        parcels = context.parallelize(ranges, tasks).flatMap(partial(_route, assignment))
        parcels = parcels.partitionBy(partitions + 1, _itself)
        reports = _reports(context, parcels, partitions)
        found = _findings(base, reports)
        sent = _sent(reports)
        while sent:
            turn = min(sent)
            share.start, share.end = share.end, (1 + share.end) / 2
            fold = partial(_fold, assignment, turn, found.retention)
            parcels = parcels.mapPartitionsWithIndex(fold).partitionBy(partitions + 1, _itself)
            reports = _reports(context, parcels, partitions)
            for report in reports:
                for name, file, rows in report.files:
                    found.files.setdefault(name, []).append((report.task, file, rows))
            sent = _sent(reports)
        return found

    async def _on_spark(
        self, what: str, work: Callable[[Any, Share], T], progress: Callable[[float], None] = lambda done: None
    ) -> T:
        return await on_spark(self._runtime, self._session, what, work, progress)

    # Around it

    async def _log_bytes(self, packs: tuple[Pack, ...], after: int, through: int) -> int:
        """About how many bytes the segments after a number have, by a few of them."""
        log = open_ledger(self._store, Revisions(self._store, self._place, self._runtime), packs)
        numbers = sample_numbers(after, through, SAMPLES)
        sizes = [len(await log.read(number)) for number in numbers]
        return (through - after) * sum(sizes) // len(sizes)

    async def _files(
        self, table: Table, directory: str, parts: list[tuple[int, File | None, bytes | None]]
    ) -> tuple[File, ...]:
        """The files of a table in the order of their buckets; rows that came home are written here, side by side."""
        writer = FileWriter(self._store, self._layout, directory, self._runtime)
        files: list[File] = []
        ordered = sorted(parts, key=lambda part: part[0])
        for number, (home, run) in enumerate(groupby(ordered, key=lambda part: part[1] is None)):
            if home:
                data = pa.concat_tables(_unpack(rows) for _, _, rows in run if rows is not None).combine_chunks()
                name = f"refold-{new_ulid(self._runtime, self._runtime)}-{table.name}-{number:03d}"
                files += await writer.files(table, data, name)
            else:
                files += [file for _, file, _ in run if file is not None]
        return tuple(files)

    async def _pins(self, layers: Iterable[Layer]) -> tuple[PinEntry, ...]:
        reader = LayerReader(self._store)
        data = await reader.rows(PINS, [layer for layer in layers if layer.table == PINS.name])
        pins = [pin for _, _, (_, pin) in from_arrow(PINS, data)]
        return tuple(PinEntry(pin.pin_id, pin.revision, pin.expires_at) for pin in sorted(pins, key=lambda p: p.pin_id))


def sample_numbers(after: int, through: int, count: int) -> list[int]:
    """Some numbers of a range, its first and last included."""
    return sorted({after + 1 + (through - after - 1) * k // (count - 1) for k in range(count)})


def _itself(partition: int) -> int:
    return partition


def _route(assignment: Assignment, part: tuple[int, int, int]) -> list[Sent]:
    return route_segments(assignment, *part)


def _fold(
    assignment: Assignment, turn: int, retention: Retention, partition: int, parcels: Iterable[Sent]
) -> Iterable[Sent]:
    if partition == assignment.partitions:
        return []  # reports, which the driver has read
    return fold_round(assignment, turn, retention, partition, (parcel for _, parcel in parcels))


def _routes(size: int, segments: int, cores: int) -> int:
    """Tasks that route: as many for each core, else all wait for those that have one more."""
    wanted = max(4 * cores, size // ROUTE_BYTES, -(-segments // SEGMENTS_A_TASK))
    return min(segments, -(-wanted // cores) * cores)


def _partitions(size: int, cores: int) -> int:
    return max(1, min(MAX_PARTITIONS, max(cores, size // PARTITION_BYTES)))


def _level(rows: int) -> int:
    level = 1
    while rows > LEVEL_ROWS:
        rows //= LEVEL_FAN
        level += 1
    return level


def _reports(context: Any, parcels: Any, partitions: int) -> list[Report]:
    """Run everything up to here. Asking for the reports alone leaves the other parcels where they are."""
    return _checked(parcel for _, parcel in context.runJob(parcels, list, [partitions]))


def _checked(parcels: Iterable[Parcel]) -> list[Report]:
    reports = sorted((read_report(parcel) for parcel in parcels), key=lambda report: report.task)
    for report in reports:
        if report.error is not None:
            reraise(report.error)
    return reports


def _sent(reports: Iterable[Report]) -> set[int]:
    return {turn for report in reports for turn in report.sent}


def _findings(base: Manifest, reports: list[Report]) -> _Findings:
    """Put together what was read, and see that it is one chain that continues the base."""
    link, sealed = base.link, 0
    for report in reports:
        assert report.first is not None
        assert report.last is not None
        if sealed:
            raise Corrupt(f"segment {sealed} of {base.log} seals the log, and others follow; run `arco log verify`")
        if report.first != (link.number + 1, link.sha256):
            raise Corrupt(
                f"segment {report.first[0]} of {base.log} does not continue segment {link.number}; "
                "run `arco log verify`"
            )
        link, sealed = Link(*report.last), report.sealed
    retention = {name: [(int(since), before) for since, before in steps] for name, steps in base.retention.items()}
    for position, table, before in sorted(step for report in reports for step in report.retention):
        advance(retention, table, position, before)
    skipped = {skip.type: (int(skip.first), skip.count) for skip in base.skipped}
    for report in reports:
        for name, (first, seen) in report.skipped.items():
            known = skipped.get(name, (first, 0))
            skipped[name] = (known[0], known[1] + seen)
    return _Findings(link, sum(report.events for report in reports), retention, skipped, {})


def _unpack(rows: bytes) -> pa.Table:
    return pa.ipc.open_stream(rows).read_all()

"""Sample data: events as a busy workspace has them, and logs made of them.

Ids are as random as real ones, since they decide how well files compress.

- Materializations: one event in 20 repeats an earlier one, one in 50 is a failure, and each asset has 50 partitions.
  With three files an event is about 1,170 bytes of JSON.
- A catalog: a fifth of its tables is in the namespace `large`, the others are spread evenly over a hundred.
- Lineage: four of five tables are a source for two or three others that come later, never far away.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from itertools import count as count_from
from itertools import islice
from multiprocessing import get_context

import msgspec

from arco.core import Runtime, derive_ulid
from arco.domains.catalog import ROOT
from arco.domains.catalog.events import AddedColumn, NamespaceCreated, TableCreated
from arco.domains.execution import (
    MATERIALIZATION_COMPLETED,
    DataFile,
    MaterializationCompleted,
    MaterializationFailed,
)
from arco.domains.lineage import EdgeRecord, LineageRecorded
from arco.log import Event, Header, Link, NewEvent, Place, encode_segment
from arco.state import new_event
from arco.storage import Sequence, Tail, Won

__all__ = [
    "LARGE",
    "NAMESPACES",
    "PARTITIONS",
    "append",
    "asset_id",
    "chain",
    "completed",
    "encoded_catalog",
    "encoded_events",
    "encoded_lineage",
    "fill_log",
    "namespace_id",
    "new_completed",
    "segments",
    "table_id",
    "table_path",
]

PARTITIONS = 50
"""Partitions of an asset."""
NAMESPACES = 100
LARGE = "large"
"""The namespace with a fifth of all tables."""
SINCE = 1_735_689_600_000_000
"""When the sample catalog begins: 2025."""

_encoder = msgspec.json.Encoder()


def _id(kind: str, number: int) -> str:
    digest = hashlib.blake2b(f"{kind}:{number}".encode(), digest_size=10).digest()
    return f"{number >> 10:010d}{base64.b32encode(digest).decode()}"


def asset_id(number: int) -> str:
    return _id("asset", number)


def completed(number: int, at: int, *, assets: int = 200, files: int = 3) -> MaterializationCompleted:
    """Materialization `number`; consecutive ones go to different assets."""
    asset, partition = number % assets, number // assets % PARTITIONS
    materialization = _id("materialization", number)
    partition_id = f"part_{hashlib.blake2b(f'{asset}/{partition}'.encode(), digest_size=16).hexdigest()}"
    folder = f"data/{asset_id(asset)}/{partition_id}/{materialization}"
    return MaterializationCompleted(
        materialization_id=materialization,
        asset_id=asset_id(asset),
        asset_key=f"analytics.orders_{asset}",
        partition_id=partition_id,
        partition_key=f"date=2025-01-{partition % 28 + 1:02d}",
        run_id=_id("run", number // 100),
        task_id=f"task-{number:012d}",
        files=tuple(
            DataFile(f"{folder}/part-{k:05d}.parquet", 1_000_000 + number * 7_919 % 999_983, 10_000 + number)
            for k in range(files)
        ),
        row_count=files * (10_000 + number),
        byte_size=files * (1_000_000 + number),
        schema_hash="5f" * 16,
        started_at=at - 1_000_000,
        completed_at=at,
        code_version="c0de" * 8,
    )


def _failed(number: int, at: int, assets: int) -> MaterializationFailed:
    like = completed(number, at, assets=assets, files=1)
    return MaterializationFailed(
        asset_id=like.asset_id,
        asset_key=like.asset_key,
        partition_id=like.partition_id,
        partition_key=like.partition_key,
        run_id=like.run_id,
        task_id=like.task_id,
        error="the check not_null(order_id) found 17 rows",
        failed_at=at,
    )


def new_completed(number: int, at: int, **options: int) -> NewEvent:
    return new_event(MATERIALIZATION_COMPLETED, completed(number, at, **options))


def _encoded(number: int, payload: msgspec.Struct, *, command: str = "", subject: str = "") -> bytes:
    """An event as it stands in a segment. What a command decided came with a request key, as clients send them."""
    return _encoder.encode(
        Event(
            id=_id("event", number),
            type=type(payload).__name__,
            time="2025-01-01T00:00:00.000000Z",
            source="arco",
            actor="worker",
            operation=_id("operation", number),
            data=msgspec.Raw(_encoder.encode(payload)),
            subject=subject,
            command=command,
            key=_id("key", number) if command else "",
            keyhash=hashlib.sha256(subject.encode()).hexdigest() if command else "",
        )
    )


def encoded_events(start: int, count: int, at: int, *, assets: int = 200, files: int = 3) -> Iterator[bytes]:
    """Events as they stand in segments."""
    for number in range(start, start + count):
        payload: msgspec.Struct
        if number % 50 == 7:
            payload = _failed(number, at, assets)
        else:
            payload = completed(number - (number % 20 == 19), at, assets=assets, files=files)
        yield _encoded(number, payload)


def event_batches(events: int, size: int, at: int) -> Iterator[list[bytes]]:
    """Events with one file each, `size` at a time, of so many assets that each has 500. Two processes make them."""
    assets = max(events // 500, 200)
    tasks = [(start, min(size, events - start), at, assets) for start in range(0, events, size)]
    with get_context("spawn").Pool(2) as pool:
        yield from pool.imap(_batch, tasks, chunksize=max(1, 20_000 // size))


def _batch(task: tuple[int, int, int, int]) -> list[bytes]:
    start, count, at, assets = task
    return list(encoded_events(start, count, at, assets=assets, files=1))


# A catalog


def namespace_id(number: int) -> str:
    return derive_ulid(SINCE, f"namespace:{number}")


def table_id(number: int) -> str:
    return derive_ulid(SINCE + number * 1_000, f"table:{number}")


def table_path(number: int) -> tuple[str, str]:
    return _namespace_name(_namespace_of(number)), f"orders_{number:06d}"


def _namespace_of(number: int) -> int:
    return NAMESPACES if number % 5 == 0 else number % NAMESPACES


def _namespace_name(number: int) -> str:
    return LARGE if number == NAMESPACES else f"team_{number:02d}"


def encoded_catalog(tables: int, columns: int) -> Iterator[bytes]:
    """The events of a catalog of so many tables, each with so many columns."""
    for number in range(NAMESPACES + 1):
        name = _namespace_name(number)
        created = NamespaceCreated(namespace_id(number), ROOT, name)
        yield _encoded(number, created, command="CreateNamespace", subject=name)
    types = ("long", "string", "double", "timestamp", "decimal(18,2)")
    for number in range(tables):
        path = table_path(number)
        table = TableCreated(
            table_id(number),
            namespace_id(_namespace_of(number)),
            path[1],
            "PARQUET",
            columns=tuple(
                AddedColumn(derive_ulid(SINCE + number * 1_000, f"{number}:{c}"), f"column_{c:02d}", types[c % 5])
                for c in range(columns)
            ),
        )
        yield _encoded(NAMESPACES + 1 + number, table, command="CreateTable", subject=".".join(path))


def encoded_lineage(nodes: int, edges: int, at: int) -> Iterator[bytes]:
    """The events of so many edges between the first tables of a catalog: one for each source and its targets."""
    left, source = edges, 0
    while left:
        chance = hashlib.blake2b(f"edges:{source}".encode(), digest_size=12).digest()
        steps = {int.from_bytes(chance[i : i + 4], "big") % (nodes // 5) + 1 for i in (0, 4, 8)[: 2 + source % 2]}
        targets = sorted(source + step for step in steps)[:left]
        yield _encoded(
            source,
            LineageRecorded(
                run_id=_id("run", source // 100),
                task_id=f"task-{source:06d}",
                started_at=at - 1_000_000,
                completed_at=at,
                edges=tuple(EdgeRecord(table_id(source), table_id(target)) for target in targets),
            ),
        )
        left, source = left - len(targets), source + 1


# Logs


def chain(place: Place, events: Iterable[bytes], size: int, at: int) -> Iterator[tuple[bytes, Link]]:
    """Events in segments of `size`, with the link of each."""
    previous, left = "", iter(events)
    for number in count_from(1):
        batch = list(islice(left, size))
        if not batch:
            return
        header = Header(
            format=1,
            log=place.log,
            number=number,
            id=f"01SEG{number:021d}",
            previous=previous,
            incarnation=place.incarnation,
            tenant=place.tenant,
            workspace=place.workspace,
            writer="bench",
            received=at,
            folds={},
        )
        data = encode_segment(header, batch)
        previous = hashlib.sha256(data).hexdigest()
        yield data, Link(number, previous, at)


def segments(
    place: Place, count: int, size: int, at: int, *, assets: int = 200, files: int = 3
) -> Iterator[tuple[bytes, Link]]:
    """A log of `count` materializations in segments of `size`, with the link of each."""
    return chain(place, encoded_events(0, count, at, assets=assets, files=files), size, at)


async def append(sequence: Sequence, found: Iterable[tuple[bytes, Link]], runtime: Runtime) -> None:
    """Fill an empty log past the owner: what is measured afterwards is the reading."""
    tail = Tail(0, runtime.boottime())
    for data, _ in found:
        outcome = await sequence.create(tail, data)
        assert isinstance(outcome, Won)
        tail = outcome.tail


async def fill_log(
    sequence: Sequence, place: Place, count: int, runtime: Runtime, *, assets: int = 200, files: int = 3
) -> None:
    """Append a log of so many materializations."""
    await append(sequence, segments(place, count, 5_000, runtime.now(), assets=assets, files=files), runtime)

"""Sample data: materialization events as a busy workspace has them, and logs made of them.

One event in 20 repeats an earlier materialization, one in 50 is a failure, and each asset has 50 partitions. Ids are as
random as real ones, since they decide how well files compress. With three files an event is about 1,170 bytes of JSON.
"""

import base64
import hashlib
from collections.abc import Iterator

import msgspec

from arco.core import Runtime
from arco.domains.execution import (
    MATERIALIZATION_COMPLETED,
    DataFile,
    MaterializationCompleted,
    MaterializationFailed,
)
from arco.log import Event, Header, Link, NewEvent, Place, encode_segment
from arco.state import new_event
from arco.storage import Sequence, Tail, Won

__all__ = ["PARTITIONS", "asset_id", "completed", "encoded_events", "fill_log", "new_completed", "segments"]

PARTITIONS = 50
"""Partitions of an asset."""

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


def encoded_events(start: int, count: int, at: int, *, assets: int = 200, files: int = 3) -> Iterator[bytes]:
    """Events as they stand in segments."""
    for number in range(start, start + count):
        payload: msgspec.Struct
        if number % 50 == 7:
            payload = _failed(number, at, assets)
        else:
            payload = completed(number - (number % 20 == 19), at, assets=assets, files=files)
        yield _encoder.encode(
            Event(
                id=_id("event", number),
                type=type(payload).__name__,
                time="2025-01-01T00:00:00.000000Z",
                source="arco",
                actor="worker",
                operation=_id("operation", number),
                data=msgspec.Raw(_encoder.encode(payload)),
            )
        )


def segments(
    place: Place, count: int, size: int, at: int, *, assets: int = 200, files: int = 3
) -> Iterator[tuple[bytes, Link]]:
    """A log of `count` events in segments of `size`, with the link of each."""
    previous = ""
    for number, start in enumerate(range(0, count, size), 1):
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
        data = encode_segment(header, encoded_events(start, min(size, count - start), at, assets=assets, files=files))
        previous = hashlib.sha256(data).hexdigest()
        yield data, Link(number, previous, at)


async def fill_log(
    sequence: Sequence, place: Place, count: int, runtime: Runtime, *, assets: int = 200, files: int = 3
) -> None:
    """Append a log of so many events, past the owner: what is measured afterwards is the reading."""
    tail = Tail(0, runtime.boottime())
    for data, _ in segments(place, count, 5_000, runtime.now(), assets=assets, files=files):
        outcome = await sequence.create(tail, data)
        assert isinstance(outcome, Won)
        tail = outcome.tail

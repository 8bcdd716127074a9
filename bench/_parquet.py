"""Parquet: what codec, row groups, dictionary and statistics cost and save, for one merged file of materializations.

"One bucket" reads the footer and the row groups whose statistics admit one of the 256 buckets, as `LayerReader` does.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.domains.execution import MATERIALIZATIONS, Materialization
from arco.state import bucket_of
from arco.state._codec import to_arrow
from bench._measure import Stopwatch
from bench._sample import completed

__all__ = ["Trial", "measure_parquet"]

TEXT = [
    name
    for name in MATERIALIZATIONS.columns
    if pa.types.is_string(MATERIALIZATIONS.schema.field(name).type) and name not in MATERIALIZATIONS.key
]
INDEXED = ["_bucket", "_position", "asset_id", "materialization_id", "completed_at", "run_id"]


@dataclass(frozen=True)
class Trial:
    """Bytes, and CPU milliseconds: the least of some tries."""

    name: str
    bytes: int
    write_ms: float
    read_ms: float
    bucket_ms: float
    bucket_bytes: int


def measure_parquet(rows: int) -> list[Trial]:
    data = _table(rows)
    chosen: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": 1,
        "row_group_size": 8_192,
        "use_dictionary": TEXT,
        "write_statistics": INDEXED,
    }
    trials: dict[str, dict[str, Any]] = {
        "zstd 1, 8k rows, dictionary of text": {},
        "zstd 3": {"compression_level": 3},
        "zstd 6": {"compression_level": 6},
        "snappy": {"compression": "snappy", "compression_level": None},
        "none": {"compression": "none", "compression_level": None},
        "4k rows": {"row_group_size": 4_096},
        "16k rows": {"row_group_size": 16_384},
        "64k rows": {"row_group_size": 65_536},
        "no dictionary": {"use_dictionary": False},
        "dictionary of everything": {"use_dictionary": True},
        "statistics of everything": {"write_statistics": True},
        "no statistics": {"write_statistics": False},
    }
    return [_trial(name, data, {**chosen, **changed}) for name, changed in trials.items()]


def _table(rows: int) -> pa.Table:
    assets = max(rows // 500, 20)
    groups: dict[str, dict[Any, tuple[int, Any]]] = {}
    for number in range(rows):
        event = completed(number, 1_750_000_000_000_000 + number * 1_000, assets=assets, files=1)
        row = Materialization(
            event.materialization_id,
            event.asset_id,
            event.asset_key,
            event.partition_id,
            event.partition_key,
            1,
            event.status,
            event.run_id,
            event.task_id,
            event.code_version,
            event.schema_hash,
            event.schema_version,
            event.files,
            len(event.files),
            event.row_count,
            event.byte_size,
            event.started_at,
            event.completed_at,
            event.inputs_fingerprint,
        )
        groups.setdefault(event.asset_id, {})[row.materialization_id] = (number, row)
    return to_arrow(MATERIALIZATIONS, groups.items())


def _trial(name: str, data: pa.Table, options: dict[str, Any]) -> Trial:
    writes, reads, picks = [], [], []
    encoded, fetched = b"", 0
    for _ in range(5):
        with Stopwatch() as write:
            sink = pa.BufferOutputStream()
            pq.write_table(data, sink, write_page_checksum=True, store_schema=False, **options)
            encoded = bytes(sink.getvalue())
        with Stopwatch() as read:
            pq.ParquetFile(pa.BufferReader(encoded), page_checksum_verification=True).read(use_threads=False)
        with Stopwatch() as pick:
            fetched = _read_bucket(encoded, bucket_of(data.column("asset_id")[0].as_py()))
        writes.append(write.cpu * 1_000)
        reads.append(read.cpu * 1_000)
        picks.append(pick.cpu * 1_000)
    return Trial(name, len(encoded), min(writes), min(reads), min(picks), fetched)


def _read_bucket(encoded: bytes, bucket: int) -> int:
    """Read one bucket's rows; how many bytes of the file that takes."""
    file = pq.ParquetFile(pa.BufferReader(encoded), page_checksum_verification=True)
    meta = file.metadata
    column = meta.schema.names.index("_bucket")
    wanted = []
    for index in range(meta.num_row_groups):
        stats = meta.row_group(index).column(column).statistics
        if stats is None or not stats.has_min_max or stats.min <= bucket <= stats.max:
            wanted.append(index)
    found = file.read_row_groups(wanted, use_threads=False)
    assert found.filter(pc.equal(found.column("_bucket"), pa.scalar(bucket, pa.uint8()))).num_rows
    groups = [meta.row_group(index) for index in wanted]
    columns = [group.column(i).total_compressed_size for group in groups for i in range(group.num_columns)]
    return int(meta.serialized_size) + sum(columns)

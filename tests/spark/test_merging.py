"""Merging small files: what Spark wrote stays what it was for Spark, and a cluster merges as one process does."""

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from arco.core import Refused
from arco.domains.execution import DataFile
from arco.log import Place
from arco.runtime import AsyncRuntime
from arco.servo import LocalMerger, Merge, NotMerged
from arco.servo._merging import merge_tables
from arco.spark import Site, SparkMerger
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope

SCOPE = Scope("acme", "prod")
SCHEMA = (
    "id bigint, small smallint, price decimal(9,2), big decimal(38,4), ratio double, day date, at timestamp, "
    "local timestamp_ntz, ok boolean, name string, raw binary, tags array<string>, "
    "place struct<x: int, y: array<double>>, counts map<string, bigint>, nothing int"
)


def rows(count: int) -> list[tuple[Any, ...]]:
    return [
        (
            number,
            number % 100,
            Decimal(number) / 100,
            Decimal(number) * 10**12,
            float("nan") if number % 7 == 0 else number / 3,
            date(1900, 1, 1) if number % 5 == 0 else date(2026, 1, 1),
            datetime(1, 1, 1, tzinfo=UTC) if number % 11 == 0 else datetime(2026, 1, 1, 2, 3, 4, 5, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999) if number % 13 == 0 else None,
            number % 2 == 0,
            None if number % 3 == 0 else f"name {number}",
            bytes([number % 256]),
            [f"t{number}", None],
            (number, [0.5, number / 7]) if number % 4 else None,
            {"a": number},
            None,
        )
        for number in range(count)
    ]


def written(spark: Any, folder: Path, parts: int, kind: str = "TIMESTAMP_MICROS") -> list[Path]:
    frame = spark.createDataFrame(rows(300), SCHEMA).repartition(parts)
    spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
    try:
        frame.write.parquet(str(folder))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return sorted(folder.glob("*.parquet"))


def texts(frame: Any) -> list[str]:
    """The rows as text: times before the year 1 west of here have no other form in Python."""
    return sorted(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())


def test_what_spark_wrote_is_the_same_for_spark_after_a_merge(spark: Any, tmp_path: Path) -> None:
    files = written(spark, tmp_path / "small", 6)
    assert len(files) == 6
    data, footer = merge_tables([path.read_bytes() for path in files])
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "part-0.parquet").write_bytes(data)
    before, after = spark.read.parquet(str(tmp_path / "small")), spark.read.parquet(str(tmp_path / "one"))
    assert after.schema == before.schema
    assert texts(after) == texts(before)
    assert footer.metadata == pq.read_metadata(files[0]).metadata


def test_old_timestamps_of_spark_stay(spark: Any, tmp_path: Path) -> None:
    files = written(spark, tmp_path / "small", 2, "INT96")
    with pytest.raises(Refused, match="96 bits"):
        merge_tables([path.read_bytes() for path in files])


def test_a_cluster_merges_what_one_process_merges(spark: Any, tmp_path: Path) -> None:
    files = written(spark, tmp_path / "small", 9)

    async def work() -> None:
        runtime = AsyncRuntime()
        base = LocalStore(tmp_path / "store")
        reader, writer = (RoleStore(base, SCOPE, role, RequestCounts()) for role in (Role.READER, Role.WORKER))
        for number, path in enumerate(files):
            await writer.put(f"data/a/p/{number}.parquet", path.read_bytes(), only_if_absent=True)
        await writer.put("data/a/p/bad.parquet", b"no parquet", only_if_absent=True)
        sizes = [path.stat().st_size for path in files]
        groups = [range(3), range(3, 9)]
        named = [tuple((f"data/a/p/{number}.parquet", sizes[number]) for number in group) for group in groups]
        sources = [*named, (*named[0], ("data/a/p/bad.parquet", 10)), (("data/a/p/none.parquet", 1), named[0][0])]
        place = Place(SCOPE.tenant, SCOPE.workspace, "inc-1", "activity")
        site = Site.of(f"file://{tmp_path / 'store'}", {}, place)
        found = []
        for name, merger in (
            ("local", LocalMerger(reader, writer, runtime)),
            ("spark", SparkMerger(site, runtime, lambda: spark)),
        ):
            merges = [Merge(given, f"data/a/{name}/", number) for number, given in enumerate(sources)]
            found.append(await merger.merge(merges))
        local, remote = found
        assert [isinstance(one, NotMerged) for one in local] == [False, False, True, True]
        for one, other in zip(local, remote, strict=True):
            if isinstance(one, DataFile) and isinstance(other, DataFile):
                assert (one.size_bytes, one.row_count, one.stats) == (other.size_bytes, other.row_count, other.stats)
                assert await reader.get(one.path) == await reader.get(other.path)
                assert one.path.rpartition("-")[0] == other.path.rpartition("-")[0].replace("/spark/", "/local/")
            else:
                assert one == other

    asyncio.run(work())

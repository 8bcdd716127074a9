"""Inputs of several partitions: a filter on the partition leaves out the files of the others."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.assets import SchemaColumn, Source, SourceFormat
from arco.core import PartitionKey
from arco.spark._files import FoundFile, Part, read_files
from arco.spark._inputs import SourceFile, Version, read_versions
from arco.spark._place import Place, place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = [date(2025, 1, day) for day in (1, 2, 3, 4)]
COLUMNS = (SchemaColumn("id", "long"), SchemaColumn("name", "string"))


def frame_of(spark: "SparkSession", folder: Path, form: str) -> "DataFrame":
    """An input of four days, of one file each, with as many rows as the number of its day."""
    place = place_of(str(folder), {}, "acme/prod")
    if form == "parquet":
        return read_versions(spark, place, "orders", [version(place, day) for day in DAYS], with_keys=True)
    parts = [Part(PartitionKey({"date": day}), (landed(place, day),)) for day in DAYS]
    source = Source("landing/{date}/*.csv", SourceFormat.CSV)
    return read_files(spark, place, "orders", source, COLUMNS if form == "csv" else (), parts)


def version(place: Place, day: date) -> Version:
    path = f"data/A/p{day.day}/01HF00000000000000000000{day:%d}/part-0.parquet"
    file = Path(place.file(path))
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": list(range(day.day)), "name": ["x"] * day.day}), file)
    files = (SourceFile(path, file.stat().st_size),)
    return Version("n.orders", "A", f"p{day.day}", PartitionKey({"date": day}), file.parent.name, "h", files)


def landed(place: Place, day: date) -> FoundFile:
    path = f"landing/{day}/orders.csv"
    file = Path(place.file(path))
    file.parent.mkdir(parents=True)
    file.write_text("id,name\n" + "".join(f"{number},x\n" for number in range(day.day)))
    return FoundFile(path, file.stat().st_size, 0)


def files_read(frame: "DataFrame") -> tuple[int, int]:
    """How many rows a frame has, and how many files Spark read for them."""
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    assert isinstance(frame, Classic)
    rows = len(frame.collect())
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    scans = [leaves.apply(index) for index in range(leaves.size())]
    return rows, sum(scan.metrics().apply("numFiles").value() for scan in scans)


@pytest.mark.parametrize("form", ["parquet", "csv", "csv without declared columns"])
@pytest.mark.parametrize(
    ("condition", "days"),
    [
        ("true", [1, 2, 3, 4]),
        ("date = '2025-01-03'", [3]),
        ("date >= '2025-01-02' AND date < '2025-01-04' AND id >= 0", [2, 3]),
        ("date IN ('2025-01-01', '2025-01-04')", [1, 4]),
        ("date = '2024-12-31'", []),
    ],
)
def test_a_filter_on_the_partition_reads_only_its_files(
    spark: "SparkSession", tmp_path: Path, form: str, condition: str, days: Sequence[int]
) -> None:
    found = frame_of(spark, tmp_path, form).where(condition)
    assert files_read(found) == (sum(days), len(days))


def test_rows_keep_their_partition_when_only_some_files_of_a_version_were_merged(
    spark: "SparkSession", tmp_path: Path
) -> None:
    place = place_of(str(tmp_path), {}, "acme/prod")
    days = [version(place, day) for day in DAYS[:2]]
    merged = f"data/A/compaction-01HG/arco_version={days[1].materialization_id}/part-0.parquet"
    file = Path(place.file(merged))
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [7, 8, 9], "name": ["y"] * 3}), file)
    days[1] = replace(days[1], files=(*days[1].files, SourceFile(merged, file.stat().st_size)))
    frame = read_versions(spark, place, "orders", days, with_keys=True)
    rows = {(str(row["date"]), row["id"]) for row in frame.collect()}
    assert rows == {("2025-01-01", 0), *(("2025-01-02", number) for number in (0, 1, 7, 8, 9))}
    assert files_read(frame.where("date = '2025-01-02'")) == (5, 2)

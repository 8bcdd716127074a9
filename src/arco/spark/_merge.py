"""A merge on Spark: every task merges some neighbouring buckets of the layers and writes files of its own."""

from arco.core import new_ulid
from arco.runtime import AsyncRuntime
from arco.spark._parcels import Report, partition_of, report_parcel
from arco.spark._site import Sent, Site, perform
from arco.state import BUCKETS, Layer, merge_layers

__all__ = ["merge_buckets"]


def merge_buckets(
    site: Site,
    table: str,
    layers: tuple[Layer, ...],
    oldest: bool,
    cutoff: int | None,
    directory: str,
    partitions: int,
    partition: int,
) -> list[Sent]:
    """Merge the buckets of a partition."""

    async def work(runtime: AsyncRuntime, sent: list[Sent]) -> None:
        kind = site.define(site.place.log).tables[table]
        buckets = [bucket for bucket in range(BUCKETS) if partition_of(bucket, partitions) == partition]
        name = f"merged-{partition:03d}-{new_ulid(runtime, runtime)}"
        reader, writer = site.reader(runtime), site.writer(runtime, directory)
        files = await merge_layers(kind, layers, oldest, cutoff, reader, writer, buckets=buckets, name=name)
        sent.append(report_parcel(Report(partition, files=[(table, file, None) for file in files]), partitions))

    return list(perform(partition, partitions, work))

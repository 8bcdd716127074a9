"""One way to read a table: layers of a revision, rows in memory on top, retention applied."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from arco.state._beside import work_on
from arco.state._codec import newest, sort_rows
from arco.state._layers import LayerReader, keep_alive
from arco.state._manifest import Layer
from arco.state._table import Kind, Table

__all__ = ["scan", "visible"]


async def scan(
    reader: LayerReader,
    table: Table,
    layers: Sequence[Layer],
    overlay: pa.Table | None,
    cutoff: int | None,
    buckets: Iterable[int] | None = None,
) -> pa.Table:
    """The rows a reader sees, in bucket, group and key order, with `_position`."""
    wanted = None if buckets is None else set(buckets)
    stored = await reader.rows(table, layers, wanted, dead=True)

    def combine() -> pa.Table:
        above = overlay
        if above is None or not above.num_rows:
            return visible(table, stored, cutoff)
        if wanted is not None:
            above = above.filter(pc.is_in(above.column("_bucket"), pa.array(sorted(wanted), pa.uint8())))
        both = sort_rows(table, pa.concat_tables([stored, above]).combine_chunks())
        return visible(table, newest(table, both), cutoff)

    return await work_on(stored.num_rows, combine, reader.runtime)


def visible(table: Table, data: pa.Table, cutoff: int | None) -> pa.Table:
    """Sorted rows of one key each, without tombstones, expired facts and the columns only the engine needs."""
    if table.kind is Kind.IMAGE:
        data = data.filter(pc.invert(data.column("_deleted"))).drop_columns(["_deleted"])
    return keep_alive(table, data, cutoff).drop_columns(["_bucket"])

"""One plan over many partitions: what must hold of its inputs, and how its rows find the folders of their versions.

    key_columns      the columns of an input that hold the partition of each row, if they do
    write_together   one Spark job into one folder, in which every version has a folder of its own

Whoever puts partitions together must know that the plan does not mix them (`partition_mixing`). `Apart` says why they
are not put together, and what to change.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from arco.core import PartitionKey, Scalar
from arco.spark._inputs import Version, kind_of
from arco.spark._outputs import MAX_FILE_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Apart", "key_columns", "write_together"]

READ_AT_ONCE: Final = 16
_KEY: Final = "arco_key_"


class Apart(Exception):
    """Each partition gets a plan of its own; the text says why, and what to change."""


def key_columns(
    versions: Sequence[Version], columns: Iterable[str], footers: "Callable[[str, int], Any]"
) -> dict[str, str]:
    """By dimension of the partition key, the column that holds it in every row of these versions.

    A column that the data does not have is made of the key when it is read. One that the data has is believed only if
    the statistics of every file say so: nothing keeps a row of another day out of a file. `footers` gives the metadata
    of a file by its path.
    """
    from concurrent.futures import ThreadPoolExecutor

    names = {name.lower(): name for name in columns}
    found = {name: name for name, _ in versions[0].partition_key.dimensions}
    own = {name: names[name.lower()] for name in found if name.lower() in names}
    if own:
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            for version, told in zip(versions, pool.map(lambda one: _ranges(one, own, footers), versions), strict=True):
                for name, value in version.partition_key.dimensions:
                    if name in own and told[name] - {_comparable(value)}:
                        raise Apart(
                            f"{version.asset_key} has a column {own[name]} of its own that does not hold the partition "
                            f"of every row: rename it, or leave it away and have it made of the partition"
                        )
    return found | own


def _ranges(version: Version, own: Mapping[str, str], footers: "Callable[[str, int], Any]") -> dict[str, set[Any]]:
    """All values that the statistics of a version's files name for columns; None among them if they cannot tell."""
    found: dict[str, set[Any]] = {name: set() for name in own}
    for file in version.files:
        footer = footers(file.path, file.size_bytes)
        places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            for name, column in own.items() if group.num_rows else ():
                statistics = group.column(places[column]).statistics if column in places else None
                found[name] |= _values(statistics)
    return found


def _values(statistics: Any) -> set[Any]:
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return {None}
    return {_comparable(statistics.min), _comparable(statistics.max)}


def _comparable(value: Any) -> Any:
    """A day is not the moment at which it begins, and 1 is not true."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return (type(value), value)


def write_together(
    frame: "DataFrame",
    folder: str,
    column: str,
    keys: Mapping[str, str],
    versions: Mapping[PartitionKey, str],
) -> None:
    """Write a frame into a folder, the rows of each partition below `column=version`.

    `keys` are columns of the frame by dimension. Rows of no partition end up below another name, which is an error of
    whoever said that partitions do not mix. A shuffle brings the rows of a version together: few files, none of them
    too large. What was written before by a job that broke stays where it is.
    """
    from pyspark.sql import functions as f

    dimensions = list(keys)
    rows = [(*(key.to_dict()[name] for name in dimensions), version) for key, version in versions.items()]
    places = f.broadcast(frame.sparkSession.createDataFrame(rows, _schema(dimensions, versions, column)))
    condition: Any = f.lit(True)
    for name in dimensions:
        condition = condition & frame[f"`{keys[name]}`"].eqNullSafe(places[f"{_KEY}{name}"])
    placed = frame.join(places, condition, "left").drop(*(f"{_KEY}{name}" for name in dimensions))
    together = placed.hint("rebalance", f.col(column))
    writer = together.write.mode("append").partitionBy(column).option("maxRecordsPerFile", MAX_FILE_ROWS)
    writer.parquet(folder)


def _schema(dimensions: Sequence[str], versions: Iterable[PartitionKey], column: str) -> str:
    first: dict[str, Scalar] = next(iter(versions)).to_dict()
    fields = [f"`{_KEY}{name}` {kind_of(first[name])}" for name in dimensions]
    return ", ".join([*fields, f"`{column}` string"])

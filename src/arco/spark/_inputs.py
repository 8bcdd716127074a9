"""Inputs: a parameter's DataFrame, read lazily from exactly the files of the versions that the plan pinned.

- One version: its files. Several (a mapping that may choose several partitions): all their files in one frame, with the
  dimensions of their partition keys as columns, unless the data has columns of these names.
- Columns are the union of what the versions have: a column that was added later is null in older ones.
- Every frame is an alias `arco_input_<parameter>`, by which the inputs are found again in an analysed plan.

Where partitions become columns, each row finds its values by the folder of its file. Spark reads only the files that a
filter on such a column leaves.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from arco.core import Invalid, PartitionKey, Scalar
from arco.spark._errors import InputDamaged, InputLost, ReadFile
from arco.spark._outputs import SPARK_SCHEMA
from arco.spark._place import Place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["INPUT", "SourceFile", "Version", "data_columns", "files_of", "kind_of", "read_versions"]

INPUT: Final = "arco_input_"
"""What the alias of an input begins with."""

_WIDER: Final = {("int", "bigint"), ("smallint", "int"), ("smallint", "bigint"), ("float", "double")}


@dataclass(frozen=True)
class SourceFile:
    path: str
    """Relative to the workspace."""
    size_bytes: int


@dataclass(frozen=True)
class Version:
    """One version of one partition of an asset."""

    asset_key: str
    asset_id: str
    partition_id: str
    partition_key: PartitionKey
    materialization_id: str
    schema_hash: str
    """The same for versions with the same columns; empty if it is not known."""
    files: tuple[SourceFile, ...]


def read_versions(
    session: "SparkSession",
    place: Place,
    parameter: str,
    versions: Sequence[Version],
    *,
    with_keys: bool,
    known: Sequence[Version] = (),
) -> "DataFrame":
    """The frame of a parameter. `with_keys` if partitions become columns.

    Of versions that are only `known` it has the columns and no rows.
    """
    from pyspark.sql import functions as f

    every = _tables(parameter, [*versions, *known])
    tables = [version for version in versions if version.files]
    if place.is_local:
        for version in every:
            _check_files(place, version)
    paths = [place.pattern(file.path) for version in tables or every for file in version.files]
    schema = _schema(session, place, every)
    frame = session.read.schema(schema).parquet(*paths)
    if with_keys:
        frame = _with_keys(frame, tables or every)
    return (frame if tables else frame.where(f.lit(False))).alias(f"{INPUT}{parameter}")


def data_columns(session: "SparkSession", place: Place, versions: Sequence[Version]) -> list[str]:
    """The columns that the files of versions have."""
    return _schema(session, place, [version for version in versions if version.files]).names


def files_of(versions: Iterable[Version]) -> dict[str, ReadFile]:
    """The files of versions by path: for errors that only name the file."""
    return {file.path: ReadFile(_told(version, file)) for version in versions for file in version.files}


def _told(version: Version, file: SourceFile) -> str:
    return f"{file.path} of version {version.materialization_id} of {version.asset_key}"


def _tables(parameter: str, versions: Sequence[Version]) -> list[Version]:
    """The versions that have files, all of which must be tables."""
    found = [version for version in versions if version.files]
    for version in found:
        if not version.files[0].path.endswith(".parquet"):
            raise Invalid(
                f"the parameter {parameter} is a DataFrame, but {version.asset_key} is no table: its version "
                f"{version.materialization_id} is a value; have {version.asset_key} return a table or rows, or read it "
                "in a function that runs on Python"
            )
    if not found:
        keys = ", ".join(sorted({version.asset_key for version in versions})) or "what it reads"
        raise Invalid(
            f"the parameter {parameter} is a DataFrame, but {keys} has returned nothing; return a table there"
        )
    return found


def _check_files(place: Place, version: Version) -> None:
    for file in version.files:
        try:
            size = os.stat(place.file(file.path)).st_size
        except FileNotFoundError:
            raise InputLost(f"{_told(version, file)}, which the task reads, is gone; run what makes it again") from None
        if size != file.size_bytes:
            raise InputDamaged(
                f"{_told(version, file)}, which the task reads, has {size} bytes instead of {file.size_bytes}: "
                "somebody changed it; run what makes it again"
            )


# Columns


def _schema(session: "SparkSession", place: Place, versions: Sequence[Version]) -> "StructType":
    """The union of the columns of all versions; of those that have the same, one is looked at."""
    seen: dict[str, StructType] = {}
    merged: StructType | None = None
    for version in versions:
        if version.schema_hash and version.schema_hash in seen:
            continue
        found = _file_schema(session, place, version)
        seen[version.schema_hash] = found
        merged = found if merged is None else _merged(merged, found, version)
    assert merged is not None
    return merged


def _file_schema(session: "SparkSession", place: Place, version: Version) -> "StructType":
    """The columns of a version as Spark reads them."""
    file = version.files[0]
    known = _local_schema(place, version) if place.is_local else None
    return known if known is not None else session.read.parquet(place.pattern(file.path)).schema


def _local_schema(place: Place, version: Version) -> "StructType | None":
    """The same without a Spark job; None if only Spark can say how it reads this file."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    file = version.files[0]
    try:
        schema = pq.read_schema(place.file(file.path))
    except (pa.ArrowException, OSError) as error:
        raise InputDamaged(
            f"{_told(version, file)}, which the task reads, is damaged ({str(error).splitlines()[0][:200]}); run what "
            "makes it again"
        ) from error
    written = (schema.metadata or {}).get(SPARK_SCHEMA)
    if written is not None:
        return StructType.fromJson(msgspec.json.decode(written))
    for field in schema:
        if _has_nanoseconds(field.type):
            raise Invalid(
                f"the column {field.name} of {version.asset_key} counts nanoseconds, which Spark cannot read; have "
                f"{version.asset_key} return microseconds, such as frame.astype({{'{field.name}': 'datetime64[us]'}})"
            )
    if not all(_is_plain(field.type) for field in schema):
        return None
    try:
        return from_arrow_schema(schema.remove_metadata(), prefer_timestamp_ntz=True)
    except PySparkException:
        return None


def _has_nanoseconds(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(place).type) for place in range(kind.num_fields))


def _is_plain(kind: Any) -> bool:
    """Whether Spark's reader of Parquet and its converter of Arrow types agree about it."""
    import pyarrow as pa

    is_type = pa.types
    if is_type.is_list(kind) or is_type.is_struct(kind) or is_type.is_map(kind):
        return all(_is_plain(kind.field(place).type) for place in range(kind.num_fields))
    return (
        is_type.is_boolean(kind)
        or is_type.is_signed_integer(kind)
        or kind in (pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
        or is_type.is_decimal128(kind)
        or (is_type.is_timestamp(kind) and kind.unit in ("us", "ms"))
    )


def _merged(left: "StructType", right: "StructType", version: Version) -> "StructType":
    from pyspark.sql.types import StructField, StructType

    fields = {field.name: field for field in left.fields}
    for field in right.fields:
        known = fields.get(field.name)
        if known is None:
            fields[field.name] = field
            continue
        kinds = known.dataType.simpleString(), field.dataType.simpleString()
        if kinds[0] == kinds[1] or (kinds[1], kinds[0]) in _WIDER:
            continue
        if kinds not in _WIDER:
            raise Invalid(
                f"versions of {version.asset_key} disagree about the column {field.name}: it is {kinds[0]} in some and "
                f"{kinds[1]} in {version.materialization_id}; run the older partitions again"
            )
        fields[field.name] = field
    return StructType([StructField(field.name, field.dataType, True) for field in fields.values()])


# Partitions as columns


def _with_keys(frame: "DataFrame", versions: Sequence[Version]) -> "DataFrame":
    """The frame with a column for each dimension that its data does not have."""
    from pyspark.sql import functions as f

    names = {name.lower() for name in frame.columns}
    kinds: dict[str, str] = {}
    for version in versions:
        for name, value in version.partition_key.dimensions:
            if name.lower() not in names:
                kinds[name] = kind_of(value)
    if not kinds:
        return frame
    # By the last letter first: a map is searched from its beginning.
    tree: dict[str, dict[str, dict[str, Scalar]]] = {}
    for version in versions:
        values = {name: value for name, value in version.partition_key.dimensions if name in kinds}
        for name in dict.fromkeys(_folder_name(file) for file in version.files):
            tree.setdefault(name[-1:], {})[name] = values
    text = msgspec.json.encode(tree).decode()
    fields = ", ".join(f"`{name}`: {kind}" for name, kind in kinds.items())
    lookup = f.from_json(f.lit(text), f"map<string, map<string, struct<{fields}>>>")
    folder = _folder()
    found = lookup[f.right(folder, f.lit(1))][folder]
    return frame.select("*", *(found[name].alias(name) for name in kinds))


def _folder_name(file: SourceFile) -> str:
    """The folder of a file, which is of its version alone. A version of which some files were merged has several."""
    return file.path.rsplit("/", 2)[-2]


def _folder() -> "Column":
    """The folder of a row's file."""
    from pyspark.sql import functions as f

    return f.substring_index(f.substring_index(f.col("_metadata.file_path"), "/", -2), "/", 1)


def kind_of(value: Scalar) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case datetime():
            return "timestamp"
        case date():
            return "date"
        case _:
            return "string"

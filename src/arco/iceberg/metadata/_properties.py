"""Table and view properties: which are reserved, and which a new table must be able to be written with."""

import re
from collections.abc import Mapping

from arco.core import shown
from arco.iceberg._errors import IllegalArgument, ValidationFailed
from arco.iceberg.metadata._schemas import SchemaIndex

__all__ = ["FORMAT_VERSION", "check_new_table", "integer", "kept"]

FORMAT_VERSION = "format-version"
RESERVED = frozenset(
    (
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    )
)
"""Say something to the catalog, or are shown by engines; they are never kept."""

_DEFAULTS = {"write.parquet.compression-codec": "zstd"}
_RETRIES = (
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)
_ENCRYPTION = ("encryption.key-id", "encryption.data-key-length")
_METRICS = "write.metadata.metrics.column."
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def kept(properties: Mapping[str, str]) -> dict[str, str]:
    """What a new table keeps of the properties it was asked for, with what new tables have by default."""
    return _DEFAULTS | {name: value for name, value in properties.items() if name not in RESERVED}


def integer(properties: Mapping[str, str], name: str, default: int) -> int:
    """A property that must be a 32-bit number, or `ValidationFailed`."""
    text = properties.get(name)
    if text is None:
        return default
    if _INTEGER.fullmatch(text) is None or not -(2**31) <= int(text) < 2**31:
        raise ValidationFailed(f"The property {name} must be an integer, but is {shown(text)}")
    return int(text)


def check_new_table(properties: Mapping[str, str], schema: SchemaIndex, version: int) -> None:
    """`Invalid` if a table with these properties could not be written to."""
    for name in _RETRIES:
        if name in properties:
            if _INTEGER.fullmatch(properties[name]) is None:
                raise ValidationFailed(f"Table property {name} must have integer value")
            if int(properties[name]) < 0:
                raise ValidationFailed(f"Table property {name} must have non negative integer value")
    for name in properties:
        column = name.removeprefix(_METRICS)
        if name.startswith(_METRICS) and schema.find(column) is None:
            raise ValidationFailed(
                f"Invalid metrics config, could not find column {column} from table prop {name} in the schema"
            )
    encrypted = sorted(set(_ENCRYPTION) & properties.keys())
    if encrypted and version < 3:
        raise IllegalArgument(f"Invalid properties for v{version}: {', '.join(encrypted)}")

"""From Arrow's types to ours: what a column of a file is called in the catalog."""

import pyarrow as pa

from arco.core import Invalid, Refused, shown
from arco.domains.catalog import parse_type

__all__ = ["type_text"]

_SIMPLE = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width < 32, "int"),
    (pa.types.is_int32, "int"),
    (lambda kind: pa.types.is_uint32(kind) or pa.types.is_int64(kind), "long"),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "timestamp"),
    (pa.types.is_timestamp, "timestamptz"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), "string"),
    (pa.types.is_string_view, "string"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), "binary"),
    (pa.types.is_binary_view, "binary"),
)
_EXTENSIONS = {"arrow.uuid": "uuid", "arrow.json": "string"}


def type_text(column: str, kind: pa.DataType, *, unknown: str | None = None) -> str:
    """Our text of an Arrow type; `Refused` with the column's name if there is none.

    `unknown` is the type of a column in which no value was seen.
    """
    try:
        return parse_type(_text(kind, unknown))
    except (LookupError, Invalid) as error:
        why = f": {error.message}" if isinstance(error, Invalid) else ""
        raise Refused(
            f"the column {shown(column)} has the type {shown(str(kind))}, which no table here can have{why}; "
            "write the files with another type",
            column=column,
        ) from None


def _text(kind: pa.DataType, unknown: str | None) -> str:
    if isinstance(kind, pa.BaseExtensionType):
        return _EXTENSIONS.get(kind.extension_name) or _text(kind.storage_type, unknown)
    if pa.types.is_null(kind) and unknown is not None:
        return unknown
    if pa.types.is_dictionary(kind):
        return _text(kind.value_type, unknown)
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed({kind.byte_width})"
    if pa.types.is_map(kind):
        return f"map<{_text(kind.key_type, unknown)},{_text(kind.item_type, unknown)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list<{_text(kind.value_type, unknown)}>"
    if pa.types.is_struct(kind):
        fields = (f'"{field.name}":{_text(field.type, unknown)}' for field in kind)
        return f"struct<{','.join(fields)}>"
    for fits, text in _SIMPLE:
        if fits(kind):
            return text
    raise LookupError

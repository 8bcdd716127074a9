"""Columns of Parquet files as columns of an Iceberg table, and how a table's columns grow with its files.

    Arrow schema of a file -> `columns_of` -> fields without ids -> `evolve` on the table's fields -> fields with ids

A column is found by its name. It keeps its id as long as a file of the table has it; a type may only widen as Iceberg
allows. Every column is optional: files of other versions may lack it. A column in which a file saw no value at all has
no type yet, and so is no column of that file.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from arco.core import Refused, shown

__all__ = [
    "Fields",
    "MixedColumns",
    "check_columns",
    "columns_of",
    "evolve",
    "is_readable",
    "leaves_of",
    "name_mapping",
]

Fields: TypeAlias = list[dict[str, Any]]
"""As in the JSON of a schema; those of a file have the id 0."""

_Numbered: TypeAlias = Callable[[], int]

_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "int"),
    (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date32, "date"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
)
_WIDER = {"int": "long", "float": "double"}


class MixedColumns(Refused):
    """Files of a table cannot be one table: a column has types of which none contains the other."""


def columns_of(schema: pa.Schema) -> Fields:
    """The columns of a file. `Refused` names the first one whose type no Iceberg table of format 2 has."""
    return [_field(field.name, field.type, field.name) for field in schema if not pa.types.is_null(field.type)]


def check_columns(schema: pa.Schema) -> None:
    """`Refused` unless a file with this schema can be part of an Iceberg table."""
    columns_of(schema)


def evolve(fields: Fields, last_id: int, files: Iterable[Fields], used: Collection[int]) -> tuple[Fields, int]:
    """The columns of a table after files came, and the last id that was given out.

    Args:
        fields: what the table has.
        files: the columns of each file that comes.
        used: ids in the files that stay. A column that no file has goes, and its name is free for another type.
    """
    number = last_id

    def next_id() -> int:
        nonlocal number
        number += 1
        return number

    found = {field["name"]: field for field in fields}
    coming: set[str] = set()
    for columns in files:
        for column in columns:
            name = column["name"]
            known = found.get(name)
            if known is None:
                found[name] = _with_ids(column, next_id)
            else:
                merged = _merged(known["type"], column["type"], next_id)
                if merged is not None:
                    found[name] = known if merged == known["type"] else {**known, "type": merged}
                elif name in coming or _is_used(known, used):
                    raise MixedColumns(
                        f"the column {shown(name)} is {_text(known['type'])} in some files of the table and "
                        f"{_text(column['type'])} in others; make all partitions again with one type"
                    )
                else:
                    found[name] = _with_ids(column, next_id)
            coming.add(name)
    return [field for name, field in found.items() if name in coming or _is_used(field, used)], number


def leaves_of(schema: pa.Schema, fields: Fields) -> list[tuple[int, Any] | None]:
    """Id and type in the table of each leaf of a file, in the order in which Parquet has them; None where the table has
    no such column."""
    known = {field["name"]: field for field in fields}
    return [leaf for field in schema for leaf in _arrow_leaves(field.type, known.get(field.name))]


def is_readable(fields: Fields, columns: Fields) -> bool:
    """Whether a file can be read as this table is, with nothing changed; columns it has beyond them are left aside."""
    known = {field["name"]: field["type"] for field in fields}
    return all(
        _merged(known[column["name"]], column["type"], lambda: 0) == known[column["name"]]
        for column in columns
        if column["name"] in known
    )


def name_mapping(fields: Fields) -> list[dict[str, Any]]:
    """Which id a column has in files that hold no ids."""
    return [_mapped(field["name"], field["id"], field["type"]) for field in fields]


def _mapped(name: str, number: int, kind: Any) -> dict[str, Any]:
    children: list[dict[str, Any]] = []
    match kind:
        case {"type": "struct"}:
            children = name_mapping(kind["fields"])
        case {"type": "list"}:
            children = [_mapped("element", kind["element-id"], kind["element"])]
        case {"type": "map"}:
            key = _mapped("key", kind["key-id"], kind["key"])
            children = [key, _mapped("value", kind["value-id"], kind["value"])]
    return {"field-id": number, "names": [name], **({"fields": children} if children else {})}


# From Arrow


def _field(name: str, kind: pa.DataType, place: str) -> dict[str, Any]:
    return {"id": 0, "name": name, "required": False, "type": _type(kind, place)}


def _type(kind: pa.DataType, place: str) -> Any:
    for matches, text in _SIMPLE:
        if matches(kind):
            return text
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, place)
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_time64(kind) and kind.unit == "us":
        return "time"
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    if pa.types.is_struct(kind):
        names = [field for field in kind if not pa.types.is_null(field.type)]
        return {"type": "struct", "fields": [_field(one.name, one.type, f"{place}.{one.name}") for one in names]}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _type(kind.value_type, f"{place}.element")
        return {"type": "list", "element-id": 0, "element": element, "element-required": False}
    if pa.types.is_map(kind):
        key, value = _type(kind.key_type, f"{place}.key"), _type(kind.item_type, f"{place}.value")
        return {"type": "map", "key-id": 0, "key": key, "value-id": 0, "value": value, "value-required": False}
    cure = "cast it to microseconds" if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else "cast it"
    raise Refused(f"the column {shown(place)} is of type {kind}, which Iceberg tables do not have; {cure}")


# Ids


def _with_ids(field: dict[str, Any], next_id: _Numbered) -> dict[str, Any]:
    return {**field, "id": next_id(), "type": _numbered(field["type"], next_id)}


def _numbered(kind: Any, next_id: _Numbered) -> Any:
    match kind:
        case {"type": "struct"}:
            return {**kind, "fields": [_with_ids(field, next_id) for field in kind["fields"]]}
        case {"type": "list"}:
            return {**kind, "element-id": next_id(), "element": _numbered(kind["element"], next_id)}
        case {"type": "map"}:
            ids = {"key-id": next_id(), "value-id": next_id()}
            return {**kind, **ids, "key": _numbered(kind["key"], next_id), "value": _numbered(kind["value"], next_id)}
    return kind


def _merged(known: Any, other: Any, next_id: _Numbered) -> Any:
    """A type that holds values of both, as Iceberg lets a type widen; None if there is none."""
    if isinstance(known, str) and isinstance(other, str):
        return known if known == other else _wider(known, other)
    if isinstance(known, str) or isinstance(other, str) or known["type"] != other["type"]:
        return None
    match known["type"]:
        case "struct":
            fields = _merged_fields(known["fields"], other["fields"], next_id)
            return None if fields is None else {**known, "fields": fields}
        case "list":
            element = _merged(known["element"], other["element"], next_id)
            return None if element is None else {**known, "element": element}
        case "map" if _same(known["key"], other["key"]):
            value = _merged(known["value"], other["value"], next_id)
            return None if value is None else {**known, "value": value}
    return None


def _merged_fields(known: Sequence[dict[str, Any]], other: Fields, next_id: _Numbered) -> Fields | None:
    found = {field["name"]: field for field in known}
    for field in other:
        before = found.get(field["name"])
        if before is None:
            found[field["name"]] = _with_ids(field, next_id)
            continue
        merged = _merged(before["type"], field["type"], next_id)
        if merged is None:
            return None
        found[field["name"]] = {**before, "type": merged}
    return list(found.values())


def _same(known: Any, other: Any) -> bool:
    return isinstance(known, str) and known == other


def _wider(one: str, other: str) -> str | None:
    for narrow, wide in ((one, other), (other, one)):
        if _WIDER.get(narrow) == wide:
            return wide
    first, second = _decimal(one), _decimal(other)
    if first is not None and second is not None and first[1] == second[1]:
        return f"decimal({max(first[0], second[0])}, {first[1]})"
    return None


def _decimal(text: str) -> tuple[int, int] | None:
    if not text.startswith("decimal("):
        return None
    precision, _, scale = text[len("decimal(") : -1].partition(",")
    return int(precision), int(scale)


def _arrow_leaves(kind: pa.DataType, field: dict[str, Any] | None) -> list[tuple[int, Any] | None]:
    known = None if field is None else field["type"]
    if pa.types.is_struct(kind):
        inner = {one["name"]: one for one in known["fields"]} if isinstance(known, dict) else {}
        return [leaf for one in kind for leaf in _arrow_leaves(one.type, inner.get(one.name))]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _arrow_leaves(kind.value_type, _child(known, "element"))
    if pa.types.is_map(kind):
        value = _arrow_leaves(kind.item_type, _child(known, "value"))
        return [*_arrow_leaves(kind.key_type, _child(known, "key")), *value]
    return [None if field is None or pa.types.is_null(kind) else (field["id"], known)]


def _leaf_ids(number: int, kind: Any) -> list[int]:
    match kind:
        case {"type": "struct"}:
            return [leaf for field in kind["fields"] for leaf in _leaf_ids(field["id"], field["type"])]
        case {"type": "list"}:
            return _leaf_ids(kind["element-id"], kind["element"])
        case {"type": "map"}:
            return [*_leaf_ids(kind["key-id"], kind["key"]), *_leaf_ids(kind["value-id"], kind["value"])]
    return [number]


def _child(kind: Any, name: str) -> dict[str, Any] | None:
    return {"id": kind[f"{name}-id"], "type": kind[name]} if isinstance(kind, dict) else None


def _is_used(field: dict[str, Any], used: Collection[int]) -> bool:
    return any(leaf in used for leaf in _leaf_ids(field["id"], field["type"]))


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])

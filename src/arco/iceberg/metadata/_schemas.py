"""Schemas: checked, indexed by id and name, given fresh ids, compared.

A schema is a struct with an id: fields, which hold structs, lists and maps. A list's element and a map's key and value
are fields too, with ids of their own, named `element`, `key` and `value`. A field's *full name* goes through all that
hold it (`points.element.x`); its *short name* leaves out elements and values that are structs (`points.x`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from arco.core import shown
from arco.iceberg._errors import BadRequest, IllegalArgument, ValidationFailed
from arco.iceberg.metadata._defaults import check_default, shown_default
from arco.iceberg.metadata._reading import MAX_DEPTH, Doc, Int, Shape, convert
from arco.iceberg.metadata._types import MIN_VERSION, Primitive, parse_primitive

__all__ = [
    "Field",
    "SchemaIndex",
    "check_version",
    "fresh_schema",
    "id_of",
    "index_schema",
    "parse_schema",
    "schema_key",
]

DEFAULTS_MIN_VERSION = 3


class _Schema(Shape, frozen=True):
    type: str
    fields: list[Any]
    schema_id: Int | None = None
    identifier_field_ids: list[Int] | None = None


class _Field(Shape, frozen=True):
    id: Int
    name: str
    type: str | dict[str, Any]
    required: bool
    doc: str | None = None


class _List(Shape, frozen=True):
    element_id: Int
    element: str | dict[str, Any]
    element_required: bool


class _Map(Shape, frozen=True):
    key_id: Int
    key: str | dict[str, Any]
    value_id: Int
    value: str | dict[str, Any]
    value_required: bool


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema, at any depth."""

    id: int
    full_name: str
    required: bool
    type: Primitive | str
    """A primitive, or `struct`, `list` or `map`."""
    parent: int | None
    initial_default: Any = None
    write_default: Any = None

    @property
    def is_primitive(self) -> bool:
        return isinstance(self.type, Primitive) and self.type.kind != "variant"


@dataclass(frozen=True, slots=True)
class SchemaIndex:
    by_id: dict[int, Field]
    by_name: dict[str, int]
    """Full names, and short names that no full name contradicts."""

    @property
    def highest_id(self) -> int:
        return max(self.by_id, default=0)

    def find(self, name: str) -> Field | None:
        field_id = self.by_name.get(name)
        return None if field_id is None else self.by_id[field_id]


def id_of(schema: Doc) -> int:
    """The schema's own id; one that says nothing has 0."""
    return schema.get("schema-id") or 0


def parse_schema(value: Any, what: str = "schema") -> Doc:
    """The schema, if it is one in itself; else `BadRequest` or another `Invalid`."""
    index_schema(value, what)
    schema: Doc = value
    return schema


def index_schema(value: Any, what: str = "schema") -> SchemaIndex:
    """All fields of a schema, which is checked on the way."""
    shape = convert(value, _Schema, what)
    if shape.type != "struct":
        raise BadRequest(f"Cannot create schema, not a struct type: {shown(shape.type)}")
    walk = _Walk(what)
    walk.struct(value, _Place())
    for short, field_id in walk.short_names.items():
        walk.by_name.setdefault(short, field_id)
    index = SchemaIndex(walk.by_id, walk.by_name)
    for field_id in shape.identifier_field_ids or ():
        _check_identifier(index, field_id)
    return index


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a schema a type is."""

    parent: int | None = None
    path: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    depth: int = 0

    def of(self, field_id: int, name: str, *, in_short: bool = True) -> "_Place":
        short = (*self.short, name) if in_short else self.short
        return _Place(field_id, (*self.path, name), short, self.depth + 1)


class _Walk:
    """Goes through a schema and gathers its fields."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.by_id: dict[int, Field] = {}
        self.by_name: dict[str, int] = {}
        self.short_names: dict[str, int] = {}

    def struct(self, value: Doc, place: _Place) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise BadRequest(f"Cannot parse {self.what}: Object missing required field `fields` of a struct, an array")
        for raw in fields:
            field = convert(raw, _Field, f"{self.what} field")
            kind = self.kind(field.type)
            defaults = raw.get("initial-default"), raw.get("write-default")
            self.add(place, field.name, Field(field.id, "", field.required, kind, place.parent, *defaults))
            if isinstance(kind, Primitive) and kind.kind == "unknown" and field.required:
                raise IllegalArgument(f"Cannot create required field with unknown type: {shown(field.name)}")
            for default in defaults:
                if default is not None:
                    self.check_default(kind, default, field.name)
            self.inside(field.type, place.of(field.id, field.name))

    def check_default(self, kind: Primitive | str, default: Any, name: str) -> None:
        if not isinstance(kind, Primitive):
            raise IllegalArgument(f"Invalid default value for {kind}: the default of {shown(name)} must be null")
        check_default(kind, default, shown(name))

    def inside(self, value: str | Doc, place: _Place) -> None:
        if isinstance(value, str):
            return
        if place.depth > MAX_DEPTH:
            raise BadRequest(f"Cannot parse {self.what}: types are nested more than {MAX_DEPTH} deep")
        match value.get("type"):
            case "struct":
                self.struct(value, place)
            case "list":
                shape = convert(value, _List, f"{self.what} list")
                self.child(place, "element", shape.element_id, shape.element, shape.element_required)
            case _:
                pair = convert(value, _Map, f"{self.what} map")
                self.child(place, "key", pair.key_id, pair.key, True)
                self.child(place, "value", pair.value_id, pair.value, pair.value_required)

    def child(self, place: _Place, name: str, field_id: int, value: str | Doc, required: bool) -> None:
        kind = self.kind(value)
        self.add(place, name, Field(field_id, "", required, kind, place.parent))
        self.inside(value, place.of(field_id, name, in_short=kind != "struct" or name == "key"))

    def kind(self, value: str | Doc) -> Primitive | str:
        if isinstance(value, str):
            return parse_primitive(value)
        kind = value.get("type")
        if kind not in ("struct", "list", "map"):
            raise BadRequest(f"Cannot parse {self.what}: the `type` of a nested type is struct, list or map")
        return str(kind)

    def add(self, place: _Place, name: str, field: Field) -> None:
        full = ".".join((*place.path, name))
        if field.id in self.by_id:
            other = self.by_id[field.id].full_name
            raise ValidationFailed(f"Invalid schema: multiple fields for id {field.id}: {other} and {full}")
        if full in self.by_name:
            other_id = self.by_name[full]
            raise ValidationFailed(f"Invalid schema: multiple fields for name {full}: {other_id} and {field.id}")
        self.by_id[field.id] = replace(field, full_name=full)
        self.by_name[full] = field.id
        self.short_names.setdefault(".".join((*place.short, name)), field.id)


def _check_identifier(index: SchemaIndex, field_id: int) -> None:
    field = index.by_id.get(field_id)
    if field is None:
        raise IllegalArgument(f"Cannot add fieldId {field_id} as an identifier field: field does not exist")
    name = field.full_name
    refusal = f"Cannot add field {name} as an identifier field:"
    if not field.is_primitive:
        raise IllegalArgument(f"{refusal} not a primitive type field")
    if not field.required:
        raise IllegalArgument(f"{refusal} not a required field")
    if isinstance(field.type, Primitive) and field.type.kind in ("float", "double"):
        raise IllegalArgument(f"{refusal} must not be float or double field")
    parent_id = field.parent
    while parent_id is not None:
        parent = index.by_id[parent_id]
        if parent.type != "struct":
            raise IllegalArgument(f"{refusal} must not be nested in {parent.full_name}")
        if not parent.required:
            raise IllegalArgument(f"{refusal} must not be nested in an optional field {parent.full_name}")
        parent_id = parent.parent


def check_version(index: SchemaIndex, version: int) -> None:
    """`ValidationFailed` if the schema uses what the table's format does not have yet."""
    problems = {}
    for field in index.by_id.values():
        if isinstance(field.type, Primitive):
            needed = MIN_VERSION.get(field.type.kind, 1)
            if version < needed:
                problems[field.id] = (
                    f"Invalid type for {field.full_name}: {field.type} is not supported until v{needed}"
                )
        for name, default in (("initial", field.initial_default), ("write", field.write_default)):
            if default is not None and version < DEFAULTS_MIN_VERSION:
                problems[field.id] = (
                    f"Invalid {name} default for {field.full_name}: non-null default ({shown_default(default)}) is not "
                    f"supported until v{DEFAULTS_MIN_VERSION}"
                )
    if problems:
        listed = "\n- ".join(problems[field_id] for field_id in sorted(problems))
        raise ValidationFailed(f"Invalid schema for v{version}:\n- {listed}")


def fresh_schema(schema: Doc, schema_id: int, next_id: Callable[[], int]) -> tuple[Doc, dict[int, int]]:
    """The same schema with new ids, and which id became which. A struct's fields get theirs before what is in them."""
    became: dict[int, int] = {}
    made = _fresh_struct(schema, next_id, became)
    made["schema-id"] = schema_id
    if schema.get("identifier-field-ids"):
        made["identifier-field-ids"] = sorted(became[field_id] for field_id in set(schema["identifier-field-ids"]))
    return made, became


def _fresh_struct(struct: Doc, next_id: Callable[[], int], became: dict[int, int]) -> Doc:
    for field in struct["fields"]:
        became[field["id"]] = next_id()
    fields = [
        {**field, "id": became[field["id"]], "type": _fresh(field["type"], next_id, became)}
        for field in struct["fields"]
    ]
    return {**struct, "fields": fields}


def _fresh(value: str | Doc, next_id: Callable[[], int], became: dict[int, int]) -> str | Doc:
    if isinstance(value, str):
        return value
    if value["type"] == "struct":
        return _fresh_struct(value, next_id, became)
    names = ("element",) if value["type"] == "list" else ("key", "value")
    made = dict(value)
    for name in names:
        made[f"{name}-id"] = became[value[f"{name}-id"]] = next_id()
    for name in names:
        made[name] = _fresh(value[name], next_id, became)
    return made


def schema_key(schema: Doc) -> object:
    """What makes two schemas the same: everything that is understood but the schema's own id."""
    return tuple(_struct_key(schema)), frozenset(schema.get("identifier-field-ids") or ())


def _struct_key(struct: Doc) -> Iterator[object]:
    for field in struct["fields"]:
        defaults = tuple(_plain(field.get(name)) for name in ("initial-default", "write-default"))
        yield field["id"], field["name"], field["required"], field.get("doc"), defaults, _type_key(field["type"])


def _type_key(value: str | Doc) -> object:
    if isinstance(value, str):
        return parse_primitive(value).text
    if value["type"] == "struct":
        return tuple(_struct_key(value))
    if value["type"] == "list":
        return "list", value["element-id"], value["element-required"], _type_key(value["element"])
    pair = tuple(_type_key(value[name]) for name in ("key", "value"))
    return "map", value["key-id"], value["value-id"], value["value-required"], pair


def _plain(value: Any) -> bytes | None:
    """JSON that tells 1 from true and from 1.0, which Python's equality does not."""
    return None if value is None else msgspec.json.encode(value, order="deterministic")

"""Columns of a schema by name and id, as far as filters can name them: primitive ones, not inside of lists or maps."""

from dataclasses import dataclass
from typing import Any

from arco.core import shown
from arco.iceberg._errors import BadRequest

__all__ = ["Column", "Schema"]


@dataclass(frozen=True, slots=True)
class Column:
    id: int
    name: str
    """With those of the structs around it: `address.city`."""
    type: str
    """`struct`, `list` and `map` for what is not primitive."""
    repeated: bool
    """Inside of a list or a map, where one row has many values."""


class Schema:
    """An index of one schema document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._by_id: dict[int, Column] = {}
        self._by_name: dict[str, Column] = {}
        self._by_lower: dict[str, list[Column]] = {}
        self._add_struct(document, "", False)

    def get(self, field_id: int) -> Column | None:
        return self._by_id.get(field_id)

    def find(self, name: str, *, case_sensitive: bool) -> Column:
        """The column of a name, or `BadRequest`."""
        found = [self._by_name[name]] if name in self._by_name else []
        if not case_sensitive:
            found = self._by_lower.get(name.lower(), [])
        if len(found) != 1:
            how = "no column" if not found else "more than one column"
            raise BadRequest(f"Cannot find field {shown(name)}: the schema has {how} of that name")
        return found[0]

    def _add_struct(self, struct: dict[str, Any], prefix: str, repeated: bool) -> None:
        for field in struct["fields"]:
            self._add(int(field["id"]), f"{prefix}{field['name']}", field["type"], repeated)

    def _add(self, field_id: int, name: str, kind: Any, repeated: bool) -> None:
        nested = isinstance(kind, dict)
        column = Column(field_id, name, str(kind["type"]) if nested else str(kind), repeated)
        self._by_id[field_id] = column
        self._by_name[name] = column
        self._by_lower.setdefault(name.lower(), []).append(column)
        if not nested:
            return
        if kind["type"] == "struct":
            self._add_struct(kind, f"{name}.", repeated)
        elif kind["type"] == "list":
            self._add(int(kind["element-id"]), f"{name}.element", kind["element"], True)
        elif kind["type"] == "map":
            self._add(int(kind["key-id"]), f"{name}.key", kind["key"], True)
            self._add(int(kind["value-id"]), f"{name}.value", kind["value"], True)

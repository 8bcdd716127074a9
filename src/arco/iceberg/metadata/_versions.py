"""Versions of a view: its query in one or more SQL dialects, and what names in it mean."""

from typing import Any

from arco.iceberg._errors import BadRequest, IllegalArgument
from arco.iceberg.metadata._reading import Doc, Int, Long, Shape, convert

__all__ = ["check_dialects", "dialects", "parse_version", "version_key"]


class _Representation(Shape, frozen=True):
    type: str
    sql: str | None = None
    dialect: str | None = None


class _Version(Shape, frozen=True):
    version_id: Int
    schema_id: Int
    timestamp_ms: Long
    summary: dict[str, str]
    representations: list[_Representation]
    default_namespace: list[str]
    default_catalog: str | None = None


def parse_version(value: Any, what: str = "view version") -> Doc:
    """The version, if it has the form of one."""
    shape = convert(value, _Version, what)
    for place, representation in enumerate(shape.representations):
        if representation.type.lower() == "sql":
            for name, text in (("sql", representation.sql), ("dialect", representation.dialect)):
                if text is None:
                    raise BadRequest(
                        f"Cannot parse {what}: Object missing required field `{name}` - at `$.representations[{place}]`"
                    )
    version: Doc = value
    return version


def dialects(version: Doc) -> list[str]:
    """The SQL dialects a version has a query for, in lower case."""
    return [one["dialect"].lower() for one in version["representations"] if one["type"].lower() == "sql"]


def check_dialects(version: Doc) -> None:
    """`IllegalArgument` if one dialect has two queries."""
    seen = set()
    for dialect in dialects(version):
        if dialect in seen:
            raise IllegalArgument(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        seen.add(dialect)


def version_key(version: Doc) -> object:
    """What makes two versions behave the same: not their ids and not their times."""
    queries = [(one["type"].lower(), one.get("sql"), one.get("dialect")) for one in version["representations"]]
    return (
        sorted(version["summary"].items()),
        queries,
        version.get("default-catalog"),
        version["default-namespace"],
        version["schema-id"],
    )

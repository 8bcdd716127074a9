"""The two ways to write SQL: names, values and the few functions that Spark and DuckDB call differently."""

from enum import StrEnum

from arco.assets._rules import Constant

__all__ = ["Dialect", "constant", "name", "text"]


class Dialect(StrEnum):
    SPARK = "spark"
    DUCKDB = "duckdb"


def name(dialect: Dialect, given: str) -> str:
    """A column or relation, whatever characters it is called by."""
    return f"`{given.replace('`', '``')}`" if dialect is Dialect.SPARK else '"{}"'.format(given.replace('"', '""'))


def text(dialect: Dialect, given: str) -> str:
    """A text. Spark reads backslashes in it, and puts variables in the place of `${...}`."""
    if dialect is Dialect.DUCKDB:
        return "'{}'".format(given.replace("'", "''"))
    escaped = given.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def constant(dialect: Dialect, given: Constant) -> str:
    match given.type:
        case "string":
            return text(dialect, given.text)
        case "float":
            return f"CAST('{given.text}' AS DOUBLE)"
        case "date":
            return f"DATE '{given.text}'"
        case "timestamp":
            return f"{'TIMESTAMP' if dialect is Dialect.SPARK else 'TIMESTAMPTZ'} '{given.text}'"
    return given.text

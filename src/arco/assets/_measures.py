"""Measures: what a check has to know of data, as SQL of both engines.

- A `Measure` is an aggregate over the rows of the data. One that *rides* can be computed while the data is written;
  the others are asked for afterwards, all in one query. SQL text of an author never rides: where it fails it would
  take the write with it.
- A `Query` is a query of its own over what was written (`data`) and over inputs of the task, and gives one number.
- `Samples` is a query for rows that fail.

All have names made of their text: checks that need the same thing share it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from arco.assets import _dialect as sql
from arco.assets._definition import CheckDefinition
from arco.assets._dialect import Dialect
from arco.assets._patterns import portable_pattern
from arco.assets._rules import (
    DATA,
    ROW_COUNT,
    AcceptedValues,
    Anomaly,
    Between,
    Fresh,
    Matches,
    NotNull,
    References,
    RowCount,
    RowRule,
    SqlCheck,
    Unique,
)
from arco.core import sha256_hex

__all__ = ["Measure", "Query", "Samples", "Views", "measures_of", "queries_of", "samples_of"]

Views: TypeAlias = Mapping[str, str]
"""What a query calls the inputs of the task: names by asset key."""

_NO_VIEWS: Final[Views] = {}


class Text(msgspec.Struct, frozen=True):
    spark: str
    duckdb: str

    def sql(self, dialect: Dialect) -> str:
        return self.spark if dialect is Dialect.SPARK else self.duckdb


class Measure(Text, frozen=True):
    """An aggregate expression over the rows of the data."""

    rides: bool = True

    @property
    def name(self) -> str:
        return _named("m", self)


class Query(Text, frozen=True):
    """A query that gives one row with one number."""

    views: tuple[str, ...] = ()
    """The inputs that it reads, by the names it knows them by."""

    @property
    def name(self) -> str:
        return _named("q", self)


class Samples(Text, frozen=True):
    """A query for a few rows."""

    views: tuple[str, ...] = ()


def measures_of(check: CheckDefinition) -> tuple[Measure, ...]:
    """The aggregates that the check needs.

    Of a rule about rows the first one is how many there are; the last measure or query is how many of them fail.
    """
    rule = check.rule
    match rule:
        case RowRule():
            counted = (_count(rule.where),)
            condition = _condition(rule)
            return counted if condition is None else (*counted, _count(rule.where, condition))
        case RowCount():
            return (_count(rule.where),)
        case Fresh():
            return _count(rule.where), _newest(rule)
        case Anomaly() if rule.measure == ROW_COUNT:
            return (_count(rule.where),)
    return ()


def queries_of(check: CheckDefinition, views: Views = _NO_VIEWS) -> tuple[Query, ...]:
    """The queries that the check needs. Without `views`, references have no names: good for telling how many."""
    rule = check.rule
    match rule:
        case Unique():
            return (Query(*_both(lambda dialect: _repeated(dialect, rule))),)
        case References():
            view = views.get(rule.asset, rule.asset)
            return (Query(*_both(lambda dialect: _unmatched(dialect, rule, view, "count(*)")), views=(view,)),)
        case SqlCheck():
            text = f"SELECT count(*) FROM {_enclosed(rule.sql)} AS failing"
            return (Query(text, text, views=_named_views(rule, views)),)
        case Anomaly() if rule.measure != ROW_COUNT:
            text = f"SELECT CAST({_enclosed(rule.measure)} AS DOUBLE) FROM ({_rows(rule.where)}) AS d"
            return (Query(text, text),)
    return ()


def samples_of(check: CheckDefinition, views: Views, columns: Sequence[str]) -> Samples | None:
    """A query for `check.samples` rows that fail, with these columns of theirs; None for rules that are not about rows.

    The rows of an author's query have the columns that it gives them.
    """
    rule = check.rule
    if not isinstance(rule, RowRule) or not columns:
        return None

    def selected(dialect: Dialect) -> str:
        chosen = ", ".join(f"d.{sql.name(dialect, column)}" for column in columns)
        condition = _condition(rule)
        if condition is not None:
            found = f"SELECT {chosen} FROM ({_rows(rule.where)}) AS d WHERE {condition(dialect)}"
        elif isinstance(rule, Unique):
            found = _repeating(dialect, rule, chosen)
        elif isinstance(rule, References):
            found = _unmatched(dialect, rule, views.get(rule.asset, rule.asset), chosen)
        else:
            assert isinstance(rule, SqlCheck)
            found = f"SELECT * FROM {_enclosed(rule.sql)} AS failing"
        return f"{found} LIMIT {check.samples}"

    queries = queries_of(check, views)
    return Samples(*_both(selected), views=queries[0].views if queries else ())


# Aggregates

Write = Callable[[Dialect], str]


def _count(where: str, condition: Write | None = None) -> Measure:
    def written(dialect: Dialect) -> str:
        conditions = ([_enclosed(where)] if where else []) + ([condition(dialect)] if condition else [])
        return f"count(CASE WHEN {_all(conditions)} THEN 1 END)" if conditions else "count(*)"

    return Measure(*_both(written), rides=not where)


def _condition(rule: RowRule) -> Write | None:
    """Which rows fail, if a row alone tells."""

    def written(dialect: Dialect) -> str:
        match rule:
            case NotNull():
                return f"{sql.name(dialect, rule.column)} IS NULL"
            case Between():
                column = sql.name(dialect, rule.column)
                bounds = [f"{column} < {sql.constant(dialect, rule.min)}"] if rule.min is not None else []
                bounds += [f"{column} > {sql.constant(dialect, rule.max)}"] if rule.max is not None else []
                return " OR ".join(bounds)
            case AcceptedValues():
                values = ", ".join(sql.constant(dialect, value) for value in rule.values)
                return f"{sql.name(dialect, rule.column)} NOT IN ({values})"
        assert isinstance(rule, Matches)
        return _unlike(dialect, rule)

    return written if isinstance(rule, NotNull | Between | AcceptedValues | Matches) else None


def _unlike(dialect: Dialect, rule: Matches) -> str:
    column, pattern = sql.name(dialect, rule.column), sql.text(dialect, portable_pattern(rule.pattern, dialect))
    matched = f"{column} RLIKE {pattern}" if dialect is Dialect.SPARK else f"regexp_matches({column}, {pattern})"
    return f"NOT ({matched})"


def _newest(rule: Fresh) -> Measure:
    """Microseconds since 1970. Text that is no time has none, and fails nothing while it is written."""

    def written(dialect: Dialect) -> str:
        column = sql.name(dialect, rule.column)
        chosen = f"CASE WHEN {_enclosed(rule.where)} THEN {column} END" if rule.where else column
        if dialect is Dialect.SPARK:
            return f"unix_micros(max(try_cast({chosen} AS TIMESTAMP)))"
        return f"epoch_us(max(TRY_CAST({chosen} AS TIMESTAMPTZ)))"

    return Measure(*_both(written), rides=not rule.where)


# Queries


def _repeated(dialect: Dialect, rule: Unique) -> str:
    grouped = _groups(dialect, rule, "count(*) AS n")
    return f"SELECT CAST(coalesce(sum(n - 1), 0) AS BIGINT) FROM ({grouped}) AS repeated"


def _repeating(dialect: Dialect, rule: Unique, chosen: str) -> str:
    names = [sql.name(dialect, column) for column in rule.columns]
    grouped = _groups(dialect, rule, ", ".join(names))
    same = _all(f"d.{column} = g.{column}" for column in names)
    return f"SELECT {chosen} FROM ({_rows(rule.where)}) AS d JOIN ({grouped}) AS g ON {same}"


def _groups(dialect: Dialect, rule: Unique, chosen: str) -> str:
    names = [sql.name(dialect, column) for column in rule.columns]
    there = _all(f"{column} IS NOT NULL" for column in names)
    keys = ", ".join(names)
    return f"SELECT {chosen} FROM ({_rows(rule.where)}) AS r WHERE {there} GROUP BY {keys} HAVING count(*) > 1"


def _unmatched(dialect: Dialect, rule: References, view: str, chosen: str) -> str:
    names = [sql.name(dialect, column) for column in rule.columns]
    there = _all(f"d.{column} IS NOT NULL" for column in names)
    same = _all(f"r.{sql.name(dialect, other)} = d.{column}" for column, other in zip(names, rule.to, strict=True))
    found = f"SELECT 1 FROM {sql.name(dialect, view)} AS r WHERE {same}"
    return f"SELECT {chosen} FROM ({_rows(rule.where)}) AS d WHERE {there} AND NOT EXISTS ({found})"


def _rows(where: str) -> str:
    return f"SELECT * FROM {DATA} WHERE {_enclosed(where)}" if where else f"SELECT * FROM {DATA}"


def _named_views(rule: SqlCheck, views: Views) -> tuple[str, ...]:
    """The inputs that a text may mean: those whose names are in it."""
    return tuple(sorted({view for view in views.values() if view.casefold() in rule.sql.casefold()}))


def _enclosed(text: str) -> str:
    """Text of an author, in lines of its own: it may end with a comment."""
    return f"(\n{text.strip().rstrip(';')}\n)"


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(f"({condition})" for condition in conditions)


def _both(write: Write) -> tuple[str, str]:
    return write(Dialect.SPARK), write(Dialect.DUCKDB)


@lru_cache(4096)
def _named(kind: str, text: Text) -> str:
    return f"{kind}_{sha256_hex(f'{text.spark}|{text.duckdb}'.encode())[:16]}"

"""Asking an engine for numbers: the same steps for every engine.

All checks of an asset are put together in a `Questions`: what rides on the write, what is asked afterwards. Aggregates
are asked for in one query. If it fails they are asked for one by one, so that a fault in one check costs the others
nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from arco.assets._definition import CheckDefinition, SchemaColumn
from arco.assets._dialect import Dialect, name
from arco.assets._measures import Measure, Query, Views, measures_of, queries_of
from arco.assets._rules import DATA
from arco.assets._verdicts import NoValue, unfit

__all__ = ["Questions", "ask", "questions_of"]

Select = Callable[[str], Sequence[Any]]
"""The only row of a query's result. Raises what the engine raises."""


class Questions(msgspec.Struct, frozen=True):
    """What the checks of one asset have to know."""

    riding: tuple[Measure, ...] = ()
    """Aggregates that can be computed while the data is written."""
    measures: tuple[Measure, ...] = ()
    """Aggregates to ask for afterwards."""
    queries: tuple[Query, ...] = ()

    @property
    def views(self) -> frozenset[str]:
        """The inputs that the queries read, by the names they know them by."""
        return frozenset(view for query in self.queries for view in query.views)


def questions_of(
    checks: Sequence[CheckDefinition], columns: Sequence[SchemaColumn] | None, views: Views | None = None
) -> Questions:
    """What to find out about data with these columns, None if they are not known.

    Nothing is asked for a rule that they do not fit.
    """
    rules = [check for check in checks if check.rule is not None]
    asked = rules if columns is None else [check for check in rules if unfit(check, columns) is None]
    measures = dict.fromkeys(measure for check in asked for measure in measures_of(check))
    queries = dict.fromkeys(query for check in asked for query in queries_of(check, views or {}))
    return Questions(
        tuple(measure for measure in measures if measure.rides),
        tuple(measure for measure in measures if not measure.rides),
        tuple(queries),
    )


def ask(
    select: Select,
    dialect: Dialect,
    reason: Callable[[Exception], str],
    measures: Sequence[Measure],
    queries: Sequence[Query] = (),
) -> Mapping[str, float | NoValue | None]:
    """The numbers, by name. `reason` says why there is none, without any value of the data."""
    found = _aggregates(select, dialect, reason, measures)
    for query in queries:
        try:
            found[query.name] = _number(select(query.sql(dialect))[0])
        except Exception as error:  # noqa: BLE001  Whatever an engine raises, there is no number.
            found[query.name] = NoValue(reason(error))
    return found


def _aggregates(
    select: Select, dialect: Dialect, reason: Callable[[Exception], str], measures: Sequence[Measure]
) -> dict[str, float | NoValue | None]:
    if not measures:
        return {}
    chosen = ", ".join(f"{measure.sql(dialect)} AS {name(dialect, measure.name)}" for measure in measures)
    try:
        row = select(f"SELECT {chosen} FROM {DATA}")
    except Exception as error:  # noqa: BLE001  Whatever an engine raises, there is no number.
        if len(measures) == 1:
            return {measures[0].name: NoValue(reason(error))}
        found: dict[str, float | NoValue | None] = {}
        for measure in measures:
            found |= _aggregates(select, dialect, reason, [measure])
        return found
    return {measure.name: _number(value) for measure, value in zip(measures, row, strict=True)}


def _number(value: Any) -> float | None:
    return value if value is None or isinstance(value, int) else float(value)

"""Rules on what a Python asset returned: DuckDB measures the Arrow tables that were written.

Nothing is judged here: numbers go to the worker, which knows the rest (`arco.worker._outcome`). What is kept of rows
that fail is written beside the data and goes nowhere else.
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from arco.assets import (
    DATA,
    AssetDefinition,
    CheckDefinition,
    Dialect,
    Fresh,
    NotNull,
    NoValue,
    RowRule,
    SchemaMatches,
    SqlCheck,
    Views,
    ask,
    measures_of,
    queries_of,
    questions_of,
    samples_of,
)
from arco.core import ArcoError, sha256_hex
from arco.worker._messages import InputValue, MeasuredOutput, OutputPlace, WrittenFile

__all__ = [
    "EMPTY",
    "Table",
    "keep_samples",
    "measured",
    "personal_columns",
    "sample_path",
    "told_by_footers",
    "views_of",
]

SAMPLE_BYTES: Final = 8 << 20
_REASON_MAX: Final = 300
_ABOUT_TEXT: Final = frozenset({"BinderException", "CatalogException", "ParserException", "SyntaxException"})
"""Errors of DuckDB that are about the query and not about what it read: their messages hold no values of the data."""

Write = Callable[[str, bytes], None]


class Table:
    """What an asset returned, for as many queries as there are: a table, or a stream that is opened again for each."""

    def __init__(self, columns: Sequence[str], open_again: Callable[[], Any]) -> None:
        self.columns = tuple(columns)
        self.open = open_again


EMPTY: Final = Table((), lambda: None)
"""An empty list: no rows, of which nobody can tell what columns they would have."""


def views_of(inputs: Sequence[InputValue]) -> Views:
    """What checks call the inputs of a task: their parameters, by asset key."""
    return {given.asset_key: given.parameter for given in inputs if given.parameter}


def measured(
    asset: AssetDefinition,
    place: OutputPlace,
    table: Table | str,
    views: Views,
    load: Callable[[str], Any],
    write: Write,
) -> MeasuredOutput:
    """The numbers that the rules of an asset need. `table` may say why there is none; `load` gets an input by name."""
    rules = [check for check in asset.checks if check.rule is not None]
    if isinstance(table, str):
        return MeasuredOutput(asset.key, dict.fromkeys(_of_nothing(rules, views), NoValue(table)))
    if table is EMPTY:
        return MeasuredOutput(asset.key, _of_nothing(rules, views))
    with _Duck(table, load) as duck:
        questions = questions_of(rules, None, views)
        aggregates = (*questions.riding, *questions.measures)
        values = dict(ask(duck.select, Dialect.DUCKDB, _reason, aggregates))
        for query in questions.queries:
            values |= ask(duck.reading(query.views), Dialect.DUCKDB, _reason, (), [query])
        samples = keep_samples(asset, place, values, table.columns, views, duck.rows, Dialect.DUCKDB, write)
    return MeasuredOutput(asset.key, values, samples)


def _of_nothing(rules: Sequence[CheckDefinition], views: Views) -> dict[str, int | float | NoValue | None]:
    found: dict[str, int | float | NoValue | None] = {}
    for check in rules:
        found |= dict.fromkeys([measure.name for measure in measures_of(check)], 0)
        found |= dict.fromkeys([query.name for query in queries_of(check, views)], 0)
        if isinstance(check.rule, Fresh):
            found[measures_of(check)[1].name] = None
    return found


class _Duck:
    """A database in memory that knows the data, and inputs once a query needs them."""

    def __init__(self, table: Table, load: Callable[[str], Any]) -> None:
        import duckdb

        self._table = table
        self._load = load
        self._known: set[str] = set()
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        self._connection.execute("SET TimeZone = 'UTC'")

    def __enter__(self) -> "_Duck":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def reading(self, views: Sequence[str]) -> Callable[[str], Sequence[Any]]:
        """Selects that need these inputs."""

        def select(text: str) -> Sequence[Any]:
            for view in views:
                if view not in self._known:
                    self._connection.register(view, self._load(view))
                    self._known.add(view)
            return self.select(text)

        return select

    def select(self, text: str) -> Sequence[Any]:
        self._connection.register(DATA, self._table.open())
        rows: list[tuple[Any, ...]] = self._connection.execute(text).fetchall()
        return rows[0]

    def rows(self, text: str) -> Any:
        self._connection.register(DATA, self._table.open())
        return self._connection.sql(text).to_arrow_table()


def _reason(error: Exception) -> str:
    if isinstance(error, ArcoError) or type(error).__name__ in _ABOUT_TEXT:
        return str(error).partition("\n")[0][:_REASON_MAX]
    return f"its query failed with {type(error).__name__} while it ran"


def told_by_footers(checks: Sequence[CheckDefinition], files: Sequence[WrittenFile]) -> dict[str, int]:
    """The measures that the footers of an output's files already answer: counts of all rows, and of nulls."""
    found: dict[str, int] = {}
    for check in checks:
        rule, measures = check.rule, measures_of(check)
        if rule is None or isinstance(rule, SchemaMatches) or rule.where or not measures:
            continue
        found[measures[0].name] = sum(file.row_count for file in files)
        nulls = _nulls(rule.column, files) if isinstance(rule, NotNull) else None
        if nulls is not None:
            found[measures[1].name] = nulls
    return found


def _nulls(column: str, files: Sequence[WrittenFile]) -> int | None:
    """How often a column is null; None if a file does not tell, as of nested columns."""
    told = [
        next((stat.null_count for stat in file.stats if stat.column == column), None)
        for file in files
        if file.row_count
    ]
    return None if None in told else sum(count for count in told if count is not None)


# Samples


def personal_columns(asset: AssetDefinition, known: Iterable[str]) -> frozenset[str]:
    """Columns with personal data, as the asset declares and as the catalog knows; casefolded, as engines compare."""
    names = {*known, *(column.name for column in asset.schema if column.pii)}
    return frozenset(name.casefold() for name in names)


def keep_samples(
    asset: AssetDefinition,
    place: OutputPlace,
    values: Mapping[str, Any],
    columns: Sequence[str],
    views: Views,
    rows: Callable[[str], Any],
    dialect: Dialect,
    write: Write,
) -> dict[str, str]:
    """Write the samples that checks ask for; what to say of each, by check. `rows` gives the Arrow table of a query."""
    personal = personal_columns(asset, place.pii)
    told: dict[str, str] = {}
    for check in asset.checks:
        if not check.samples or not isinstance(check.rule, RowRule) or not _has_failing(check, values, views):
            continue
        if isinstance(check.rule, SqlCheck) and personal:
            told[check.name] = "no samples: a query may give personal data any name"
            continue
        query = samples_of(check, views, [column for column in columns if column.casefold() not in personal])
        if query is None:
            told[check.name] = "no samples: all columns hold personal data"
            continue
        path = sample_path(check.name)
        try:
            write(place.location + path, _parquet(rows(query.sql(dialect))))
            told[check.name] = f"samples in {path}"
        except Exception as error:  # noqa: BLE001  Data is not lost because examples of it are.
            told[check.name] = f"no samples: {type(error).__name__}"
    return told


def sample_path(name: str) -> str:
    """Where samples of a check are, in the folder of the materialization."""
    safe = re.sub(r"[^A-Za-z0-9_.,()-]", "_", name)[:100]
    return f"samples/{safe if safe == name else f'{safe}-{sha256_hex(name.encode())[:8]}'}.parquet"


def _has_failing(check: CheckDefinition, values: Mapping[str, Any], views: Views) -> bool:
    queries = queries_of(check, views)
    failing = values.get(queries[-1].name if queries else measures_of(check)[-1].name)
    return isinstance(failing, int | float) and failing > 0


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq

    while table.num_rows > 1 and table.nbytes > SAMPLE_BYTES:
        table = table.slice(0, table.num_rows // 2)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()

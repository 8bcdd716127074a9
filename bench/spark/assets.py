"""The project that the bench deploys: `functions.py` as assets. `sizes.py` is written beside it."""

import functions  # type: ignore[import-not-found]
import sizes  # type: ignore[import-not-found]
from pyspark.sql import DataFrame

from arco import Context, accepted_values, asset, between, check, daily, matches, not_null, row_count, sql_check

__namespace__ = "bench"

DAYS = daily(sizes.FIRST_DAY, end=sizes.END_DAY)


@asset(partitions=DAYS, engine="spark")
def raw(context: Context) -> DataFrame:
    return functions.raw(context.spark, str(context.partition["date"]), sizes.ROWS)


@asset(partitions=DAYS)
def totals(raw: DataFrame) -> DataFrame:
    return functions.totals(raw)


@asset(partitions=DAYS)
def kinds(raw: DataFrame) -> DataFrame:
    return functions.kinds(raw)


@asset(engine="spark")
def events(context: Context) -> DataFrame:
    return functions.events(context.spark, sizes.EVENTS)


@asset
def report(events: DataFrame) -> DataFrame:
    return functions.report(events)


# The same data and the same eight questions about it, asked in three ways or not at all.


@asset
def unchecked(events: DataFrame) -> DataFrame:
    return functions.cleaned(events)


@asset(
    checks=[
        row_count(min=1),
        not_null("user"),
        not_null("note"),
        not_null("digest"),
        between("amount", 0, 2_000),
        between("kind", 0, functions.KINDS - 1),
        accepted_values("kind", list(range(functions.KINDS))),
        matches("note", "^[0-9A-F]+$"),
    ]
)
def riding(events: DataFrame) -> DataFrame:
    return functions.cleaned(events)


KNOWN = ", ".join(str(kind) for kind in range(functions.KINDS))
WRONG = {
    "user": "user IS NULL",
    "note": "note IS NULL",
    "digest": "digest IS NULL",
    "amount": "amount NOT BETWEEN 0 AND 2000",
    "kind": f"kind NOT BETWEEN 0 AND {functions.KINDS - 1}",
    "known": f"kind NOT IN ({KNOWN})",
    "hex": "NOT regexp_like(note, '^[0-9A-F]+$')",
}


@asset(
    checks=[
        sql_check("rows", "SELECT 1 FROM data HAVING count(*) < 1"),
        *(sql_check(name, f"SELECT * FROM data WHERE {wrong}") for name, wrong in WRONG.items()),
    ]
)
def scanning(events: DataFrame) -> DataFrame:
    return functions.cleaned(events)


@asset
def scanning_once(events: DataFrame) -> DataFrame:
    return functions.cleaned(events)


@check(asset=scanning_once)
def all_of_it(data: DataFrame) -> bool:
    found = data.selectExpr("count(*) AS rows", *(f"count_if({wrong}) AS {name}" for name, wrong in WRONG.items()))
    row = found.collect()[0]
    return row["rows"] > 0 and not any(row[name] for name in WRONG)

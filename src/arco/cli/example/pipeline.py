"""The pipeline of a shop for bicycles: what happened in its tills, day by day, up to the report of a week.

    raw_events ── events ─┬─ daily_sales ──────────────────┬─ weekly_report
    products, customers ──┤                                │
                          └─ customer_days ── customer_weeks

A function says by its parameters what it is made of, and by `DataFrame` that it runs on Spark. Functions of days name
the column `date`, which says the partition of a row, wherever they group: so Arco makes many days by one plan of Spark.
"""

import till
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from arco import (
    Context,
    Percent,
    accepted_values,
    asset,
    between,
    daily,
    multi_asset,
    not_null,
    output,
    row_count,
    sql_asset,
    unique,
    weekly,
)

__namespace__ = "shop"

DAYS = daily("2026-07-01", end="2026-10-01")
WEEKS = weekly("2026-07-06", end="2026-09-28")


@asset(partitions=DAYS, owners=["tills@example.com"], checks=[row_count(min=1)])
def raw_events(context: Context) -> DataFrame:
    """What tills and web shop sent of a day, as it came."""
    was_asked_before = context.previous is not None
    sent = till.events(context.window.start.date(), again=was_asked_before)
    frame: DataFrame = context.spark.createDataFrame(sent)
    return frame


@multi_asset(
    outputs=[
        output("products", description="What is sold.", checks=[unique("product_id"), between("price", 0, 1_000)]),
        output("customers", description="Who buys.", checks=[unique("customer_id"), not_null("country")]),
    ]
)
def dimensions(context: Context) -> tuple[DataFrame, DataFrame]:
    """What changes seldom, and is read as a whole."""
    create = context.spark.createDataFrame
    return create(till.products()), create(till.customers())


@asset(
    partitions=DAYS,
    gating="quarantine",
    checks=[
        row_count(min=500, max=3_000),
        not_null("customer_id"),
        accepted_values("kind", ["view", "basket", "order", "return"]),
        between("amount", 0, 1_000, warn=0, error=Percent(0.5)),
    ],
)
def events(raw_events: DataFrame) -> DataFrame:
    """Every event once, without those of the tills' test account. What looks wrong is held back."""
    once = raw_events.dropDuplicates(["date", "event_id"])
    return once.where("customer_id <> 'test-till'").select(
        "date",
        "event_id",
        "at",
        "kind",
        "shop",
        "customer_id",
        "product_id",
        f.when(f.col("kind") == "return", -f.col("quantity")).otherwise(f.col("quantity")).alias("quantity"),
        "amount",
    )


@sql_asset(partitions=DAYS, owners=["sales@example.com"], checks=[not_null("country"), row_count(min=1)])
def daily_sales(events: str, products: str, customers: str) -> str:
    """What was sold on a day, by country and category."""
    return f"""
        SELECT e.date, c.country, p.category,
            count(*) AS orders,
            sum(e.quantity) AS pieces,
            round(sum(CASE WHEN e.kind = 'order' THEN e.amount ELSE -e.amount END), 2) AS revenue
        FROM {events} e
        JOIN {products} p ON p.product_id = e.product_id
        JOIN {customers} c ON c.customer_id = e.customer_id
        WHERE e.kind IN ('order', 'return')
        GROUP BY e.date, c.country, p.category
    """


@asset(partitions=DAYS, checks=[between("orders", 0, 200)])
def customer_days(events: DataFrame) -> DataFrame:
    """What each customer did on a day."""
    is_order = f.col("kind") == "order"
    return events.groupBy("date", "customer_id").agg(
        f.count("*").alias("events"),
        f.count(f.when(is_order, True)).alias("orders"),
        f.round(f.sum(f.when(is_order, f.col("amount")).otherwise(0.0)), 2).alias("spent"),
        f.max("at").alias("last_seen"),
    )


@asset(partitions=WEEKS, checks=[unique("customer_id"), accepted_values("segment", ["loyal", "buyer", "visitor"])])
def customer_weeks(customer_days: DataFrame) -> DataFrame:
    """Features of each customer, from the seven days of a week."""
    week = customer_days.groupBy("customer_id").agg(
        f.countDistinct("date").alias("days"),
        f.sum("orders").alias("orders"),
        f.round(f.sum("spent"), 2).alias("spent"),
    )
    segment = f.when(week.orders >= 3, "loyal").when(week.orders >= 1, "buyer").otherwise("visitor")
    return week.withColumn("segment", segment)


@sql_asset(partitions=WEEKS, owners=["board@example.com"], tags={"tier": "gold"}, checks=[row_count(min=1)])
def weekly_report(daily_sales: str, customer_weeks: str) -> str:
    """What the board reads on Monday."""
    return f"""
        SELECT :date AS week, category,
            sum(orders) AS orders,
            round(sum(revenue), 2) AS revenue,
            round(sum(revenue) / sum(orders), 2) AS per_order,
            (SELECT count(*) FROM {customer_weeks} WHERE segment = 'loyal') AS loyal_customers
        FROM {daily_sales}
        GROUP BY category
    """

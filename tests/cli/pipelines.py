"""A small project that the tests of the commands deploy and run."""

SALES = '''"""Sales."""

from arco import asset, check, daily, dynamic, external_asset

__namespace__ = "sales"

DAYS = daily("2026-01-01", end="2026-01-06")

feed = external_asset("feed", description="Comes by mail.")


@asset(partitions=DAYS, owners=["ann@acme.com"], tags={"tier": "1"}, deps=[feed])
def orders():
    """Every order, by day."""
    print("loading [bold]orders[/bold]")
    return {"id": [1, 2, 3]}


@asset(partitions=DAYS, retries=1)
def cleaned(orders):
    return orders


@asset
def report(cleaned):
    return {"days": [len(cleaned)]}


@asset
def broken(report):
    print("about to fail")
    raise ValueError("price is negative")


@asset
def after(broken):
    return broken


@asset(partitions=dynamic("customers"))
def customer():
    return {"a": [1]}


@check(asset=report)
def not_empty(report):
    """It has rows."""
    return True
'''

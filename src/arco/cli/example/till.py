"""Stands in for the tills and the web shop, so that the example needs nothing but this folder.

The same day always gives the same events. Three days are special, as days are:

    2026-07-19  everything was sent twice
    2026-08-15  the summer sale: three times as many events as usual, and all of them are right
    2026-08-20  the till of Torino sent cents instead of euros, and sends the day again when it is asked once more
"""

from datetime import date, datetime, time, timedelta
from hashlib import blake2b

import pyarrow as pa

SENT_TWICE = date(2026, 7, 19)
SALE = date(2026, 8, 15)
IN_CENTS = date(2026, 8, 20)

SHOPS = ("Milano", "Torino", "Wien", "web")
COUNTRIES = ("AT", "DE", "FR", "IT")
PRICES = {"bikes": 210.0, "clothes": 28.0, "helmets": 45.0, "parts": 12.0, "tools": 18.0}
CATEGORIES = tuple(PRICES)
CUSTOMERS = 300
PRODUCTS = 60

EVENTS = pa.schema(
    [
        ("event_id", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("kind", pa.string()),
        ("shop", pa.string()),
        ("customer_id", pa.string()),
        ("product_id", pa.int64()),
        ("quantity", pa.int64()),
        ("amount", pa.float64()),
    ]
)


def events(day: date, *, again: bool = False) -> pa.Table:
    """What was sent of a day; `again` if it is asked for once more."""
    rows = [_event(day, number, in_cents=day == IN_CENTS and not again) for number in range(_count(day))]
    if day == SENT_TWICE:
        rows += rows
    return pa.Table.from_pylist(rows, EVENTS)


def customers() -> pa.Table:
    rows = [
        {
            "customer_id": _customer(number),
            "name": f"Customer {number}",
            "country": COUNTRIES[number * 7 % len(COUNTRIES)],
            "since": date(2024, 1, 1) + timedelta(days=number * 11 % 900),
        }
        for number in range(CUSTOMERS)
    ]
    return pa.Table.from_pylist(rows)


def products() -> pa.Table:
    rows = [
        {"product_id": number, "category": CATEGORIES[number % len(CATEGORIES)], "price": _price(number)}
        for number in range(PRODUCTS)
    ]
    return pa.Table.from_pylist(rows)


def _count(day: date) -> int:
    usual = 900 + 100 * day.weekday() + day.toordinal() * 37 % 120
    return 3 * usual if day == SALE else usual


def _event(day: date, number: int, *, in_cents: bool) -> dict[str, object]:
    chance = blake2b(f"{day}/{number}".encode(), digest_size=12).digest()
    percent = chance[0] * 100 // 256
    kind = "view" if percent < 70 else "basket" if percent < 86 else "order" if percent < 98 else "return"
    shop = SHOPS[chance[1] % len(SHOPS)]
    product = (chance[2] * 256 + chance[3]) % PRODUCTS
    quantity = 1 + chance[4] % 3
    amount = None
    if kind in ("order", "return"):
        amount = round(quantity * _price(product) * (100 if in_cents and shop == "Torino" else 1), 2)
    customer = (chance[5] * 256 + chance[6]) * (chance[7] + 1) // 256 % CUSTOMERS
    second = int.from_bytes(chance[8:12]) % 86_400
    return {
        "event_id": f"{day:%Y%m%d}-{number:05}",
        "at": datetime.combine(day, time()) + timedelta(seconds=second),
        "kind": kind,
        "shop": shop,
        "customer_id": "test-till" if percent == 50 and shop != "web" else _customer(customer),
        "product_id": product,
        "quantity": quantity,
        "amount": amount,
    }


def _customer(number: int) -> str:
    return f"c{number:04}"


def _price(product: int) -> float:
    return round(PRICES[CATEGORIES[product % len(CATEGORIES)]] * (1 + product * 7 % 10 / 20), 2)

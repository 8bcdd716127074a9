"""Price tables: what a store takes for a request of each class and for a gigabyte and month. Data, not code.

The tables in this package (`prices.json`) have a region and a month; prices change, so any number can be given anew,
by a file of the same form or one by one. Transfer out of the region, free amounts, discounts and taxes are in none of
them.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

import msgspec

from arco.core import Invalid
from arco.storage import Operation

__all__ = ["CLASSES", "Class", "Prices", "load_prices", "prices_named"]


class Class(StrEnum):
    """What stores bill requests by."""

    WRITE = "write"
    LIST = "list"
    READ = "read"
    DELETE = "delete"


CLASSES: Mapping[Operation, Class | None] = {
    Operation.CREATE: Class.WRITE,
    Operation.PUT: Class.WRITE,
    Operation.GET: Class.READ,
    Operation.GET_RANGE: Class.READ,
    Operation.HEAD: Class.READ,
    Operation.LIST: Class.LIST,
    Operation.DELETE: Class.DELETE,
    Operation.SIGN: None,
}
"""The class of each operation. To sign is to calculate: no request."""


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars: a thousand requests of each class, and a gigabyte (2^30 bytes) for a month."""

    name: str
    store: str
    region: str
    as_of: str
    source: str
    """Where to look."""
    checked: bool = True
    """Whether the numbers were read there in that month; else they are what somebody knew then."""
    write: float
    list: float
    read: float
    delete: float
    gb_month: float

    def __post_init__(self) -> None:
        if min(self.write, self.list, self.read, self.delete, self.gb_month) < 0:
            raise ValueError("a price is 0 or more")

    @property
    def dated(self) -> str:
        """Of when they are, and what nobody has looked up."""
        return self.as_of if self.checked else f"{self.as_of}, not compared with {self.source}"

    def of(self, kind: Class, requests: float) -> float:
        return float(getattr(self, kind.value)) * requests / 1000

    def storage(self, count: float) -> float:
        """A month of so many bytes."""
        return self.gb_month * count / 2**30


def load_prices(file: Path | None = None) -> tuple[Prices, ...]:
    """The tables of this package, and those of a file in front of them."""
    known = _decode((files("arco.cost") / "prices.json").read_bytes(), "prices.json of this package")
    if file is None:
        return known
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read the prices in {file}: {error.strerror}") from error
    given = _decode(data, str(file))
    return (*given, *(table for table in known if table.name not in {one.name for one in given}))


def _decode(data: bytes, where: str) -> tuple[Prices, ...]:
    try:
        return msgspec.json.decode(data, type=tuple[Prices, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        example = json.dumps([{"name": "s3", "...": "..."}])
        raise Invalid(f"{where} is no list of price tables such as {example}: {error}") from error


def prices_named(tables: tuple[Prices, ...], name: str, changes: Mapping[str, float] | None = None) -> Prices:
    """The table of a name, with some prices changed."""
    found = next((table for table in tables if table.name == name), None)
    if found is None:
        raise Invalid(f"there are no prices called {name!r}; there are {', '.join(table.name for table in tables)}")
    numbers = (*(kind.value for kind in Class), "gb_month")
    for price, value in (changes or {}).items():
        if price not in numbers:
            raise Invalid(f"a price is one of {', '.join(numbers)}, not {price!r}")
        if not 0 <= value < 1e9:
            raise Invalid(f"the price {price} is a number of 0 or more")
    return msgspec.structs.replace(found, **(changes or {}))

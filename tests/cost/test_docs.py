"""docs/cost.md says what the model says: every number of it that the model gives."""

import re
from pathlib import Path

import pytest

from arco.cost import Estimate, Load, Scale, bill, load_prices, model, parse_model, prices_named
from arco.storage import Operation
from tests.simulation.months import BUSY, CALM

TEXT = (Path(__file__).parents[2] / "docs/cost.md").read_text()
S3 = prices_named(load_prices(), "s3")
MB = 1_000_000
NOTHING = Load(runs=0, posts=0, changes=0, reads=0)

LOADS = {
    "one that is open and idle": (NOTHING, Scale(collections=0)),
    "a calm one": (CALM, Scale()),
    "a busy one": (BUSY, Scale()),
    "a busy one with four backups a day": (BUSY, Scale(backups=4)),
    "1,000 calm ones": (CALM, Scale(workspaces=1000)),
    "10,000 that have 1 G events a day together": parse_model(["tenants=10000", "events_per_day=1e9"]),
    "one that has 1 G events a day": parse_model(["events_per_day=1e9"]),
}


def row(label: str) -> list[str]:
    model_only, _, _ = TEXT.partition("## Files")  # what follows is measured
    (line,) = [line for line in model_only.splitlines() if line.startswith(f"| {label} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def check(shown: str, value: float) -> None:
    """A number of the text is the value, rounded to as many digits as it shows."""
    digits = len(shown.partition(".")[2])
    assert shown == f"{value:,.{digits}f}"


@pytest.mark.parametrize("label", LOADS)
def test_what_it_says(label: str) -> None:
    load, scale = LOADS[label]
    found = model(load, scale)
    stored = {name: one.bytes for name, one in found.stored.items()}
    dollars = bill(found.requests, stored, S3, scale.workspaces)
    events, writes, a_month, a_million = row(label)
    check(events, found.events * scale.workspaces)
    check(writes, (found.total[Operation.CREATE] + found.total[Operation.PUT]) * scale.workspaces)
    check(a_month, dollars.dollars_a_month)
    if a_million:
        check(a_million, dollars.dollars_a_day / (found.events * scale.workspaces) * 1e6)


@pytest.mark.parametrize(
    ("label", "operation"),
    [
        ("create", Operation.CREATE),
        ("overwrite (hints)", Operation.PUT),
        ("range", Operation.GET_RANGE),
        ("get (last days)", Operation.GET),
        ("head (last days)", Operation.HEAD),
        ("list", Operation.LIST),
    ],
)
def test_the_requests_of_a_month(label: str, operation: Operation) -> None:
    check(row(label)[1], model(CALM, Scale(days=30)).total[operation])


@pytest.mark.parametrize(("label", "folder"), [("files of state", "state"), ("manifests", "manifests")])
def test_what_a_month_leaves(label: str, folder: str) -> None:
    objects, size = re.fullmatch(r"([\d,]+) \(([\d.]+) MB\)", row(label)[1]).groups()  # type: ignore[union-attr]
    found = model(CALM, Scale(days=30)).stored[folder]
    check(objects, found.objects)
    check(size, found.bytes / MB)


def test_the_segments_of_a_month() -> None:
    check(row("segments")[1], model(CALM, Scale(days=30)).stored["ledger"].objects)


def numbers(pattern: str) -> tuple[str, ...]:
    found = re.search(pattern.replace(" ", r"\s+").replace("#", r"([\d,.]*\d)"), TEXT)
    assert found, pattern
    return found.groups()


FEW_DAYS = model(BUSY, Scale(days=3, pack_segments=64, pack_keep=32))


@pytest.mark.parametrize(
    ("label", "operation"),
    [
        ("creates", Operation.CREATE),
        ("overwrites", Operation.PUT),
        ("ranges", Operation.GET_RANGE),
        ("gets", Operation.GET),
        ("heads", Operation.HEAD),
        ("lists", Operation.LIST),
    ],
)
def test_the_requests_of_busy_days(label: str, operation: Operation) -> None:
    check(row(label)[1], FEW_DAYS.total[operation])


def test_what_busy_days_leave() -> None:
    check(row("loose segments after them")[1], FEW_DAYS.stored["ledger"].objects)
    check(row("packs after them")[1], FEW_DAYS.stored["packs"].objects)
    for label, folder in (("files of state after them", "state"), ("manifests after them", "manifests")):
        objects, size = re.fullmatch(r"([\d,]+) \(([\d.]+) MB\)", row(label)[1]).groups()  # type: ignore[union-attr]
        check(objects, FEW_DAYS.stored[folder].objects)
        check(size, FEW_DAYS.stored[folder].bytes / MB)


def test_the_share_of_packing_in_busy_days() -> None:
    packing, without = numbers(r"Of the gets # are packing; without packs [\d,]+ were counted, and the model says #\.")
    check(packing, FEW_DAYS.requests["pack"][Operation.GET] + FEW_DAYS.stored["packs"].objects / 3)
    check(without, model(BUSY, Scale(days=3)).total[Operation.GET])


def test_calm_days_with_backups() -> None:
    found = model(CALM, Scale(days=6, backups=4)).total
    shown = numbers(r"by the model for #, #, #, # and # \(margins")
    kinds = (Operation.CREATE, Operation.GET, Operation.HEAD, Operation.PUT, Operation.LIST)
    for text, kind in zip(shown, kinds, strict=True):
        check(text, found[kind])


def objects(found: Estimate) -> list[float]:
    return [found.stored[folder].objects for folder in ("ledger", "packs", "state", "manifests")]


def test_a_year() -> None:
    year, month = model(BUSY, Scale(days=365)), model(BUSY, Scale(days=30))
    shown = numbers(
        r"# loose segments \(# MB\), # packs \(# MB\), # files of state \(# MB\) and # manifests \(# MB\), "
        r"against #, #, # and # after"
    )
    sizes = [year.stored[folder].bytes / MB for folder in ("ledger", "packs", "state", "manifests")]
    for text, value in zip(shown[0:8:2], objects(year), strict=True):
        check(text, value)
    for text, value in zip(shown[1:8:2], sizes, strict=True):
        check(text, value)
    for text, value in zip(shown[8:], objects(month), strict=True):
        check(text, value)

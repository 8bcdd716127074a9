"""The model against counts: a simulated month of a calm workspace, and what is left when it is closed; and three days
of a busy one, with packs small enough to be written within them."""

from collections import Counter
from dataclasses import dataclass

import pytest

from arco.backup import BackupLoop, Schedule, Vault
from arco.core import DAY
from arco.cost import Scale, Usage, bill, load_prices, measure_usage, model, prices_named
from arco.iceberg import Locations
from arco.log import Place
from arco.runtime import DEFINITIONS
from arco.state import Cadence, PackSize
from arco.storage import Operation, RequestCounts, Role, RoleStore
from tests.iceberg.house import ROOT
from tests.simulation.months import BUSY, CALM, DAY_SECONDS, SCOPE, Life, Observed, live, run

DAYS = 30
FEW_DAYS = Scale(days=3, pack_segments=64, pack_keep=32)
NAMES = {"range": Operation.GET_RANGE}


@dataclass(frozen=True)
class Month:
    life: Life
    usage: Usage
    asked: int
    """Requests that it took to measure the usage."""
    at_rest: int
    """Requests of a month after it was closed."""


@pytest.fixture(scope="module")
def month() -> Month:
    async def scenario() -> Month:
        life = await live(DAYS, CALM)
        counts = RequestCounts()
        reader = RoleStore(life.store, SCOPE, Role.READER, counts)
        incarnation = life.workspace.incarnation
        places = [Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, known.log) for known in DEFINITIONS]
        usage = await measure_usage(reader, places, incarnation, life.runtime, days=7)
        before = life.store.requests.total()
        await life.runtime.sleep(DAYS * DAY_SECONDS)
        return Month(life, usage, counts.count(), life.store.requests.total() - before)

    return run(scenario())


def counted(life: Life, days: int = DAYS) -> Counter[Operation]:
    """Requests of a mean day, of the last so many."""
    return of_days(sum((day.requests for day in life.days[-days:]), Counter()), days)


def of_days(requests: Counter[str], days: int) -> Counter[Operation]:
    found: Counter[Operation] = Counter()
    for name, number in requests.items():
        found[NAMES.get(name) or Operation(name)] += number / days  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    ("operation", "margin", "days"),
    [
        (Operation.CREATE, 0.10, DAYS),
        (Operation.PUT, 0.20, DAYS),
        (Operation.GET_RANGE, 0.15, DAYS),
        (Operation.LIST, 0.0, DAYS),
        # These grow while revisions gather, so the model speaks of the last days.
        (Operation.GET, 0.20, 3),
        (Operation.HEAD, 0.20, 3),
    ],
)
def test_requests_are_as_many_as_the_model_says(month: Month, operation: Operation, margin: float, days: int) -> None:
    expected = model(CALM, Scale(days=DAYS)).total[operation]
    assert counted(month.life, days)[operation] == pytest.approx(expected, rel=margin)


def test_the_bill_for_requests_is_the_model_s_within_a_tenth(month: Month) -> None:
    prices = prices_named(load_prices(), "s3")
    expected = bill(model(CALM, Scale(days=DAYS)).requests, {}, prices).dollars_a_month
    assert bill({"all": counted(month.life)}, {}, prices).dollars_a_month == pytest.approx(expected, rel=0.10)


@pytest.mark.parametrize(("folder", "margin"), [("ledger", 0.05), ("state", 0.35), ("manifests", 0.40)])
def test_what_is_stored_is_what_the_model_says(month: Month, folder: str, margin: float) -> None:
    expected = model(CALM, Scale(days=DAYS)).stored[folder]
    found = month.life.days[-1].stored[folder]
    assert found.objects == pytest.approx(expected.objects, rel=margin)
    assert found.bytes == pytest.approx(expected.bytes, rel=margin)


@pytest.fixture(scope="module")
def busy() -> Life:
    size = PackSize(segments=int(FEW_DAYS.pack_segments), keep=int(FEW_DAYS.pack_keep))
    return run(live(int(FEW_DAYS.days), BUSY, cadence=Cadence(packs=size)))


@pytest.mark.parametrize(
    ("operation", "margin"),
    [
        (Operation.CREATE, 0.05),
        (Operation.PUT, 0.15),
        (Operation.GET_RANGE, 0.05),
        (Operation.LIST, 0.0),
        (Operation.GET, 0.12),
        (Operation.HEAD, 0.10),
    ],
)
def test_requests_of_busy_days_are_as_many_as_the_model_says(busy: Life, operation: Operation, margin: float) -> None:
    expected = model(BUSY, FEW_DAYS).total[operation]
    assert counted(busy, len(busy.days))[operation] == pytest.approx(expected, rel=margin)


def test_packing_is_part_of_what_was_counted(busy: Life) -> None:
    """Without it the model would be far from the gets that were counted."""
    found = model(BUSY, FEW_DAYS)
    without = found.total[Operation.GET] - found.requests["pack"][Operation.GET]
    assert counted(busy, len(busy.days))[Operation.GET] > 1.15 * without


@pytest.mark.parametrize(
    ("folder", "margin"), [("ledger", 0.25), ("packs", 0.25), ("state", 0.20), ("manifests", 0.35)]
)
def test_what_busy_days_leave_is_what_the_model_says(busy: Life, folder: str, margin: float) -> None:
    expected = model(BUSY, FEW_DAYS).stored[folder]
    found = busy.days[-1].stored[folder]
    assert found.objects == pytest.approx(expected.objects, rel=margin)
    assert found.bytes == pytest.approx(expected.bytes, rel=margin)


WITH_BACKUPS = Scale(days=6, backups=4)
"""The middle of the days that are counted: what pruning reads grows."""


@pytest.fixture(scope="module")
def backed_up() -> Counter[Operation]:
    """Requests to both stores, a mean day of the last four of calm ones with backups."""
    others: list[Observed] = []
    marks: list[Counter[str]] = []

    def loops(life: Life) -> list[BackupLoop]:
        other = Observed(life.runtime)
        others.append(other)
        handle = RoleStore(other, SCOPE, Role.BACKUP, RequestCounts())
        vault = Vault(handle, SCOPE.tenant, SCOPE.workspace, life.runtime)
        locations = Locations(life.workspace.handle(Role.ICEBERG), ROOT, SCOPE.root)
        every = DAY // int(WITH_BACKUPS.backups)
        return [BackupLoop(life.workspace, vault, locations, ROOT, Schedule(every=every))]

    def ended(life: Life) -> None:
        marks.append(life.store.requests + others[0].requests)

    run(live(int(WITH_BACKUPS.days) + 2, CALM, loops=loops, ended=ended))
    return of_days(marks[-1] - marks[-5], 4)


@pytest.mark.parametrize(
    ("operation", "margin"),
    [
        (Operation.CREATE, 0.20),
        (Operation.PUT, 0.20),
        (Operation.LIST, 0.20),
        (Operation.GET, 0.20),
        (Operation.HEAD, 0.20),
    ],
)
def test_requests_with_backups_are_as_many_as_the_model_says(
    backed_up: Counter[Operation], operation: Operation, margin: float
) -> None:
    found = model(CALM, WITH_BACKUPS)
    assert backed_up[operation] == pytest.approx(found.total[operation], rel=margin)


def test_files_are_few_and_only_the_log_and_what_is_retained_grows(month: Month) -> None:
    """Inodes on local disk: what a month of eight appends a day leaves with a collection a day."""
    days = month.life.days
    assert days[-1].objects < 1_000
    last, before = days[-1], days[-8]
    grown = {name: last.stored[name].objects - before.stored[name].objects for name in ("ledger", "state", "manifests")}
    assert grown["ledger"] == 7 * 8
    assert grown["state"] < 7 * sum(day.requests["create"] for day in days[-7:]) / 7 / 2
    assert grown["manifests"] <= 7 * 11


def test_a_closed_workspace_makes_no_requests(month: Month) -> None:
    assert month.at_rest == 0


def test_a_live_workspace_tells_what_it_did(month: Month) -> None:
    usage, days = month.usage, month.life.days
    assert len(usage.days) == 7
    assert usage.mean("segments") == pytest.approx(sum(day.segments for day in days[-7:]) / 7, rel=0.05)
    assert usage.mean("revisions") == pytest.approx(sum(day.revisions for day in days[-7:]) / 7, rel=0.10)
    assert usage.mean("events") == pytest.approx(CALM.events, rel=0.35), "a sample of the segments"
    for folder, one in days[-1].stored.items():  # what closing it published came after the last day
        assert one.objects <= usage.stored[folder].objects <= one.objects + 20
        assert one.bytes <= usage.stored[folder].bytes
    assert month.asked < 60


def test_a_day_with_faults_loses_nothing_and_costs_a_little_more() -> None:
    life = run(live(2, CALM, faults=0.05, seed=3))
    posted = 2 * int(CALM.posts * CALM.facts)
    made = 2 * int(CALM.runs * CALM.tasks)
    rows = sum(layer.rows for layer in life.head("activity").layers_of("materializations"))
    assert rows == posted + made
    assert life.days[-1].requests["create"] >= 0.8 * model(CALM, Scale(days=2)).total[Operation.CREATE]

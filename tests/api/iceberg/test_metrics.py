"""Reports of metrics: what is one is counted, what is none is refused."""

from typing import Any

import pytest

from tests.api.iceberg.content import table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import ACME, World, run_world

METRICS = f"{namespace('ns')}/tables/t/metrics"
SCAN = {
    "report-type": "scan-report",
    "table-name": "ns.t",
    "snapshot-id": 1,
    "filter": True,
    "schema-id": 0,
    "projected-field-ids": [1],
    "projected-field-names": ["id"],
    "metrics": {"total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 5}},
    "metadata": {"engine-name": "spark"},
}
COMMIT = {
    "report-type": "commit-report",
    "table-name": "ns.t",
    "snapshot-id": 1,
    "sequence-number": 1,
    "operation": "append",
    "metrics": {"added-data-files": {"unit": "count", "value": 1}},
}


async def _reported(world: World, body: Any) -> Any:
    await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
    await done(world, "POST", f"{namespace('ns')}/tables", table())
    return await ask(world, "POST", METRICS, body)


@pytest.mark.parametrize("report", [SCAN, COMMIT], ids=["scan", "commit"])
def test_a_report_is_counted(report: dict[str, Any]) -> None:
    async def work(world: World) -> None:
        answer = await _reported(world, report)
        assert (answer.status_code, answer.content) == (204, b"")
        assert world.host.warehouse_of(ACME).reports == {report["report-type"]: 1}
        shown = await world.done("POST", "/maintenance/iceberg", {"dry_run": True})
        assert shown["reports"] == {report["report-type"]: 1}

    run_world(work)


BAD: list[Any] = [
    None,
    [],
    {},
    {"report-type": "weather"},
    {"report-type": 1},
    {**SCAN, "metrics": 1},
    {**SCAN, "snapshot-id": "1"},
    {name: value for name, value in SCAN.items() if name != "filter"},
    {name: value for name, value in COMMIT.items() if name != "operation"},
    {**COMMIT, "report-type": "scan-report"},
]


@pytest.mark.parametrize("report", BAD)
def test_what_is_no_report_is_refused(report: Any) -> None:
    async def work(world: World) -> None:
        assert error_of(await _reported(world, report))[:2] == (400, "BadRequestException")
        assert not world.host.warehouse_of(ACME).reports

    run_world(work)


def test_a_report_of_no_table_is_refused() -> None:
    answer = run_world(lambda world: ask(world, "POST", METRICS, SCAN))
    assert error_of(answer)[:2] == (404, "NoSuchTableException")

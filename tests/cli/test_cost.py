"""`arco cost` beside a server: what is calculated and what was counted, at the same prices."""

from pathlib import Path

import pytest

from arco.cli import _cost
from arco.core import DAY, format_time
from arco.runtime import AsyncRuntime
from arco.wire import RequestCount, RequestCountsInfo
from tests.cli.conftest import Cli
from tests.cli.server import serving

COUNTS = {
    ("owner", "create"): 3000,
    ("reader", "get"): 8000,
    ("collector", "list"): 20,
    ("collector", "delete"): 50,
    ("server", "sign"): 7,
    ("server", "teleport"): 9,
}
"""Of two days; only a newer server has the last one."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> str:
    """A server that has been counting for two days; since when."""
    since = format_time(AsyncRuntime().now() - 2 * DAY)
    requests = [RequestCount(role=role, operation=what, count=count) for (role, what), count in COUNTS.items()]

    async def told(session: object) -> RequestCountsInfo:
        return RequestCountsInfo(since=since, requests=requests)

    monkeypatch.setattr(_cost, "_counted", told)
    return since


def test_what_a_server_counted_has_prices_by_class(cli: Cli, workspace: Path, counted: str) -> None:
    found = cli("cost", "--json", "--price", "delete=1").document["counted"]
    assert found["since"] == counted
    assert found["total"] == 11_070, "to sign is no request, and what nobody knows has no price"
    assert {one["class"]: one["requests"] for one in found["classes"]} == {
        "write": 3000,
        "list": 20,
        "read": 8000,
        "delete": 50,
    }
    dollars = 3 * 0.005 + 0.02 * 0.005 + 8 * 0.0004 + 0.05
    assert found["dollars"] == pytest.approx(dollars)
    assert found["dollars_a_day"] == pytest.approx(dollars / 2, rel=0.01)
    assert {one["class"]: round(one["requests_a_day"], -2) for one in found["a_day"]}["read"] == 4000
    assert {"role": "server", "operation": "teleport", "count": 9} in found["requests"]


def test_calculated_and_counted_stand_beside_each_other(cli: Cli, workspace: Path, counted: str) -> None:
    calculated = cli("cost", "--json").document["calculated"]
    lines = [line for line in calculated["lines"] if line["unit"] == "requests"]
    assert sum(one["dollars_a_day"] for one in calculated["classes"]) == pytest.approx(
        sum(line["dollars_a_day"] for line in lines)
    )
    told = cli("cost").out
    assert f"As this server counted since {counted}: 11,070 requests" in " ".join(told.split())
    assert "a day at these prices" in told
    (row,) = [line.split() for line in told.splitlines() if line.split()[:1] == ["read"]]
    assert len(row) == 5
    assert float(row[3].replace(",", "")) == pytest.approx(4000, rel=0.01)


def test_a_server_that_just_began_says_nothing_of_a_day(cli: Cli, home: Path) -> None:
    cli("init")
    with serving(home / ".arco"):
        found = cli("cost", "--json").document["counted"]
        told = " ".join(cli("cost").out.split())
    assert found["total"] == sum(one["count"] for one in found["requests"] if one["operation"] != "sign") > 0
    assert found["dollars"] > 0
    assert found["a_day"] is found["dollars_a_day"] is None
    assert "so far at these prices" in told
    assert "a day at these prices" not in told


def test_the_note_names_what_the_calculation_leaves_out(cli: Cli, workspace: Path) -> None:
    told = " ".join(cli("cost", "--no-sizes").out.split())
    _, _, left_out = told.partition("Not in the calculation: ")
    for what in ("reads of servers and commands", "the tail", "collection", "packing", "backups", "browsers"):
        assert what in left_out
    done = cli("cost", "--no-sizes", "--json").document["calculated"]["requests_a_day"]
    assert set(done) == {"append", "publish", "merge", "hint"}, "the note names everything else"

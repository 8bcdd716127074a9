"""Metrics: what a scrape tells, who may ask for it, and that no name and nothing of another workspace is in it."""

import contextlib
import re
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from arco.api import Door
from arco.api._permissions import BESIDE
from arco.domains.access import UserRole
from tests.api.iceberg.content import table
from tests.api.iceberg.world import done, namespace
from tests.api.world import ACME, OTHER, World, run_world

WHERE = {"tenant_id": "acme", "workspace_id": "prod"}


async def scrape(world: World, token: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return await world.http.get("/metrics", headers=headers)


def samples(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Numbers by name and labels, of all but the workspace's."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if WHERE.get(key) != value}
            found.setdefault(sample.name, {})[frozenset(labels.items())] = sample.value
    return found


def of(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


COMMIT = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
REFUSED = {
    "requirements": [{"type": "assert-table-uuid", "uuid": "00000000-0000-7000-8000-000000000000"}],
    "updates": [],
}


async def _use(world: World) -> None:
    await done(world, "POST", "/namespaces", {"namespace": ["secret_ns"]})
    await done(world, "POST", f"{namespace('secret_ns')}/tables", table("secret_table"))
    where = f"{namespace('secret_ns')}/tables/secret_table"
    for body in (COMMIT, COMMIT, REFUSED):
        await world.http.request("POST", f"/iceberg/v1/acme.prod{where}", json=body)
    await world.http.get("/api/v1/tables/secret_ns.secret_table")
    await world.http.get("/api/v1/nowhere/secret_path")
    await world.host.warehouse_of(ACME).upkeep.receipts.close()


def test_a_scrape_tells_of_requests_commits_receipts_store_and_logs() -> None:
    async def work(world: World) -> str:
        await _use(world)
        answer = await scrape(world)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return answer.text

    text = run_world(work)
    found = samples(text)
    template = "/iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    requests = found["http_requests_total"]
    assert requests[of(method="POST", route=template, status="200")] == 2
    assert requests[of(method="POST", route=template, status="409")] == 1
    assert requests[of(method="GET", route="/api/v1/tables/{table}", status="200")] == 1
    assert requests[of(tenant_id="", workspace_id="", method="GET", route="other", status="404")] == 1
    assert found["http_request_duration_seconds_count"][of(method="POST", route=template)] == 3
    commits = found["arco_iceberg_commits_total"]
    # Of the table's creation and of the first change; the second found nothing to change.
    assert commits[of(source="external", outcome="committed")] == 2
    assert commits[of(source="external", outcome="unchanged")] == 1
    assert commits[of(source="external", outcome="refused")] == 1
    assert found["arco_iceberg_receipt_lag_seconds_count"][of()] == 2
    assert found["arco_iceberg_receipts_waiting"][of()] == 0
    assert found["arco_store_requests_total"][of(role="iceberg", operation="create")] >= 4
    for log in ("catalog", "activity"):
        tail = found["arco_log_tail_position"][of(log=log)]
        assert tail >= found["arco_log_published_position"][of(log=log)]
        assert found["arco_log_unpublished_segments"][of(log=log)] >= 0
    assert "secret" not in text


def test_every_number_carries_its_workspace() -> None:
    async def work(world: World) -> str:
        await _use(world)
        return (await scrape(world)).text

    for line in run_world(work).splitlines():
        if not line.startswith(("#", "arco_build_info")):
            assert re.search(r'tenant_id="(acme)?",workspace_id="(prod)?"', line), line


def test_a_key_shows_its_own_workspace_and_no_other() -> None:
    async def work(world: World) -> tuple[str, str]:
        await done(world, "GET", "/v1/config", token=await world.token(UserRole.VIEWER, OTHER))
        ours = await scrape(world, await world.token(UserRole.VIEWER))
        theirs = await scrape(world, await world.token(UserRole.VIEWER, OTHER))
        return ours.text, theirs.text

    ours, theirs = run_world(work, door=Door.KEYS, scopes=(ACME, OTHER))
    assert "globex" not in ours
    assert "acme" not in theirs
    assert 'route="/iceberg/v1/config"' in theirs


def test_who_may_ask() -> None:
    async def work(world: World) -> list[Any]:
        nobody = await scrape(world)
        wrong = await scrape(world, "arco_acme_prod_x_y")
        known = [(await scrape(world, await world.token(role))).status_code for role in UserRole]
        return [nobody.status_code, wrong.status_code, known]

    assert BESIDE.keys() == {("GET", "/metrics")}
    assert run_world(work, door=Door.KEYS) == [401, 401, [200] * len(UserRole)]


def test_in_development_no_page_of_another_origin_reads_them() -> None:
    async def work(world: World) -> int:
        return (await world.http.get("/metrics", headers={"Origin": "http://evil.example"})).status_code

    assert run_world(work) == 401


def test_what_nobody_foresaw_is_counted_as_500() -> None:
    async def work(world: World) -> str:
        def broken(scope: Any) -> Any:
            raise ZeroDivisionError

        object.__setattr__(world.host, "warehouse_of", broken)
        with contextlib.suppress(ZeroDivisionError):  # it goes through the application here
            await world.http.post("/api/v1/maintenance/iceberg", json={"dry_run": True})
        return (await scrape(world)).text

    requests = samples(run_world(work))["http_requests_total"]
    assert requests[of(method="POST", route="/api/v1/maintenance/iceberg", status="500")] == 1


def test_openmetrics_is_spoken_if_it_is_asked_for() -> None:
    async def work(world: World) -> httpx.Response:
        return await world.http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    answer = run_world(work)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")

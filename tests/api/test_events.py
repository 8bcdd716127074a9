"""Facts of other producers: each is judged by itself, all that fit are one append, and no state is read for it."""

from typing import Any

import httpx
import pytest

from arco.core import new_ulid
from arco.storage import Operation, Role
from tests.api.content import fill, materialization
from tests.api.world import World, run_world


def _observed(**changes: Any) -> dict[str, Any]:
    data = {
        "observation_id": "o1",
        "asset_id": "a1",
        "asset_key": "sales.orders",
        "partition_id": "p1",
        "partition_key": "",
        "data_version": "1",
        "observed_at": 1767225600000000,
    }
    return {"type": "AssetObserved", "data": {**data, **changes}}


def test_each_event_has_a_result_and_those_that_fit_are_recorded() -> None:
    async def work(world: World) -> list[Any]:
        content = await fill(world)
        good = materialization(world, content.table_id, content.table, "mixed-run")
        batch = [
            good,
            {"type": "AssetObserved", "data": {"x": 1}},
            {**good, "data": {**good["data"], "row_count": "three"}},
            _observed(),
            {**_observed(), "id": "not a ULID"},
            {**_observed(), "time": "yesterday"},
        ]
        answer = await world.done("POST", "/events", {"events": batch})
        outputs = await world.done("GET", "/runs/mixed-run/outputs")
        return [answer, outputs["materializations"]]

    answer, outputs = run_world(work)
    assert [item["index"] for item in answer["results"]] == list(range(6))
    recorded = [item["status"] == "recorded" for item in answer["results"]]
    assert recorded[:4] == [True, False, False, True]
    assert (answer["recorded"], answer["refused"]) == (sum(recorded), 6 - sum(recorded))
    for item in answer["results"]:
        assert (item["detail"] is None) is (item["status"] == "recorded")
        assert (item["position"] is None) is (item["status"] == "refused")
    assert len(outputs) == 1


def test_a_batch_of_which_nothing_fits_writes_nothing() -> None:
    async def work(world: World) -> list[Any]:
        before = await world.workspace().logs["activity"].current()
        answer = await world.done("POST", "/events", {"events": [{"type": "AssetObserved", "data": {}}] * 3})
        return [answer, before == await world.workspace().logs["activity"].current()]

    answer, same = run_world(work)
    assert (answer["recorded"], answer["refused"], answer["operation_id"]) == (0, 3, None)
    assert same


@pytest.mark.parametrize("count", [1, 500])
def test_a_batch_is_one_append_and_reads_no_state(count: int) -> None:
    async def work(world: World) -> dict[Any, int]:
        await world.done("POST", "/events", {"events": [_observed()]})  # the log has its owner from here on
        await world.workspace().logs["activity"].published(await world.workspace().logs["activity"].current())
        before = world.workspace().counts.table()
        await world.done("POST", "/events", {"events": [_observed(observation_id=f"o{n}") for n in range(count)]})
        after = world.workspace().counts.table()
        return {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}

    asked = {(role, what): n for (role, what), n in run_world(work).items() if role is not Role.COMPACTOR}
    assert asked == {(Role.OWNER, Operation.CREATE): 1}


@pytest.mark.parametrize(
    "type", ["TableCreated", "ApiKeyCreated", "NothingChanged", "LineageEdgeAdded", "GatingDecided", "", "x", None, 7]
)
def test_only_facts_may_be_recorded_and_never_what_is_decided(type: Any) -> None:
    async def work(world: World) -> httpx.Response:
        return await world.ask("POST", "/events", {"events": [{"type": type, "data": {}}]})

    assert run_world(work).status_code == 400


@pytest.mark.parametrize(
    "data",
    [
        {"metadata": {"a": 1}},
        {"row_count": -1},
        {"row_count": 1 << 70},
        {"observed_at": "2026-01-01T00:00:00Z"},
        {"observed_at": -1},
        {"observed_at": 1 << 63},
        {"observed_at": 1e300},
        {"observation_id": ""},
        {"unknown": 1},
        {"asset_key": None},
        {"metadata": {"password": {"deep": [[[[]]]]}}},
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_a_reason(data: dict[str, Any]) -> None:
    async def work(world: World) -> Any:
        return await world.done("POST", "/events", {"events": [_observed(**data)]})

    [result] = run_world(work)["results"]
    assert result["status"] == "refused"
    assert result["detail"]


def test_a_payload_nested_as_deep_as_can_be_sent_is_refused_and_breaks_nothing() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    async def work(world: World) -> set[int]:
        found = set()
        for depth in (50, 200, 400, 800, 950, 5000):
            text = f'{{"events": [{{"type": "AssetObserved", "data": {{"x": {"[" * depth}{"]" * depth}}}}}]}}'
            answer = await world.http.post("/api/v1/events", content=text, headers={"content-type": "application/json"})
            found.add(answer.status_code)
        return found

    assert run_world(work) <= {200, 400}


def test_an_id_that_is_given_is_kept_and_the_source_and_subject_too() -> None:
    async def work(world: World) -> Any:
        runtime = world.host.runtime
        event = {**_observed(), "id": new_ulid(runtime, runtime), "source": "dbt", "subject": "sales.orders"}
        answer = await world.done("POST", "/events", {"events": [event]})
        return answer["results"][0]["id"] == event["id"]

    assert run_world(work)


@pytest.mark.parametrize("events", [[], None, {}, "x", [None], [7], [{}] * 10_001])
def test_a_batch_that_is_none_is_refused_as_a_whole(events: Any) -> None:
    async def work(world: World) -> int:
        return (await world.ask("POST", "/events", {"events": events})).status_code

    assert run_world(work) == 400


def test_a_key_stands_for_everything_that_is_stored() -> None:
    async def work(world: World) -> list[int]:
        headers = {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}
        event = {**_observed(), "source": "one", "subject": "a"}
        statuses = []
        for changes in ({}, {}, {"source": "two"}, {"subject": "b"}, {"time": "2026-01-01T00:00:00Z"}):
            answer = await world.ask("POST", "/events", {"events": [{**event, **changes}]}, headers=headers)
            statuses.append(answer.status_code)
        return statuses

    assert run_world(work) == [200, 200, 409, 409, 409]


def test_facts_are_published_before_the_answer_if_that_is_asked_for() -> None:
    async def work(world: World) -> bool:
        answer = await world.done("POST", "/events?wait=published", {"events": [_observed()]})
        return await world.workspace().logs["activity"].is_published(int(answer["position"]))

    assert run_world(work)

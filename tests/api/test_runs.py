"""Runs over HTTP: plan, trigger, cancel, run again. What workers call is in test_work.py."""

import asyncio
from typing import Any

import httpx
import pytest

from arco.assets import Dimension, Project, StaticPartitions, TimePartitions
from arco.core import new_ulid
from arco.domains.orchestration import Outcome
from tests.api.workers import Worker, deploy, task_states, trigger
from tests.api.world import World, run_world
from tests.servo.world import chain, project

ALL = {"selection": "*"}
REGIONS = (Dimension("region", StaticPartitions(("eu", "us"))),)
DAYS = (Dimension("date", TimePartitions("0 0 * * *", "2026-01-01")),)


def _key(world: World) -> dict[str, str]:
    return {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}


async def _positions(world: World) -> list[int]:
    return [await opened.current() for opened in world.workspace().logs.values()]


# Planning and triggering


def test_a_plan_is_the_same_as_long_as_nothing_changed_and_writes_nothing() -> None:
    async def work(world: World) -> tuple[list[Any], Any, bool]:
        await deploy(world, project(chain(3)))
        before = await _positions(world)
        plans = [await world.done("POST", "/plans", ALL) for _ in range(2)]
        written = await _positions(world) != before
        return plans, await world.done("POST", "/runs", ALL), written

    (first, second), run, written = run_world(work)
    assert not written
    assert first == second
    assert [task["task_key"] for task in first["tasks"]] == ["n.a0000", "n.a0001", "n.a0002"]
    assert [task["stage"] for task in first["tasks"]] == [0, 1, 2]
    assert all(task["reason"] for task in first["tasks"])
    assert (run["plan_id"], run["task_count"], run["state"]) == (first["plan_id"], 3, "RUNNING")
    assert run["replayed"] is False


def test_a_plan_says_what_it_leaves_out_and_why() -> None:
    async def work(world: World) -> Any:
        await deploy(world, project(chain(3)))
        await trigger(world)
        await Worker(world).work_off()
        return await world.done("POST", "/plans", {"selection": "n.a0001 or n.a0002"})

    plan = run_world(work)
    assert plan["task_count"] == 0
    assert [skip["asset_key"] for skip in plan["skips"]] == ["n.a0001", "n.a0002"]
    assert all(skip["reason"].startswith("up to date:") for skip in plan["skips"])


def test_a_run_with_nothing_to_do_is_done_at_once() -> None:
    async def work(world: World) -> tuple[Any, Any]:
        await deploy(world, project(chain(2)))
        await trigger(world)
        await Worker(world).work_off()
        run = await world.done("POST", "/runs", {"selection": "n.a0001"})
        return run, await world.done("GET", f"/runs/{run['run_id']}")

    run, shown = run_world(work)
    assert (run["task_count"], run["state"]) == (0, "SUCCEEDED")
    assert shown["ended_at"] is not None


def test_a_run_with_nothing_to_do_is_not_recorded_if_nobody_wants_it() -> None:
    async def work(world: World) -> tuple[Any, Any, list[bool]]:
        await deploy(world, project(chain(2)))
        body = {"selection": "n.a0001", "record_empty": False}
        headers, before = _key(world), await _positions(world)
        cannot = await world.done("POST", "/runs", body, headers=headers)
        untouched = [await _positions(world) == before]
        await trigger(world)
        await Worker(world).work_off()
        before = await _positions(world)
        done = await world.done("POST", "/runs", body, headers=headers)
        untouched.append(await _positions(world) == before)
        return cannot, done, untouched

    cannot, done, untouched = run_world(work)
    assert untouched == [True, True]
    assert (cannot["run_id"], cannot["task_count"], cannot["cannot_run_count"]) == ("", 0, 1)
    assert cannot["cannot_run"][0]["reason"].startswith("cannot run: it needs n.a0000")
    assert (done["run_id"], done["skip_count"], done["cannot_run"]) == ("", 1, [])


def test_a_run_with_something_to_do_is_recorded_with_or_without_the_wish() -> None:
    async def work(world: World) -> list[Any]:
        await deploy(world, project(chain(2)))
        headers, body = _key(world), {**ALL, "record_empty": False}
        first = await world.done("POST", "/runs", body, headers=headers)
        keyed = {"selection": "n.a0001", "record_empty": False, "run_key": "k"}
        return [
            first,
            await world.done("POST", "/runs", body, headers=headers),
            *[await world.done("POST", "/runs", keyed) for _ in range(2)],
        ]

    first, again, keyed, found = run_world(work)
    assert (first["task_count"], again) == (2, first | {"replayed": True})
    assert keyed["run_id"] == found["run_id"] != ""
    assert (keyed["task_count"], keyed["cannot_run_count"], found["replayed"]) == (0, 1, True)


@pytest.mark.parametrize("path", ["/plans", "/runs"])
def test_nothing_can_be_run_before_something_is_deployed(path: str) -> None:
    async def work(world: World) -> httpx.Response:
        return await world.ask("POST", path, ALL)

    answer = run_world(work)
    assert answer.status_code == 409
    assert "arco deploy" in answer.json()["detail"]


WRONG: dict[str, tuple[dict[str, Any], int, str]] = {
    "an asset that is not there": ({"selection": "n.nothing"}, 400, "there is no asset"),
    "a selection of nothing": ({"selection": "n.a0000 and n.a0001"}, 400, "selects nothing"),
    "only spaces": ({"selection": "   "}, 400, "nothing is selected"),
    "an empty selection": ({"selection": ""}, 400, "selection"),
    "no selection": ({}, 400, "selection"),
    "half a selection": ({"selection": "n.a0000 and"}, 400, "selection"),
    "a selection that is too deep": ({"selection": "(" * 10_000}, 400, "nested"),
    "a selection that is too long": ({"selection": "a" * 10_001}, 400, "selection"),
    "a dimension that no asset has": ({"selection": "n.a0000", "partitions": {"planet": "mars"}}, 400, "planet"),
    "no partition of one that needs it": ({"selection": "p.daily"}, 400, "partitioned by date"),
    "a day before the first": ({"selection": "p.daily", "partitions": {"date": "1999-01-01"}}, 400, "2026-01-01"),
    "a day that has not ended": ({"selection": "p.daily", "partitions": {"date": "2999-01-01"}}, 400, "2999-01-01"),
    "no day at all": ({"selection": "p.daily", "partitions": {"date": "yesterday"}}, 400, "yesterday"),
    "a range backwards": (
        {"selection": "p.daily", "partitions": {"date": "2026-01-05..2026-01-02"}},
        400,
        "2026-01-05",
    ),
    "too many partitions": ({**ALL, "partitions": {"date": "x" * 5000}}, 400, "partitions"),
    "an unknown mode": ({**ALL, "mode": "dry_run"}, 400, "mode"),
    "an unknown policy": ({**ALL, "failure_policy": "retry"}, 400, "failure_policy"),
    "less than no parallelism": ({**ALL, "max_parallelism": -1}, 400, "max_parallelism"),
    "no time at all": ({**ALL, "timeout_seconds": 0}, 400, "timeout_seconds"),
    "a priority beyond all others": ({**ALL, "priority": 1001}, 400, "priority"),
    "an unseen character in the run key": ({**ALL, "run_key": "a\u202eb"}, 400, "run key"),
    "an unseen character in a tag": ({**ALL, "tags": {"a": "b\n"}}, 400, "tag"),
    "too many tags": ({**ALL, "tags": {str(number): "" for number in range(33)}}, 400, "tags"),
    "a word that nobody knows": ({**ALL, "freshness": "1h"}, 400, "freshness"),
}


@pytest.mark.parametrize("path", ["/plans", "/runs"])
def test_what_cannot_be_run_is_refused_with_a_reason_and_writes_nothing(path: str) -> None:
    async def work(world: World) -> tuple[dict[str, httpx.Response], bool]:
        assets = (*project(chain(2)).assets, *project({"p.daily": []}, partitions=DAYS).assets)
        await deploy(world, Project(assets))
        before = await _positions(world)
        answers = {name: await world.ask("POST", path, body) for name, (body, _, _) in WRONG.items()}
        return answers, await _positions(world) == before

    answers, untouched = run_world(work)
    for name, answer in answers.items():
        _, status, word = WRONG[name]
        assert answer.status_code == status, (name, answer.text)
        assert word in answer.json()["detail"], (name, answer.text)
        assert len(answer.text) < 4000, name
    assert untouched


def test_partitions_are_tasks_of_their_own() -> None:
    async def work(world: World) -> tuple[list[str], Any]:
        await deploy(world, project({"p.a": [], "p.b": ["p.a"]}, partitions=REGIONS))
        await trigger(world, partitions={"region": "eu,us"})
        return await Worker(world).work_off(), await world.done("GET", "/assets/p.b/partitions")

    done, partitions = run_world(work)
    assert sorted(done) == ["p.a[region=eu]", "p.a[region=us]", "p.b[region=eu]", "p.b[region=us]"]
    assert [part["status"] for part in partitions["items"]] == ["complete", "complete"]
    assert sorted(part["partition_key"] for part in partitions["items"]) == ["region=s:eu", "region=s:us"]


# Run keys and request keys


def test_a_run_key_stands_for_one_run_whatever_is_deployed_later() -> None:
    async def work(world: World) -> tuple[list[Any], list[int], httpx.Response]:
        await deploy(world, project(chain(2)))
        body = {"selection": "n.a0000", "run_key": "daily"}
        runs = [await world.done("POST", "/runs", body) for _ in range(2)]
        await deploy(world, project({"n.other": []}))
        before = await _positions(world)
        runs.append(await world.done("POST", "/runs", body))
        runs.append(await world.done("POST", "/runs", body, headers=_key(world)))
        return runs, before, await world.ask("POST", "/runs", {"selection": "n.other", "run_key": "daily"})

    (first, *again), _, other = run_world(work)
    assert first["replayed"] is False
    for run in again:
        assert run["replayed"] is True
        assert [run[name] for name in ("run_id", "plan_id", "task_count")] == [
            first[name] for name in ("run_id", "plan_id", "task_count")
        ]
        assert run["operation_id"] != first["operation_id"]
    assert other.status_code == 409
    details = other.json()["details"]
    assert details["run_id"] == first["run_id"]
    assert details["stored"] != details["given"]
    assert len(details["stored"]) == len(details["given"]) == 64


def test_a_run_key_that_comes_several_times_at_once_is_one_run() -> None:
    async def work(world: World) -> list[Any]:
        await deploy(world, project(chain(2)))
        body = {"selection": "*", "run_key": "daily"}
        return await asyncio.gather(*(world.done("POST", "/runs", body) for _ in range(5)))

    runs = run_world(work)
    assert len({run["run_id"] for run in runs}) == 1
    assert sorted(run["replayed"] for run in runs) == [False, True, True, True, True]


def test_a_request_key_triggers_once_even_after_the_deployment_is_gone() -> None:
    async def work(world: World) -> tuple[Any, list[Any], bool, Any]:
        await deploy(world, project(chain(2)))
        headers = _key(world)
        first = await world.done("POST", "/runs", ALL, headers=headers)
        again = [await world.done("POST", "/runs", ALL, headers=headers)]
        await deploy(world, project({}))
        before = await _positions(world)
        again.append(await world.done("POST", "/runs", ALL, headers=headers))
        return first, again, await _positions(world) == before, await world.done("GET", "/runs")

    first, again, untouched, listed = run_world(work)
    assert again == [first | {"replayed": True}] * 2
    assert untouched
    assert [run["run_id"] for run in listed["items"]] == [first["run_id"]]


@pytest.mark.parametrize(
    "other",
    [{"selection": "n.a0000"}, {**ALL, "mode": "force"}, {**ALL, "run_key": "x"}, {**ALL, "priority": 1}],
    ids=["selection", "mode", "run key", "priority"],
)
def test_a_request_key_of_another_trigger_is_refused_with_both_fingerprints(other: dict[str, Any]) -> None:
    async def work(world: World) -> httpx.Response:
        await deploy(world, project(chain(2)))
        headers = _key(world)
        await world.done("POST", "/runs", ALL, headers=headers)
        return await world.ask("POST", "/runs", other, headers=headers)

    answer = run_world(work)
    assert answer.status_code == 409, answer.text
    details = answer.json()["details"]
    assert len({details["stored"], details["given"]}) == 2


# Facts from outside


@pytest.mark.parametrize("log", ["catalog", "activity"])
def test_nobody_can_tell_of_runs_and_deployments_as_facts_from_outside(log: str) -> None:
    """Only a decider writes them: a completion that nobody claimed would else be as good as any other."""

    async def work(world: World) -> tuple[dict[str, int], bool]:
        await deploy(world, project(chain(1)))
        run_id = await trigger(world)
        before = await _positions(world)
        statuses = {}
        for kind in world.workspace().logs[log].definition.registry:
            body = {"events": [{"type": kind.name, "data": {"run_id": run_id}}]}
            statuses[kind.name] = (await world.ask("POST", "/events", body)).status_code
        return statuses, await _positions(world) == before

    statuses, untouched = run_world(work)
    facts = {"MaterializationCompleted", "MaterializationFailed", "AssetObserved", "CheckExecuted", "LineageRecorded"}
    assert {name for name, status in statuses.items() if status != 400} <= facts
    assert {"RunTriggered", "TaskFinished"} <= statuses.keys() or {"CodeDeployed"} <= statuses.keys()
    assert untouched


# Cancelling


def test_a_cancelled_run_begins_nothing_and_can_be_cancelled_again() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project(chain(2)))
        run_id = await trigger(world)
        worker = Worker(world)
        (claimed,) = await worker.claim()
        first = await world.done("POST", f"/runs/{run_id}/cancel", {"reason": "wrong day"})
        between = await world.done("GET", f"/runs/{run_id}")
        before = await _positions(world)
        again = await world.done("POST", f"/runs/{run_id}/cancel", {"reason": "another reason"})
        untouched = await _positions(world) == before
        nothing = await worker.claim()
        await worker.finish(claimed, Outcome.CANCELLED)
        return (
            first,
            between,
            again,
            untouched,
            nothing,
            await world.done("GET", f"/runs/{run_id}"),
            await task_states(world, run_id),
        )

    first, between, again, untouched, nothing, after, states = run_world(work)
    assert (between["state"], between["cancel_reason"]) == ("CANCELLING", "wrong day")
    assert nothing == []
    assert untouched
    assert int(again["position"]) >= int(first["position"])
    assert (after["state"], after["cancel_reason"]) == ("CANCELLED", "wrong day")
    assert states == {"n.a0000": "CANCELLED", "n.a0001": "CANCELLED"}


def test_a_run_that_is_over_cannot_be_cancelled() -> None:
    async def work(world: World) -> tuple[Any, httpx.Response, Any, bool, int]:
        await deploy(world, project(chain(1)))
        run_id = await trigger(world)
        await Worker(world).work_off()
        before = await world.done("GET", f"/runs/{run_id}")
        positions = await _positions(world)
        refused = await world.ask("POST", f"/runs/{run_id}/cancel", {})
        unknown = await world.ask("POST", "/runs/nothing/cancel", {})
        after = await world.done("GET", f"/runs/{run_id}")
        return before, refused, after, await _positions(world) == positions, unknown.status_code

    before, refused, after, untouched, unknown = run_world(work)
    assert before == after
    assert refused.status_code == 409
    assert "SUCCEEDED" in refused.json()["detail"]
    assert untouched
    assert unknown == 404


def test_a_cancel_under_its_request_key_is_carried_out_once() -> None:
    async def work(world: World) -> tuple[Any, Any, httpx.Response]:
        await deploy(world, project(chain(1)))
        path, headers = f"/runs/{await trigger(world)}/cancel", _key(world)
        first = await world.done("POST", path, {"reason": "a"}, headers=headers)
        again = await world.done("POST", path, {"reason": "a"}, headers=headers)
        return first, again, await world.ask("POST", path, {"reason": "b"}, headers=headers)

    first, again, other = run_world(work)
    assert again == first | {"replayed": True}
    assert other.status_code == 409


# Running again


def test_a_rerun_from_failure_runs_only_what_did_not_succeed() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project({**chain(3), "n.z": []}))
        run_id = await trigger(world)
        await Worker(world).work_off("n.a0001")
        again = await world.done("POST", f"/runs/{run_id}/rerun", {})
        shown = await world.done("GET", f"/runs/{again['run_id']}")
        done = await Worker(world).work_off()
        over = await world.done("GET", f"/runs/{again['run_id']}")
        return run_id, again, shown, done, over

    run_id, again, shown, done, over = run_world(work)
    assert again["task_count"] == 2
    assert (shown["rerun_of"], shown["trigger"], shown["mode"]) == (run_id, "rerun", "force")
    assert done == ["n.a0001", "n.a0002"]
    assert over["state"] == "SUCCEEDED"


def test_a_rerun_of_everything_runs_what_that_run_planned_and_no_more() -> None:
    async def work(world: World) -> tuple[list[str], list[str]]:
        await deploy(world, project(chain(3)))
        first = await trigger(world)
        await Worker(world).work_off("n.a0001")
        again = await world.done("POST", f"/runs/{first}/rerun", {"from_failure": False})
        whole = await Worker(world).work_off("n.a0001")
        part = await world.done("POST", f"/runs/{again['run_id']}/rerun", {"from_failure": True})
        await Worker(world).work_off()
        await deploy(world, project(chain(4)))
        await world.done("POST", f"/runs/{part['run_id']}/rerun", {"from_failure": False})
        return whole, await Worker(world).work_off()

    whole, part = run_world(work)
    assert whole == ["n.a0000", "n.a0001"]
    assert part == ["n.a0001", "n.a0002"]


def test_a_rerun_is_refused_while_the_run_goes_on_and_if_there_is_nothing_to_repeat() -> None:
    async def work(world: World) -> list[httpx.Response]:
        await deploy(world, project(chain(2)))
        run_id = await trigger(world)
        path = f"/runs/{run_id}/rerun"
        running = await world.ask("POST", path, {})
        await Worker(world).work_off()
        over = await world.ask("POST", path, {})
        empty = await trigger(world, "n.a0001")
        nothing = [await world.ask("POST", f"/runs/{empty}/rerun", {"from_failure": only}) for only in (True, False)]
        failed = await trigger(world, mode="force")
        await Worker(world).work_off("n.a0001")
        await deploy(world, project({"n.other": []}))
        gone = await world.ask("POST", f"/runs/{failed}/rerun", {})
        unknown = await world.ask("POST", "/runs/nothing/rerun", {})
        return [running, over, *nothing, gone, unknown]

    answers = run_world(work)
    assert [answer.status_code for answer in answers] == [409, 409, 409, 409, 400, 404]
    assert "wait until it ends" in answers[0].json()["detail"]
    assert "all tasks" in answers[1].json()["detail"]


def test_a_rerun_under_its_request_key_is_one_run() -> None:
    async def work(world: World) -> tuple[Any, Any]:
        await deploy(world, project(chain(1)))
        run_id = await trigger(world)
        await Worker(world).work_off("n.a0000")
        headers = _key(world)
        first = await world.done("POST", f"/runs/{run_id}/rerun", {}, headers=headers)
        await deploy(world, project({"n.other": []}))
        return first, await world.done("POST", f"/runs/{run_id}/rerun", {}, headers=headers)

    first, again = run_world(work)
    assert again == first | {"replayed": True}

"""Runs over HTTP, from the plan to what people read afterwards. What workers call is in test_work.py."""

from typing import Any

import httpx
import pytest

from arco.assets import Dimension, Project, Retries, StaticPartitions, TimePartitions
from arco.core import new_ulid
from arco.domains.orchestration import Outcome
from tests.api.workers import Worker, deploy
from tests.api.world import World, run_world
from tests.servo.world import chain, fan, project

ALL = {"selection": "*"}
REGIONS = (Dimension("region", StaticPartitions(("eu", "us"))),)
DAYS = (Dimension("date", TimePartitions("0 0 * * *", "2026-01-01")),)


def _key(world: World) -> dict[str, str]:
    return {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}


async def _positions(world: World) -> list[int]:
    return [await opened.current() for opened in world.workspace().logs.values()]


async def _trigger(world: World, selection: str = "*", **fields: Any) -> str:
    return str((await world.done("POST", "/runs", {"selection": selection, **fields}))["run_id"])


async def _states(world: World, run_id: str) -> dict[str, str]:
    page = await world.done("GET", f"/runs/{run_id}/tasks")
    return {task["task_key"]: task["state"] for task in page["items"]}


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
        await _trigger(world)
        await Worker(world).work_off()
        return await world.done("POST", "/plans", {"selection": "n.a0001 or n.a0002"})

    plan = run_world(work)
    assert plan["task_count"] == 0
    assert [skip["asset_key"] for skip in plan["skips"]] == ["n.a0001", "n.a0002"]
    assert all(skip["reason"].startswith("up to date:") for skip in plan["skips"])


def test_a_run_with_nothing_to_do_is_done_at_once() -> None:
    async def work(world: World) -> tuple[Any, Any]:
        await deploy(world, project(chain(2)))
        await _trigger(world)
        await Worker(world).work_off()
        run = await world.done("POST", "/runs", {"selection": "n.a0001"})
        return run, await world.done("GET", f"/runs/{run['run_id']}")

    run, shown = run_world(work)
    assert (run["task_count"], run["state"]) == (0, "SUCCEEDED")
    assert shown["ended_at"] is not None


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
        await _trigger(world, partitions={"region": "eu,us"})
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


# Reading


def test_a_run_its_tasks_and_its_attempts_are_shown_as_they_went() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project(chain(3), retries=Retries(count=1, delay_seconds=0.001, jitter=0.0)))
        run_id = await _trigger(world, tags={"why": "test"}, priority=3, timeout_seconds=60.0)
        worker = Worker(world)
        (claimed,) = await worker.claim()
        between = await world.done("GET", f"/runs/{run_id}")
        await worker.finish(claimed, Outcome.FAILED, retryable=True)
        waiting = await world.done("GET", f"/runs/{run_id}/task", task="n.a0000")
        (again,) = await worker.claim(wait=10)
        await worker.finish(again)
        await worker.work_off("n.a0001")
        return (
            between,
            waiting,
            await world.done("GET", f"/runs/{run_id}"),
            await world.done("GET", f"/runs/{run_id}/task", task="n.a0000"),
            await _states(world, run_id),
        )

    between, waiting, run, task, states = run_world(work)
    assert (between["state"], between["running_count"]) == ("RUNNING", 1)
    assert (waiting["state"], waiting["error"]) == ("RETRY_WAIT", "boom")
    assert waiting["retry_at"] is not None
    assert states == {"n.a0000": "SUCCEEDED", "n.a0001": "FAILED", "n.a0002": "SKIPPED"}
    assert (run["tags"], run["priority"], run["timeout_seconds"]) == ({"why": "test"}, 3, 60.0)
    assert [(one["attempt"], one["state"], one["error"]) for one in task["attempts"]] == [
        (1, "FAILED", "boom"),
        (2, "SUCCEEDED", None),
    ]
    assert len(task["attempts"][1]["materialization_ids"]) == 1
    assert (task["upstream"], task["downstream"], task["outputs"]) == ([], ["n.a0001"], ["n.a0000"])


@pytest.mark.parametrize("rest", ["", "/tasks", "/task?task=n.a0000", "/logs?task=n.a0000", "/explain"])
def test_a_run_that_does_not_exist_is_not_found(rest: str) -> None:
    async def work(world: World) -> list[int]:
        return [(await world.ask("GET", f"/runs/{id}{rest}")).status_code for id in ("nothing", "01" + "Z" * 24)]

    assert run_world(work) == [404, 404]


def test_a_task_that_does_not_exist_is_not_found() -> None:
    async def work(world: World) -> list[int]:
        await deploy(world, project(chain(1)))
        run_id = await _trigger(world)
        return [
            (await world.ask("GET", f"/runs/{run_id}/{what}", task="n.a0001")).status_code for what in ("task", "logs")
        ]

    assert run_world(work) == [404, 404]


async def _pages(world: World, path: str, name: str, **query: Any) -> list[str]:
    """One field of every item of a list, by pages."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await world.done("GET", path, **query, **cursor)
        assert len(page["items"]) <= query["limit"]
        found += [item[name] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_runs_are_listed_newest_first_by_the_page_and_by_state() -> None:
    async def work(world: World) -> tuple[list[str], list[str], dict[str, list[str]], httpx.Response]:
        await deploy(world, project(chain(1)))
        made = []
        for number in range(5):
            made.append(await _trigger(world))
            await Worker(world).work_off(*(["n.a0000"] if number % 2 else []))
        made.append(await _trigger(world))
        states = {
            state: await _pages(world, "/runs", "run_id", limit=1, state=state)
            for state in ("SUCCEEDED", "FAILED", "RUNNING", "CANCELLED")
        }
        first = await world.done("GET", "/runs", limit=1)
        wrong = await world.ask("GET", "/runs", cursor=first["next_cursor"], state="FAILED")
        return made, await _pages(world, "/runs", "run_id", limit=2), states, wrong

    made, pages, states, wrong = run_world(work)
    assert pages == made[::-1]
    assert states == {
        "SUCCEEDED": [made[4], made[2], made[0]],
        "FAILED": [made[3], made[1]],
        "RUNNING": [made[5]],
        "CANCELLED": [],
    }
    assert wrong.status_code == 400, "a cursor of another list"


def test_tasks_are_listed_in_the_order_of_their_keys_by_the_page_and_by_state() -> None:
    async def work(world: World) -> tuple[list[str], list[str], httpx.Response]:
        await deploy(world, project(fan(5)))
        path = f"/runs/{await _trigger(world)}/tasks"
        await Worker(world).work_off("n.m0001", "n.m0003")
        page = await world.done("GET", path, limit=1)
        other = f"/runs/{await _trigger(world)}/tasks"
        return (
            await _pages(world, path, "task_key", limit=2),
            await _pages(world, path, "task_key", limit=1, state="FAILED"),
            await world.ask("GET", other, cursor=page["next_cursor"]),
        )

    everything, failed, wrong = run_world(work)
    assert everything == ["n.first", "n.last", *(f"n.m{number:04d}" for number in range(5))]
    assert failed == ["n.m0001", "n.m0003"]
    assert wrong.status_code == 400


def test_a_cursor_that_nobody_made_is_refused() -> None:
    async def work(world: World) -> dict[tuple[str, str], int]:
        await deploy(world, project(chain(1)))
        run_id = await _trigger(world)
        lists = ["/runs", f"/runs/{run_id}/tasks", "/deployments", "/assets", "/assets/n.a0000/partitions"]
        return {
            (path, cursor): (await world.ask("GET", path, cursor=cursor)).status_code
            for path in (*lists, "/partitions/customers")
            for cursor in ("", "x", "%00", "a" * 4096, "a" * 4097, "eyJhIjoxfQ", "null", "é")
        }

    found = run_world(work)
    assert {asked for asked, status in found.items() if status != 400} == set()


# The past, and what was written elsewhere


def test_runs_can_be_read_as_they_were() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project(chain(1)))
        made = await world.done("POST", "/runs", ALL)
        run_id = made["run_id"]
        await Worker(world).work_off()
        before = {"as_of": f"activity:{made['position']}"}
        return (
            await world.done("GET", f"/runs/{run_id}", **before),
            await world.done("GET", "/runs", **before),
            await world.done("GET", f"/runs/{run_id}/tasks", **before),
            await world.done("GET", f"/runs/{run_id}/explain", **before),
            await world.ask("GET", f"/runs/{run_id}", as_of="activity:0"),
            await world.done("GET", f"/runs/{run_id}", as_of=f"run:{run_id}"),
            await world.done("GET", f"/runs/{run_id}"),
        )

    run, listed, tasks, explained, unborn, then, now = run_world(work)
    assert run["state"] == listed["items"][0]["state"] == explained["state"] == "RUNNING"
    assert tasks["items"][0]["state"] == "READY"
    assert unborn.status_code == 404
    assert then == now
    assert now["state"] == "SUCCEEDED"


def test_a_read_waits_for_the_position_of_either_log_and_says_how_far_it_went() -> None:
    async def work(world: World) -> tuple[Any, list[httpx.Response]]:
        await deploy(world, project(chain(1)))
        made = await world.done("POST", "/runs", ALL, wait="durable")
        path, activity = f"/runs/{made['run_id']}", int(made["position"])
        catalog = await world.workspace().logs["catalog"].current()
        far = 1 << 50
        return made, [
            await world.ask("GET", path, min_position=wanted, consistency="bounded")
            for wanted in (
                f"activity:{activity}",
                f"catalog:{catalog}",
                f"catalog:{catalog},activity:{activity}",
                str(catalog),
                f"activity:{far}",
                f"catalog:{catalog},activity:{far}",
                str(far),
                f"catalog:{far}",
                "run:x",
                "activity:",
                "activity:1,activity:2",
                "2026-01-01T00:00:00Z",
            )
        ]

    made, answers = run_world(work)
    assert [answer.status_code for answer in answers] == [200] * 4 + [503] * 4 + [400] * 4
    for answer in answers[:4]:
        assert int(answer.headers["Arco-Activity-Position"]) >= int(made["position"])
        assert "Arco-Position" not in answer.headers, "clients take it for a position of the catalog"


# Logs


def test_a_log_is_read_by_the_page_of_any_attempt() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project(chain(1), retries=Retries(count=1, delay_seconds=0.001, jitter=0.0)))
        run_id = await _trigger(world)
        path, worker = f"/runs/{run_id}/logs", Worker(world)
        nothing = await world.ask("GET", path, task="n.a0000")
        (first,) = await worker.claim()
        early = await world.done("GET", path, task="n.a0000")
        await worker.print(first, "one ")
        more = await world.done("GET", path, task="n.a0000", chunk=early["next_chunk"])
        await worker.finish(first, Outcome.FAILED, retryable=True, printed=())
        (second,) = await worker.claim(wait=10)
        await worker.finish(second, printed=tuple(f"{number} é\n" for number in range(20)))
        page = await world.done("GET", path, task="n.a0000")
        rest = await world.done("GET", path, task="n.a0000", chunk=page["next_chunk"])
        old = await world.done("GET", path, task="n.a0000", attempt=1)
        missing = await world.ask("GET", path, task="n.a0000", attempt=3)
        beyond = await world.done("GET", path, task="n.a0000", chunk=1000)
        return nothing, early, more, page, rest, old, missing, beyond

    nothing, early, more, page, rest, old, missing, beyond = run_world(work)
    assert nothing.status_code == 404
    assert (early["text"], early["next_chunk"], early["complete"]) == ("", 0, False)
    assert (more["text"], more["next_chunk"], more["complete"]) == ("one ", 1, False)
    assert (page["attempt"], page["complete"], rest["complete"]) == (2, False, True)
    assert page["text"] + rest["text"] == "".join(f"{number} é\n" for number in range(20))
    assert (old["attempt"], old["text"], old["complete"]) == (1, "one ", True)
    assert missing.status_code == 404
    assert (beyond["text"], beyond["complete"]) == ("", True)


def test_the_log_of_an_attempt_that_was_given_up_is_read_to_its_end() -> None:
    async def work(world: World) -> list[tuple[str, bool]]:
        await deploy(world, project(chain(1)))
        run_id = await _trigger(world)
        worker = Worker(world)
        (claimed,) = await worker.claim()
        await worker.print(claimed, *(f"{number}," for number in range(20)))
        await Worker(world, session="s2").begin()
        pages, chunk = [], 0
        while not pages or not pages[-1][1]:
            page = await world.done("GET", f"/runs/{run_id}/logs", task="n.a0000", attempt=1, chunk=chunk)
            chunk = page["next_chunk"]
            pages.append((page["text"], page["complete"]))
        return pages

    pages = run_world(work)
    assert "".join(text for text, _ in pages) == "".join(f"{number}," for number in range(20))
    assert len(pages) == 2


# Explanations


def test_why_a_run_is_where_it_is_is_said_in_sentences() -> None:
    async def work(world: World) -> tuple[Any, Any, Any]:
        await deploy(world, project({**chain(3), "n.z": []}))
        run_id = await _trigger(world)
        path, worker = f"/runs/{run_id}/explain", Worker(world)
        ready = await world.done("GET", path)
        (first,) = await worker.claim()
        running = await world.done("GET", path)
        await worker.finish(first, Outcome.FAILED)
        await worker.work_off()
        return ready, running, await world.done("GET", path)

    ready, running, over = run_world(work)
    assert ready["summary"] == "RUNNING: 0 of 4 tasks succeeded"
    assert [text.partition(" since ")[0] for text in ready["waiting"]] == [
        "n.a0000 is ready and waits for a worker",
        "n.z is ready and waits for a worker",
    ]
    assert running["waiting"][0].startswith("n.a0000 runs on w1 since ")
    assert over["summary"] == "FAILED: 1 of 4 tasks succeeded, 1 failed, 2 skipped"
    assert over["causes"] == [
        "n.a0000 failed in attempt 1 (transform_error): boom",
        "n.a0001 was skipped: n.a0000 failed",
        "n.a0002 was skipped: n.a0001 was skipped",
    ]
    assert over["waiting"] == []


# Cancelling


def test_a_cancelled_run_begins_nothing_and_can_be_cancelled_again() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project(chain(2)))
        run_id = await _trigger(world)
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
            await _states(world, run_id),
        )

    first, between, again, untouched, nothing, after, states = run_world(work)
    assert (between["state"], between["cancel_reason"]) == ("CANCELLING", "wrong day")
    assert nothing == []
    assert untouched
    assert int(again["position"]) >= int(first["position"])
    assert (after["state"], after["cancel_reason"]) == ("CANCELLED", "wrong day")
    assert states == {"n.a0000": "CANCELLED", "n.a0001": "CANCELLED"}


def test_a_run_that_is_over_cannot_be_cancelled_into_something_else() -> None:
    async def work(world: World) -> tuple[Any, Any, bool]:
        await deploy(world, project(chain(1)))
        run_id = await _trigger(world)
        await Worker(world).work_off()
        before = await world.done("GET", f"/runs/{run_id}")
        positions = await _positions(world)
        await world.done("POST", f"/runs/{run_id}/cancel", {})
        return before, await world.done("GET", f"/runs/{run_id}"), await _positions(world) == positions

    before, after, untouched = run_world(work)
    assert before == after
    assert before["state"] == "SUCCEEDED"
    assert untouched


def test_a_cancel_under_its_request_key_is_carried_out_once() -> None:
    async def work(world: World) -> tuple[Any, Any, httpx.Response]:
        await deploy(world, project(chain(1)))
        path, headers = f"/runs/{await _trigger(world)}/cancel", _key(world)
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
        run_id = await _trigger(world)
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
        first = await _trigger(world)
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
        run_id = await _trigger(world)
        path = f"/runs/{run_id}/rerun"
        running = await world.ask("POST", path, {})
        await Worker(world).work_off()
        over = await world.ask("POST", path, {})
        empty = await _trigger(world, "n.a0001")
        nothing = [await world.ask("POST", f"/runs/{empty}/rerun", {"from_failure": only}) for only in (True, False)]
        failed = await _trigger(world, mode="force")
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
        run_id = await _trigger(world)
        await Worker(world).work_off("n.a0000")
        headers = _key(world)
        first = await world.done("POST", f"/runs/{run_id}/rerun", {}, headers=headers)
        await deploy(world, project({"n.other": []}))
        return first, await world.done("POST", f"/runs/{run_id}/rerun", {}, headers=headers)

    first, again = run_world(work)
    assert again == first | {"replayed": True}

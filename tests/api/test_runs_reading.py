"""Runs over HTTP as people read them: lists, tasks, the past, logs, explanations."""

from typing import Any

import httpx
import pytest

from arco.assets import Retries
from arco.domains.orchestration import Outcome
from tests.api.workers import Worker, deploy, task_states, trigger
from tests.api.world import World, run_world
from tests.servo.world import chain, fan, project

ALL = {"selection": "*"}


def test_a_run_its_tasks_and_its_attempts_are_shown_as_they_went() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        await deploy(world, project(chain(3), retries=Retries(count=1, delay_seconds=0.001, jitter=0.0)))
        run_id = await trigger(world, tags={"why": "test"}, priority=3, timeout_seconds=60.0)
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
            await task_states(world, run_id),
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


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"task": "n.a0001"}, 404),
        ({"task": "x" * 5000}, 404),
        ({"task": "x" * 5001}, 400),
        ({"task": ""}, 400),
        ({}, 400),
    ],
)
def test_a_task_that_does_not_exist_is_not_found(query: dict[str, Any], status: int) -> None:
    async def work(world: World) -> set[int]:
        await deploy(world, project(chain(1)))
        run_id = await trigger(world)
        return {(await world.ask("GET", f"/runs/{run_id}/{what}", **query)).status_code for what in ("task", "logs")}

    assert run_world(work) == {status}


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
            made.append(await trigger(world))
            await Worker(world).work_off(*(["n.a0000"] if number % 2 else []))
        made.append(await trigger(world))
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
        path = f"/runs/{await trigger(world)}/tasks"
        await Worker(world).work_off("n.m0001", "n.m0003")
        page = await world.done("GET", path, limit=1)
        other = f"/runs/{await trigger(world)}/tasks"
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
        run_id = await trigger(world)
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
        run_id = await trigger(world)
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
        run_id = await trigger(world)
        worker = Worker(world)
        (claimed,) = await worker.claim()
        await worker.print(claimed, *(f"{number}," for number in range(20)))
        await Worker(world, session="s2").begin()
        pages: list[tuple[str, bool]] = []
        chunk = 0
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
        run_id = await trigger(world)
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

"""Whole workers with real driver processes: claiming, running, telling."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from arco.assets import AssetKind, GatingAction, GatingPolicy, Severity
from arco.core import Invalid, Unavailable
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.domains.quality import check_id
from arco.servo._envelope import Envelope, inputs_fingerprint
from tests.worker.plane import World, check_of, definition, input_of, reads


def test_a_task_that_returns_nothing_succeeds_without_files(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        """
        @asset(namespace="n")
        def a(context):
            print("hello")
            context.log.info("from %s, attempt %d", context.task_key, context.attempt)
        """,
    )
    envelope = world.envelope("a")
    result = world.run_one(envelope)
    assert (result.outcome, result.failure, result.lineage) == (Outcome.SUCCEEDED, None, None)
    assert result.outputs[0].files == ()
    assert result.outputs[0].inputs_fingerprint == inputs_fingerprint([])
    assert result.started_at <= result.finished_at
    log = world.log_of(envelope)
    assert log.startswith("hello\n")
    assert "from n.a, attempt 1" in log
    assert result.log is not None
    assert (result.log.byte_size, result.log.truncated) == (len(log), False)


def test_a_task_that_prints_nothing_writes_no_log(tmp_path: Path) -> None:
    world = World(tmp_path, "@asset(namespace='n')\ndef a(): pass")
    result = world.run_one(world.envelope("a"))
    assert result.log is None
    assert not list((tmp_path / "store").rglob("logs/*"))


CHAIN = """
    import pyarrow as pa

    @asset(namespace="n")
    def rows():
        return [{"id": 1, "name": "a"}, {"id": 2, "name": None}]

    @asset(namespace="n")
    def total(rows):
        assert rows == [{"id": 1, "name": "a"}, {"id": 2, "name": None}], rows
        return {"sum": sum(row["id"] for row in rows)}

    @asset(namespace="n")
    def table(total):
        return pa.table({"x": [total["sum"]]})

    @asset(namespace="n")
    def by_day(parts):
        return parts
"""


def test_what_a_task_returns_reaches_the_next_one(tmp_path: Path) -> None:
    world = World(tmp_path, CHAIN)

    def run(name: str, parameter: str = "", before: FinishTask | None = None) -> FinishTask:
        inputs = (input_of(world, parameter, before),) if before is not None else ()
        made = definition(name, dependencies=(reads(parameter, f"n.{parameter}"),) if parameter else ())
        result = world.run_one(world.envelope(definitions=(made,), inputs=inputs))
        assert result.outcome is Outcome.SUCCEEDED, result.failure
        return result

    rows = run("rows")
    (file,) = rows.outputs[0].files
    assert (rows.outputs[0].row_count, file.row_count, file.size_bytes) == (2, 2, rows.outputs[0].byte_size)
    assert [(s.column, s.null_count, s.min, s.max) for s in file.stats] == [("id", 0, "1", "2"), ("name", 1, "a", "a")]
    total = run("total", "rows", rows)
    source = rows.outputs[0]
    assert total.outputs[0].inputs_fingerprint == inputs_fingerprint(
        [(source.asset_id, source.partition_id, source.materialization_id)]
    )
    assert total.lineage is not None
    (edge,) = total.lineage.edges
    assert (edge.source_id, edge.target_id, edge.parameter) == (source.asset_id, total.outputs[0].asset_id, "rows")
    assert (edge.source_materializations, edge.rows_read) == ((source.materialization_id,), 2)
    table = run("table", "total", total)
    assert table.outputs[0].files[0].stats[0].max == "3"


def test_partitions_arrive_by_key_where_the_mapping_may_select_several(tmp_path: Path) -> None:
    world = World(tmp_path, CHAIN)
    made = definition("by_day", dependencies=(reads("parts", "n.total"),))
    first = world.run_one(world.envelope("rows"))
    one = input_of(world, "parts", first)
    (pin,) = one.pins
    days = [msgspec.structs.replace(pin, partition_key=f"date=d:2025-01-0{day}") for day in (1, 2)]
    for count in (1, 2):
        given = msgspec.structs.replace(one, asset_key="n.total", is_partitioned=True, pins=tuple(days[:count]))
        result = world.run_one(world.envelope(definitions=(made,), inputs=(given,)))
        assert result.outcome is Outcome.SUCCEEDED, result.failure
        stored = next((tmp_path / "store").rglob(result.outputs[0].files[0].path))
        found = msgspec.json.decode(stored.read_bytes())
        assert list(found) == ["date=2025-01-01", "date=2025-01-02"][:count]


def test_functions_of_several_assets_and_observations(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        """
        @multi_asset(namespace="n", outputs=[output("z"), output("b")])
        def both():
            return 1, [{"x": 2}]

        @observable(namespace="n")
        def seen():
            return "v7"
        """,
    )
    both = (definition("b", function="pipes:both", unit="u"), definition("z", function="pipes:both", unit="u"))
    seen = definition("seen", kind=AssetKind.OBSERVABLE)
    first, second = asyncio.run(world.run(world.envelope(definitions=both), world.envelope(definitions=(seen,))))
    assert [(o.asset_key, o.files[0].path.rpartition("/")[2]) for o in first.outputs] == [
        ("n.b", "part-00000.parquet"),
        ("n.z", "value.json"),
    ]
    assert [(o.asset_key, o.data_version) for o in second.observations] == [("n.seen", "v7")]
    assert second.outputs == ()


# Checks

CHECKED = """
    @check
    def good(data): return True
    @check
    def bad(data): return CheckResult(False, "too few", expected="2", actual=str(len(data)))
    @check
    def silent(data): return None
    @check
    def broken(data): raise ValueError("no")
    @check
    def leaving(data): raise SystemExit
    @asset(namespace="n", checks=[good, bad, silent, broken, leaving])
    def a(): return [{"x": 1}]
"""


def checked(world: World, *names: str, action: GatingAction | None = None, **fields: Severity) -> Envelope:
    gating = None if action is None else GatingPolicy("mine", {}, action)
    made = definition("a", checks=tuple(check_of(name, **fields) for name in names), gating=gating)
    return world.envelope(definitions=(made,))


def test_checks_run_and_what_they_say_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, CHECKED)
    result = world.run_one(checked(world, "good", "bad", action=GatingAction.WARN))
    good, bad = result.checks
    output = result.outputs[0]
    assert (good.passed, good.gating, good.check_id) == (True, None, check_id(output.asset_id, "good"))
    assert (bad.passed, bad.message, bad.expected_value, bad.actual_value) == (False, "too few", "2", "1")
    assert bad.gating is not None
    assert (bad.gating.action, bad.gating.policy) == (GatingAction.WARN, "mine")
    assert (result.outcome, result.gate, output.status) == (Outcome.SUCCEEDED, GatingAction.WARN, "published")


def test_a_check_without_a_result_blocks_whatever_its_policy_says(tmp_path: Path) -> None:
    world = World(tmp_path, CHECKED)
    asked = [checked(world, "good", name, action=GatingAction.CONTINUE) for name in ("silent", "broken", "leaving")]
    for result in asyncio.run(world.run(*asked)):
        assert (result.outcome, result.gate) == (Outcome.SUCCEEDED, GatingAction.BLOCK_DOWNSTREAM)
        assert [check.passed for check in result.checks] == [True, False]


def test_gating_quarantines_or_fails(tmp_path: Path) -> None:
    world = World(tmp_path, CHECKED)
    actions = (GatingAction.QUARANTINE, GatingAction.FAIL_TASK, GatingAction.FAIL_RUN)
    asked = [checked(world, "bad", action=action) for action in actions]
    kept, *failed, strict = asyncio.run(world.run(*asked, checked(world, "bad", severity=Severity.CRITICAL)))
    assert (kept.outcome, kept.outputs[0].status) == (Outcome.SUCCEEDED, "quarantined")
    for action, ended in zip(actions[1:], failed, strict=True):
        assert (ended.outcome, ended.outputs, ended.gate) == (Outcome.FAILED, (), action)
        assert ended.failure is not None
        assert (ended.failure.category, ended.failure.retryable) == (FailureCategory.DATA_QUALITY_FAILURE, False)
        assert [check.passed for check in ended.checks] == [False]
    assert (strict.outcome, strict.gate) == (Outcome.FAILED, GatingAction.FAIL_RUN)


# Slots and drivers


def test_drivers_are_kept_and_the_next_task_is_claimed_with_the_result(tmp_path: Path) -> None:
    world = World(tmp_path, "import os\n@asset(namespace='n')\ndef a(): return os.getpid()")
    envelopes = [world.envelope("a") for _ in range(20)]
    results = asyncio.run(world.run(*envelopes, slots=2))
    files = [next((tmp_path / "store").rglob(result.outputs[0].files[0].path)) for result in results]
    assert len({path.read_bytes() for path in files}) <= 2
    assert world.plane.fetched == [world.sha256]
    # Two were asked for first; every other one came with the result of an earlier one.
    assert world.plane.claims[0] == 2
    assert len(world.plane.claims) <= 4


def test_logs_of_tasks_that_run_at_once_are_not_mixed(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        """
        import sys, time
        def say(word):
            for n in range(200):
                print(word, n, flush=True)
                print(word, n, file=sys.stderr)
                time.sleep(0.001)
        @asset(namespace="n")
        def a(): say("alpha")
        @asset(namespace="n")
        def b(): say("beta")
        """,
    )
    one, two = world.envelope("a"), world.envelope("b")
    asyncio.run(world.run(one, two))
    for envelope, word in ((one, "alpha"), (two, "beta")):
        lines = world.log_of(envelope).splitlines()
        assert len(lines) == 400
        assert {line.split()[0] for line in lines} == {word}


def test_a_driver_that_is_killed_fails_its_task_as_lost_and_the_next_runs(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        """
        import os, signal
        @asset(namespace="n")
        def a():
            print("before", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        @asset(namespace="n")
        def b(): pass
        """,
    )
    one, two = world.envelope("a"), world.envelope("b")
    first, second = asyncio.run(world.run(one, two, slots=1))
    assert first.failure is not None
    assert (first.failure.category, first.failure.is_transient) == (FailureCategory.WORKER_LOST, True)
    assert first.failure.retryable
    assert "signal 9" in first.failure.message
    assert world.log_of(one) == "before\n"
    assert second.outcome is Outcome.SUCCEEDED


def test_a_worker_that_stops_lets_tasks_end_and_claims_no_more(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    world = World(
        tmp_path,
        f"""
        import pathlib, time
        @asset(namespace="n")
        def a():
            pathlib.Path({str(begun)!r}).touch()
            while not pathlib.Path({str(go)!r}).exists():
                time.sleep(0.01)
        """,
    )

    async def scenario() -> None:
        one, two = world.envelope("a"), world.envelope("a")
        world.plane.add(one)
        worker = world.worker(slots=1, stop_grace_seconds=600)
        running = asyncio.create_task(worker.run())
        await world.until(begun.exists)
        world.plane.add(two)
        worker.stop()
        go.touch()
        await running
        assert [result.attempt_id for result in world.plane.results] == [one.attempt_id]
        assert len(world.plane.ready) == 1

    asyncio.run(scenario())


def test_tasks_that_outlive_a_stop_are_told_to_nobody(tmp_path: Path) -> None:
    world = World(
        tmp_path, "import time\n@asset(namespace='n')\ndef a():\n    print('begun', flush=True); time.sleep(60)"
    )

    async def scenario() -> None:
        world.plane.add(world.envelope("a"))
        worker = world.worker(slots=1, stop_grace_seconds=0.2)
        running = asyncio.create_task(worker.run())
        await world.until(lambda: bool(list((tmp_path / "store").rglob("logs/*/*/*"))))
        worker.stop()
        await running
        assert world.plane.results == []

    asyncio.run(scenario())
    assert not list((tmp_path / "work").glob("drivers/*"))


def test_a_worker_that_begins_again_has_another_session_and_takes_tasks(tmp_path: Path) -> None:
    world = World(tmp_path, "@asset(namespace='n')\ndef a(): pass")
    left = tmp_path / "work" / "drivers" / "000000" / "pipes.py"  # as after a kill
    left.parent.mkdir(parents=True)
    left.touch()
    for _ in range(2):
        assert world.run_one(world.envelope("a")).outcome is Outcome.SUCCEEDED
    (one, two) = world.plane.sessions
    assert one[0] == two[0]
    assert one[1] != two[1]


def test_drivers_end_when_their_worker_is_gone(tmp_path: Path) -> None:
    world = World(tmp_path, "import time\n@asset(namespace='n')\ndef a(): time.sleep(60)")

    async def scenario() -> int:
        from arco.worker._messages import Setup
        from arco.worker._process import DriverProcess

        archive = tmp_path / "code.zip"
        archive.write_bytes(world.plane.archives[world.sha256])
        (tmp_path / "d").mkdir()
        setup = Setup(str(archive), str(tmp_path / "d"), str(tmp_path / "store"), {}, "acme", "prod")
        driver = await DriverProcess.start(setup, dict(os.environ))
        envelope = world.envelope("a")
        tasks = {envelope.attempt_id: msgspec.msgpack.encode(envelope)}
        running = asyncio.create_task(driver.run(tasks, 60, lambda data: None, lambda report: None))
        await asyncio.sleep(0.2)
        assert driver._writer is not None
        driver._writer.close()  # as the kernel does when a process dies
        code = await driver._process.wait()
        with pytest.raises(Exception, match="signal 9"):
            await running
        return code

    assert asyncio.run(scenario()) == -signal.SIGKILL


# The control plane


def test_a_result_is_told_until_it_is_heard(tmp_path: Path) -> None:
    world = World(tmp_path, "@asset(namespace='n')\ndef a(): pass")
    world.plane.refusals = [Unavailable("away"), Unavailable("away")]
    assert world.run_one(world.envelope("a")).outcome is Outcome.SUCCEEDED
    assert world.plane.refusals == []


def test_a_worker_that_stops_does_not_wait_for_ever_for_somebody_to_tell(tmp_path: Path) -> None:
    world = World(tmp_path, "@asset(namespace='n')\ndef a(): pass")
    world.plane.refusals = [Unavailable("away")] * 1_000

    async def scenario() -> None:
        world.plane.add(world.envelope("a"))
        worker = world.worker(stop_grace_seconds=0.2)
        running = asyncio.create_task(worker.run())
        await world.until(lambda: len(world.plane.refusals) < 1_000)
        worker.stop()
        await running
        assert world.plane.results == []

    asyncio.run(scenario())


def test_a_worker_that_is_told_twice_to_stop_ends_what_runs(tmp_path: Path) -> None:
    world = World(tmp_path, "import time\n@asset(namespace='n')\ndef a(): print('begun'); time.sleep(60)")

    async def scenario() -> None:
        world.plane.add(world.envelope("a"))
        worker = world.worker(stop_grace_seconds=600)
        running = asyncio.create_task(worker.run())
        await world.until(lambda: bool(list((tmp_path / "store").rglob("logs/*/*/*"))))
        worker.stop()
        worker.stop()
        await running
        assert world.plane.results == []

    asyncio.run(scenario())


def test_a_worker_that_is_cancelled_leaves_nothing_running(tmp_path: Path) -> None:
    world = World(tmp_path, "import time\n@asset(namespace='n')\ndef a(): print('begun'); time.sleep(60)")

    async def scenario() -> None:
        world.plane.add(world.envelope("a"))
        running = asyncio.create_task(world.worker().run())
        await world.until(lambda: bool(list((tmp_path / "store").rglob("logs/*/*/*"))))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
    assert not list((tmp_path / "work").glob("drivers/*"))


def test_a_result_that_is_refused_is_told_as_a_failure(tmp_path: Path) -> None:
    world = World(tmp_path, "@asset(namespace='n')\ndef a(): pass")
    world.plane.refusals = [Invalid("the event is too large")]
    result = world.run_one(world.envelope("a"))
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert "the event is too large" in result.failure.message


def test_a_stale_attempt_is_dropped_and_its_driver_ended(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        """
        import time
        @asset(namespace="n")
        def a(): time.sleep(60)
        @asset(namespace="n")
        def b(): pass
        """,
    )

    async def scenario() -> None:
        one, two = world.envelope("a", heartbeat_seconds=2.0), world.envelope("b")
        world.plane.stale.add(one.attempt_id)
        world.plane.add(one)
        await world.run(two, slots=1)
        assert [result.attempt_id for result in world.plane.results] == [two.attempt_id]

    asyncio.run(scenario())


def test_signs_of_life_are_sent_while_a_task_runs(tmp_path: Path) -> None:
    world = World(tmp_path, "import time\n@asset(namespace='n')\ndef a(): time.sleep(1.6)")
    envelope = world.envelope("a", heartbeat_seconds=2.0)
    assert world.run_one(envelope).outcome is Outcome.SUCCEEDED
    assert len(world.plane.beats) >= 2


def test_options_that_cannot_work_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path, "")
    with pytest.raises(Invalid, match="memory"):
        world.options(store="memory://x")
    with pytest.raises(Invalid, match="slot"):
        world.options(slots=0)
    assert repr(world.options()).find("secret") < 0

"""What users' code may do to a worker, and what becomes of it: never more than the end of its own task."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arco.assets import Retries, SchemaColumn, SecretRef
from arco.core import SECOND
from arco.domains.orchestration import FailureCategory, FinishTask, Outcome, TaskFailure
from arco.servo._envelope import Envelope, sign_envelope
from arco.worker import read_log
from arco.worker._logs import LIMIT, TAIL
from tests.worker.plane import SECRET, World, definition

SOURCE = """
    import ctypes, os, signal, subprocess, sys, threading, time
    from pathlib import Path

    @asset(namespace="n")
    def fine():
        import late
        print("fine", late.VALUE)
    @asset(namespace="n")
    def exits(): sys.exit(3)
    @asset(namespace="n")
    def exits_well(): sys.exit()
    @asset(namespace="n")
    def vanishes():
        print("here", flush=True)
        os._exit(7)
    @asset(namespace="n")
    def raises():
        def inner(): raise LookupError("no such thing")
        inner()
    class Awkward(Exception):
        def __str__(self): raise RuntimeError("never")
    @asset(namespace="n")
    def raises_awkwardly(): raise Awkward()
    @asset(namespace="n")
    def interrupts(): raise KeyboardInterrupt
    @asset(namespace="n")
    def cancels_itself(): raise arco.sdk.Cancelled("enough")
    @asset(namespace="n")
    def forks():
        if os.fork() == 0:
            print("child", flush=True)
            return "from the child"
        os.wait()
        return "from the parent"
    @asset(namespace="n")
    def leaves_a_child():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid)
    @asset(namespace="n")
    def leaves_a_thread(): threading.Thread(target=time.sleep, args=(600,)).start()
    @asset(namespace="n")
    def deletes_its_code():
        for path in Path(".").rglob("*.py"): path.unlink()
    @asset(namespace="n")
    def spoils():
        os.environ["PATH"] = "nowhere"
        os.environ["SPOILED"] = "1"
        os.chdir("/")
        sys.stdout = None
    @asset(namespace="n")
    def closes_output():
        os.close(1)
        os.close(2)
    @asset(namespace="n")
    def holds_the_interpreter(): ctypes.PyDLL(None).sleep(60)
    @asset(namespace="n")
    def stops(): os.kill(os.getpid(), signal.SIGSTOP)
    @asset(namespace="n")
    def sleeps():
        try:
            time.sleep(60)
        finally:
            print("cleaned up")
    @asset(namespace="n")
    def ignores_the_end():
        print("begun", flush=True)
        while True:
            try:
                time.sleep(60)
            except BaseException:
                print("ignored", flush=True)
    @asset(namespace="n")
    def checks_for_the_end(context):
        while True:
            context.check_cancelled()
    @asset(namespace="n")
    def prints_much():
        line = "x" * 999
        for n in range(40_000): print(line)
        print("the end")
    @asset(namespace="n")
    def prints_a_long_line(): sys.stdout.write("y" * 3_000_000); print(); print("after")
    @asset(namespace="n")
    def returns_an_object(): return object()
    @asset(namespace="n")
    def returns_numbers(): return [{"x": 1, "y": None}]
    @asset(namespace="n", secrets=[secret("pw", "MY_PW")])
    def tells(context):
        value = context.secrets["pw"]
        print("the password is", value)
        sys.stdout.write(value[:5]); sys.stdout.flush(); time.sleep(0.05); print(value[5:])
        raise ValueError(f"cannot log in with {value} at https://me:hunter22@example.com/")
    @asset(namespace="n")
    def looks(): print(sorted(name for name in os.environ if name.startswith("ARCO_")))
"""
LATE = {"late.py": "VALUE = 5\n"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, SOURCE, files=LATE)


def run_then_fine(world: World, envelope: Envelope, **fields: Any) -> FinishTask:
    """A bad task between two good ones in the same slot."""
    fine = world.envelope("fine")
    _, bad, good = asyncio.run(world.run(world.envelope("fine"), envelope, fine, slots=1, **fields))
    assert good.outcome is Outcome.SUCCEEDED, good.failure
    assert world.log_of(fine) == "fine 5\n"
    return bad


def failure_of(result: FinishTask) -> TaskFailure:
    assert result.outcome is Outcome.FAILED
    assert result.failure is not None
    assert result.outputs == ()
    assert [part.error for part in result.failed] == [result.failure.message[:1000]]
    return result.failure


@pytest.mark.parametrize(
    ("name", "category", "said"),
    [
        ("exits", FailureCategory.TRANSFORM_ERROR, "sys.exit(3)"),
        ("exits_well", FailureCategory.TRANSFORM_ERROR, "sys.exit("),
        ("interrupts", FailureCategory.TRANSFORM_ERROR, "KeyboardInterrupt"),
        ("raises", FailureCategory.TRANSFORM_ERROR, "no such thing"),
        ("cancels_itself", FailureCategory.TRANSFORM_ERROR, "enough"),
        ("raises_awkwardly", FailureCategory.TRANSFORM_ERROR, "Awkward"),
        ("vanishes", FailureCategory.WORKER_LOST, "exit code 7"),
        ("returns_an_object", FailureCategory.CONFIGURATION_ERROR, "cannot be stored"),
    ],
)
def test_a_bad_end_fails_the_task_and_nothing_else(
    world: World, name: str, category: FailureCategory, said: str
) -> None:
    failure = failure_of(run_then_fine(world, world.envelope(name)))
    assert (failure.category, said in failure.message) == (category, True), failure


def test_a_traceback_begins_in_the_users_code_and_names_files_of_the_project(world: World) -> None:
    failure = failure_of(world.run_one(world.envelope("raises")))
    assert failure.error_type == "builtins.LookupError"
    lines = failure.traceback.splitlines()
    assert lines[1].startswith('  File "pipes.py", line ')
    assert "arco/worker" not in failure.traceback
    assert str(world.folder) not in failure.traceback


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('at import')", "at import"),
        ("import sys; sys.exit(1)", "SystemExit"),
        ("import no_such_module", "no_such_module"),
        ("def broken(:", "invalid syntax"),
    ],
)
def test_an_import_that_fails_fails_the_task(tmp_path: Path, text: str, said: str) -> None:
    world = World(
        tmp_path,
        "@asset(namespace='n')\ndef fine(): import late; print('fine', late.VALUE)",
        files={**LATE, "broken.py": text},
    )
    failure = failure_of(run_then_fine(world, world.envelope(definitions=(definition("a", function="broken:a"),))))
    assert said in failure.message


def test_a_fork_that_comes_back_reports_nothing(world: World) -> None:
    envelope = world.envelope("forks")
    result = run_then_fine(world, envelope)
    assert result.outcome is Outcome.SUCCEEDED
    stored = next((world.folder / "store").rglob(result.outputs[0].files[0].path))
    assert stored.read_text() == '"from the parent"'
    assert [each.attempt_id for each in world.plane.results].count(envelope.attempt_id) == 1


def test_processes_that_a_task_leaves_behind_die_before_the_next(world: World) -> None:
    envelope = world.envelope("leaves_a_child")
    assert run_then_fine(world, envelope).outcome is Outcome.SUCCEEDED
    status = Path(f"/proc/{int(world.log_of(envelope))}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


@pytest.mark.parametrize("name", ["leaves_a_thread", "deletes_its_code", "spoils", "closes_output"])
def test_what_a_task_spoils_does_not_reach_the_next(world: World, name: str) -> None:
    assert run_then_fine(world, world.envelope(name)).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("name", ["holds_the_interpreter", "stops"])
def test_a_process_that_does_not_beat_is_ended(world: World, name: str) -> None:
    failure = failure_of(run_then_fine(world, world.envelope(name, heartbeat_seconds=0.8)))
    assert failure.category is FailureCategory.WORKER_LOST
    assert "no sign of life for 0.8 seconds" in failure.message


# Endings


def test_a_timeout_lets_the_function_clean_up(world: World) -> None:
    envelope = world.envelope("sleeps", timeout_seconds=0.5)
    failure = failure_of(run_then_fine(world, envelope))
    assert (failure.category, failure.is_transient) == (FailureCategory.TIMEOUT, True)
    assert "0.5 seconds" in failure.message
    assert world.log_of(envelope) == "cleaned up\n"


def test_a_function_that_ignores_its_end_is_ended(world: World) -> None:
    envelope = world.envelope("ignores_the_end", timeout_seconds=1.0)
    failure = failure_of(run_then_fine(world, envelope, cancel_grace_seconds=1.0))
    assert failure.category is FailureCategory.TIMEOUT
    assert world.log_of(envelope) == "begun\nignored\n"


@pytest.mark.parametrize("name", ["sleeps", "ignores_the_end", "checks_for_the_end"])
def test_a_cancellation_ends_the_attempt_as_cancelled(world: World, name: str) -> None:
    envelope = world.envelope(name, heartbeat_seconds=2.0)
    world.plane.cancelled.add(envelope.attempt_id)
    result = run_then_fine(world, envelope, cancel_grace_seconds=0.3)
    assert (result.outcome, result.failure, result.outputs, result.failed) == (Outcome.CANCELLED, None, (), ())


def test_retries_by_class_decide_what_is_retryable(world: World) -> None:
    def asked(name: str, retries: Retries, **fields: Any) -> Envelope:
        return world.envelope(definitions=(definition(name, retries=retries),), **fields)

    cases = [
        (asked("raises", Retries(1)), True),
        (asked("raises", Retries(1, on=("LookupError",))), True),
        (asked("raises", Retries(1, on=("ValueError",))), False),
        (asked("raises", Retries(1, never=("builtins.LookupError",))), False),
        (asked("vanishes", Retries(1, on=("ValueError",))), True),
        (asked("sleeps", Retries(1, never=("TimeoutError",)), timeout_seconds=0.2), False),
    ]
    results = asyncio.run(world.run(*(envelope for envelope, _ in cases)))
    assert [failure_of(result).retryable for result in results] == [expected for _, expected in cases]


# Output


def test_a_task_that_prints_without_measure_keeps_beginning_and_end(world: World) -> None:
    envelope = world.envelope("prints_much")
    result = run_then_fine(world, envelope)
    assert result.outcome is Outcome.SUCCEEDED
    assert result.log is not None
    assert result.log.truncated
    assert LIMIT + TAIL <= result.log.byte_size <= LIMIT + TAIL + 100
    log = asyncio.run(read_log(world.scoped, envelope.run_id, envelope.attempt_id, max_chunks=1000)).text
    assert len(log) == result.log.byte_size
    assert log.startswith("x" * 999 + "\nx")
    assert log.endswith("x\nthe end\n")
    left_out = 40_000 * 1000 + len("the end\n") - LIMIT - TAIL
    assert f"[... {left_out} bytes left out ...]" in log


def test_a_line_has_a_greatest_length(world: World) -> None:
    envelope = world.envelope("prints_a_long_line")
    result = world.run_one(envelope)
    first, second = world.log_of(envelope).splitlines()
    assert len(first) < 40_000
    assert first.endswith("y [... cut]")
    assert second == "after"
    assert result.log is not None
    assert result.log.truncated


# Values and secrets


def test_a_schema_that_is_not_the_declared_one_fails_the_task(world: World) -> None:
    def asked(*columns: SchemaColumn) -> Envelope:
        return world.envelope(definitions=(definition("returns_numbers", schema=columns),))

    cases = [
        ((SchemaColumn("x", "int"),), "y is not declared"),
        ((SchemaColumn("x", "int"), SchemaColumn("y", "string"), SchemaColumn("z", "int")), "z is declared as int"),
        ((SchemaColumn("x", "list<int>"), SchemaColumn("y", "string")), "x is declared as list<int> and is long"),
        ((SchemaColumn("x", "int"), SchemaColumn("y", "string", nullable=False)), "y may not be null"),
    ]
    good = asked(SchemaColumn("x", "int"), SchemaColumn("y", "string"))
    first, *others = asyncio.run(world.run(good, *(asked(*columns) for columns, _ in cases)))
    assert first.outcome is Outcome.SUCCEEDED, first.failure
    for (_, said), result in zip(cases, others, strict=True):
        failure = failure_of(result)
        assert (failure.category, said in failure.message) == (FailureCategory.SCHEMA_VIOLATION, True), failure


def test_secrets_reach_the_function_and_nothing_else(world: World) -> None:
    value = "s3cr3t-passw0rd-of-mine"
    made = definition("tells", secrets=(SecretRef("pw", "env", "MY_PW"),))
    envelope = world.envelope(definitions=(made,))
    result = world.run_one(envelope, environment={"MY_PW": value})
    failure = failure_of(result)
    assert "cannot log in" not in failure.message or "hunter22" not in failure.message
    assert world.log_of(envelope) == "the password is ********\n********\n"
    for path in (world.folder / "store").rglob("*"):
        assert path.is_dir() or value.encode() not in path.read_bytes()
    assert value not in repr(world.plane.results)
    assert "hunter22" not in repr(world.plane.results)


def test_a_secret_that_is_missing_is_named(world: World) -> None:
    made = definition("tells", secrets=(SecretRef("pw", "env", "MY_PW"),))
    failure = failure_of(world.run_one(world.envelope(definitions=(made,))))
    assert failure.category is FailureCategory.CONFIGURATION_ERROR
    assert "MY_PW" in failure.message


def test_drivers_do_not_inherit_the_credentials_of_the_worker(world: World) -> None:
    envelope = world.envelope("looks")
    environment = {"ARCO_SERVICE_SECRET": "x" * 40, "ARCO_TOKEN": "t", "ARCO_STORE_OPTIONS_KEY": "k", "ARCO_URL": "u"}
    world.run_one(envelope, environment=environment)
    assert world.log_of(envelope) == "['ARCO_URL']\n"


# Envelopes that are not for this worker


def test_envelopes_that_are_forged_expired_foreign_or_sent_again_run_nothing(world: World) -> None:
    async def scenario() -> None:
        now = world.runtime.now()
        forged = world.envelope("fine")
        expired = world.envelope("fine", issued_at=now - 20 * SECOND, expires_at=now - 10 * SECOND)
        foreign = world.envelope("fine", tenant="other")
        once = world.envelope("fine")
        world.plane.add(forged, secret=bytes(32))
        world.plane.ready.append(sign_envelope(SECRET, world.envelope("fine")).replace(b'"attempt":1', b'"attempt":2'))
        world.plane.add(expired, foreign, once, once)
        last = world.envelope("fine")
        await world.run(last, slots=1)
        assert [result.attempt_id for result in world.plane.results] == [once.attempt_id, last.attempt_id]

    asyncio.run(scenario())

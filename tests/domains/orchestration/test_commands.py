"""Commands: who may claim what, which results are taken, and what a refusal says."""

from typing import Any

import msgspec
import pytest

from arco.assets import GatingAction, Retries
from arco.core import MINUTE, Conflict, Invalid, NotFound
from arco.domains.execution import (
    ASSET_SCHEMAS,
    FILES_COMPACTED,
    PARTITIONS,
    AssetObserved,
    DataFile,
    FilesCompacted,
    MaterializationFailed,
    ReleaseVersion,
    SchemaRecorded,
    WrittenColumn,
)
from arco.domains.lineage import EdgeRecord, LineageRecorded
from arco.domains.orchestration import (
    CLAIMS,
    RUN_KEYS,
    RUNS,
    TASKS,
    CancelKind,
    CancelRun,
    ConfirmDispatch,
    Outcome,
    Output,
    PlanCreated,
    ReapAttempts,
    ReapWorker,
    RequestDispatch,
    RunTriggered,
    TaskLog,
    decide_claims,
)
from arco.domains.quality import CheckExecuted, Severity
from arco.log import MAX_EVENT_BYTES, Command, Event
from arco.runtime import DEFINITIONS
from arco.state import new_event
from tests.domains.decider import Decider, deciding
from tests.domains.orchestration.deciding import FAILURE, asked, claim_all, finished, output, trigger
from tests.domains.orchestration.facts import LOG, plan_of, task_of

CHAIN = plan_of({"A": (), "B": ("A",)})
ACTIVITY = next(known for known in DEFINITIONS if known.log == "activity")
WIDE = plan_of({"A": (), "B": (), "C": (), "D": ()})


async def states(decider: Decider) -> dict[str, str]:
    return {row["task_key"]: row["state"] for row in await decider.rows(TASKS)}


async def claimed_at(decider: Decider) -> int:
    """When the last segment was received."""
    return decider.replica.link.received


# Trigger


def test_a_trigger_gives_the_run_its_id_and_its_plan() -> None:
    async def main(decider: Decider) -> None:
        events = await decider.decide(asked(CHAIN, tags={"team": "x"}, priority=3))
        run, plan = msgspec.json.decode(events[0].data, type=RunTriggered), events[1]
        assert [event.type for event in events] == ["RunTriggered", "PlanCreated"]
        assert {event.subject for event in events} == {run.run_id}
        assert msgspec.json.decode(plan.data, type=PlanCreated).plan == CHAIN
        (row,) = await decider.rows(RUNS)
        assert (row["state"], row["triggered_by"], row["task_count"]) == ("RUNNING", "me", 2)
        assert (row["priority"], dict(row["tags"])) == (3, {"team": "x"})

    deciding(LOG, main)


def test_a_large_plan_is_a_blob_of_the_event() -> None:
    async def main(decider: Decider) -> None:
        command = msgspec.structs.replace(asked(CHAIN), plan=None, plan_blob="ab" * 32)
        data = msgspec.Raw(msgspec.json.encode(command))
        new = await decider.replica.draft().decide(Command("op", "me", "TriggerRun", data), decider.now)
        assert [item.blobs for item in new] == [(), ("ab" * 32,)]
        assert msgspec.json.decode(new[1].data, type=PlanCreated).plan is None

    deciding(LOG, main)


def test_a_run_without_tasks_succeeds_at_once() -> None:
    async def main(decider: Decider) -> None:
        run = await trigger(decider, plan_of({}))
        (row,) = await decider.rows(RUNS)
        assert (row["state"], row["run_id"], row["ended_at"]) == ("SUCCEEDED", run, row["created_at"])
        with pytest.raises(Conflict, match="nothing to cancel"):
            await decider.decide(CancelRun(run))
        assert await decider.decide(CancelRun(run, CancelKind.TIMED_OUT)) == []

    deciding(LOG, main)


def test_a_run_key_stands_for_one_run() -> None:
    async def main(decider: Decider) -> None:
        run = await trigger(decider, CHAIN, run_key="nightly-1")
        assert await decider.decide(asked(CHAIN, run_key="nightly-1")) == []
        with pytest.raises(Conflict, match="another key") as refused:
            await decider.decide(asked(CHAIN, run_key="nightly-1", request_fingerprint="other"))
        assert refused.value.details == {"run_id": run, "stored": "request", "given": "other"}
        (row,) = await decider.rows(RUN_KEYS)
        assert (row["run_key"], row["run_id"]) == ("nightly-1", run)
        assert await trigger(decider, CHAIN, run_key="nightly-2") != run

    deciding(LOG, main)


BAD_PLANS = {
    "twice or empty": (task_of("A"), task_of("A")),
    "does not have": (task_of("A", ["Z"], 1),),
    "no cycle": (task_of("A", ["B"]), task_of("B", ["A"], 1)),
    "names a task it depends on twice": (
        task_of("A"),
        msgspec.structs.replace(task_of("B", stage=1), upstream=("A", "A")),
    ),
    "writes nothing": (msgspec.structs.replace(task_of("A"), outputs=()),),
    "only one task": (task_of("A"), msgspec.structs.replace(task_of("B"), outputs=task_of("A").outputs)),
    "writes an asset twice": (msgspec.structs.replace(task_of("A"), outputs=task_of("A").outputs * 2),),
}


@pytest.mark.parametrize("said", BAD_PLANS)
def test_a_plan_that_cannot_be_carried_out_is_refused(said: str) -> None:
    plan = msgspec.structs.replace(CHAIN, tasks=BAD_PLANS[said])

    async def main(decider: Decider) -> None:
        with pytest.raises(Invalid, match=said):
            await decider.decide(asked(plan))

    deciding(LOG, main)


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("fingerprint", {"plan_id": "plan_0"}),
        ("2 tasks, not 3", {"task_count": 3}),
        ("code version", {"code_version": "v2"}),
        ("either", {"plan": None}),
        ("either", {"plan_blob": "ab"}),
        ("manual or rerun", {"trigger": "chance"}),
        ("standard or fill or force", {"mode": "dry"}),
        ("rerun_of", {"rerun_of": "run"}),
        ("rerun_of", {"trigger": "rerun"}),
        ("does not fit", {"priority": 2_000_000}),
        ("does not fit", {"timeout_seconds": 0}),
    ],
)
def test_a_trigger_that_contradicts_itself_is_refused(said: str, change: dict[str, Any]) -> None:
    async def main(decider: Decider) -> None:
        with pytest.raises(Invalid, match=said):
            await decider.decide(msgspec.structs.replace(asked(CHAIN), **change))

    deciding(LOG, main)


def test_only_a_run_that_exists_can_be_repeated() -> None:
    async def main(decider: Decider) -> None:
        with pytest.raises(NotFound, match="no run '01X'"):
            await decider.decide(asked(CHAIN, trigger="rerun", rerun_of="01X"))
        run = await trigger(decider, CHAIN)
        assert len(await decider.decide(asked(CHAIN, trigger="rerun", rerun_of=run))) == 2

    deciding(LOG, main)


# Claim


def test_a_claim_takes_no_more_than_slots_and_capacity_allow() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, WIDE)
        assert [claim.task_key for claim in await claim_all(decider, slots=2, capacity=3)] == ["A", "B"]
        assert [claim.task_key for claim in await claim_all(decider, slots=2, capacity=3)] == ["C"]
        assert await claim_all(decider, slots=2, capacity=3) == []
        assert [claim.task_key for claim in await claim_all(decider)] == ["D"]
        ids = {row["attempt_id"] for row in await decider.rows(CLAIMS)}
        assert len(ids) == 4

    deciding(LOG, main)


def test_a_run_at_its_limit_does_not_hide_the_next() -> None:
    async def main(decider: Decider) -> None:
        first = await trigger(decider, WIDE, max_parallelism=1)
        second = await trigger(decider, WIDE)
        urgent = await trigger(decider, WIDE, priority=1, max_parallelism=2)
        claims = await claim_all(decider, slots=5)
        assert [claim.run_id for claim in claims] == [urgent, urgent, first, second, second]
        assert [claim.run_id for claim in await claim_all(decider, slots=5)] == [second, second]

    deciding(LOG, main)


def test_a_retry_is_claimed_when_its_time_has_come() -> None:
    plan = plan_of({"A": ()}, Retries(count=1, delay_seconds=3.5, jitter=0.0))

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        (claim,) = await claim_all(decider)
        await decider.decide(finished(claim, await claimed_at(decider), Outcome.FAILED))
        assert await states(decider) == {"A": "RETRY_WAIT"}
        while not (again := await claim_all(decider)):
            await trigger(decider, plan_of({}))
        (row,) = await decider.rows(TASKS)
        assert (again[0].attempt, row["state"], row["failures"]) == (2, "RUNNING", 1)
        assert row["started_at"] >= row["updated_at"]
        assert again[0].attempt_id != claim.attempt_id

    deciding(LOG, main)


def test_nothing_of_a_cancelled_run_is_claimed() -> None:
    async def main(decider: Decider) -> None:
        run = await trigger(decider, WIDE)
        (claim,) = await claim_all(decider, slots=1)
        assert len(await decider.decide(CancelRun(run, reason="enough"))) == 1
        assert await decider.decide(CancelRun(run, CancelKind.TIMED_OUT)) == []
        assert await claim_all(decider) == []
        assert await states(decider) == {"A": "RUNNING", "B": "CANCELLED", "C": "CANCELLED", "D": "CANCELLED"}
        (row,) = await decider.rows(RUNS)
        assert row["state"] == "CANCELLING"
        await decider.decide(finished(claim, await claimed_at(decider), Outcome.CANCELLED))
        (row,) = await decider.rows(RUNS)
        assert (row["state"], row["cancel_reason"]) == ("CANCELLED", "enough")
        with pytest.raises(NotFound):
            await decider.decide(CancelRun("nobody"))

    deciding(LOG, main)


# Finish


def test_a_result_is_taken_once_and_may_be_repeated() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, CHAIN)
        (claim,) = await claim_all(decider)
        done = finished(claim, await claimed_at(decider), log=TaskLog(2, 100))
        assert len(await decider.decide(done)) == 1
        assert await states(decider) == {"A": "SUCCEEDED", "B": "READY"}
        assert await decider.decide(done) == []
        with pytest.raises(Conflict) as refused:
            await decider.decide(msgspec.structs.replace(done, finished_at=done.finished_at + 1))
        assert refused.value.details["code"] == "stale_attempt"
        assert refused.value.details["state"] == "SUCCEEDED"

    deciding(LOG, main)


def test_what_an_attempt_that_was_given_up_was_to_write_has_failed_until_another_writes_it() -> None:
    plan = plan_of({"A": ()}, Retries(delay_seconds=0.0))

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        (claim,) = await claim_all(decider)
        await decider.decide(ReapAttempts((claim.attempt_id,), "its driver died"))
        (row,) = await decider.rows(PARTITIONS)
        assert (row["status"], row["last_error"], row["last_task_id"]) == ("failed", "its driver died", "task-A")
        (again,) = await claim_all(decider)
        await decider.decide(finished(again, await claimed_at(decider) + 10))
        (row,) = await decider.rows(PARTITIONS)
        assert (row["status"], row["last_error"], row["version_count"]) == ("complete", None, 1)
        assert await decider.is_refold()

    deciding(ACTIVITY, main)


def test_columns_are_told_with_the_first_version_that_has_them() -> None:
    async def main(decider: Decider) -> None:
        versions = []
        for number, known in enumerate((False, True)):
            await trigger(decider, plan_of({"A": ()}), request_fingerprint=str(number))
            (claim,) = await claim_all(decider)
            at = await claimed_at(decider)
            version = output(claim, at, schema_hash="h1")
            versions.append(version.materialization_id)
            told = SchemaRecorded("asset-A", "A", "h1", version.materialization_id, (WrittenColumn("id", "long"),))
            done = finished(claim, at, outputs=(version,), schemas=(told,))
            for wrong in ({"schema_hash": "h2"}, {"materialization_id": "m"}, {"asset_id": "asset-B"}):
                other = msgspec.structs.replace(told, **wrong)
                with pytest.raises(Invalid, match="are not those of a version that this task has written"):
                    await decider.decide(msgspec.structs.replace(done, schemas=(other,)))
            (event,) = await decider.decide(done)
            assert (b'"schemas"' in bytes(event.data)) is not known
        (row,) = await decider.rows(ASSET_SCHEMAS)
        assert row["materialization_id"] == versions[0]
        assert await decider.is_refold()

    deciding(ACTIVITY, main)


def test_what_another_run_has_written_meanwhile_has_not_failed() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, plan_of({"A": ()}))
        (lost,) = await claim_all(decider)
        await trigger(decider, plan_of({"A": ()}), request_fingerprint="another")
        (claim,) = await claim_all(decider, worker="w2")
        await decider.decide(finished(claim, await claimed_at(decider)))
        before = await decider.rows(PARTITIONS)
        await decider.decide(ReapAttempts((lost.attempt_id,), "no sign of life"))
        assert await decider.rows(PARTITIONS) == before
        assert before[0]["status"] == "complete"

    deciding(ACTIVITY, main)


def test_what_another_run_has_written_meanwhile_stays_in_quarantine() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, plan_of({"A": ()}))
        (lost,) = await claim_all(decider)
        await trigger(decider, plan_of({"A": ()}), request_fingerprint="another")
        (claim,) = await claim_all(decider, worker="w2")
        at = await claimed_at(decider)
        bad = output(claim, at, status="quarantined")
        await decider.decide(finished(claim, at, outputs=(bad,), gate=GatingAction.QUARANTINE))
        before = await decider.rows(PARTITIONS)
        await decider.decide(ReapAttempts((lost.attempt_id,), "no sign of life"))
        assert await decider.rows(PARTITIONS) == before
        assert (before[0]["status"], before[0]["last_run_id"]) == ("quarantined", claim.run_id)
        await decider.decide(ReleaseVersion("asset-A", bad.materialization_id, "it is fine"))
        (row,) = await decider.rows(PARTITIONS)
        assert (row["status"], row["last_error"]) == ("complete", None)

    deciding(ACTIVITY, main)


def test_what_a_worker_has_written_whose_clock_is_behind_has_not_failed() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, plan_of({"A": ()}))
        (lost,) = await claim_all(decider)
        await trigger(decider, plan_of({"A": ()}), request_fingerprint="another")
        (claim,) = await claim_all(decider, worker="w2")
        at = await claimed_at(decider)
        good = output(claim, at, started_at=at - MINUTE, completed_at=at - MINUTE)
        await decider.decide(finished(claim, at - MINUTE, outputs=(good,)))
        before = await decider.rows(PARTITIONS)
        await decider.decide(ReapAttempts((lost.attempt_id,), "no sign of life"))
        assert await decider.rows(PARTITIONS) == before
        assert before[0]["status"] == "complete"

    deciding(ACTIVITY, main)


def test_what_changed_meanwhile_though_nobody_wrote_it_has_failed() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, plan_of({"A": ()}))
        (first,) = await claim_all(decider)
        good = output(first, await claimed_at(decider))
        await decider.decide(finished(first, good.started_at, outputs=(good,)))
        await trigger(decider, plan_of({"A": ()}), request_fingerprint="another")
        (lost,) = await claim_all(decider)
        file = DataFile("data/a/compacted.parquet", 1, 1)
        compacted = new_event(FILES_COMPACTED, FilesCompacted("asset-A", good.materialization_id, "c1", (file,)))
        await decider.append(Event(decider.id(), compacted.type, "", "arco", "me", decider.id(), compacted.data))
        await decider.decide(ReapAttempts((lost.attempt_id,), "no sign of life"))
        (row,) = await decider.rows(PARTITIONS)
        assert (row["status"], row["last_error"], row["last_run_id"]) == ("failed", "no sign of life", lost.run_id)
        assert row["current_materialization_id"] == good.materialization_id

    deciding(ACTIVITY, main)


def test_what_a_worker_wrote_before_whose_clock_is_ahead_has_failed_anew() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, plan_of({"A": ()}))
        (first,) = await claim_all(decider)
        at = await claimed_at(decider)
        good = output(first, at, completed_at=at + MINUTE)
        await decider.decide(finished(first, at + MINUTE, outputs=(good,)))
        for _ in range(2):
            run_id = await trigger(decider, plan_of({"A": ()}), request_fingerprint="another")
            (lost,) = await claim_all(decider)
            await decider.decide(ReapAttempts((lost.attempt_id,), "no sign of life"))
            (row,) = await decider.rows(PARTITIONS)
            assert (row["status"], row["last_error"], row["last_run_id"]) == ("failed", "no sign of life", run_id)
            await decider.decide(CancelRun(run_id))

    deciding(ACTIVITY, main)


def test_what_another_run_told_before_it_tries_again_has_failed_by_its_word() -> None:
    plan = plan_of({"A": ()}, Retries(1, delay_seconds=0.0))

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        (lost,) = await claim_all(decider)
        await trigger(decider, plan, request_fingerprint="another")
        (claim,) = await claim_all(decider, worker="w2")
        at = await claimed_at(decider)
        bad = MaterializationFailed("asset-A", "A", "partition-A", "", claim.run_id, "task-A", "no", at + 1)
        await decider.decide(finished(claim, at, Outcome.FAILED, failed=(bad,)))
        assert len(await claim_all(decider, worker="w2")) == 1
        await decider.decide(ReapAttempts((lost.attempt_id,), "no sign of life"))
        (row,) = await decider.rows(PARTITIONS)
        assert (row["status"], row["last_error"], row["last_run_id"]) == ("failed", "no", claim.run_id)

    deciding(ACTIVITY, main)


def test_what_failed_before_an_attempt_that_was_given_up_has_failed_anew() -> None:
    plan = plan_of({"A": ()}, Retries(delay_seconds=0.0))

    async def main(decider: Decider) -> None:
        run_id = await trigger(decider, plan)
        for reason in ("its driver died", "no sign of life"):
            (claim,) = await claim_all(decider)
            await decider.decide(ReapAttempts((claim.attempt_id,), reason))
            (row,) = await decider.rows(PARTITIONS)
            assert (row["status"], row["last_error"], row["last_run_id"]) == ("failed", reason, run_id)

    deciding(ACTIVITY, main)


def test_however_much_is_lost_at_once_fits_into_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_claims, "_MAX_FAILED", 600)

    async def main(decider: Decider) -> None:
        await trigger(decider, WIDE)
        claims = await claim_all(decider)
        events = await decider.decide(ReapWorker("w1", "s2"))
        assert len(events) == len(claims) == 4
        assert 0 < len(await decider.rows(PARTITIONS)) < 4
        assert set((await states(decider)).values()) == {"RETRY_WAIT"}

    deciding(ACTIVITY, main)


@pytest.mark.parametrize("reason", ["no sign of life", "\0" * 2_000])
def test_however_much_an_attempt_was_to_write_fits_into_an_event(reason: str) -> None:
    outputs = tuple(Output(f"asset-{number}", f"n.a{number}", f"partition-{number}") for number in range(1_500))
    plan = msgspec.structs.replace(CHAIN, tasks=(msgspec.structs.replace(task_of("A"), outputs=outputs),))

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        (claim,) = await claim_all(decider)
        (event,) = await decider.decide(ReapAttempts((claim.attempt_id,), reason))
        assert len(msgspec.json.encode(event)) <= MAX_EVENT_BYTES
        assert len(await decider.rows(PARTITIONS)) in {0, len(outputs)}
        assert await states(decider) == {"A": "RETRY_WAIT"}

    deciding(ACTIVITY, main)


def test_what_an_attempt_was_to_write_of_which_no_worker_was_told_has_not_failed() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, plan_of({"A": ()}))
        (claim,) = await claim_all(decider)
        await decider.decide(ReapAttempts((claim.attempt_id,), "its worker could not be told", began=False))
        assert await states(decider) == {"A": "RETRY_WAIT"}
        assert await decider.rows(PARTITIONS) == []

    deciding(ACTIVITY, main)


def test_what_a_cancelled_run_does_not_write_any_more_has_not_failed() -> None:
    async def main(decider: Decider) -> None:
        run_id = await trigger(decider, plan_of({"A": ()}))
        (claim,) = await claim_all(decider)
        await decider.decide(CancelRun(run_id))
        await decider.decide(ReapAttempts((claim.attempt_id,), "it ignored the end"))
        assert await states(decider) == {"A": "CANCELLED"}
        assert await decider.rows(PARTITIONS) == []

    deciding(ACTIVITY, main)


def test_a_result_of_an_attempt_that_was_given_up_is_stale() -> None:
    plan = plan_of({"A": ()}, Retries(delay_seconds=0.0))

    async def main(decider: Decider) -> None:
        await trigger(decider, plan)
        (claim,) = await claim_all(decider)
        done = finished(claim, await claimed_at(decider))
        with pytest.raises(Conflict, match="Drop this result"):
            await decider.decide(msgspec.structs.replace(done, attempt_id="another"))
        assert len(await decider.decide(ReapAttempts((claim.attempt_id,), "no heartbeat"))) == 1
        assert await decider.decide(ReapAttempts((claim.attempt_id,), "no heartbeat")) == []
        with pytest.raises(Conflict) as refused:
            await decider.decide(done)
        assert refused.value.details["code"] == "stale_attempt"
        (again,) = await claim_all(decider)
        with pytest.raises(Conflict):
            await decider.decide(done)
        assert len(await decider.decide(finished(again, await claimed_at(decider)))) == 1
        with pytest.raises(Conflict):
            await decider.decide(done)
        with pytest.raises(NotFound, match="no task Z"):
            await decider.decide(msgspec.structs.replace(done, task_key="Z"))

    deciding(LOG, main)


def _changed(done: Any, at: int, claim: Any) -> dict[str, Any]:
    """Results that do not belong together, by what the refusal says."""
    out = output(claim, at)
    part = {"asset_id": out.asset_id, "partition_id": out.partition_id, "run_id": claim.run_id, "task_id": out.task_id}
    failed = MaterializationFailed(asset_key="A", partition_key="", error="no", failed_at=at, **part)
    check = CheckExecuted(
        "c", "c", "sql", materialization_id="other", passed=True, severity=Severity.ERROR, executed_at=at, **part
    )
    edge = EdgeRecord("source", "asset-Z")
    lineage = LineageRecorded(claim.run_id, out.task_id, at, at, (edge,))
    return {
        "finished before it started": {"finished_at": at - 1},
        "no other one has": {"failure": FAILURE},
        "has a failure that says why": {"outcome": Outcome.FAILED, "outputs": ()},
        "no failed outputs": {"failed": (failed,)},
        "publishes nothing": {"outcome": Outcome.FAILED, "failure": FAILURE},
        "make the task fail": {"gate": GatingAction.FAIL_RUN},
        "do not make the task fail": {
            "outcome": Outcome.FAILED,
            "failure": FAILURE,
            "outputs": (),
            "gate": GatingAction.QUARANTINE,
        },
        "at least one output quarantined": {"gate": GatingAction.QUARANTINE},
        "without its output of asset-A": {"outputs": ()},
        "reports an output twice": {"outputs": (out, out)},
        "was not planned": {"outputs": (output(claim, at, partition_id="p"),)},
        "follows from the claim": {"outputs": (output(claim, at, materialization_id="m"),)},
        "that attempt": {"checks": (check,)},
        "'elsewhere'": {"outputs": (output(claim, at, run_id="elsewhere"),)},
        "'task-Z'": {"outputs": (output(claim, at, task_id="task-Z"),)},
        "does not write": {"lineage": lineage},
    }


def test_a_result_whose_parts_do_not_belong_together_is_refused() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, CHAIN)
        (claim,) = await claim_all(decider)
        at = await claimed_at(decider)
        done = finished(claim, at)
        for said, change in _changed(done, at, claim).items():
            with pytest.raises(Invalid, match=said):
                await decider.decide(msgspec.structs.replace(done, **change))
        assert await states(decider) == {"A": "RUNNING", "B": "BLOCKED"}

    deciding(LOG, main)


def test_an_observation_stands_for_an_output() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, CHAIN)
        (claim,) = await claim_all(decider)
        at = await claimed_at(decider)
        seen = AssetObserved("o1", "asset-A", "A", "partition-A", "", "v1", at, run_id=claim.run_id)
        await decider.decide(finished(claim, at, outputs=(), observations=(seen,)))
        assert await states(decider) == {"A": "SUCCEEDED", "B": "READY"}

    deciding(LOG, main)


# Give up, dispatch


def test_what_earlier_lives_of_a_worker_claimed_is_given_up() -> None:
    async def main(decider: Decider) -> None:
        await trigger(decider, WIDE)
        await claim_all(decider, slots=1, session="s1")
        await claim_all(decider, slots=1, session="s2")
        await claim_all(decider, slots=1, worker="w2", session="s1")
        assert await decider.decide(ReapWorker("nobody", "s1")) == []
        assert len(await decider.decide(ReapWorker("w1", "s2"))) == 1
        assert await states(decider) == {"A": "RETRY_WAIT", "B": "RUNNING", "C": "RUNNING", "D": "READY"}
        assert await decider.decide(ReapWorker("w1", "s2")) == []
        assert len(await decider.decide(ReapWorker("w1", "s3"))) == 1

    deciding(LOG, main)


def test_only_the_next_attempt_of_what_may_begin_is_dispatched() -> None:
    async def main(decider: Decider) -> None:
        run = await trigger(decider, CHAIN)
        with pytest.raises(Conflict, match="BLOCKED"):
            await decider.decide(RequestDispatch(run, "B", 1, "queue"))
        with pytest.raises(Conflict, match="attempt 2 cannot"):
            await decider.decide(RequestDispatch(run, "A", 2, "queue"))
        with pytest.raises(NotFound, match="request it first"):
            await decider.decide(ConfirmDispatch(run, "dispatch:none"))
        with pytest.raises(NotFound):
            await decider.decide(RequestDispatch(run, "Z", 1, "queue"))

    deciding(LOG, main)

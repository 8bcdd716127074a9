"""How versions stand: what producers, checks and people say of them, and what follows for the partition.

The model below says it independently, in a few lines: the worst verdict counts, a person's word wins, retention is
past both, and the current version is the greatest one that is published.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import GatingAction, Severity
from arco.core import DAY, HOUR, Conflict, Invalid, NotFound, Refused
from arco.domains.execution import (
    EXECUTION,
    FILE_STATISTICS,
    HELD_VERSIONS,
    MATERIALIZATIONS,
    PARTITIONS,
    VERSION_STATUS,
    DeleteVersions,
    ExpireVersions,
    Materialization,
    QuarantineVersion,
    ReleaseVersion,
    RetentionPolicy,
    VersionStatus,
    expirable,
)
from arco.domains.execution.standing import Checked, judge_check, known_version
from arco.domains.quality import QUALITY, CheckExecuted, Gating
from arco.log import Event
from arco.state import AUDIT, REJECTIONS, define_log
from tests.domains.decider import Decider, deciding
from tests.doubles import START
from tests.state.doubles import digests, event, replica_of, rows_of, segments_of
from tests.state.histories import completed, failed, retention

LOG = define_log("activity", [EXECUTION, QUALITY])


def checked(name: str, action: GatingAction | None, *, check: str = "c1", partition: str = "p1", **more: Any) -> Event:
    fields: dict[str, Any] = {"passed": False, "severity": Severity.ERROR, "executed_at": START, **more}
    payload = CheckExecuted(
        check_id=check,
        check_name=check,
        check_type="row_count",
        asset_id="a1",
        partition_id=partition,
        materialization_id=name,
        run_id="r1",
        task_id="t1",
        gating=Gating(action, "policy") if action is not None else None,
        **fields,
    )
    return event("CheckExecuted", payload)


def quarantined(name: str, reason: str = "looks wrong") -> Event:
    payload = {"asset_id": "a1", "materialization_id": name, "reason": reason}
    return event("MaterializationQuarantined", payload, command="QuarantineVersion")


def released(name: str, reason: str = "is right") -> Event:
    payload = {"asset_id": "a1", "materialization_id": name, "reason": reason}
    return event("MaterializationReleased", payload, command="ReleaseVersion")


def expired(*names: str) -> Event:
    payload = {"asset_id": "a1", "materialization_ids": list(names)}
    return event("MaterializationsExpired", payload, command="ExpireVersions")


def deleted(*names: str) -> Event:
    payload = {"asset_id": "a1", "materialization_ids": list(names)}
    return event("MaterializationsDeleted", payload, command="DeleteVersions")


class Folded:
    def __init__(self, partition: Any, statuses: dict[str, VersionStatus], held: list[str], refused: list[str]) -> None:
        self.partition = partition
        self.statuses = statuses
        self.held = held
        self.refused = refused

    @property
    def stand(self) -> tuple[str | None, str, str | None]:
        row = self.partition
        return row.current_materialization_id, row.status, row.newest_status


def fold(*events: Event) -> Folded:
    async def main() -> Folded:
        replica = await replica_of(LOG, [segments_of([[item] for item in events])])
        statuses = {row.materialization_id: row for row in await replica.rows(VERSION_STATUS, "a1")}
        held = [row["materialization_id"] for row in await rows_of(replica, HELD_VERSIONS)]
        refused = [row["reason"] for row in await rows_of(replica, REJECTIONS)]
        return Folded(await replica.get(PARTITIONS, "a1", "p1"), statuses, held, refused)

    return asyncio.run(main())


BLOCK = GatingAction.BLOCK_DOWNSTREAM


def test_a_version_against_which_nothing_speaks_has_no_row() -> None:
    found = fold(completed("m1"), checked("m1", GatingAction.WARN), checked("m1", None, check="c2", passed=True))
    assert (found.statuses, found.held, found.stand) == ({}, [], ("m1", "complete", "published"))


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (GatingAction.BLOCK_DOWNSTREAM, "blocked"),
        (GatingAction.FAIL_TASK, "blocked"),
        (GatingAction.FAIL_RUN, "blocked"),
        (GatingAction.QUARANTINE, "quarantined"),
        (None, "blocked"),
    ],
)
def test_bad_data_is_never_current(action: GatingAction | None, status: str) -> None:
    both = [
        fold(completed("m1", rows=5), completed("m2", rows=7), checked("m2", action)),
        fold(completed("m1", rows=5), checked("m2", action), completed("m2", rows=7)),
    ]
    for found in both:
        assert found.stand == ("m1", status, status)
        assert (found.partition.row_count, found.partition.version_count, found.held) == (5, 2, ["m2"])
    alone = fold(completed("m1"), checked("m1", action))
    assert alone.stand == (None, status, status)
    assert (alone.partition.row_count, alone.partition.last_success_at) == (None, None)


@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING])
def test_a_mild_failure_that_nobody_judged_changes_nothing(severity: Severity) -> None:
    assert fold(completed("m1"), checked("m1", None, severity=severity)).stand == ("m1", "complete", "published")


def test_the_worst_that_was_told_counts() -> None:
    worst = [checked("m1", GatingAction.QUARANTINE), checked("m1", BLOCK, check="c2")]
    assert fold(completed("m1"), *worst).statuses["m1"].judged == "quarantined"
    assert fold(*reversed(worst), completed("m1")).statuses["m1"].judged == "quarantined"


def test_quarantine_by_hand_makes_the_last_good_version_current_again_and_release_the_newest_one() -> None:
    made = [completed("m1", rows=1), completed("m2", rows=2), completed("m3", rows=3)]
    aside = fold(*made, quarantined("m3"))
    assert aside.stand == ("m2", "quarantined", "quarantined")
    assert (aside.partition.row_count, aside.partition.byte_size, aside.partition.current_version) == (2, 20, 2)
    row = aside.statuses["m3"]
    assert (row.status, row.judged, row.set_to, row.set_by) == ("quarantined", "published", "quarantined", "tester")
    assert (row.reason, row.version, row.asset_key) == ("looks wrong", 3, "key.a1")
    deeper = fold(*made, quarantined("m3"), quarantined("m2"), quarantined("m1"))
    assert (deeper.stand, deeper.partition.row_count) == ((None, "quarantined", "quarantined"), None)
    assert fold(*made, quarantined("m3"), quarantined("m2"), released("m2")).stand[0] == "m2"
    assert fold(*made, quarantined("m3"), quarantined("m2"), released("m3")).stand == ("m3", "complete", "published")


def test_releasing_an_older_version_does_not_make_it_current() -> None:
    found = fold(completed("m1", status="quarantined"), completed("m2", rows=2), released("m1"))
    assert (found.stand, found.partition.row_count) == (("m2", "complete", "published"), 2)
    assert found.statuses["m1"].status == "published"


def test_what_a_person_says_wins_over_checks_whenever_they_come() -> None:
    late = checked("m1", GatingAction.QUARANTINE)
    assert fold(completed("m1"), late, released("m1")).stand[0] == "m1"
    assert fold(completed("m1", status="quarantined"), released("m1"), late).stand[0] == "m1"
    again = completed("m1", status="quarantined")
    assert fold(again, released("m1"), again).stand[0] == "m1"
    assert fold(completed("m1"), quarantined("m1"), checked("m1", None, passed=True)).stand[0] is None


def test_the_last_of_several_decisions_counts() -> None:
    found = fold(completed("m1"), quarantined("m1"), released("m1"), quarantined("m1", "after all"))
    assert (found.stand[0], found.statuses["m1"].reason) == (None, "after all")
    assert found.held == ["m1"]


def test_a_failure_stays_the_last_word_on_the_partition() -> None:
    made = [completed("m1"), completed("m2", run="r2")]
    found = fold(*made, failed(run="r3", time=START + 5), quarantined("m2"))
    assert found.stand == ("m1", "failed", "quarantined")
    assert fold(*made, failed(run="r3", time=START + 5), quarantined("m2"), released("m2")).stand[:2] == (
        "m2",
        "failed",
    )


def test_a_decision_about_an_unknown_version_is_rejected() -> None:
    found = fold(completed("m1"), quarantined("m9"))
    assert found.refused == ["there is no version m9, so nobody can say how it stands"]
    assert found.stand[0] == "m1"


def test_what_was_held_back_is_listed_newest_first_until_it_is_deleted() -> None:
    events = [completed("m1"), completed("m2", status="quarantined"), quarantined("m1"), released("m2")]
    assert fold(*events).held == ["m1", "m2"]
    assert fold(*events, expired("m2")).held == ["m1", "m2"]
    assert fold(*events, expired("m2"), deleted("m2")).held == ["m1"]
    only_checked = fold(completed("m1"), checked("never-written", GatingAction.FAIL_RUN))
    assert (only_checked.held, list(only_checked.statuses)) == ([], ["never-written"])


def test_an_expired_version_is_past_checks_and_people() -> None:
    events = [completed("m1"), completed("m2"), expired("m1")]
    found = fold(*events, quarantined("m1"), released("m1"), checked("m1", BLOCK))
    assert (found.statuses["m1"].status, found.stand[0]) == ("expired", "m2")
    first = fold(*events).statuses["m1"]
    twice = fold(*events, expired("m1")).statuses["m1"]
    assert (twice.expired_at, twice.deleted_at) == (first.expired_at, None)
    assert fold(*events, deleted("m1")).statuses["m1"].status == "deleted"
    gone = fold(completed("m1", status="quarantined"), expired("m1"))
    assert gone.stand == (None, "expired", "expired")
    assert fold(completed("m1"), completed("m2", status="quarantined"), expired("m2")).stand[:2] == ("m1", "complete")


# Any history

NAMES = [f"m{number}" for number in range(5)]
steps = st.one_of(
    st.tuples(st.just("made"), st.sampled_from(NAMES), st.sampled_from(["published", "published", "quarantined"])),
    st.tuples(st.just("checked"), st.sampled_from(NAMES), st.sampled_from([None, *GatingAction])),
    st.tuples(st.sampled_from(["quarantine", "release", "expire"]), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("failed"), st.sampled_from(NAMES), st.none()),
)


def _partition(name: str) -> str:
    return "p1" if name in NAMES[:3] else "p2"


def _event(number: int, step: tuple[str, str, Any]) -> Event:
    kind, name, more = step
    match kind:
        case "made":
            return completed(name, partition=_partition(name), status=more, rows=int(name[1:]) + 1, run=f"r{number}")
        case "checked":
            return checked(name, more, check=f"c{number}", partition=_partition(name))
        case "failed":
            return failed(partition=_partition(name), run=f"r{number}", time=START + number)
        case "quarantine":
            return quarantined(name)
        case "release":
            return released(name)
        case _:
            return expired(name)


WORST = ["published", "blocked", "quarantined"]


class Model:
    """What is known of each version, and nothing derived."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.verdicts: dict[str, list[str]] = {name: [] for name in NAMES}
        self.word: dict[str, str] = {}
        self.ended: set[str] = set()

    def tell(self, step: tuple[str, str, Any]) -> None:
        kind, name, more = step
        is_there = name in self.made
        if kind == "made" and not is_there:
            self.made.append(name)
            self.verdicts[name].append(more)
        elif kind == "checked":
            harmless = more in (GatingAction.CONTINUE, GatingAction.WARN)
            verdict = "quarantined" if more is GatingAction.QUARANTINE else "published" if harmless else "blocked"
            self.verdicts[name].append(verdict)
        elif kind in ("quarantine", "release") and (is_there or self.is_known(name)):
            self.word[name] = "quarantined" if kind == "quarantine" else "published"
        elif kind == "expire" and (is_there or self.is_known(name)):
            self.ended.add(name)

    def is_known(self, name: str) -> bool:
        return any(verdict != "published" for verdict in self.verdicts[name])

    def status(self, name: str) -> str:
        if name in self.ended:
            return "expired"
        return self.word.get(name) or max(self.verdicts[name], key=WORST.index)

    def current(self, partition: str) -> str | None:
        good = [name for name in self.made if _partition(name) == partition and self.status(name) == "published"]
        return good[-1] if good else None


@settings(deadline=None, max_examples=150)
@given(st.lists(steps, max_size=14), st.data())
def test_the_current_version_is_the_newest_that_nothing_speaks_against(history: list[Any], data: st.DataObject) -> None:
    model = Model()
    for step in history:
        model.tell(step)
    events = [_event(number, step) for number, step in enumerate(history)]
    again = list(events)
    for _ in range(data.draw(st.integers(0, 2))):  # facts told once more change nothing, wherever they come
        told = [item for item in events if item.type in ("MaterializationCompleted", "CheckExecuted")]
        if told:
            again.append(data.draw(st.sampled_from(told)))
    cuts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))

    async def main() -> None:
        replica = await replica_of(LOG, [segments_of([[item] for item in again])])
        for partition in ("p1", "p2"):
            row = await replica.get(PARTITIONS, "a1", partition)
            if row is None:
                continue
            assert row.current_materialization_id == model.current(partition)
            mine = [name for name in model.made if _partition(name) == partition]
            assert row.version_count == len(mine)
            assert row.newest_status == (model.status(mine[-1]) if mine else None)
            current = None
            if row.current_materialization_id is not None:
                current = await replica.get(MATERIALIZATIONS, "a1", row.current_materialization_id)
            totals = (row.row_count, row.byte_size, row.file_count, row.current_version, row.last_success_at)
            assert totals == (
                (current.row_count, current.byte_size, current.file_count, current.version, current.completed_at)
                if current is not None
                else (None,) * 5
            )
        for name in model.made:
            status = await replica.get(VERSION_STATUS, "a1", name)
            assert (status.status if status is not None else "published") == model.status(name)
        segments = segments_of([[item] for item in again])
        batches, at = [], 0
        for size in cuts:
            batches.append(segments[at : at + size])
            at += size
        batches.append(segments[at:])
        other = await replica_of(LOG, [batch for batch in batches if batch])
        assert await digests(LOG, other) == await digests(LOG, replica)

    asyncio.run(main())


# Commands


async def _made(decider: Decider, *names: str, **more: Any) -> None:
    for name in names:
        await decider.append(completed(name, **more))


def test_a_version_is_quarantined_and_released_with_reason_actor_and_audit() -> None:
    async def work(decider: Decider) -> None:
        await _made(decider, "m1", "m2")
        (aside,) = await decider.decide(QuarantineVersion("a1", "m2", "prices are off"), actor="ann")
        assert (aside.type, aside.subject) == ("MaterializationQuarantined", "m2")
        (back,) = await decider.decide(ReleaseVersion("a1", "m2", "it was a sale"), actor="bob")
        assert back.type == "MaterializationReleased"
        audit = sorted(await decider.rows(AUDIT), key=lambda row: row["recorded_at"])
        assert [(row["action"], row["resource_type"], row["resource"], row["actor"]) for row in audit] == [
            ("QuarantinePartition", "materialization", "m2", "ann"),
            ("UnquarantinePartition", "materialization", "m2", "bob"),
        ]
        assert '"current_materialization_id":"m2"' in audit[0]["before"]
        assert '"current_materialization_id":"m1"' in audit[0]["after"]
        assert '"reason":"it was a sale"' in audit[1]["after"]

    deciding(LOG, work)


def test_the_same_status_again_is_answered_alike_and_writes_nothing() -> None:
    async def work(decider: Decider) -> None:
        await _made(decider, "m1")
        assert await decider.decide(ReleaseVersion("a1", "m1", "fine")) == []
        assert len(await decider.decide(QuarantineVersion("a1", "m1", "off"))) == 1
        assert await decider.decide(QuarantineVersion("a1", "m1", "off again")) == []
        (row,) = await decider.rows(VERSION_STATUS)
        assert row["reason"] == "off"

    deciding(LOG, work)


def test_unknown_versions_and_those_that_are_gone_are_refused() -> None:
    async def work(decider: Decider) -> None:
        await _made(decider, "m1", "m2")
        for command in (QuarantineVersion, ReleaseVersion):
            with pytest.raises(NotFound, match="no version 'm9'"):
                await decider.decide(command("a1", "m9", "why"))
            with pytest.raises(NotFound):
                await decider.decide(command("a2", "m1", "why"))
            with pytest.raises(Invalid):
                await decider.decide(command("a1", "m1", ""))
        await decider.append(expired("m1"))
        for command in (QuarantineVersion, ReleaseVersion):
            with pytest.raises(Refused, match="is expired since"):
                await decider.decide(command("a1", "m1", "why"))
        await decider.append(deleted("m1"))
        with pytest.raises(Refused, match="is deleted since"):
            await decider.decide(ReleaseVersion("a1", "m1", "why"))
        await decider.append(retention("materializations", START + 1))
        with pytest.raises(NotFound):
            await decider.decide(ReleaseVersion("a1", "m2", "why"))

    deciding(LOG, work)


def test_a_blocked_version_can_be_released() -> None:
    async def work(decider: Decider) -> None:
        await _made(decider, "m1")
        await decider.append(checked("m1", BLOCK))
        await decider.decide(ReleaseVersion("a1", "m1", "the check is wrong"))
        row = await decider.replica.get(PARTITIONS, "a1", "p1")
        assert (row.current_materialization_id, row.status) == ("m1", "complete")

    deciding(LOG, work)


# Retention

POLICY = RetentionPolicy()
NOW = START + 30 * DAY


def version(number: int, *, days: float) -> Materialization:
    fields: dict[str, Any] = dict.fromkeys(Materialization.__struct_fields__, "")
    fields |= {"files": (), "file_count": 0, "row_count": 0, "byte_size": 0, "schema_version": None, "started_at": 0}
    made = NOW - round(days * DAY)
    return Materialization(
        **{**fields, "materialization_id": f"m{number}", "version": number, "completed_at": made, "status": "published"}
    )


def held(row: Materialization, status: str = "quarantined", *, days: float | None = None) -> VersionStatus:
    made = known_version(row)
    at = row.completed_at if days is None else NOW - round(days * DAY)
    return VersionStatus(
        **{name: getattr(made, name) for name in made.__struct_fields__} | {"status": status, "held_at": at}
    )


def test_old_versions_expire_but_for_the_newest_ones() -> None:
    rows = [version(number, days=20 - number) for number in range(1, 7)]
    assert set(expirable(rows, {}, "m6", POLICY, NOW)) == {"m1", "m2", "m3", "m4"}
    assert set(expirable(rows, {}, "m6", RetentionPolicy(min_versions=5), NOW)) == {"m1"}
    assert set(expirable(rows, {}, "m6", RetentionPolicy(min_days=18), NOW)) == {"m1"}


def test_young_versions_stay_until_there_are_too_many() -> None:
    rows = [version(number, days=0.1) for number in range(1, 7)]
    assert expirable(rows, {}, "m6", POLICY, NOW) == {}
    found = expirable(rows, {}, "m6", RetentionPolicy(max_versions=4), NOW)
    assert found == {"m2": "4 newer versions are kept", "m1": "4 newer versions are kept"}


def test_the_current_version_stays_however_old_it_is() -> None:
    rows = [version(number, days=100) for number in (1, 2, 3)]
    statuses = {row.materialization_id: held(row) for row in rows[1:]}
    assert set(expirable(rows, statuses, "m1", RetentionPolicy(min_versions=1), NOW)) == {"m2", "m3"}


def test_a_version_that_is_held_back_stays_for_the_days_of_the_policy_and_keeps_no_good_one_from_staying() -> None:
    rows = [version(number, days=20) for number in (1, 2, 3, 4)]
    young = {"m4": held(rows[3], days=6), "m3": held(rows[2], "blocked", days=8)}
    assert set(expirable(rows, young, "m2", POLICY, NOW)) == {"m3"}
    everything = RetentionPolicy(min_versions=1, max_versions=1)
    assert set(expirable(rows, young, "m2", everything, NOW)) == {"m3", "m1"}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 40), st.sampled_from([None, "quarantined", "blocked", "expired"])), max_size=12),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 20),
)
def test_retention_never_takes_what_it_promises_to_keep(
    made: list[tuple[float, str | None]], least: int, most: int, days: int
) -> None:
    policy = RetentionPolicy(min_days=days, min_versions=least, max_versions=most)
    rows = [version(number, days=age) for number, (age, _) in enumerate(made, 1)]
    statuses = {
        row.materialization_id: held(row, status)
        for row, (_, status) in zip(rows, made, strict=True)
        if status is not None
    }
    good = [row for row in rows if row.materialization_id not in statuses]
    current = good[-1].materialization_id if good else None
    found = expirable(rows, statuses, current, policy, NOW)
    assert current not in found
    kept = [row for row in good if row.materialization_id not in found]
    assert len(kept) >= min(len(good), least, most)
    assert len(kept) <= most
    for row in rows:
        status = statuses.get(row.materialization_id)
        if row.materialization_id in found and (status is not None or len(good) <= most):
            assert row.completed_at < NOW - days * DAY
        if status is not None and status.status == "expired":
            assert row.materialization_id not in found
    left = {name: row for name, row in statuses.items() if name not in found}
    assert expirable([row for row in rows if row.materialization_id not in found], left, current, policy, NOW) == {}


def test_versions_expire_by_a_decision_and_their_files_are_free_after_the_grace() -> None:
    async def work(decider: Decider) -> None:
        policy = RetentionPolicy(min_versions=1, max_versions=1)
        await _made(decider, "m1", "m2", "m3")
        with pytest.raises(Conflict, match="m3 is kept"):
            await decider.decide(ExpireVersions("a1", ("m1", "m3"), policy))
        with pytest.raises(Conflict, match="not expired"):
            await decider.decide(DeleteVersions("a1", ("m1",), policy))
        (gone,) = await decider.decide(ExpireVersions("a1", ("m1", "m2"), policy))
        assert (gone.type, gone.subject) == ("MaterializationsExpired", "a1")
        with pytest.raises(Conflict):
            await decider.decide(ExpireVersions("a1", ("m1",), policy))
        with pytest.raises(Refused, match="kept for 24 hours"):
            await decider.decide(DeleteVersions("a1", ("m1",), policy))
        decider.runtime.suspend(24 * HOUR / 1_000_000 + 60)
        await decider.decide(DeleteVersions("a1", ("m1", "m2"), policy))
        assert {row["status"] for row in await decider.rows(VERSION_STATUS)} == {"deleted"}
        assert {row["action"] for row in await decider.rows(AUDIT)} == {"ExpireVersions", "DeleteVersions"}
        assert (await decider.replica.get(PARTITIONS, "a1", "p1")).version_count == 3

    deciding(LOG, work)


def test_statistics_of_files_are_the_last_ones_read_and_go_with_their_version() -> None:
    def refreshed(name: str, rows: int) -> Event:
        files = [{"path": "f", "size_bytes": 1, "row_count": rows}]
        payload = {"asset_id": "a1", "materialization_id": name, "files": files}
        return event("StatisticsRefreshed", payload, command="RefreshStatistics")

    async def main() -> None:
        events = [completed("m1"), completed("m2"), refreshed("m1", 5), refreshed("m1", 6), refreshed("m2", 7)]
        for log, expected in ((events, {"m1": 6, "m2": 7}), ([*events, expired("m1"), deleted("m1")], {"m2": 7})):
            replica = await replica_of(LOG, [segments_of([[item] for item in log])])
            rows = await rows_of(replica, FILE_STATISTICS)
            assert {row["materialization_id"]: row["row_count"] for row in rows} == expected

    asyncio.run(main())


def test_a_result_of_quality_is_what_this_domain_takes_for_one() -> None:
    """The two domains do not know each other: only the type checker and this compare the event with `Checked`."""
    result: Checked = CheckExecuted("c", "c", "x", "a", "p", "m", "r", "t", False, Severity.ERROR, START)
    assert judge_check(result) == "blocked"
    assert set(EXECUTION.shared) == {event.name for event in QUALITY.events}

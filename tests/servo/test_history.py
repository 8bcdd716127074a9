"""History: what is due is a pure function of few facts, and a year of work leaves no more behind than the rules say."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import DAY, NotFound, Refused, day_of
from arco.domains.access import SETTINGS, UpdateSettings
from arco.domains.catalog import TABLES, CreateNamespace, CreateTable, DropTable, Ref
from arco.domains.execution import ASSET_OBSERVED, MATERIALIZATIONS, AssetObserved
from arco.domains.lineage import LINEAGE_EDGES, LINEAGE_EXECUTION_DAYS, LINEAGE_METADATA, AddLineageEdge
from arco.domains.orchestration import ACTIVE_RUNS, PLAN_TASKS, RUN_LIST, RUNS, TASKS, WORKSPACE
from arco.domains.quality import CHECK_EXECUTED, CHECK_RESULT_DAYS, CHECK_RESULTS, CheckExecuted, Severity
from arco.runtime import DEFINITIONS
from arco.servo import RULES, Asked, Expiring, Rule, expire_history, reconcile_history
from arco.state import AUDIT, OPERATIONS, REQUESTS, RETENTION, AdvanceRetention, Hold, new_event, verify_revision
from arco.storage import Role
from tests.servo.world import World, project, run_world

DAY_SECONDS = 86_400.0
DOCUMENT = Path(__file__).parents[2] / "docs" / "retention.md"
DEFAULTS = {name: setting.default for name, setting in SETTINGS.items()}
NOW = 20_500 * DAY + 7

TIMES = st.integers(20_000 * DAY, NOW)


@given(st.sampled_from(RULES), TIMES | st.just(0), TIMES | st.none(), TIMES | st.none(), st.integers(1, 400))
def test_a_step_goes_neither_too_far_nor_twice_nor_for_nothing(
    rule: Rule, reached: int, oldest: int | None, held: int | None, days: int
) -> None:
    hold = None if held is None else Hold(held, "somebody needs it")
    settings = DEFAULTS | {rule.setting: days}
    one = Expiring("activity", "some", rule, reached, oldest, hold)
    found = reconcile_history([one], settings, NOW)
    if not found:
        limit = min(NOW - days * DAY, NOW if held is None else held) // DAY * DAY
        assert oldest is None or max(oldest, reached) >= limit
        return
    (step,) = found
    assert step.before % DAY == 0
    assert step.before <= NOW - days * DAY
    assert oldest is not None
    assert max(reached, oldest) < step.before
    assert held is None or step.before <= held
    after = Expiring("activity", "some", rule, step.before, oldest, hold)
    assert reconcile_history([after], settings, NOW + DAY - 8) == (), "a second one on the same day"


def checked(world: World, name: str, *, passed: bool = True, time: int | None = None) -> Any:
    return new_event(
        CHECK_EXECUTED,
        CheckExecuted(
            "check", "not empty", "row_count", "asset", "p", name, "r", "t", passed, Severity.ERROR,
            world.runtime.now() if time is None else time,
        ),
    )  # fmt: skip


async def pass_days(world: World, days: int = 1) -> None:
    """The process is suspended for most of it, so that nobody looks at the store every hour."""
    world.runtime.suspend(days * DAY_SECONDS - 5)
    await world.runtime.sleep(5)


async def stored(world: World) -> dict[str, int]:
    """Rows that lie in files, by table."""
    found: dict[str, int] = {}
    for log in world.workspace.logs.values():
        manifest = await log.compactor.compact()
        for name in log.definition.tables:
            rows = sum(layer.rows for layer in manifest.layers_of(name))
            found[f"{log.definition.log}.{name}"] = rows
    return found


async def verify(world: World) -> None:
    """What is published is what the log says."""
    for log in world.workspace.logs.values():
        manifest = await log.compactor.compact()
        compared = await verify_revision(
            log.definition, world.workspace.handle(Role.READER), log.follower.ledger, manifest
        )
        assert [found.table for found in compared if not found.equal] == []


def test_a_year_leaves_no_more_behind_than_the_rules_say() -> None:
    """Every day a run, a result of a check, an observation and a DDL; by rules of weeks, of which a year has many."""
    short = {
        "history.runs_days": 20,
        "history.checks_days": 20,
        "history.lineage_days": 20,
        "history.observations_days": 30,
        "history.rejections_days": 20,
        "history.requests_days": 8,
        "history.audit_days": 90,
    }

    async def day(world: World, number: int) -> None:
        await world.trigger()
        await world.work_off()
        await world.workspace.record(
            "activity",
            [
                checked(world, f"m{number}", passed=number % 3 > 0),
                new_event(
                    ASSET_OBSERVED,
                    AssetObserved(f"o{number}", "asset", "a.b", "p", "", "1", observed_at=world.runtime.now()),
                ),
                checked(world, "too late", time=5),
            ],
            actor="tester",
        )
        await world.workspace.decide("catalog", CreateNamespace((f"n{number}",)), actor="tester")
        await pass_days(world)

    async def test(world: World) -> tuple[list[dict[str, int]], dict[str, int]]:
        await world.workspace.decide("catalog", UpdateSettings(dict(short)), actor="tester")
        world.servo.history.start()
        sizes = []
        for number in range(365):
            await day(world, number)
            if number % 61 == 0 and number > 100:
                sizes.append(await stored(world))
        sizes.append(await stored(world))
        await world.servo.stop()
        activity = world.workspace.logs["activity"].replica
        seen = {
            table.name: (await activity.scan(table)).num_rows
            for table in (RUNS, TASKS, PLAN_TASKS, RUN_LIST, CHECK_RESULTS, CHECK_RESULT_DAYS, MATERIALIZATIONS)
        }
        await verify(world)
        return sizes, seen

    sizes, seen = run_world(test, deployed=project({"n.a": [], "n.b": ["n.a"]}))
    assert 20 <= seen["runs"] == seen["run_list"] <= 22
    assert seen["tasks"] == seen["plan_tasks"] == 2 * seen["runs"]
    assert 20 <= seen["check_results"] <= 22
    assert seen["check_result_days"] == 366, "one of 1970 was told before retention had come anywhere"
    assert seen["materializations"] == 730
    first, *_, last = sizes
    for name in (
        "activity.runs", "activity.tasks", "activity.plan_tasks", "activity.attempts", "activity.run_list",
        "activity.check_results", "activity.lineage_executions", "activity.observations", "activity.operations",
        "activity.rejections", "catalog.operations", "catalog.audit",
    ):  # fmt: skip
        most = max(size[name] for size in sizes)
        assert 0 < most <= 3 * min(size[name] for size in sizes), f"{name} is not flat: {[s[name] for s in sizes]}"
    for name in ("activity.materializations", "activity.check_result_days", "catalog.namespaces"):
        assert last[name] > 1.5 * first[name], name


def test_a_workspace_in_which_nothing_happens_is_left_alone() -> None:
    async def requests(world: World, *, keeps: bool) -> Counter[Any]:
        await world.trigger()
        await world.work_off()
        await world.runtime.sleep(60)
        if keeps:
            world.servo.history.start()
        tails = [log.follower.tail.number for log in world.workspace.logs.values()]
        before = Counter(world.workspace.counts.table())
        await pass_days(world, 120)
        await world.runtime.sleep(2 * DAY_SECONDS)
        assert [log.follower.tail.number for log in world.workspace.logs.values()] == tails
        await world.servo.stop()
        return Counter(world.workspace.counts.table()) - before

    deployed = project({"n.a": []})

    async def idle(world: World) -> Counter[Any]:
        return await requests(world, keeps=False)

    async def keeping(world: World) -> Counter[Any]:
        return await requests(world, keeps=True)

    assert run_world(keeping, deployed=deployed) == run_world(idle, deployed=deployed)


def test_the_first_event_of_a_day_costs_one_append_if_something_is_due() -> None:
    async def test(world: World) -> None:
        world.servo.history.start()
        await world.workspace.record("activity", [checked(world, "m0")], actor="tester")
        await pass_days(world, 100)
        log = world.workspace.logs["activity"].follower
        before = log.tail.number
        await world.workspace.record("activity", [checked(world, "m1")], actor="tester")
        await world.runtime.sleep(1)
        assert log.tail.number == before + 2
        await world.workspace.record("activity", [checked(world, "m2")], actor="tester")
        await world.runtime.sleep(1)
        assert log.tail.number == before + 3, "once a day"
        replica = world.workspace.logs["activity"].replica
        row = await replica.get(RETENTION, "check_results", "check_results")
        assert (row.actor, row.before) == ("servo", (world.runtime.now() - 90 * DAY) // DAY * DAY)
        assert {row.materialization_id for row in await replica.rows(CHECK_RESULTS, "asset")} == {"m1", "m2"}
        assert [row.result_count for row in await replica.rows(CHECK_RESULT_DAYS, "asset")] == [1, 2]
        await world.servo.stop()

    run_world(test)


def test_a_run_that_has_not_ended_holds_all_that_are_younger() -> None:
    async def test(world: World) -> None:
        done = await world.trigger("n.a")
        await world.work_off()
        await pass_days(world)
        waiting = await world.trigger("n.b")
        await pass_days(world, 100)
        found = await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=True)
        (runs,) = [one for one in found.expired if one.table == "runs"]
        assert runs.aged.rows > 0
        assert waiting in runs.advance.reason
        assert found.held == [f"runs: the run {waiting} has not ended"]
        with pytest.raises(Refused, match=f"the run {waiting} has not ended"):
            await world.workspace.decide(
                "activity", AdvanceRetention("runs", world.runtime.now() - 90 * DAY), actor="ann"
            )
        await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=False)
        replica = world.workspace.logs["activity"].replica
        assert await replica.get(RUNS, done, done) is None
        assert await replica.get(RUNS, waiting, waiting) is not None
        assert len(await replica.rows(ACTIVE_RUNS, WORKSPACE)) == 1
        assert await world.work_off() != []
        await verify(world)

    run_world(test, deployed=project({"n.a": [], "n.b": []}))


def test_what_an_expired_run_made_stays_and_the_run_is_said_to_be_gone() -> None:
    async def test(world: World) -> None:
        run_id = await world.trigger()
        await world.work_off()
        await pass_days(world, 100)
        as_of = world.runtime.now()
        await world.runtime.sleep(1)
        planned = await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=True)
        tables = {one.table: one for one in planned.expired}
        assert {"runs", "tasks", "attempts", "plan_tasks", "run_list", "lineage_executions"} <= set(tables)
        assert tables["tasks"].advance.table == "runs"
        assert tables["runs"].aged.bytes > 0
        assert day_of(tables["runs"].aged.oldest or 0) == "2026-01-01"
        replica = world.workspace.logs["activity"].replica
        assert await replica.get(RUNS, run_id, run_id) is not None, "a dry run changes nothing"
        await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=False)
        assert (await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=False)).expired == []
        assert await replica.get(RUNS, run_id, run_id) is None
        assert (await replica.scan(TASKS)).num_rows == (await replica.scan(RUN_LIST)).num_rows == 0
        assert (await replica.scan(MATERIALIZATIONS)).num_rows == 2
        assert (await replica.scan(LINEAGE_EXECUTION_DAYS)).num_rows == 1
        with pytest.raises(NotFound, match=f"the run {run_id} of 2026-01-01.* has expired"):
            await world.servo.runs.request_again(run_id, from_failure=False, at=world.runtime.now())
        before = await world.workspace.logs["activity"].snapshot(time=as_of)
        assert await before.get(RUNS, run_id, run_id) is not None, "time travel sees what was there"
        again = await world.trigger(mode="force")
        assert await world.work_off() == ["n.a", "n.b"]
        assert (await world.run_row(again)).state == "SUCCEEDED"
        await verify(world)

    run_world(test, deployed=project({"n.a": [], "n.b": ["n.a"]}))


def test_edges_go_a_year_after_their_asset_did_unless_they_are_used() -> None:
    async def test(world: World) -> None:
        await world.trigger()
        await world.work_off()
        catalog, activity = (world.workspace.logs[name].replica for name in ("catalog", "activity"))
        await world.workspace.decide("catalog", CreateNamespace(("s",)), actor="tester")
        for name in ("x", "y", "z"):
            await world.workspace.decide("catalog", CreateTable(("s", name)), actor="tester")
        rows = (await catalog.scan(TABLES)).to_pylist()
        ids = {row["name"]: row["table_id"] for row in rows if row["name"] in "xyz"}
        for source, target in (("x", "y"), ("y", "z")):
            await world.workspace.decide("activity", AddLineageEdge(ids[source], ids[target]), actor="tester")
        await world.workspace.decide("catalog", DropTable(Ref(path=("s", "x"))), actor="tester")
        await world.deploy(project({"n.a": []}))
        await pass_days(world, 360)
        assert (await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=True)).edges == []
        await pass_days(world, 10)
        found = await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=True)
        assert len(found.edges) == 2, "that of the dropped table, and that of the removed asset"
        assert (await activity.scan(LINEAGE_EDGES)).num_rows == 3
        await expire_history(world.workspace, DEFAULTS, Asked("ann"), dry_run=False)
        (left,) = (await activity.scan(LINEAGE_EDGES)).to_pylist()
        assert (left["source_id"], left["target_id"]) == (ids["y"], ids["z"])
        assert (await activity.scan(LINEAGE_METADATA)).num_rows == 1
        audit = [row["action"] for row in (await activity.scan(AUDIT)).to_pylist()]
        assert audit.count("ExpireLineageEdges") == 1
        await verify(world)

    run_world(test, deployed=project({"n.a": [], "n.b": ["n.a"]}))


def rows_of_the_document() -> list[tuple[tuple[str, ...], str, str]]:
    """Tables, how long they are kept, and the setting that says so, which is empty if they are kept for ever."""
    found = []
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[1] not in ("tables", "---"):
            tables = tuple(name.strip().strip("`") for name in cells[1].split(","))
            found.append((tables, cells[2], cells[3].strip("`") if cells[3].startswith("`history.") else ""))
    return found


def documented() -> dict[str, str]:
    """Every table that the document names, with the setting of its rule; empty if it is kept for ever."""
    return {name: setting for tables, _, setting in rows_of_the_document() for name in tables}


def test_history_is_kept_for_as_long_as_the_document_says() -> None:
    told = {}
    for tables, kept, setting in rows_of_the_document():
        found = re.match(r"(\d+) (day|year)", kept)
        assert kept.startswith("for ever") if not setting else found is not None, (tables, kept)
        if found is not None:
            told[setting] = round(int(found[1]) * (365.25 if found[2] == "year" else 1))
    assert told == {name: days for name, days in DEFAULTS.items() if name.startswith("history.")}


def test_the_audit_is_kept_for_seven_years() -> None:
    """A day goes as a whole, once all of it is so old."""

    async def test(world: World) -> None:
        catalog = world.workspace.logs["catalog"].replica
        world.servo.history.start()
        await world.workspace.decide("catalog", CreateNamespace(("first",)), actor="ann")
        kept = {}
        passed = 0
        for days in (2_556, 2_557, 2_558):
            await pass_days(world, days - passed)
            passed = days
            await world.workspace.decide("catalog", CreateNamespace((f"after {days}",)), actor="ann")
            await world.runtime.sleep(1)
            kept[days] = {row["resource"] for row in (await catalog.scan(AUDIT)).to_pylist() if row["actor"] == "ann"}
        await world.servo.stop()
        assert kept == {
            2_556: {"first", "after 2556"},
            2_557: {"first", "after 2556", "after 2557"},
            2_558: {"after 2556", "after 2557", "after 2558"},
        }
        await verify(world)

    run_world(test)


def test_every_table_is_covered_by_a_rule_or_said_to_be_kept_for_ever() -> None:
    ruled = {(log, table.name): rule.setting for rule in RULES for table in rule.tables for log in rule.logs}
    wanted: dict[str, str] = {}
    for definition in DEFINITIONS:
        for name, table in definition.tables.items():
            wanted[name] = ruled.get((definition.log, table.expires_with or name), "")
    for edges in ("lineage_edges", "lineage_metadata", "lineage_upstream", "lineage_ids"):
        wanted[edges] = "history.deleted_edges_days"
    assert documented() == wanted
    assert {rule.setting for rule in RULES} <= set(SETTINGS)


def test_settings_cannot_break_what_a_repeated_request_needs() -> None:
    assert SETTINGS["history.requests_days"].least == 8
    requests = {table.name for rule in RULES if rule.setting == "history.requests_days" for table in rule.tables}
    assert requests == {OPERATIONS.name, REQUESTS.name}

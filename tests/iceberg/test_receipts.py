"""The log hears of every commit: by its receipt, or from the pointers if that got lost."""

from typing import Any

import msgspec
import pytest

from arco.core import Unavailable
from arco.domains.catalog import DropTable, Ref
from arco.domains.tables import ICEBERG_COMMITTED, IcebergCommitted
from arco.iceberg import Pointer, Reconciler, Transactions, committed_event
from arco.iceberg._events import ROOM, committed_payload
from arco.iceberg._reconciler import IDLE_SECONDS, PASS_SECONDS
from arco.log import MAX_EVENT_BYTES, Command
from arco.state import new_event
from arco.storage import Operation, Role
from tests.doubles import run
from tests.iceberg.world import open_world, snapshot_of


def told(pointer: Pointer, metadata: Any, base: Any = None, *, aborted: bool = False) -> IcebergCommitted:
    return committed_payload(pointer, metadata, base, aborted=aborted)


def test_a_commit_is_told_with_its_columns_counts_and_source() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        now = world.runtime.now() // 1000
        counts = {"added-records": "7", "added-data-files": "1", "total-records": "7", "total-data-files": "1"}
        main_ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 11}
        await world.commit(
            table, snapshot_of(11, None, 1, now, **counts), main_ref, source="servo", run_id="r1", client="spark/4"
        )
        await world.set(table, "x", source="admin")
        await world.settle()
        first, second, third = await world.commits(table)
        assert (first.operation, first.is_schema_change, first.source) == (None, True, "external")
        assert (second.operation, second.added_rows, second.total_rows) == ("append", 7, 7)
        assert (second.lineage_confidence, second.run_id, second.client) == ("verified", "r1", "spark/4")
        assert (second.snapshot_id, second.is_schema_change) == (11, False)
        assert (third.operation, third.added_rows, third.total_rows) == (None, None, 7)
        assert (third.lineage_confidence, third.quality_status) == ("none", "not_checked")
        state = await world.state(table)
        assert state is not None
        assert (state.number, state.recorded_through, state.row_count, state.format_version) == (3, 3, 7, 2)
        assert await world.columns(table) == [("id", "long"), ("note", "string")]
        assert world.upkeep.receipts.lag().waiting == 0

    run(main())


def test_a_changed_schema_changes_the_columns_and_a_drop_takes_them_away() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        fields = [
            {"id": 2, "name": "remark", "type": "string", "required": False, "doc": "said"},
            {"id": 3, "name": "tags", "required": False, "type": {
                "type": "list", "element-id": 4, "element": "int", "element-required": False}},
        ]  # fmt: skip
        schema = {"type": "struct", "schema-id": 1, "fields": fields}
        await world.commit(
            table, {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}
        )
        await world.settle()
        assert await world.columns(table) == [("remark", "string"), ("tags", "list<int>")]
        await world.committer.drop(table, world.who())
        await world.settle()
        assert await world.columns(table) == []

    run(main())


def test_commits_that_follow_each_other_are_told_in_one_segment() -> None:
    async def main() -> None:
        world = await open_world()
        tables = [await world.create("one"), await world.create("two")]
        await world.settle()
        before = world.workspace.counts.count(Role.OWNER, Operation.CREATE)
        for number in range(20):
            await world.set(tables[number % 2], str(number))
        assert world.upkeep.receipts.lag().waiting == 20
        await world.settle()
        assert world.workspace.counts.count(Role.OWNER, Operation.CREATE) - before == 1
        assert [row.number for row in await world.commits(tables[0])] == list(range(1, 12))
        await world.set(tables[0], "later")
        await world.settle()
        assert world.workspace.counts.count(Role.OWNER, Operation.CREATE) - before == 2

    run(main())


def test_a_log_that_does_not_answer_holds_no_commit_up_and_is_told_later() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        gateway = world.workspace.logs["activity"].gateway
        submit = gateway.submit
        failures = 3

        async def failing(command: Command) -> Any:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise Unavailable("no")
            return await submit(command)

        gateway.submit = failing  # type: ignore[method-assign]
        await world.set(table, "a")
        assert world.upkeep.receipts.lag().waiting == 1
        await world.runtime.sleep(10)
        assert world.upkeep.receipts.lag().waiting == 0
        assert world.upkeep.receipts.lag().last_seconds > 0
        assert [row.number for row in await world.commits(table)] == [1, 2]

    run(main())


def test_what_a_crash_left_untold_is_told_from_the_pointers_in_the_same_words() -> None:
    async def main() -> None:
        world = await open_world()
        recorded: list[Any] = []
        record = world.workspace.record

        async def noted(log: str, events: Any, **options: Any) -> Any:
            recorded.extend(events)
            return await record(log, events, **options)

        world.workspace.record = noted  # type: ignore[method-assign]
        tell, untold = world.committer.on_committed, list[tuple[Any, Any]]()
        world.committer.on_committed = lambda committed, who: untold.append((committed, who))  # it dies there
        table = await world.create()
        await world.set(table, "a")
        await world.committer.drop(table, world.who())
        assert await world.commits(table) == []
        _, upkeep = world.process()  # another process, which remembers nothing
        looked = await upkeep.reconciler.reconcile(dry_run=True)
        assert [missing.number for missing in looked.missing] == [1, 2, 3]
        assert recorded == []
        found = await upkeep.reconciler.reconcile()
        assert (found.tables, [missing.number for missing in found.missing]) == (1, [1, 2, 3])
        restored, recorded[:] = list(recorded), []
        rows = await world.commits(table)
        for committed, who in untold:
            tell(committed, who)  # it was not dead after all
        await world.settle()
        assert sorted(recorded, key=lambda event: event.id) == sorted(restored, key=lambda event: event.id)
        assert await world.commits(table) == rows
        assert (await upkeep.reconciler.reconcile()).missing == ()

    run(main())


def test_a_gap_in_the_middle_is_found() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        tell, world.committer.on_committed = world.committer.on_committed, lambda committed, who: None
        await world.set(table, "lost")
        world.committer.on_committed = tell
        await world.set(table, "told")
        await world.settle()
        state = await world.state(table)
        assert state is not None
        assert (state.number, state.recorded_through) == (3, 1)
        assert [one.number for one in (await world.upkeep.reconciler.reconcile()).missing] == [2]
        state = await world.state(table)
        assert state is not None
        assert state.recorded_through == 3

    run(main())


def test_a_table_that_was_dropped_before_its_drop_was_told_is_looked_at_once_more() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        world.committer.on_committed = lambda committed, who: None
        fence = world.who()
        await world.committer.drop(table, fence)
        drop = DropTable(Ref(id=table), fence=fence.operation)
        await world.workspace.decide("catalog", drop, actor="ann", operation=fence.operation)
        found = await world.upkeep.reconciler.reconcile()
        assert [one.number for one in found.missing] == [2]
        state = await world.state(table)
        assert state is not None
        assert state.state == "dropped"
        assert (await world.upkeep.reconciler.reconcile()).tables == 0

    run(main())


def test_transactions_are_told_when_they_are_decided_and_aborted_numbers_leave_no_gap() -> None:
    async def main() -> None:
        world = await open_world()
        one, two = await world.create("one"), await world.create("two")
        edit = world.edit({"action": "set-properties", "updates": {"a": "1"}})
        await Transactions(world.committer, world.runtime).commit([(one, edit), (two, edit)], world.who())
        await world.settle()
        assert [row.transaction_id is None for row in await world.commits(one)] == [True, False]
        # A coordinator that died: its pointer is undecided and not told, until somebody aborts it.
        current = await world.committer.pointers.current(one)
        assert current is not None
        assert current.held is not None
        draft = msgspec.structs.replace(current.pointer, txn="01KDVEYM00000000000000000X", before=current.held)
        await world.committer.pointers.create(world.committer.pointers.prepare(current, draft))
        found = await world.upkeep.reconciler.reconcile()
        assert (found.missing, found.undecided) == ((), 1)
        await world.set(one, "after")
        await world.settle()
        assert [missing.number for missing in (await world.upkeep.reconciler.reconcile()).missing] == [3]
        assert [row.state for row in await world.commits(one)] == ["live", "live", "aborted", "live"]
        state = await world.state(one)
        assert state is not None
        assert (state.number, state.recorded_through) == (4, 4)

    run(main())


def test_a_pass_asks_the_store_once_per_table_it_knows() -> None:
    async def main() -> None:
        world = await open_world()
        for name in ("a", "b", "c"):
            await world.create(name)
        await world.settle()
        await world.upkeep.reconciler.reconcile()
        before = world.workspace.counts.count()
        await world.upkeep.reconciler.reconcile()
        assert world.workspace.counts.count() - before == 3

    run(main())


def test_the_loop_tells_what_is_missing_and_rests_when_nothing_is() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        world.committer.on_committed = lambda committed, who: None
        await world.set(table, "lost")
        passes = 0
        reconcile = Reconciler.reconcile

        async def counted(self: Reconciler, *, dry_run: bool = False) -> Any:
            nonlocal passes
            passes += 1
            return await reconcile(self, dry_run=dry_run)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Reconciler, "reconcile", counted)
            world.upkeep.start()
            await world.runtime.sleep(60)
            assert passes == 1
            state = await world.state(table)
            assert state is not None
            assert state.recorded_through == 2
            await world.runtime.sleep(24 * 3600)
            assert passes <= 3 + 24 * 3600 / (0.9 * IDLE_SECONDS) + IDLE_SECONDS / PASS_SECONDS
            await world.upkeep.stop()

    run(main())


@pytest.mark.parametrize("way", ["load", "commit"])
def test_whoever_meets_a_commit_that_was_not_told_tells_it_within_seconds(way: str) -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        dead, _ = world.process()
        dead.on_committed = lambda committed, who: None  # it dies after its pointer
        committer, upkeep = world.process()
        upkeep.start()
        await world.runtime.sleep(60)  # after its first pass
        await dead.commit(table, world.edit({"action": "set-properties", "updates": {"value": "lost"}}), world.who())
        if way == "load":
            assert await committer.load(table) is not None
        else:
            await committer.commit(table, world.edit({"action": "set-properties", "updates": {"v": "2"}}), world.who())
        await world.runtime.sleep(4)
        state = await world.state(table)
        assert state is not None
        assert state.recorded_through == (2 if way == "load" else 3)
        assert upkeep.reconciler.restored == 1
        assert sum(upkeep.receipts.lags.counts) == (1 if way == "load" else 2)
        assert upkeep.receipts.lag().last_seconds < 5
        await upkeep.stop()

    run(main())


def test_a_table_that_was_told_costs_no_request_when_it_is_met() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        committer, upkeep = world.process()
        upkeep.start()
        await world.runtime.sleep(60)
        await world.set(table, "told")
        await world.settle()
        assert await committer.load(table) is not None
        before = world.workspace.counts.count()
        await world.runtime.sleep(10)
        assert world.workspace.counts.count() == before
        assert upkeep.reconciler.restored == 0
        await upkeep.stop()

    run(main())


def test_a_commit_for_which_there_was_no_room_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = await open_world()
        world.upkeep.start()
        table = await world.create()
        await world.settle()
        monkeypatch.setattr("arco.iceberg._receipts.MAX_WAITING", 0)
        await world.set(table, "crowded")
        await world.runtime.sleep(4)
        state = await world.state(table)
        assert state is not None
        assert state.recorded_through == 2
        await world.upkeep.stop()

    run(main())


# The event


def test_the_event_of_a_pointer_is_always_the_same_and_fits() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        pointer = (await world.committer.pointers.history(table))[0]
        fields = [
            {"id": n, "name": f"column_{n}", "required": False, "type": "string", "doc": "d" * 2_000}
            for n in range(1, 4_001)
        ]
        loaded = await world.committer.load(table)
        assert loaded is not None
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        wide = {**loaded[1].value, "schemas": [schema], "current-schema-id": 0}
        event = committed_event(pointer, wide, None, aborted=False)
        assert event == committed_event(pointer, wide, None, aborted=False)
        assert len(event.data) < ROOM + 10_000 < MAX_EVENT_BYTES
        payload = told(pointer, wide)
        assert payload.columns is not None
        assert len(payload.columns) == 4_000
        assert payload.columns[0].doc is None

    run(main())


def test_secrets_stay_out_and_odd_metadata_is_no_trouble() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        pointer = (await world.committer.pointers.history(table))[0]
        loaded = await world.committer.load(table)
        assert loaded is not None
        value = loaded[1].value
        doc = "see https://ann:hunter2hunter2@example.com/x"
        field = {"id": 1, "name": "id", "required": False, "type": "variant", "doc": doc}
        schema = {"type": "struct", "schema-id": 0, "fields": [field]}
        payload = told(pointer, {**value, "schemas": [schema]})
        assert payload.columns is not None
        assert (payload.columns[0].doc, payload.columns[0].type) == ("***", "variant")
        await world.workspace.record("activity", [new_event(ICEBERG_COMMITTED, payload)], actor="x")
        for odd in ({}, {"schemas": 7}, {"format-version": 2, "current-schema-id": 5}):
            assert told(pointer, odd).columns == ()
        assert told(pointer, None).format_version == 0
        assert told(pointer, value, aborted=True).metadata_location == ""

    run(main())


def test_nobody_records_such_an_event_in_the_name_of_others() -> None:
    """`POST /events` has a closed list of types; see `wire.EventIn`."""
    from arco.wire import EventIn

    with pytest.raises(ValueError, match="type"):
        EventIn(type="IcebergCommitted", data={})  # type: ignore[arg-type]

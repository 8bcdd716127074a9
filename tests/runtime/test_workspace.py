"""A workspace from end to end, on memory and on disk: init, record, decide, publish, read, reopen, share."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from arco.core import (
    HOUR,
    Conflict,
    Corrupt,
    LostObject,
    NotFound,
    Outdated,
    Refused,
    Stale,
    Superseded,
    Unavailable,
    format_path,
    new_ulid,
)
from arco.domains.catalog import CATALOG, NAMES, NAMESPACES, CreateNamespace, DropNamespace, Ref, path_of_namespace
from arco.domains.execution import EXECUTION, MATERIALIZATIONS, PARTITIONS
from arco.log import InProcessForwarder, Receipt
from arco.runtime import Incarnation, Workspace, init_workspace, read_incarnation
from arco.state import (
    PINS,
    AdvanceRetention,
    Cadence,
    Collector,
    LocalRunner,
    PinRevision,
    define_log,
    digest_rows,
    examine_log,
    new_event,
    verify_revision,
)
from arco.state._domain import Domain
from arco.storage import LocalStore, MemoryStore, ObjectMissing, Role, Scope, Store, StoreFailed
from tests.doubles import FakeRuntime, FaultyStore
from tests.log.world import sealed
from tests.runtime.world import SCOPE, made, run
from tests.state.toy import SET, NoteSet, toy

Test = Callable[[FakeRuntime, Store], Coroutine[Any, Any, None]]


@pytest.fixture(params=["memory", "disk"])
def on_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Test], None]:
    def drive(test: Test) -> None:
        async def main(runtime: FakeRuntime) -> None:
            store: Store = MemoryStore(runtime) if request.param == "memory" else LocalStore(tmp_path)
            await init_workspace(store, SCOPE, runtime)
            await test(runtime, store)

        run(main)

    return drive


def on_memory(test: Test) -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        await test(runtime, store)

    run(main)


async def opened(runtime: FakeRuntime, store: Store, **options: Any) -> Workspace:
    return await Workspace.open(store, SCOPE, runtime, test_store=False, **options)


async def create(workspace: Workspace, *path: str, **more: Any) -> Receipt:
    command = CreateNamespace(path)
    return await workspace.decide("catalog", command, actor="me", **more)


async def paths(workspace: Workspace) -> list[str]:
    snapshot = await workspace.logs["catalog"].snapshot()
    ids = (await snapshot.scan(NAMESPACES)).column("namespace_id").to_pylist()
    return sorted([format_path(await path_of_namespace(snapshot, key)) for key in ids])


def test_what_was_decided_and_recorded_is_read_back(on_store: Callable[[Test], None]) -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await Workspace.open(store, SCOPE, runtime) as workspace:
            await create(workspace, "a")
            receipt = await create(workspace, "a", "b")
            with pytest.raises(Conflict):
                await create(workspace, "a")
            await workspace.published("catalog", receipt.position)
            assert await paths(workspace) == ["a", "a.b"]
            receipts = await asyncio.gather(
                *(
                    workspace.record("activity", [made(runtime, f"m{n}", f"a{n % 5}", f"p{n % 9}")], actor="w")
                    for n in range(60)
                )
            )
            last = max(found.position for found in receipts)
            manifest = await workspace.published("activity", last)
            assert int(manifest.watermark) >= last
            log = workspace.logs["activity"]
            snapshot = await log.snapshot()
            assert (await snapshot.scan(MATERIALIZATIONS)).num_rows == 60
            before = {table: digest_rows(table, await snapshot.scan(table)) for table in (MATERIALIZATIONS, PARTITIONS)}
            await log.compactor.rebuild()
            rebuilt = await log.snapshot()
            assert rebuilt.manifest.generation == 1
            for table, digest in before.items():
                assert digest_rows(table, await rebuilt.scan(table)) == digest
        # Another process, later.
        async with await opened(runtime, store) as workspace:
            assert await paths(workspace) == ["a", "a.b"]
            log = workspace.logs["activity"]
            assert (await log.replica.get(PARTITIONS, "a0", "p0")).version_count >= 1
            manifest = (await log.snapshot()).manifest
            handle = workspace.handle(Role.READER)
            compared = await verify_revision(log.definition, handle, log.follower.ledger, manifest)
            assert all(found.equal for found in compared)
            for opened_log in workspace.logs.values():
                findings = await examine_log(opened_log.definition, handle, opened_log.place, runtime)
                assert {found.level for found in findings} == {"ok"}

    on_store(test)


def test_closing_publishes_what_was_folded(on_store: Callable[[Test], None]) -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store, cadence=Cadence(interval=1000)) as workspace:
            await create(workspace, "a")
            await create(workspace, "b")
        async with await opened(runtime, store, compact=False, may_own=False) as reader:
            assert await paths(reader) == ["a", "b"]

    on_store(test)


def test_a_workspace_is_created_once_and_must_exist_to_be_opened(on_store: Callable[[Test], None]) -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        with pytest.raises(Conflict, match="acme/prod exists already"):
            await init_workspace(store, SCOPE, runtime)
        with pytest.raises(NotFound, match="no workspace acme/other here"):
            await Workspace.open(store, Scope("acme", "other"), runtime)
        found = await read_incarnation(store, SCOPE, runtime)
        assert (found.number, found.reason) == (1, "init")

    on_store(test)


def test_two_inits_at_once_make_one_workspace() -> None:
    async def main(runtime: FakeRuntime) -> None:
        store = MemoryStore(runtime)
        outcomes = await asyncio.gather(
            *(init_workspace(store, SCOPE, runtime) for _ in range(4)), return_exceptions=True
        )
        won = [found for found in outcomes if isinstance(found, Incarnation)]
        assert len(won) == 1
        assert all(isinstance(found, Conflict) for found in outcomes if found not in won)
        assert await read_incarnation(store, SCOPE, runtime) == won[0]

    run(main)


def test_a_damaged_incarnation_is_corrupt() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        path = f"{SCOPE.root}/incarnations/{0:013d}/{1:020d}"
        await store.put(path, b"{}", only_if_absent=False)
        with pytest.raises(Corrupt, match="is no incarnation"):
            await Workspace.open(store, SCOPE, runtime)

    on_memory(test)


def test_a_request_key_makes_a_repetition_harmless() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            key = new_ulid(runtime, runtime)
            command = CreateNamespace(("a",))
            first = await workspace.decide("catalog", command, actor="me", key=key)
            again = await workspace.decide("catalog", command, actor="me", key=key)
            assert (again.operation, again.position, again.replayed) == (first.operation, first.position, True)
            with pytest.raises(Conflict, match="used for another request"):
                await create(workspace, "b", key=key)
            event = made(runtime, "m")
            recorded = await workspace.record("activity", [event], actor="w", key=f"{key}:w")
            repeated = await workspace.record("activity", [event], actor="w", key=f"{key}:w")
            assert repeated.replayed
            assert repeated.position == recorded.position

    on_memory(test)


def test_reads_at_older_revisions_and_positions() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["catalog"]
            receipts = []
            for name in "abcd":
                receipts.append(await create(workspace, name))
                await workspace.published("catalog", receipts[-1].position)
            for number, receipt in enumerate(receipts, 1):
                for snapshot in (
                    await log.snapshot(position=receipt.position),
                    await log.snapshot(revision=number),
                ):
                    assert (await snapshot.scan(NAMES)).num_rows == number
            with pytest.raises(NotFound):
                await log.snapshot(revision=99)
            with pytest.raises(Stale):
                await log.snapshot(position=receipts[-1].position + (1 << 20))

    on_memory(test)


def test_a_reader_may_be_behind_and_says_so_or_waits() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store, cadence=Cadence(interval=100)) as workspace:
            log = workspace.logs["catalog"]
            await workspace.published("catalog", (await create(workspace, "a")).position)
            receipt = await create(workspace, "b")
            behind = await log.snapshot(strong=False)
            assert (behind.position < receipt.position, behind.manifest.number) == (True, 1)
            fresh = await log.snapshot(min_position=receipt.position, strong=False)
            assert fresh.position >= receipt.position
            assert (await fresh.scan(NAMES)).num_rows == 2
            assert (await log.snapshot(strong=False)).position == fresh.position
            with pytest.raises(Stale):
                await log.snapshot(min_position=receipt.position + (5 << 20))

    on_memory(test)


def test_a_process_that_may_not_own_forwards_or_says_that_it_cannot() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store, may_own=False, compact=False) as worker:
            with pytest.raises(Unavailable, match="may not own it"):
                await create(worker, "a")

    on_memory(test)


async def shared(
    runtime: FakeRuntime, store: Store, forwarder: InProcessForwarder, name: str, **options: Any
) -> Workspace:
    """A second process of the same machine, as far as forwarding goes."""
    incarnation = await read_incarnation(store, SCOPE, runtime)
    workspace = Workspace(store, SCOPE, runtime, incarnation, address=name, forwarder=forwarder, **options)
    for definition in (define_log("catalog", [CATALOG]), define_log("activity", [EXECUTION])):
        await workspace.open_log(definition)
    workspace.start()
    return workspace


def test_workspaces_side_by_side_forward_to_one_owner(on_store: Callable[[Test], None]) -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        forwarder = InProcessForwarder()
        one = await shared(runtime, store, forwarder, "one")
        two = await shared(runtime, store, forwarder, "two")
        worker = await shared(runtime, store, forwarder, "worker", may_own=False)
        everyone = (one, two, worker)
        await create(one, "a")
        await runtime.sleep(2)
        receipts = await asyncio.gather(*(create(everyone[n % 3], f"n{n}") for n in range(30)))
        assert len({receipt.position for receipt in receipts}) == 30
        outcomes = await asyncio.gather(*(create(w, "same") for w in everyone), return_exceptions=True)
        assert sum(isinstance(found, Receipt) for found in outcomes) == 1
        assert sum(isinstance(found, Refused) for found in outcomes) == 2
        last = max(found.position for found in outcomes if isinstance(found, Receipt))
        for workspace in everyone:
            await workspace.published("catalog", last)
            assert len(await paths(workspace)) == 32
        for workspace in everyone:
            await workspace.close()

    on_store(test)


def test_when_the_owner_is_gone_the_next_one_takes_over() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        forwarder = InProcessForwarder()
        one = await shared(runtime, store, forwarder, "one")
        two = await shared(runtime, store, forwarder, "two")
        await create(one, "a")
        await runtime.sleep(2)
        await create(two, "b")
        await one.close()
        forwarder.unregister(one.logs["catalog"].gateway)
        receipt = await create(two, "c")
        await two.published("catalog", receipt.position)
        assert await paths(two) == ["a", "b", "c"]
        with pytest.raises(Refused):
            await two.decide("catalog", DropNamespace(Ref(path=("nothing",))), actor="me")
        await two.close()

    on_memory(test)


def test_workspaces_without_a_way_to_each_other_still_agree() -> None:
    """Each appends itself when it must; the number decides, nothing is lost or done twice."""

    async def test(runtime: FakeRuntime, store: Store) -> None:
        one, two = await opened(runtime, store), await opened(runtime, store)
        for number in range(6):
            await create((one, two)[number % 2], f"n{number}")
        receipts = await asyncio.gather(create(one, "x"), create(two, "y"))
        last = max(receipt.position for receipt in receipts)
        for workspace in (one, two):
            await workspace.published("catalog", last)
            assert len(await paths(workspace)) == 8
        await one.close()
        await two.close()

    on_memory(test)


def test_a_cancelled_caller_undoes_nothing() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        faulty = FaultyStore(store)

        async def slow() -> None:
            await runtime.sleep(1)

        async with await opened(runtime, faulty) as workspace:
            await create(workspace, "a")
            faulty.on("create", path="ledger", hook=slow)
            caller = asyncio.create_task(create(workspace, "b"))
            await runtime.sleep(0.5)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            receipt = await create(workspace, "c")
            await workspace.published("catalog", receipt.position)
            assert await paths(workspace) == ["a", "b", "c"]

    on_memory(test)


def test_an_older_program_reads_and_does_not_write() -> None:
    newer = Domain("catalog", "catalog", 2, CATALOG.events, CATALOG.stages, CATALOG.commands)

    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store, definitions=(define_log("catalog", [newer]),)) as workspace:
            await create(workspace, "a")
        async with await opened(runtime, store) as old:
            assert await paths(old) == ["a"]
            with pytest.raises(Outdated):
                await create(old, "b")
            with pytest.raises(Outdated):
                await old.published("catalog", 9 << 20)
        async with await opened(runtime, store, compact=False) as reader:
            assert (await reader.logs["catalog"].snapshot()).manifest.folds["catalog"] == 2

    on_memory(test)


def test_a_store_that_fails_at_the_end_fails_the_close_and_leaves_no_loop_behind() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        faulty = FaultyStore(store)
        workspace = await opened(runtime, faulty, cadence=Cadence(interval=1000))
        await workspace.published("catalog", (await create(workspace, "a")).position)
        await create(workspace, "b")
        faulty.on("create", path="/delta", error=StoreFailed("503"), times=1000)
        with pytest.raises(Unavailable):
            await workspace.close()
        faulty.heal()
        calls = len(faulty.calls)
        await runtime.sleep(2 * 3600)
        assert len(faulty.calls) == calls
        # What was acknowledged is in the log, and the next process publishes it.
        async with await opened(runtime, store) as heir:
            receipt = await create(heir, "c")
            await heir.published("catalog", receipt.position)
            assert await paths(heir) == ["a", "b", "c"]

    on_memory(test)


def test_pins_and_retention_are_commands_of_every_log() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            await workspace.record("activity", [made(runtime, "m1")], actor="w")
            await runtime.sleep(10)
            await workspace.decide("activity", PinRevision("p", 1, "why", runtime.now() + 10**9), actor="me")
            receipt = await workspace.decide(
                "activity", AdvanceRetention("materializations", runtime.now()), actor="me"
            )
            manifest = await workspace.published("activity", receipt.position)
            assert [pin.pin_id for pin in manifest.pins] == ["p"]
            assert list(manifest.retention) == ["materializations"]
            snapshot = await workspace.logs["activity"].snapshot()
            assert (await snapshot.scan(MATERIALIZATIONS)).num_rows == 0
            assert (await snapshot.scan(PARTITIONS)).num_rows == 1

    on_memory(test)


def test_a_pin_keeps_a_retained_revision_and_one_that_is_gone_is_not_pinned() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["catalog"]
            for name in ("a", "b", "c"):
                await workspace.published("catalog", (await create(workspace, name)).position)
            expires = runtime.now() + 100 * HOUR
            await workspace.pin("catalog", PinRevision("keep", 2, "audit", expires), actor="me")
            with pytest.raises(NotFound, match="revision 987 of catalog is not retained"):
                await workspace.pin("catalog", PinRevision("never", 987, "audit", expires), actor="me")
            await runtime.sleep(50 * 3600)
            await workspace.published("catalog", (await create(workspace, "d")).position)
            with pytest.raises(NotFound, match="revision 1 of catalog is not retained"):
                await workspace.pin("catalog", PinRevision("late", 1, "audit", expires), actor="me")
            assert await log.replica.get(PINS, "never", "never") is None
            assert await log.replica.get(PINS, "late", "late") is None
            manifest = await workspace.published("catalog", (await create(workspace, "e")).position)
            assert [pin.pin_id for pin in manifest.pins] == ["keep"]
            assert (await log.snapshot(revision=2)).manifest.number == 2
            await runtime.sleep(60 * 3600)
            manifest = await workspace.published("catalog", (await create(workspace, "f")).position)
            assert manifest.pins == (), "an expired pin leaves the manifest"

    on_memory(test)


def test_a_runner_of_ones_own_does_the_heavy_work() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        jobs: list[object] = []

        class Mine(LocalRunner):
            async def refold(self, job: Any) -> Any:
                jobs.append(job)
                return await super().refold(job)

        incarnation = await read_incarnation(store, SCOPE, runtime)
        workspace = Workspace(
            store,
            SCOPE,
            runtime,
            incarnation,
            address="mine",
            runner=lambda handle, place: Mine(handle, place, runtime),
        )
        await workspace.open_log(define_log("catalog", [CATALOG]))
        await create(workspace, "a")
        await workspace.logs["catalog"].compactor.rebuild()
        assert len(jobs) == 1
        await workspace.close()

    on_memory(test)


def test_a_store_that_fails_while_opening_is_unavailable_and_not_an_empty_workspace() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            await create(workspace, "a")
        faulty = FaultyStore(store)
        faulty.on("get", path="manifests", error=StoreFailed("503"), times=1000)
        faulty.on("head", path="manifests", error=StoreFailed("503"), times=1000)
        with pytest.raises(Unavailable):
            await opened(runtime, faulty)

    on_memory(test)


# Processes that slept, state that is lost, incarnations that ended


@pytest.mark.parametrize("compact", [True, False])
def test_an_idle_process_whose_files_were_collected_goes_on_from_the_newest_revision(compact: bool) -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        busy = await opened(runtime, store, cadence=Cadence(fan_in=4))
        log = busy.logs["catalog"]
        await busy.published("catalog", (await create(busy, "a")).position)
        idle = await opened(runtime, store, compact=compact)
        for number in range(12):
            await busy.published("catalog", (await create(busy, f"n{number}")).position)
        await log.compactor.compact()
        runtime.suspend(40 * 24 * 3600.0)
        receipt = await create(busy, "later")
        await busy.published("catalog", receipt.position)
        gone = await Collector(busy.handle(Role.COLLECTOR), log.place, runtime).collect()
        named = {file.path for layer in idle.logs["catalog"].replica.base.layers for file in layer.files}
        assert named & {info.path for info in gone.files}
        await busy.close()
        if compact:
            await idle.published("catalog", receipt.position)
        last = await create(idle, "x")
        with pytest.raises(Conflict):
            await create(idle, "later")
        if compact:
            await idle.published("catalog", last.position)
            assert {"a", "later", "n11", "x"} <= set(await paths(idle))
        assert idle.logs["catalog"].compactor.failed is None
        await idle.close()

    on_memory(test)


def test_a_new_fold_version_does_not_fill_the_number_of_a_lost_segment() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store, definitions=[toy(1)]) as workspace:
            for number in range(10):
                receipt = await workspace.record("activity", [new_event(SET, NoteSet(f"n{number}", "x"))], actor="me")
                await workspace.published("activity", receipt.position)
            path = f"{SCOPE.root}/{workspace.logs['activity'].follower.sequence.path(3)}"
        await store.delete(path)
        newer = await opened(runtime, store, definitions=[toy(2, derive=str.upper)], compact=False)
        for _ in range(2):
            with pytest.raises(LostObject):
                await newer.record("activity", [new_event(SET, NoteSet("new", "x"))], actor="me")
        with pytest.raises(ObjectMissing):
            await store.get(path)

    on_memory(test)


def test_a_workspace_whose_head_is_sealed_opens_and_refuses_to_write() -> None:
    async def test(runtime: FakeRuntime, store: Store) -> None:
        async with await opened(runtime, store) as workspace:
            log = workspace.logs["catalog"]
            await create(workspace, "a")
            tail = await log.follower.catch_up()
            await log.follower.sequence.create(tail, sealed(log.place, log.follower.fold.link))
            assert (await log.compactor.compact()).seal
        async with await opened(runtime, store) as late:
            assert late.logs["catalog"].follower.sealed, "the manifest says so, without a look at the log"
            assert await paths(late) == ["a"]
            with pytest.raises(Superseded, match="sealed"):
                await create(late, "b")
            with pytest.raises(Superseded, match="sealed"):
                await late.logs["catalog"].compactor.compact()

    on_memory(test)

"""Collections by the clock: once a day if something changed, nothing asked while nothing does, never more than `gc`."""

from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from arco.backup import CollectionLoop, LastCollection, Selection, collect_workspace, erase, plan_erasure
from arco.backup._seal import seal_incarnation
from arco.core import DAY, HOUR, SECOND, StoreRefused, new_ulid
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Who
from arco.log import position_of
from arco.runtime import init_workspace
from arco.storage import MemoryStore, ObjectInfo, RequestCounts, Role, RoleStore, Scope, Store, s3_policy
from tests.backup.world import back_up, fill, open_again, paths, put_back
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.emulators.policies import evaluate
from tests.iceberg.house import House, Mortal, Process
from tests.runtime.world import SCOPE

HOURS = HOUR / SECOND
_names = count()


def in_dated_house(test: Callable[[House, Process], Coroutine[Any, Any, None]]) -> None:
    """In a house whose store dates its objects: what is young must not go."""

    async def main() -> None:
        house = House(FakeRuntime())
        house.objects = MemoryStore(house.runtime)
        await init_workspace(house.objects, SCOPE, house.runtime)
        process = await house.open()
        for name in ("a", "b"):
            await process.decide(CreateNamespace((name,)))
        await test(house, process)

    run(main())


class Watched(FaultyStore):
    """Of which is known how often it was listed, which only collections do here."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.listed: list[str] = []

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self.listed.append(prefix)
        return super().list(prefix)

    @property
    def requests(self) -> int:
        return len(self.listed) + len([operation for operation, _ in self.calls if operation != "persist"])

    @property
    def collections(self) -> int:
        return len([prefix for prefix in self.listed if prefix.endswith("/manifests/catalog")])


def loop_of(process: Process, base: Store, told: list[str] | None = None, **options: Any) -> CollectionLoop:
    told = [] if told is None else told
    return CollectionLoop(process.workspace, base, DAY, told=told.append, **options)


async def grow(process: Process, times: int = 40) -> None:
    """Revisions that are thinned later; more than are kept of a minute."""
    for _ in range(times):
        await process.decide(CreateNamespace((f"n{next(_names)}",)))
        await process.workspace.published("catalog", process.workspace.logs["catalog"].replica.watermark)


def test_what_nobody_reaches_goes_once_a_day_if_something_changed() -> None:
    async def work(house: House, process: Process) -> None:
        base, told = Watched(house.objects), list[str]()
        loop = loop_of(process, base, told)
        loop.start()
        await process.runtime.sleep(0.05 * HOURS)
        assert base.collections == 0, "what was opened is left alone for some minutes"
        await process.runtime.sleep(0.25 * HOURS)
        assert base.collections == 1, "this process does not know of a collection, so there is one"
        await process.runtime.sleep(72 * HOURS)
        assert base.collections == 1, "nothing was written since"
        await grow(process)
        before = await paths(house.objects)
        await process.runtime.sleep(0.1 * HOURS)
        assert base.collections == 2
        await process.runtime.sleep(2 * HOURS)
        await grow(process, 2)
        await process.runtime.sleep(19 * HOURS)
        assert base.collections == 2, "a day has not passed, and not nine tenths of one"
        await process.runtime.sleep(4 * HOURS)
        assert base.collections == 3
        gone = before - await paths(house.objects)
        assert {path.split("/")[3] for path in gone} >= {"manifests", "state"}
        assert loop.failed is None
        assert told
        assert all("objects are deleted" in text for text in told)
        await loop.stop()

    in_dated_house(work)


def test_an_idle_workspace_makes_no_request_for_it() -> None:
    async def work(house: House, process: Process) -> None:
        own = Mortal(house.objects, process.runtime)
        loop = loop_of(process, own)
        await loop.collect()
        loop.start()
        made = own.requests
        before = process.store.requests
        await process.runtime.sleep(72 * HOURS)
        assert own.requests == made
        assert process.store.requests - before < 73 * 4, "and an hour is one look at each log and its floor, as ever"
        await loop.stop()

    in_dated_house(work)


def test_a_collector_that_does_nothing_else_collects_every_day() -> None:
    async def work(house: House, process: Process) -> None:
        base = Watched(house.objects)
        loop = loop_of(process, base, always=True)
        loop.start()
        await process.runtime.sleep(0.5 * HOURS)
        assert base.collections == 1
        await process.runtime.sleep(24 * HOURS)
        assert base.collections == 2
        await loop.stop()

    in_dated_house(work)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [(StoreRefused("it is locked"), "it is locked"), (KeyError("x"), "KeyError('x'); this is a fault of arco")],
)
def test_trouble_is_told_and_the_next_one_tries_again(trouble: Exception, said: str) -> None:
    async def work(house: House, process: Process) -> None:
        base, told = Watched(house.objects), list[str]()
        await grow(process)
        await process.runtime.sleep(3 * HOURS)
        loop = loop_of(process, base, told)
        loop.start()
        await grow(process, 1)
        assert loop.owes()
        base.on("delete", error=trouble, times=10_000)
        await process.runtime.sleep(0.5 * HOURS)
        assert told == [f"the collection did not succeed, the next one tries again: {said}"]
        assert loop.failed is not None
        assert not loop.is_collecting
        assert not loop.owes(), "it is not kept open for a day because of that"
        base.heal()
        await process.runtime.sleep(25 * HOURS)
        assert loop.failed is None
        assert "objects are deleted" in told[-1]
        await loop.stop()

    in_dated_house(work)


def test_what_was_written_is_owed_a_collection_once_a_day() -> None:
    async def work(house: House, process: Process) -> None:
        base, known = Watched(house.objects), dict[Scope, LastCollection]()
        loop = loop_of(process, base, known=known)
        assert not loop.owes(), "who only reads keeps nothing open"
        await process.decide(CreateNamespace(("c",)))
        assert loop.owes()
        await loop.collect()
        await process.decide(CreateNamespace(("d",)))
        assert not loop.owes(), "it was collected today"
        await process.runtime.sleep(25 * HOURS)
        assert loop.owes()
        again = loop_of(process, base, known=known)
        assert again.owes(), "it was closed and opened again, and the process remembers"
        again.start()
        await process.runtime.sleep(0.5 * HOURS)
        assert not again.owes()
        assert base.collections == 2
        await again.stop()
        await loop_of(process, base, known=known).stop()

    in_dated_house(work)


def test_a_workspace_is_not_collected_again_because_it_is_opened_again() -> None:
    async def work(house: House, process: Process) -> None:
        base, known = Watched(house.objects), dict[Scope, LastCollection]()
        for _ in range(5):
            loop = loop_of(process, base, known=known)
            loop.start()
            await process.runtime.sleep(1 * HOURS)
            await loop.stop()
        assert base.collections == 1

    in_dated_house(work)


def test_what_a_restore_superseded_goes_when_it_is_old_enough_though_nobody_writes() -> None:
    async def work(house: House, process: Process) -> None:
        store = MemoryStore(house.runtime)
        await fill(process)
        await back_up(process, store)
        old = process.workspace.incarnation.id
        await put_back(house, store)
        later = await open_again(house)
        loop = loop_of(later, house.objects)
        loop.start()
        await later.runtime.sleep(1 * HOURS)
        assert await paths(house.objects, f"{SCOPE.root}/{old}/state"), "it has what the backup did not have"
        await later.runtime.sleep(22.5 * HOURS)
        assert await paths(house.objects, f"{SCOPE.root}/{old}/state"), "a day has not passed"
        await later.runtime.sleep(1 * HOURS)
        assert not await paths(house.objects, f"{SCOPE.root}/{old}/state")
        await loop.stop()

    in_dated_house(work)


async def erase_one(house: House) -> None:
    """Take the event of one namespace out of the log, as somebody at another machine does."""
    selection = Selection(positions={"catalog": ((position_of(1, 0), position_of(1, 0)),)})
    plan = await plan_erasure(house.objects, SCOPE, house.runtime, selection, "ticket 7")
    await erase(house.objects, SCOPE, house.runtime, plan, actor="dpo")


@pytest.mark.parametrize("reopened", [False, True])
def test_an_idle_server_buries_what_an_erasure_left_as_soon_as_it_is_old_enough(reopened: bool) -> None:
    """Whether it has the erased incarnation open or the one after it."""

    async def work(house: House, process: Process) -> None:
        old = process.workspace.incarnation.id
        loop = loop_of(process, house.objects)
        loop.start()
        await process.runtime.sleep(5 * HOURS)
        await process.decide(CreateNamespace(("late",)))
        await erase_one(house)
        folder = f"{SCOPE.root}/{old}/ledger/catalog/{0:013d}"
        if reopened:
            await loop.stop()
            later = await open_again(house)
            loop = loop_of(later, house.objects)
            loop.start()
        await process.runtime.sleep(0.9 * HOURS)
        assert len(await paths(house.objects, folder)) > 1
        await process.runtime.sleep(0.35 * HOURS)
        assert len(await paths(house.objects, folder)) == 1, "the seal"
        await loop.stop()

    in_dated_house(work)


def test_a_restore_that_was_interrupted_after_the_seal_has_nothing_buried() -> None:
    async def work(house: House, process: Process) -> None:
        loop, old = loop_of(process, house.objects), process.workspace.incarnation.id
        loop.start()
        await process.runtime.sleep(1 * HOURS)
        admin = RoleStore(house.objects, SCOPE, Role.ADMIN, RequestCounts())
        who = Who("ann", new_ulid(house.runtime, house.runtime))
        await seal_incarnation(admin, SCOPE.tenant, SCOPE.workspace, old, house.runtime, who, known={})
        before = await paths(house.objects, f"{SCOPE.root}/{old}")
        await process.runtime.sleep(5 * HOURS)
        assert before <= await paths(house.objects, f"{SCOPE.root}/{old}")
        assert not loop.owes()
        await loop.stop()

    in_dated_house(work)


def test_the_first_look_for_former_incarnations_is_owed() -> None:
    async def work(house: House, process: Process) -> None:
        assert not loop_of(process, house.objects).owes()
        await erase_one(house)
        later = await open_again(house)
        loop = loop_of(later, house.objects)
        assert loop.owes(), "nobody knows here what is left of them"
        await loop.collect()
        assert not loop.owes()

    in_dated_house(work)


def test_what_cannot_be_buried_is_tried_again_every_day_and_the_logs_are_not_collected_for_it() -> None:
    async def work(house: House, process: Process) -> None:
        store = MemoryStore(house.runtime)
        await fill(process)
        await back_up(process, store)
        old = process.workspace.incarnation.id
        await put_back(house, store)
        later = await open_again(house)
        base, told = Watched(house.objects), list[str]()
        await later.runtime.sleep(26 * HOURS)
        base.on("delete", path=f"/{old}/", error=StoreRefused("it is locked"), times=10_000)
        loop = loop_of(later, base, told)
        loop.start()
        await later.runtime.sleep(72 * HOURS)
        assert base.collections == 1
        assert len(told) == 3
        assert not loop.owes()
        base.heal()
        await later.runtime.sleep(24 * HOURS)
        assert base.collections == 1
        assert not await paths(house.objects, f"{SCOPE.root}/{old}/state")
        assert loop.failed is None
        await loop.stop()

    in_dated_house(work)


class Guarded(FaultyStore):
    """What the policy of the collector does not grant is denied."""

    def __init__(self, inner: Store, incarnation: str, former: str) -> None:
        super().__init__(inner)
        self._policy = s3_policy(Role.COLLECTOR, "lake", SCOPE, incarnation, former=[former])

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        self._check("s3:PutObject", path, {"s3:if-none-match": "*"} if only_if_absent else {})
        await super().put(path, data, only_if_absent=only_if_absent)

    async def delete(self, path: str) -> None:
        self._check("s3:DeleteObject", path, {})
        await super().delete(path)

    def _check(self, action: str, path: str, context: dict[str, str]) -> None:
        if not evaluate(self._policy, action, f"arn:aws:s3:::lake/{path}", context):
            raise StoreRefused(f"{action} of {path} is denied")


def test_the_exported_rights_of_the_collector_are_enough_to_bury_what_a_restore_superseded() -> None:
    async def work(house: House, process: Process) -> None:
        store = MemoryStore(house.runtime)
        await fill(process)
        await back_up(process, store)
        old = process.workspace.incarnation.id
        await put_back(house, store)
        later = await open_again(house)
        await later.runtime.sleep(26 * HOURS)
        await grow(later)
        await later.runtime.sleep(3 * HOURS)
        guarded = Guarded(house.objects, later.workspace.incarnation.id, old)
        done = await collect_workspace(guarded, SCOPE, later.runtime)
        folders = {info.path.split("/")[1] for info in done.buried[0].objects}
        assert folders >= {"ledger", "manifests", "state", "successors"}
        assert not await paths(house.objects, f"{SCOPE.root}/{old}/state")
        assert any(one.objects for one in done.logs)

    in_dated_house(work)


def test_every_request_of_a_collection_is_counted_by_its_workspace() -> None:
    async def work(house: House, process: Process) -> None:
        store = MemoryStore(house.runtime)
        await fill(process)
        await back_up(process, store)
        await put_back(house, store)
        later = await open_again(house)
        await later.runtime.sleep(26 * HOURS)
        base, counts = Watched(house.objects), later.workspace.counts
        before = counts.count()
        assert (await loop_of(later, base).collect()).objects
        assert counts.count() - before == base.requests

    in_dated_house(work)


@pytest.mark.parametrize("seed", range(5))
def test_two_collections_at_once_delete_what_one_deletes(seed: int) -> None:
    async def work(house: House, process: Process) -> None:
        process.runtime.bytes(8 * seed)  # other pauses each time
        await grow(process)
        await process.runtime.sleep(26 * HOURS)
        await grow(process, 1)
        expected = await collect_workspace(house.objects, SCOPE, process.runtime, dry_run=True)
        assert expected.objects
        before = await paths(house.objects)

        class Slow(FaultyStore):
            async def _call(self, operation: str, path: str, action: Any) -> Any:
                await process.runtime.sleep(process.runtime.uniform(0.0, 0.1))
                return await super()._call(operation, path, action)

        done: list[Any] = []

        async def collect() -> None:
            done.append(await collect_workspace(Slow(house.objects), SCOPE, process.runtime))

        tasks = [process.runtime.spawn(collect(), "collection") for _ in range(2)]
        for task in tasks:
            await task
        assert len(done) == 2
        left = {path for path in await paths(house.objects) if "/floor/" not in path}
        deleted = {path for path in before - left if "/floor/" not in path}
        assert deleted == {f"{SCOPE.root}/{info.path}" for info in expected.objects}
        again = await open_again(house)
        assert await again.workspace.logs["catalog"].current() == process.workspace.logs["catalog"].replica.watermark
        await again.workspace.close()

    in_dated_house(work)

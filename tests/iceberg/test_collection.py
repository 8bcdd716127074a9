"""Collection of Iceberg's objects: what is reachable, young or untold stays, whatever happened before."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import DAY, HOUR, SECOND, ArcoError
from arco.iceberg import GarbageKind, IcebergCollected, Transactions, _collection
from arco.iceberg._collection import METADATA_AGE, PROOF_AGE, PURGE_AGE
from arco.iceberg._garbage import logged_locations, old_decisions, old_metadata, pointer_floor
from arco.storage import ObjectInfo, Role, StoreFailed
from tests.doubles import FaultyStore, run
from tests.iceberg.stage import new_key
from tests.iceberg.world import World, open_world

DELETES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}


def kinds(done: IcebergCollected) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in done.garbage:
        found[one.kind] = found.get(one.kind, 0) + 1
    return found


def age(world: World, micros: int) -> None:
    world.runtime.suspend(micros / SECOND + 60)


async def write(world: World, path: str) -> None:
    """A file of an engine, or of a commit that came to nothing."""
    await world.workspace.handle(Role.ICEBERG).put(path, b"{}", only_if_absent=True)


def test_superseded_pointers_go_when_they_are_old_and_told() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        for value in "abc":
            await world.set(table, value)
        await world.settle()
        assert kinds(await world.upkeep.collector.collect()) == {}
        age(world, PROOF_AGE)
        await world.set(table, "new")  # by the store's clock: its newest object tells the time there
        looked = await world.upkeep.collector.collect(dry_run=True)
        assert kinds(looked) == {"pointer": 4}
        assert looked.floors == {table: 4}
        before = await world.paths()
        assert before == await world.paths()
        await world.settle()
        done = await world.upkeep.collector.collect()
        assert {one.info.path for one in done.garbage} == set(before) - set(await world.paths())
        for committer, upkeep in (world.process(), (world.committer, world.upkeep)):
            loaded = await committer.load(table)
            assert loaded is not None
            assert loaded[1].value["properties"]["value"] == "new"
            assert (await upkeep.reconciler.reconcile()).missing == ()
        await world.set(table, "newer")
        assert await world.committer.pointers.sequence(table).floor() == 4

    run(main())


def test_what_the_log_was_not_told_stays() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        await world.settle()
        world.committer.on_committed = lambda committed, who: None
        for value in "abc":
            await world.set(table, value)
        age(world, PROOF_AGE)
        await world.set(table, "new")
        assert (await world.upkeep.collector.collect(dry_run=True)).floors == {table: 1}
        await world.upkeep.collector.collect()
        assert [one.number for one in (await world.upkeep.reconciler.reconcile()).missing] == [2, 3, 4, 5]
        assert (await world.upkeep.collector.collect(dry_run=True)).floors == {table: 4}

    run(main())


def test_claims_go_a_day_after_their_keys_and_decisions_when_no_pointer_names_them() -> None:
    async def main() -> None:
        world = await open_world()
        one, two = await world.create("one"), await world.create("two")
        await world.set(one, "keyed", key=new_key(world.runtime))
        edit = world.edit({"action": "set-properties", "updates": {"a": "1"}})
        await Transactions(world.committer, world.runtime).commit([(one, edit), (two, edit)], world.who())
        await world.settle()
        age(world, PROOF_AGE - DAY)
        await world.set(one, "x")
        await world.settle()
        assert kinds(await world.upkeep.collector.collect()) == {}
        age(world, PROOF_AGE)
        await world.set(one, "y")
        await world.settle()
        # The newest pointer of `two` is the transaction's: its decision stays as long.
        assert kinds(await world.upkeep.collector.collect()) == {"pointer": 5, "claim": 1}
        assert len(await world.paths(f"{world.workspace.incarnation.id}/iceberg/txns")) == 1
        fresh, _ = world.process()
        loaded = await fresh.load(two)
        assert loaded is not None
        assert loaded[1].value["properties"]["a"] == "1"
        await world.set(two, "z")
        await world.settle()
        age(world, PROOF_AGE)
        await world.set(one, "y2")
        await world.settle()
        assert kinds(await world.upkeep.collector.collect())["decision"] == 1
        fresh, _ = world.process()
        loaded = await fresh.load(two)
        assert loaded is not None
        assert loaded[1].value["properties"]["value"] == "z"

    run(main())


def test_metadata_of_lost_commits_goes_and_that_of_won_ones_stays() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        for value in "abc":
            await world.set(table, value)
        await world.settle()
        folder = f"warehouse/{table.lower()}/metadata"
        won = set(await world.paths(folder))
        lost = f"{folder}/00002-11111111-1111-1111-1111-111111111111.metadata.json"
        await write(world, lost)
        for kept in ("00002.metadata.json", "snap-1.avro", "00099-11111111-1111-1111-1111-111111111111.metadata.json"):
            await write(world, f"{folder}/{kept}")
        assert kinds(await world.upkeep.collector.collect()) == {}
        age(world, METADATA_AGE)
        done = await world.upkeep.collector.collect()
        assert [one.info.path for one in done.garbage] == [lost]
        assert won <= set(await world.paths(folder))

    run(main())


def test_metadata_that_fell_out_of_the_log_goes_if_the_table_wants_it() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create(**DELETES)
        for value in "abcde":
            await world.set(table, value)
        await world.settle()
        age(world, METADATA_AGE)
        done = await world.upkeep.collector.collect()
        assert kinds(done) == {"metadata": 3}
        loaded = await world.process()[0].load(table)
        assert loaded is not None
        for location in logged_locations(loaded[1].value):
            assert await world.locations.exists(location)
        assert kinds(await world.upkeep.collector.collect()) == {}

    run(main())


def test_a_purged_table_loses_its_folder_after_a_day_and_others_keep_theirs() -> None:
    async def main() -> None:
        world = await open_world()
        gone, kept, alive = await world.create("gone"), await world.create("kept"), await world.create("alive")
        for table in (gone, kept, alive):
            await write(world, f"warehouse/{table.lower()}/data/1.parquet")
        await world.committer.drop(gone, world.who(), purge=True)
        await world.committer.drop(kept, world.who())
        await world.settle()
        assert kinds(await world.upkeep.collector.collect()) == {}
        age(world, PURGE_AGE)
        collector = world.process()[1].collector
        done = await collector.collect()
        assert kinds(done) == {"purged": 2}
        assert done.garbage[-1].info.path.endswith(".metadata.json"), "it tells where the rest lies"
        assert await world.paths(f"warehouse/{gone.lower()}") == []
        for table in (kept, alive):
            assert len(await world.paths(f"warehouse/{table.lower()}")) == 2
        assert kinds(await collector.collect()) == {}

    run(main())


def test_a_purge_leaves_a_folder_that_another_table_reaches_into() -> None:
    async def main() -> None:
        world = await open_world()
        gone = await world.create("gone")
        loaded = await world.committer.load(gone)
        assert loaded is not None
        copy = {**loaded[1].value, "table-uuid": "other"}
        other = "01KDVEYM00000000000000000T"
        await world.committer.commit(other, lambda base, location: copy, world.who(), creates=True)
        await world.committer.drop(gone, world.who(), purge=True)
        await world.settle()
        age(world, PURGE_AGE)
        done = await world.process()[1].collector.collect()
        assert kinds(done) == {}
        assert "reaches into" in done.left[0]

    run(main())


def test_a_store_in_trouble_deletes_nothing_and_an_interrupted_collection_goes_on() -> None:
    async def main() -> None:
        world = await open_world()
        table = await world.create()
        for value in "abc":
            await world.set(table, value)
        await world.settle()
        age(world, PROOF_AGE)
        await world.set(table, "new")
        await world.settle()
        faulty = FaultyStore(world.workspace._base)
        world.workspace._base = faulty
        collector = world.process()[1].collector
        before = await world.paths()
        faulty.on("get", error=StoreFailed("no"), path="metadata.json", times=100)
        with pytest.raises(Exception, match="no"):
            await collector.collect()
        faulty.heal()
        assert await world.paths() == before
        faulty.on("delete", error=StoreFailed("no"), skip=2, times=100)
        with pytest.raises(Exception, match="no"):
            await world.process()[1].collector.collect()
        faulty.heal()
        committer, upkeep = world.process()
        loaded = await committer.load(table)
        assert loaded is not None
        assert kinds(await upkeep.collector.collect()) == {"pointer": 2}

    run(main())


def test_a_floor_is_never_deleted_and_the_newest_pointer_neither() -> None:
    infos = {number: ObjectInfo(str(number), 1, number * HOUR) for number in range(1, 6)}
    assert pointer_floor(infos, newest=5, recorded_through=5, before=100 * HOUR) == 4
    assert pointer_floor(infos, newest=5, recorded_through=2, before=100 * HOUR) == 2
    assert pointer_floor(infos, newest=5, recorded_through=5, before=3 * HOUR) == 2
    assert pointer_floor(infos, newest=9, recorded_through=0, before=100 * HOUR) == 0
    path = "w/t/metadata/00002-11111111-1111-1111-1111-111111111111.metadata.json"
    listed = [ObjectInfo(path, 1, 0)]
    for committed, newest, found in (({}, 9, 0), ({2: "other"}, 9, 1), ({2: path}, 9, 0), ({2: "other"}, 2, 0)):
        old = old_metadata(listed, properties={}, reachable=(), committed=committed, newest=newest, before=1)
        assert len(old) == found


async def _history(world: World, chance: random.Random) -> list[str]:
    """Some days in the life of a warehouse."""
    tables = [await world.create(f"t{n}", **(DELETES if n % 2 else {})) for n in range(3)]
    alive = set(tables)
    tell = world.committer.on_committed
    for _ in range(chance.randint(5, 25)):
        table = chance.choice(tables)
        world.committer.on_committed = tell if chance.random() < 0.8 else lambda committed, who: None
        match chance.choice(["set", "set", "set", "key", "transaction", "orphan", "sleep", "drop", "stuck", "collect"]):
            case "set" if table in alive:
                await world.set(table, str(chance.random()))
            case "key" if table in alive:
                await world.set(table, "k", key=new_key(world.runtime))
            case "transaction" if len(alive) > 1:
                edit = world.edit({"action": "set-properties", "updates": {"t": str(chance.random())}})
                await world.transactions().commit([(one, edit) for one in sorted(alive)[:2]], world.who())
            case "orphan":
                number, unique = chance.randint(1, 9), f"{chance.getrandbits(128):032x}"
                name = "-".join((unique[:8], unique[8:12], unique[12:16], unique[16:20], unique[20:]))
                await write(world, f"warehouse/{table.lower()}/metadata/{number:05d}-{name}.metadata.json")
            case "sleep":
                age(world, chance.choice([HOUR, DAY, METADATA_AGE, PROOF_AGE]))
            case "drop" if len(alive) > 1 and table in alive:
                alive.remove(table)
                await world.committer.drop(table, world.who(), purge=chance.random() < 0.5)
            case "stuck" if table in alive:
                current = await world.committer.pointers.settled(table)
                assert current is not None
                txn = f"01KDVEYM{chance.getrandbits(80):018d}"[:26]
                draft = msgspec.structs.replace(current.pointer, txn=txn, before=current.held, key=None)
                await world.committer.pointers.create(world.committer.pointers.prepare(current, draft))
            case "collect":
                await world.upkeep.collector.collect()
    world.committer.on_committed = tell
    await world.settle()
    return sorted(alive)


async def _survive(seed: int) -> None:
    """A random history, and collections long after it: what was in force before must be so, and be told in full."""
    world, chance = await open_world(seed), random.Random(seed)
    alive = await _history(world, chance)
    clock = await world.create("clock")
    before = {table: await world.process()[0].load(table) for table in alive}
    for rounds in range(3):
        if rounds:
            age(world, PROOF_AGE)
            await world.set(clock, str(rounds))
            await world.settle()
        done = await world.process()[1].collector.collect()
        committer, upkeep = world.process()
        for table in alive:
            was, loaded = before[table], await committer.load(table)
            assert was is not None
            assert loaded is not None
            assert loaded[1].value == was[1].value
            assert loaded[0].held == was[0].held
            for location in logged_locations(loaded[1].value):
                assert await world.locations.exists(location), location
        assert all(one.kind is not GarbageKind.PURGED or one.table_id not in alive for one in done.garbage)
        found = await upkeep.reconciler.reconcile()
        assert not any(one.is_lost for one in found.missing)
        assert found.troubled == ()
    for table in alive:
        state, current = await world.state(table), await world.committer.pointers.current(table)
        assert state is not None
        assert current is not None
        assert state.recorded_through == current.tail.number - int(not current.decided)
        assert state.number == current.number


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_random_history_stays_readable_and_is_told_in_full(seed: int) -> None:
    run(_survive(seed))


MISTAKES: dict[str, tuple[str, Callable[..., Any]]] = {
    "pointers that the log was not told of": (
        "pointer_floor",
        lambda listed, **options: pointer_floor(listed, **{**options, "recorded_through": 1 << 40}),
    ),
    "the newest pointer": (
        "pointer_floor",
        lambda listed, **options: pointer_floor(listed, **{**options, "newest": 1 << 40}),
    ),
    "decisions that pointers name": (
        "old_decisions",
        lambda listed, folder, named, before: old_decisions(listed, folder, (), before),
    ),
    "metadata that is reachable": (
        "old_metadata",
        lambda listed, **options: old_metadata(listed, **{**options, "reachable": ()}),
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_deleting_too_much_is_noticed(what: str) -> None:
    name, wrong = MISTAKES[what]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_collection, name, wrong)
        for seed in range(60):
            try:
                run(_survive(seed))
            except (AssertionError, ArcoError):
                return
    pytest.fail(f"nobody noticed that {what} are deleted")

"""Tables come and go while processes die at any request, and while others do something else to them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from arco.core import ArcoError, NotFound
from arco.domains.catalog import DropTable, Ref, RenameTable
from arco.iceberg import AlreadyExists, CommitFailed, IdempotencyKey, Loaded, NoSuchTable, Who
from tests.iceberg.house import House, Process, commit_of, created, in_house, view_of

SET = commit_of({"action": "set-properties", "updates": {"k": "v"}})
T, U = ("a", "t"), ("b", "u")

Work = Callable[[Process, Who], Awaitable[Any]]

DONE, REFUSED, DEAD = "done", "refused", "dead"


async def _dying(process: Process, work: Awaitable[Any]) -> str:
    """What became of work in a process that may die."""
    try:
        await process.runtime.timeout(300, _wait(work))
    except TimeoutError:
        return DEAD
    except ArcoError:
        return DEAD if process.store.dead else REFUSED
    return DONE


async def _wait(work: Awaitable[Any]) -> Any:
    return await work


async def _state(process: Process, *paths: tuple[str, ...]) -> list[str | None]:
    """The id of each table that is there; what loads is what exists, and what is gone stays so."""
    found: list[str | None] = []
    for path in paths:
        exists = await process.tables.exists(path)
        try:
            loaded: Loaded | None = await process.tables.load(path)
        except NotFound:
            loaded = None
        assert exists == (loaded is not None)
        found.append(loaded.table_id if loaded else None)
    return found


def _crashes(prepare: Work, work: Work, check: Callable[[Process, str, Who], Awaitable[None]], *, keyed: bool) -> None:
    """Let a process die at every request of `work`, before and after it took effect; then `check` in a new one."""
    deaths = 0
    for applied in (False, True):
        for request in count(1):
            outcome = _death(prepare, work, check, request, applied, keyed)
            if outcome == DONE:
                break
            deaths += 1
    assert deaths > 4


def _death(
    prepare: Work,
    work: Work,
    check: Callable[[Process, str, Who], Awaitable[None]],
    request: int,
    applied: bool,
    keyed: bool,
) -> str:
    outcome = ""

    async def test(house: House, process: Process) -> None:
        nonlocal outcome
        await prepare(process, process.who())
        key = process.key("what") if keyed else None
        who = process.who(key)
        process.store.dies_at(request, applied=applied)
        outcome = await _dying(process, work(process, who))
        assert outcome in (DONE, DEAD)
        survivor = await house.open()
        await check(survivor, outcome, survivor.who(key))

    in_house(test)
    return outcome


async def _usable(process: Process, *paths: tuple[str, ...]) -> None:
    """Whatever happened, every name can be freed, taken and used."""
    for path in paths:
        with suppress(NoSuchTable):
            await process.tables.drop(path, process.who())
        made = await process.tables.create(path, created(), process.who())
        changed = await process.tables.commit(path, SET, process.who())
        assert changed.table_id == made.table_id
        await process.tables.drop(path, process.who())
        assert await _state(process, path) == [None]


async def _nothing(process: Process, who: Who) -> None:
    pass


async def _table(process: Process, who: Who) -> None:
    await process.tables.create(T, created(), who)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_create_that_dies_leaves_a_table_or_a_free_name(keyed: bool) -> None:
    async def create(process: Process, who: Who) -> None:
        await process.tables.create(T, created(), who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        (found,) = await _state(process, T)
        assert found or outcome == DEAD
        if keyed:
            again = await process.tables.create(T, created(), who)
            assert found in (None, again.table_id)
            assert await _state(process, T) == [again.table_id]
        elif found:
            with pytest.raises(AlreadyExists):
                await process.tables.create(T, created(), who)
        await _usable(process, T)

    _crashes(_nothing, create, check, keyed=keyed)


def test_a_staged_create_that_dies_leaves_a_table_or_a_free_name() -> None:
    def request(loaded: Loaded) -> Any:
        value = loaded.metadata
        return commit_of(
            {"action": "assign-uuid", "uuid": value["table-uuid"]},
            {"action": "add-schema", "schema": value["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": value["partition-specs"][0]},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": value["sort-orders"][0]},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": value["location"]},
            requirements=({"type": "assert-create"},),
        )

    kept: list[Loaded] = []

    async def create(process: Process, who: Who) -> None:
        kept[:] = [await process.tables.stage(T, created(), who)]
        await process.tables.commit(T, request(kept[0]), who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        (found,) = await _state(process, T)
        assert found or outcome == DEAD
        if found is None and kept:  # an orphan of the same uuid may be there; that is another id's
            again = await process.tables.commit(T, request(kept[0]), who)
            assert again.metadata["table-uuid"] == kept[0].metadata["table-uuid"]
        await _usable(process, T)

    _crashes(_nothing, create, check, keyed=False)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_drop_that_dies_is_done_or_was_never_asked_for(keyed: bool) -> None:
    async def drop(process: Process, who: Who) -> None:
        await process.tables.drop(T, who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        (found,) = await _state(process, T)
        if outcome == DONE:
            assert found is None
        assert await _state(process, T) == [found]
        if keyed and found is None:
            new = await process.tables.create(T, created(), process.who())
            await process.tables.drop(T, who)
            assert await _state(process, T) == [new.table_id]
        elif keyed:
            await process.tables.drop(T, who)
            assert await _state(process, T) == [None]
        await _usable(process, T)

    _crashes(_table, drop, check, keyed=keyed)


def test_a_name_is_free_for_the_next_as_soon_as_its_table_is_gone() -> None:
    async def drop(process: Process, who: Who) -> None:
        await process.tables.drop(T, who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        # Nobody looks before: who creates, renames to it or registers there finds the end of the drop.
        try:
            new = await process.tables.create(T, created(), who)
        except AlreadyExists:
            assert outcome == DEAD
            await process.tables.drop(T, process.who())
            return
        assert await _state(process, T) == [new.table_id]

    _crashes(_table, drop, check, keyed=False)

    async def two(process: Process, who: Who) -> None:
        await process.tables.create(T, created(), who)
        await process.tables.create(U, created(), process.who())

    async def check_rename(process: Process, outcome: str, who: Who) -> None:
        try:
            await process.tables.rename(U, T, who)
        except AlreadyExists:
            assert outcome == DEAD
            return
        assert (await _state(process, U, T))[0] is None

    _crashes(two, drop, check_rename, keyed=False)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_rename_that_dies_leaves_one_name(keyed: bool) -> None:
    async def rename(process: Process, who: Who) -> None:
        await process.tables.rename(T, U, who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        source, target = await _state(process, T, U)
        assert (source is None) != (target is None)
        assert target or outcome == DEAD
        if keyed:
            await process.tables.rename(T, U, who)
            assert await _state(process, T, U) == [None, source or target]
        await _usable(process, T, U)

    _crashes(_table, rename, check, keyed=keyed)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_register_that_dies_leaves_a_table_or_a_free_name(overwrite: bool, keyed: bool) -> None:
    kept: list[str] = []

    async def prepare(process: Process, who: Who) -> None:
        made = await process.tables.create(T, created(), who)
        kept[:] = [str(made.metadata_location)]
        await process.tables.commit(T, SET, process.who())
        if not overwrite:
            await process.tables.drop(T, process.who())

    async def register(process: Process, who: Who) -> None:
        await process.tables.register(T, kept[0], overwrite, who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        (found,) = await _state(process, T)
        assert found or (outcome == DEAD and not overwrite)
        if keyed:
            await process.tables.register(T, kept[0], overwrite, who)
        if keyed or outcome == DONE:
            assert (await process.tables.load(T)).metadata_location == kept[0]
        await _usable(process, T)

    _crashes(prepare, register, check, keyed=keyed)


def test_an_unregister_that_dies_loses_nothing() -> None:
    kept: list[Loaded] = []

    async def prepare(process: Process, who: Who) -> None:
        kept[:] = [await process.tables.create(T, created(), who)]

    async def unregister(process: Process, who: Who) -> None:
        await process.tables.unregister(T, who)

    async def check(process: Process, outcome: str, who: Who) -> None:
        last = await process.tables.unregister(T, who)  # the answer of the one that died, or of this one
        assert last.metadata == kept[0].metadata
        assert await _state(process, T) == [None]
        again = await process.tables.register(T, str(last.metadata_location), False, process.who())
        assert again.metadata == kept[0].metadata
        await _usable(process, T)

    _crashes(prepare, unregister, check, keyed=True)


def test_a_view_that_dies_on_the_way_leaves_a_view_or_a_free_name() -> None:
    async def create(process: Process, who: Who) -> None:
        await process.views.create(T, view_of(), who)
        await process.views.drop(T, process.who())

    async def check(process: Process, outcome: str, who: Who) -> None:
        if await process.views.exists(T):
            assert outcome == DEAD
            with pytest.raises(AlreadyExists, match=r"^View with same name already exists: a\.t$"):
                await process.tables.create(T, created(), who)
            await process.views.drop(T, process.who())
        await _usable(process, T)

    _crashes(_nothing, create, check, keyed=False)


# Races: something happens between two steps of somebody else


def _raced(
    prepare: Work, work: Work, other: Work, check: Callable[[Process, str, str], Awaitable[None]], *, least: int = 3
) -> None:
    """Before every request that `work` makes, let `other` happen in another process, from its start to its end."""
    for request in count(1):
        if not _race(prepare, work, other, check, request):
            break
    assert request > least


def _race(
    prepare: Work, work: Work, other: Work, check: Callable[[Process, str, str], Awaitable[None]], request: int
) -> bool:
    """Whether there was such a request."""
    hit = False

    async def test(house: House, process: Process) -> None:
        await prepare(process, process.who())
        rival = await house.open()
        second = ""

        async def strike() -> None:
            nonlocal second, hit
            hit = True
            second = await _dying(rival, other(rival, rival.who()))

        process.store.before(request, strike)
        first = await _dying(process, work(process, process.who()))
        assert first != DEAD
        if hit:
            assert second != DEAD
            await check(await house.open(), first, second)

    in_house(test)
    return hit


async def _drop(process: Process, who: Who) -> None:
    await process.tables.drop(T, who)


async def _rename(process: Process, who: Who) -> None:
    await process.tables.rename(T, U, who)


async def _commit(process: Process, who: Who) -> None:
    await process.tables.commit(T, SET, who)


async def _again(process: Process, who: Who) -> None:
    await process.tables.drop(T, who)
    await process.tables.create(T, created(), process.who())


def test_of_two_creates_of_one_name_one_wins() -> None:
    async def check(process: Process, first: str, second: str) -> None:
        assert sorted((first, second)) == [DONE, REFUSED]
        assert (await _state(process, T))[0] is not None
        await _usable(process, T)

    _raced(_nothing, _table, _table, check)


def test_no_commit_follows_a_drop() -> None:
    outcomes: list[str] = []

    async def check(process: Process, first: str, second: str) -> None:
        assert second == DONE
        outcomes.append(first)
        assert await _state(process, T) == [None]
        await _usable(process, T)

    _raced(_table, _commit, _drop, check)
    # It asks for the pointer, writes the metadata and creates the next pointer.
    assert outcomes[:3] == [REFUSED] * 3


def test_a_drop_goes_over_a_commit() -> None:
    async def check(process: Process, first: str, second: str) -> None:
        assert first == DONE
        assert await _state(process, T) == [None]

    _raced(_table, _drop, _commit, check)


def test_a_commit_never_lands_on_the_next_table_of_the_name_without_asking_it() -> None:
    kept: list[Loaded] = []

    async def prepare(process: Process, who: Who) -> None:
        kept[:] = [await process.tables.create(T, created(), who)]

    async def commit(process: Process, who: Who) -> None:
        uuid = {"type": "assert-table-uuid", "uuid": kept[0].metadata["table-uuid"]}
        updates = {"action": "set-properties", "updates": {"k": "v"}}
        await process.tables.commit(T, commit_of(updates, requirements=(uuid,)), who)

    async def check(process: Process, first: str, second: str) -> None:
        assert second == DONE
        assert "k" not in (await process.tables.load(T)).metadata["properties"]

    _raced(prepare, commit, _again, check)


def test_a_transaction_never_lands_on_the_next_table_of_the_name() -> None:
    async def prepare(process: Process, who: Who) -> None:
        await process.tables.create(T, created(), who)
        await process.tables.create(U, created(), process.who())

    async def commit(process: Process, who: Who) -> None:
        await process.tables.commit_all([(T, SET), (U, SET)], who)

    async def check(process: Process, first: str, second: str) -> None:
        assert second == DONE
        other = "k" in (await process.tables.load(U)).metadata["properties"]
        assert other == (first == DONE)

    _raced(prepare, commit, _again, check)


def test_a_drop_and_a_rename_of_one_table_leave_no_name() -> None:
    async def check(process: Process, first: str, second: str) -> None:
        assert await _state(process, T, U) == [None, None] or second == REFUSED
        await _usable(process, T, U)

    _raced(_table, _drop, _rename, check)

    async def check_rename(process: Process, first: str, second: str) -> None:
        assert second == DONE or first == DONE
        found = await _state(process, T, U)
        assert found[0] is None
        assert (found[1] is None) == (second == DONE)
        await _usable(process, T, U)

    _raced(_table, _rename, _drop, check_rename)


def test_of_two_renames_one_is_told_that_there_is_nothing() -> None:
    other = ("b", "x")

    async def rename(process: Process, who: Who) -> None:
        await process.tables.rename(T, other, who)

    async def check(process: Process, first: str, second: str) -> None:
        assert sorted((first, second)) == [DONE, REFUSED]
        source, target, elsewhere = await _state(process, T, U, other)
        assert source is None
        assert (target is not None) == (first == DONE)
        assert (elsewhere is not None) == (second == DONE)

    _raced(_table, _rename, rename, check)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_rename_does_not_count_if_the_table_was_dropped_before_it(keyed: bool) -> None:
    outcomes: list[str] = []
    kept: list[Loaded] = []

    async def prepare(process: Process, who: Who) -> None:
        kept[:] = [await process.tables.create(T, created(), who)]

    async def rename(process: Process, who: Who) -> None:
        await process.tables.rename(T, U, process.who(process.key("rename")) if keyed else who)

    async def fence(process: Process, who: Who) -> None:
        await process.iceberg.committer.drop(kept[0].table_id, who)

    async def check(process: Process, first: str, second: str) -> None:
        assert second == DONE
        outcomes.append(first)
        assert await _state(process, T, U) == [None, None]

    _raced(prepare, rename, fence, check)
    # It asks the pointer, appends the event, and asks again; a keyed one looks for an earlier one first.
    assert outcomes[:3] == [REFUSED] * 3
    assert outcomes.count(REFUSED) >= 3 + 2 * keyed


def test_of_two_requests_of_one_key_both_have_the_answer_of_the_first() -> None:
    keys: list[IdempotencyKey] = []
    answers: list[str] = []

    async def prepare(process: Process, who: Who) -> None:
        keys[:] = [process.key("create")]
        answers.clear()

    async def create(process: Process, who: Who) -> None:
        answers.append((await process.tables.create(T, created(), process.who(keys[0]))).table_id)

    async def check(process: Process, first: str, second: str) -> None:
        assert (first, second) == (DONE, DONE)
        assert len(set(answers)) == 1
        assert await _state(process, T) == answers[:1]

    _raced(prepare, create, create, check)


def test_a_rename_does_not_hinder_a_commit() -> None:
    async def check(process: Process, first: str, second: str) -> None:
        assert second == DONE
        source, target = await _state(process, T, U)
        assert source is None
        assert target is not None
        landed = "k" in (await process.tables.load(U)).metadata["properties"]
        assert landed == (first == DONE)

    _raced(_table, _commit, _rename, check)


def test_of_two_drops_one_is_told_that_there_is_nothing() -> None:
    async def check(process: Process, first: str, second: str) -> None:
        assert sorted((first, second)) == [DONE, REFUSED]
        assert await _state(process, T) == [None]

    _raced(_table, _drop, _drop, check)


def test_a_table_that_is_dropped_and_made_again_while_it_is_loaded_is_found() -> None:
    async def load(process: Process, who: Who) -> None:
        await process.tables.load(T)

    async def check(process: Process, first: str, second: str) -> None:
        assert (first, second) == (DONE, DONE)

    _raced(_table, load, _again, check, least=1)


def test_a_drop_of_weeks_ago_is_brought_to_its_end() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.tables.create(T, created(), process.who())
        await process.iceberg.committer.drop(made.table_id, process.who())
        await process.runtime.sleep(30 * 24 * 3600)
        assert await _state(process, T) == [None]
        await _usable(process, T)

    in_house(test)


def test_the_event_of_a_drop_names_its_pointer_and_who_dropped() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.tables.create(T, created(), process.who())
        who = Who("bob", process.who().operation)
        await process.iceberg.committer.drop(made.table_id, who)
        assert not await process.tables.exists(T)
        receipt = await process.workspace.find_operation("catalog", who.operation)
        assert receipt is not None
        with pytest.raises(NotFound):
            await process.decide(DropTable(Ref(id=made.table_id), fence="x"))

    in_house(test)


def test_an_operation_that_is_used_twice_still_drops() -> None:
    async def test(house: House, process: Process) -> None:
        who = process.who()
        await process.tables.create(T, created(), who)
        await process.tables.drop(T, who)
        assert await _state(process, T) == [None]

    in_house(test)


def test_arcos_own_rename_of_a_dropped_table_does_not_bring_it_back() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.tables.create(T, created(), process.who())
        await process.iceberg.committer.drop(made.table_id, process.who())
        await process.decide(RenameTable(Ref(path=T), U))
        assert await _state(process, T, U) == [None, None]
        await _usable(process, T, U)

    in_house(test)


def test_a_key_is_not_taken_for_another_request() -> None:
    async def test(house: House, process: Process) -> None:
        key = process.key("drop a.t")
        await process.tables.create(T, created(), process.who())
        await process.tables.drop(T, process.who(key))
        await process.tables.create(U, created(), process.who())
        with pytest.raises(CommitFailed, match=r"^Idempotency-Key reused"):
            await process.tables.drop(U, process.who(IdempotencyKey(key.text, "drop b.u")))
        assert await process.tables.exists(U)

    in_house(test)

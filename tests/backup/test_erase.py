"""Erasure from end to end, on memory: what is gone, what stays, and who can do nothing any more."""

import contextlib
import io
import zipfile
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
import zstandard

from arco.backup import Erased, Selection, bury, erase, plan_erasure, prune
from arco.backup._survey import Editing
from arco.core import Conflict, Corrupt, NotFound, Outdated, Refused, Superseded
from arco.domains.catalog import CreateNamespace, CreateTable, Ref, UpdateTable
from arco.domains.execution import MATERIALIZATIONS
from arco.log import FIRST_LINK, Blobs, Place, position_of, read_log
from arco.runtime import DEFINITIONS, Incarnation, open_incarnation, read_incarnations
from arco.state import AUDIT, ERASURES, Revisions, open_ledger
from arco.storage import MIN_AGE, MemoryStore, RequestCounts, Role, RoleStore, Store, Tail
from tests.backup.test_restore import KINDS, SET, check_healthy, colour
from tests.backup.world import Crash, Dying, back_up, newer_format, newest_of, open_again, paths, put_back, vault_of
from tests.iceberg.house import House, Process, commit_of, in_house
from tests.runtime.world import SCOPE, made

REASON = "ticket 7"
MARK = "jane.roe@acme.com"
"""What must be nowhere afterwards."""


def in_dated_house(test: Callable[[House, Process], Coroutine[Any, Any, None]]) -> None:
    """As `in_house`, on a store whose objects are dated by the test's clock."""

    async def main(house: House, process: Process) -> None:
        dated = House(house.runtime)
        dated.objects, dated.outside = MemoryStore(house.runtime), house.outside
        async for info in house.objects.list(""):
            await dated.objects.put(info.path, await house.objects.get(info.path), only_if_absent=True)
        await process.workspace.close()
        await test(dated, await dated.open())

    in_house(main)


async def erased(house: House, selection: Selection, *, through: Store | None = None) -> Erased:
    base, runtime = through or house.objects, house.runtime
    plan = await plan_erasure(base, SCOPE, runtime, selection, REASON)
    return await erase(base, SCOPE, runtime, plan, actor="dpo")


def at(log: str, position: int) -> Selection:
    return Selection(positions={log: ((position, position),)})


async def readable(store: Store) -> AsyncIterator[tuple[str, bytes]]:
    """Every object of a store in the clear: segments, packs, deltas, Parquet, archives."""
    async for info in store.list(""):
        data = await store.get(info.path)
        yield info.path, info.path.encode() + data + b"".join(_frames(data)) + b"".join(_columns(data)) + _zipped(data)


def _frames(data: bytes) -> list[bytes]:
    """What any zstd frame in an object holds."""
    found, at = [], data.find(b"\x28\xb5\x2f\xfd")
    while at >= 0:
        with contextlib.suppress(zstandard.ZstdError):  # the four bytes were a coincidence
            found.append(zstandard.ZstdDecompressor().decompressobj().decompress(data[at:]))
        at = data.find(b"\x28\xb5\x2f\xfd", at + 1)
    return found


def _columns(data: bytes) -> list[bytes]:
    """The rows of every Parquet file in an object, however it is compressed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found, start = [], data.find(b"PAR1")
    while start >= 0:
        end = data.find(b"PAR1", start + 4)
        while end >= 0:
            try:
                found.append(repr(pq.read_table(pa.BufferReader(data[start : end + 4])).to_pylist()).encode())
                break
            except (pa.ArrowException, OSError):
                end = data.find(b"PAR1", end + 4)
        start = data.find(b"PAR1", (end if end >= 0 else start) + 4)
    return found


def _zipped(data: bytes) -> bytes:
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return b""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


async def holders(store: Store, text: str = MARK) -> list[str]:
    return [path async for path, data in readable(store) if text.encode() in data]


async def events(house: House, log: str) -> dict[int, Any]:
    """Every event of the newest incarnation, by position."""
    reader = RoleStore(house.objects, SCOPE, Role.READER, RequestCounts())
    life = (await read_incarnations(house.objects, SCOPE, house.runtime))[-1]
    place = Place(SCOPE.tenant, SCOPE.workspace, life.id, log)
    ledger = open_ledger(reader, Revisions(reader, place, house.runtime))
    found: dict[int, Any] = {}
    async for one in read_log(ledger, Tail(0, float("-inf")), FIRST_LINK):
        if not isinstance(one, Tail):
            for index, event in enumerate(one[0].events):
                found[position_of(one[0].header.number, index)] = event
    return found


async def fill(house: House, process: Process) -> None:
    """Personal data wherever it can be: who did it, owners, descriptions, facts, state of all ages, a table."""
    workspace, runtime = process.workspace, house.runtime
    command = CreateTable(("c", "people"), owners=(MARK,), description=f"ask {MARK}")
    await process.decide(CreateNamespace(("c",)))
    await workspace.decide("catalog", command, actor=MARK)
    await workspace.record("activity", [made(runtime, n) for n in ("m1", "m2")], actor=MARK)
    await process.create("a.one")
    for log in workspace.logs:
        await workspace.published(log, await workspace.logs[log].current())
    await workspace.record("activity", [made(runtime, "m3")], actor="ann")


def test_a_text_is_nowhere_in_the_store_afterwards() -> None:
    async def main(house: House, process: Process) -> None:
        await fill(house, process)
        assert await holders(house.objects)
        before = {log: await events(house, log) for log in ("catalog", "activity")}
        await house.runtime.sleep(2 * MIN_AGE)
        done = await erased(house, Selection(texts=(MARK,)))
        assert not await holders(house.objects)
        assert not any(one.waiting for one in done.buried)
        for log, found in before.items():
            after = await events(house, log)
            *same, note = after
            assert same == list(found), "positions stay"
            assert after[note].type == "WorkspaceErased"
            assert [(one.id, one.type, one.time) for one in found.values()] == [
                (after[position].id, after[position].type, after[position].time) for position in found
            ]
        again = await house.open()
        rows = await (await again.workspace.logs["activity"].frozen()).scan(MATERIALIZATIONS)
        assert sorted(rows.column("materialization_id").to_pylist()) == ["m1", "m2", "m3"]
        await check_healthy(again)
        await again.tables.commit(("a", "one"), commit_of(SET), again.who())
        assert await colour(again, "a", "one") == "red"

    in_dated_house(main)


def test_an_event_leaves_its_position_id_and_time_and_the_reason() -> None:
    async def main(house: House, process: Process) -> None:
        told = await process.workspace.record("activity", [made(house.runtime, MARK)], actor="ann")
        await process.workspace.record("activity", [made(house.runtime, "m2")], actor="ann")
        before = await events(house, "activity")
        await house.runtime.sleep(2 * MIN_AGE)
        await erased(house, at("activity", told.position))
        event = (await events(house, "activity"))[told.position]
        was = before[told.position]
        assert (event.id, event.time, event.operation) == (was.id, was.time, was.operation)
        assert (event.type, event.actor, event.subject) == ("EventErased", "erased", "")
        assert msgspec.json.decode(event.data) == {"type": was.type, "reason": REASON}
        assert not await holders(house.objects)
        again = await house.open()
        snapshot = await again.workspace.logs["activity"].frozen()
        assert (await snapshot.scan(MATERIALIZATIONS)).column("materialization_id").to_pylist() == ["m2"]
        await check_healthy(again)

    in_dated_house(main)


def test_the_audit_says_who_erased_what_kind_and_why() -> None:
    async def main(house: House, process: Process) -> None:
        await fill(house, process)
        done = await erased(house, Selection(texts=(MARK,)))
        again = await house.open()
        for log, opened in again.workspace.logs.items():
            snapshot = await opened.frozen()
            [row] = (await snapshot.scan(ERASURES)).to_pylist()
            assert (row["incarnation"], row["reason"], row["actor"]) == (done.incarnation.id, REASON, "dpo")
            assert dict(row["types"]) == done.plan.edited[log]
            said = [one for one in (await snapshot.scan(AUDIT)).to_pylist() if one["action"] == "erase"]
            assert [(one["actor"], one["resource"]) for one in said] == [("dpo", done.incarnation.id)]
            assert REASON in said[0]["after"]

    in_dated_house(main)


def test_a_table_goes_with_its_whole_history() -> None:
    async def main(house: House, process: Process) -> None:
        await process.create("a.one")
        loaded = await process.create("a.two", properties={"note": MARK})
        await process.tables.commit(("a", "two"), commit_of(SET), process.who())
        await house.runtime.sleep(2 * MIN_AGE)
        assert await holders(house.objects)
        await erased(house, Selection(ids=(loaded.table_id,)))
        assert not await holders(house.objects)
        assert not await paths(house.objects, f"{SCOPE.root}/warehouse/{loaded.table_id.lower()}")
        again = await house.open()
        assert await again.exists("a.one")
        assert not await again.exists("a.two")
        await check_healthy(again)
        await again.create("a.two")

    in_dated_house(main)


def test_blobs_go_with_the_last_event_that_names_them() -> None:
    async def main(house: House, process: Process) -> None:
        blobs = Blobs(process.workspace.handle(Role.OWNER))
        shared, own = await blobs.put(b'["shared"]'), await blobs.put(msgspec.json.encode([MARK]))
        first = [msgspec.structs.replace(made(house.runtime, "m1"), blobs=(shared, own))]
        told = await process.workspace.record("activity", first, actor="ann")
        second = [msgspec.structs.replace(made(house.runtime, "m2"), blobs=(shared,))]
        await process.workspace.record("activity", second, actor="ann")
        await house.runtime.sleep(2 * MIN_AGE)
        done = await erased(house, at("activity", told.position))
        assert done.plan.objects == (Blobs.path(own),)
        assert {path.rsplit("/", 1)[1] for path in await paths(house.objects, f"{SCOPE.root}/blobs")} == {shared}
        assert not await holders(house.objects)

    in_dated_house(main)


def test_a_text_in_a_blob_is_replaced_there() -> None:
    async def main(house: House, process: Process) -> None:
        own = await Blobs(process.workspace.handle(Role.OWNER)).put(msgspec.json.encode({"who": MARK, "n": 1}))
        fact = msgspec.structs.replace(made(house.runtime, "m1"), blobs=(own,))
        told = await process.workspace.record("activity", [fact], actor="ann")
        await house.runtime.sleep(2 * MIN_AGE)
        await erased(house, Selection(texts=(MARK,)))
        assert not await holders(house.objects)
        [sha256] = (await events(house, "activity"))[told.position].blobs
        again = await house.open()
        found = msgspec.json.decode(await Blobs(again.workspace.handle(Role.READER)).get(sha256))
        assert found["n"] == 1
        assert found["who"].startswith("erased_")

    in_dated_house(main)


def test_what_would_break_the_rest_is_refused_and_nothing_happens() -> None:
    async def main(house: House, process: Process) -> None:
        await process.decide(CreateNamespace(("c",)))
        table = await process.workspace.decide("catalog", CreateTable(("c", "t")), actor="ann")
        change = UpdateTable(Ref(path=("c", "t")), description="x")
        changed = await process.workspace.decide("catalog", change, actor="ann")
        await process.workspace.published("catalog", changed.position)
        before = await paths(house.objects)
        with pytest.raises(Refused, match=r"mean nothing without what would go: TableUpdated"):
            await plan_erasure(house.objects, SCOPE, house.runtime, at("catalog", table.position), REASON)
        for selection in (
            at("catalog", position_of(999, 0)),
            at("other", table.position),
            Selection(ids=("01ARZ3NDEKTSV4RRFFQ69G5FAV",)),
            Selection(texts=("nobody said this",)),
        ):
            with pytest.raises(NotFound):
                await plan_erasure(house.objects, SCOPE, house.runtime, selection, REASON)
        assert await paths(house.objects) == before
        await process.decide(CreateNamespace(("still",)))

    in_dated_house(main)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_newer_program_wrote_is_not_sealed_by_halves(kind: str) -> None:
    async def main(house: House, process: Process) -> None:
        await fill(house, process)
        path = await newest_of(house, process, kind)
        data = await house.objects.get(path)
        before = await paths(house.objects)
        await house.objects.put(path, newer_format(data), only_if_absent=False)
        with pytest.raises(Outdated, match=r"upgrade arco\. Nothing was changed"):
            await erased(house, Selection(texts=(MARK,)))
        assert await paths(house.objects) == before
        await house.objects.put(path, data, only_if_absent=False)
        await process.decide(CreateNamespace(("still",)))

    in_dated_house(main)


def test_a_damaged_pointer_is_found_before_anything_is_sealed() -> None:
    """It need not be the newest one: all of them are copied."""

    async def main(house: House, process: Process) -> None:
        await fill(house, process)
        path = sorted(path for path in await paths(house.objects) if "/iceberg/pointers/" in path)[0]
        data = await house.objects.get(path)
        before = await paths(house.objects)
        await house.objects.put(path, data[: len(data) // 2], only_if_absent=False)
        with pytest.raises(Corrupt, match=path.rsplit("/", 1)[1]):
            await erased(house, Selection(texts=(MARK,)))
        assert await paths(house.objects) == before
        await house.objects.put(path, data, only_if_absent=False)
        await process.decide(CreateNamespace(("still",)))

    in_dated_house(main)


def test_what_is_young_goes_with_the_next_collection() -> None:
    """A number that is younger than the minimum age keeps somebody out who looked at the log a moment ago."""

    async def main(house: House, process: Process) -> None:
        idle = await house.open()
        await process.workspace.record("activity", [made(house.runtime, MARK)], actor="ann")
        done = await erased(house, Selection(texts=(MARK,)))
        assert sum(one.waiting for one in done.buried)
        assert all("/ledger/" in path for path in await holders(house.objects))
        for old in (idle, process):
            with pytest.raises(Superseded):
                await old.workspace.record("activity", [made(house.runtime, "lost")], actor="ann")
        await house.runtime.sleep(MIN_AGE)
        done = await erased(house, Selection(texts=(MARK,)))
        assert done.plan.is_empty
        assert not any(one.waiting for one in done.buried)
        assert not await holders(house.objects)

    in_dated_house(main)


def test_nobody_who_slept_wins_after_the_deletion() -> None:
    """Processes that stand at the end of the log, behind it, and before a commit; each wakes when all is deleted."""

    async def main(house: House, process: Process) -> None:
        await process.create("a.one")
        behind = await house.open()
        await behind.workspace.record("activity", [made(house.runtime, "m0")], actor="ann")
        await behind.tables.load(("a", "one"))
        await process.decide(CreateNamespace(("c",)))
        await process.workspace.record("activity", [made(house.runtime, MARK)], actor="ann")
        await process.tables.commit(("a", "one"), commit_of(SET), process.who())
        at_end = await house.open()
        await at_end.workspace.logs["catalog"].current()
        await erased(house, Selection(texts=(MARK,)))
        house.runtime.suspend(2 * MIN_AGE)  # no timer of theirs runs meanwhile
        [buried] = await bury(house.objects, SCOPE, house.runtime)
        assert buried.objects
        assert not buried.waiting
        kept = await paths(house.objects, f"{SCOPE.root}/{buried.incarnation}")
        assert not [path for path in kept if "/state/" in path or "/packs/" in path or "/private/" in path]
        for old in (process, behind, at_end):
            for _ in range(2):
                with pytest.raises(Superseded):
                    await old.decide(CreateNamespace(("lost",)))
                with pytest.raises(Superseded):
                    await old.workspace.record("activity", [made(house.runtime, "lost")], actor="ann")
                with pytest.raises(Superseded):
                    await old.tables.commit(("a", "one"), commit_of(SET), old.who())
                with pytest.raises(Superseded):
                    await old.workspace.logs["catalog"].current()
        again = await house.open()
        assert "lost" not in str([one.data for one in (await events(house, "activity")).values()])
        await check_healthy(again)
        await bury(house.objects, SCOPE, house.runtime)

    in_dated_house(main)


@pytest.mark.parametrize("applied", [False, True])
def test_an_erasure_that_dies_anywhere_is_finished_by_the_same_command(applied: bool) -> None:
    requests, outcomes = 1, set[str]()
    while requests:
        requests = _dies_at(requests, applied, outcomes)
    assert outcomes == {"works", "sealed", "open"}


def _dies_at(last: int, applied: bool, outcomes: set[str]) -> int:
    following = 0

    async def main(house: House, process: Process) -> None:
        nonlocal following
        await process.create("a.one")
        await process.workspace.record("activity", [made(house.runtime, n) for n in (MARK, "m2")], actor="ann")
        own = await Blobs(process.workspace.handle(Role.OWNER)).put(msgspec.json.encode([MARK]))
        fact = msgspec.structs.replace(made(house.runtime, "m3"), blobs=(own,))
        await process.workspace.record("activity", [fact], actor="ann")
        await house.runtime.sleep(2 * MIN_AGE)
        dying = Dying(house.objects, last, applied=applied)
        try:
            await erased(house, Selection(texts=(MARK,)), through=dying)
        except Crash:
            following = last + 7
            lives = await read_incarnations(house.objects, SCOPE, house.runtime, all_of_them=True)
            try:
                await process.decide(CreateNamespace(("in between",)))
                outcomes.add("works")
            except Superseded:
                outcomes.add("sealed" if len(lives) == 1 else "open")
            try:
                await erased(house, Selection(texts=(MARK,)))
            except NotFound:
                assert not await holders(house.objects), "it had come to its end"
        await house.runtime.sleep(2 * MIN_AGE)
        await bury(house.objects, SCOPE, house.runtime)
        assert not await holders(house.objects)
        with pytest.raises(Superseded):
            await process.decide(CreateNamespace(("lost",)))
        again = await house.open()
        assert again.workspace.incarnation.number == 2
        rows = await (await again.workspace.logs["activity"].frozen()).scan(MATERIALIZATIONS)
        assert {"m2", "m3"} < set(rows.column("materialization_id").to_pylist())
        await check_healthy(again)
        await again.tables.commit(("a", "one"), commit_of(SET), again.who())

    in_dated_house(main)
    return following


def test_the_next_backup_does_not_have_it_and_prune_lets_the_others_go() -> None:
    async def main(house: House, process: Process) -> None:
        vault, blobs = MemoryStore(), Blobs(process.workspace.handle(Role.OWNER))
        own = await blobs.put(msgspec.json.encode([MARK]))
        fact = msgspec.structs.replace(made(house.runtime, "m1"), blobs=(own,))
        told = await process.workspace.record("activity", [fact], actor="ann")
        kept = msgspec.structs.replace(made(house.runtime, "m2"), blobs=(await blobs.put(b"[]"),))
        await process.workspace.record("activity", [kept], actor="ann")
        await back_up(process, vault)
        assert await holders(vault)
        await erased(house, at("activity", told.position))
        again = await house.open()
        pruning = vault_of(vault, house.runtime)
        with pytest.raises(Refused, match="take another one first"):
            await prune(pruning, house.runtime, keep=0, before=2)
        taken = await back_up(again, vault)
        assert sum(one.count for one in taken.backup.lists_of("blobs")) == 1
        await prune(pruning, house.runtime, keep=0, before=2)
        assert not await holders(vault)
        fresh = MemoryStore()
        await put_back(house, vault, into=fresh)
        await check_healthy(await open_again(house, fresh))

    in_dated_house(main)


def test_a_restored_incarnation_goes_after_a_day_and_what_was_begun_in_vain_with_it() -> None:
    async def main(house: House, process: Process) -> None:
        vault = MemoryStore()
        await process.create("a.one")
        await process.workspace.record("activity", [made(house.runtime, "m1")], actor="ann")
        await back_up(process, vault)
        await process.decide(CreateNamespace(("after",)))
        with pytest.raises(Crash):
            await put_back(house, vault, through=Dying(house.objects, 60, applied=True))
        await back_up(process, vault)
        done = await put_back(house, vault)
        for hours, is_gone in ((2, False), (23, True)):
            await house.runtime.sleep(hours * 3600)
            shown = await bury(house.objects, SCOPE, house.runtime, dry_run=True)
            [buried] = await bury(house.objects, SCOPE, house.runtime)
            assert bool(buried.objects) == bool(shown[0].objects) == is_gone
        folders = {path.split("/")[2] for path in await paths(house.objects, SCOPE.root)}
        lives = {process.workspace.incarnation.id, done.incarnation.id}
        assert {folder for folder in folders if folder.startswith("inc-")} == lives
        left = await paths(house.objects, f"{SCOPE.root}/{process.workspace.incarnation.id}")
        assert all("/floor/" in path or path.endswith("/hint") or path[-20:].isdigit() for path in left), left
        with pytest.raises(Superseded):
            await process.decide(CreateNamespace(("lost",)))
        await check_healthy(await house.open())

    in_dated_house(main)


def test_an_incarnation_that_is_not_sealed_is_left_alone() -> None:
    async def main(house: House, process: Process) -> None:
        await process.create("a.one")
        life = Incarnation("inc-other", 2, house.runtime.now(), "erase", process.workspace.incarnation.id)
        await open_incarnation(house.objects, SCOPE, house.runtime, life)
        await house.runtime.sleep(100 * 24 * 3600)
        before = await paths(house.objects, f"{SCOPE.root}/{process.workspace.incarnation.id}")
        await bury(house.objects, SCOPE, house.runtime)
        assert await paths(house.objects, f"{SCOPE.root}/{process.workspace.incarnation.id}") == before

    in_dated_house(main)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("AttemptReaped", {"run_id": "R", "task_key": "t", "attempt": 1, "attempt_id": "a", "reason": "x"}, "about R"),
        ("IcebergCommitted", {"table_id": "T", "number": 1}, "about T"),
        ("WorkspaceErased", {"incarnation": "i"}, "it stays"),
    ],
)
def test_what_would_be_done_or_told_again_goes_only_as_a_whole(kind: str, data: dict[str, Any], said: str) -> None:
    fields = {"id": "1", "time": "t", "source": "s", "actor": "a", "operation": "o"}
    event, definition = msgspec.json.encode({**fields, "type": kind, "data": data}), DEFINITIONS[1]
    with pytest.raises(Refused, match=said):
        Editing("activity", definition, at("activity", 7), {}, REASON).edit(7, event)
    for selection in (Selection(ids=("R",)), Selection(ids=("T",))):
        editing = Editing("activity", definition, selection, {}, REASON)
        assert b"EventErased" in editing.edit(7, event) or selection.ids[0] not in data.values()


def test_of_two_erasures_at_once_one_deletes_and_opens() -> None:
    """Both are written whole; the second must delete nothing that the first one's incarnation names."""

    async def main(house: House, process: Process) -> None:
        blobs = Blobs(process.workspace.handle(Role.OWNER))
        told = []
        for name in ("m1", "m2"):
            fact = msgspec.structs.replace(made(house.runtime, name), blobs=(await blobs.put(f'["{name}"]'.encode()),))
            told.append((await process.workspace.record("activity", [fact], actor="ann")).position)
        plans = [
            await plan_erasure(house.objects, SCOPE, house.runtime, at("activity", position), REASON)
            for position in told
        ]
        await erase(house.objects, SCOPE, house.runtime, plans[0], actor="dpo")
        with pytest.raises(Conflict):
            await erase(house.objects, SCOPE, house.runtime, plans[1], actor="dpo")
        again = await house.open()
        await check_healthy(again)
        [kept] = (await events(house, "activity"))[told[1]].blobs
        assert await Blobs(again.workspace.handle(Role.READER)).get(kept) == b'["m2"]'

    in_dated_house(main)

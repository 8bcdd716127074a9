"""Backup and restore from end to end, on memory: what comes back, and what can happen no more."""

import pytest

from arco.backup import Moment, plan_restore, prune, verify_backup
from arco.backup._format import encode_backup
from arco.core import DAY, ArcoError, Corrupt, Invalid, NotFound, Outdated, Refused, Superseded, format_time
from arco.domains.catalog import CreateNamespace
from arco.domains.execution import MATERIALIZATIONS
from arco.log import decode_segment, position_of
from arco.runtime import DEFINITIONS, read_incarnations
from arco.state import Level, examine_log, verify_revision
from arco.storage import MemoryStore, Role, Scope, Store
from tests.backup.world import (
    Crash,
    Dying,
    back_up,
    digests,
    fill,
    in_vault,
    newer_format,
    newest_of,
    open_again,
    paths,
    put_back,
    vault_of,
)
from tests.doubles import FaultyStore
from tests.iceberg.house import House, Process, commit_of
from tests.runtime.world import SCOPE, made

SET = {"action": "set-properties", "updates": {"colour": "red"}}
AUDITS = {"catalog.audit", "activity.audit"}
"""The audit has one row more after a restore: the restore itself."""


async def check_healthy(process: Process) -> None:
    """Chains, hashes and references hold, and the state is what the log gives."""
    for log in process.workspace.logs.values():
        await process.workspace.published(log.place.log, await log.current())
        handle, head = process.workspace.handle(Role.READER), log.compactor.head.manifest
        findings = await examine_log(log.definition, handle, log.place, process.runtime)
        assert not [found for found in findings if found.level not in (Level.OK, Level.NOTE)], findings
        if head.number:
            compared = await verify_revision(log.definition, handle, log.follower.ledger, head)
            assert all(one.equal for one in compared), [one.table for one in compared if not one.equal]


def different(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


async def colour(process: Process, *path: str) -> str | None:
    metadata = (await process.tables.load(path)).metadata
    return dict(metadata.get("properties") or {}).get("colour")


def test_what_was_backed_up_comes_back_in_an_empty_store() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await process.tables.commit(("a", "one"), commit_of(SET), process.who())
        before = await digests(process.workspace)
        taken = await back_up(process, store)
        assert taken.backup.number == 1
        assert not taken.troubled
        await process.decide(CreateNamespace(("after",)))
        fresh = MemoryStore()
        done = await put_back(house, store, into=fresh)
        assert (done.plan.old, done.elsewhere, done.tables) == (None, (), 2)
        again = await open_again(house, fresh)
        assert again.workspace.incarnation.id == done.incarnation.id != process.workspace.incarnation.id
        assert different(before, await digests(again.workspace)) <= AUDITS
        assert await colour(again, "a", "one") == "red"
        await check_healthy(again)
        await again.decide(CreateNamespace(("after",)))
        await again.tables.commit(("a", "two"), commit_of(SET), again.who())
        assert await colour(again, "a", "two") == "red"

    in_vault(main)


def test_nobody_writes_or_reads_in_a_sealed_incarnation() -> None:
    """Both of the old processes idle while the workspace is restored; neither makes a request before it is used."""

    async def main(house: House, owner: Process, store: Store) -> None:
        await fill(owner)
        await back_up(owner, store)
        other = await house.open()
        await other.tables.load(("a", "one"))
        await owner.tables.commit(("a", "one"), commit_of(SET), owner.who())
        await put_back(house, store)
        for old in (owner, other):
            with pytest.raises(Superseded, match="restored"):
                await old.decide(CreateNamespace(("lost",)))
            with pytest.raises(Superseded, match="restored"):
                await old.workspace.record("activity", [made(house.runtime, "lost")], actor="ann")
            with pytest.raises(Superseded, match="sealed"):
                await old.tables.commit(("a", "two"), commit_of(SET), old.who())
            with pytest.raises(Superseded):
                await old.create("a.three")
            with pytest.raises(Superseded):
                await old.tables.commit_all([(("a", "one"), commit_of(SET)), (("a", "two"), commit_of(SET))], old.who())
            with pytest.raises(Superseded, match="another one"):
                await old.workspace.logs["catalog"].current()
        again = await house.open()
        assert await colour(again, "a", "one") is None
        assert not await again.exists("a.three")
        await check_healthy(again)

    in_vault(main)


def test_a_seal_meets_a_transaction_under_way() -> None:
    """A transaction that prepared its first pointer when the tables are sealed is aborted: it can never commit."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        pointers = process.iceberg.pointers
        one = (await process.tables.load(("a", "one"))).table_id
        current = await pointers.settled(one)
        assert current is not None
        prepared = pointers.prepare(current, current.pointer)
        from msgspec.structs import replace

        txn = replace(prepared.pointer, txn="01ARZ3NDEKTSV4RRFFQ69G5FAV", before=current.held)
        assert await pointers.create(pointers.prepare(current, txn)) is not None
        await put_back(house, store)
        assert await pointers.decisions.decide("01ARZ3NDEKTSV4RRFFQ69G5FAV", "committed") == "aborted"

    in_vault(main)


def test_a_second_backup_copies_only_what_is_new() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await process.workspace.decide("catalog", CreateNamespace(("more",)), actor="ann")
        first = await back_up(process, store)
        there = await paths(store)
        await process.tables.commit(("a", "one"), commit_of(SET), process.who())
        await process.workspace.decide("catalog", CreateNamespace(("others",)), actor="ann")
        await process.workspace.record("activity", [made(house.runtime, "m4")], actor="ann")
        second = await back_up(process, store)
        new = await paths(store) - there
        objects = {path for path in new if "/objects/" in path}
        assert {path.split("/objects/")[1].split("/")[0] for path in objects} == {f"{1:020d}"}
        # A chunk, a manifest and the new deltas of each log, and the metadata file of the commit.
        deltas = sum(
            len({file.path for layer in log.compactor.head.manifest.layers for file in layer.files})
            for log in process.workspace.logs.values()
        )
        chunks, manifests, metadata = 2, 2, 1
        known = {
            entry.path
            for listing in first.backup.lists_of("state")
            for entry in await vault_of(store, house.runtime).entries(listing)
        }
        copied = {
            entry.path
            for listing in second.backup.lists_of("state")
            for entry in await vault_of(store, house.runtime).entries(listing)
        }
        assert second.backup.copied == chunks + manifests + metadata + len(copied - known)
        assert known & copied or deltas < 3, "files of the first backup are named again"
        assert second.backup.lists_of("code") == first.backup.lists_of("code")
        assert second.backup.lists_of("blobs") == first.backup.lists_of("blobs")

    in_vault(main)


def test_a_restore_to_a_moment_before_the_backup() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        await house.runtime.sleep(100)
        moment = house.runtime.now()
        before = await digests(process.workspace)
        await house.runtime.sleep(100)
        await process.decide(CreateNamespace(("after",)))
        await process.create("a.three")
        await process.tables.commit(("a", "one"), commit_of(SET), process.who())
        await back_up(process, store)
        fresh = MemoryStore()
        await put_back(house, store, into=fresh, moment=Moment(time=moment))
        again = await open_again(house, fresh)
        assert different(before, await digests(again.workspace)) <= AUDITS
        assert await colour(again, "a", "one") is None
        assert not await again.exists("a.three")
        await check_healthy(again)
        with pytest.raises(Refused, match="after backup 1"):
            await put_back(house, store, into=MemoryStore(), number=1, moment=Moment(time=house.runtime.now()))

    in_vault(main)


def test_a_restore_to_a_moment_before_the_first_event_is_refused() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        early = house.runtime.now() - DAY
        await fill(process)
        await back_up(process, store)
        with pytest.raises(Refused, match="is before the first event of backup 1") as refused:
            await put_back(house, store, moment=Moment(time=early))
        vault = vault_of(store, house.runtime)
        backup = await vault.backup(1)
        [first, *_] = await vault.segments((await vault.chunks(backup, "catalog"))[0])
        received = decode_segment(first, "").header.received
        assert format_time(received) in refused.value.message
        await process.decide(CreateNamespace(("still",)))
        await put_back(house, store, into=MemoryStore(), moment=Moment(time=received))

    in_vault(main)


def test_a_restore_to_a_position_never_cuts_an_operation_in_two() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        facts = [made(house.runtime, name) for name in ("m1", "m2", "m3")]
        told = await process.workspace.record("activity", facts, actor="ann")
        await process.workspace.record("activity", [made(house.runtime, "m4")], actor="ann")
        await back_up(process, store)
        first, last = int(told.first), int(told.last)
        assert first < last
        fresh = MemoryStore()
        await put_back(house, store, into=fresh, moment=Moment(log="activity", position=last))
        again = await open_again(house, fresh)
        rows = await (await again.workspace.logs["activity"].frozen()).scan(MATERIALIZATIONS)
        assert sorted(rows.column("materialization_id").to_pylist()) == ["m1", "m2", "m3"]
        await check_healthy(again)
        with pytest.raises(Invalid, match="never done by halves"):
            await put_back(house, store, into=MemoryStore(), moment=Moment(log="activity", position=first))
        for log, position in (("activity", position_of(999, 0)), ("other", 0)):
            with pytest.raises(Refused, match=r"not among them|there are activity, catalog"):
                await put_back(house, store, into=MemoryStore(), moment=Moment(log=log, position=position))

    in_vault(main)


def test_a_backup_that_was_not_finished_is_none() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        with pytest.raises(Crash):
            await back_up(process, Dying(store, 12, applied=True))
        assert await paths(store)
        with pytest.raises(NotFound, match="not finished"):
            await put_back(house, store)
        assert not (await process.workspace.logs["catalog"].frozen()).manifest.seal
        await process.decide(CreateNamespace(("still",)))

    in_vault(main)


def test_a_backup_of_another_workspace_is_refused() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        other = Scope(SCOPE.tenant, "staging")
        for path in await paths(store):
            data = await store.get(path)
            await store.put(path.replace(SCOPE.root, other.root), data, only_if_absent=True)
        with pytest.raises(Refused, match="a backup of acme/prod, not of acme/staging"):
            await put_back(house, store, scope=other)

    in_vault(main)


def test_a_live_workspace_is_not_replaced_by_mistake() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        before = await paths(house.objects)
        with pytest.raises(Refused, match="say --replace"):
            await put_back(house, store, replace=False)
        assert await paths(house.objects) == before
        await process.decide(CreateNamespace(("still",)))

    in_vault(main)


def test_an_altered_object_is_found_before_anything_is_sealed() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        taken = await back_up(process, store)
        vault = vault_of(store, house.runtime)
        assert not [
            one for one in await verify_backup(vault, taken.backup, DEFINITIONS, refold=True) if one.level == "error"
        ]
        chunk = (await vault.chunks(taken.backup, "activity"))[0]
        path = f"{SCOPE.root}/{vault.path(chunk.content)}"
        data = bytearray(await store.get(path))
        data[-1] ^= 1
        await store.put(path, bytes(data), only_if_absent=False)
        found = await verify_backup(vault, taken.backup, DEFINITIONS)
        assert [one.path for one in found if one.level == "error"] == [vault.path(chunk.content)]
        with pytest.raises(Corrupt, match="does not have the bytes its name promises"):
            await put_back(house, store)
        await process.decide(CreateNamespace(("still",)))
        assert len(await read_incarnations(house.objects, SCOPE, house.runtime, all_of_them=True)) == 1

    in_vault(main)


@pytest.mark.parametrize("applied", [False, True])
def test_a_restore_that_dies_anywhere_is_finished_by_the_next(applied: bool) -> None:
    """Before the seal the old incarnation works; after it the same command goes on. Never do both take writes."""
    requests, outcomes = 1, set[str]()
    while requests:
        requests = _dies_at(requests, applied, outcomes)
    assert outcomes == {"works", "sealed"}


def _dies_at(last: int, applied: bool, outcomes: set[str]) -> int:
    """One try; returns the request at which the next one is to die, or 0 if this one came to its end."""
    following = 0

    async def main(house: House, process: Process, store: Store) -> None:
        nonlocal following
        await process.create("a.one")
        await process.workspace.record("activity", [made(house.runtime, "m1")], actor="ann")
        await back_up(process, store)
        before = await digests(process.workspace)
        dying = Dying(house.objects, last, applied=applied)
        try:
            await put_back(house, store, through=dying)
        except Crash:
            following = last + 7
        if len(await read_incarnations(house.objects, SCOPE, house.runtime, all_of_them=True)) == 1:
            try:
                await process.decide(CreateNamespace(("in between",)))
                outcomes.add("works")
            except Superseded:
                outcomes.add("sealed")
            await put_back(house, store)
        with pytest.raises(Superseded):
            await process.decide(CreateNamespace(("lost",)))
        again = await house.open()
        changed = different(before, await digests(again.workspace))
        assert changed <= AUDITS | {"catalog.pins", "activity.pins", "catalog.operations", "activity.operations"}
        assert again.workspace.incarnation.number == 2
        await check_healthy(again)
        await again.tables.commit(("a", "one"), commit_of(SET), again.who())

    in_vault(main)
    return following


@pytest.mark.parametrize("applied", [False, True])
def test_a_backup_that_dies_anywhere_is_taken_by_the_next(applied: bool) -> None:
    last = 1
    while last:
        last = _backup_dies_at(last, applied)


def _backup_dies_at(last: int, applied: bool) -> int:
    following = 0

    async def main(house: House, process: Process, store: Store) -> None:
        nonlocal following
        await process.create("a.one")
        await back_up(process, store)
        await process.tables.commit(("a", "one"), commit_of(SET), process.who())
        try:
            await back_up(process, Dying(store, last, applied=applied))
        except Crash:
            following = last + 3
        vault = vault_of(store, house.runtime)
        taken = await back_up(process, store)
        assert taken.backup.number in (2, 3)
        for backup in await vault.backups():
            findings = await verify_backup(vault, backup, DEFINITIONS)
            assert not [one for one in findings if one.level == "error"], findings
        fresh = MemoryStore()
        await put_back(house, store, into=fresh)
        assert await colour(await open_again(house, fresh), "a", "one") == "red"

    in_vault(main)
    return following


def test_a_damaged_incarnation_is_sealed_and_replaced() -> None:
    """Half of the bucket is gone, and what is left is not readable: the backup is what there is."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        life = process.workspace.incarnation.id
        for path in sorted(await paths(house.objects, f"{SCOPE.root}/{life}")):
            if "/manifests/" in path and path[-1].isdigit() and "/floor/" not in path:
                await house.objects.put(path, b"nothing", only_if_absent=False)
            if "/state/" in path or path.endswith(f"{1:020d}"):
                await house.objects.delete(path)
        await put_back(house, store)
        again = await house.open()
        assert await again.exists("a.one")
        await check_healthy(again)

    in_vault(main)


@pytest.mark.parametrize("kind", ["ledger/catalog", "ledger/activity", "iceberg/pointers"])
def test_what_is_damaged_at_its_end_is_sealed_and_replaced(kind: str) -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        path = await newest_of(house, process, kind)
        await house.objects.put(path, b"nothing", only_if_absent=False)
        await put_back(house, store)
        with pytest.raises(ArcoError):
            await process.decide(CreateNamespace(("lost",)))
        for name in ("one", "two"):
            with pytest.raises(ArcoError):
                await process.tables.commit(("a", name), commit_of(SET), process.who())
        again = await house.open()
        assert await again.exists("a.one")
        await check_healthy(again)

    in_vault(main)


KINDS = ["ledger/catalog", "ledger/activity", "manifests/catalog", "manifests/activity", "iceberg/pointers"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_newer_program_wrote_is_not_sealed_by_halves(kind: str) -> None:
    """The plan says so, and whoever can read it still writes."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        await back_up(process, store)
        path = await newest_of(house, process, kind)
        data = await house.objects.get(path)
        before = await paths(house.objects)
        await house.objects.put(path, newer_format(data), only_if_absent=False)
        with pytest.raises(Outdated, match=r"upgrade arco\. Nothing was changed"):
            await put_back(house, store)
        assert await paths(house.objects) == before
        await house.objects.put(path, data, only_if_absent=False)
        await process.decide(CreateNamespace(("still",)))
        await put_back(house, store)
        await check_healthy(await house.open())

    in_vault(main)


def test_segments_that_would_be_lost_are_counted_above_a_hole() -> None:
    """A lifecycle rule deleted the oldest ones."""

    async def main(house: House, process: Process, store: Store) -> None:
        await fill(process)
        taken = await back_up(process, store)
        for name in ("e", "f", "g"):
            await process.decide(CreateNamespace((name,)))
        life = process.workspace.incarnation.id
        for number in (1, 2, 3):
            await house.objects.delete(f"{SCOPE.root}/{life}/ledger/catalog/{0:013d}/{number:020d}")
        vault = vault_of(store, house.runtime)
        plan = await plan_restore(house.objects, SCOPE, vault, house.runtime)
        end = int(await process.workspace.logs["catalog"].current()) >> 20
        assert plan.lost["catalog"] == end - taken.backup.logs["catalog"].link.number >= 3
        assert not plan.is_sealed
        with pytest.raises(Refused, match=f"with {sum(plan.lost.values())} segments that would not be restored"):
            await put_back(house, store, replace=False)

    in_vault(main)


def test_pruning_keeps_whatever_a_backup_names() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        vault = vault_of(store, house.runtime)
        await fill(process)
        for number in range(4):
            await process.decide(CreateNamespace((f"n{number}",)))
            await process.tables.commit(("a", "one"), commit_of(SET), process.who())
            await back_up(process, store)
            await house.runtime.sleep(20 * 3600)
        with pytest.raises(Crash):
            await back_up(process, Dying(store, 9, applied=True))
        there = await paths(store)
        would = await prune(vault, house.runtime, keep=2 * DAY, dry_run=True)
        assert await paths(store) == there
        done = await prune(vault, house.runtime, keep=2 * DAY)
        assert done.backups == would.backups == [1, 2]
        assert {info.path for info in done.objects} == {info.path for info in would.objects}
        left = await vault.backups()
        assert [backup.number for backup in left] == [3, 4]
        for backup in left:
            findings = await verify_backup(vault, backup, DEFINITIONS, refold=True)
            assert not [one for one in findings if one.level == "error"], findings
        named = {f"{SCOPE.root}/{vault.path(content)}" for backup in left async for content in vault.contents(backup)}
        kept = {path for path in await paths(store) if "/objects/" in path}
        assert named <= kept
        assert all(f"/{4:020d}/" in path for path in kept - named), "only what a backup under way may still need"
        await put_back(house, store, into=MemoryStore(), number=3)
        with pytest.raises(NotFound, match="no backup 1"):
            await put_back(house, store, number=1)
        taken = await back_up(process, store)
        assert taken.backup.number == 5
        assert (await prune(vault, house.runtime, keep=30 * DAY)).backups == []

    in_vault(main)


def test_what_a_backup_writes_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of chunks that are full are named again, and whoever prunes reads each of them once."""

    async def main(house: House, process: Process, store: Store) -> None:
        monkeypatch.setattr("arco.backup._take.LIST_CHUNKS", 3)
        monkeypatch.setattr("arco.backup._take.CHUNK_BYTES", 1)
        for number in range(10):
            await process.decide(CreateNamespace((f"n{number}",)))
            await back_up(process, store)
        counted = FaultyStore(store)
        vault = vault_of(counted, house.runtime)
        backups = await vault.backups()
        lists = backups[-1].lists_of("ledger", "catalog")
        assert {one.count for one in lists[:-1]} == {3}
        full = backups[-2].lists_of("ledger", "catalog")[:-1]
        assert lists[: len(full)] == full
        assert len(full) >= 3
        chunks = await vault.chunks(backups[-1], "catalog")
        assert [(chunk.first, chunk.last) for chunk in chunks] == [(n, n) for n in range(1, len(chunks) + 1)]
        assert chunks[-1].last == backups[-1].logs["catalog"].link.number
        counted.calls.clear()
        await prune(vault, house.runtime, keep=30 * DAY, dry_run=True)
        read = [path for operation, path in counted.calls if operation == "get" and "/objects/" in path]
        assert len(read) == len(set(read))
        findings = await verify_backup(vault, backups[-1], DEFINITIONS, refold=True)
        assert not [one for one in findings if one.level == "error"], findings

    in_vault(main)


def test_how_many_objects_hold_the_log_goes_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks are joined when a list of them is full, and the old ones go with the backups that name them."""

    async def main(house: House, process: Process, store: Store) -> None:
        monkeypatch.setattr("arco.backup._take.LIST_CHUNKS", 5)
        vault = vault_of(store, house.runtime)
        for number in range(40):
            await process.decide(CreateNamespace((f"n{number}",)))
            await back_up(process, store)
            await house.runtime.sleep(6 * 3600)
            await prune(vault, house.runtime, keep=DAY)
            backups = await vault.backups()
            held = [await vault.chunks(backup, "catalog") for backup in backups]
            for chunks in held:
                assert [chunk.first for chunk in chunks[1:]] == [chunk.last + 1 for chunk in chunks[:-1]]
            assert len({chunk.content for chunks in held for chunk in chunks}) <= 2 * 5 + 1
        newest, _, _ = await vault.newest()
        assert newest is not None
        findings = await verify_backup(vault, newest, DEFINITIONS, refold=True)
        assert not [one for one in findings if one.level == "error"], findings
        fresh = MemoryStore()
        await put_back(house, store, into=fresh)
        again = await open_again(house, fresh)
        assert different(await digests(process.workspace), await digests(again.workspace)) <= AUDITS | {
            "catalog.pins",
            "activity.pins",
            "catalog.operations",
            "activity.operations",
        }
        await check_healthy(again)

    in_vault(main)


def test_a_newer_format_says_upgrade() -> None:
    async def main(house: House, process: Process, store: Store) -> None:
        from msgspec.structs import replace

        await fill(process)
        taken = await back_up(process, store)
        vault = vault_of(store, house.runtime)
        path = f"{SCOPE.root}/{vault.sequence.path(1)}"
        await store.put(path, encode_backup(replace(taken.backup, format=99)), only_if_absent=False)
        with pytest.raises(Superseded, match="upgrade arco"):
            await put_back(house, store)

    in_vault(main)

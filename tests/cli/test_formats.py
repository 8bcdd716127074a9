"""Every stored format: its writer writes the newest version, its reader refuses a newer one and says what to do."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from arco.backup._format import Backup, decode_backup, encode_backup
from arco.backup._target import Target
from arco.cli._formats import FORMATS
from arco.core import Outdated
from arco.domains.catalog import CreateNamespace
from arco.iceberg import IdempotencyKey, Keys, Who
from arco.iceberg._decisions import Decisions
from arco.iceberg._pointer import decode_pointer
from arco.log import Place, decode_segment
from arco.log._pack import PACK_MAGIC, TRAILER, decode_index, encode_pack
from arco.runtime import Incarnation, Workspace, init_workspace, read_incarnation
from arco.state import File, Manifest, Pending, decode_manifest, empty_manifest, encode_manifest
from arco.state._jobs import Jobs
from arco.state._manifest import format_of
from arco.storage import MemoryStore, Scope
from tests.doubles import FakeRuntime, run
from tests.iceberg.world import open_world

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
SCOPE = Scope("acme", "prod")
PLACE = Place("acme", "prod", "inc", "catalog")
NEWEST = {found.name: found.newest for found in FORMATS}


class World:
    """A workspace in memory after one write and its publish."""

    def __init__(self, runtime: FakeRuntime, store: MemoryStore) -> None:
        self.runtime = runtime
        self.store = store

    async def find(self, part: str) -> tuple[str, bytes]:
        paths = [info.path async for info in self.store.list("") if part in info.path and "hint" not in info.path]
        assert paths, part
        return paths[0], await self.store.get(paths[0])


async def _incarnation(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    path, data = await world.find("incarnations/")
    document = json.loads(data)

    async def newer() -> None:
        changed = json.dumps({**document, "format": NEWEST["incarnation"] + 1, "life": {}}).encode()
        await world.store.put(path, changed, only_if_absent=False)
        await read_incarnation(world.store, SCOPE, world.runtime)

    return document["format"], newer


async def _successor(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    old = await read_incarnation(world.store, SCOPE, world.runtime)
    life = Incarnation("inc-2", 2, world.runtime.now(), "restore", old.id)
    target = Target(world.store, SCOPE, world.runtime, life, "me", lambda what, done, total: None)
    await target.settle(old)
    path, data = await world.find("successors/next")
    document = json.loads(data)
    older = json.dumps({name: value for name, value in document.items() if name != "format"}).encode()
    await world.store.put(path, older, only_if_absent=False)
    assert (await target.settle(old)).life == life, "it was written without a version"

    async def newer() -> None:
        changed = json.dumps({**document, "format": NEWEST["successor"] + 1, "delete": "another document"}).encode()
        await world.store.put(path, changed, only_if_absent=False)
        await target.settle(old)

    return document["format"], newer


class _Idle(Jobs[File]):
    async def work(self, head: Manifest, pending: Pending) -> tuple[File, ...] | None:
        return (File("state/x", 0, 1, "0" * 64, 1, "0" * 64),)


async def _result(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    head, pending = empty_manifest(PLACE), Pending("1", "merge", "0-1", 0)
    job = _Idle("merge", File, world.store, "state", world.runtime, lambda: head, lambda: None, lambda: None)
    made = await job._result(pending)
    assert await job._result(pending) == made
    path, data = await world.find("state/0-1/result")

    async def newer() -> None:
        changed = json.dumps({"format": NEWEST["result"] + 1, "files": json.loads(data)}).encode()
        await world.store.put(path, changed, only_if_absent=False)
        await job._result(pending)

    return 1 if isinstance(json.loads(data), list) else json.loads(data)["format"], newer


async def _segment(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    path, data = await world.find("ledger/catalog/0")
    document = json.loads(zstandard.ZstdDecompressor().decompress(data))

    async def newer() -> None:
        header = {**document["header"], "format": NEWEST["segment"] + 1, "received": "a later kind of time"}
        changed = json.dumps({**document, "header": header}).encode()
        decode_segment(zstandard.ZstdCompressor(write_checksum=True).compress(changed), path)

    return document["header"]["format"], newer


async def _manifest(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    path, data = await world.find("manifests/catalog/0")
    manifest = decode_manifest(data, path)

    async def newer() -> None:
        decode_manifest(encode_manifest(msgspec.structs.replace(manifest, format=NEWEST["manifest"] + 1)), path)

    assert manifest.format == 1, "it is written in the oldest version that says everything"
    packed = msgspec.structs.replace(manifest, packs=(encode_pack("packs/1", PLACE, 1, [b"x"])[1],))
    return format_of(packed.packs), newer


async def _pack(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    data, pack = encode_pack("packs/1", PLACE, 1, [b"segment"])
    assert pack.index is not None
    text = data[-pack.index[0] : -TRAILER]
    document = json.loads(zstandard.ZstdDecompressor().decompress(text))

    async def newer() -> None:
        later = json.dumps({"format": NEWEST["pack"] + 1, "segments": "told in another way"}).encode()
        text = zstandard.ZstdCompressor(write_content_size=True).compress(later)
        end = text + len(text).to_bytes(8, "little") + PACK_MAGIC
        told = (len(end), hashlib.sha256(end).hexdigest())
        decode_index(msgspec.structs.replace(pack, index=told), PLACE, end)

    return document["format"], newer


async def _backup(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    made = Backup(
        format=NEWEST["backup"],
        number=1,
        id="id",
        previous="",
        tenant="acme",
        workspace="prod",
        incarnation="inc",
        store="memory://store",
        taken_at=1,
        finished_at=2,
        actor="me",
        data=False,
        logs={},
        lists=(),
    )
    assert decode_backup(encode_backup(made), "backups/1") == made

    async def newer() -> None:
        decode_backup(json.dumps({"format": NEWEST["backup"] + 1, "logs": "others"}).encode(), "backups/1")

    return made.format, newer


async def _delta(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    _, data = await world.find("state/catalog/")
    assert data[:7] == b"ARCODLT"

    async def newer() -> None:
        await (await _manifest(world))[1]()  # it is found through the manifest alone

    return int(data[7:8]), newer


async def _pointer(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    other = await open_world()
    await other.create()
    assert isinstance(other.store, MemoryStore)
    path, data = await World(other.runtime, other.store).find("iceberg/pointers/")
    document = json.loads(data)

    async def newer() -> None:
        changed = {**document, "format": NEWEST["pointer"] + 1, "number": {"later": 1}}
        decode_pointer(json.dumps(changed).encode(), path)

    return document["format"], newer


async def _claim(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    keys = Keys(world.store, "acme/prod/iceberg", world.runtime, "inc-1")
    key = IdempotencyKey("01890a5d-ac96-774b-bcce-b302099a8057", "a" * 64)
    assert await keys.claim(key, Who("ann", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), after=None) is not None
    path, data = await world.find("iceberg/keys/")
    document = json.loads(data)

    async def newer() -> None:
        changed = json.dumps({**document, "format": NEWEST["claim"] + 1, "claimed_at": "later"}).encode()
        await world.store.put(path, changed, only_if_absent=False)
        await keys.claims(key)

    return document["format"], newer


async def _decision(world: World) -> tuple[int, Callable[[], Awaitable[Any]]]:
    decisions = Decisions(world.store, "acme/prod/iceberg", world.runtime)
    await decisions.decide("T1", "aborted")
    path, data = await world.find("iceberg/txns/")
    document = json.loads(data)

    async def newer() -> None:
        changed = json.dumps({**document, "format": NEWEST["decision"] + 1, "outcome": "later"}).encode()
        await world.store.put(path, changed, only_if_absent=False)
        await decisions.read("T1")

    return document["format"], newer


TRIALS = {
    "incarnation": _incarnation,
    "successor": _successor,
    "segment": _segment,
    "pack": _pack,
    "manifest": _manifest,
    "delta": _delta,
    "result": _result,
    "pointer": _pointer,
    "claim": _claim,
    "decision": _decision,
    "backup": _backup,
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_writer_writes_the_newest_and_a_reader_refuses_a_newer_one(name: str) -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime, compact=False) as workspace:
            await workspace.decide("catalog", CreateNamespace(("sales",)), actor="me")
            await workspace.logs["catalog"].compactor.publish()
        written, newer = await TRIALS[name](World(runtime, store))
        assert written == NEWEST[name]
        with pytest.raises(Outdated, match="upgrade arco"):
            await newer()

    run(main())


def test_a_workspace_of_a_newer_manifest_is_refused_and_left_as_it_is() -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        await init_workspace(store, SCOPE, runtime)
        async with await Workspace.open(store, SCOPE, runtime, compact=False) as workspace:
            await workspace.decide("catalog", CreateNamespace(("sales",)), actor="me")
            await workspace.logs["catalog"].compactor.publish()
        world = World(runtime, store)
        path, data = await world.find("manifests/catalog/0")
        later = msgspec.structs.replace(decode_manifest(data, path), format=NEWEST["manifest"] + 1)
        await store.put(path, encode_manifest(later), only_if_absent=False)
        before = {info.path: await store.get(info.path) async for info in store.list("")}
        with pytest.raises(Outdated, match="manifest format"):
            await Workspace.open(store, SCOPE, runtime, test_store=False)
        await asyncio.sleep(5)
        assert {info.path: await store.get(info.path) async for info in store.list("")} == before

    run(main())


def test_every_version_has_its_trial() -> None:
    assert {name for name, newest in NEWEST.items() if newest} == {*TRIALS, "envelope"}  # of that: tests/servo


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for found in FORMATS:
        assert f"| {found.name} | {found.newest or 'none of its own'} | {found.told_by} |" in text

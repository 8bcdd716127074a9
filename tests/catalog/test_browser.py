"""Signed URLs: of the manifest and the files that hold what is asked for, and of nothing else."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from arco.catalog._browser import browser_urls
from arco.catalog._names import resolve_namespace
from arco.core import SECOND, Invalid, NotFound, format_time
from arco.domains.access import CreateApiKey, UserRole
from arco.domains.catalog import NAMES
from arco.state import File, Layer, LayerReader
from arco.storage import LocalSigner, LocalStore, MemoryStore, Operation, Role, Store, verify_local
from arco.wire import BrowserLog, BrowserTable, BrowserUrlsRequest
from tests.catalog.world import World, in_world
from tests.doubles import FakeRuntime
from tests.runtime.world import SCOPE

SECRET = b"s" * 32
BASE = "http://127.0.0.1/objects"


class Signing(MemoryStore):
    """A store in memory whose objects have URLs."""

    async def sign(self, path: str, *, expires_in: int) -> str:
        return f"memory:{path}?{expires_in}"


def asked(*tables: str | BrowserTable, **more: Any) -> BrowserUrlsRequest:
    found = [BrowserTable(table=table) if isinstance(table, str) else table for table in tables]
    return BrowserUrlsRequest(tables=found, **more)


async def filled(world: World) -> None:
    await world.namespace("s")
    receipt = await world.table("s.t")
    await world.workspace.published("catalog", receipt.position)
    await world.decide(CreateApiKey("ci", role=UserRole.VIEWER), minted={"secret_hash": "0" * 64})
    receipt = await world.table("s.u")
    await world.workspace.published("catalog", receipt.position)


def test_the_urls_read_exactly_what_the_manifest_names(tmp_path: Path) -> None:
    def store(runtime: FakeRuntime) -> Store:
        return LocalStore(tmp_path, signer=LocalSigner(SECRET, BASE, runtime))

    async def test(world: World) -> None:
        await filled(world)
        found = await browser_urls(world.workspace, asked("tables", expires_in=60))
        assert found.expires_at == format_time(world.runtime.now() + 60 * SECOND)
        [log] = found.logs
        manifest = (await world.catalog.snapshot()).manifest
        assert (log.log, log.revision, log.position) == ("catalog", manifest.number, manifest.watermark)
        assert log.manifest_url is not None

        def read(url: str) -> bytes:
            path = verify_local(SECRET, BASE, url, world.runtime.now())
            assert path.startswith(f"{SCOPE.root}/")
            return (tmp_path / path).read_bytes()

        assert json.loads(read(log.manifest_url))["number"] == manifest.number
        assert [file.sha256 for file in log.files] == [
            file.sha256 for layer in manifest.layers_of("tables") for file in layer.files
        ]
        for file in log.files:
            data = read(file.url)[file.offset : file.offset + file.length]
            assert hashlib.sha256(data).hexdigest() == file.sha256

    in_world(test, store)


def test_only_files_with_the_groups_bucket_are_signed() -> None:
    async def test(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.namespace(name)
            receipt = await world.table(f"{name}.t")
            await world.workspace.published("catalog", receipt.position)
        space = await world.read(lambda view: resolve_namespace(view, "b"))
        table = BrowserTable(table="names", groups=[space.id])
        before = world.workspace.counts.table()
        [log] = (await browser_urls(world.workspace, asked(table))).logs
        asked_for = {key: n - before.get(key, 0) for key, n in world.workspace.counts.table().items()}
        every = (await world.catalog.snapshot()).manifest.layers_of("names")
        assert 0 < len(log.files) < sum(len(layer.files) for layer in every)
        # One look for a newer revision; what is signed is not read.
        assert asked_for.get((Role.READER, Operation.GET_RANGE), 0) == 0
        assert asked_for[Role.READER, Operation.SIGN] == 1 + len({file.url for file in log.files})
        rows = await rows_in(world, log, NAMES)
        assert {name for parent, name in rows if parent == space.id} == {"t"}

    in_world(test, Signing)


async def rows_in(world: World, log: BrowserLog, table: Any) -> set[tuple[str, str]]:
    """What somebody finds who has nothing but the answer."""
    reader = LayerReader(world.workspace.handle(Role.READER))
    found: set[tuple[str, str]] = set()
    for file in log.files:
        path = file.url.removeprefix(f"memory:{SCOPE.root}/").partition("?")[0]
        slice_ = File(path, file.offset, file.length, file.sha256, file.rows, "f" * 64)
        data = await reader.rows(table, [Layer(table.name, 0, file.first, file.last, (slice_,))])
        found |= set(zip(data.column("parent_id").to_pylist(), data.column("name").to_pylist(), strict=True))
    return found


def test_private_tables_are_unknown() -> None:
    async def test(world: World) -> None:
        await filled(world)
        texts = []
        for name in ("api_keys", "settings", "role_bindings", "nonsense"):
            with pytest.raises(NotFound) as error:
                await browser_urls(world.workspace, asked("tables", name))
            texts.append(error.value.message.replace(name, "it"))
        assert len(set(texts)) == 1
        assert "api_keys" not in texts[0]
        public = sorted(
            {n for log in world.workspace.logs.values() for n, t in log.definition.tables.items() if not t.private}
        )
        found = await browser_urls(world.workspace, asked(*public))
        urls = [file.url for log in found.logs for file in log.files]
        assert urls
        assert not any("/private/" in url for url in urls)

    in_world(test, Signing)


def test_a_revision_belongs_to_one_log() -> None:
    async def test(world: World) -> None:
        await filled(world)
        head = (await world.catalog.snapshot()).manifest.number
        [log] = (await browser_urls(world.workspace, asked("tables", revision=head - 1))).logs
        assert log.revision == head - 1
        for tables in (("tables", "partitions"), ("audit",)):
            with pytest.raises(Invalid, match="revision"):
                await browser_urls(world.workspace, asked(*tables, revision=1))
        with pytest.raises(NotFound):
            await browser_urls(world.workspace, asked("tables", revision=99))
        with pytest.raises(Invalid, match="twice"):
            await browser_urls(world.workspace, asked("tables", "tables"))
        with pytest.raises(Invalid, match="groups"):
            await browser_urls(world.workspace, asked(BrowserTable(table="names", groups=["x"] * 1001)))

    in_world(test, Signing)


def test_before_the_first_revision_there_is_nothing_to_sign() -> None:
    async def test(world: World) -> None:
        found = await browser_urls(world.workspace, asked("tables", "audit"))
        assert {log.log for log in found.logs} == {"catalog", "activity"}
        assert all(log.manifest_url is None and log.files == [] for log in found.logs)

    in_world(test, Signing)

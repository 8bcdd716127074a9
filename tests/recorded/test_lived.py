"""Workspaces that have lived, as earlier releases left them: commands of today find nothing wrong with them, upgrade
them, and restore the backups that lie beside them. They lie in a bucket, where their Iceberg tables say they are."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from arco.backup import bury
from arco.cli import _open
from arco.core import Superseded
from arco.log import Place
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace, read_incarnations
from arco.state import Manifest, Revisions
from arco.storage import LocalStore, RequestCounts, Role, RoleStore
from tests.backup.test_erase import holders
from tests.cli.conftest import Cli
from tests.emulators.servers import Emulator
from tests.recorded.lived import ERASED, TABLES, record
from tests.recorded.record import SCOPE, summary
from tests.recorded.whole import ARCHIVES, extract, later, live, root_of, served

PREFIX = "lived"
LIVED = [path for path in ARCHIVES if path.name.endswith("-lived.tar.xz")]


@dataclass(frozen=True)
class Lived:
    folder: Path
    expected: dict[str, Any]
    emulator: Emulator

    def place(self, *, empty: bool = False) -> None:
        """Bring the store to what was recorded, or to nothing."""

        async def main() -> None:
            store = self.emulator.store(PREFIX)
            for path in [info.path async for info in store.list("")]:
                await store.delete(path)
            for file in () if empty else sorted((self.folder / "store").rglob("*")):
                if file.is_file():
                    path = file.relative_to(self.folder / "store").as_posix()
                    await store.put(path, file.read_bytes(), only_if_absent=True)
            await store.close()

        asyncio.run(main())


@pytest.fixture(params=LIVED, ids=lambda path: path.name)
def lived(request: pytest.FixtureRequest, home: Path, s3_server: Emulator, monkeypatch: pytest.MonkeyPatch) -> Lived:
    _, expected = extract(request.param, home)
    assert root_of(expected) == s3_server.url(PREFIX)
    for name, value in s3_server.options.items():
        monkeypatch.setenv(f"ARCO_STORE_OPTIONS_{name.upper()}", str(value).lower())
    monkeypatch.setenv("ARCO_STORE", s3_server.url(PREFIX))
    monkeypatch.setenv("ARCO_TENANT_ID", SCOPE.tenant)
    monkeypatch.setenv("ARCO_WORKSPACE_ID", SCOPE.workspace)
    monkeypatch.setenv("ARCO_BACKUP_TO", f"file://{home}/vault")
    found = Lived(home, expected, s3_server)
    found.place()
    return found


def check_healthy(cli: Cli) -> None:
    ran = cli("doctor", "--json")
    assert ran.code == 0, ran.err
    wrong = [found for found in ran.document["findings"] if found["level"] in ("error", "warning")]
    assert [found for found in wrong if found["check"] != "versions"] == [], "older folds are none of its faults"


def test_there_is_one() -> None:
    assert LIVED


def test_recording_twice_gives_the_same_bytes() -> None:
    assert record() == record()


@pytest.mark.parametrize("archive", LIVED, ids=lambda path: path.name)
def test_it_has_packs_a_sealed_incarnation_and_what_an_erasure_leaves(archive: Path, tmp_path: Path) -> None:
    async def main() -> None:
        store, runtime = LocalStore(extract(archive, tmp_path)[0]), AsyncRuntime()
        erased, restored, now = await read_incarnations(store, SCOPE, runtime, all_of_them=True)
        reader = RoleStore(store, SCOPE, Role.READER, RequestCounts())
        for definition in DEFINITIONS:

            async def head(life: str, log: str = definition.log) -> Manifest:
                place = Place(SCOPE.tenant, SCOPE.workspace, life, log)
                return (await Revisions(reader, place, runtime).head()).manifest

            with pytest.raises(Superseded, match="is deleted"):
                await head(erased.id)
            sealed, live = await head(restored.id), await head(now.id)
            assert (sealed.seal, sealed.format) == (True, 2)
            assert (live.seal, live.format) == (False, 2)
            assert live.pins
            for manifest in (sealed, live):
                ledger = f"{manifest.incarnation}/ledger/{definition.log}"
                loose = [info.path async for info in reader.list(ledger) if "/floor/" not in info.path]
                numbers = [int(path.rsplit("/", 1)[1]) for path in loose if path[-1].isdigit()]
                assert len(manifest.packs) > 1
                assert 1 < min(numbers) <= manifest.packs[-1].last + 1, "the first ones are nowhere else"

    asyncio.run(main())


@pytest.mark.parametrize("archive", LIVED, ids=lambda path: path.name)
def test_what_was_erased_is_left_where_it_was_too_young_to_go_and_goes(archive: Path, tmp_path: Path) -> None:
    async def main() -> None:
        store, runtime = LocalStore(extract(archive, tmp_path)[0]), AsyncRuntime()
        erased, *_ = await read_incarnations(store, SCOPE, runtime, all_of_them=True)
        [left] = await holders(store, ERASED)
        assert left.startswith(f"{SCOPE.root}/{erased.id}/ledger/catalog/")
        assert not await holders(LocalStore(tmp_path / "vault"), ERASED)
        await bury(store, SCOPE, runtime)
        assert not await holders(store, ERASED)

    asyncio.run(main())


def test_nothing_is_found_wrong(lived: Lived, cli: Cli) -> None:
    check_healthy(cli)
    ran = cli("log", "verify", "--json")
    assert ran.code == 0, ran.err
    found = {log["log"]: {name: log[name] for name in ("segments", "events", "sha256")} for log in ran.document["logs"]}
    assert found == lived.expected["chains"]
    assert all(log["packed_segments"] > 0 for log in ran.document["logs"])
    assert cli("rebuild", "--verify", "--json").document["equal"]


def test_it_is_upgraded(lived: Lived, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = cli("upgrade", "--dry-run", "--json")
    assert ran.code == 0, ran.err
    ran = cli("upgrade", "--json")
    assert (ran.code, ran.document["different"]) == (0, []), ran.err
    monkeypatch.setattr(_open, "DEFINITIONS", [later(definition) for definition in DEFINITIONS])
    ran = cli("upgrade", "--dry-run", "--json")
    assert (ran.code, ran.document["needed"]) == (0, True), ran.err
    ran = cli("upgrade", "--json")
    assert (ran.code, ran.document["done"], ran.document["different"]) == (0, True, []), ran.err
    assert cli("rebuild", "--verify", "--json").document["equal"]
    check_healthy(cli)


def test_its_backups_are_whole_and_bring_it_back(lived: Lived, cli: Cli) -> None:
    full, more = cli("backup", "list", "--json").document["backups"]
    assert more["objects"] - more["copied"] > full["copied"] // 2, "most of the first one is in the second, not copied"
    for backup in (full, more):
        ran = cli("backup", "verify", str(backup["backup"]), "--json")
        assert (ran.code, ran.document["errors"], ran.document["warnings"]) == (0, 0, 0), ran.err
    lived.place(empty=True)
    ran = cli("restore", "--json")
    assert (ran.code, ran.document["elsewhere"]) == (0, []), ran.err
    check_healthy(cli)
    assert cli("restore", "--verify", "--json").document["healthy"]
    asyncio.run(compare(lived))


async def compare(lived: Lived) -> None:
    """What the workspace says at the position of the backup is what it said when that was taken."""
    expected = lived.expected["backed_up"]
    store = lived.emulator.store(PREFIX)
    async with await Workspace.open(store, SCOPE, AsyncRuntime(), compact=False) as workspace:
        for definition in DEFINITIONS:
            wanted = expected["logs"][definition.log]
            position = int(expected["positions"][definition.log])
            then = await workspace.logs[definition.log].snapshot(position=position)
            assert await summary(definition, then, wanted["columns"]) == wanted["tables"]
        async with served(workspace, root_of(lived.expected)) as house:
            assert (await live(house, names=TABLES))["iceberg"] == expected["iceberg"]
    await store.close()

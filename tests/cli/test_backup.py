"""`arco backup` and `arco restore` as people use them, on vaults that lost something, and on what is left of others."""

import asyncio
from pathlib import Path

import pytest

from arco.backup import Vault
from arco.backup._seal import seal_incarnation
from arco.iceberg import Who
from arco.runtime import AsyncRuntime, read_incarnation
from arco.storage import LocalStore, RequestCounts, Role, RoleStore
from tests.cli.conftest import SCOPE, Cli


@pytest.fixture
def vault(cli: Cli, workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of three backups."""
    monkeypatch.setenv("ARCO_BACKUP_TO", f"file://{home}/vault")
    for _ in range(3):
        assert cli("backup").code == 0
    return home / "vault/default/default/backups" / f"{0:013d}"


def newest_life(workspace: Path) -> str:
    return asyncio.run(read_incarnation(LocalStore(workspace.parent.parent), SCOPE, AsyncRuntime())).id


def test_a_list_shows_what_cannot_be_read(cli: Cli, vault: Path) -> None:
    second = vault / f"{2:020d}"
    second.write_bytes(second.read_bytes().replace(b"local:", b"Local:"))
    ran = cli("backup", "list")
    assert ran.code == 7
    assert [line.split()[:2][-1] for line in ran.out.splitlines() if line.startswith("2 ")] == ["damaged"]
    assert "was altered" in ran.err
    ran = cli("backup", "list", "--json")
    assert ran.code == 7
    assert [one["backup"] for one in ran.document["backups"]] == [1, 3]
    [row] = ran.document["unreadable"]
    assert (row["backup"], row["path"]) == (2, f"backups/{0:013d}/{2:020d}")
    assert cli("backup", "verify").code == 0, "the newest is whole"
    assert cli("backup", "prune", "--before", "3").code == 0
    ran = cli("backup", "list", "--json")
    assert (ran.code, len(ran.document["backups"]), ran.document["unreadable"]) == (0, 1, [])


def test_a_list_shows_what_is_missing(cli: Cli, vault: Path) -> None:
    for number in (1, 2):
        (vault / f"{number:020d}").unlink()
    ran = cli("backup", "list")
    assert ran.code == 7
    assert any(line.startswith("1 to 2 ") and "missing" in line for line in ran.out.splitlines())
    assert "missing: 1 to 2. Something deletes objects" in ran.err
    for command in (("backup",), ("restore", "--replace")):
        ran = cli(*command)
        assert ran.code == 7
        assert "newer backups: 3;" in ran.err
    assert cli("restore", "--replace", "--backup", "3").code == 0


@pytest.mark.parametrize("kind", ["ledger", "state"])
def test_a_backup_that_was_copied_by_halves_is_refused(
    cli: Cli, vault: Path, workspace: Path, home: Path, kind: str
) -> None:
    async def lost() -> str:
        reader = RoleStore(LocalStore(home / "vault"), SCOPE, Role.READER, RequestCounts())
        there = Vault(reader, SCOPE.tenant, SCOPE.workspace, AsyncRuntime())
        backup = await there.backup(None)
        if kind == "ledger":
            return there.path((await there.chunks(backup, "catalog"))[0].content)
        return there.path((await there.entries(backup.lists_of("state", "catalog")[0]))[0].content)

    path = asyncio.run(lost())
    (home / "vault/default/default" / path).unlink()
    ran = cli("backup", "verify", "--json")
    assert ran.code == 7
    assert [one["path"] for one in ran.document["findings"] if one["level"] == "error"] == [path]
    lives = sorted(file.name for file in (workspace / "incarnations").rglob("*"))
    ran = cli("restore", "--replace")
    assert ran.code == 7
    assert f"{path} is missing although a backup names it; use another backup" in " ".join(ran.err.split())
    assert sorted(file.name for file in (workspace / "incarnations").rglob("*")) == lives
    assert cli("doctor").code == 0
    assert cli("namespace", "create", "still").code == 0


def test_a_restored_workspace_is_compared_by_its_bytes(cli: Cli, vault: Path, workspace: Path) -> None:
    file = workspace / "data/asset/partition/version/part-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    assert cli("backup", "--data").code == 0
    assert cli("restore", "--replace").code == 0
    assert cli("restore", "--verify").code == 0
    file.write_bytes(b"Rows")
    ran = cli("restore", "--verify", "--json")
    assert ran.code == 7
    [found] = [one for one in ran.document["findings"] if one["level"] == "error"]
    assert found["path"] == "data/asset/partition/version/part-0.parquet"
    assert "delete this one object" in found["message"]
    file.write_bytes(b"row")
    ran = cli("restore", "--replace")
    assert ran.code == 3
    assert f"{found['path']} is there and is not what this would write; it was altered or cut off" in ran.err
    file.unlink()
    assert cli("restore", "--replace").code == 0
    assert file.read_bytes() == b"rows"
    assert cli("restore", "--verify").code == 0


def test_the_policy_of_a_collector_names_what_a_restore_superseded(cli: Cli, vault: Path, workspace: Path) -> None:
    former = newest_life(workspace)
    assert cli("restore", "--replace").code == 0
    [created] = [
        one["Resource"]
        for one in cli("policy", "collector", "--bucket", "lake").document["Statement"]
        if one["Sid"] == "Create"
    ]
    ends = [name for name in created if name.endswith("/manifests/*/0*/*")]
    assert ends == [f"arn:aws:s3:::lake/{SCOPE.root}/{former}/manifests/*/0*/*"]


def test_an_interrupted_erasure_is_shown_before_it_is_replaced(cli: Cli, vault: Path, workspace: Path) -> None:
    async def seal() -> None:
        runtime, store = AsyncRuntime(), LocalStore(workspace.parent.parent)
        life = (await read_incarnation(store, SCOPE, runtime)).id
        admin = RoleStore(store, SCOPE, Role.ADMIN, RequestCounts())
        who = Who("ann", "01ARZ3NDEKTSV4RRFFQ69G5FAV", client="arco erase")
        await seal_incarnation(admin, SCOPE.tenant, SCOPE.workspace, life, runtime, who, known={}, manifests=False)

    asyncio.run(seal())
    assert "which arco erase sealed and did not finish" in " ".join(cli("restore", "--dry-run").out.split())
    ran = cli("restore")
    assert ran.code == 3
    assert "`arco erase` sealed it and was interrupted: run the same command again" in ran.err
    assert cli("restore", "--replace").code == 0


def test_an_erasure_names_backups_that_cannot_be_read(cli: Cli, vault: Path) -> None:
    (vault / f"{2:020d}").write_bytes(b"{}")
    shown = cli("erase", "--text", "eve", "--reason", "request 7", "--dry-run", "--json").document
    assert shown["backups"] == [1, 2, 3]


def test_what_is_no_url_of_a_store_is_told_all_kinds(cli: Cli, workspace: Path) -> None:
    ran = cli("backup", "--to", "foo")
    assert ran.code == 2
    assert "file://, s3://, az:// or gs://" in ran.err

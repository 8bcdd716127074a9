"""`arco erase` as people use it, with backups beside it, and `arco gc` after it."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from arco.backup import Erased, Vault, erase, take_backup
from arco.core import Unavailable
from arco.iceberg import Locations
from arco.runtime import AsyncRuntime, Workspace
from arco.storage import LocalStore, RequestCounts, Role, RoleStore
from tests.cli.conftest import ASSET, SCOPE, Cli

WHY = ("--reason", "request 7")


def age(workspace: Path) -> None:
    """Let everything there be two hours old."""
    then = time.time() - 7200
    for path in workspace.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_erase_says_what_it_would_do_and_does_it(cli: Cli, workspace: Path, home: Path) -> None:
    vault = f"file://{home}/vault"
    assert cli("backup", "--to", vault).code == 0
    before = {path for path in workspace.rglob("*") if path.is_file()}
    shown = cli("erase", "--about", ASSET, *WHY, "--dry-run", "--json", ARCO_BACKUP_TO=vault).document
    assert {path for path in workspace.rglob("*") if path.is_file()} == before, "a dry run writes nothing"
    assert (shown["events"]["activity"], shown["events"]["catalog"]) == ({"MaterializationCompleted": 8}, {})
    assert shown["backups"] == [1]
    age(workspace)
    done = cli("erase", "--about", ASSET, *WHY, "--yes", "--json", ARCO_BACKUP_TO=vault).document
    assert done["events"] == shown["events"]
    assert done["incarnations"][0]["objects"]
    kinds = [line.split('"type":"', 1)[1].split('"', 1)[0] for line in cli("log", "cat", "activity").out.splitlines()]
    assert kinds.count("EventErased") == 8
    assert kinds[-1] == "WorkspaceErased"
    for command in (("doctor",), ("log", "verify"), ("rebuild", "--verify")):
        assert cli(*command).code == 0
    assert "erase" in cli("audit").out
    row = cli("query", "select reason, events from system.erasures order by events", "--json").document["rows"][-1]
    assert row == ["request 7", 8]
    again = cli("erase", "--about", ASSET, *WHY, "--yes")
    assert again.code == 0 or "no event names the id" in again.err


def test_gc_deletes_what_was_too_young(cli: Cli, workspace: Path) -> None:
    done = cli("erase", "--text", "eve", *WHY, "--yes", "--json").document
    [former] = done["incarnations"]
    assert former["waiting"]
    assert former["due"]
    assert cli("gc", "--json").document["incarnations"][0]["waiting"] == former["waiting"]
    age(workspace)
    gone = cli("gc", "--json").document["incarnations"][0]
    assert len(gone["objects"]) >= former["waiting"]
    assert gone["waiting"] == 0
    folder = workspace / former["incarnation"]
    assert not [path for path in folder.rglob("*") if path.is_file() and b"eve" in path.read_bytes()]
    assert cli("doctor").code == 0


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ((), 2, "nothing says what to erase"),
        (("--text", "ab"), 2, "stands everywhere"),
        (("--event", "12:0"), 2, "names no event"),
        (("--event", "activity=2:0..1:0"), 2, "swap them"),
        (("--event", "activity=99:0"), 3, "there is no event at 99:0"),
        (("--event", "other=1:0"), 3, "there is no log 'other'"),
        (("--about", ""), 2, "is no id"),
        (("--about", "../.."), 2, "is no id"),
        (("--about", "nothing"), 3, "no event names the id"),
        (("--text", "nobody said this"), 3, "the text stands in no event"),
        (("--event", "catalog=2:0"), 3, "mean nothing without what would go"),
    ],
)
def test_what_cannot_be_erased_is_refused(
    cli: Cli, workspace: Path, given: tuple[str, ...], code: int, said: str
) -> None:
    done = cli("erase", *given, *WHY, "--yes")
    assert (done.code, said in done.err) == (code, True), done.err
    assert len(list(workspace.glob("inc-*"))) == 1


def test_a_reason_is_needed_and_keeps_the_secret(cli: Cli, workspace: Path) -> None:
    assert "say why" in cli("erase", "--text", "eve", "--reason", " ", "--yes").err
    assert "say it otherwise" in cli("erase", "--text", "eve", "--reason", "eve asked", "--yes").err
    assert "say --yes" in cli("erase", "--text", "eve", *WHY).err


def test_an_asset_that_is_deployed_is_not_erased(cli: Cli, project: Path) -> None:
    asset = cli("query", "select asset_id, key from system.assets order by key limit 1", "--json").document["rows"][0]
    refused = cli("erase", "--about", asset[0], *WHY, "--yes")
    assert refused.code == 3
    assert f"the asset {asset[1]} is in the code that is deployed" in refused.err


def test_a_backup_that_is_finished_meanwhile_is_named(
    cli: Cli, workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copies were made before the seal. One of the incarnation without it has a number after it, and is not."""
    monkeypatch.setenv("ARCO_BACKUP_TO", f"file://{home}/vault")
    for _ in range(2):
        assert cli("backup").code == 0
    backup = home / "vault/default/default/backups" / f"{0:013d}" / f"{2:020d}"
    aside = backup.rename(home / "aside")

    async def meanwhile(*given: Any, **named: Any) -> Erased:
        aside.rename(backup)
        done = await erase(*given, **named)
        async with await Workspace.open(given[0], SCOPE, AsyncRuntime(), test_store=False) as opened:
            handle = RoleStore(LocalStore(home / "vault"), SCOPE, Role.BACKUP, RequestCounts())
            vault = Vault(handle, SCOPE.tenant, SCOPE.workspace, AsyncRuntime())
            places = Locations(opened.handle(Role.READER), f"file://{workspace.parent.parent}", SCOPE.root)
            await take_backup(opened, vault, places, store="file:///elsewhere", actor="server")
        return done

    monkeypatch.setattr("arco.cli._erase.erase", meanwhile)
    done = cli("erase", "--text", "eve", *WHY, "--yes", "--json")
    assert done.document["backups"] == [1, 2]
    assert [one["backup"] for one in cli("backup", "list", "--json").document["backups"]] == [1, 2, 3]


@pytest.mark.parametrize("out_of_reach", [False, True])
def test_a_vault_that_goes_meanwhile_hides_no_backup(
    cli: Cli, workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch, out_of_reach: bool
) -> None:
    """What is erased is erased, and the backups that were seen before are named all the same."""
    monkeypatch.setenv("ARCO_BACKUP_TO", f"file://{home}/vault")
    assert cli("backup").code == 0

    def refuse(*given: Any, **named: Any) -> None:
        raise Unavailable("the vault is out of reach")

    async def meanwhile(*given: Any, **named: Any) -> Erased:
        done = await erase(*given, **named)
        (home / "vault").rename(home / "gone")
        if out_of_reach:
            monkeypatch.setattr("arco.cli._erase.open_vault", refuse)
        return done

    monkeypatch.setattr("arco.cli._erase.erase", meanwhile)
    done = cli("erase", "--text", "eve", *WHY, "--yes", "--json")
    assert done.code == 0
    assert done.document["backups"] == [1]
    assert ("one that was finished meanwhile may hold it too: the vault is out of reach" in done.err) == out_of_reach

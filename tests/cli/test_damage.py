"""Damaged workspaces: the doctor names the file and exits with 7, readers refuse, and a rebuild heals what it can."""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from arco.backup._seal import seal_incarnation
from arco.iceberg import Who
from arco.runtime import AsyncRuntime, read_incarnation
from arco.state import decode_manifest
from arco.storage import LocalStore, RequestCounts, Role, RoleStore
from tests.cli.conftest import PUBLISHED, SCOPE, UNPUBLISHED, Cli


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = [flip, cut, empty, Path.unlink]
Damage = Callable[[Path], None]


def numbered(workspace: Path, kind: str, number: int) -> Path:
    (found,) = workspace.glob(f"inc-*/{kind}/activity/{0:013d}/{number:020d}")
    return found


def state_files(workspace: Path) -> list[Path]:
    head = numbered(workspace, "manifests", PUBLISHED)
    manifest = decode_manifest(head.read_bytes(), str(head))
    return sorted({workspace / file.path for layer in manifest.layers for file in layer.files})


def check_named(cli: Cli, workspace: Path, path: Path) -> None:
    ran = cli("doctor", "--json")
    assert ran.code == 7
    errors = [finding for finding in ran.document["findings"] if finding["level"] == "error"]
    assert errors
    assert not ran.document["healthy"]
    assert any(finding["path"].endswith(str(path.relative_to(workspace))) for finding in errors)
    assert cli("doctor").out.strip().splitlines()[-1].startswith("Not healthy")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("number", [1, 3, PUBLISHED])
def test_the_doctor_names_a_damaged_segment(cli: Cli, workspace: Path, number: int, damage: Damage) -> None:
    path = numbered(workspace, "ledger", number)
    damage(path)
    check_named(cli, workspace, path)
    assert cli("log", "verify", "catalog").code == 0


@pytest.mark.parametrize("damage", [flip, cut, empty], ids=lambda damage: damage.__name__)
def test_log_verify_and_cat_stop_at_a_damaged_segment(cli: Cli, workspace: Path, damage: Damage) -> None:
    path = numbered(workspace, "ledger", 3)
    damage(path)
    ran = cli("log", "verify", "--json")
    assert ran.code == 7
    good, broken = ran.document["logs"]
    assert good["ok"]
    assert broken["error"]["details"]["path"].endswith(path.name)
    ran = cli("log", "cat", "activity")
    assert ran.code == 7
    assert len(ran.out.splitlines()) == 2
    assert path.name in ran.err


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_the_doctor_names_a_damaged_older_manifest(cli: Cli, workspace: Path, damage: Damage) -> None:
    path = numbered(workspace, "manifests", 2)
    damage(path)
    check_named(cli, workspace, path)
    assert cli("state", "show", "partitions", "--revision", "2").code != 0


@pytest.mark.parametrize("damage", [flip, cut, empty], ids=lambda damage: damage.__name__)
def test_a_damaged_newest_manifest_is_named_and_the_log_stays_readable(
    cli: Cli, workspace: Path, damage: Damage
) -> None:
    path = numbered(workspace, "manifests", PUBLISHED)
    damage(path)
    check_named(cli, workspace, path)
    ran = cli("state", "show", "partitions")
    assert ran.code == 7
    assert "`arco restore --replace`" in " ".join(ran.err.split())
    assert len(cli("log", "cat", "activity").out.splitlines()) == PUBLISHED + UNPUBLISHED
    assert cli("log", "verify").code == 0


def test_the_doctor_does_not_take_a_newer_manifest_for_damage(cli: Cli, workspace: Path) -> None:
    path = numbered(workspace, "manifests", PUBLISHED)
    path.write_bytes(re.sub(rb'"format":\d+', b'"format":99', path.read_bytes(), count=1))
    ran = cli("doctor", "--json")
    assert (ran.code, ran.error["name"]) == (5, "Outdated")
    assert path.name in ran.error["message"]
    assert "upgrade arco" in ran.error["message"]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_the_doctor_names_a_damaged_file_and_rebuild_heals_it(cli: Cli, workspace: Path, damage: Damage) -> None:
    path = state_files(workspace)[-1]
    damage(path)
    check_named(cli, workspace, path)
    assert cli("rebuild", "--verify").code == 7
    assert cli("rebuild").code == 0
    assert cli("rebuild", "--verify").code == 0
    assert cli("state", "show", "materializations", "--json").document["total"] == PUBLISHED + UNPUBLISHED


def test_compact_ends_when_a_merge_cannot_be_done(cli: Cli, workspace: Path) -> None:
    flip(state_files(workspace)[0])
    ran = cli("compact", "activity", ARCO_MERGE_FAN_IN="2")
    assert ran.code == 7
    assert "arco rebuild" in ran.err


def test_gc_deletes_nothing_while_a_manifest_cannot_be_read(cli: Cli, workspace: Path) -> None:
    flip(numbered(workspace, "manifests", 2))
    before = sorted(workspace.rglob("*"))
    assert cli("gc").code == 7
    assert sorted(workspace.rglob("*")) == before


def test_a_damaged_incarnation_is_a_finding(cli: Cli, workspace: Path) -> None:
    (path,) = workspace.glob("incarnations/*/*")
    cut(path)
    ran = cli("doctor", "--json")
    assert ran.code == 7
    (finding,) = ran.document["findings"]
    assert path.name in finding["message"]


def test_a_lost_incarnation_is_told_and_nothing_is_created_over_it(cli: Cli, workspace: Path, home: Path) -> None:
    vault = f"file://{home}/vault"
    assert cli("backup", "--to", vault).code == 0
    [path] = workspace.glob("incarnations/*/*")
    [life] = [folder.name for folder in workspace.glob("inc-*")]
    path.unlink()
    before = sorted(file for file in workspace.rglob("*") if file.is_file())
    serve = ["serve", "--listen", "127.0.0.1:0"]
    commands = ["init"], ["namespace", "list"], ["gc"], ["erase", "--text", "eve", "--reason", "request 7"], serve
    for command in (*commands, ["restore", "--from", vault], ["restore", "--from", vault, "--replace"]):
        ran = cli(*command)
        assert ran.code == 7, command
        told = "".join(ran.err.split())
        assert str(path.relative_to(workspace)) in told, command
        assert f"{life}/" in told, command
    ran = cli("doctor", "--json")
    assert ran.code == 7
    [finding] = ran.document["findings"]
    assert (finding["check"], finding["path"]) == ("incarnation", str(path.relative_to(workspace)))
    assert all(word in finding["message"] for word in (life, "lifecycle rule", "put the object back"))
    assert sorted(file for file in workspace.rglob("*") if file.is_file()) == before
    # As docs/stores.md says.
    path.write_text(f'{{"id":"{life}","number":1,"created_at":1794000000000000,"reason":"init"}}')
    assert cli("doctor").code == 0
    assert cli("namespace", "create", "more").code == 0
    assert cli("restore", "--from", vault, "--replace").code == 0
    assert cli("doctor").code == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("arco restore", "`arco restore` was interrupted: run the same command again"),
        ("arco erase", "`arco erase` was interrupted: run the same command again to finish it, and not `arco restore`"),
        ("", "`arco restore` or `arco erase` was interrupted: find out which"),
    ],
)
def test_a_command_says_at_once_what_was_interrupted(cli: Cli, workspace: Path, command: str, says: str) -> None:
    async def seal() -> None:
        runtime, store = AsyncRuntime(), LocalStore(workspace.parent.parent)
        life = (await read_incarnation(store, SCOPE, runtime)).id
        admin = RoleStore(store, SCOPE, Role.ADMIN, RequestCounts())
        who, manifests = Who("ann", "01ARZ3NDEKTSV4RRFFQ69G5FAV", client=command), command != "arco erase"
        await seal_incarnation(admin, SCOPE.tenant, SCOPE.workspace, life, runtime, who, known={}, manifests=manifests)

    asyncio.run(seal())
    begun = time.monotonic()
    ran = cli("namespace", "create", "more")
    assert time.monotonic() - begun < 60, "not for as long as a client waits for a server"
    assert ran.code == 5
    assert says in " ".join(ran.err.split())
    assert ran.err.count("is sealed") == 1
    assert cli("namespace", "list").code == 0

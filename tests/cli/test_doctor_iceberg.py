"""The doctor looks at what the names of Iceberg tables and views lead to, and names what is lost or altered."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arco.core import new_ulid
from arco.domains.catalog import CreateNamespace, CreateTable
from arco.iceberg import Who, open_iceberg, open_locations, open_upkeep
from arco.runtime import AsyncRuntime, Workspace
from arco.storage import LocalStore, Role
from tests.cli.conftest import SCOPE, Cli
from tests.iceberg.house import commit_of, created, view_of

COMMITS = 3


async def _fill(root: Path) -> None:
    """A table with three pointers, one that a transaction made with another table, and a view."""
    runtime = AsyncRuntime()
    async with await Workspace.open(LocalStore(root), SCOPE, runtime) as workspace:
        store = workspace.handle(Role.ICEBERG)
        locations = open_locations(store, f"file://{root}", SCOPE.root, {}, (), runtime)
        iceberg = open_iceberg(workspace, locations)
        upkeep = open_upkeep(workspace, iceberg.committer, locations)

        def who() -> Who:
            return Who("ann", new_ulid(runtime, runtime))

        def change(value: str) -> Any:
            return commit_of({"action": "set-properties", "updates": {"k": value}})

        await workspace.decide("catalog", CreateNamespace(("lake",)), actor="ann")
        for name in ("one", "two"):
            await iceberg.tables.create(("lake", name), created(), who())
        await iceberg.views.create(("lake", "seen"), view_of(), who())
        await iceberg.tables.commit_all([(("lake", name), change("1")) for name in ("one", "two")], who())
        await iceberg.tables.commit(("lake", "one"), change("2"), who())
        await upkeep.reconciler.reconcile()
        await upkeep.stop()


@pytest.fixture
def lake(project: Path, cli: Cli) -> Path:
    asyncio.run(_fill(project / ".arco"))
    return project / ".arco" / SCOPE.root


def _findings(cli: Cli, *args: str, code: int = 0, **environ: str) -> list[tuple[str, str, str]]:
    ran = cli("doctor", "--json", *args, **environ)
    assert ran.code == code, ran.out
    found = [one for one in ran.document["findings"] if one["check"] == "iceberg"]
    return [(one["level"], one["message"], one["path"]) for one in found]


def _pointers(lake: Path, count: int) -> Path:
    """The folder of the pointers of the table that has so many."""
    (found,) = [
        folder
        for folder in lake.glob("inc-*/iceberg/pointers/*/*")
        if len(list(folder.iterdir())) == count and _pointer(folder, 1)["kind"] == "table"
    ]
    return found


def _pointer(folder: Path, number: int) -> Any:
    return json.loads((folder / f"{number:020d}").read_bytes())


def test_what_is_whole_is_counted(cli: Cli, lake: Path) -> None:
    ((level, message, _),) = _findings(cli)
    assert (level, message) == ("ok", "looked at 3 tables and views: 6 pointers, 2 decisions, 3 metadata files")
    assert len(_findings(cli, "catalog")) == 1
    assert _findings(cli, "activity") == []


def test_without_tables_nothing_is_said(cli: Cli, project: Path) -> None:
    assert _findings(cli) == []


def _alter(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"ann"', b'"eve"'))


def _move(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"number":2', b'"number":7'))


def _spoil(path: Path) -> None:
    path.write_bytes(b"{")


@pytest.mark.parametrize(
    ("number", "damage", "text"),
    [
        (1, _alter, "pointer 1 was lost and refilled, or altered"),
        (2, _move, "says it is of number 7"),
        (2, _spoil, "is no pointer"),
        (3, _spoil, "is no pointer"),
        (3, Path.unlink, "is missing although pointer 3 was recorded"),
        (1, Path.unlink, "is missing although pointer 3 was recorded"),
    ],
)
def test_a_damaged_pointer_is_named(
    cli: Cli, lake: Path, number: int, damage: Callable[[Path], None], text: str
) -> None:
    folder = _pointers(lake, COMMITS)
    damage(folder / f"{number:020d}")
    error, counted = _findings(cli, code=7)
    assert (error[0], counted[0]) == ("error", "ok")
    assert "the table lake.one (" in error[1]
    assert text in error[1]
    assert error[2].endswith(f"{number + 1 if damage is _alter else number:020d}")


def test_a_lost_decision_is_named(cli: Cli, lake: Path) -> None:
    (decision,) = lake.glob("inc-*/iceberg/txns/*")
    decision.unlink()
    errors = [one for one in _findings(cli, code=7) if one[0] == "error"]
    assert [one[2].endswith(decision.name) for one in errors] == [True]  # that of two is the newest: undecided
    assert "lake.one" in errors[0][1]


def test_a_metadata_file_that_is_gone_or_spoiled_is_named(cli: Cli, lake: Path) -> None:
    location = _pointer(_pointers(lake, COMMITS), COMMITS)["metadata_location"]
    path = Path(location.removeprefix("file://"))
    data = path.read_bytes()
    path.write_bytes(data[:-9])
    assert "cannot be used" in _findings(cli, code=7)[0][1]
    path.write_bytes(data.replace(b'"table-uuid":"0', b'"table-uuid":"1'))
    assert "belongs to" in _findings(cli, code=7)[0][1]
    path.unlink()
    level, message, named = _findings(cli, code=7)[0]
    assert (level, named) == ("error", location)
    assert "is missing" in message


def test_a_name_that_nothing_stands_behind_is_a_warning(cli: Cli, project: Path) -> None:
    async def fill() -> None:
        runtime = AsyncRuntime()
        async with await Workspace.open(LocalStore(project / ".arco"), SCOPE, runtime) as workspace:
            await workspace.decide("catalog", CreateNamespace(("lake",)), actor="ann")
            create = CreateTable(("lake", "t"), format="ICEBERG", table_id=new_ulid(runtime, runtime))
            await workspace.decide("catalog", create, actor="ann")

    asyncio.run(fill())
    warning, counted = _findings(cli)
    assert (warning[0], "has no pointer" in warning[1], counted[0]) == ("warning", True, "ok")

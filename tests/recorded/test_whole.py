"""Whole workspaces that earlier releases wrote: today's program reads the same from them, writes to them, folds them
anew, and a later program takes them over."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from arco import __version__
from arco.core import Superseded
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Pointers, examine_iceberg, open_locations
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace
from arco.state import (
    Level,
    examine_log,
    plan_upgrade,
    snapshot_at_revision,
    verify_revision,
    verify_upgrade,
)
from arco.storage import LocalStore, Role
from tests.recorded.record import SCOPE, summary
from tests.recorded.whole import ARCHIVES, ICEBERG, House, commit, extract, later, live, opened, root_of

Check = Callable[[House, dict[str, Any]], Coroutine[Any, Any, None]]

releases = pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)


def checked(archive: Path, folder: Path, check: Check) -> None:
    async def main() -> None:
        store, expected = extract(archive, folder)
        async with opened(store, root_of(expected)) as house:
            await check(house, expected)

    asyncio.run(main())


def columns_of(expected: dict[str, Any]) -> dict[str, Any]:
    return {log: found["columns"] for log, found in expected["logs"].items()}


def test_there_is_an_archive_and_it_is_small() -> None:
    assert ARCHIVES
    assert all(path.stat().st_size < 200_000 for path in ARCHIVES)


def test_this_release_is_recorded() -> None:
    """Whoever raises the version records it: `python -m tests.recorded.whole` and `lived`, with its name."""
    found = {path.name for path in ARCHIVES}
    assert {f"{__version__}.tar.xz", f"{__version__}-lived.tar.xz"} <= found


@releases
def test_it_says_what_it_said(archive: Path, tmp_path: Path) -> None:
    async def check(house: House, expected: dict[str, Any]) -> None:
        said = await live(house, columns_of(expected), expected["iceberg"])
        assert said == {name: expected[name] for name in said}

    checked(archive, tmp_path, check)


@releases
def test_nothing_is_found_wrong_with_it(archive: Path, tmp_path: Path) -> None:
    async def check(house: House, expected: dict[str, Any]) -> None:
        workspace = house.workspace
        store, runtime, life = workspace.handle(Role.READER), workspace.runtime, workspace.incarnation.id
        for definition in DEFINITIONS:
            findings = await examine_log(definition, store, workspace.logs[definition.log].place, runtime)
            assert [found for found in findings if found.level is Level.ERROR] == []
        catalog, activity = [await workspace.logs[name].frozen() for name in ("catalog", "activity")]
        locations = open_locations(workspace.handle(Role.ICEBERG), root_of(expected), SCOPE.root, {}, (), runtime)
        pointers = Pointers(store, f"{life}/iceberg", runtime, life)
        mine = [table["metadata"]["table-uuid"] for table in expected["iceberg"].values()]
        findings = await examine_iceberg(catalog, activity, pointers, locations)
        assert len(mine) >= 2
        assert not [
            found for found in findings if found.level is Level.ERROR and any(one in found.message for one in mine)
        ]

    checked(archive, tmp_path, check)


@releases
def test_work_goes_on_and_folding_anew_gives_the_same(archive: Path, tmp_path: Path) -> None:
    async def check(house: House, expected: dict[str, Any]) -> None:
        workspace = house.workspace
        await workspace.decide("catalog", CreateNamespace(("from the future",)), actor="ann")
        tables = f"{ICEBERG}/namespaces/lake/tables"
        before = expected["iceberg"]["orders"]["metadata"]["properties"]
        changed = await house.ask("POST", f"{tables}/orders", commit("colour", "red"))
        assert changed["metadata"]["properties"] == {**before, "colour": "red"}
        for definition in DEFINITIONS:
            log = workspace.logs[definition.log]
            await log.current()
            try:
                await log.compactor.rebuild()
            except Superseded:  # the compactor was about to fold the state of an older release anew by itself
                await log.compactor.rebuild()
            manifest = await log.compactor.publish()
            reader = workspace.handle(Role.READER)
            compared = await verify_revision(definition, reader, log.follower.ledger, manifest)
            assert [found.table for found in compared if not found.equal] == []

    checked(archive, tmp_path, check)


@releases
def test_a_later_program_takes_it_over_and_the_revision_before_stays(archive: Path, tmp_path: Path) -> None:
    async def main() -> None:
        store, expected = extract(archive, tmp_path)
        definitions = [later(definition) for definition in DEFINITIONS]
        async with await Workspace.open(
            LocalStore(store), SCOPE, AsyncRuntime(), definitions=definitions, compact=False
        ) as workspace:
            for definition in definitions:
                log, reader = workspace.logs[definition.log], workspace.handle(Role.READER)
                before = log.compactor.head.manifest
                plan = plan_upgrade(definition, before)
                assert plan.is_refold
                assert definition.domains[1].name in plan.rising
                after = await log.compactor.rebuild()
                checks = await verify_upgrade(definition, reader, log.follower.ledger, before, after)
                assert [found.table for found in checks if not found.equal] == []
                assert {found.changed for found in checks} == {True, False}
                old = snapshot_at_revision(definition, reader, before)
                columns = expected["logs"][definition.log]["columns"]
                assert await summary(definition, old, columns) == expected["logs"][definition.log]["tables"]

    asyncio.run(main())

"""Workspaces that earlier releases wrote are opened by today's code: the same log, the same state, and work goes on."""

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from arco.domains.catalog import CreateNamespace
from arco.log import FIRST_LINK, Unknown, position_of, read_log
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace
from arco.state import LayerReader, Level, Replica, empty_manifest, examine_log, verify_chain, verify_revision
from arco.storage import LocalStore, Role, Tail
from tests.recorded.record import HERE, SCOPE, record, summary

RELEASES = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").exists())

Check = Callable[[Workspace, dict[str, Any]], Coroutine[Any, Any, None]]


@pytest.fixture(params=RELEASES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Check], None]:
    """Runs a check on a copy of a recorded workspace, with what its release expects of it."""
    folder = HERE / request.param
    shutil.copytree(folder / "store", tmp_path / "store")
    expected = json.loads((folder / "expected.json").read_text())

    async def scenario(check: Check) -> None:
        store = LocalStore(tmp_path / "store")
        async with await Workspace.open(store, SCOPE, AsyncRuntime(), compact=False) as workspace:
            await check(workspace, expected)

    return lambda check: asyncio.run(scenario(check))


def test_there_is_a_recording() -> None:
    assert RELEASES


def test_the_chain_holds(opened: Callable[[Check], None]) -> None:
    async def check(workspace: Workspace, expected: dict[str, Any]) -> None:
        for name, log in workspace.logs.items():
            chain = await verify_chain(log.follower.ledger)
            found = {"segments": chain.segments, "events": chain.events, "sha256": chain.link.sha256}
            assert found == expected[name]["chain"]

    opened(check)


def test_the_log_folds_to_the_same_state(opened: Callable[[Check], None]) -> None:
    async def check(workspace: Workspace, expected: dict[str, Any]) -> None:
        for definition in DEFINITIONS:
            log = workspace.logs[definition.log]
            reader = LayerReader(workspace.handle(Role.READER))
            replica = Replica(definition, reader, empty_manifest(log.place))
            async for found in read_log(log.follower.ledger, Tail(0, Unknown), FIRST_LINK):
                if not isinstance(found, Tail):
                    await replica.apply([found[:2]])
            wanted = expected[definition.log]
            assert await summary(definition, replica, wanted["columns"]) == wanted["folded"]
            assert replica.skipped() is None

    opened(check)


def test_the_published_state_reads_the_same(opened: Callable[[Check], None]) -> None:
    async def check(workspace: Workspace, expected: dict[str, Any]) -> None:
        for definition in DEFINITIONS:
            log, wanted = workspace.logs[definition.log], expected[definition.log]
            snapshot = await log.snapshot()
            assert snapshot.manifest.number == wanted["revision"]
            assert await summary(definition, snapshot, wanted["columns"]) == wanted["published"]
            ahead = await log.snapshot(position=position_of(wanted["chain"]["segments"] + 1, 0) - 1)
            assert await summary(definition, ahead, wanted["columns"]) == wanted["folded"]

    opened(check)


def test_nothing_is_found_wrong_with_it(opened: Callable[[Check], None]) -> None:
    async def check(workspace: Workspace, expected: dict[str, Any]) -> None:
        for definition in DEFINITIONS:
            log, store = workspace.logs[definition.log], workspace.handle(Role.READER)
            findings = await examine_log(definition, store, log.place, workspace.runtime)
            assert [finding for finding in findings if finding.level is Level.ERROR] == []

    opened(check)


def test_work_goes_on_where_it_ended(opened: Callable[[Check], None]) -> None:
    async def check(workspace: Workspace, expected: dict[str, Any]) -> None:
        before = expected["catalog"]["chain"]["segments"]
        command = CreateNamespace(("from the future",))
        await workspace.decide("catalog", command, actor="ann")
        for definition in DEFINITIONS:
            log = workspace.logs[definition.log]
            manifest = await log.compactor.compact()
            compared = await verify_revision(definition, workspace.handle(Role.READER), log.follower.ledger, manifest)
            assert [found.table for found in compared if not found.equal] == []
        log = workspace.logs["catalog"]
        assert (await verify_chain(log.follower.ledger)).segments == before + 1

    opened(check)


def test_recording_twice_gives_the_same_bytes() -> None:
    assert record() == record()


@pytest.mark.parametrize("release", RELEASES)
def test_a_recording_is_small(release: str) -> None:
    assert sum(path.stat().st_size for path in (HERE / release).rglob("*") if path.is_file()) < 600_000

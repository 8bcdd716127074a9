"""`arco upgrade`: a newer program takes a workspace over, an older one refuses, and may go back."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from arco.cli import _open, _upgrade
from arco.core import StoreRefused, Unavailable
from arco.domains.access import ACCESS
from arco.domains.catalog import CATALOG, CreateNamespace
from arco.domains.deployments import DEPLOYMENTS
from arco.log import EventType, Hint
from arco.runtime import DEFINITIONS, AsyncRuntime, Workspace
from arco.state import (
    Definition,
    Layout,
    Manifest,
    PinEntry,
    TableCheck,
    define_log,
    new_event,
    refold_pins,
    verify_upgrade,
)
from arco.storage import LocalStore, Role
from tests.cli.conftest import SCOPE, Cli, Ran
from tests.doubles import FaultyStore

Program = Callable[[], Any]


class LaterFact(msgspec.Struct, frozen=True):
    text: str


LATER = EventType("ArcoLaterThing", LaterFact, recordable=True)


def newer() -> tuple[Definition, ...]:
    """A program that folds the catalog in a later version, knows one more event, and has everything else as it is."""
    catalog = replace(CATALOG, version=CATALOG.version + 1, events=(*CATALOG.events, LATER))
    return (define_log("catalog", [catalog, ACCESS, DEPLOYMENTS]), DEFINITIONS[1])


@pytest.fixture
def as_newer(monkeypatch: pytest.MonkeyPatch) -> Program:
    @contextmanager
    def program() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(_open, "DEFINITIONS", newer())
            yield

    return program


def objects(workspace: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(workspace.rglob("*")) if path.is_file()}


def store_of(workspace: Path) -> LocalStore:
    return LocalStore(workspace.parents[1])


def write(store: Path, definitions: tuple[Definition, ...], *, later: bool = False) -> None:
    async def main() -> None:
        async with await Workspace.open(store_of(store), SCOPE, AsyncRuntime(), definitions=definitions) as opened:
            await opened.decide("catalog", CreateNamespace(("after",)), actor="me")
            if later:
                await opened.record("catalog", [new_event(LATER, LaterFact("x"))], actor="me")

    asyncio.run(main())


def test_a_dry_run_tells_what_would_be_done_and_writes_nothing(cli: Cli, workspace: Path, as_newer: Program) -> None:
    before = objects(workspace)
    with as_newer():
        ran = cli("upgrade", "--dry-run", "--json")
    assert ran.code == 0, ran.err
    logs = {log["log"]: log for log in ran.document["logs"]}
    assert (ran.document["needed"], ran.document["done"]) == (True, False)
    assert (logs["catalog"]["refold"], logs["activity"]["refold"]) == (True, False)
    assert logs["catalog"]["folds_after"]["catalog"] == logs["catalog"]["folds_before"]["catalog"] + 1
    assert objects(workspace) == before


def test_the_newer_program_folds_anew_compares_and_keeps_the_revision_before(
    cli: Cli, workspace: Path, as_newer: Program
) -> None:
    revision = cli("upgrade", "--dry-run", "--json").document["logs"][0]["revision"]
    with as_newer():
        ran = cli("upgrade", "--json")
        assert ran.code == 0, ran.err
        assert ran.document["done"]
        tables = {table["table"]: table for table in ran.document["logs"][0]["tables"]}
        assert all(table["equal"] for table in tables.values())
        assert tables["namespaces"]["changed"]
        assert not tables["api_keys"]["changed"]
        assert cli("rebuild", "--verify", "--json").document["equal"]
        again = cli("upgrade", "--json")
        assert (again.code, again.document["needed"]) == (0, False)
        assert cli("doctor").code == 0
        kept = cli("state", "history", "catalog", "--json").document
        assert revision in [found["revision"] for found in kept["revisions"]]
        assert cli("state", "show", "namespaces", "--revision", str(revision)).code == 0


def head_of(store: Path) -> Manifest:
    async def main() -> Manifest:
        async with await Workspace.open(
            store_of(store), SCOPE, AsyncRuntime(), compact=False, test_store=False
        ) as opened:
            return opened.logs["catalog"].compactor.head.manifest

    return asyncio.run(main())


def is_checked(document: Any, pin: PinEntry) -> bool:
    """Whether the catalog was compared with the log and with a pinned revision, and found right."""
    log = document["logs"][0]
    return (
        log["compared_with"] == pin.revision and bool(log["tables"]) and all(found["equal"] for found in log["tables"])
    )


def test_an_upgrade_that_ends_at_any_write_is_finished_by_the_next_run(
    cli: Cli, workspace: Path, as_newer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = workspace.parents[2] / "untouched"
    shutil.copytree(workspace.parents[1], untouched)

    def upgrade_until(writes: int) -> tuple[Ran, int]:
        """Run it on the untouched workspace with a store that takes no write after so many."""
        shutil.rmtree(workspace.parents[1])
        shutil.copytree(untouched, workspace.parents[1])
        store = FaultyStore(store_of(workspace))
        store.on("create", error=StoreRefused("the process is gone"), path="/catalog/", skip=writes, times=1_000_000)
        with as_newer(), monkeypatch.context() as patch:
            patch.setattr(_open, "open_store", lambda *_, **__: store)
            ran = cli("upgrade", "--json")
        return ran, sum(operation == "create" and "/catalog/" in path for operation, path in store.calls)

    ran, writes = upgrade_until(1_000_000)
    assert ran.code == 0, ran.err
    for number in range(writes):
        ran, _ = upgrade_until(number)
        assert ran.code != 0, "nobody is told that it is done"
        assert cli("rebuild", "--verify", "--json").document["equal"], "the last write is the swap: it is as it was"
        with as_newer():
            ran = cli("upgrade", "--json")
        assert (ran.code, ran.document["done"]) == (0, True), ran.err
        assert is_checked(ran.document, *refold_pins(head_of(workspace)))


def test_an_upgrade_that_ends_before_the_comparison_is_compared_by_the_next_run(
    cli: Cli, workspace: Path, as_newer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object) -> list[TableCheck]:
        raise Unavailable("the process is gone")

    with as_newer():
        with monkeypatch.context() as patch:
            patch.setattr(_upgrade, "verify_upgrade", gone)
            assert cli("upgrade").code == Unavailable.exit_code
        [pin] = refold_pins(head_of(workspace))
        before = objects(workspace)
        ran = cli("upgrade", "--dry-run")
        assert f"Would compare again: catalog revision {pin.revision}." in " ".join(ran.out.split())
        ran = cli("upgrade", "--json")
        assert (ran.code, ran.document["needed"], ran.document["done"]) == (0, False, False)
        assert is_checked(ran.document, pin)
        assert objects(workspace) == before
    assert cli("upgrade", "--rollback").code == 0
    ran = cli("upgrade", "--rollback", "--json")
    assert (ran.code, ran.document["needed"]) == (0, False)
    assert is_checked(ran.document, refold_pins(head_of(workspace))[-1]), "and so is the way back"


def test_a_server_pins_what_it_replaces_and_the_command_compares_it(
    cli: Cli, workspace: Path, as_newer: Program
) -> None:
    write(workspace, newer())
    with as_newer():
        ran = cli("upgrade", "--json")
    assert (ran.code, ran.document["needed"]) == (0, False)
    assert is_checked(ran.document, *refold_pins(head_of(workspace)))


def test_a_state_that_came_out_wrong_is_told_of_until_the_older_program_takes_it_back(
    cli: Cli, workspace: Path, as_newer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(*args: Any) -> list[TableCheck]:
        checks = await verify_upgrade(*args)
        return [replace(found, equal=found.equal and found.table != "namespaces") for found in checks]

    with as_newer(), monkeypatch.context() as patch:
        patch.setattr(_upgrade, "verify_upgrade", wrong)
        ran = cli("upgrade", "--json")
        assert (ran.code, ran.document["different"]) == (7, ["catalog.namespaces"])
        [pin] = refold_pins(head_of(workspace))
        for _ in range(2):
            ran = cli("upgrade")
            assert ran.code == 7
            told = " ".join(ran.out.split())
            assert "`arco upgrade --rollback` of the program before" in told
            assert f"catalog revision {pin.revision}" in told
    assert cli("upgrade", "--rollback").code == 0, "what the message says to do"
    assert cli("state", "show", "namespaces", "--revision", str(pin.revision)).code == 0
    assert cli("namespace", "create", "more", "--url", "embedded").code == 0
    assert cli("rebuild", "--verify", "--json").document["equal"]
    with monkeypatch.context() as patch:
        patch.setattr(_upgrade, "verify_upgrade", wrong)
        ran = cli("upgrade")
        assert ran.code == 7
        assert "`arco upgrade` of the newer program" in " ".join(ran.out.split())


def test_the_older_program_refuses_a_downgrade_and_only_reads(cli: Cli, workspace: Path, as_newer: Program) -> None:
    with as_newer():
        assert cli("upgrade").code == 0
    before = objects(workspace)
    ran = cli("upgrade", "--json")
    assert (ran.code, ran.error["name"]) == (5, "Outdated")
    assert "--rollback" in ran.error["message"]
    assert cli("namespace", "create", "more", "--url", "embedded", "--json").code == 5
    assert cli("namespace", "list", "--url", "embedded").code == 0
    assert objects(workspace) == before
    assert "newer" in cli("doctor").out or "folded with version" in cli("doctor").out


def test_the_way_back_is_a_fold_by_the_older_program(cli: Cli, workspace: Path, as_newer: Program) -> None:
    with as_newer():
        assert cli("upgrade").code == 0
    write(workspace, newer())
    ran = cli("upgrade", "--rollback", "--json")
    assert ran.code == 0, ran.err
    tables = [table for log in ran.document["logs"] for table in log["tables"]]
    assert all(table["equal"] for table in tables)
    assert all(table["changed"] for table in tables), "what the newer program made is no measure"
    assert cli("rebuild", "--verify", "--json").document["equal"]
    assert cli("namespace", "create", "more", "--url", "embedded").code == 0
    names = [item["name"] for item in cli("namespace", "list", "--url", "embedded", "--json").document["namespaces"]]
    assert {"after", "more"} <= set(names), "what the newer program wrote is there"
    with as_newer():
        ran = cli("upgrade")
        assert ran.code == 0, "and forward again"
        assert "Older programs only read from now on." in " ".join(ran.out.split())
    ran = cli("upgrade", "--rollback")
    assert ran.code == 0
    assert "This program writes again; newer ones must stay stopped." in " ".join(ran.out.split())
    assert "Older programs" not in ran.out


def test_there_is_no_way_back_past_what_the_older_program_does_not_know(
    cli: Cli, workspace: Path, as_newer: Program
) -> None:
    with as_newer():
        assert cli("upgrade").code == 0
    write(workspace, newer(), later=True)
    before = {path for path in objects(workspace) if "/manifests/" in path}
    ran = cli("upgrade", "--rollback", "--json")
    assert (ran.code, ran.error["name"]) == (5, "Outdated")
    assert "ArcoLaterThing" in ran.error["message"]
    with as_newer():
        assert cli("rebuild", "--verify", "--json").document["equal"], "nothing was replaced"
    assert before


def test_a_rollback_of_what_is_no_newer_is_refused(cli: Cli, workspace: Path, as_newer: Program) -> None:
    ran = cli("upgrade", "--rollback", "--json")
    assert (ran.code, ran.document["needed"]) == (0, False)
    with as_newer():
        ran = cli("upgrade", "--rollback", "--json")
        assert (ran.code, ran.error["name"]) == (2, "Invalid")


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_server_that_answers_must_stop_first(cli: Cli, workspace: Path, as_newer: Program) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Healthy)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"

    async def announce() -> None:
        async with await Workspace.open(store_of(workspace), SCOPE, AsyncRuntime(), compact=False) as opened:
            log = opened.logs["catalog"]
            number = (await log.follower.catch_up()).number
            path = Layout(log.place).ledger_hint
            hint = msgspec.json.encode(Hint(number, address))
            await opened.handle(Role.OWNER).put(path, hint, only_if_absent=False)

    try:
        asyncio.run(announce())
        with as_newer():
            ran = cli("upgrade", "--json")
            assert (ran.code, ran.error["name"]) == (3, "Refused")
            assert address in ran.error["message"]
            assert cli("upgrade", "--dry-run", "--json").document["serving"] == address
    finally:
        server.shutdown()
        server.server_close()

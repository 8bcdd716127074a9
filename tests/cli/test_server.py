"""The commands and a running server: which one is asked, what a key allows, how it ends."""

import contextlib
import http.server
import json
import shutil
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from arco.cli._app import app
from arco.client import Client
from arco.core import Unauthenticated
from arco.wire import NamespaceCreate
from tests.cli.conftest import SCOPE, Cli
from tests.cli.server import Served, serving

SILENT = "http://127.0.0.1:9"
"""The discard port: nobody listens there."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served") / ".arco"
    assert CliRunner().invoke(app, ["init", "--store", f"file://{root}"]).exit_code == 0
    return root


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Served]:
    with serving(store) as served:
        yield served


def hint_of(store: Path) -> Path:
    (found,) = (store / SCOPE.root).glob("inc-*/**/ledger/catalog/hint*")
    return found


def name_in_hint(store: Path, address: str) -> None:
    hint = hint_of(store)
    hint.write_text(json.dumps({**json.loads(hint.read_text()), "address": address}))


def server_of(cli: Cli, *options: str, **environ: str) -> Any:
    ran = cli("whoami", "--json", *options, **environ)
    assert ran.code == 0, ran.err
    return ran.document["url"]


# Which server


def test_a_command_asks_the_server_it_is_told_of(cli: Cli, server: Served) -> None:
    assert server_of(cli, "--url", server.url) == server.url
    assert server_of(cli, "--url", f"{server.url}/") == server.url
    assert server_of(cli, ARCO_URL=server.url) == server.url
    made = cli("namespace", "create", "told", "--url", server.url, "--json")
    assert made.code == 0
    assert made.document["namespace"]["name"] == "told"


def test_arco_toml_can_name_the_server(cli: Cli, home: Path, server: Served) -> None:
    (home / "arco.toml").write_text(f'url = "{server.url}"\n')
    assert server_of(cli) == server.url
    assert server_of(cli, "--url", server.url, ARCO_URL=SILENT) == server.url


def test_a_server_that_has_written_nothing_yet_is_found_without_being_named(cli: Cli, home: Path) -> None:
    cli("init")
    with serving(home / ".arco") as served:
        assert server_of(cli) == served.url
        assert cli("namespace", "create", "first").code == 0
        with Client(served.url) as client:
            assert [found.name for found in client.list_namespaces(consistency="bounded")] == ["first"]
    assert server_of(cli) is None


def test_a_server_that_owns_the_log_is_found_without_being_named(cli: Cli, store: Path, server: Served) -> None:
    with Client(server.url) as client:
        client.create_namespace(NamespaceCreate(name="owned"))
    environ = {"ARCO_STORE": f"file://{store}"}
    assert server_of(cli, **environ) == server.url
    assert server_of(cli, "--url", "embedded", **environ) is None


def test_a_server_that_is_gone_is_not_waited_for(cli: Cli, store: Path, server: Served, home: Path) -> None:
    copy = home / "copy"
    shutil.copytree(store, copy)
    name_in_hint(copy, SILENT)
    assert server_of(cli, ARCO_STORE=f"file://{copy}") is None


def test_a_server_of_another_workspace_at_that_address_is_not_asked(cli: Cli, home: Path, server: Served) -> None:
    cli("init")
    cli("namespace", "create", "mine")
    name_in_hint(home / ".arco", server.url)
    assert server_of(cli) is None
    assert [found["name"] for found in cli("namespace", "list", "--json").document["namespaces"]] == ["mine"]


def test_an_address_beyond_this_machine_is_never_followed_from_a_hint(cli: Cli, home: Path) -> None:
    cli("init")
    cli("namespace", "create", "mine")
    for address in (
        "http://arco.example.com",
        "file:///etc/passwd",
        "http://127.0.0.1.evil.test",
        "local:x",
        "http://",
    ):
        name_in_hint(home / ".arco", address)
        assert server_of(cli) is None


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Somebody else's server on this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}"
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (200, b'{"status":"ok"}'), (404, b""), (500, b"x")])
def test_what_is_no_arco_server_is_told_from_one(cli: Cli, home: Path, status: int, body: bytes) -> None:
    cli("init")
    cli("namespace", "create", "mine")
    with answering(status, body) as address:
        name_in_hint(home / ".arco", address)
        assert server_of(cli) is None
        ran = cli("whoami", "--url", address)
        assert ran.code in (1, 2, 3)
        assert address in ran.err


def test_an_address_where_nobody_listens_is_told_at_once(cli: Cli, home: Path) -> None:
    ran = cli("whoami", "--url", SILENT, "--json")
    assert (ran.code, ran.error["name"]) == (4, "Unavailable")
    assert SILENT in ran.error["message"]


@pytest.mark.parametrize("flag", ["--store=file://x", "--tenant=x", "--workspace=x", "--store-option=region=x"])
def test_a_workspace_beside_a_server_says_nothing_and_is_refused(cli: Cli, server: Served, flag: str) -> None:
    ran = cli("namespace", "list", flag, ARCO_URL=server.url)
    assert ran.code == 2
    assert "ARCO_URL" in ran.err
    assert "--url embedded" in ran.err


# Commands over the network


def test_the_whole_way_over_the_network(cli: Cli, home: Path, server: Served) -> None:
    def ran(*command: str) -> Any:
        found = cli(*command, "--json", ARCO_URL=server.url)
        assert found.code == 0, found.err
        return found.document

    ran("namespace", "create", "net")
    ran("table", "create", "net.orders", "--column", "id:bigint:notnull", "--column", "price:decimal(10,2)")
    ran("column", "rename", "net.orders", "price", "cost")
    before = ran("column", "add", "net.orders", "note:string")["position"]
    ran("column", "drop", "net.orders", "cost")
    assert [found["name"] for found in ran("column", "list", "net.orders")["columns"]] == ["id", "note"]
    past = ran("column", "list", "net.orders", "--as-of", before)["columns"]
    assert [found["name"] for found in past] == ["id", "cost", "note"]
    assert ran("query", "select name from system.tables where name = 'orders'")["rows"] == [["orders"]]
    changed = {found["table"] for found in ran("diff", "--from", before)["tables"]}
    assert {"columns", "tables"} <= changed
    assert ran("table", "show", "net.orders")["schema_version"] == 4
    assert ran("audit", "--limit", "1")["audit"][0]["action"] == "AlterTable"
    ran("table", "drop", "net.orders")
    missing = cli("table", "show", "net.orders", "--json", ARCO_URL=server.url)
    assert (missing.code, missing.error["name"]) == (3, "NotFound")


def test_two_commands_that_open_the_store_and_a_server_see_each_other(cli: Cli, store: Path, server: Served) -> None:
    environ = {"ARCO_STORE": f"file://{store}"}
    for number in range(3):
        assert cli("namespace", "create", f"embedded{number}", "--url", "embedded", **environ).code == 0
        assert cli("namespace", "create", f"served{number}", "--url", server.url).code == 0
    names = {found["name"] for found in cli("namespace", "list", "--json", "--url", server.url).document["namespaces"]}
    assert {f"{kind}{number}" for kind in ("embedded", "served") for number in range(3)} <= names


# Keys


def test_a_server_that_wants_keys_lets_each_do_what_its_role_allows(cli: Cli, home: Path) -> None:
    cli("init")
    tokens = {
        role: cli("key", "create", role, "--role", role, "--json").document["token"] for role in ("viewer", "owner")
    }
    with serving(home / ".arco", "--listen", "127.0.0.1:0", "--require-keys") as served:
        assert served.door == "keys"
        nobody = cli("namespace", "list", ARCO_URL=served.url)
        assert nobody.code == 3
        assert "set ARCO_TOKEN" in nobody.err
        wrong = cli("namespace", "list", "--json", ARCO_URL=served.url, ARCO_TOKEN=f"{tokens['owner']}x")
        assert (wrong.code, wrong.error["name"]) == (3, "Unauthenticated")
        assert tokens["owner"] not in wrong.err
        viewer = {"ARCO_URL": served.url, "ARCO_TOKEN": tokens["viewer"]}
        owner = {"ARCO_URL": served.url, "ARCO_TOKEN": tokens["owner"]}
        assert cli("namespace", "list", **viewer).code == 0
        denied = cli("namespace", "create", "n", "--json", **viewer)
        assert (denied.code, denied.error["name"]) == (3, "Forbidden")
        assert cli("namespace", "create", "n", **owner).code == 0
        found = cli("namespace", "list")  # the log names the server by now
        assert found.code == 3
        assert "ARCO_TOKEN" in found.err
        # Whoever listens there has proved nothing, so it is not sent the key.
        kept = cli("namespace", "list", ARCO_TOKEN=tokens["viewer"])
        assert kept.code == 3
        assert f"ARCO_URL={served.url}" in kept.err
        assert cli("namespace", "list", "--url", "embedded").code == 0
        with Client(served.url) as client, pytest.raises(Unauthenticated):
            client.whoami()


# Roles


def test_a_collector_answers_nobody_but_those_who_look_after_it(cli: Cli, home: Path) -> None:
    cli("init")
    with serving(home / ".arco", "--listen", "127.0.0.1:0", "--role", "collector") as served:
        with urllib.request.urlopen(f"{served.url}/healthz") as health:
            assert json.loads(health.read())["status"] == "ok"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{served.url}/api/v1/whoami")
        assert served.stop() == 0


def test_a_collector_that_would_never_collect_is_refused(cli: Cli, home: Path) -> None:
    cli("init")
    ran = cli("serve", "--role", "collector", "--json", ARCO_COLLECT_HOURS="0")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")
    assert "collect_hours" in ran.error["message"]


# Ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_end_leaves_everything_published(cli: Cli, home: Path, number: int) -> None:
    cli("init")
    with serving(home / ".arco") as served:
        with Client(served.url) as client:
            client.create_namespace(NamespaceCreate(name="last"), wait="durable")
        code = served.stop(number)
        assert served.process.stderr is not None
        assert "Traceback" not in served.process.stderr.read()
    assert code == 0
    rows = cli("state", "show", "namespaces", "--json").document["rows"]
    assert [row["name"] for row in rows] == ["last"]


def test_a_port_that_is_taken_is_told(cli: Cli, home: Path, server: Served) -> None:
    cli("init")
    ran = cli("serve", "--listen", server.url.removeprefix("http://"), "--json")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")
    assert "--listen" in ran.error["message"]

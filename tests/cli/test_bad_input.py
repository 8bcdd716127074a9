"""Wrong input on the command line: a clear sentence, the exit code of its kind, and nothing written."""

import json
from pathlib import Path

import pytest

from arco.core import ArcoError, Corrupt, Invalid, Refused, StoreRefused, Superseded, Unavailable
from tests.cli.conftest import Cli

HOSTILE = [
    "../etc",
    "..",
    "a/b",
    "a\\b",
    "a*",
    "a?",
    "[a]",
    "a\nb",
    "a\x1b[31m",
    "a\x00b",
    "",
    " a",
    "A",
    "a" * 64,
    "ä",
    "%2e",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("option", ["--tenant", "--workspace"])
@pytest.mark.parametrize("command", [["init"], ["doctor"], ["state", "tables"]], ids=" ".join)
def test_a_name_that_could_escape_its_place_is_refused(
    cli: Cli, home: Path, command: list[str], option: str, name: str
) -> None:
    ran = cli(*command, option, name)
    assert ran.code == 2
    assert "cannot name a" in ran.err
    assert ran.err.rstrip("\n").isprintable()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../etc", "a*", "a\x1b[31m", "nosuch", "", "x" * 5000], ids=lambda name: ascii(name)[:20]
)
def test_a_table_that_does_not_exist_is_refused_with_those_that_do(cli: Cli, workspace: Path, name: str) -> None:
    ran = cli("state", "show", name, "--json")
    assert (ran.code, ran.error["name"]) == (3, "NotFound")
    assert "partitions" in ran.error["message"]
    assert len(ran.err) < 1000
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    "args",
    [
        ["state", "show", "names", "--revision", "x"],
        ["state", "show", "names", "--revision", "-1"],
        ["state", "show", "names", "--revision", "9" * 30],
        ["state", "show", "names", "--position", "1:"],
        ["state", "show", "names", "--position", "1:9999999"],
        ["state", "show", "names", "--position", "-1"],
        ["state", "show", "names", "--position", "9" * 50],
        ["state", "show", "names", "--as-of", "yesterday"],
        ["state", "show", "names", "--as-of", "2026-01-01T00:00:00"],
        ["state", "show", "names", "--as-of", "2026-13-01T00:00:00Z"],
        ["state", "show", "names", "--revision", "1", "--position", "1:0"],
        ["state", "show", "names", "--where", "name"],
        ["state", "show", "names", "--where", "nosuch=1"],
        ["state", "show", "names", "--where", "name=a", "--where", "name=b"],
        ["state", "show", "materializations", "--where", "files=1"],
        ["state", "show", "materializations", "--where", "row_count=many"],
        ["state", "show", "materializations", "--where", "row_count=99999999999999999999"],
        ["state", "show", "materializations", "--where", "completed_at=noon"],
        ["state", "show", "names", "--columns", "name,name"],
        ["state", "show", "names", "--columns", "nosuch"],
        ["state", "show", "names", "--limit", "-1"],
        ["state", "show", "operations"],
        ["state", "diff", "--from", "1"],
        ["state", "diff", "--from", "tomorrow"],
        ["state", "diff", "names"],
        ["log", "cat", "nosuch"],
        ["log", "cat", "catalog", "--from", "x"],
        ["log", "cat", "catalog", "--from", "3:0", "--to", "2:0"],
        ["log", "tail", "-n", "-1"],
        ["log", "nosuch"],
        ["nosuch"],
        ["doctor", "--nosuch"],
        ["policy", "nosuch", "--bucket", "my-bucket"],
        ["policy", "owner"],
        ["config", "--store-option", "region"],
        ["config", "--store-option", "a=1", "--store-option", "a=2"],
        ["config", "--store-option", "../x=1"],
        ["doctor", "--store-option", "nosuch=1"],
        ["doctor", "--store", "nosuch"],
        ["doctor", "--store", "memory://here"],
        ["doctor", "--store", "ftp://bucket"],
        ["policy", "owner", "--bucket", "my-bucket", "--cloud", "ibm"],
        ["cost", "tenants=5"],
        ["cost", "--model", "tenants=many"],
        ["cost", "--model", "nosuch=1"],
        ["cost", "--prices", "nosuch"],
        ["cost", "--price", "write"],
        ["cost", "--price", "write=cheap"],
        ["cost", "--price", "write=-1"],
        ["cost", "--price-file", "nosuch.json"],
        ["cost", "--days", "0"],
        ["doctor", "--store", "file://"],
        ["doctor", "--store", "s3://user:hunter2@bucket"],
        ["doctor", "--store", "s3://bucket?token=hunter2"],
        ["doctor", "--url", "http://127.0.0.1:8020"],
        ["serve", "--listen", "8020"],
        ["serve", "--listen", "127.0.0.1:99999"],
        ["serve", "--public-url", "me:hunter2@host"],
        ["serve", "--role", "nosuch"],
        ["whoami", "--url", "hunter2"],
        ["whoami", "--url", "http://me:hunter2@host"],
        ["whoami", "--token", "hunter2"],
        ["namespace", "create", ""],
        ["namespace", "create", "a/b"],
        ["namespace", "create", "a\x1b[31m"],
        ["namespace", "create", "x" * 10_000],
        ["namespace", "create", "sales.."],
        ["namespace", "create", "n", "--property", "x"],
        ["namespace", "create", "n", "--property", "x=1", "--property", "x=2"],
        ["namespace", "create", "n", "--request-key", "hunter2"],
        ["namespace", "update", "sales"],
        ["namespace", "update", "sales", "--description", "x", "--clear", "description"],
        ["namespace", "update", "sales", "--clear", "nosuch"],
        ["namespace", "list", "--limit", "-1"],
        ["namespace", "list", "--as-of", "yesterday"],
        ["table", "create", "sales.t", "--column", "id"],
        ["table", "create", "sales.t", "--column", "id:nosuchtype"],
        ["table", "create", "sales.t", "-c", "id:int", "-c", "id:int"],
        ["table", "create", "sales.t", "--format", "nosuch"],
        ["table", "create", "t"],
        ["table", "alter", "sales.t"],
        ["table", "alter", "sales.t", "--rename", "a"],
        ["table", "alter", "sales.t", "--type", "a:int:notnull"],
        ["table", "register", "sales.t", "../../etc"],
        ["table", "diff", "sales.t"],
        ["table", "diff", "sales.t", "--from", "0"],
        ["column", "alter", "sales.t", "id"],
        ["column", "add", "sales.t", "a:int", "b:int", "--pii", "email"],
        ["sla", "set", "sales.t"],
        ["sla", "set", "sales.t", "--freshness", "soon"],
        ["sla", "set", "sales.t", "--availability", "101"],
        ["lineage", "show", "sales.t", "--depth", "-1"],
        ["lineage", "add", "sales.a", "sales.b", "--column", "x="],
        ["query", ""],
        ["query", "drop table x"],
        ["query", "select 1; select 2"],
        ["key", "create", "k"],
        ["key", "create", "k", "--role", "king"],
        ["key", "create", "k", "--role", "viewer", "--expires", "tomorrow"],
        ["key", "create", "", "--role", "viewer"],
        ["key", "revoke", "nosuch"],
        ["role", "grant", "me", "king"],
        ["settings", "set", "query.max_rows=many"],
        ["settings", "set", "nosuch=1"],
        ["settings", "set", "query.max_rows=0"],
        ["operation", "nosuch"],
        ["events", "post", "nosuch.jsonl"],
        ["diff"],
        ["diff", "--from", "yesterday"],
        ["diff", "--from", "1:0", "--log", "nosuch"],
    ],
    ids=lambda args: " ".join(args)[:60],
)
def test_what_cannot_be_meant_is_wrong_input(cli: Cli, workspace: Path, args: list[str]) -> None:
    ran = cli(*args, "--json")
    assert (ran.code, ran.error["name"]) == (2, "Invalid")
    assert ran.out == ""
    assert "hunter2" not in ran.err
    assert cli(*args).err.startswith("error: ")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["state", "show", "names", "--revision", "99"], 3),
        (["state", "show", "names", "--position", "99:0"], 4),
        (["state", "diff", "names", "--from", "99"], 3),
        (["log", "cat", "catalog", "--from", "99:0"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_does_not_exist_is_refused(cli: Cli, workspace: Path, args: list[str], code: int) -> None:
    ran = cli(*args)
    assert ran.code == code
    assert ran.out == ""


def test_before_everything_there_was_nothing(cli: Cli, workspace: Path) -> None:
    ran = cli("state", "show", "names", "--as-of", "2001-01-01T00:00:00Z", "--json")
    assert (ran.code, ran.document["rows"]) == (0, [])


def test_an_unknown_variable_of_ours_is_refused_with_the_nearest_known_one(cli: Cli, home: Path) -> None:
    ran = cli("config", ARCO_TENANT="x")
    assert ran.code == 2
    assert "ARCO_TENANT_ID" in ran.err


@pytest.mark.parametrize("text", ["tenant_id = ", "nosuch = 1", 'tenant_id = "../x"', "\xff\xfe"], ids=ascii)
def test_a_wrong_arco_toml_stops_every_command(cli: Cli, home: Path, text: str) -> None:
    (home / "arco.toml").write_bytes(text.encode("latin-1"))
    for command in (["config"], ["init"], ["doctor"]):
        ran = cli(*command)
        assert ran.code == 2
        assert "arco.toml" in ran.err


def test_a_value_of_an_option_never_appears_in_an_error(cli: Cli, home: Path) -> None:
    ran = cli("doctor", "--store", "s3://bucket", "--store-option", "nosuch=hunter2")
    assert ran.code != 0
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize("command", [["init"], ["doctor"], ["log", "tail"], ["compact"]], ids=" ".join)
def test_a_store_that_is_a_file_is_refused(cli: Cli, home: Path, command: list[str]) -> None:
    (home / "file").write_text("not a folder")
    for store in ("file://file", "file://file/below"):
        ran = cli(*command, "--store", store, "--json")
        assert (ran.code, ran.error["name"]) == (6, "StoreRefused")
        assert "is a file" in ran.error["message"]


def test_a_store_that_cannot_be_written_is_refused(cli: Cli, home: Path) -> None:
    ran = cli("init", "--store", "file:///proc/arco")
    assert ran.code in (4, 6)
    assert ran.err.count("\n") == 1


def test_a_fault_of_arco_is_one_line_and_the_way_to_the_traceback(
    cli: Cli, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("arco.cli._open.read_incarnation", broken)
    ran = cli("doctor")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "--traceback" in ran.err
    assert "in broken" in cli("doctor", "--traceback").err
    assert json.loads(cli("doctor", "--json").err)["error"]["name"] == "ArcoError"


def test_help_names_every_exit_code_there_is(cli: Cli) -> None:
    text = cli("--help", COLUMNS="200").out
    lines = [line.split() for line in text.splitlines()]
    for kind in (ArcoError, Invalid, Refused, Unavailable, Superseded, StoreRefused, Corrupt):
        assert any(words[:1] == [str(kind.exit_code)] for words in lines)

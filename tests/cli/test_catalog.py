"""The commands on the catalog without a server: each opens the store itself and asks the same API in its process."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from arco.cli._app import app
from arco.core import new_ulid
from arco.runtime import AsyncRuntime
from tests.cli.conftest import SCOPE, Cli

SETUP = (
    ["init"],
    ["namespace", "create", "sales", "--description", "All sales", "--property", "team=a"],
    ["namespace", "create", "sales.eu"],
    ["table", "create", "sales.orders", "-c", "id:bigint:notnull", "-c", "price:decimal(10,2)", "--tag", "tier=1"],
    ["table", "create", "sales.daily", "-c", "day:date", "-c", "total:double"],
    ["lineage", "add", "sales.orders", "sales.daily", "--column", "total=price", "--owner", "me"],
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog made by the commands themselves."""
    root = tmp_path_factory.mktemp("catalog") / ".arco"
    for command in SETUP:
        result = CliRunner().invoke(app, [*command, "--store", f"file://{root}"])
        assert result.exit_code == 0, result.stderr
    return root


@pytest.fixture
def catalog(home: Path, prepared: Path) -> Path:
    shutil.copytree(prepared, home / ".arco")
    return home / ".arco" / SCOPE.root


def shown(cli: Cli, *command: str) -> Any:
    ran = cli(*command, "--json")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    return ran.document


# Namespaces


def test_namespaces_are_listed_one_level_or_all(cli: Cli, catalog: Path) -> None:
    assert [found["name"] for found in shown(cli, "namespace", "list")["namespaces"]] == ["sales"]
    assert [found["name"] for found in shown(cli, "namespace", "list", "sales")["namespaces"]] == ["sales.eu"]
    found = shown(cli, "namespace", "list", "-r")
    assert [entry["name"] for entry in found["namespaces"]] == ["sales", "sales.eu"]
    assert found["more"] is False
    assert shown(cli, "namespace", "list", "-r", "--limit", "1")["more"] is True
    assert "--limit 0" in cli("namespace", "list", "-r", "--limit", "1").out


def test_a_namespace_is_shown_changed_renamed_and_dropped(cli: Cli, catalog: Path) -> None:
    assert shown(cli, "namespace", "show", "sales")["properties"] == {"team": "a"}
    change = ["--clear", "description", "--property", "b=c", "--remove-property", "team"]
    updated = shown(cli, "namespace", "update", "sales", *change)["namespace"]
    assert (updated["description"], updated["properties"], updated["version"]) == (None, {"b": "c"}, 2)
    assert shown(cli, "namespace", "rename", "sales.eu", "europe")["namespace"]["name"] == "europe"
    assert shown(cli, "namespace", "show", "sales.eu")["renamed_from"] == "sales.eu"
    changes = [entry["change"] for entry in shown(cli, "namespace", "history", "europe")["history"]]
    assert sorted(changes) == ["created", "renamed"]
    assert cli("namespace", "drop", "europe").code == 0
    assert cli("namespace", "show", "europe").code == 3
    assert cli("namespace", "drop", "europe").code == 3
    assert cli("namespace", "drop", "europe", "--if-exists").code == 0


def test_a_namespace_that_holds_something_is_not_dropped_by_mistake(cli: Cli, catalog: Path) -> None:
    ran = cli("namespace", "drop", "sales", "--json")
    assert ran.code == 3
    assert "cascade" in ran.error["message"]
    assert cli("namespace", "drop", "sales", "--cascade").code == 0
    assert shown(cli, "namespace", "list", "-r")["namespaces"] == []


def test_what_exists_is_created_once(cli: Cli, catalog: Path) -> None:
    ran = cli("namespace", "create", "sales", "--json")
    assert (ran.code, ran.error["name"]) == (3, "Conflict")
    assert cli("namespace", "create", "sales", "--if-not-exists").code == 0


def test_a_repeated_command_under_one_request_key_is_carried_out_once(cli: Cli, catalog: Path) -> None:
    runtime = AsyncRuntime()
    key = new_ulid(runtime, runtime)
    first = shown(cli, "namespace", "create", "again", "--request-key", key)
    second = shown(cli, "namespace", "create", "again", "--request-key", key)
    assert (first["replayed"], second["replayed"]) == (False, True)
    assert first["position"] == second["position"]
    assert "done before" in cli("namespace", "create", "again", "--request-key", key).out
    other = cli("namespace", "create", "other", "--request-key", key, "--json")
    assert (other.code, other.error["name"]) == (3, "Conflict")


# Tables and columns


def test_a_table_is_shown_with_its_columns(cli: Cli, catalog: Path) -> None:
    found = shown(cli, "table", "show", "sales.orders")
    assert [(column["name"], column["type"], column["nullable"]) for column in found["columns"]] == [
        ("id", "long", False),
        ("price", "decimal(10,2)", True),
    ]
    text = cli("table", "show", "sales.orders").out
    assert "tier=1" in text
    assert "decimal(10,2)" in text
    assert shown(cli, "table", "show", f"id:{found['id']}") == found


def test_tables_are_listed_in_one_namespace_or_all(cli: Cli, catalog: Path) -> None:
    everywhere = [found["name"] for found in shown(cli, "table", "list")["tables"]]
    assert everywhere == ["sales.daily", "sales.orders"]
    assert shown(cli, "table", "list", "sales.eu")["tables"] == []
    assert shown(cli, "table", "list", "--limit", "1")["more"] is True


def test_a_table_is_altered_as_one_schema_version(cli: Cli, catalog: Path) -> None:
    change = ["--drop", "price", "--rename", "id=key", "--add", "price:string", "--add", "tags:map<string,string>"]
    written = shown(cli, "table", "alter", "sales.orders", *change)
    assert written["table"]["schema_version"] == 2
    assert [(column["name"], column["type"]) for column in written["table"]["columns"]] == [
        ("key", "long"),
        ("price", "string"),
        ("tags", "map<string,string>"),
    ]
    versions = shown(cli, "table", "versions", "sales.orders")["versions"]
    assert sorted(entry["version"] for entry in versions) == [1, 2]
    found = shown(cli, "table", "diff", "sales.orders", "--from", "1")
    assert [column["name"] for column in found["removed"]] == ["price"]
    lines = cli("table", "diff", "sales.orders", "--from", "1").out.splitlines()
    assert "+ price string" in lines
    assert "- price decimal(10,2)" in lines
    assert "~ id long not null -> key long not null" in lines
    assert "same columns" in cli("table", "diff", "sales.orders", "--from", "2", "--to", "2").out


def test_columns_are_added_altered_described_renamed_and_dropped(cli: Cli, catalog: Path) -> None:
    table = "sales.orders"
    assert cli("column", "add", table, "email:string", "--pii", "email", "--sensitivity", "restricted").code == 0
    assert cli("column", "add", table, "count:int:nullable", "flag:boolean").code == 0
    assert cli("column", "alter", table, "count", "--type", "bigint").code == 0
    assert cli("column", "describe", table, "flag", "--description", "Whether").code == 0
    assert cli("column", "rename", table, "flag", "sign").code == 0
    assert cli("column", "drop", table, "price").code == 0
    found = {column["name"]: column for column in shown(cli, "column", "list", table)["columns"]}
    assert list(found) == ["id", "email", "count", "sign"]
    assert (found["email"]["pii_type"], found["email"]["sensitivity"]) == ("EMAIL", "RESTRICTED")
    assert found["count"]["type"] == "long"
    assert found["sign"]["description"] == "Whether"
    assert [former["name"] for former in found["sign"]["former_names"]] == ["flag"]
    every = shown(cli, "column", "list", table, "--inactive")["columns"]
    assert [column["name"] for column in every if column["status"] == "inactive"] == ["price"]
    assert "dropped in" in cli("column", "list", table, "--inactive").out
    assert cli("column", "drop", table, "price").code == 3
    assert cli("column", "drop", table, "price", "--if-exists").code == 0


def test_a_schema_found_elsewhere_takes_the_place_of_the_old_one(cli: Cli, catalog: Path) -> None:
    found = ["-c", "id:bigint:notnull", "-c", "cost:decimal(10,2)", "-c", "note:string"]
    written = shown(cli, "table", "replace-schema", "sales.orders", *found)
    assert [column["name"] for column in written["table"]["columns"]] == ["id", "cost", "note"]
    assert "price (inferred)" in cli("column", "list", "sales.orders").out
    assert cli("table", "replace-schema", "sales.orders", "-c", "id:bigint:notnull", "--no-infer-renames").code == 0
    assert cli("table", "replace-schema", "sales.orders").code == 2


def test_what_is_said_of_a_table_is_changed_and_cleared(cli: Cli, catalog: Path) -> None:
    change = ["--description", "Every order", "--owner", "a@x", "--owner", "b@x", "--property", "k=v"]
    updated = shown(cli, "table", "update", "sales.orders", *change)["table"]
    assert (updated["description"], updated["owners"], updated["tags"]) == (
        "Every order",
        ["a@x", "b@x"],
        {"tier": "1"},
    )
    cleared = shown(cli, "table", "update", "sales.orders", "--clear", "owners", "--clear", "tags")["table"]
    assert (cleared["owners"], cleared["tags"], cleared["description"]) == ([], {}, "Every order")


def test_a_contract_and_an_sla_are_set_and_dropped(cli: Cli, catalog: Path) -> None:
    assert cli("contract", "set", "sales.orders", "--compatibility", "full", "--term", "a=b").code == 0
    assert cli("sla", "set", "sales.orders", "--freshness", "90m", "--availability", "99.5").code == 0
    found = shown(cli, "table", "show", "sales.orders")
    assert (found["contract"]["compatibility"], found["contract"]["terms"]) == ("full", {"a": "b"})
    assert (found["sla"]["freshness_seconds"], found["sla"]["availability_percent"]) == (5400, 99.5)
    assert "at most 5,400 s old, 99.5 % available" in cli("table", "show", "sales.orders").out
    assert cli("contract", "drop", "sales.orders").code == 0
    assert cli("sla", "drop", "sales.orders").code == 0
    found = shown(cli, "table", "show", "sales.orders")
    assert (found["contract"], found["sla"]) == (None, None)


def test_the_past_can_be_read_and_compared_after_a_drop(cli: Cli, catalog: Path) -> None:
    before = shown(cli, "table", "show", "sales.orders")
    dropped = cli("table", "drop", "sales.orders")
    assert dropped.code == 0
    assert "warning: sales.daily" in dropped.err
    assert cli("table", "show", "sales.orders").code == 3
    past = ["--as-of", "4:0"]
    assert shown(cli, "table", "show", "sales.orders", *past) == before
    assert len(shown(cli, "table", "list", *past)["tables"]) == 2
    assert shown(cli, "table", "history", f"id:{before['id']}")["history"][-1]["change"] == "dropped"
    document = shown(cli, "diff", "--from", "4:0")
    tables = {entry["table"]: entry for entry in document["tables"]}
    assert (tables["tables"]["removed"], tables["tables"]["added"]) == (1, 0)
    people = cli("diff", "--from", "4:0").out
    assert "catalog.tables: 0 added, 1 removed, 0 changed" in people
    assert "catalog.name_changes" not in people
    assert "catalog.name_changes" in cli("diff", "--from", "4:0", "--all").out
    assert "catalog.audit: 1 added" in cli("diff", "--from", "4:0", "--table", "audit").out
    rows = shown(cli, "query", "select full_name from system.tables order by 1", *past)["rows"]
    assert rows == [["sales.daily"], ["sales.orders"]]
    state = shown(cli, "state", "diff", "tables", "--from", "4:0")["tables"]
    assert [row["name"] for row in state[0]["removed"]] == ["orders"]


def test_warnings_are_in_the_document_of_programs_and_not_beside_it(cli: Cli, catalog: Path) -> None:
    ran = cli("table", "drop", "sales.orders", "--json")
    assert ran.err == ""
    assert len(ran.document["warnings"]) == 1


def test_a_renamed_table_is_found_by_its_old_name_and_written_by_its_new_one(cli: Cli, catalog: Path) -> None:
    assert cli("table", "rename", "sales.orders", "sales.eu.bought").code == 0
    assert shown(cli, "table", "show", "sales.orders")["name"] == "sales.eu.bought"
    ran = cli("table", "update", "sales.orders", "--description", "x")
    assert ran.code == 3
    assert "sales.eu.bought" in ran.err


def test_files_that_are_there_become_a_table(cli: Cli, catalog: Path) -> None:
    folder = catalog / "data" / "incoming"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), folder / "part.parquet")
    written = shown(cli, "table", "register", "sales.incoming", "data/incoming")
    assert [(column["name"], column["type"]) for column in written["table"]["columns"]] == [
        ("id", "long"),
        ("name", "string"),
    ]
    assert shown(cli, "query", "select sum(id), count(*) from sales.incoming")["rows"] == [[6, 3]]
    assert cli("table", "register", "sales.nothing", "data/nothing").code == 3


# Lineage


def test_lineage_is_a_tree_both_ways_and_cycles_end(cli: Cli, catalog: Path) -> None:
    edge = shown(cli, "lineage", "show", "sales.orders")["edges"][0]
    text = cli("lineage", "show", "sales.orders").out
    assert "made of nothing" in text
    assert "sales.daily" in text
    assert edge["id"] in text
    added = shown(cli, "lineage", "add", "sales.daily", "sales.orders")
    assert "(see above)" in cli("lineage", "show", "sales.orders", "--direction", "upstream").out
    assert cli("lineage", "drop", added["edge_id"]).code == 0
    assert len(shown(cli, "lineage", "show", "sales.orders", "-d", "downstream", "--depth", "1")["edges"]) == 1
    assert "made of nothing" in cli("lineage", "show", "sales.orders", "-d", "upstream").out


# SQL


def test_sql_is_shown_as_a_table_csv_or_json_lines(cli: Cli, catalog: Path) -> None:
    sql = "select * from (values (1, 'a,b', null, [1, 2]), (2, 'c', true, [])) t(n, text, flag, list)"
    assert shown(cli, "query", sql)["rows"] == [[1, "a,b", None, [1, 2]], [2, "c", True, []]]
    text = cli("query", sql, "--format", "csv").out
    assert list(csv.reader(io.StringIO(text))) == [
        ["n", "text", "flag", "list"],
        ["1", "a,b", "", "[1,2]"],
        ["2", "c", "true", "[]"],
    ]
    lines = [json.loads(line) for line in cli("query", sql, "--format", "json").out.splitlines()]
    assert lines[1] == {"n": 2, "text": "c", "flag": True, "list": []}
    assert "2 rows" in cli("query", sql).out
    assert cli("query", sql, "--format", "csv", "--json").code == 2


def test_sql_comes_from_standard_input_too(home: Path, catalog: Path) -> None:
    result = CliRunner().invoke(app, ["query", "-", "--format", "csv"], input="select 7 as seven\n")
    assert result.stdout == "seven\n7\n"


def test_an_answer_that_was_cut_says_so(cli: Cli, catalog: Path) -> None:
    ran = cli("query", "from range(10)", "--max-rows", "3")
    assert ran.code == 0
    assert "only the first 3 rows" in ran.err
    assert "or raise --max-rows" in ran.err
    assert shown(cli, "query", "from range(10)", "--max-rows", "3")["truncated"] is True


# Access


def test_a_token_is_shown_once(cli: Cli, catalog: Path) -> None:
    made = shown(cli, "key", "create", "ci", "--role", "editor", "--expires", "30d")
    assert made["token"].startswith("arco_default_default_")
    ran = cli("key", "list")
    assert made["token"] not in ran.out
    assert "good" in ran.out
    assert cli("key", "revoke", made["key"]["id"]).code == 0
    assert "revoked" in cli("key", "list").out
    people = cli("key", "create", "other", "--role", "viewer").out
    assert "arco_default_default_" in people
    assert "shown this once" in people


def test_a_repeated_creation_of_a_key_cannot_show_the_token_again(cli: Cli, catalog: Path) -> None:
    runtime = AsyncRuntime()
    request = ["key", "create", "ci", "--role", "viewer", "--request-key", new_ulid(runtime, runtime)]
    token = shown(cli, *request)["token"]
    ran = cli(*request)
    assert ran.code == 0
    assert token not in ran.out + ran.err
    assert "revoke" in ran.err
    assert shown(cli, *request)["token"] is None


def test_roles_are_granted_listed_and_revoked(cli: Cli, catalog: Path) -> None:
    assert cli("role", "grant", "me@x.y", "admin").code == 0
    assert [(found["principal"], found["role"]) for found in shown(cli, "role", "list")["roles"]] == [
        ("me@x.y", "admin")
    ]
    assert cli("role", "revoke", "me@x.y").code == 0
    assert shown(cli, "role", "list")["roles"] == []


def test_settings_are_changed_and_set_back(cli: Cli, catalog: Path) -> None:
    def value() -> int:
        return next(
            found["value"] for found in shown(cli, "settings", "show")["settings"] if "max_rows" in found["name"]
        )

    default = value()
    assert cli("settings", "set", "query.max_rows=5").code == 0
    assert value() == 5
    assert cli("settings", "set", "query.max_rows=default").code == 0
    assert value() == default


def test_who_did_what_is_in_the_audit(cli: Cli, catalog: Path) -> None:
    entries = shown(cli, "audit", "--limit", "2")
    assert entries["more"] is True
    newest = shown(cli, "audit", "--log", "catalog", "--limit", "1")["audit"][0]
    assert (newest["action"], newest["resource"]) == ("CreateTable", "sales.daily")
    assert newest["actor"].startswith("local:")
    found = shown(cli, "operation", newest["operation_id"])
    assert (found["status"], found["command"]) == ("done", "CreateTable")
    assert "done" in cli("operation", newest["operation_id"]).out
    assert "no trace" in cli("operation", "01ARZ3NDEKTSV4RRFFQ69G5FAV").out


# Facts of others


def observed(number: int) -> dict[str, Any]:
    return {
        "type": "AssetObserved",
        "data": {
            "observation_id": f"01ARZ3NDEKTSV4RRFFQ69G5F{number:02d}",
            "asset_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "asset_key": "sales.orders",
            "partition_id": "p",
            "partition_key": "n=1",
            "data_version": "1",
            "observed_at": 1_794_700_000_000_000,
        },
    }


def test_events_are_recorded_and_refused_one_by_one(cli: Cli, home: Path, catalog: Path) -> None:
    wrong = {"type": "AssetObserved", "data": {"nosuch": 1}}
    lines = [observed(1), wrong, observed(2)]
    (home / "events.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    ran = cli("events", "post", "events.jsonl", "--json")
    assert ran.code == 2
    assert ran.document["recorded"] == 2
    assert [entry["event"] for entry in ran.document["refused"]] == [2]
    people = cli("events", "post", "events.jsonl")
    assert "2 recorded" in people.out
    assert "1 refused" in people.out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no events"),
        ("\n \n", "has no events"),
        ('{"type": "AssetObserved", "data": {}}\nnot json', "line 2 is not JSON"),
        ("[]", "line 1 is not an event"),
        ('{"type": "TableDropped", "data": {}}', "line 1 is not an event: type"),
        ('{"type": "AssetObserved"}', "line 1 is not an event: data"),
        ('{"type": "AssetObserved", "data": {}, "colour": 1}', "line 1 is not an event: colour"),
    ],
)
def test_a_file_that_holds_no_events_is_refused_before_anything_is_sent(
    cli: Cli, home: Path, catalog: Path, text: str, why: str
) -> None:
    (home / "events.jsonl").write_text(text)
    ran = cli("events", "post", "events.jsonl")
    assert ran.code == 2
    assert why in ran.err


def test_many_events_go_in_several_requests_with_keys_of_their_own(
    cli: Cli, home: Path, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.cli._activity.BATCH_EVENTS", 2)
    runtime = AsyncRuntime()
    key = new_ulid(runtime, runtime)
    (home / "events.jsonl").write_text("\n".join(json.dumps(observed(number)) for number in range(5)))
    first = shown(cli, "events", "post", "events.jsonl", "--request-key", key)
    assert (first["recorded"], len(first["operations"]), first["replayed"]) == (5, 3, False)
    again = shown(cli, "events", "post", "events.jsonl", "--request-key", key)
    assert (again["operations"], again["replayed"]) == (first["operations"], True)


# Asking before something is lost


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A terminal at which somebody answers; holds the answers to come."""
    answers: list[str] = []

    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answers.pop(0)

    class Streams:
        stdin = Terminal()
        stderr = Terminal()

    monkeypatch.setattr("arco.cli._answers.sys", Streams)
    yield answers
    assert answers == []


@pytest.mark.parametrize(
    "command",
    [
        ["namespace", "drop", "sales", "--cascade"],
        ["table", "drop", "sales.daily"],
        ["column", "drop", "sales.orders", "price"],
        ["table", "alter", "sales.orders", "--drop", "price"],
    ],
    ids=" ".join,
)
def test_a_drop_asks_on_a_terminal(cli: Cli, catalog: Path, asked: list[str], command: list[str]) -> None:
    for answer in ("\n", "n\n", "", "nay\n"):
        asked.append(answer)
        ran = cli(*command)
        assert ran.code == 3
        assert "not confirmed" in ran.err
    asked.append("y\n")
    assert cli(*command).code == 0


def test_a_drop_does_not_ask_whoever_said_yes(cli: Cli, catalog: Path, asked: list[str]) -> None:
    assert cli("table", "drop", "sales.daily", "--yes").code == 0

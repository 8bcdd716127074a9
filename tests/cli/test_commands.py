"""Every command on a small workspace: what it says, what it changes, what it leaves alone."""

import json
import os
import re
from pathlib import Path

import pytest

from arco.cli._options import LogName
from arco.runtime import DEFINITIONS
from arco.storage import Role
from tests.cli.conftest import ASSET, PUBLISHED, UNPUBLISHED, Cli

READING = (
    ["config"],
    ["policy", "owner", "--bucket", "my-bucket"],
    ["log", "tail"],
    ["log", "cat", "catalog"],
    ["log", "verify"],
    ["state", "tables"],
    ["state", "show", "partitions"],
    ["state", "diff", "--log", "catalog", "--from", "0"],
    ["state", "history"],
    ["rebuild", "--verify"],
    ["gc", "--dry-run"],
    ["doctor"],
    ["whoami"],
    ["namespace", "list", "--recursive"],
    ["namespace", "show", "sales"],
    ["namespace", "history", "new"],
    ["table", "list"],
    ["table", "list", "sales", "--as-of", "1:0"],
    ["audit"],
    ["diff", "--from", "1:0", "--all"],
    ["operation", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ["runs", "outputs", "run"],
    ["query", "select * from system.namespaces"],
    ["key", "list"],
    ["role", "list"],
    ["settings", "show"],
    ["cost"],
)


def files_below(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_the_log_names_on_the_command_line_are_the_logs_there_are() -> None:
    assert [name.value for name in LogName] == [definition.log for definition in DEFINITIONS]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_command_that_reads_changes_no_object(cli: Cli, workspace: Path, command: list[str]) -> None:
    before = files_below(workspace)
    assert cli(*command).code == 0
    assert files_below(workspace) == before


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_nothing_a_workspace_holds_can_act_on_a_terminal(cli: Cli, workspace: Path, command: list[str]) -> None:
    for ran in (cli(*command), cli(*command, "--json")):
        assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize("command", [*READING, ["compact"], ["rebuild"], ["gc"]], ids=" ".join)
def test_json_is_one_document_on_standard_output(cli: Cli, workspace: Path, command: list[str]) -> None:
    ran = cli(*command, "--json")
    assert ran.code == 0
    assert ran.err == ""
    for text in ran.out.splitlines() if command[:2] == ["log", "cat"] else [ran.out]:
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("command", [command for command in READING if command[0] != "config"], ids=" ".join)
def test_without_a_workspace_a_command_says_how_to_get_one(cli: Cli, home: Path, command: list[str]) -> None:
    ran = cli(*command)
    assert ran.code == 3
    assert "arco init" in ran.err
    assert list(home.iterdir()) == []


# init, config, policy


def test_init_creates_a_workspace_that_the_doctor_finds_healthy(cli: Cli, home: Path) -> None:
    ran = cli("init", "--json")
    assert ran.code == 0
    assert ran.document["workspace"] == "default/default"
    assert ran.document["store"] == f"file://{home}/.arco"
    assert [path.name for path in home.iterdir()] == [".arco"]
    assert cli("doctor").code == 0


def test_init_on_an_existing_workspace_refuses_and_changes_nothing(cli: Cli, workspace: Path) -> None:
    before = files_below(workspace)
    ran = cli("init", "--json")
    assert (ran.code, ran.error["name"]) == (3, "Conflict")
    assert "exists already" in ran.error["message"]
    assert files_below(workspace) == before


def test_init_says_how_to_find_what_was_named_by_flags(cli: Cli, home: Path) -> None:
    ran = cli("init", "--tenant", "acme", "--workspace", "prod", "--store", "file://there")
    assert f"export ARCO_STORE=file://{home}/there" in ran.out
    assert "export ARCO_TENANT_ID=acme" in ran.out
    found = cli("doctor", ARCO_STORE=f"file://{home}/there", ARCO_TENANT_ID="acme", ARCO_WORKSPACE_ID="prod")
    assert found.code == 0


def test_init_names_what_makes_a_pipeline(cli: Cli) -> None:
    told = cli("init").out
    for command in ("arco check", "arco deploy", "arco init --example", "arco doctor"):
        assert command in told


def test_config_shows_each_value_with_its_origin(cli: Cli, home: Path) -> None:
    (home / "arco.toml").write_text('tenant_id = "from-file"\nmerge_fan_in = 4\n[store_options]\nregion = "x"\n')
    ran = cli(
        "config", "--workspace", "from-flag", "--store-option", "secret_key=hunter2", "--json", ARCO_TENANT_ID="env"
    )
    values = {entry["name"]: (entry["value"], entry["origin"]) for entry in ran.document["settings"]}
    assert values["tenant_id"] == ("env", "ARCO_TENANT_ID")
    assert values["workspace_id"] == ("from-flag", "--workspace-id")
    assert values["merge_fan_in"] == ("4", "arco.toml")
    assert values["store"] == ("file://.arco", "default")
    assert values["store_options.region"] == ("x", "arco.toml")
    assert "hunter2" not in ran.out
    assert ran.document["file"] == str(home / "arco.toml")


def test_a_store_in_arco_toml_is_below_its_folder_wherever_one_stands(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "arco.toml").write_text('store = "file://data"\n')
    (home / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(home / "deep" / "er")
    assert cli("init", "--json").document["store"] == f"file://{home}/data"
    assert cli("init", "--store", "file://here", "--json").document["store"] == f"file://{home}/deep/er/here"


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_policy_names_the_workspace_and_nothing_else(cli: Cli, workspace: Path, role: str) -> None:
    document = cli("policy", role, "--bucket", "my-bucket").document
    for statement in document["Statement"]:
        for resource in statement["Resource"]:
            assert resource == "arn:aws:s3:::my-bucket" or resource.startswith(
                "arn:aws:s3:::my-bucket/default/default/"
            )


@pytest.mark.parametrize("cloud", ["gcs", "azure"])
def test_policies_of_other_clouds_name_the_workspace_too(cli: Cli, workspace: Path, cloud: str) -> None:
    document = cli("policy", "owner", "--bucket", "my-bucket", "--cloud", cloud).document
    text = json.dumps(document)
    assert "my-bucket" in text
    assert "default/default/" in text
    assert document["not_expressed"]


# cost


def test_cost_tells_what_was_measured_and_what_is_calculated(cli: Cli, workspace: Path) -> None:
    document = cli("cost", "--json").document
    measured, calculated = document["measured"], document["calculated"]
    files = files_below(workspace)
    assert sum(one["objects"] for one in measured["stored"].values()) == len(files)
    assert sum(one["bytes"] for one in measured["stored"].values()) == sum(map(len, files.values()))
    assert measured["days"][0]["segments"] > 0
    assert calculated["requests_a_day"]["append"]["create"] > 0
    assert calculated["prices"]["name"] == "s3"
    assert calculated["dollars_a_month"] == pytest.approx(sum(line["dollars_a_month"] for line in calculated["lines"]))
    assert document["counted"] is None, "no server runs"
    told = cli("cost", "--no-sizes", "--prices", "gcs").out
    assert "Google Cloud Storage" in told
    assert "Calculated: merges and hints" in told


def test_the_model_needs_no_workspace(cli: Cli, home: Path) -> None:
    given = ["cost", "--model", "tenants=10000", "events_per_day=1e9", "--json"]
    small, large = cli(*given).document, cli(*given, "--price", "write=0.05").document
    assert small["load"]["posts"] * small["load"]["facts"] * 10_000 == pytest.approx(1e9, rel=0.05)
    assert 0 < small["calculated"]["dollars_a_month"] < large["calculated"]["dollars_a_month"]


@pytest.mark.parametrize("bucket", ["*", "a/b", "my-bucket/*", "x", "UPPER", ""])
def test_policy_refuses_what_is_no_bucket(cli: Cli, workspace: Path, bucket: str) -> None:
    assert cli("policy", "owner", "--bucket", bucket).code == 2


# log


def test_tail_shows_the_newest_events_of_both_logs_in_the_order_they_came(cli: Cli, workspace: Path) -> None:
    events = cli("log", "tail", "--json", "-n", "100").document["events"]
    assert len(events) == 5 + PUBLISHED + UNPUBLISHED
    assert [event["received"] for event in events] == sorted(event["received"] for event in events)
    last = cli("log", "tail", "--json", "-n", "3").document["events"]
    assert last == events[-3:]
    assert {event["log"] for event in cli("log", "tail", "catalog", "--json").document["events"]} == {"catalog"}
    assert cli("log", "tail", "-n", "0", "--json").document == {"events": []}


def test_tail_shows_positions_that_other_commands_accept(cli: Cli, workspace: Path) -> None:
    ran = cli("log", "tail", "activity", "-n", "1")
    assert f"{PUBLISHED + UNPUBLISHED}:0" in ran.out
    assert cli("state", "show", "partitions", "--position", f"{PUBLISHED + UNPUBLISHED}:0").code == 0


def test_tail_of_an_empty_workspace_says_so(cli: Cli, home: Path) -> None:
    cli("init")
    assert "empty" in cli("log", "tail").out


def test_cat_prints_whole_events_from_one_position_to_another(cli: Cli, workspace: Path) -> None:
    every = [json.loads(line) for line in cli("log", "cat", "activity").out.splitlines()]
    assert [event["position"] for event in every] == [str(n << 20) for n in range(1, PUBLISHED + UNPUBLISHED + 1)]
    assert every[0]["data"]["row_count"] == 100
    some = [json.loads(line) for line in cli("log", "cat", "activity", "--from", "2:0", "--to", "3:0").out.splitlines()]
    assert some == every[1:3]
    assert cli("log", "cat", "activity", "--json").out == cli("log", "cat", "activity").out


def test_cat_by_type_prints_those_and_names_the_known_ones_if_there_are_none(cli: Cli, workspace: Path) -> None:
    lines = cli("log", "cat", "catalog", "--type", "NamespaceRenamed").out.splitlines()
    assert [json.loads(line)["subject"] for line in lines] == ["new"]
    ran = cli("log", "cat", "catalog", "--type", "NamespaceRenmaed")
    assert ran.out == ""
    assert "NamespaceRenamed" in ran.err


def test_verify_counts_what_it_read(cli: Cli, workspace: Path) -> None:
    logs = cli("log", "verify", "--json").document["logs"]
    assert [(log["log"], log["ok"], log["segments"], log["events"]) for log in logs] == [
        ("catalog", True, 5, 5),
        ("activity", True, PUBLISHED + UNPUBLISHED, PUBLISHED + UNPUBLISHED),
    ]


# state


def test_tables_lists_every_table_of_both_logs(cli: Cli, workspace: Path) -> None:
    tables = cli("state", "tables", "--json").document["tables"]
    assert {(entry["log"], entry["table"]) for entry in tables} == {
        (definition.log, name) for definition in DEFINITIONS for name in definition.tables
    }
    facts = next(entry for entry in tables if entry["table"] == "materializations")
    assert (facts["stored_rows"], facts["segment"], facts["kind"]) == (PUBLISHED, PUBLISHED, "fact")


def test_show_reads_the_newest_revision_an_older_one_a_position_and_a_time(cli: Cli, workspace: Path) -> None:
    def rows(*point: str) -> dict[str, int]:
        document = cli("state", "show", "partitions", "--json", *point).document
        return {row["partition_id"]: row["row_count"] for row in document["rows"]}

    assert rows() == {"part_0": 103, "part_1": 104, "part_2": 105}
    assert rows("--revision", "2") == {"part_0": 100, "part_1": 101}
    assert rows("--revision", "0") == {}
    assert rows("--position", "4:0") == {"part_0": 103, "part_1": 101, "part_2": 102}
    assert rows("--position", "8:0") == {"part_0": 106, "part_1": 107, "part_2": 105}
    history = cli("state", "history", "activity", "--json").document["revisions"]
    second = next(entry for entry in history if entry["revision"] == 2)
    assert rows("--as-of", second["published_at"]) == rows("--revision", "2")


def test_show_filters_chooses_and_limits(cli: Cli, workspace: Path) -> None:
    where = ["--where", f"asset_id={ASSET}", "--where", "run_id=run", "--where", "row_count=102"]
    document = cli("state", "show", "materializations", *where, "--columns", "version,row_count", "--json").document
    assert document["rows"] == [{"version": 1, "row_count": 102}]
    assert cli("state", "show", "materializations", "--where", "asset_id=other", "--json").document["total"] == 0
    limited = cli("state", "show", "materializations", "--limit", "2", "--json").document
    assert (len(limited["rows"]), limited["total"]) == (2, PUBLISHED)
    assert len(cli("state", "show", "materializations", "--limit", "0", "--json").document["rows"]) == PUBLISHED
    assert f"2 of {PUBLISHED} rows" in cli("state", "show", "materializations", "--limit", "2").out


def test_show_finds_a_row_by_a_time_it_has_shown(cli: Cli, workspace: Path) -> None:
    shown = cli("state", "show", "partitions", "--limit", "1", "--json").document["rows"][0]
    for column in ("created_at", "updated_at"):
        document = cli("state", "show", "partitions", "--where", f"{column}={shown[column]}", "--json").document
        assert [row["partition_id"] for row in document["rows"]] == [shown["partition_id"]]


def test_a_row_too_wide_for_the_terminal_becomes_a_block(cli: Cli, workspace: Path) -> None:
    ran = cli("state", "show", "partitions", "--limit", "1", FORCE_COLOR="1", COLUMNS="80", TERM="xterm")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.out)
    assert any(line.split() == ["partition_id", "part_0"] for line in plain.splitlines())


def test_diff_shows_added_removed_and_changed_rows(cli: Cli, workspace: Path) -> None:
    ran = cli("state", "diff", "--log", "catalog", "--from", "3", "--to", "5", "names", "--json")
    (names,) = ran.document["tables"]
    assert [row["name"] for row in names["added"]] == ["new"]
    assert sorted(row["name"] for row in names["removed"]) == ["gone", "old"]
    (partitions,) = cli("state", "diff", "partitions", "--from", "5:0", "--to", "6:0", "--json").document["tables"]
    (changed,) = partitions["changed"]
    assert changed["key"] == {"partition_id": "part_2"}
    assert changed["columns"]["row_count"] == {"from": 102, "to": 105}
    assert "partition_key" not in changed["columns"]


def test_diff_of_a_state_with_itself_is_nothing(cli: Cli, workspace: Path) -> None:
    ran = cli("state", "diff", "--log", "activity", "--from", "6:0")
    assert "Nothing changed" in ran.out
    assert cli("state", "diff", "--log", "activity", "--from", "6:0", "--json").document == {"tables": []}


def test_diff_between_times_takes_both_logs(cli: Cli, workspace: Path) -> None:
    history = cli("state", "history", "--json").document["revisions"]
    start = max(min(e["published_at"] for e in history if e["log"] == log) for log in ("catalog", "activity"))
    tables = cli("state", "diff", "--from", start, "--json").document["tables"]
    assert {entry["log"] for entry in tables} == {"activity"}  # the catalog was complete before the first fact


def test_history_lists_revisions_newest_first(cli: Cli, workspace: Path) -> None:
    revisions = cli("state", "history", "activity", "--json").document["revisions"]
    assert [entry["revision"] for entry in revisions] == list(range(PUBLISHED, 0, -1))
    assert [entry["segment"] for entry in revisions] == list(range(PUBLISHED, 0, -1))
    assert len(cli("state", "history", "activity", "--limit", "2", "--json").document["revisions"]) == 2


# compact, rebuild, gc, doctor


def test_compact_publishes_what_is_only_in_the_log(cli: Cli, workspace: Path) -> None:
    (step,) = cli("compact", "activity", "--json").document["logs"]
    assert (step["revision_before"], step["revision_after"]) == (PUBLISHED, PUBLISHED + 1)
    assert step["segment"] == PUBLISHED + UNPUBLISHED
    (again,) = cli("compact", "activity", "--json").document["logs"]
    assert again["revision_before"] == again["revision_after"] == PUBLISHED + 1
    rows = cli("state", "show", "partitions", "--json").document["rows"]
    assert [row["row_count"] for row in rows] == [106, 107, 105]


def test_compact_merges_when_the_setting_says_so_and_counts_the_merges(cli: Cli, workspace: Path) -> None:
    before = cli("state", "tables", "activity", "--json").document["tables"]
    (step,) = cli("compact", "activity", "--json", ARCO_MERGE_FAN_IN="2").document["logs"]
    assert step["merges"] > 0
    assert step["layers"] < sum(entry["layers"] for entry in before)
    assert cli("rebuild", "--verify", "activity").code == 0


def test_old_segments_are_packed_dropped_and_read_all_the_same(cli: Cli, workspace: Path) -> None:
    everything = cli("log", "cat", "activity").out
    small = {"ARCO_PACK_SEGMENTS": "2", "ARCO_PACK_KEEP": "1"}
    (step,) = cli("compact", "activity", "--json", **small).document["logs"]
    packed = step["packed_segments"]
    assert packed == step["packed_through"] == (PUBLISHED + UNPUBLISHED - 1) // 2 * 2
    assert cli("gc", "activity", "--json").document["logs"][0]["segments"] == []  # too young
    (ledger,) = workspace.glob("inc-*/ledger/activity")
    for path in ledger.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    announced = cli("gc", "activity", "--dry-run", "--json").document["logs"][0]
    assert len(announced["segments"]) == packed
    done = cli("gc", "activity", "--json").document["logs"][0]
    assert (done["segments"], done["segment_floor"]) == (announced["segments"], packed)
    assert done["kept_segments"] == PUBLISHED + UNPUBLISHED - packed
    assert cli("log", "cat", "activity").out == everything
    assert cli("log", "tail", "activity", "-n", "100", "--json").document["events"]
    (verified,) = cli("log", "verify", "activity", "--json").document["logs"]
    assert (verified["segments"], verified["packed_segments"]) == (PUBLISHED + UNPUBLISHED, packed)
    assert cli("rebuild", "--verify", "activity").code == 0
    assert cli("rebuild", "activity").code == 0
    assert cli("doctor").code == 0
    assert cli("state", "show", "partitions", "--position", "2:0").code == 0
    (pack,) = list(workspace.glob("inc-*/packs/activity/*/*/*.pack"))[:1]
    pack.write_bytes(pack.read_bytes()[:-1])
    for command in (("doctor",), ("log", "verify", "activity"), ("rebuild", "activity")):
        assert cli(*command).code == 7


def test_rebuild_swaps_in_what_the_log_says(cli: Cli, workspace: Path) -> None:
    for step in cli("rebuild", "--json").document["logs"]:
        assert step["revision_after"] > step["revision_before"]
    assert cli("rebuild", "--verify", "--json").document["equal"]
    assert cli("doctor").code == 0
    assert cli("state", "tables", "activity", "--json").document["tables"][0]["segment"] == PUBLISHED + UNPUBLISHED


def test_verify_counts_rows_of_every_table(cli: Cli, workspace: Path) -> None:
    document = cli("rebuild", "--verify", "activity", "--json").document
    counted = {entry["table"]: (entry["rows"], entry["refolded_rows"], entry["equal"]) for entry in document["tables"]}
    assert counted["materializations"] == (PUBLISHED, PUBLISHED, True)
    assert counted["partitions"] == (3, 3, True)


def test_gc_deletes_what_its_dry_run_announced_and_nothing_else(cli: Cli, workspace: Path) -> None:
    (incarnation,) = workspace.glob("inc-*")
    stray = incarnation / "state" / "activity" / f"{1:020d}-01ARZ3NDEKTSV4RRFFQ69G5FAV" / "delta"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"left by a crash")
    before = files_below(workspace)
    announced = cli("gc", "--dry-run", "--json").document
    assert files_below(workspace) == before
    path = str(stray.relative_to(workspace))
    assert path in cli("gc", "--dry-run").out
    assert announced["dry_run"]
    assert [entry["files"] for entry in announced["logs"]] == [[], [path]]
    done = cli("gc", "--json").document
    assert not done["dry_run"]
    assert files_below(workspace) == {name: data for name, data in before.items() if name != path}
    assert cli("doctor").code == 0


def test_doctor_says_what_it_looked_at_and_ends_with_a_verdict(cli: Cli, workspace: Path) -> None:
    document = cli("doctor", "--json").document
    assert document["healthy"]
    assert (document["errors"], document["warnings"]) == (0, 0)
    checks = {(finding["log"], finding["check"]) for finding in document["findings"]}
    assert {("", "store"), ("", "incarnation"), ("catalog", "chain"), ("activity", "files")} <= checks
    assert cli("doctor").out.strip().splitlines()[-1].startswith("Healthy")


def test_progress_is_shown_to_a_terminal_only_and_never_on_standard_output(cli: Cli, workspace: Path) -> None:
    watched = cli("doctor", "--json", FORCE_COLOR="1", TERM="xterm")
    assert watched.document["healthy"]
    assert "examining" in watched.err
    assert cli("doctor").err == ""

"""Iceberg tables on the command line: shown with their columns and commits, and looked after."""

import asyncio
from pathlib import Path

from arco.core import new_ulid
from arco.domains.catalog import CreateTable
from arco.domains.tables import (
    ICEBERG_COMMITTED,
    CommitSource,
    CommitState,
    IcebergColumn,
    IcebergCommitted,
    IcebergKind,
)
from arco.runtime import AsyncRuntime, Workspace
from arco.state import new_event
from arco.storage import LocalStore
from tests.cli.conftest import SCOPE, Cli


async def _fill(root: Path) -> None:
    runtime = AsyncRuntime()
    async with await Workspace.open(LocalStore(root), SCOPE, runtime) as workspace:
        table_id = new_ulid(runtime, runtime)
        create = CreateTable(("sales", "events"), format="ICEBERG", table_id=table_id)
        await workspace.decide("catalog", create, actor="ann")
        columns = (IcebergColumn(1, "id", "long", nullable=False), IcebergColumn(2, "note", "string", doc="Said"))
        for number in (1, 2):
            told = IcebergCommitted(
                table_id=table_id,
                number=number,
                kind=IcebergKind.TABLE,
                state=CommitState.LIVE,
                source=CommitSource.SERVO if number == 2 else CommitSource.EXTERNAL,
                actor="ann",
                committed_at=runtime.now(),
                metadata_location=f"s3://lake/{number}.metadata.json",
                table_uuid="u",
                format_version=2,
                schema_id=0,
                columns=columns if number == 1 else None,
                snapshot_id=(1 << 60) if number == 2 else None,
                operation="append" if number == 2 else None,
                added_rows=1_000 if number == 2 else None,
                total_rows=1_000,
                run_id="run-7" if number == 2 else "",
            )
            await workspace.record("activity", [new_event(ICEBERG_COMMITTED, told)], actor="iceberg")


def test_an_iceberg_table_is_shown_with_its_columns_and_commits(project: Path, cli: Cli) -> None:
    cli("namespace", "create", "sales", "--if-not-exists")
    asyncio.run(_fill(project / ".arco"))
    shown = cli("table", "show", "sales.events")
    assert shown.code == 0, shown.err
    assert "v2, commit 2" in shown.out
    assert "1,000 rows" in shown.out
    assert "note" in shown.out
    listed = cli("column", "list", "sales.events", "--json").document["columns"]
    assert [one["name"] for one in listed] == ["id", "note"]
    commits = cli("table", "commits", "sales.events", COLUMNS="200")
    assert "run run-7" in commits.out
    assert "verified" in commits.out
    assert "declared unverified" in commits.out
    document = cli("table", "commits", "sales.events", "--json", "--limit", "1").document
    assert (document["commits"][0]["snapshot_id"], document["more"]) == (str(1 << 60), True)


def test_upkeep_asks_and_says_what_it_did(project: Path, cli: Cli) -> None:
    ran = cli("maintain", "iceberg", "--yes")
    assert (ran.code, "Objects removed: 0" in ran.out) == (0, True)
    document = cli("maintain", "iceberg", "--dry-run", "--json").document
    assert (document["dry_run"], document["removed"], document["untold"]) == (True, [], [])

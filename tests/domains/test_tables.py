"""Iceberg tables: each pointer is one fact, and in whatever order they are told, the newest one decides."""

import asyncio
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.domains.execution import EXECUTION
from arco.domains.tables import (
    ICEBERG_TABLES,
    TABLE_COLUMNS,
    TABLE_COMMITS,
    TABLE_STATES,
    CommitSource,
    CommitState,
    IcebergColumn,
    IcebergCommitted,
    IcebergKind,
    TableCommit,
    TableState,
    column_id,
    commit_key,
)
from arco.log import Event
from arco.state import REJECTIONS, define_log
from arco.storage import MemoryStore
from tests.doubles import START, FakeRuntime, run
from tests.state.doubles import Journal, event, open_node, replica_of, rows_of, segments_of

LOG = define_log("activity", [ICEBERG_TABLES])
TABLE = "01KDVEYM00000000000000000T"

ID = IcebergColumn(1, "id", "long", nullable=False)
NOTE = IcebergColumn(2, "note", "string", doc="What was said")


def commit(number: int, *columns: IcebergColumn, table: str = TABLE, **changes: Any) -> Event:
    fields: dict[str, Any] = {
        "state": CommitState.LIVE,
        "source": CommitSource.EXTERNAL,
        "actor": "ann",
        "committed_at": START + number,
        "metadata_location": f"s3://b/{number}.metadata.json",
        "table_uuid": "u",
        "format_version": 2,
        "snapshot_id": number,
        "columns": columns or None,
        "total_rows": 10 * number,
    }
    return event(
        "IcebergCommitted",
        IcebergCommitted(table_id=table, number=number, kind=IcebergKind.TABLE, **{**fields, **changes}),
    )


def dropped(number: int) -> Event:
    return commit(number, state=CommitState.DROPPED, metadata_location="", snapshot_id=None, total_rows=None)


def aborted(number: int) -> Event:
    return commit(number, state=CommitState.ABORTED)


async def state_of(*events: Event) -> dict[str, Any]:
    """All rows without what depends on when they were told."""
    replica = await replica_of(LOG, [segments_of([[item] for item in events])])
    found = {table.name: await rows_of(replica, table) for table in (*ICEBERG_TABLES.tables, REJECTIONS)}
    for rows in found.values():
        for row in rows:
            for name in ("_position", "updated_at", "recorded_at"):
                if not (name == "updated_at" and "field_id" in row):
                    row.pop(name, None)
    return found


async def table_of(*events: Event) -> tuple[TableState, list[tuple[str, str]]]:
    replica = await replica_of(LOG, [segments_of([[item] for item in events])])
    row: TableState = await replica.get(TABLE_STATES, TABLE, TABLE)
    columns = await replica.rows(TABLE_COLUMNS, TABLE)
    ordered = sorted(columns, key=lambda column: column.ordinal_position)
    return row, [(column.name, column.data_type) for column in ordered]


def test_the_newest_pointer_says_how_a_table_stands() -> None:
    async def main() -> None:
        row, columns = await table_of(commit(1, ID), commit(2, ID, NOTE), commit(3))
        assert (row.number, row.snapshot_id, row.row_count, row.recorded_through) == (3, 3, 30, 3)
        assert (row.metadata_location, row.state, row.schema_number) == ("s3://b/3.metadata.json", "live", 2)
        assert columns == [("id", "long"), ("note", "string")]

    asyncio.run(main())


HISTORIES = {
    "alter": [commit(1, ID), commit(2, ID, NOTE), commit(3), commit(4, NOTE)],
    "drop": [commit(1, ID), commit(2, ID, NOTE), dropped(3)],
    "create again": [commit(1, ID), dropped(2), commit(3, NOTE), commit(4)],
    "abort": [commit(1, ID), aborted(2), commit(3, NOTE), aborted(4)],
    "only aborted": [aborted(1), aborted(2)],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_any_order_and_any_repetition_give_the_same_tables(name: str) -> None:
    history = HISTORIES[name]

    async def main() -> None:
        expected = await state_of(*history)
        for order in permutations(history):
            assert await state_of(*order) == expected
        assert await state_of(*history, *history, history[0]) == expected
        assert expected["rejections"] == []
        assert expected["table_states"][0]["recorded_through"] == len(history)

    asyncio.run(main())


KINDS = st.sampled_from(["plain", "id", "note", "both", "dropped", "aborted"])


def _made(number: int, kind: str) -> Event:
    if kind == "dropped":
        return dropped(number)
    if kind == "aborted":
        return aborted(number)
    return commit(number, *{"plain": (), "id": (ID,), "note": (NOTE,), "both": (ID, NOTE)}[kind])


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(KINDS, min_size=1, max_size=8), data=st.data())
def test_a_random_history_does_not_depend_on_its_order(kinds: list[str], data: st.DataObject) -> None:
    history = [_made(number, kind) for number, kind in enumerate(kinds, 1)]
    told = data.draw(st.permutations(history)) + data.draw(st.lists(st.sampled_from(history), max_size=4))

    async def main() -> None:
        assert await state_of(*told) == await state_of(*history)

    asyncio.run(main())


def test_a_gap_is_seen_until_it_is_filled() -> None:
    async def main() -> None:
        row, _ = await table_of(commit(1, ID), commit(3), commit(4))
        assert (row.number, row.recorded_through) == (4, 1)
        row, _ = await table_of(commit(1, ID), commit(3), commit(4), commit(2))
        assert (row.number, row.recorded_through) == (4, 4)

    asyncio.run(main())


def test_a_dropped_table_keeps_its_row_and_loses_its_columns() -> None:
    async def main() -> None:
        row, columns = await table_of(commit(1, ID), dropped(2))
        assert (row.state, row.metadata_location, columns) == ("dropped", None, [])
        row, columns = await table_of(dropped(2), commit(1, ID))
        assert (row.state, row.number, columns) == ("dropped", 2, [])

    asyncio.run(main())


def test_a_column_keeps_its_id_when_it_is_renamed() -> None:
    async def main() -> None:
        renamed = msgspec.structs.replace(NOTE, name="remark")
        replica = await replica_of(LOG, [segments_of([[commit(1, ID, NOTE)], [commit(2, renamed, ID)]])])
        rows = {row.column_id: row for row in await replica.rows(TABLE_COLUMNS, TABLE)}
        assert rows[column_id(TABLE, 2)].name == "remark"
        assert rows[column_id(TABLE, 2)].ordinal_position == 1
        assert len(rows) == 2
        assert column_id(TABLE, 2) != column_id("another", 2)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("source", "confidence", "quality"),
    [
        (CommitSource.SERVO, "verified", "checked"),
        (CommitSource.EXTERNAL, "declared_unverified", "not_checked"),
        (CommitSource.ADMIN, "none", "not_checked"),
    ],
)
def test_who_wrote_says_what_is_known_of_it(source: CommitSource, confidence: str, quality: str) -> None:
    async def main() -> None:
        replica = await replica_of(LOG, [segments_of([[commit(1, ID, source=source, client="spark/4", run_id="r")]])])
        row: TableCommit = await replica.get(TABLE_COMMITS, TABLE, commit_key(TABLE, 1))
        assert (row.lineage_confidence, row.quality_status) == (confidence, quality)
        assert (row.client, row.run_id, row.transaction_id, row.is_schema_change) == ("spark/4", "r", None, True)

    asyncio.run(main())


def test_a_commit_older_than_what_is_kept_still_tells_how_the_table_stands() -> None:
    retention = event(
        "RetentionAdvanced", {"table": TABLE_COMMITS.name, "before": START + 100}, command="AdvanceRetention"
    )

    async def main() -> None:
        replica = await replica_of(LOG, [segments_of([[retention], [commit(1, ID)], [commit(2)], [commit(2)]])])
        row: TableState = await replica.get(TABLE_STATES, TABLE, TABLE)
        assert (row.number, row.recorded_through) == (2, 2)
        assert await rows_of(replica, TABLE_COMMITS) == []

    asyncio.run(main())


RECORDED = (
    b'{"table_id":"01KDVEYM00000000000000000T","number":1,"kind":"table","state":"live","source":"external",'
    b'"actor":"ann","committed_at":1767225600000000,"metadata_location":"s3://b/1.json","table_uuid":"u",'
    b'"format_version":2,"schema_id":0,"snapshot_id":1152921504606846976,"operation":"append","added_rows":7,'
    b'"columns":[{"field_id":1,"name":"id","type":"long","nullable":false},{"field_id":2,"name":"x","type":"list<int>"}],'
    b'"client":"duckdb/1.4","operation_id":"01KDVEYM000000000000000001"}'
)


def test_an_event_that_was_written_once_is_read_for_ever() -> None:
    payload = LOG.registry.decode("IcebergCommitted", 1, RECORDED)
    assert msgspec.json.encode(payload) == RECORDED

    async def main() -> None:
        replica = await replica_of(LOG, [segments_of([[event("IcebergCommitted", payload)]])])
        row: TableCommit = await replica.get(TABLE_COMMITS, TABLE, commit_key(TABLE, 1))
        assert (row.snapshot_id, row.added_rows, row.client) == (1 << 60, 7, "duckdb/1.4")
        columns = {row.name: row for row in await replica.rows(TABLE_COLUMNS, TABLE)}
        assert columns["id"].column_id == "0000000000PX3N45F6BVA930KY"
        assert (columns["id"].is_nullable, columns["x"].is_nullable) == (False, True)

    asyncio.run(main())


def test_a_workspace_of_a_program_that_knew_no_iceberg_tables_is_folded_anew() -> None:
    """An older program skipped the events; its revision says so, and this one folds everything again."""
    older = define_log("activity", [EXECUTION])

    async def main() -> None:
        runtime = FakeRuntime()
        store = MemoryStore(runtime)
        journal = Journal(store, runtime)
        before = await open_node(runtime, store, older)
        await journal.append(commit(1, ID))
        await before.publish()
        assert before.compactor.head.manifest.number == 1
        node = await open_node(runtime, store, define_log("activity", [EXECUTION, ICEBERG_TABLES]))
        await node.publish()
        row: TableState = await node.replica.get(TABLE_STATES, TABLE, TABLE)
        assert (row.number, row.recorded_through) == (1, 1)

    run(main())

"""The fold of the catalog takes events in any order and however often: what does not fit is rejected and changes
nothing."""

import asyncio
from typing import Any

import msgspec
import pytest

from arco.core import fingerprint
from arco.domains.catalog import COLUMNS, FORMER_NAMES, NAMES, ROOT, SCHEMA_VERSIONS, TABLES, Declared
from arco.domains.catalog.events import (
    AddedColumn,
    AlteredColumn,
    ColumnDescribed,
    ContractDropped,
    ContractSet,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceRenamed,
    NamespaceUpdated,
    SchemaChanged,
    SlaDropped,
    SlaSet,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableUpdated,
)
from arco.state import REJECTIONS, Replica
from tests.domains.deciding import LOG, PLACE
from tests.state.doubles import digests, event, replica_of, rows_of, segments_of

NAMESPACE = NamespaceCreated("n", ROOT, "sales")
TABLE = TableCreated("t", "n", "orders", "CSV", columns=(AddedColumn("c", "id", "int"), AddedColumn("d", "x", "int")))
DESCRIBED = ColumnDescribed("t", "c", None, "people", None, None)
CONTRACT = ContractSet("t", "full", "active", None, {})
SLA = SlaSet("t", 1, None, None)


async def folded(*payloads: Any) -> Replica:
    events = [event(type(payload).__name__, payload) for payload in payloads]
    return await replica_of(LOG, [segments_of([events], PLACE)], PLACE)


async def reasons(replica: Replica) -> list[str]:
    return [row["reason"] for row in sorted(await rows_of(replica, REJECTIONS), key=lambda row: row["position"])]


async def catalog_of(replica: Replica) -> dict[str, list[dict[str, Any]]]:
    domain = next(domain for domain in LOG.domains if domain.name == "catalog")
    return {table.name: await rows_of(replica, table) for table in domain.tables}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (NAMESPACE, "the namespace n exists already"),
        (NamespaceUpdated("m", None, {}), "the namespace m does not exist"),
        (NamespaceRenamed("m", ROOT, "x"), "the namespace m does not exist"),
        (NamespaceDropped("m"), "the namespace m does not exist"),
        (TABLE, "the table t exists already"),
        (TableUpdated("u", None, {}, Declared(), Declared()), "the table u does not exist"),
        (TableRenamed("u", "n", "x"), "the table u does not exist"),
        (TableDropped("u"), "the table u does not exist"),
        (SchemaChanged("u"), "the table u does not exist"),
        (ColumnDescribed("u", "c", None, None, None, None), "the table u does not exist"),
        (ContractSet("u", "full", "active", None, {}), "the table u does not exist"),
        (ContractDropped("u"), "the table u does not exist"),
        (SlaSet("u", 1, None, None), "the table u does not exist"),
        (SlaDropped("u"), "the table u does not exist"),
        (ContractDropped("t"), "the table t has no contract"),
        (SlaDropped("t"), "the table t has no SLA"),
        (ColumnDescribed("t", "e", None, None, None, None), "the column e is not there"),
        (SchemaChanged("t", added=(AddedColumn("new", "y", "int"), AddedColumn("c", "z", "int"))), "is there already"),
        (SchemaChanged("t", added=(AddedColumn("e", "y", "int"),) * 2), "the column e is there already"),
        (SchemaChanged("t", altered=(AlteredColumn("e", "y", "int", True),)), "the column e is not there"),
        (SchemaChanged("t", dropped=("e",)), "the column e is not there"),
        (
            TableCreated("u", "n", "x", "CSV", columns=(AddedColumn("c", "y", "int"),) * 2),
            "a column of the table u is there twice",
        ),
    ],
)
def test_what_does_not_fit_is_rejected_and_changes_nothing(payload: msgspec.Struct, reason: str) -> None:
    async def main() -> None:
        before = await folded(NAMESPACE, TABLE)
        after = await folded(NAMESPACE, TABLE, payload)
        (found,) = await reasons(after)
        assert reason in found
        assert await catalog_of(after) == await catalog_of(before)

    asyncio.run(main())


def test_the_same_history_told_twice_is_rejected_the_second_time_where_it_cannot_repeat() -> None:
    history = [
        NAMESPACE,
        TABLE,
        SchemaChanged("t", added=(AddedColumn("e", "y", "int"),), dropped=("d",)),
        DESCRIBED,
        CONTRACT,
        SLA,
        TableRenamed("t", "n", "calls"),
        TableDropped("t"),
    ]

    async def main() -> None:
        once, twice = await folded(*history), await folded(*history, *history)
        assert await reasons(once) == []
        assert len(await reasons(twice)) == len(history)
        again = (await reasons(twice))[1]
        assert again == "schema_versions has a row with the key t:000001 already", "what was dropped does not come back"
        assert await catalog_of(twice) == await catalog_of(once)

    asyncio.run(main())


def test_of_two_objects_of_one_name_the_later_one_has_it() -> None:
    """No decider grants this; whoever reads such a log gets one answer all the same."""

    async def main() -> None:
        other = msgspec.structs.replace(TABLE, table_id="u", columns=())
        replica = await folded(NAMESPACE, TABLE, other)
        key = ("n", "table", "orders")
        assert (await replica.get(NAMES, "n", key)).object_id == "u"
        replica = await folded(NAMESPACE, TABLE, other, TableRenamed("t", "n", "calls"))
        assert (await replica.get(NAMES, "n", key)).object_id == "u", "who did not have the name does not take it along"
        assert await rows_of(replica, FORMER_NAMES) == []
        replica = await folded(NAMESPACE, TABLE, other, TableDropped("u"))
        assert await replica.get(NAMES, "n", key) is None
        assert (await replica.get(FORMER_NAMES, "n", key)).object_id == "u"

    asyncio.run(main())


def test_a_column_may_be_described_after_its_drop() -> None:
    async def main() -> None:
        replica = await folded(NAMESPACE, TABLE, SchemaChanged("t", dropped=("c",)), DESCRIBED)
        assert await reasons(replica) == []
        column = await replica.get(COLUMNS, "t", ("t", "c"))
        assert (column.status, column.description) == ("inactive", "people")

    asyncio.run(main())


def test_versions_and_times_follow_from_the_events() -> None:
    async def main() -> None:
        update = TableUpdated("t", None, {}, Declared("code"), Declared())
        alter = SchemaChanged("t", altered=(AlteredColumn("c", "key", "long", True),))
        replica = await folded(NAMESPACE, TABLE, update, alter, DESCRIBED, TableRenamed("t", ROOT, "x"), CONTRACT, SLA)
        assert await reasons(replica) == []
        row = await replica.get(TABLES, "t", "t")
        assert (row.version, row.schema_version, row.description) == (5, 2, "code")
        schemas = await replica.rows(SCHEMA_VERSIONS, "t")
        assert [(schema.version, schema.schema_version_id) for schema in schemas] == [(1, "t:000001"), (2, "t:000002")]
        assert row.schema_hash == fingerprint([["key", "long", True], ["x", "int", True]])

    asyncio.run(main())


def test_batches_of_one_event_and_of_all_give_the_same_state() -> None:
    payloads = [
        NAMESPACE,
        NamespaceCreated("m", "n", "eu"),
        TABLE,
        TableRenamed("t", "m", "orders"),
        msgspec.structs.replace(TABLE, table_id="u", columns=()),
        NamespaceRenamed("m", ROOT, "europe"),
        TableRenamed("t", "n", "calls"),
        NamespaceRenamed("n", "m", "sales"),
        TableDropped("u"),
        SchemaChanged("t", added=(AddedColumn("e", "y", "int"),), dropped=("d",)),
    ]

    async def main() -> None:
        events = [[event(type(payload).__name__, payload)] for payload in payloads]
        segments = segments_of(events, PLACE)
        whole = await digests(LOG, await replica_of(LOG, [segments], PLACE))
        assert await digests(LOG, await replica_of(LOG, [[found] for found in segments], PLACE)) == whole

    asyncio.run(main())

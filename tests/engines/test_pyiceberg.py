"""PyIceberg, which knows nothing of Arco: create, append, overwrite, evolve, upsert, scan, branches, transactions."""

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from tests.engines.conftest import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "city", StringType()),
    NestedField(3, "amount", DoubleType()),
    identifier_field_ids=[1],
)
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), ("city", pa.string()), ("amount", pa.float64())])


def rows(*found: tuple[int, str, float]) -> pa.Table:
    return pa.Table.from_pylist([{"id": a, "city": b, "amount": c} for a, b, c in found], schema=ARROW)


def read(catalog: Catalog, name: str) -> list[tuple]:
    table = catalog.load_table(name).scan().to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def catalog(lake: Lake, namespace: str) -> Catalog:
    found = load_catalog("arco", type="rest", **lake.properties)
    found.create_namespace(namespace, {"owner": "tests"})
    return found


def test_namespaces_are_made_listed_changed_and_dropped(catalog: Catalog, namespace: str) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    assert (namespace,) in catalog.list_namespaces()
    assert catalog.load_namespace_properties(namespace)["owner"] == "tests"
    changed = catalog.update_namespace_properties(namespace, {"absent"}, {"purpose": "engines"})
    assert (changed.updated, changed.missing) == (["purpose"], ["absent"])
    catalog.create_table(f"{namespace}.t", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    catalog.drop_table(f"{namespace}.t")
    catalog.drop_namespace(namespace)
    assert (namespace,) not in catalog.list_namespaces()


def test_rows_that_were_appended_are_read(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.sales", SCHEMA, properties={"purpose": "tests"})
    assert catalog.table_exists(f"{namespace}.sales")
    table.append(rows((1, "Bern", 1.0), (2, "Oslo", 2.0)))
    table.append(rows((3, "Bern", 3.0)), snapshot_properties={"note": "second"})
    assert read(catalog, f"{namespace}.sales") == [(1, "Bern", 1.0), (2, "Oslo", 2.0), (3, "Bern", 3.0)]
    loaded = catalog.load_table(f"{namespace}.sales")
    assert loaded.properties["purpose"] == "tests"
    scan = loaded.scan(row_filter="city = 'Bern'", selected_fields=("id",))
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [1, 3]
    first, second = loaded.snapshots()
    assert second.parent_snapshot_id == first.snapshot_id
    assert second.summary is not None
    assert second.summary["note"] == "second"
    assert len(loaded.scan(snapshot_id=first.snapshot_id).to_arrow()) == 2


def test_rows_are_overwritten_and_deleted(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(rows((1, "Bern", 1.0), (2, "Oslo", 2.0), (3, "Bern", 3.0)))
    table.overwrite(rows((4, "Bern", 4.0)), overwrite_filter="city = 'Bern'")
    assert read(catalog, f"{namespace}.t") == [(2, "Oslo", 2.0), (4, "Bern", 4.0)]
    table.delete("id >= 4")
    assert read(catalog, f"{namespace}.t") == [(2, "Oslo", 2.0)]
    table.overwrite(rows((9, "Rome", 9.0)))
    assert read(catalog, f"{namespace}.t") == [(9, "Rome", 9.0)]


def test_rows_are_upserted(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(rows((1, "Bern", 1.0), (2, "Oslo", 2.0)))
    done = table.upsert(rows((2, "Oslo", 20.0), (3, "Rome", 3.0)))
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert read(catalog, f"{namespace}.t") == [(1, "Bern", 1.0), (2, "Oslo", 20.0), (3, "Rome", 3.0)]


def test_schema_and_partitions_evolve(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(rows((1, "Bern", 1.0)))
    with table.update_schema() as update:
        update.add_column("at", TimestamptzType())
        update.rename_column("amount", "price")
        update.make_column_optional("id")
        update.set_identifier_fields()
    with table.update_spec() as spec:
        spec.add_field("at", DayTransform(), "day")
        spec.add_field("id", BucketTransform(4), "part")
    with table.update_sort_order() as order:
        order.asc("id", IdentityTransform())
    at = pa.scalar(1_700_000_000_000_000, pa.timestamp("us", tz="UTC"))
    more = pa.table({"id": [2], "city": ["Oslo"], "price": [2.0], "at": [at]})
    table.append(more)
    loaded = catalog.load_table(f"{namespace}.t")
    assert [field.name for field in loaded.schema().fields] == ["id", "city", "price", "at"]
    assert [field.name for field in loaded.spec().fields] == ["day", "part"]
    assert loaded.sort_order().fields[0].source_id == 1
    assert [row[:3] for row in read(catalog, f"{namespace}.t")] == [(1, "Bern", 1.0), (2, "Oslo", 2.0)]
    assert len(loaded.schemas()) == 2
    assert len(loaded.specs()) == 2


def test_partitions_are_replaced(catalog: Catalog, namespace: str) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = catalog.create_table(f"{namespace}.t", SCHEMA, partition_spec=spec, sort_order=SortOrder(SortField(1)))
    table.append(rows((1, "Bern", 1.0), (2, "Oslo", 2.0)))
    table.dynamic_partition_overwrite(rows((5, "Bern", 5.0)))
    assert read(catalog, f"{namespace}.t") == [(2, "Oslo", 2.0), (5, "Bern", 5.0)]
    assert {row["partition"]["city"] for row in table.inspect.partitions().to_pylist()} == {"Bern", "Oslo"}


def test_a_transaction_of_one_table_is_one_commit(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    before = table.metadata_location
    with table.transaction() as transaction:
        transaction.set_properties({"a": "1", "b": "2"})
        with transaction.update_schema() as update:
            update.add_column("extra", StringType())
        transaction.append(rows((1, "Bern", 1.0)))
    loaded = catalog.load_table(f"{namespace}.t")
    assert loaded.properties["a"] == "1"
    assert [entry.metadata_file for entry in loaded.metadata.metadata_log] == [before]
    with loaded.transaction() as transaction:
        transaction.remove_properties("a")
    assert "a" not in catalog.load_table(f"{namespace}.t").properties


def test_a_table_is_made_together_with_its_first_rows(catalog: Catalog, namespace: str) -> None:
    with catalog.create_table_transaction(f"{namespace}.t", SCHEMA) as transaction:
        assert not catalog.table_exists(f"{namespace}.t")
        transaction.append(rows((1, "Bern", 1.0)))
    assert read(catalog, f"{namespace}.t") == [(1, "Bern", 1.0)]


def test_branches_and_tags(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    table.append(rows((1, "Bern", 1.0)))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").create_tag(first.snapshot_id, "v1").commit()
    table.append(rows((2, "Oslo", 2.0)), branch="audit")
    assert read(catalog, f"{namespace}.t") == [(1, "Bern", 1.0)]
    loaded = catalog.load_table(f"{namespace}.t")
    assert len(loaded.scan().use_ref("audit").to_arrow()) == 2
    assert len(loaded.scan().use_ref("v1").to_arrow()) == 1
    loaded.manage_snapshots().remove_tag("v1").commit()
    assert set(catalog.load_table(f"{namespace}.t").refs()) == {"main", "audit"}


def test_a_stale_writer_is_refused_or_tries_again(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    stale = catalog.load_table(f"{namespace}.t")
    with table.update_schema() as update:
        update.add_column("theirs", StringType())
    with pytest.raises(CommitFailedException, match="Requirement failed"), stale.update_schema() as update:
        update.add_column("ours", StringType())
    assert [field.name for field in catalog.load_table(f"{namespace}.t").schema().fields][-1] == "theirs"


def test_tables_are_renamed_registered_and_dropped(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.a", SCHEMA)
    table.append(rows((1, "Bern", 1.0)))
    catalog.rename_table(f"{namespace}.a", f"{namespace}.b")
    assert catalog.list_tables(namespace) == [(namespace, "b")]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{namespace}.b", SCHEMA)
    location = catalog.load_table(f"{namespace}.b").metadata_location
    catalog.drop_table(f"{namespace}.b")
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{namespace}.b")
    catalog.register_table(f"{namespace}.c", location)
    assert read(catalog, f"{namespace}.c") == [(1, "Bern", 1.0)]
    catalog.purge_table(f"{namespace}.c")
    assert catalog.list_tables(namespace) == []


def test_snapshots_are_expired(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", SCHEMA)
    for number in range(3):
        table.append(rows((number, "Bern", 1.0)))
    first = table.snapshots()[0]
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    loaded = catalog.load_table(f"{namespace}.t")
    assert first.snapshot_id not in [snapshot.snapshot_id for snapshot in loaded.snapshots()]
    assert first.snapshot_id not in [entry.snapshot_id for entry in loaded.history()]
    assert len(read(catalog, f"{namespace}.t")) == 3

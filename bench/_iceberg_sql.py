"""PyIceberg's SQL catalog as a client of the bench: a library on a database, where the others are servers."""

import time

import pyiceberg.io.pyarrow  # noqa: F401  loaded only when a table is first read
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.types import LongType, NestedField, StringType

from bench._iceberg_client import Head

__all__ = ["Sql", "open_sql"]

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "text", StringType()))


def open_sql(database: str, warehouse: str) -> SqlCatalog:
    return SqlCatalog("bench", uri=database, warehouse=warehouse)


class Sql:
    def __init__(self, database: str, warehouse: str) -> None:
        self._catalog = open_sql(database, warehouse)
        self._tables: dict[str, Table] = {}
        self._catalog.list_namespaces()

    def load(self, namespace: str, table: str) -> int:
        self._catalog.load_table((namespace, table))
        return 0

    def exists(self, namespace: str, table: str) -> int:
        self._catalog.table_exists((namespace, table))
        return 0

    def list(self, namespace: str) -> int:
        self._catalog.list_tables(namespace)
        return 0

    def create(self, namespace: str, table: str) -> int:
        self._catalog.create_table((namespace, table), SCHEMA)
        return 0

    def head(self, namespace: str, table: str) -> Head:
        self._tables[table] = self._catalog.load_table((namespace, table))
        return _head(self._tables[table].metadata)

    def commit(self, namespace: str, table: str, head: Head, snapshot: int) -> tuple[Head, int] | None:
        before = head.current_snapshot_id
        # By the names of the JSON: so they are checked, and typed.
        added = Snapshot.model_validate(
            {
                "snapshot-id": snapshot,
                "parent-snapshot-id": before,
                "sequence-number": head.last_sequence_number + 1,
                "timestamp-ms": int(time.time() * 1000),
                "manifest-list": f"{head.location}/metadata/snap-{snapshot}.avro",
                "summary": {"operation": "append", "added-data-files": "1", "added-records": "1"},
                "schema-id": 0,
            }
        )
        ref = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": snapshot})
        wanted = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": before})
        try:
            done = self._catalog.commit_table(self._tables[table], (wanted,), (AddSnapshotUpdate(snapshot=added), ref))
        except CommitFailedException:
            return None
        return _head(done.metadata), 0


def _head(metadata: TableMetadata) -> Head:
    sequence = 0 if metadata.format_version == 1 else metadata.last_sequence_number
    return Head(metadata.location, sequence, metadata.current_snapshot_id)

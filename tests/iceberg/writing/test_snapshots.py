"""Snapshots on any history of files: what is live, what is deleted, how manifests merge; PyIceberg reads them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.iceberg import Base, DataFile, decode_list, decode_manifest, plan_snapshot
from arco.iceberg._writing import _snapshots

FIELDS = [{"id": 1, "name": "a", "required": False, "type": "long"}]
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 30), max_size=6)), min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_snapshots, "MAX_MANIFESTS", 3)
    monkeypatch.setattr(_snapshots, "FULL", 4)


def file(number: int) -> DataFile:
    bound = {1: number.to_bytes(8, "little")}
    return DataFile(f"file:///{number}", number, 100, {1: 8}, {1: number}, {1: 0}, bound, bound, (4,))


@given(CHANGES)
def test_a_snapshot_has_what_was_there_without_what_left_and_with_what_came(
    changes: list[tuple[int, list[int]]],
) -> None:
    stored: dict[str, bytes] = {}
    names, base, live = itertools.count(), Base(None), dict[str, DataFile]()
    for number, (coming, leaving) in enumerate(changes, 1):
        added = [file(next(names)) for _ in range(coming)]
        removed = {f"file:///{one}" for one in leaving} & set(live)
        plan = plan_snapshot(
            base,
            added,
            removed,
            operation="overwrite",
            snapshot_id=number,
            sequence_number=number,
            now_ms=number,
            fields=FIELDS,
            schema_id=0,
            new_location=lambda kind: f"{kind}-{next(names)}",
            summary={"arco.run-id": "r"},
        )
        stored |= plan.files
        for path in removed:
            del live[path]
        live |= {one.location: one for one in added}
        location = plan.snapshot["manifest-list"]
        rows = decode_list(stored[location], location)
        base = Base(number, tuple((row, tuple(decode_manifest(stored[row.location], row.location))) for row in rows))
        assert {entry.file.location: entry.file for entry in base.live} == live
        deleted = [entry for _, entries in base.manifests for entry in entries if not entry.is_live]
        assert {entry.file.location for entry in deleted if entry.snapshot_id == number} == removed
        summary = plan.snapshot["summary"]
        assert summary["total-data-files"] == str(len(live))
        assert summary["total-records"] == str(sum(one.record_count for one in live.values()))
        assert summary["arco.run-id"] == "r"
        assert sum(row.live_files for row in rows) == len(live)
        assert sum(row.live_rows for row in rows) == sum(one.record_count for one in live.values())
        for row, entries in base.manifests:
            assert row.length == len(stored[row.location])
            assert all(entry.sequence_number >= row.min_sequence_number for entry in entries if entry.is_live)

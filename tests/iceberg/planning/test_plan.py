"""Plans of small tables: deletes, incremental scans, statistics, limits, and what clients read of the answer."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.rest.scan_planning import PlanCompleted
from pyiceberg.expressions import AlwaysTrue, GreaterThanOrEqual
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from arco.core import Invalid, TooLarge
from arco.iceberg import (
    BadRequest,
    NoSuchPlan,
    NoSuchPlanTask,
    PlanLimits,
    Unsupported,
    ValidationFailed,
    cancel_plan,
    fetch_plan,
    fetch_tasks,
    plan_scan,
)
from tests.doubles import FakeRuntime, run
from tests.iceberg.planning.manifests import MemoryFiles, Missing, entry, list_row, manifest, manifest_list, table
from tests.iceberg.planning.tables import Disk, write_table

BY_A = [{"field-id": 1000, "source-id": 1, "name": "a", "transform": "identity"}]
PATH_COLUMN = 2147483546


def plan(
    stored: dict[str, bytes], body: Any = None, metadata: dict[str, Any] | None = None, **limits: Any
) -> dict[str, Any]:
    async def planning() -> dict[str, Any]:
        wanted = {} if body is None else body
        return await plan_scan(
            metadata or table(), wanted, MemoryFiles(stored), FakeRuntime(), limits=PlanLimits(**limits)
        )

    return run(planning())


def paths(answer: dict[str, Any]) -> list[str]:
    return [task["data-file"]["file-path"] for task in answer["file-scan-tasks"]]


def deletes(answer: dict[str, Any]) -> dict[str, list[str]]:
    """By data file, the delete files that apply to it."""
    names = [file["file-path"] for file in answer.get("delete-files", [])]
    return {
        task["data-file"]["file-path"]: [names[at] for at in task.get("delete-file-references", [])]
        for task in answer["file-scan-tasks"]
    }


ONE = {"list": manifest_list([list_row("m")]), "m": manifest([entry("a"), entry("gone", status=2)])}


def test_an_answer_is_complete_and_reads_back() -> None:
    answer = plan(ONE)
    assert answer["status"] == "completed"
    assert answer["file-scan-tasks"] == [
        {
            "data-file": {
                "spec-id": 0,
                "content": "data",
                "file-path": "a",
                "file-format": "parquet",
                "partition": [],
                "file-size-in-bytes": 100,
                "record-count": 10,
            },
            "residual-filter": True,
        }
    ]
    assert "plan-tasks" not in answer
    cancel_plan(answer["plan-id"])
    with pytest.raises(NoSuchPlan, match="came with the answer"):
        fetch_plan(answer["plan-id"])


def test_pyiceberg_reads_an_answer_with_everything() -> None:
    files = {
        "list": manifest_list([list_row("m"), list_row("d", content=1, number=2)]),
        "m": manifest([entry("a", split_offsets=[4], sort_order_id=0, lower_bounds={1: bytes(8)})]),
        "d": manifest([entry("p", content=1, referenced_data_file="a"), entry("e", content=2, equality_ids=[1])]),
    }
    answer = plan(files, {"stats-fields": ["a"], "filter": {"type": "gt-eq", "term": "a", "value": 0}})
    read = PlanCompleted.model_validate_json(json.dumps(answer))
    assert [file.content for file in read.delete_files] == ["equality-deletes", "position-deletes"]
    assert read.file_scan_tasks[0].delete_file_references == [0, 1]
    expected: Any = GreaterThanOrEqual
    assert read.file_scan_tasks[0].residual_filter == expected("a", 0)
    assert PlanCompleted.model_validate(plan(ONE)).file_scan_tasks[0].residual_filter == AlwaysTrue()


def test_a_table_without_snapshots() -> None:
    metadata = table() | {"current-snapshot-id": -1, "snapshots": []}
    assert plan({}, metadata=metadata)["file-scan-tasks"] == []


@pytest.mark.parametrize("plan_id", ["", "x", "arco-", "arco-01JD000000000000000000000!"])
def test_ids_that_are_not_ours(plan_id: str) -> None:
    with pytest.raises(NoSuchPlan):
        cancel_plan(plan_id)
    with pytest.raises(NoSuchPlan):
        fetch_plan(plan_id)


def test_there_are_no_tasks_to_fetch() -> None:
    with pytest.raises(NoSuchPlanTask):
        fetch_tasks({"plan-task": "x"})
    with pytest.raises(BadRequest):
        fetch_tasks({})


class TestDeletes:
    def planned(self, data: list[Any], removed: list[Any], *specs: Any, partition: Any = None) -> dict[str, list[str]]:
        files = {
            "list": manifest_list([list_row("m", number=2), list_row("d", content=1, number=2)]),
            "m": manifest(data, partition),
            "d": manifest(removed, partition),
        }
        return deletes(plan(files, metadata=table(*specs)))

    def test_positional_deletes_reach_files_of_their_time_and_before(self) -> None:
        data = [entry("older", number=1), entry("same"), entry("newer", number=3)]
        found = self.planned(data, [entry("d", content=1)])
        assert found == {"older": ["d"], "same": ["d"], "newer": []}

    def test_equality_deletes_reach_older_files_only(self) -> None:
        data = [entry("older", number=1), entry("same"), entry("newer", number=3)]
        found = self.planned(data, [entry("d", content=2, equality_ids=[1])])
        assert found == {"older": ["d"], "same": [], "newer": []}

    @pytest.mark.parametrize(
        "reference",
        [
            {"referenced_data_file": "one"},
            {"lower_bounds": {PATH_COLUMN: b"one"}, "upper_bounds": {PATH_COLUMN: b"one"}},
        ],
    )
    def test_positional_deletes_of_one_file(self, reference: Any) -> None:
        found = self.planned([entry("one"), entry("two")], [entry("d", content=1, **reference)])
        assert found == {"one": ["d"], "two": []}

    def test_bounds_of_several_files_are_no_reference(self) -> None:
        bounds: Any = {"lower_bounds": {PATH_COLUMN: b"one"}, "upper_bounds": {PATH_COLUMN: b"two"}}
        found = self.planned([entry("one"), entry("two")], [entry("d", content=1, **bounds)])
        assert found == {"one": ["d"], "two": ["d"]}

    def test_a_deletion_vector_replaces_positional_deletes(self) -> None:
        vector = entry(
            "v", content=1, file_format="PUFFIN", referenced_data_file="one", content_offset=4, content_size_in_bytes=40
        )
        removed = [entry("d", content=1), vector, entry("e", content=2, number=9, equality_ids=[1])]
        found = self.planned([entry("one"), entry("two")], removed)
        assert found == {"one": ["e", "v"], "two": ["e", "d"]}

    def test_deletes_stay_in_their_partition(self) -> None:
        data = [entry("one", partition={1000: 1}), entry("two", partition={1000: 2}), entry("none")]
        removed = [
            entry("p1", content=1, partition={1000: 1}),
            entry("e2", content=2, number=9, partition={1000: 2}, equality_ids=[1]),
        ]
        found = self.planned(data, removed, BY_A, partition={1000: "long"})
        assert found == {"one": ["p1"], "two": ["e2"], "none": []}

    def test_equality_deletes_of_an_unpartitioned_spec_reach_all_partitions_despite_the_filter(self) -> None:
        files = {
            "list": manifest_list([list_row("m", spec=1), list_row("d", content=1, number=9)]),
            "m": manifest([entry("one", partition={1000: 1})], {1000: "long"}),
            "d": manifest([entry("e", content=2, equality_ids=[2])]),
        }
        body = {"filter": {"type": "eq", "term": "a", "value": 1}}
        assert deletes(plan(files, body, table([], BY_A))) == {"one": ["e"]}

    def test_delete_manifests_of_other_partitions_are_not_read(self) -> None:
        def bounds(value: int) -> Any:
            data = value.to_bytes(8, "little")
            return [{"contains_null": False, "lower_bound": data, "upper_bound": data}]

        files = {
            "list": manifest_list(
                [list_row("m", partitions=bounds(1)), list_row("d", content=1, partitions=bounds(2))]
            ),
            "m": manifest([entry("one", partition={1000: 1})], {1000: "long"}),
        }
        assert deletes(plan(files, {"filter": {"type": "eq", "term": "a", "value": 1}}, table(BY_A))) == {"one": []}


class TestIncremental:
    METADATA = table() | {
        "current-snapshot-id": 4,
        "snapshots": [
            {"snapshot-id": 1, "manifest-list": "none", "summary": {"operation": "append"}},
            {"snapshot-id": 2, "parent-snapshot-id": 1, "manifest-list": "l2", "summary": {"operation": "append"}},
            {"snapshot-id": 3, "parent-snapshot-id": 2, "manifest-list": "l3", "summary": {"operation": "replace"}},
            {"snapshot-id": 4, "parent-snapshot-id": 3, "manifest-list": "l4", "summary": {"operation": "append"}},
            {"snapshot-id": 9, "parent-snapshot-id": 8, "manifest-list": "none", "summary": {"operation": "append"}},
        ],
    }
    OLD = list_row("m1", added_snapshot_id=1)
    TWO = list_row("m2", added_snapshot_id=2)
    FOUR = list_row("m4", added_snapshot_id=4)
    FILES = {  # noqa: RUF012
        "l2": manifest_list([OLD, TWO]),
        "l4": manifest_list([TWO, FOUR, list_row("d", content=1, added_snapshot_id=4)]),
        "m2": manifest([entry("two")]),
        "m4": manifest([entry("four"), entry("kept", status=0, number=1)]),
    }

    def test_what_was_appended_after_one_snapshot_up_to_another(self) -> None:
        body = {"start-snapshot-id": 1, "end-snapshot-id": 4}
        assert sorted(paths(plan(self.FILES, body, self.METADATA))) == ["four", "two"]
        assert paths(plan(self.FILES, {**body, "start-snapshot-id": 2}, self.METADATA)) == ["four"]
        assert paths(plan(self.FILES, {**body, "end-snapshot-id": 1}, self.METADATA)) == []

    @pytest.mark.parametrize(
        "body",
        [
            {"start-snapshot-id": 4, "end-snapshot-id": 1},
            {"start-snapshot-id": 1, "end-snapshot-id": 9},
            {"start-snapshot-id": 1, "end-snapshot-id": 5},
            {"start-snapshot-id": 1},
            {"end-snapshot-id": 4},
            {"start-snapshot-id": 1, "end-snapshot-id": 4, "snapshot-id": 4},
        ],
    )
    def test_what_is_no_range(self, body: Any) -> None:
        with pytest.raises(BadRequest):
            plan(self.FILES, body, self.METADATA)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"snapshot-id": 99},
        {"snapshot-id": "7"},
        {"snapshot-id": True},
        {"select": ["nope"]},
        {"select": "a"},
        {"stats-fields": ["nope"]},
        {"case-sensitive": 1},
        {"min-rows-requested": -1},
        {"filter": None},
        {"surprise": 1},
        {"select": ["A"]},
    ],
)
def test_requests_that_do_not_fit(body: Any) -> None:
    with pytest.raises(BadRequest):
        plan(ONE, body)


@pytest.mark.parametrize(
    "body",
    [
        {"snapshot-id": 7, "select": ["a", "_file"], "use-snapshot-schema": True},
        {"select": ["A"], "case-sensitive": False},
        {"min-rows-requested": None, "select": None},
    ],
)
def test_requests_that_fit(body: Any) -> None:
    assert paths(plan(ONE, body)) == ["a"]


def test_the_snapshots_schema_decides_if_it_shall() -> None:
    metadata = table()
    older = {"type": "struct", "schema-id": 5, "fields": [{"id": 1, "name": "was", "type": "long", "required": False}]}
    metadata["schemas"].append(older)
    metadata["snapshots"][0]["schema-id"] = 5
    body = {"filter": {"type": "is-null", "term": "was"}}
    assert paths(plan(ONE, {**body, "use-snapshot-schema": True}, metadata)) == ["a"]
    with pytest.raises(BadRequest, match="Cannot find field"):
        plan(ONE, body, metadata)


def test_statistics_are_sent_for_the_fields_that_ask_for_them() -> None:
    stats: dict[str, Any] = {"value_counts": {1: 10, 2: 10}, "null_value_counts": {1: 0, 2: 3}}
    bounds: dict[str, Any] = {"lower_bounds": {1: b"\x01" + bytes(7), 2: b"x"}, "upper_bounds": {1: b"\x0a" + bytes(7)}}
    files = {**ONE, "m": manifest([entry("a", **stats, **bounds)])}
    assert "value-counts" not in plan(files)["file-scan-tasks"][0]["data-file"]
    file = plan(files, {"stats-fields": ["a"]})["file-scan-tasks"][0]["data-file"]
    assert file["value-counts"] == {"keys": [1], "values": [10]}
    assert file["null-value-counts"] == {"keys": [1], "values": [0]}
    assert file["lower-bounds"] == {"keys": [1], "values": ["0100000000000000"]}
    assert file["upper-bounds"] == {"keys": [1], "values": ["0A00000000000000"]}


def test_enough_rows_are_enough() -> None:
    rows = [list_row(f"m{number}") for number in range(40)]
    files = {"list": manifest_list(rows), **{f"m{number}": manifest([entry(f"f{number}")]) for number in range(40)}}
    assert len(paths(plan(files, {"min-rows-requested": 15}))) == 8, "one group of manifests, read together"
    where = {"type": "not-null", "term": "a"}
    assert len(paths(plan(files, {"min-rows-requested": 15, "filter": where}))) == 40, "how many match is not known"


def test_row_ids_are_inherited() -> None:
    rows = [entry("a"), entry("gone", status=2), entry("b", first_row_id=5), entry("c")]
    files = {"list": manifest_list([list_row("m", first_row_id=1000)]), "m": manifest(rows)}
    tasks = plan(files)["file-scan-tasks"]
    assert [task["data-file"]["first-row-id"] for task in tasks] == [1000, 5, 1010]


def test_manifests_without_files_are_not_read() -> None:
    assert plan({"list": manifest_list([list_row("m", added_files_count=0)])})["file-scan-tasks"] == []


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
@pytest.mark.parametrize("version", [1, 2])
def test_compressions_and_formats(codec: str, version: int, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "a", LongType()))
    metadata = write_table(tmp_path, schema, PartitionSpec(), [[[{"a": 1}], [{"a": 2}]]], version=version, codec=codec)

    async def planning() -> dict[str, Any]:
        body = {"filter": {"type": "gt", "term": "a", "value": 1}}
        return await plan_scan(metadata, body, Disk(), FakeRuntime())

    assert paths(run(planning())) == ["file-0-1"]


def test_an_unknown_compression() -> None:
    with pytest.raises(Unsupported, match="bzip2"):
        plan({**ONE, "m": manifest([entry("a")], codec="bzip2")})


class TestLimits:
    FILES = {  # noqa: RUF012
        "list": manifest_list([list_row("m"), list_row("n")]),
        "m": manifest([entry("a"), entry("b")]),
        "n": manifest([entry("c")]),
    }

    @pytest.mark.parametrize("limit", [{"manifests": 1}, {"bytes": 100}, {"files": 2}, {"files": 1}])
    def test_more_is_refused(self, limit: Any) -> None:
        with pytest.raises(TooLarge, match="plan in the client"):
            plan(self.FILES, **limit)

    def test_a_slow_store(self) -> None:
        class Slow(MemoryFiles):
            async def read(self, location: str) -> bytes:
                await runtime.sleep(100)
                return self[location]

        runtime = FakeRuntime()

        async def planning() -> None:
            await plan_scan(table(), {}, Slow(ONE), runtime, limits=PlanLimits(seconds=5))

        with pytest.raises(TooLarge, match="more than 5 s"):
            run(planning())


def test_a_spec_the_table_has_not() -> None:
    with pytest.raises(ValidationFailed, match="partition spec"):
        plan({**ONE, "list": manifest_list([list_row("m", spec=3)])})


@pytest.mark.parametrize(
    ("files", "metadata"),
    [
        ({**ONE, "list": manifest_list([list_row("m", key_metadata=b"k")])}, table()),
        (ONE, table() | {"snapshots": [{"snapshot-id": 7, "manifests": ["m"]}]}),
    ],
)
def test_what_cannot_be_planned_here(files: dict[str, bytes], metadata: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="plan this scan in the client"):
        plan(files, metadata=metadata)


@given(data=st.binary(max_size=200), at=st.integers(0, 2000), which=st.sampled_from(["m", "list"]))
def test_broken_files_are_refused_and_nothing_else_happens(data: bytes, at: int, which: str) -> None:
    whole = ONE[which]
    broken = whole[: at % len(whole)] + data + whole[at % len(whole) + len(data) :]
    with contextlib.suppress(Invalid, Unsupported, ValidationFailed, Missing):
        plan({**ONE, which: broken})

"""The data of tables, queried as people do, on a real workspace."""

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from arco.catalog import Limits
from arco.catalog._sql_assets import why_nothing
from arco.catalog._sql_data import sources_of
from arco.catalog._sql_types import arrow_type
from arco.core import ArcoError, Invalid, NotFound, Refused, TooLarge, new_ulid
from arco.domains.catalog import (
    AddColumn,
    AlterColumn,
    AlterTable,
    Column,
    CreateNamespace,
    DropColumn,
    FormerColumnName,
    Ref,
)
from arco.domains.execution import MATERIALIZATIONS, CompactFiles, DataFile, Partition
from arco.storage import Role
from tests.catalog.sql_world import World, in_world, parquet


def test_data_of_each_format_in_the_types_of_the_catalog() -> None:
    kinds = {
        "id": "long",
        "small": "int",
        "price": "decimal(9,2)",
        "day": "date",
        "at": "timestamptz",
        "ok": "boolean",
        "note": "string",
    }
    expected = [
        [1, 7, "1.50", "2026-01-02", "2026-01-02T03:04:05.000000Z", True, "a,b"],
        [2, None, None, None, None, None, None],
    ]
    lines = [
        {
            "id": 1,
            "small": 7,
            "price": "1.50",
            "day": "2026-01-02",
            "at": "2026-01-02T03:04:05Z",
            "ok": True,
            "note": "a,b",
        },
        {"id": 2, "extra": {"x": 1}},
    ]
    texts = {
        "CSV": b'note,id,small,price,day,at,ok\n"a,b",1,7,1.50,2026-01-02,2026-01-02T03:04:05Z,true\n,2,,,,,\n',
        "JSON": "\n".join(json.dumps(line) for line in lines).encode(),
        "PARQUET": parquet(
            note=["a,b", None],
            id=pa.array([1, 2], pa.int32()),
            small=pa.array([7, None], pa.int64()),
            price=["1.50", None],
            day=["2026-01-02", None],
            at=pa.array([1767323045_000, None], pa.timestamp("ms", tz="Europe/Paris")),
            ok=[True, None],
        ),
    }

    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        for format, data in texts.items():
            table = await world.table(("sales", format), format, **kinds)
            assert await world.rows(f"FROM sales.{format}") == []
            await world.materialize(table, await world.write(f"data/{table}/file", data))
            assert await world.rows(f"FROM sales.{format} ORDER BY id") == expected, format
            assert await world.rows(f"SELECT count(*) FROM sales.{format}") == [[2]]
            assert await world.rows(f"SELECT sales.{format}.note FROM sales.{format} WHERE id = 1") == [["a,b"]]
            empty = await world.table(("sales", f"{format}_empty"), format, **kinds)
            nothing = b"" if format != "PARQUET" else parquet(id=pa.array([], pa.int64()))
            await world.materialize(empty, await world.write(f"data/{empty}/file", nothing))
            assert await world.rows(f"FROM sales.{format}_empty") == []

    in_world(test)


def test_a_table_without_columns_cannot_be_queried() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        await world.table(("sales", "bare"))
        error = await world.refusal("FROM sales.bare")
        assert isinstance(error, Refused)
        assert "no columns" in error.message

    in_world(test)


def test_nested_and_odd_types() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        table = await world.table(
            ("sales", "t"),
            tags="list<string>",
            m="map<string,int>",
            s="struct<a:int,b:list<date>>",
            u="uuid",
            f="fixed(2)",
        )
        data = parquet(
            tags=[["x", None]],
            m=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            s=[{"a": 1, "b": [date(2026, 1, 2)]}],
            u=pa.array([bytes(range(16))], pa.binary(16)),
            f=[b"ab"],
        )
        await world.materialize(table, await world.write("data/t/file", data))
        assert await world.rows("FROM sales.t") == [
            [["x", None], {"k": 1}, {"a": 1, "b": ["2026-01-02"]}, "00010203-0405-0607-0809-0a0b0c0d0e0f", "YWI="]
        ]

    in_world(test)


def test_only_the_newest_version_of_each_partition_counts_and_its_key_fills_columns() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        table = await world.table(("sales", "t"), id="long", day="date", region="string")

        async def version(name: str, ids: list[int], day: date, region: str, **more: Any) -> None:
            file = await world.write(f"data/{table}/{name}", parquet(id=ids))
            await world.materialize(table, file, key={"day": day, "region": region}, **more)

        await version("v1", [1], date(2026, 1, 1), "eu")
        await version("v2", [2, 3], date(2026, 1, 1), "eu")
        await version("v3", [4], date(2026, 1, 2), "a=b,c")
        await version("v4", [5], date(2026, 1, 2), "a=b,c", status="quarantined")
        assert await world.rows("FROM sales.t ORDER BY id") == [
            [2, "2026-01-01", "eu"],
            [3, "2026-01-01", "eu"],
            [4, "2026-01-02", "a=b,c"],
        ]

    in_world(test)


def test_the_past_is_read_from_where_its_rows_lie_now() -> None:
    async def work(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        table = await world.table(("sales", "orders"), id="long")
        first = [await world.write(f"data/{table}/p/{number}.parquet", parquet(id=[number])) for number in range(3)]
        await world.materialize(table, *first)
        past = world.snapshots()
        runtime = world.workspace.runtime
        compaction = new_ulid(runtime, runtime)
        activity = world.workspace.logs["activity"].replica
        (version,) = await activity.rows(MATERIALIZATIONS, table)
        merged = await world.write(f"data/{table}/compaction-{compaction}/all.parquet", parquet(id=[0, 1, 2]))
        command = CompactFiles(table, version.materialization_id, compaction, "", (merged,))
        await world.workspace.decide("activity", command, actor="ann")
        for file in first:
            await world.workspace.handle(Role.COLLECTOR).delete(file.path)
        await world.materialize(table, await world.write(f"data/{table}/p/new.parquet", parquet(id=[9])))
        query = "select id from sales.orders order by id"
        assert (await world.query(query, past)).rows == [[0], [1], [2]]
        assert await world.rows(query) == [[9]]

    in_world(work)


def test_columns_keep_their_data_through_renames() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        table = await world.table(("sales", "t"), a="long", gone="long")
        where = Ref(path=("sales", "t"))
        await world.materialize(
            table, await world.write("data/t/1", parquet(a=[1], gone=[9])), key={"k": 1}, schema_version=1
        )
        await world.decide(AlterTable(where, (AlterColumn("a", new_name="b"), DropColumn("gone"))))
        assert await world.rows("FROM sales.t") == [[1]]
        await world.decide(AlterTable(where, (AddColumn("a", "long"), AddColumn("gone", "long"))))
        await world.materialize(
            table, await world.write("data/t/2", parquet(b=[2], a=[3], gone=[4])), key={"k": 2}, schema_version=3
        )
        # The old file's `a` is today's `b`, and its `gone` is a column that was dropped.
        assert await world.rows("SELECT b, a, gone FROM sales.t ORDER BY b") == [[1, None, None], [2, 3, 4]]

    in_world(test)


def column(name: str, *former: tuple[str, int], added: int = 1, id: str = "") -> Column:
    return Column(
        column_id=id or name,
        table_id="t",
        name=name,
        data_type="long",
        ordinal_position=1,
        is_nullable=True,
        description=None,
        code_description=None,
        ui_description=None,
        pii_type=None,
        sensitivity=None,
        status="active",
        former_names=tuple(FormerColumnName(old, until, False) for old, until in former),
        added_in_version=added,
        dropped_in_version=None,
        created_at=1,
        updated_at=1,
    )


def test_where_a_column_is_found_in_a_file() -> None:
    c = column("c", ("a", 2), ("b", 4))
    assert [sources_of(c, [c], version) for version in (1, 2, 3, 4, 5)] == [("a",), ("b",), ("b",), ("c",), ("c",)]
    assert sources_of(column("d", added=3), [], 2) == ()
    assert sources_of(c, [c], None) == ("c", "b", "a")
    assert sources_of(c, [c, column("a")], None) == ("c", "b")
    assert sources_of(c, [c, column("x", ("b", 2))], None) == ("c", "a")


def test_what_cannot_be_read_says_why() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))

        async def made(name: str, file: DataFile, format: str = "PARQUET") -> ArcoError:
            table = await world.table(("sales", name), format, id="long")
            await world.materialize(table, file)
            return await world.refusal(f"FROM sales.{name}")

        lake = await made("lake", DataFile("data/x", 1, 1), "DELTA")
        assert isinstance(lake, Refused)
        assert "DELTA" in lake.message
        assert [row[0] for row in await world.rows("DESCRIBE sales.lake")] == ["id"]
        assert isinstance(await made("missing", DataFile("data/never-written", 1, 1)), NotFound)
        broken = await made("broken", await world.write("data/broken", b"not parquet"))
        assert "data/broken" in broken.message
        text = await made("text", await world.write("data/text", b"id\nabc\n"), "CSV")
        assert isinstance(text, Refused)
        assert isinstance(await made("big", DataFile("data/x", 1 << 50, 1)), TooLarge)

    in_world(test)


def held(status: str, key: str = "") -> Partition:
    times = {"last_success_at": None, "last_failure_at": None, "created_at": 0, "updated_at": 0}
    nothing = dict.fromkeys(("current_materialization_id", "current_version", "row_count", "byte_size", "file_count"))
    known = {"schema_hash": None, "last_run_id": "r", "last_task_id": "t", "last_error": None, "version_count": 1}
    newest = {"newest_materialization_id": "m", "newest_status": status}
    return Partition("p", "a", "n.a", key, status, **nothing, **known, **times, **newest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "partitions", "words"),
    [
        ("asset", [], "`arco run n.a` makes it"),
        ("asset", [held("published")], "`arco run n.a` makes it"),
        ("asset", [held("quarantined")], "is held back (quarantined); `arco quarantine show n.a`"),
        ("sql", [held("blocked", "date=d:2025-01-01")], "`arco quarantine list --asset n.a`"),
        ("external", [], "n.a is made by others"),
        ("observable", [], "n.a is made by others"),
    ],
)
def test_an_asset_without_data_says_why_and_what_to_do(kind: str, partitions: list[Partition], words: str) -> None:
    assert words in why_nothing("n.a", kind, partitions)


def test_files_outside_the_data_folder_are_never_read() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        private = world.workspace.incarnation.id
        paths = [f"{private}/private/x", "blobs/x", "../other/data/x", "data/../x", "/etc/passwd", "s3://b/x", "data"]
        for number, path in enumerate(paths):
            table = await world.table(("sales", f"t{number}"), "CSV", id="string")
            await world.materialize(table, DataFile(path, 1, 1))
            error = await world.refusal(f"SELECT id FROM sales.t{number}")
            assert isinstance(error, (Refused, Invalid)), path
            assert not isinstance(error, NotFound), path
            # A path that begins rightly is refused by the handle itself, before any request.
            assert world.store.calls == ([("head", path)] if path.startswith("data/") else []), path
            world.store.calls.clear()

    in_world(test)


def test_a_file_that_is_larger_than_recorded_is_not_read() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        world.limits = Limits(max_input_bytes=10_000)
        long = await world.table(("sales", "long"), "CSV", id="string")
        await world.write("data/long", b"id\n" + b"x\n" * 50_000)
        await world.materialize(long, DataFile("data/long", 5, 1))
        assert isinstance(await world.refusal("FROM sales.long"), TooLarge)
        bomb = await world.table(("sales", "bomb"), id="long")
        file = await world.write("data/bomb", parquet(id=pa.array([7] * 1_000_000)))
        assert file.size_bytes < 10_000
        await world.materialize(bomb, file)
        assert isinstance(await world.refusal("FROM sales.bomb"), TooLarge)
        assert isinstance(await world.refusal("SELECT count(*) FROM sales.bomb"), TooLarge)

    in_world(test)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long", pa.int64()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("fixed(16)", pa.binary(16)),
        ("timestamptz", pa.timestamp("us", tz="UTC")),
        ("list<map<string,list<int>>>", pa.list_(pa.map_(pa.string(), pa.list_(pa.int32())))),
        ('struct<a:int,"b c,d":struct<e:date>>', pa.struct({"a": pa.int32(), "b c,d": pa.struct({"e": pa.date32()})})),
    ],
)
def test_column_types_are_arrow_types(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected


@pytest.mark.parametrize(
    "text", ["", "integer", "list", "list<", "list<int", "int>", "decimal(9)", "struct<int>", "map<int>"]
)
def test_what_is_no_canonical_type_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        arrow_type(text)

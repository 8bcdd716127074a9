"""`system.*`, queried as people do, on a real workspace."""

from arco.catalog import Limits, SystemRelations
from arco.catalog._sql_relation import SqlView
from arco.core import NotFound, TooLarge, format_path
from arco.domains.access import API_KEYS
from arco.domains.catalog import (
    CreateNamespace,
    DropTable,
    Ref,
)
from arco.state import AdvanceRetention
from tests.catalog.sql_world import World, in_world


def test_the_views_know_paths() -> None:
    async def test(world: World) -> None:
        for path in (("sales",), ("sales", "eu.west"), ("sales", "eu.west", "x"), ("empty",)):
            await world.decide(CreateNamespace(path))
        await world.table(("sales", "orders"), id="long", note="string")
        await world.table(("sales", "eu.west", "x", "a.b"), id="long")
        paths = await world.rows("SELECT path FROM system.namespaces ORDER BY path")
        expected = [("empty",), ("sales",), ("sales", "eu.west"), ("sales", "eu.west", "x")]
        assert [path for (path,) in paths] == sorted(format_path(path) for path in expected)
        assert await world.rows("SELECT namespace, full_name, format FROM system.tables ORDER BY name") == [
            ['sales."eu.west".x', 'sales."eu.west".x."a.b"', "PARQUET"],
            ["sales", "sales.orders", "PARQUET"],
        ]
        columns = (
            "SELECT name, data_type FROM system.columns WHERE table_name = 'sales.orders' ORDER BY ordinal_position"
        )
        assert await world.rows(columns) == [["id", "long"], ["note", "string"]]
        described = [row[0] for row in await world.rows("DESCRIBE system.tables")]
        assert described[-3:] == ["namespace", "full_name", "_position"]
        both = "SELECT count(*) FROM system.tables t JOIN system.columns c ON c.table_name = t.full_name"
        assert await world.rows(both) == [[3]]
        await world.decide(DropTable(Ref(path=("sales", "orders"))))
        assert await world.rows("SELECT full_name FROM system.tables") == [['sales."eu.west".x."a.b"']]

    in_world(test)


def test_every_public_table_is_there_and_no_private_one() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        public: set[str] = set()
        private: set[str] = set()
        for log in world.workspace.logs.values():
            for table in log.definition.tables.values():
                (private if table.private else public).add(table.name)
        assert API_KEYS.name in private
        system = SystemRelations(*world.snapshots())
        assert system.names() == [f"system.{name}" for name in sorted(public)]
        for name in sorted(public):
            found = system.find(name)
            for relation in found.sources.values() if isinstance(found, SqlView) else [found]:
                assert relation is not None
                assert (await relation.load(None)).schema.equals(relation.schema), name
                assert relation.schema.names[-1] == "_position"
        for name in sorted(private):
            assert system.find(name) is None
            error = await world.refusal(f"FROM system.{name}")
            assert type(error) is NotFound
            assert not any(f"system.{other}" in error.message for other in private - {name})

    in_world(test)


def test_tables_of_both_logs_are_one_with_a_column_for_the_log() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        await world.workspace.decide("activity", AdvanceRetention("materializations", 5), actor="ann")
        described = await world.rows("DESCRIBE system.operations")
        assert described[0][:2] == ["log", "VARCHAR"]
        counted = await world.rows("SELECT log, count(*) FROM system.operations GROUP BY log ORDER BY log")
        assert counted == [["activity", 1], ["catalog", 1]]
        assert await world.rows("SELECT DISTINCT log FROM System.Audit") == [["catalog"]]

    in_world(test)


def test_the_byte_limit_holds_for_system_tables() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        world.limits = Limits(max_input_bytes=10)
        assert isinstance(await world.refusal("FROM system.namespaces"), TooLarge)

    in_world(test)


def test_names_that_do_not_exist_come_with_help() -> None:
    async def test(world: World) -> None:
        await world.decide(CreateNamespace(("sales",)))
        assert "did you mean system.tables" in (await world.refusal("FROM system.tabels")).message
        assert "system.tables" in (await world.refusal("FROM tables")).message
        assert "full_name" in (await world.refusal("FROM sales.orders")).message
        odd = await world.refusal('FROM "a\'b"."c*d"')
        assert isinstance(odd, NotFound)

    in_world(test)

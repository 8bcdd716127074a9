"""Column lineage names columns by the ids that the catalog has for them when a result arrives."""

import msgspec

from arco.domains.catalog import COLUMNS, AddColumn, CreateNamespace, CreateTable
from arco.domains.lineage import (
    LINEAGE_EDGES,
    CaptureMethod,
    ColumnInfluence,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    TransformType,
)
from arco.servo._column_ids import ID_BYTES, MAX_IDS
from tests.servo.world import WORKER, World, project, result_of, run_world

BOTH = project({"n.a": [], "n.b": ["n.a"]})


def lineage(*names: str) -> ColumnLineage:
    return ColumnLineage(
        CaptureMethod.PLAN_INTROSPECTION,
        Confidence.HIGH,
        ConfidenceReason.PLAN_INTROSPECTION,
        1.0,
        tuple(ColumnMapping(ColumnRef(name), (ColumnRef("id"), ColumnRef("gone"))) for name in names),
        influences=(ColumnInfluence((ColumnRef("id"),), TransformType.FILTER),),
    )


async def recorded(world: World, told: ColumnLineage) -> ColumnLineage:
    """What the edge from a to b has, after a run told this."""
    await world.trigger("*")
    (first,) = await world.claim()
    await world.finish(first)
    (second,) = await world.claim()
    result = result_of(second, world.runtime.now())
    assert result.lineage is not None
    (edge,) = result.lineage.edges
    edges = (msgspec.structs.replace(edge, column_lineage=told),)
    result = msgspec.structs.replace(result, lineage=msgspec.structs.replace(result.lineage, edges=edges))
    assert not (await world.servo.work.finish([result], WORKER)).refused
    (row,) = await world.workspace.logs["activity"].replica.rows(LINEAGE_EDGES, edge.source_id)
    found: ColumnLineage = row.recorded_lineage
    return found


async def create(world: World, name: str, *columns: str) -> dict[str, str]:
    """The ids of the columns of a new table."""
    made = CreateTable(("n", name), columns=tuple(AddColumn(column, "long") for column in columns))
    await world.workspace.decide("catalog", made, actor="tester")
    rows = await world.workspace.logs["catalog"].replica.scan(COLUMNS)
    return {row["name"]: row["column_id"] for row in rows.to_pylist() if row["name"] in columns}


def test_columns_that_the_catalog_knows_have_their_ids() -> None:
    async def work(world: World) -> None:
        await world.workspace.decide("catalog", CreateNamespace(("n",)), actor="tester")
        source, target = await create(world, "a", "id"), await create(world, "b", "total")
        told = lineage("total", "unknown")
        found = await recorded(world, told)
        known, unknown = found.mappings
        assert known.target_column == ColumnRef("total", target["total"])
        assert known.source_columns == (ColumnRef("id", source["id"]), ColumnRef("gone"))
        assert unknown.target_column == ColumnRef("unknown")
        assert found.influences is not None
        assert found.influences[0].source_columns == (ColumnRef("id", source["id"]),)
        assert len(msgspec.json.encode(found)) - len(msgspec.json.encode(told)) == 4 * ID_BYTES

    run_world(work, deployed=BOTH)


def test_without_a_table_columns_have_names() -> None:
    async def work(world: World) -> None:
        assert await recorded(world, lineage("total")) == lineage("total")

    run_world(work, deployed=BOTH)


def test_an_edge_with_too_many_columns_keeps_names() -> None:
    async def work(world: World) -> None:
        await world.workspace.decide("catalog", CreateNamespace(("n",)), actor="tester")
        await create(world, "a", "id")
        told = lineage(*(f"c{number}" for number in range(MAX_IDS)))
        assert await recorded(world, told) == told

    run_world(work, deployed=BOTH)

"""Lineage: walk it, add and drop edges that people know of; outputs of a run."""

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Path, Query

from arco.api._reading import Cursor, Limit, ReadsDep, TableRef
from arco.api._routing import router
from arco.api._writing import Writes, WritesDep
from arco.catalog import Namer, View, iceberg_columns, list_columns, resolve_table, run_outputs, table_or_asset, walk
from arco.core import NotFound, fingerprint
from arco.domains.lineage import AddLineageEdge, ColumnMapping, ColumnRef, DropLineageEdge, manual_edge_id
from arco.wire import EdgeAdd, EdgeWritten, LineageGraph, RunOutputs, Written

__all__ = ["lineage"]

lineage = router("lineage")


@lineage.get("/tables/{table}/lineage")
async def get_lineage(
    reads: ReadsDep,
    table: TableRef,
    direction: Annotated[
        Literal["upstream", "downstream", "both"], Query(description="What it is made of, what is made of it, or both.")
    ] = "both",
    depth: Annotated[int, Query(ge=0, le=1000, description="Hops at most; 0 for any number.")] = 0,
    former: Annotated[bool, Query(description="Also what only former code was made of.")] = False,
) -> LineageGraph:
    """What a table or an asset is made of, and what is made of it. Cycles are walked once."""
    found = await reads.catalog(lambda view: table_or_asset(view, table))
    known = replace(reads, strong=False, min_position=0)  # one look at each log is enough for one answer

    async def walked(catalog: View) -> LineageGraph:
        names = Namer(catalog)
        return await reads.activity(lambda view: walk(view, found, direction, depth, names, former=former))

    return await known.catalog(walked)


@lineage.post("/lineage/edges", status_code=201)
async def add_lineage_edge(writes: WritesDep, body: EdgeAdd) -> EdgeWritten:
    """Add a dependency that people know of. Nothing that is recorded or folded anew removes it."""
    asked = fingerprint(body.model_dump(mode="json"))
    if before := await writes.repeated("activity", AddLineageEdge, asked):
        receipt, time = before
        past = await writes.caller.workspace.logs["catalog"].snapshot(time=time)
        source, target = [(await resolve_table(past, ref)).id for ref in (body.source, body.target)]
        await writes.settle("activity", receipt)
    else:
        source, target = await _table(writes, body.source), await _table(writes, body.target)
        mappings = await _mappings(writes, source, target, body.columns) if body.columns else ()
        command = AddLineageEdge(source, target, columns=mappings, owner=body.owner, description=body.description)
        receipt = await writes.decide("activity", command, asked=asked)
    return EdgeWritten(
        operation_id=receipt.operation,
        position=receipt.last,
        replayed=receipt.replayed,
        edge_id=manual_edge_id(source, target),
    )


async def _table(writes: Writes, ref: str) -> str:
    found, _ = await writes.caller.workspace.logs["catalog"].read(lambda view: resolve_table(view, ref))
    return found.id


async def _mappings(
    writes: Writes, source: str, target: str, columns: dict[str, list[str]]
) -> tuple[ColumnMapping, ...]:
    """Column names of the request as columns of the two tables; dropped ones and former names may be named too."""
    catalog, activity = (writes.caller.workspace.logs[log] for log in ("catalog", "activity"))

    async def by_name(table_id: str) -> dict[str, str]:
        page, _ = await catalog.read(lambda view: list_columns(view, f"id:{table_id}", inactive=True), strong=False)
        of_iceberg, _ = await activity.read(lambda view: iceberg_columns(view, table_id), strong=False)
        ordered = sorted([*page.items, *of_iceberg], key=lambda column: column.status == "active")
        former = {old.name: column.id for column in ordered for old in column.former_names}
        return former | {column.name: column.id for column in ordered}

    sources, targets = await by_name(source), await by_name(target)

    def known(name: str, among: dict[str, str], side: str) -> ColumnRef:
        if name not in among:
            raise NotFound(f"the {side} table has no column {name!r}; it has {', '.join(sorted(among)) or 'none'}")
        return ColumnRef(name, among[name])

    return tuple(
        ColumnMapping(known(name, targets, "target"), tuple(known(given, sources, "source") for given in made_of))
        for name, made_of in columns.items()
    )


@lineage.delete("/lineage/edges/{edge_id}")
async def drop_lineage_edge(
    writes: WritesDep, edge_id: Annotated[str, Path(max_length=128, description="As the answer to adding it named it.")]
) -> Written:
    """Take back a dependency that somebody added. What runs recorded stays."""
    receipt = await writes.decide("activity", DropLineageEdge(edge_id=edge_id))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


@lineage.get("/runs/{run_id}/outputs")
async def get_run_outputs(
    reads: ReadsDep,
    run_id: Annotated[str, Path(max_length=256, description="The run, as its events call it.")],
    cursor: Cursor = None,
    limit: Limit = 1000,
) -> RunOutputs:
    """Exactly what a run wrote, in the order it was recorded."""
    return await run_outputs((await reads.snapshots())["activity"], run_id, cursor, limit)

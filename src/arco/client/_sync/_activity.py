"""Calls on what happened: facts of other producers, lineage, outputs of runs, check results."""

from typing import Literal, Unpack

from arco.client._calls import Reading, Writing, path_of
from arco.client._sync._connection import Calls, Pages
from arco.wire import (
    CheckResultInfo,
    EdgeAdd,
    EdgeWritten,
    EventBatch,
    EventsWritten,
    LineageGraph,
    Page,
    RunOutputs,
    Written,
)

__all__ = ["ActivityCalls"]

Direction = Literal["upstream", "downstream", "both"]
ACTIVITY = "activity"


class ActivityCalls(Calls):
    def post_events(self, request: EventBatch, **options: Unpack[Writing]) -> EventsWritten:
        """Record facts. The answer has a result for each: refused ones were not written, the others were."""
        path = "/api/v1/events"
        return self._connection.write("POST", path, EventsWritten, options, body=request, log=ACTIVITY)

    def get_lineage(
        self,
        table: str,
        *,
        direction: Direction = "both",
        depth: int = 0,
        former: bool = False,
        **options: Unpack[Reading],
    ) -> LineageGraph:
        """What a table is made of, and what is made of it. Depth 0 is as far as it goes.

        Dependencies that only former code had are left out and counted, unless `former` asks for them.
        """
        path = path_of("/api/v1/tables/{table}/lineage", table=table)
        query = {"direction": direction, "depth": depth, "former": former}
        return self._connection.read(path, LineageGraph, query, options)

    def add_lineage_edge(self, request: EdgeAdd, **options: Unpack[Writing]) -> EdgeWritten:
        """State a dependency by hand. No recorded lineage removes it."""
        path = "/api/v1/lineage/edges"
        return self._connection.write("POST", path, EdgeWritten, options, body=request, log=ACTIVITY)

    def drop_lineage_edge(self, edge_id: str, **options: Unpack[Writing]) -> Written:
        path = path_of("/api/v1/lineage/edges/{edge_id}", edge_id=edge_id)
        return self._connection.write("DELETE", path, Written, options, log=ACTIVITY)

    def list_check_results(
        self, table: str, *, limit: int | None = None, **options: Unpack[Reading]
    ) -> Pages[CheckResultInfo]:
        """Results of checks, newest first."""
        path = path_of("/api/v1/tables/{table}/checks", table=table)
        return Pages(self._connection, path, Page[CheckResultInfo], {"limit": limit}, options)

    def get_run_outputs(
        self, run_id: str, *, cursor: str | None = None, limit: int = 1000, **options: Unpack[Reading]
    ) -> RunOutputs:
        """Exactly what a run wrote; `next_cursor` of the answer leads on, if there is more."""
        path = path_of("/api/v1/runs/{run_id}/outputs", run_id=run_id)
        return self._connection.read(path, RunOutputs, {"cursor": cursor, "limit": limit}, options)

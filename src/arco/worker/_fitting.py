"""What of a result fits into its event.

A result is one event, of limited size. Outputs, checks and observations must be told; what is told beside them is left
out kind by kind, the least missed first, so that no task fails whose data is good.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from arco.domains.execution import MaterializationCompleted
from arco.domains.lineage import EdgeRecord
from arco.domains.orchestration import FinishTask
from arco.log import MAX_EVENT_BYTES
from arco.servo._column_ids import ID_BYTES, MAX_IDS

__all__ = ["fitting"]

FRAME_BYTES: Final = 16 << 10
"""For what the owner says of every event: who, when, of which command."""
MAX_RESULT_BYTES: Final = MAX_EVENT_BYTES - MAX_IDS * ID_BYTES - FRAME_BYTES
"""Ids of columns are put in where the result arrives."""


def fitting(end: FinishTask) -> FinishTask:
    for without in _WITHOUT:
        if len(msgspec.json.encode(end)) <= MAX_RESULT_BYTES:
            break
        end = without(end)
    return end


def _without_statistics(end: FinishTask) -> FinishTask:
    """They stand in the footers of the files."""

    def bare(output: MaterializationCompleted) -> MaterializationCompleted:
        files = tuple(msgspec.structs.replace(file, stats=()) for file in output.files)
        return msgspec.structs.replace(output, files=files)

    return msgspec.structs.replace(end, outputs=tuple(map(bare, end.outputs)))


def _without_sources(end: FinishTask) -> FinishTask:
    """They stand in the plan of the run."""
    return _with_edges(
        end, lambda edge: msgspec.structs.replace(edge, source_materializations=(), source_partitions=())
    )


def _without_column_lineage(end: FinishTask) -> FinishTask:
    return _with_edges(end, lambda edge: msgspec.structs.replace(edge, column_lineage=None, code_version=""))


def _without_schemas(end: FinishTask) -> FinishTask:
    return msgspec.structs.replace(end, schemas=())


def _without_lineage(end: FinishTask) -> FinishTask:
    return msgspec.structs.replace(end, lineage=None)


def _with_edges(end: FinishTask, change: Callable[[EdgeRecord], EdgeRecord]) -> FinishTask:
    if end.lineage is None:
        return end
    edges = tuple(map(change, end.lineage.edges))
    return msgspec.structs.replace(end, lineage=msgspec.structs.replace(end.lineage, edges=edges))


_WITHOUT: Final = (_without_statistics, _without_sources, _without_column_lineage, _without_schemas, _without_lineage)

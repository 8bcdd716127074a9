"""Facts of other producers, lineage, outputs of runs, check results."""

from typing import Annotated, Any, Literal

from pydantic import Field

from arco.wire._base import Answer, Request, Written

__all__ = [
    "CheckResultInfo",
    "ColumnEdgeInfo",
    "EdgeAdd",
    "EdgeWritten",
    "EventAnswer",
    "EventBatch",
    "EventIn",
    "EventsWritten",
    "LineageEdgeInfo",
    "LineageGraph",
    "LineageNode",
    "MaterializationInfo",
    "RunOutputs",
]


_OBSERVED = {
    "observation_id": "01KA4NXCN0V4S3C2F8M8J5T6QW",
    "asset_id": "01KA4NXCN0M2Z5T0QZ0V2X9V1N",
    "asset_key": "sales.orders",
    "partition_id": "01KA4NXCN0M2Z5T0QZ0V2X9V1N",
    "partition_key": "",
    "data_version": "etag-7",
    "observed_at": 1767225600000000,
}


class EventIn(Request):
    """A CloudEvent of a type that may be recorded; `data` is its payload."""

    type: Annotated[
        Literal[
            "MaterializationCompleted", "MaterializationFailed", "AssetObserved", "CheckExecuted", "LineageRecorded"
        ],
        Field(examples=["AssetObserved"]),
    ]
    data: Annotated[dict[str, Any], Field(examples=[_OBSERVED])]
    id: Annotated[str | None, Field(description="A ULID; minted here if absent.")] = None
    time: str | None = None
    source: Annotated[str, Field(min_length=1, max_length=256)] = "external"
    subject: Annotated[str, Field(max_length=1024)] = ""


class EventBatch(Request):
    events: Annotated[list[EventIn], Field(min_length=1, max_length=10_000)]


class EventAnswer(Answer):
    index: int
    status: Literal["recorded", "refused"]
    id: str | None = None
    position: str | None = None
    detail: str | None = None
    """Why it was refused."""


class EventsWritten(Answer):
    """A result for each event, in the order they were sent. Refused ones were not written, the others were."""

    operation_id: str | None
    position: str | None
    replayed: bool
    recorded: int
    refused: int
    results: list[EventAnswer]


class EdgeAdd(Request):
    """A dependency that people know of: `source` feeds `target`. Named by path or by `id:` and a ULID."""

    source: Annotated[str, Field(examples=["sales.orders"])]
    target: Annotated[str, Field(examples=["sales.daily"])]
    columns: Annotated[
        dict[str, list[str]], Field(description="Target column name to the source columns it is made of.")
    ] = {}
    owner: str | None = None
    description: str | None = None


class LineageNode(Answer):
    id: str
    name: str | None
    """Its path; of a dropped table the last one; null if the catalog never had it."""
    exists: bool
    distance: int
    """Hops from where the walk began; negative upstream."""


class ColumnEdgeInfo(Answer):
    """Columns of the source that one column of the target depends on, in one way."""

    target: str | None
    """Null if they decide which rows the target has, and so about all of its columns."""
    sources: list[str]
    kind: str
    """`DIRECT`, `EXPRESSION`, `AGGREGATE`, `CASE`, `WINDOW`, `JOIN`, `FILTER`, `GROUP_BY`, `SORT`, ..."""
    confidence: str
    reason: str | None
    """Why it is not sure."""


class LineageEdgeInfo(Answer):
    id: str
    source_id: str
    target_id: str
    manual: bool
    recorded: bool
    former: bool = False
    """True if runs went along it once, and the code that made the newest version of its target does not."""
    parameter: str
    columns: dict[str, list[str]]
    """Target column id to source column ids (`table id/column id`)."""
    mappings: list[ColumnEdgeInfo] = []
    """The same by name, and in which way."""
    capture_method: str | None
    confidence: str | None
    coverage: float | None
    first_seen_at: str | None
    last_seen_at: str | None
    execution_count: int
    owner: str | None
    description: str | None


class LineageGraph(Answer):
    root: LineageNode
    nodes: list[LineageNode]
    edges: list[LineageEdgeInfo]
    truncated: bool
    """True if there is more than the limits allow."""
    former_count: int = 0
    """Edges of former code next to what was walked, and left out."""
    position: str


class EdgeWritten(Written):
    edge_id: str


class MaterializationInfo(Answer):
    id: str
    asset_id: str
    asset_key: str
    partition_id: str
    partition_key: str
    version: int
    status: str
    """How it stands now: `published`, `blocked`, `quarantined`, `expired` or `deleted`."""
    run_id: str
    task_id: str
    row_count: int
    byte_size: int
    file_count: int
    schema_hash: str
    started_at: str
    completed_at: str
    position: str


class RunOutputs(Answer):
    """Exactly what a run wrote, and nothing else."""

    run_id: str
    materializations: list[MaterializationInfo]
    next_cursor: str | None = None
    """Null if that is all."""
    position: str


class CheckResultInfo(Answer):
    id: str
    check_id: str
    check_name: str
    check_type: str
    asset_id: str
    partition_id: str
    materialization_id: str
    run_id: str
    passed: bool
    severity: str
    expected_value: str | None
    actual_value: str | None
    message: str | None
    action: str | None
    """What the gating policy decided, if it was asked."""
    executed_at: str

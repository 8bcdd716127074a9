"""Maintenance: old versions of data and old history, files that belong to no version, merging of small files."""

from typing import Annotated, Literal

from pydantic import Field

from arco.wire._base import Answer, Request

__all__ = [
    "CompactedFiles",
    "CompactionAnswer",
    "CompactionRequest",
    "ExpireVersionsAnswer",
    "ExpireVersionsRequest",
    "ExpiredRows",
    "HistoryAnswer",
    "HistoryRequest",
    "IcebergObject",
    "IcebergUpkeepAnswer",
    "IcebergUpkeepRequest",
    "MaintenanceAnswer",
    "OrphanFile",
    "OrphansAnswer",
    "OrphansRequest",
    "RetiredVersion",
    "StatisticsAnswer",
    "StatisticsFile",
    "StatisticsRequest",
    "UnmergedFiles",
    "UntoldCommit",
]


class MaintenanceRequest(Request):
    """Which assets to look after. A request does a part of them; the next one goes on where it ended."""

    selection: Annotated[str, Field(min_length=1, max_length=10_000, examples=["*", "sales.*"])] = "*"
    """As for a run. `*` is every asset, those that are not deployed any more included."""
    dry_run: bool = False
    """Only say what would be done."""
    cursor: Annotated[str | None, Field(max_length=4096)] = None
    """`next_cursor` of the answer before."""


class ExpireVersionsRequest(MaintenanceRequest):
    pass


class OrphansRequest(MaintenanceRequest):
    older_than_hours: Annotated[int, Field(ge=1, le=8760)] = 24
    """Only files that were written longer ago."""


class MaintenanceAnswer(Answer):
    dry_run: bool
    asset_count: int
    """Assets that are selected."""
    done_count: int
    """Those of them that are done by now."""
    next_cursor: str | None
    """Null if that was all."""


class RetiredVersion(Answer):
    materialization_id: str
    asset_key: str
    partition_key: str
    version: int
    byte_size: int
    reason: str
    """Why it is let go."""


class ExpireVersionsAnswer(MaintenanceAnswer):
    expired: list[RetiredVersion]
    """Versions that nothing reads any more from now on; their files stay for the time of grace."""
    deleted: list[RetiredVersion]
    """Versions whose time of grace is over: their files are deleted."""
    waiting_count: int
    """Versions that expired before and whose time of grace is not over."""
    in_use_count: int
    """Versions that would be let go, but that runs under way read or made."""
    foreign_count: int
    """Versions that are kept because files of them lie outside their own folder."""


class HistoryRequest(Request):
    dry_run: bool = False
    """Only say what would go."""


class ExpiredRows(Answer):
    """Rows of one table that go together."""

    log: str
    table: str
    row_count: int
    """Published rows that nobody sees any more; of rows that changed, every stored version counts."""
    byte_size: int
    """Their part of the files they lie in."""
    oldest: str | None
    """The time of the oldest."""
    before: str
    """What is older than this goes."""
    reached: str | None
    """What is older than this went before."""
    setting: str
    reason: str


class HistoryAnswer(Answer):
    dry_run: bool
    expired: list[ExpiredRows]
    edge_count: int
    """Edges of deleted assets that nobody used or changed for as long as `history.deleted_edges_days` says."""
    held: list[str]
    """What stays though it is old enough, and why."""


class OrphanFile(Answer):
    path: str
    """Within the workspace."""
    size_bytes: int
    modified_at: str


class OrphansAnswer(MaintenanceAnswer):
    files: list[OrphanFile]
    """What belongs to no version and was deleted, or would be."""
    kept_count: int
    """Files of versions, of attempts that run, of tables, or too young to tell."""


class StatisticsRequest(MaintenanceRequest):
    pass


class StatisticsFile(Answer):
    """A file whose footer says something else than what was known."""

    path: str
    asset_key: str
    partition_key: str
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int
    column_count: int
    """Columns of which the footer has statistics."""


class StatisticsAnswer(MaintenanceAnswer):
    files: list[StatisticsFile]
    """What was noted, or would be."""
    read_count: int
    """Footers that were read."""
    missing: list[str]
    """Files of current versions that are not in the store: make their partitions again."""
    unreadable: list[str]
    """Files that are no Parquet files although they are called so."""


class CompactionRequest(MaintenanceRequest):
    partitions: Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=16)] = {}
    """As for a run: keys, lists, ranges by name of the dimension. One that is not named is all of it."""
    target_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 30)] = 128 << 20
    """What the merged files have at the most. Those that have three quarters of it already stay."""
    min_files: Annotated[int, Field(ge=2, le=10_000)] = 5
    """Only versions of which so many files would be merged."""


class CompactedFiles(Answer):
    """A current version whose small files were merged, or would be. Its rows are the same."""

    materialization_id: str
    asset_key: str
    partition_key: str
    version: int
    row_count: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int | None
    """Null in a dry run."""
    merged_bytes: int
    """Of the files that are merged; the others stay as they are."""


class UnmergedFiles(Answer):
    """A version that has many small files and keeps them."""

    materialization_id: str
    asset_key: str
    partition_key: str
    version: int
    reason: str


class CompactionAnswer(MaintenanceAnswer):
    compacted: list[CompactedFiles]
    unmerged: list[UnmergedFiles]
    looked_at_count: int
    """Current versions that were looked at."""
    changed_count: int
    """Versions that somebody else compacted or let go meanwhile."""


class IcebergUpkeepRequest(Request):
    dry_run: bool = False


class UntoldCommit(Answer):
    """A commit that the log had not been told of."""

    table_id: str
    number: int
    lost: bool
    """Its pointer is gone, so nobody can tell it any more."""


class IcebergObject(Answer):
    path: str
    """Within the workspace."""
    kind: Literal["pointer", "claim", "decision", "metadata", "manifest", "purged"]
    table_id: str | None
    size_bytes: int
    modified_at: str


class IcebergUpkeepAnswer(Answer):
    dry_run: bool
    table_count: int
    """Tables and views that were looked at."""
    untold: list[UntoldCommit]
    """Commits that the log was told of now, or would be."""
    lag_seconds: float
    """Age of the oldest of them."""
    waiting_count: int
    """Commits of the answering process that are on their way to the log."""
    last_lag_seconds: float
    """From the last commit of that process to when the log had it."""
    untaken_count: int
    """Commits of that process that the log did not take, or for which there was no room; they are among the untold."""
    reports: dict[str, int]
    """Reports of metrics that engines sent to that process, by their type."""
    undecided_count: int
    """Tables with a transaction that is under way."""
    removed: list[IcebergObject]
    """What nobody needs any more and was deleted, or would be."""
    kept_count: int
    left: list[str]
    """What was left alone because something about it is in doubt, or could not be looked at."""
    more: bool
    """Whether another request would remove more."""

"""Maintenance: old versions of data, old history, files that belong to none, statistics of files, small files.

A request looks after some of the selected assets and says where to go on, so that none takes long and whoever asks
sees the progress.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

from arco.api._caller import Caller
from arco.api._reading import CallerDep, host_of
from arco.api._routing import router
from arco.assets import Graph, PartitionSpace, select
from arco.catalog import View, decode_cursor, encode_cursor
from arco.core import Invalid, fingerprint, format_time, time_text
from arco.domains.catalog import TABLES
from arco.domains.deployments import ASSETS, WORKSPACE, AssetRow, read_asset_ids, read_dynamic_partitions
from arco.domains.execution import RetentionPolicy
from arco.servo import (
    Asked,
    Compacted,
    Compaction,
    Expired,
    Refreshed,
    Retired,
    Servo,
    Statistics,
    compact_files,
    refresh_statistics,
    remove_orphans,
    retire_versions,
)
from arco.servo import (
    expire_history as expire_old_rows,
)
from arco.state import Snapshot
from arco.wire import (
    CompactedFiles,
    CompactionAnswer,
    CompactionRequest,
    ExpiredRows,
    ExpireVersionsAnswer,
    ExpireVersionsRequest,
    HistoryAnswer,
    HistoryRequest,
    IcebergObject,
    IcebergUpkeepAnswer,
    IcebergUpkeepRequest,
    OrphanFile,
    OrphansAnswer,
    OrphansRequest,
    RetiredVersion,
    StatisticsAnswer,
    StatisticsFile,
    StatisticsRequest,
    UnmergedFiles,
    UntoldCommit,
)

__all__ = ["maintenance"]

maintenance = router("maintenance")

AT_ONCE: Final = 10
"""Assets that one request looks after."""
EVERYTHING: Final = "*"


@maintenance.post("/maintenance/versions")
async def expire_versions(request: Request, caller: CallerDep, body: ExpireVersionsRequest) -> ExpireVersionsAnswer:
    """Let versions expire that the retention policy does not keep, and delete those whose grace is over."""
    servo = host_of(request).servo_of(caller.scope)
    chosen = await _chosen(servo, body.selection, "versions", body.cursor)
    settings = request.state.settings
    policy = RetentionPolicy(
        min_days=settings["retention.min_days"],
        min_versions=settings["retention.min_versions"],
        max_versions=settings["retention.max_versions"],
        grace_hours=settings["retention.grace_hours"],
    )
    done = await retire_versions(
        servo.workspace, chosen.now, policy, _asked(caller), dry_run=body.dry_run, let_go=servo.let_go
    )
    return ExpireVersionsAnswer(
        dry_run=body.dry_run,
        **chosen.progress(done.finished),
        expired=[_retired(one) for one in done.expired],
        deleted=[_retired(one) for one in done.deleted],
        waiting_count=done.waiting,
        in_use_count=done.in_use,
        foreign_count=done.foreign,
    )


def _retired(one: Retired) -> RetiredVersion:
    version = one.version
    return RetiredVersion(
        materialization_id=version.materialization_id,
        asset_key=version.asset_key,
        partition_key=version.partition_key,
        version=version.version,
        byte_size=one.byte_size,
        reason=one.reason,
    )


@maintenance.post("/maintenance/history")
async def expire_history(request: Request, caller: CallerDep, body: HistoryRequest) -> HistoryAnswer:
    """Let go of what happened longer ago than the settings of history keep: runs, results of checks, the audit."""
    servo = host_of(request).servo_of(caller.scope)
    done = await expire_old_rows(servo.workspace, request.state.settings, _asked(caller), dry_run=body.dry_run)
    return HistoryAnswer(
        dry_run=body.dry_run,
        expired=[_expired(one) for one in done.expired],
        edge_count=len(done.edges),
        held=done.held,
    )


def _expired(one: Expired) -> ExpiredRows:
    advance = one.advance
    return ExpiredRows(
        log=advance.log,
        table=one.table,
        row_count=one.aged.rows,
        byte_size=one.aged.bytes,
        oldest=time_text(one.aged.oldest),
        before=format_time(advance.before),
        reached=format_time(one.reached) if one.reached else None,
        setting=advance.rule.setting,
        reason=advance.reason,
    )


@maintenance.post("/maintenance/orphans")
async def remove_orphan_files(request: Request, caller: CallerDep, body: OrphansRequest) -> OrphansAnswer:
    """Remove files that belong to no version: what failed attempts and deleted versions left behind."""
    servo = host_of(request).servo_of(caller.scope)
    chosen = await _chosen(servo, body.selection, "orphans", body.cursor)
    locations = await _locations(await servo.workspace.logs["catalog"].frozen())
    done = await remove_orphans(
        servo.workspace,
        chosen.now,
        locations,
        hours=body.older_than_hours,
        dry_run=body.dry_run,
        let_go=servo.let_go,
    )
    return OrphansAnswer(
        dry_run=body.dry_run,
        **chosen.progress(done.finished),
        files=[
            OrphanFile(path=info.path, size_bytes=info.size, modified_at=format_time(info.modified))
            for info in done.files
        ],
        kept_count=done.kept,
    )


@maintenance.post("/maintenance/statistics")
async def refresh_file_statistics(request: Request, caller: CallerDep, body: StatisticsRequest) -> StatisticsAnswer:
    """Read the footers of the files of current versions again, and note what is not known of them yet."""
    servo = host_of(request).servo_of(caller.scope)
    turn = _Turn(_place("statistics", body.selection), await _selected(servo, body.selection), body.cursor)
    done = Statistics()
    if turn.asset_id is not None:
        asset_id, after = turn.asset_id, turn.after
        done = await refresh_statistics(servo.workspace, asset_id, after, _asked(caller), dry_run=body.dry_run)
    return StatisticsAnswer(
        dry_run=body.dry_run,
        **turn.progress(done.last_partition),
        files=[_refreshed(one) for one in done.refreshed],
        read_count=done.read,
        missing=done.missing,
        unreadable=done.unreadable,
    )


def _refreshed(one: Refreshed) -> StatisticsFile:
    return StatisticsFile(
        path=one.after.path,
        asset_key=one.version.asset_key,
        partition_key=one.version.partition_key,
        rows_before=one.before.row_count,
        rows_after=one.after.row_count,
        bytes_before=one.before.size_bytes,
        bytes_after=one.after.size_bytes,
        column_count=len(one.after.stats),
    )


@maintenance.post("/maintenance/compaction")
async def compact_data_files(request: Request, caller: CallerDep, body: CompactionRequest) -> CompactionAnswer:
    """Merge small files of current versions into larger ones. What is read stays the same, row by row."""
    host = host_of(request)
    servo = host.servo_of(caller.scope)
    options = f"compaction/{body.target_bytes}/{body.min_files}/{fingerprint(sorted(body.partitions.items()))[:16]}"
    ids = await _selected(servo, body.selection)
    keys = await _keys(servo, ids, body.partitions) if body.partitions else {}
    turn = _Turn(_place(options, body.selection), [name for name in ids if name in keys or not keys], body.cursor)
    done = Compaction()
    if turn.asset_id is not None:
        done = await compact_files(
            servo.workspace,
            turn.asset_id,
            turn.after,
            _asked(caller),
            host.merger_of(caller.scope),
            keys=keys.get(turn.asset_id),
            target=body.target_bytes,
            min_files=body.min_files,
            dry_run=body.dry_run,
        )
    return CompactionAnswer(
        dry_run=body.dry_run,
        **turn.progress(done.last_partition),
        compacted=[_compacted(one) for one in done.compacted],
        unmerged=[
            UnmergedFiles(
                materialization_id=one.version.materialization_id,
                asset_key=one.version.asset_key,
                partition_key=one.version.partition_key,
                version=one.version.version,
                reason=one.reason,
            )
            for one in done.unmerged
        ],
        looked_at_count=done.looked_at,
        changed_count=done.changed,
    )


def _compacted(one: Compacted) -> CompactedFiles:
    return CompactedFiles(
        materialization_id=one.version.materialization_id,
        asset_key=one.version.asset_key,
        partition_key=one.version.partition_key,
        version=one.version.version,
        row_count=one.version.row_count,
        files_before=len(one.before),
        files_after=one.files_after,
        bytes_before=sum(file.size_bytes for file in one.before),
        bytes_after=one.bytes_after,
        merged_bytes=one.merged_bytes,
    )


@maintenance.post("/maintenance/iceberg")
async def look_after_iceberg(request: Request, caller: CallerDep, body: IcebergUpkeepRequest) -> IcebergUpkeepAnswer:
    """Tell the log of Iceberg commits it was not told of, and remove what they leave behind and nobody needs."""
    warehouse = host_of(request).warehouse_of(caller.scope)
    upkeep = warehouse.upkeep
    told = await upkeep.reconciler.reconcile(dry_run=body.dry_run)
    done = await upkeep.collector.collect(dry_run=body.dry_run)
    lag = upkeep.receipts.lag()
    return IcebergUpkeepAnswer(
        dry_run=body.dry_run,
        table_count=told.tables,
        untold=[UntoldCommit(table_id=one.table_id, number=one.number, lost=one.is_lost) for one in told.missing],
        lag_seconds=told.lag_seconds,
        waiting_count=lag.waiting,
        last_lag_seconds=lag.last_seconds,
        untaken_count=lag.refused,
        reports=dict(warehouse.reports),
        undecided_count=told.undecided,
        removed=[
            IcebergObject(
                path=one.info.path,
                kind=one.kind.value,
                table_id=one.table_id or None,
                size_bytes=one.info.size,
                modified_at=format_time(one.info.modified),
            )
            for one in done.garbage
        ],
        kept_count=done.kept,
        left=[*told.troubled, *done.left],
        more=done.is_more,
    )


async def _keys(servo: Servo, ids: Collection[str], partitions: Mapping[str, str]) -> dict[str, set[str]]:
    """The canonical keys of the chosen partitions, by asset, of the assets that have such dimensions."""

    async def found(view: View) -> dict[str, set[str]]:
        project, known = await servo.current_project(view), await read_asset_ids(view)
        chosen: dict[str, set[str]] = {}
        for asset in project.assets:
            names = {dimension.name for dimension in asset.partitions}
            if known.get(asset.key) in ids and names >= set(partitions):
                dynamic = await read_dynamic_partitions(
                    view, [part.partitions.name for part in asset.partitions if hasattr(part.partitions, "name")]
                )
                space = PartitionSpace(asset.partitions, servo.workspace.runtime.now(), dynamic)
                wanted = {name: partitions.get(name, "*") for name in names}
                chosen[known[asset.key]] = {str(key) for key in space.select(wanted)}
        return chosen

    keys, _ = await servo.workspace.logs["catalog"].read(found)
    if not keys:
        raise Invalid(f"no selected asset that is deployed has partitions by {', '.join(sorted(partitions))}")
    return keys


def _asked(caller: Caller) -> Asked:
    return Asked(caller.actor, correlation=caller.request_id, traceparent=caller.traceparent)


async def _locations(catalog: Snapshot) -> set[str]:
    """Folders of tables: what lies below them is theirs."""
    rows = await catalog.scan(TABLES)
    return {location.rstrip("/") for location in rows.column("location").to_pylist() if location}


class _Turn:
    """Where a job stands that goes through one asset after the other, and through each partition by partition."""

    def __init__(self, place: str, ids: Sequence[str], cursor: str | None) -> None:
        last = decode_cursor(place, cursor, 2) or ("", "")
        self._place = place
        self._count = len(ids)
        self._left = [asset_id for asset_id in ids if asset_id >= last[0]]
        self.asset_id = self._left[0] if self._left else None
        self.after = (last[1] or None) if self.asset_id == last[0] else None

    def progress(self, last_partition: str | None) -> dict[str, Any]:
        following = None
        if last_partition is not None:
            following = encode_cursor(self._place, (self._left[0], last_partition))
        elif len(self._left) > 1:
            following = encode_cursor(self._place, (self._left[1], ""))
        done = self._count - len(self._left) + (last_partition is None and bool(self._left))
        return {"asset_count": self._count, "done_count": done, "next_cursor": following}


@dataclass(frozen=True)
class _Chosen:
    """The selected assets, and those of them that one request looks after."""

    kind: str
    ids: list[str]
    begun: int

    @property
    def now(self) -> list[str]:
        return self.ids[self.begun : self.begun + AT_ONCE]

    def progress(self, finished: int) -> dict[str, Any]:
        done = self.begun + finished
        last = self.ids[done - 1] if done else ""
        return {
            "asset_count": len(self.ids),
            "done_count": done,
            "next_cursor": encode_cursor(self.kind, (last,)) if done < len(self.ids) else None,
        }


async def _chosen(servo: Servo, selection: str, kind: str, cursor: str | None) -> _Chosen:
    place = _place(kind, selection)
    last = decode_cursor(place, cursor, 1)
    chosen = await _selected(servo, selection)
    return _Chosen(place, chosen, 0 if last is None else sum(name <= last[0] for name in chosen))


def _place(kind: str, selection: str) -> str:
    """What a cursor belongs to; a selection may be longer than a cursor."""
    return f"{kind}/{fingerprint([selection])[:16]}"


async def _selected(servo: Servo, selection: str) -> list[str]:
    """Ids of the selected assets, in their order."""

    async def found(view: View) -> list[str]:
        if selection.strip() == EVERYTHING:
            rows: list[AssetRow] = await view.rows(ASSETS, WORKSPACE)
            return sorted(row.asset_id for row in rows)
        project, ids = await servo.current_project(view), await read_asset_ids(view)
        return sorted(ids[key] for key in select(selection, project, Graph(project)) if key in ids)

    chosen, _ = await servo.workspace.logs["catalog"].read(found)
    return chosen

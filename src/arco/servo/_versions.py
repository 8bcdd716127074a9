"""Versions for people: which there are, how they stand and why, what was made of them, who reads them now.

Only versions that were ever held back stand in the list of the workspace; of one asset all of them can be listed.
"""

import heapq
from collections.abc import AsyncIterator, Sequence
from typing import Final

from arco.assets import partition_text
from arco.catalog import check_limit, decode_cursor, encode_cursor, number_in, position_of_view
from arco.core import Invalid, PartitionKey, format_time, time_text
from arco.domains.execution import (
    COMPACTED_VERSIONS,
    FILE_STATISTICS,
    HELD,
    HELD_VERSIONS,
    MATERIALIZATIONS,
    PARTITIONS,
    PUBLISHED,
    VERSION_STATUS,
    WORKSPACE,
    CompactedVersion,
    DataFile,
    FileStatistics,
    HeldVersion,
    Materialization,
    Partition,
    VersionStatus,
    files_of,
    find_version,
    held_key,
    known_version,
)
from arco.domains.lineage import LINEAGE_EXECUTIONS, LineageExecution
from arco.domains.orchestration import PLAN_TASKS, RUNS, TASKS, PlanTaskRow, RunRow, TaskRow
from arco.domains.quality import CHECK_RESULTS, GATING_DECISIONS, CheckResult, GatingDecision
from arco.servo._pinned import runs_that_read
from arco.servo._replaced import planned_versions
from arco.state import Replica, Snapshot
from arco.wire import (
    Page,
    VersionCheck,
    VersionDetail,
    VersionFile,
    VersionInfo,
    VersionReader,
)

__all__ = ["HELD_FILTERS", "decision_facts", "list_held_versions", "list_versions", "version_detail"]

View = Replica | Snapshot

MAX_FILES: Final = 1_000
MAX_READERS: Final = 100
MAX_PLANS: Final = 100
"""That are looked at for uses which do not say what they read."""
MAX_LOOKED_AT: Final = 10_000
"""Versions that one page looks at while it searches for those that are asked for."""

HELD_FILTERS: Final = {"held": HELD, "released": (PUBLISHED,), "all": None}
"""What a list of held versions may be asked for beside a status."""


async def list_versions(
    view: View,
    asset_id: str,
    partition: str | None = None,
    status: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Page[VersionInfo]:
    """Versions of an asset, newest first."""
    place = f"versions/{asset_id}/{partition or ''}/{status or ''}"
    last = decode_cursor(place, cursor, 2)
    after = None if last is None else (number_in(last[0]), last[1])
    statuses = {row.materialization_id: row for row in await view.rows(VERSION_STATUS, asset_id)}
    found = []
    for version in await view.rows(MATERIALIZATIONS, asset_id):
        if after is not None and _age(version) >= after:
            continue
        row = statuses.get(version.materialization_id)
        stands = row.status if row is not None else PUBLISHED
        if status in (None, stands) and _is_partition(version.partition_key, partition):
            found.append(version)
    newest = heapq.nlargest(check_limit(limit) + 1, found, key=_age)
    failed = _FailedChecks(view)
    items = [await _info(view, version, statuses.get(version.materialization_id), failed) for version in newest[:limit]]
    following = None
    if len(newest) > limit:
        time, name = _age(newest[limit - 1])
        following = encode_cursor(place, (str(time), name))
    return Page[VersionInfo](items=items, next_cursor=following, position=str(position_of_view(view)))


def _age(version: Materialization) -> tuple[int, str]:
    return version.completed_at, version.materialization_id


def _is_partition(canonical: str, wanted: str | None) -> bool:
    """Whether a partition is the one that somebody named, in its canonical form or as people write it."""
    if wanted is None or canonical == wanted:
        return True
    try:
        text = partition_text(PartitionKey.parse(canonical))
    except Invalid:
        return False
    return sorted(text.split(",")) == sorted(part.strip() for part in wanted.split(","))


async def list_held_versions(
    view: View,
    asset_id: str | None = None,
    partition: str | None = None,
    status: str = "held",
    cursor: str | None = None,
    limit: int = 100,
) -> Page[VersionInfo]:
    """Versions that were ever blocked or quarantined and stand as asked for; what was held back last comes first.

    A page may be short although another one follows: it looks at a limited number of versions.
    """
    place = f"held/{asset_id or ''}/{partition or ''}/{status}"
    last = decode_cursor(place, cursor, 1)
    wanted = HELD_FILTERS.get(status, (status,))
    items: list[VersionInfo] = []
    looked_at, reached, is_more = 0, "", False
    check_limit(limit)
    failed = _FailedChecks(view)
    async for order_key, row in _held(view, asset_id, None if last is None else last[0]):
        if len(items) == limit or looked_at == MAX_LOOKED_AT:
            is_more = True
            break
        looked_at, reached = looked_at + 1, order_key
        if (wanted is None or row.status in wanted) and _is_partition(row.partition_key, partition):
            version: Materialization | None = await view.get(MATERIALIZATIONS, row.asset_id, row.materialization_id)
            if version is not None:
                items.append(await _info(view, version, row, failed))
    return Page[VersionInfo](
        items=items,
        next_cursor=encode_cursor(place, (reached,)) if is_more else None,
        position=str(position_of_view(view)),
    )


async def _held(view: View, asset_id: str | None, after: str | None) -> AsyncIterator[tuple[str, VersionStatus]]:
    """What was held back, from a place in the list on. That of one asset is found among its own versions."""
    if asset_id is not None:
        mine: list[VersionStatus] = await view.rows(VERSION_STATUS, asset_id)
        listed_ones = [row for row in mine if row.held_at is not None and row.version is not None]
        for order_key, row in sorted((held_key(row), row) for row in listed_ones if row.deleted_at is None):
            if after is None or order_key > after:
                yield order_key, row
        return
    page = 256
    while True:
        rows: list[HeldVersion] = await view.page(HELD_VERSIONS, WORKSPACE, after, page)
        for listed in rows:
            after = listed.order_key
            found: VersionStatus = await view.get(VERSION_STATUS, listed.asset_id, listed.materialization_id)
            yield listed.order_key, found
        if len(rows) < page:
            return


class _FailedChecks:
    """Which checks of a version failed; the results of each asset are read once, for a whole list."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._by_version: dict[str, dict[str, set[str]]] = {}

    async def of(self, version: Materialization) -> list[str]:
        if version.asset_id not in self._by_version:
            found: dict[str, set[str]] = {}
            results: list[CheckResult] = await self._view.rows(CHECK_RESULTS, version.asset_id)
            for result in results:
                if not result.passed:
                    found.setdefault(result.materialization_id, set()).add(result.check_name)
            self._by_version[version.asset_id] = found
        return sorted(self._by_version[version.asset_id].get(version.materialization_id, ()))


async def _info(view: View, version: Materialization, row: VersionStatus | None, failed: _FailedChecks) -> VersionInfo:
    partition: Partition | None = await view.get(PARTITIONS, version.asset_id, version.partition_id)
    compacted = await _compacted(view, version)
    return _version(version, row or known_version(version), partition, compacted, await failed.of(version))


async def _compacted(view: View, version: Materialization) -> CompactedVersion | None:
    found: CompactedVersion | None = await view.get(COMPACTED_VERSIONS, version.asset_id, version.materialization_id)
    return found


def _version(
    version: Materialization,
    row: VersionStatus,
    partition: Partition | None,
    compacted: CompactedVersion | None,
    failed_checks: list[str],
) -> VersionInfo:
    return VersionInfo(
        materialization_id=version.materialization_id,
        asset_id=version.asset_id,
        asset_key=version.asset_key,
        partition_key=version.partition_key,
        version=version.version,
        status=row.status,
        current=partition is not None and partition.current_materialization_id == version.materialization_id,
        run_id=version.run_id,
        row_count=version.row_count,
        byte_size=version.byte_size if compacted is None else compacted.byte_size,
        file_count=version.file_count if compacted is None else compacted.file_count,
        compacted_at=None if compacted is None else format_time(compacted.compacted_at),
        completed_at=format_time(version.completed_at),
        held_at=time_text(row.held_at),
        set_by=row.set_by,
        set_at=time_text(row.set_at),
        reason=row.reason,
        failed_checks=failed_checks,
    )


async def version_detail(view: View, asset_id: str, materialization_id: str) -> VersionDetail:
    """A version with its checks, its files, and what was made of it."""
    version, row = await find_version(view, asset_id, materialization_id)
    partition: Partition | None = await view.get(PARTITIONS, asset_id, version.partition_id)
    files = await files_of(view, version)
    readers, is_all = await _readers(view, version)
    failed = await _FailedChecks(view).of(version)
    return VersionDetail(
        **_version(version, row, partition, await _compacted(view, version), failed).model_dump(),
        partition_id=version.partition_id,
        task_id=version.task_id,
        code_version=version.code_version,
        judged=row.judged,
        set_to=row.set_to,
        current_materialization_id=None if partition is None else partition.current_materialization_id,
        current_version=None if partition is None else partition.current_version,
        expired_at=time_text(row.expired_at),
        deleted_at=time_text(row.deleted_at),
        checks=await _checks(view, version),
        files=await _files(view, version, files),
        files_truncated=len(files) > MAX_FILES,
        readers=readers,
        readers_truncated=not is_all,
    )


async def _files(view: View, version: Materialization, files: Sequence[DataFile]) -> list[VersionFile]:
    """The files of a version, with what their footers said when somebody read them again."""
    found = []
    for file in files[:MAX_FILES]:
        row: FileStatistics | None = await view.get(
            FILE_STATISTICS, version.asset_id, (version.materialization_id, file.path)
        )
        known = file if row is None else row
        found.append(VersionFile(path=file.path, size_bytes=known.size_bytes, row_count=known.row_count))
    return found


async def _checks(view: View, version: Materialization) -> list[VersionCheck]:
    results: list[CheckResult] = await view.rows(CHECK_RESULTS, version.asset_id)
    mine = [result for result in results if result.materialization_id == version.materialization_id]
    found = []
    for result in sorted(mine, key=lambda result: (result.passed, result.check_name)):
        decision: GatingDecision | None = await view.get(GATING_DECISIONS, version.asset_id, result.result_id)
        found.append(
            VersionCheck(
                check_name=result.check_name,
                check_type=result.check_type,
                passed=result.passed,
                severity=result.severity,
                expected_value=result.expected_value,
                actual_value=result.actual_value,
                message=result.message or None,
                action=None if decision is None else decision.action,
                policy=None if decision is None else decision.policy,
                decision=(decision.reason or None) if decision is not None else None,
                executed_at=format_time(result.executed_at),
            )
        )
    return found


async def _readers(view: View, version: Materialization) -> tuple[list[VersionReader], bool]:
    """What was made of a version, newest first, and whether that is all."""
    uses: list[LineageExecution] = await view.rows(LINEAGE_EXECUTIONS, version.asset_id)
    found: list[VersionReader] = []
    plans, is_all = 0, True
    for use in sorted(uses, key=lambda use: (use.completed_at, use.execution_id), reverse=True):
        is_read: bool | None = version.materialization_id in use.source_materializations
        if _is_shortened(use):
            plans += 1
            is_read = await _is_planned(view, use, version) if plans <= MAX_PLANS else None
        if is_read is None:
            is_all = False
        elif is_read and len(found) == MAX_READERS:
            return found, False
        elif is_read:
            found += await _reader(view, use)
    return found, is_all


def _is_shortened(use: LineageExecution) -> bool:
    """Whether rows were read and it is not said of what: a task that reads very many versions has no room for them."""
    return bool(use.rows_read) and not use.source_partitions and not use.source_materializations


async def _is_planned(view: View, use: LineageExecution, version: Materialization) -> bool | None:
    """Whether the plan of a use has the version; None if the plan is not known any more."""
    tasks: list[TaskRow] = await view.rows(TASKS, use.run_id)
    task = next((task for task in tasks if task.task_id == use.task_id), None)
    if task is None:
        return None
    planned: PlanTaskRow | None = await view.get(PLAN_TASKS, use.run_id, (use.run_id, task.task_key))
    versions = await planned_versions(view, planned) if planned is not None else None
    return None if versions is None else (version.asset_id, version.materialization_id) in versions


async def _reader(view: View, use: LineageExecution) -> list[VersionReader]:
    """The version that was made by a use; none if nothing is known of it."""
    made: Materialization | None = None
    if use.target_materialization is not None:
        made = await view.get(MATERIALIZATIONS, use.target_id, use.target_materialization)
    if made is None:
        return []
    return [
        VersionReader(
            asset_key=made.asset_key,
            partition_key=made.partition_key,
            materialization_id=made.materialization_id,
            run_id=use.run_id,
        )
    ]


async def decision_facts(view: View, asset_id: str, materialization_id: str) -> dict[str, object]:
    """What somebody wants to know who has just decided about a version: fields of `VersionDecided`."""
    version, row = await find_version(view, asset_id, materialization_id)
    partition: Partition | None = await view.get(PARTITIONS, asset_id, version.partition_id)
    run: RunRow | None = await view.get(RUNS, version.run_id, version.run_id) if version.run_id else None
    return {
        "version": _version(
            version, row, partition, await _compacted(view, version), await _FailedChecks(view).of(version)
        ),
        "current_materialization_id": None if partition is None else partition.current_materialization_id,
        "current_version": None if partition is None else partition.current_version,
        "run_state": None if run is None else run.state,
        "skipped_count": 0 if run is None else run.skipped_count,
        "reading_runs": await runs_that_read(view, materialization_id),
    }

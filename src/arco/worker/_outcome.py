"""From what a driver reports to the one command that ends an attempt: `FinishTask`, with everything in it.

Pure: times are passed in and nothing is read. What the checks answered meets the asset's gating policy here. Three
things stay apart: whether a check passed, how bad it is that it did not, and what is done about it.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from arco.assets import (
    AssetDefinition,
    CheckDefinition,
    Facts,
    GatingAction,
    GatingPolicy,
    Retries,
    SchemaColumn,
    Severity,
    Verdict,
    judge,
    partition_text,
    rule_name,
)
from arco.core import ArcoError, PartitionKey, Refused, sha256_hex
from arco.domains.execution import (
    AssetObserved,
    ColumnStats,
    DataFile,
    MaterializationCompleted,
    MaterializationFailed,
)
from arco.domains.lineage import ColumnLineage, EdgeRecord, LineageRecorded, PartitionRef
from arco.domains.orchestration import FinishTask, Outcome, TaskFailure, TaskLog
from arco.domains.quality.events import CheckExecuted, Gating, check_id
from arco.servo._envelope import Envelope, InputValue, OutputPlace, inputs_fingerprint
from arco.servo._failures import classify
from arco.worker._columns import Columns, columns_written, hash_of, schemas_told
from arco.worker._errors import ChecksFailed, DriverLost
from arco.worker._fitting import fitting
from arco.worker._masking import Mask
from arco.worker._measuring import personal_columns
from arco.worker._messages import CheckAnswer, RaisedError, Report, WrittenOutput, WrittenStats

__all__ = [
    "DEFAULT_GATING",
    "Times",
    "as_raised",
    "cancelled",
    "failed",
    "fault_lines",
    "finished",
    "gate",
    "lost",
    "timed_out",
]

DEFAULT_GATING: Final = GatingPolicy(
    "default",
    {
        Severity.INFO: GatingAction.CONTINUE,
        Severity.WARNING: GatingAction.WARN,
        Severity.ERROR: GatingAction.BLOCK_DOWNSTREAM,
        Severity.CRITICAL: GatingAction.FAIL_RUN,
    },
)
"""What is done for an asset that names no policy: the strict one."""

MAX_EDGES: Final = 1_000
"""Of one task: all that it tells is one event, so that further edges are left out."""
MAX_SOURCES: Final = 2_000
"""Versions that lineage names in one event. An edge for which there is no room says how many rows were read and not of
what; that is in the plan of its run."""
MAX_COLUMN_BYTES: Final = 512 << 10
"""Of column lineage in one event; edges for which no room is left say which assets were read and no more."""
MAX_STATS: Final = 1_000
"""Statistics of columns in one event, over all files of an output."""
MAX_READ: Final = 1_000
"""Partitions of files of others of which one event tells what was read."""
MAX_CHECK_TEXT: Final = 2_000
MAX_PLAN_TEXT: Final = 400

_log = logging.getLogger("arco.worker")

_ORDER: Final = {action: place for place, action in enumerate(GatingAction)}


class Times(msgspec.Struct, frozen=True):
    started_at: int
    finished_at: int


def gate(policy: GatingPolicy | None, name: str, severity: Severity, passed: bool | None) -> Gating | None:
    """What is done about a result; None for one that passed. A check that gave no result blocks at the least."""
    if passed:
        return None
    policy = policy or DEFAULT_GATING
    action = policy.actions.get(severity, policy.default)
    if passed is None and _ORDER[action] < _ORDER[GatingAction.BLOCK_DOWNSTREAM]:
        return Gating(GatingAction.BLOCK_DOWNSTREAM, policy.name, f"the check {name} gave no result")
    said = "gave no result" if passed is None else "failed"
    return Gating(action, policy.name, f"the check {name} {said} with severity {severity}")


def as_raised(error: ArcoError) -> RaisedError:
    """An error of ours in the form in which drivers report those of users."""
    lineage = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__ if kind is not object)
    return RaisedError(lineage, error.message)


def failed(envelope: Envelope, error: RaisedError, times: Times, log: TaskLog | None, mask: Mask) -> FinishTask:
    """The end of an attempt by an error."""
    made = envelope.definitions[0] if envelope.definitions else None
    failure = classify(
        error.lineage,
        mask.fact(error.message),
        mask.fact(error.traceback),
        Retries() if made is None else made.retries,
        run_id=envelope.run_id,
        task_key=envelope.task_key,
        function="" if made is None else made.function,
    )
    return _end(envelope, Outcome.FAILED, times, log, failure)


def lost(
    envelope: Envelope, error: DriverLost, times: Times, log: TaskLog | None, mask: Mask, traceback: str = ""
) -> FinishTask:
    """The end of an attempt whose process is gone: always worth another one, whatever classes the retries name."""
    raised = msgspec.structs.replace(as_raised(error), traceback=traceback)
    end = failed(envelope, raised, times, log, mask)
    failure = msgspec.structs.replace(end.failure, retryable=True) if end.failure else None
    return msgspec.structs.replace(end, failure=failure)


def timed_out(envelope: Envelope, times: Times, log: TaskLog | None) -> FinishTask:
    """The end of an attempt that took longer than it may. For retries it is a `TimeoutError`."""
    seconds = envelope.timeout_seconds or 0
    lineage = ("builtins.TimeoutError", "builtins.OSError", "builtins.Exception", "builtins.BaseException")
    message = f"the task took longer than its timeout of {seconds:g} seconds"
    return failed(envelope, RaisedError(lineage, message), times, log, Mask(()))


def cancelled(envelope: Envelope, times: Times, log: TaskLog | None) -> FinishTask:
    return _end(envelope, Outcome.CANCELLED, times, log)


def finished(envelope: Envelope, report: Report, times: Times, log: TaskLog | None, mask: Mask) -> FinishTask:
    """The end of an attempt whose function came to its end."""
    try:
        _check_complete(envelope, report)
        columns = columns_written(envelope, report)
        outputs = tuple(_outputs(envelope, report, times, mask, columns))
    except Refused as error:
        return failed(envelope, as_raised(error), times, log, mask)
    checks = tuple(_checks(envelope, report, times, mask))
    worst = max(
        (check.gating.action for check in checks if check.gating is not None),
        key=_ORDER.__getitem__,
        default=GatingAction.CONTINUE,
    )
    if worst in (GatingAction.FAIL_TASK, GatingAction.FAIL_RUN):
        bad = [check for check in checks if check.gating is not None and check.gating.action == worst]
        named = sorted({f"{check.check_name}: {check.message}".removesuffix(": ") for check in bad})
        found = as_raised(ChecksFailed(f"checks found the output bad: {'; '.join(named)}"))
        end = failed(envelope, found, times, log, mask)
        failure = msgspec.structs.replace(end.failure, retryable=False) if end.failure else None
        return msgspec.structs.replace(end, failure=failure, checks=checks, gate=worst)
    end = FinishTask(
        run_id=envelope.run_id,
        task_key=envelope.task_key,
        attempt=envelope.attempt,
        attempt_id=envelope.attempt_id,
        outcome=Outcome.SUCCEEDED,
        started_at=times.started_at,
        finished_at=times.finished_at,
        outputs=tuple(_gated(outputs, checks)),
        observations=(*_observations(envelope, report, times, mask), *_sources(envelope, report, times)),
        schemas=tuple(schemas_told(outputs, columns, mask)),
        checks=checks,
        lineage=_lineage(envelope, report, outputs, times, mask),
        gate=worst,
        log=log,
    )
    return fitting(end)


def _end(
    envelope: Envelope, outcome: Outcome, times: Times, log: TaskLog | None, failure: TaskFailure | None = None
) -> FinishTask:
    parts = (
        MaterializationFailed(
            place.asset_id,
            place.asset_key,
            place.partition_id,
            place.partition_key,
            envelope.run_id,
            envelope.task_id,
            failure.message[:1_000],
            times.finished_at,
        )
        for place in envelope.outputs
        if failure is not None
    )
    return FinishTask(
        run_id=envelope.run_id,
        task_key=envelope.task_key,
        attempt=envelope.attempt,
        attempt_id=envelope.attempt_id,
        outcome=outcome,
        started_at=times.started_at,
        finished_at=times.finished_at,
        failure=failure,
        failed=tuple(parts),
        log=log,
    )


# Outputs


def _check_complete(envelope: Envelope, report: Report) -> None:
    """Nothing is recorded as made that the driver did not speak of."""
    told = {written.asset_key for written in report.outputs} | {seen.asset_key for seen in report.seen}
    missing = [place.asset_key for place in envelope.outputs if place.asset_key not in told]
    if missing:
        raise Refused(f"the driver said nothing of {', '.join(missing)}; this is a fault of Arco, please report it")


def _outputs(
    envelope: Envelope, report: Report, times: Times, mask: Mask, columns: Columns
) -> Iterator[MaterializationCompleted]:
    places = {place.asset_key: place for place in envelope.outputs}
    assets = {asset.key: asset for asset in envelope.definitions}
    files = {(one.parameter, one.partition_id): one.data_version for one in report.read}
    read = inputs_fingerprint(
        (given.asset_id, pin.partition_id, pin.materialization_id or files.get((given.parameter, pin.partition_id), ""))
        for given in envelope.inputs
        for pin in given.pins
    )
    for written in report.outputs:
        place, asset = places[written.asset_key], assets[written.asset_key]
        yield MaterializationCompleted(
            materialization_id=place.materialization_id,
            asset_id=place.asset_id,
            asset_key=place.asset_key,
            partition_id=place.partition_id,
            partition_key=place.partition_key,
            run_id=envelope.run_id,
            task_id=envelope.task_id,
            files=tuple(_files(written, mask, personal_columns(asset, place.pii))),
            row_count=sum(file.row_count for file in written.files),
            byte_size=sum(file.size_bytes for file in written.files),
            schema_hash=hash_of(columns.get(asset.key)),
            started_at=times.started_at,
            completed_at=times.finished_at,
            code_version=asset.code_version,
            inputs_fingerprint=read,
            plan=mask.fact(written.plan)[:MAX_PLAN_TEXT],
        )


def _files(written: WrittenOutput, mask: Mask, personal: frozenset[str]) -> Iterator[DataFile]:
    room = MAX_STATS
    for file in written.files:
        stats = tuple(
            _stats(stat, mask, is_personal=stat.column.casefold() in personal)
            for stat in file.stats[:room]
            if mask.passes(stat.column)
        )
        room -= len(stats)
        yield DataFile(file.path, file.size_bytes, file.row_count, stats)


def _stats(stat: WrittenStats, mask: Mask, *, is_personal: bool) -> ColumnStats:
    """What the log keeps for ever of a column: of personal data nothing but how often it is missing."""
    if is_personal:
        return ColumnStats(stat.column, stat.null_count)
    return ColumnStats(stat.column, stat.null_count, _bound(stat.min, mask), _bound(stat.max, mask))


def _bound(value: str | None, mask: Mask) -> str | None:
    return value if value is None or mask.passes(value) else None


def _gated(
    outputs: Iterable[MaterializationCompleted], checks: Iterable[CheckExecuted]
) -> Iterator[MaterializationCompleted]:
    """A version that a check wants in quarantine is kept and never becomes current."""
    bad = {
        check.materialization_id
        for check in checks
        if check.gating is not None and check.gating.action == GatingAction.QUARANTINE
    }
    for output in outputs:
        is_bad = output.materialization_id in bad
        yield msgspec.structs.replace(output, status="quarantined") if is_bad else output


def _observations(envelope: Envelope, report: Report, times: Times, mask: Mask) -> Iterator[AssetObserved]:
    places = {place.asset_key: place for place in envelope.outputs}
    for seen in report.seen:
        place = places[seen.asset_key]
        yield AssetObserved(
            observation_id=place.materialization_id,
            asset_id=place.asset_id,
            asset_key=place.asset_key,
            partition_id=place.partition_id,
            partition_key=place.partition_key,
            data_version=mask.fact(seen.data_version),
            observed_at=times.finished_at,
            row_count=seen.row_count,
            metadata={key: mask.fact(value) for key, value in seen.metadata.items()},
            run_id=envelope.run_id,
        )


def _sources(envelope: Envelope, report: Report, times: Times) -> Iterator[AssetObserved]:
    """What was read of files of others: an observation for each partition of them."""
    inputs = {given.parameter: given for given in envelope.inputs if given.source is not None}
    told: set[tuple[str, str]] = set()
    for read in report.read[:MAX_READ]:
        given = inputs[read.parameter]
        if (given.asset_id, read.partition_id) in told:
            continue  # two parameters read the same files
        told.add((given.asset_id, read.partition_id))
        key = next(pin.partition_key for pin in given.pins if pin.partition_id == read.partition_id)
        about = {"files": str(read.files), "bytes": str(read.size_bytes)}
        yield AssetObserved(
            observation_id=f"obs_{sha256_hex(f'{envelope.attempt_id}:{read.partition_id}'.encode())[:32]}",
            asset_id=given.asset_id,
            asset_key=given.asset_key,
            partition_id=read.partition_id,
            partition_key=key,
            data_version=read.data_version,
            observed_at=times.finished_at,
            metadata={**about, **({"names": "\n".join(read.names)} if read.names else {})},
            run_id=envelope.run_id,
        )


# Checks


def _checks(envelope: Envelope, report: Report, times: Times, mask: Mask) -> Iterator[CheckExecuted]:
    """A result for every check of every output: one that was not answered gave no result."""
    answered = {(answer.asset_key, answer.name): answer for answer in report.checks}
    places = {place.asset_key: place for place in envelope.outputs}
    for asset in envelope.definitions:
        place = places.get(asset.key)
        if place is None:
            continue
        judged = _judged(envelope, asset, place, report, times)
        for check in asset.checks:
            verdict = judged.get(check.name) or _said(check, answered.get((asset.key, check.name)))
            yield _executed(envelope, asset, check, verdict, place, times, mask)


def _said(check: CheckDefinition, answer: CheckAnswer | None) -> Verdict:
    if answer is None:
        return Verdict(None, check.severity)
    return Verdict(answer.passed, check.severity, answer.message, answer.expected, answer.actual)


def _judged(
    envelope: Envelope, asset: AssetDefinition, place: OutputPlace, report: Report, times: Times
) -> dict[str, Verdict]:
    """What the rules of an asset make of what was measured."""
    measured = next((one for one in report.measured if one.asset_key == asset.key), None)
    if measured is None:
        return {}
    written = next((one for one in report.outputs if one.asset_key == asset.key), None)
    facts = Facts(_columns(written), times.started_at, envelope.window_end, _known(place))
    views = {given.asset_key: given.parameter for given in envelope.inputs if given.parameter}
    found = {}
    for check in asset.checks:
        if check.rule is not None:
            verdict = judge(check, measured.values, facts, views)
            told = "; ".join(text for text in (verdict.message, measured.samples.get(check.name, "")) if text)
            found[check.name] = msgspec.structs.replace(verdict, message=told)
    return found


def _known(place: OutputPlace) -> dict[str, list[float]]:
    """History without the windows of which nothing is known."""
    return {name: [one for one in numbers if one is not None] for name, numbers in place.history.items()}


def _columns(written: WrittenOutput | None) -> tuple[SchemaColumn, ...] | None:
    if written is None or not written.schema:
        return None
    from arco.worker._schemas import seen_columns

    return seen_columns(written.schema)


def _executed(
    envelope: Envelope,
    asset: AssetDefinition,
    check: CheckDefinition,
    verdict: Verdict,
    place: OutputPlace,
    times: Times,
    mask: Mask,
) -> CheckExecuted:
    def text(value: str | None) -> str | None:
        return None if value is None else mask.fact(value)[:MAX_CHECK_TEXT]

    return CheckExecuted(
        check_id=check_id(place.asset_id, check.name),
        check_name=check.name,
        check_type="python" if check.rule is None else rule_name(check.rule),
        asset_id=place.asset_id,
        partition_id=place.partition_id,
        materialization_id=place.materialization_id,
        run_id=envelope.run_id,
        task_id=envelope.task_id,
        passed=bool(verdict.passed),
        severity=verdict.severity,
        executed_at=times.finished_at,
        expected_value=text(verdict.expected),
        actual_value=text(verdict.actual),
        message=text(verdict.message) or "",
        gating=gate(asset.gating, check.name, verdict.severity, verdict.passed),
    )


def fault_lines(envelope: Envelope, end: FinishTask) -> Iterator[str]:
    """What the log of a task says of checks that did not pass, unless nothing is to be done about them."""
    keys = {place.asset_id: place.asset_key for place in envelope.outputs}
    partition = partition_text(PartitionKey.parse(envelope.partition_key))
    place = f"[{partition}]" if partition else ""
    for check in end.checks:
        if check.gating is not None and check.gating.action != GatingAction.CONTINUE:
            action = check.gating.action.replace("_", " ")
            told = f": {check.message}" if check.message else ""
            yield f"{keys[check.asset_id]}{place}: {check.gating.reason} ({action}){told}"


# Lineage


def _lineage(
    envelope: Envelope, report: Report, outputs: tuple[MaterializationCompleted, ...], times: Times, mask: Mask
) -> LineageRecorded | None:
    """An edge per parameter and output that is made of it, with columns as far as they are known."""
    columns = {written.asset_key: written.lineage for written in report.outputs}
    unread = {written.asset_key: written.unread for written in report.outputs}
    assets = {asset.key: asset for asset in envelope.definitions}
    pairs = [
        (given, output)
        for output in outputs
        for given in envelope.inputs
        if given.parameter
        and _depends(assets[output.asset_key], given)
        and given.parameter not in unread[output.asset_key]
    ][:MAX_EDGES]
    if not pairs:
        return None
    room, sources = MAX_COLUMN_BYTES, MAX_SOURCES
    edges = []
    for given, output in pairs:
        told = columns.get(output.asset_key, {}).get(given.parameter, b"")
        told = told if len(told) <= room else b""
        room -= len(told)
        code = assets[output.asset_key].code_version
        count = sum(not pin.seen for pin in given.pins)
        is_detailed = count <= sources
        sources -= count if is_detailed else 0
        lineage = _column_lineage(told, mask, given, output)
        edges.append(_edge(given, output, lineage, code, detailed=is_detailed))
    return LineageRecorded(envelope.run_id, envelope.task_id, times.started_at, times.finished_at, tuple(edges))


def _depends(asset: AssetDefinition, given: InputValue) -> bool:
    return any(
        dependency.parameter == given.parameter and dependency.key == given.asset_key
        for dependency in asset.dependencies
    )


def _column_lineage(
    told: bytes, mask: Mask, given: InputValue, output: MaterializationCompleted
) -> ColumnLineage | None:
    """What a driver tells of columns; None if there is nothing, or if an event cannot or may not name one of them."""
    try:
        lineage = msgspec.json.decode(told, type=ColumnLineage) if told else None
    except msgspec.DecodeError as error:  # a driver runs code of users; the result is good without it
        _log.warning("the lineage of columns of %s from %s is left out: %s", output.asset_key, given.asset_key, error)
        return None
    return lineage if lineage is None or all(map(mask.passes, _texts(lineage))) else None


def _texts(lineage: ColumnLineage) -> set[str]:
    columns = [
        *(mapping.target_column for mapping in lineage.mappings),
        *(column for mapping in lineage.mappings for column in mapping.source_columns),
        *(column for influence in lineage.influences or () for column in influence.source_columns),
        *lineage.unmapped_columns,
    ]
    reasons = (lineage.reason, *(mapping.reason for mapping in lineage.mappings))
    return {*(column.name for column in columns), *(reason for reason in reasons if reason)}


def _edge(
    given: InputValue, output: MaterializationCompleted, columns: ColumnLineage | None, code: str, *, detailed: bool
) -> EdgeRecord:
    read = [pin for pin in given.pins if not pin.seen]
    pins = read if detailed else []
    return EdgeRecord(
        source_id=given.asset_id,
        target_id=output.asset_id,
        parameter=given.parameter,
        partition_mapping=given.mapping,
        source_materializations=tuple(pin.materialization_id for pin in pins if pin.materialization_id),
        target_materialization=output.materialization_id,
        source_partitions=tuple(PartitionRef(pin.partition_id, pin.partition_key) for pin in pins),
        target_partitions=(PartitionRef(output.partition_id, output.partition_key),),
        rows_read=sum(file.row_count for pin in read for file in pin.files) if given.source is None else None,
        rows_written=output.row_count,
        column_lineage=columns,
        code_version=code if columns is not None else "",
    )

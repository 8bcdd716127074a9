"""Commands that look after data and its history: let old versions and old rows go, remove files that belong to none,
read footers again, merge small files.

They ask part by part, so that none of the requests takes long and whoever watches sees how far they are.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import typer
from rich.console import RenderableType

from arco.cli._answers import confirm, document_of
from arco.cli._command import Session, changes
from arco.cli._connect import connect
from arco.cli._open import reading
from arco.cli._options import CompactionMasterOption, EngineOption, PartitionsOption, YesOption
from arco.cli._output import grid, say, shown_size, shown_time
from arco.cli._run_text import shown_partition
from arco.cli._specs import parse_duration, parse_partitions, parse_size
from arco.client import AsyncClient
from arco.core import Invalid, LostObject
from arco.spark import (
    SPARK_FROM_BYTES,
    CompactionEngine,
    Site,
    SparkMerger,
    master_for,
    missing_for_spark,
    require_spark,
    spark_sessions,
)
from arco.wire import (
    CompactedFiles,
    CompactionAnswer,
    CompactionRequest,
    ExpiredRows,
    ExpireVersionsAnswer,
    ExpireVersionsRequest,
    HistoryRequest,
    IcebergUpkeepAnswer,
    IcebergUpkeepRequest,
    MaintenanceAnswer,
    OrphanFile,
    OrphansAnswer,
    OrphansRequest,
    RetiredVersion,
    StatisticsAnswer,
    StatisticsRequest,
)

__all__ = ["app"]

app = typer.Typer(
    help="Let old versions of data and old history go, remove files that belong to none, merge small files.",
    no_args_is_help=True,
)

LISTED = 20
"""Versions and files that are shown to people; --json has all of them."""

MAX_HOURS = 8_760
TARGETS = (1 << 20, 1 << 30)
"""Sizes that merged files may have."""

SelectionArgument = Annotated[
    str, typer.Argument(metavar="SELECTION", help="Assets, as for `arco run`; all if left out.", show_default=False)
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]

Done = TypeVar("Done", bound=MaintenanceAnswer)


async def _whole(session: Session, what: str, ask: Callable[[str | None], Awaitable[Done]]) -> list[Done]:
    """All answers, part by part, with the progress for who watches."""
    answers: list[Done] = []
    cursor: str | None = None
    with session.output.progress(what) as progress:
        while True:
            answer = await ask(cursor)
            answers.append(answer)
            progress(answer.done_count, answer.asset_count)
            cursor = answer.next_cursor
            if cursor is None:
                return answers


def _gathered(answers: Sequence[MaintenanceAnswer], *names: str) -> dict[str, Any]:
    """One document of several answers: lists are joined, numbers are added."""
    documents = [document_of(answer) for answer in answers]
    whole = {name: [item for document in documents for item in document[name]] for name in names}
    counts = [name for name in documents[0] if name.endswith("_count") and name not in ("asset_count", "done_count")]
    added = {name: sum(document[name] for document in documents) for name in counts}
    return {"dry_run": answers[-1].dry_run, "asset_count": answers[-1].asset_count, **whole, **added}


@changes(app)
async def versions(
    session: Session, selection: SelectionArgument = "*", dry_run: DryRunOption = False, yes: YesOption = False
) -> None:
    """Let versions expire that nobody needs any more, and delete those that expired a day ago.

    A partition keeps its newest good versions: at least retention.min_versions, at the most retention.max_versions,
    and those younger than retention.min_days (`arco settings`). The current version, what runs under way read or made,
    and what was held back within these days always stay. Files go retention.grace_hours after their version expired.
    """
    if not dry_run:
        confirm(session, f"Let go of old versions of {selection}? --dry-run shows which.", yes)
    async with connect(session) as client:
        answers = await _whole(session, "versions", lambda cursor: _expire(client, selection, dry_run, cursor))
    document = _gathered(answers, "expired", "deleted")
    expired = [one for answer in answers for one in answer.expired]
    deleted = [one for answer in answers for one in answer.deleted]
    parts: list[RenderableType] = []
    if expired:
        done = "would expire" if dry_run else "expired"
        parts += [say(f"{_versions(len(expired))} {done}", "bold")]
        parts += _retired_grid(expired)
    if deleted:
        size = shown_size(sum(one.byte_size for one in deleted))
        files = "their files would be deleted" if dry_run else "their files are deleted"
        parts += [say(f"{_versions(len(deleted))} expired before: {files} ({size})", "bold"), *_retired_grid(deleted)]
    if not parts:
        parts.append(say(f"Nothing to let go in {_assets(document['asset_count'])}."))
    kept = [
        (document["waiting_count"], "expired before, and their files are kept for the time of grace"),
        (document["in_use_count"], "stay because runs under way read or made them"),
        (document["foreign_count"], "stay because files of them lie outside their own folder"),
    ]
    parts += [say(f"{_versions(count)} {why}.", "dim") for count, why in kept if count]
    session.output.emit(document, *parts)


async def _expire(client: AsyncClient, selection: str, dry_run: bool, cursor: str | None) -> ExpireVersionsAnswer:
    return await client.expire_versions(ExpireVersionsRequest(selection=selection, dry_run=dry_run, cursor=cursor))


def _versions(count: int) -> str:
    return "1 version" if count == 1 else f"{count:,} versions"


def _assets(count: int) -> str:
    return "1 asset" if count == 1 else f"{count:,} assets"


def _retired_grid(retired: list[RetiredVersion]) -> list[RenderableType]:
    rows = [
        [one.asset_key, shown_partition(one.partition_key) or None, one.version, shown_size(one.byte_size), one.reason]
        for one in retired[:LISTED]
    ]
    return [grid(["asset", "partition", "version", "size", "why"], rows), *_more(len(retired))]


def _more(count: int) -> list[RenderableType]:
    """What is said where not all of so many are shown."""
    return [say(f"and {count - LISTED:,} more; --json lists all", "dim")] if count > LISTED else []


@changes(app)
async def history(session: Session, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Let go of what happened long ago: runs, results of checks, uses of lineage, requests, the audit.

    How long each is kept is set by history.runs_days and others like it (`arco settings show`). Days of checks and of
    lineage stay as counts, and so do versions of data: `arco maintain versions` looks after those. A server does this
    by itself once a day; runs that have not ended always stay.
    """
    if not dry_run:
        confirm(session, "Let go of history that is older than the settings keep? --dry-run shows what.", yes)
    async with connect(session) as client:
        done = await client.expire_history(HistoryRequest(dry_run=dry_run))
    parts: list[RenderableType] = []
    if done.expired:
        count = sum(one.row_count for one in done.expired)
        size = shown_size(sum(one.byte_size for one in done.expired))
        parts.append(say(f"{count:,} rows {'would go' if dry_run else 'are gone'} ({size}).", "bold"))
        parts.append(grid(["log", "table", "rows", "size", "since", "before", "why"], map(_expired_row, done.expired)))
    if done.edge_count:
        went = "would go" if dry_run else "went"
        parts.append(say(f"Lineage edges of deleted assets that {went}: {done.edge_count:,}."))
    if not parts:
        parts.append(say("Nothing is older than the settings keep."))
    parts += [say(f"kept: {text}", "dim") for text in done.held]
    session.output.emit(document_of(done), *parts)


def _expired_row(one: ExpiredRows) -> list[Any]:
    size, since, before = shown_size(one.byte_size), _day(one.oldest), _day(one.before)
    return [one.log, one.table, one.row_count, size, since, before, one.reason]


def _day(time: str | None) -> str | None:
    return None if time is None else time[:10]


@changes(app)
async def orphans(
    session: Session,
    selection: SelectionArgument = "*",
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="Only files written longer ago; 1h at the least.")
    ] = "24h",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Remove files of assets that belong to no version: what failed attempts, deleted versions and compactions left.

    Folders of attempts that run, of versions that are not deleted and of tables of the catalog are never touched, and
    neither are replaced files of which an attempt that runs was told.
    """
    hours, rest = divmod(parse_duration(older_than, example="36h", may_be_zero=True), 3600)
    if rest or not 1 <= hours <= MAX_HOURS:
        raise Invalid(
            f"--older-than takes whole hours or days, from 1h to {MAX_HOURS}h, not {older_than[:20]!r}; "
            "an attempt may write for a while"
        )
    if not dry_run:
        confirm(session, f"Remove files of {selection} that belong to no version? --dry-run shows which.", yes)
    async with connect(session) as client:

        async def ask(cursor: str | None) -> OrphansAnswer:
            request = OrphansRequest(selection=selection, dry_run=dry_run, cursor=cursor, older_than_hours=hours)
            return await client.remove_orphan_files(request)

        answers = await _whole(session, "orphans", ask)
    document = _gathered(answers, "files")
    files = [file for answer in answers for file in answer.files]
    if not files:
        nothing = (
            f"No file in {_assets(document['asset_count'])} belongs to nobody; {document['kept_count']:,} are kept."
        )
        session.output.emit(document, say(nothing))
        return
    size = shown_size(sum(file.size_bytes for file in files))
    would = "would be removed" if dry_run else "removed"
    head = say(f"{len(files):,} {'file' if len(files) == 1 else 'files'} {would} ({size}).", "bold")
    session.output.emit(document, head, *_files_grid(files))


@changes(app)
async def iceberg(session: Session, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Tell the log of commits to Iceberg tables that it missed, and remove what commits leave behind.

    Removed are superseded pointers and the traces of requests after eight days, metadata files of commits that came to
    nothing, metadata that fell out of its table's log if the table wants that, and the folders of tables that were
    dropped with purge a day ago. What is reachable, young or in doubt stays.
    """
    if not dry_run:
        confirm(session, "Remove what Iceberg tables do not need any more? --dry-run shows what.", yes)
    answers: list[IcebergUpkeepAnswer] = []
    async with connect(session) as client:
        while not answers or (answers[-1].more and not dry_run):
            answers.append(await client.look_after_iceberg(IcebergUpkeepRequest(dry_run=dry_run)))
    removed = [one for answer in answers for one in answer.removed]
    untold = [one for answer in answers for one in answer.untold]
    document = {**document_of(answers[-1]), "lag_seconds": answers[0].lag_seconds}
    document |= {"untold": [document_of(one) for one in untold], "removed": [document_of(one) for one in removed]}
    told, gone = "that the log was told of", "removed"
    if dry_run:
        told, gone = "that the log would be told of", "that would be removed"
    size = shown_size(sum(one.size_bytes for one in removed))
    parts: list[RenderableType] = [
        say(f"Iceberg tables and views: {document['table_count']:,}. Commits {told}: {len(untold):,}."),
        say(f"Objects {gone}: {len(removed):,} ({size}); kept: {document['kept_count']:,}.", "bold"),
    ]
    if removed:
        rows = [[one.path, one.kind, shown_size(one.size_bytes), shown_time(one.modified_at)] for one in removed]
        parts += [grid(["object", "what", "size", "written"], rows[:LISTED]), *_more(len(rows))]
    parts += [
        *(say(f"left alone: {text}", "yellow") for text in document["left"][:LISTED]),
        *_more(len(document["left"])),
    ]
    session.output.emit(document, *parts)


@changes(app)
async def statistics(session: Session, selection: SelectionArgument = "*", dry_run: DryRunOption = False) -> int | None:
    """Read the footers of the files of current versions again, and note what is not known of them yet.

    Files that are missing or cannot be read are named; exits with 7 if there are any.
    """
    async with connect(session) as client:

        async def ask(cursor: str | None) -> StatisticsAnswer:
            request = StatisticsRequest(selection=selection, dry_run=dry_run, cursor=cursor)
            return await client.refresh_file_statistics(request)

        answers = await _whole(session, "statistics", ask)
    document = _gathered(answers, "files", "missing", "unreadable")
    files = [file for answer in answers for file in answer.files]
    would = "would be noted" if dry_run else "noted"
    parts: list[RenderableType] = [
        say(f"{document['read_count']:,} footers read in {_assets(document['asset_count'])}; {len(files):,} {would}.")
    ]
    if files:
        rows = [
            [file.path, file.rows_before, file.rows_after, shown_size(file.bytes_after), file.column_count]
            for file in files[:LISTED]
        ]
        parts += [grid(["file", "rows before", "rows", "size", "columns"], rows), *_more(len(files))]
    for what, paths in (("missing", document["missing"]), ("unreadable", document["unreadable"])):
        parts += [*(say(f"{what}: {path}", "bold red") for path in paths[:LISTED]), *_more(len(paths))]
    session.output.emit(document, *parts)
    return LostObject.exit_code if document["missing"] or document["unreadable"] else None


def _files_grid(files: list[OrphanFile]) -> list[RenderableType]:
    rows = [[file.path, shown_size(file.size_bytes), shown_time(file.modified_at)] for file in files[:LISTED]]
    return [grid(["file", "size", "written"], rows), *_more(len(files))]


@changes(app)
async def compaction(
    session: Session,
    selection: SelectionArgument = "*",
    partitions: PartitionsOption = None,
    target_size: Annotated[
        str, typer.Option("--target-size", metavar="SIZE", help="What merged files have at the most, 1MiB to 1GiB.")
    ] = "128MiB",
    min_files: Annotated[
        int,
        typer.Option("--min-files", metavar="N", min=2, max=10_000, help="Only versions with so many files to merge."),
    ] = 5,
    engine: EngineOption = CompactionEngine.AUTO,
    master: CompactionMasterOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Merge the small files of current versions into larger ones. What is read stays the same, row by row.

    A version keeps its id. The files that are replaced stay for those who read them, until `arco maintain orphans`
    removes them a day later.
    """
    request = CompactionRequest(
        selection=selection,
        partitions=parse_partitions(partitions),
        target_bytes=_target(target_size),
        min_files=min_files,
        dry_run=True,
    )
    address = master_for(engine, master, session.project.loaded.settings.spark_master)
    if engine is CompactionEngine.SPARK and not dry_run:
        require_spark(address)
    async with connect(session) as client:
        answers = await _whole(session, "looking for small files", lambda cursor: _compaction(client, request, cursor))
    due = [one for answer in answers for one in answer.compacted]
    if due and not dry_run:
        is_spark = _is_for_spark(session, engine, address, sum(one.merged_bytes for one in due))
        asking = request.model_copy(update={"dry_run": False})
        async with _merging(session, address, is_spark) as client:
            answers = await _merged(session, client, asking, len(due))
    document = _gathered(answers, "compacted", "unmerged")
    session.output.emit({**document, "dry_run": dry_run}, *_compaction_text(answers, document, dry_run))


def _target(text: str) -> int:
    size = parse_size(text)
    if not TARGETS[0] <= size <= TARGETS[1]:
        raise Invalid("--target-size is from 1MiB to 1GiB; a file is merged in memory")
    return size


async def _compaction(client: AsyncClient, request: CompactionRequest, cursor: str | None) -> CompactionAnswer:
    return await client.compact_data_files(request.model_copy(update={"cursor": cursor}))


async def _merged(
    session: Session, client: AsyncClient, request: CompactionRequest, total: int
) -> list[CompactionAnswer]:
    """All answers, with the progress in versions: one asset may have most of them."""
    answers: list[CompactionAnswer] = []
    cursor: str | None = None
    with session.output.progress("merging small files") as progress:
        while True:
            answers.append(await _compaction(client, request, cursor))
            done = sum(len(answer.compacted) + len(answer.unmerged) + answer.changed_count for answer in answers)
            progress(min(done, total), total)
            cursor = answers[-1].next_cursor
            if cursor is None:
                return answers


def _is_for_spark(session: Session, engine: CompactionEngine, master: str, size: int) -> bool:
    if engine is not CompactionEngine.AUTO:
        return engine is CompactionEngine.SPARK
    if size < SPARK_FROM_BYTES:
        return False
    settings = session.project.loaded.settings
    trouble = "the server was named" if settings.url and not settings.embedded else missing_for_spark(master)
    if trouble is not None:
        session.output.note(f"merging {shown_size(size)} without Spark, which would be faster: {trouble}")
    return trouble is None


@asynccontextmanager
async def _merging(session: Session, master: str, is_spark: bool) -> AsyncIterator[AsyncClient]:
    """Who merges: whoever serves the workspace, or this process with Spark."""
    if not is_spark:
        async with connect(session) as client:
            yield client
        return
    async with reading(session.project, session.runtime) as reader:
        place = reader.place("activity")
    site = Site.of(session.project.store, session.project.loaded.settings.store_options, place)
    with spark_sessions(master) as sessions:
        async with connect(session, SparkMerger(site, session.runtime, sessions)) as client:
            session.output.note("merging small files on Spark")
            yield client


def _compaction_text(
    answers: Sequence[CompactionAnswer], document: dict[str, Any], dry_run: bool
) -> list[RenderableType]:
    compacted = [one for answer in answers for one in answer.compacted]
    unmerged = [one for answer in answers for one in answer.unmerged]
    parts: list[RenderableType] = []
    if compacted:
        before, after = sum(one.files_before for one in compacted), sum(one.files_after for one in compacted)
        size = shown_size(sum(one.merged_bytes for one in compacted))
        would = "would have" if dry_run else "have"
        head = f"{_versions(len(compacted))} {would} {after:,} files instead of {before:,} ({size} merged)."
        parts += [say(head, "bold"), *_compacted_grid(compacted)]
    else:
        looked_at = _versions(document["looked_at_count"])
        parts.append(say(f"No small files to merge in {looked_at} of {_assets(document['asset_count'])}."))
    parts += [
        say(f"{one.asset_key} {shown_partition(one.partition_key)} keeps its files: {one.reason}", "yellow")
        for one in unmerged[:LISTED]
    ]
    parts += _more(len(unmerged))
    if document["changed_count"]:
        parts.append(say(f"{_versions(document['changed_count'])} somebody else changed meanwhile; they stay.", "dim"))
    if compacted and not dry_run:
        parts.append(say("The replaced files stay for a day; then `arco maintain orphans` removes them.", "dim"))
    return parts


def _compacted_grid(compacted: Sequence[CompactedFiles]) -> list[RenderableType]:
    rows = [
        [
            one.asset_key,
            shown_partition(one.partition_key) or None,
            one.version,
            one.files_before,
            one.files_after,
            shown_size(one.bytes_before),
            *([] if one.bytes_after is None else [shown_size(one.bytes_after)]),
        ]
        for one in compacted[:LISTED]
    ]
    headers = ["asset", "partition", "version", "files before", "files", "size before", "size"]
    return [grid(headers[: len(rows[0])], rows), *_more(len(compacted))]

"""Commands that look after state: publish, merge and pack, fold anew or compare, delete what nobody reaches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from arco.backup import collect_workspace
from arco.cli._command import Session, command
from arco.cli._erase import buried_document, buried_text
from arco.cli._open import definitions, open_base, reading, writing
from arco.cli._options import CompactionMasterOption, EngineOption, LogArgument
from arco.cli._output import grid, say, shown_size
from arco.core import Corrupt, Invalid, Refused
from arco.log import Place, number_of
from arco.runtime import OpenLog, Workspace
from arco.spark import (
    ChoosingRunner,
    CompactionEngine,
    Site,
    SparkRunner,
    master_for,
    require_spark,
    spark_sessions,
)
from arco.state import Collection, LocalRunner, Manifest, Runner, base_for, packed_through, verify_revision
from arco.storage import Store

__all__ = ["app"]

app = typer.Typer()

LISTED = 20
"""Paths that `gc --dry-run` prints; `--json` has all of them."""


@command(app)
async def compact(
    session: Session,
    log: LogArgument = None,
    engine: EngineOption = CompactionEngine.AUTO,
    master: CompactionMasterOption = None,
) -> None:
    """Fold new events, publish a revision, finish due merges, and pack old segments.

    Segments are packed once enough of them have gathered below the newest ones (pack_segments or pack_mib, pack_keep).
    Each pack is one object instead of many; `arco gc` deletes what is in packs an hour later.
    """
    rows, documents = [], []
    async with _working(session, log, engine, master) as (workspace, runners):
        for name, opened in workspace.logs.items():
            before = opened.compactor.head.manifest
            with session.output.progress(f"compacting {name}") as progress:
                after = await opened.compactor.compact(runners[name].is_bulk, progress)
            merges = await _merges_between(opened, before, after)
            packed = packed_through(after) - packed_through(before)
            document = {
                **_step(name, before, after),
                "merges": merges,
                "packed_segments": packed,
                "packed_through": packed_through(after),
            }
            documents.append(document)
            rows.append([*_step_row(document), merges, packed])
    headers = [*STEP_HEADERS, "merges", "segments packed"]
    session.output.emit({"logs": documents}, grid(headers, rows))


@asynccontextmanager
async def _working(
    session: Session, log: str | None, engine: CompactionEngine, master: str | None
) -> AsyncIterator[tuple[Workspace, dict[str, ChoosingRunner]]]:
    """The workspace with a runner for each log that goes by the options and tells what it chooses."""
    project, runtime = session.project, session.runtime
    runners: dict[str, ChoosingRunner] = {}
    address = master_for(engine, master, project.loaded.settings.spark_master)
    with spark_sessions(address) as sessions:

        def runner(store: Store, place: Place) -> Runner:
            site = Site.of(project.store, project.loaded.settings.store_options, place)
            spark = SparkRunner(store, site, runtime, sessions)
            local = LocalRunner(store, place, runtime)
            found = ChoosingRunner(engine, local, spark, store, place, runtime, session.output.note, address)
            return runners.setdefault(place.log, found)

        if engine is CompactionEngine.SPARK:
            require_spark(address)
        async with writing(project, runtime, log, runner) as workspace:
            yield workspace, runners


STEP_HEADERS = ["log", "revision before", "after", "through segment", "layers", "size"]


def _step(log: str, before: Manifest, after: Manifest) -> dict[str, Any]:
    return {
        "log": log,
        "revision_before": before.number,
        "revision_after": after.number,
        "segment": number_of(int(after.watermark)),
        "layers": len(after.layers),
        "bytes": sum(layer.bytes for layer in after.layers),
    }


def _step_row(step: dict[str, Any]) -> list[object]:
    return [
        *[step[name] for name in ("log", "revision_before", "revision_after", "segment", "layers")],
        shown_size(step["bytes"]),
    ]


async def _merges_between(opened: OpenLog, before: Manifest, after: Manifest) -> int:
    """Merges that were announced or pending, and are not any more."""
    seen = {known.id for known in before.pending if known.kind == "merge"}
    for number in range(before.number + 1, after.number):
        manifest = (await opened.snapshot(revision=number)).manifest
        seen |= {known.id for known in manifest.pending if known.kind == "merge"}
    return len(seen - {known.id for known in after.pending})


@command(app)
async def rebuild(
    session: Session,
    log: LogArgument = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only compare with what is published; exits with 7 if anything differs.")
    ] = False,
    engine: EngineOption = CompactionEngine.AUTO,
    master: CompactionMasterOption = None,
) -> int | None:
    """Fold the log from its beginning and swap the state in.

    Readers see the old state until the new one is complete. With --verify nothing is changed.
    """
    if verify:
        if engine is CompactionEngine.SPARK or master is not None:
            raise Invalid(
                "--verify writes nothing, so it folds in the memory of this process; leave out `--engine spark` and "
                "--master"
            )
        return await _compare(session, log)
    documents = []
    async with _working(session, log, engine, master) as (workspace, _):
        for name, opened in workspace.logs.items():
            before = opened.compactor.head.manifest
            with session.output.progress(f"folding {name} anew") as progress:
                after = await opened.compactor.rebuild(progress)
            documents.append(_step(name, before, after))
    session.output.emit({"logs": documents}, grid(STEP_HEADERS, [_step_row(document) for document in documents]))
    return None


async def _compare(session: Session, log: str | None) -> int | None:
    rows, documents = [], []
    async with reading(session.project, session.runtime) as reader:
        for definition in definitions(log):
            name = definition.log
            head = (await reader.revisions(name).head()).manifest
            if base_for(definition, head).number != head.number:
                raise Refused(
                    f"revision {head.number} of {name} was made by another fold version; run `arco compact` first"
                )
            with session.output.progress(f"folding {name} anew") as progress:
                ledger = reader.ledger(name, head.packs)
                compared = await verify_revision(definition, reader.handle(), ledger, head, progress)
            for found in compared:
                verdict = say("equal", "green") if found.equal else say("differs", "bold red")
                rows.append([name, str(head.number), found.table, found.rows, found.refolded_rows, verdict])
                counts = {"rows": found.rows, "refolded_rows": found.refolded_rows, "equal": found.equal}
                documents.append({"log": name, "revision": head.number, "table": found.table, **counts})
    different = [document["table"] for document in documents if not document["equal"]]
    conclusion: RenderableType = (
        say(
            f"The state differs from the log in {', '.join(map(str, different))}; `arco rebuild` replaces it.",
            "bold red",
        )
        if different
        else say("The published state is what the log says.", "green")
    )
    headers = ["log", "revision", "table", "published rows", "folded anew", "result"]
    session.output.emit({"equal": not different, "tables": documents}, grid(headers, rows), conclusion)
    return Corrupt.exit_code if different else None


@command(app)
async def gc(
    session: Session,
    log: LogArgument = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> None:
    """Delete files and manifests that no reader can reach any more, segments that are in packs, and what is left of
    incarnations that a restore or an erasure superseded.

    Packs are read before the segments go that they hold. Any object that cannot be read stops it before anything is
    deleted.
    """
    project = session.project
    async with open_base(project, session.runtime) as base:
        cleared = await collect_workspace(
            base,
            project.scope,
            session.runtime,
            log=log,
            dry_run=dry_run,
            watched=lambda name: session.output.progress(f"collecting {name}"),
        )
    found, buried = cleared.logs, cleared.buried
    deleted = "would delete" if dry_run else "deleted"
    headers = ["log", f"{deleted} files", "manifests", "segments", "size", "kept files", "revisions", "segments"]
    rows = [
        [
            done.log,
            len(done.files),
            len(done.manifests),
            len(done.segments),
            shown_size(done.bytes),
            done.kept_files,
            done.kept_revisions,
            done.kept_segments,
        ]
        for done in found
    ]
    paths = [(info.path, info.size) for info in cleared.objects]
    parts: list[RenderableType] = [grid(headers, rows), *buried_text(buried, deleted)]
    if dry_run and paths:
        parts.append(grid(["path", "size"], [[path, shown_size(size)] for path, size in paths[:LISTED]]))
        if len(paths) > LISTED:
            parts.append(say(f"and {len(paths) - LISTED:,} more; --json lists all", "dim"))
    document = {"dry_run": dry_run, "logs": [_collection_document(done) for done in found]}
    session.output.emit({**document, "incarnations": [buried_document(one) for one in buried]}, *parts)


def _collection_document(done: Collection) -> dict[str, Any]:
    return {
        "log": done.log,
        "files": [info.path for info in done.files],
        "manifests": [info.path for info in done.manifests],
        "segments": [info.path for info in done.segments],
        "bytes": done.bytes,
        "kept_files": done.kept_files,
        "kept_revisions": done.kept_revisions,
        "kept_segments": done.kept_segments,
        "floor": done.floor,
        "segment_floor": done.segment_floor,
    }

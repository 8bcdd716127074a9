"""`arco doctor`: is the store what Arco needs, and is everything there that the workspace promises?"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

import typer
from rich.text import Text

from arco.catalog import current_data, lost_data
from arco.cli._command import Session, command
from arco.cli._formats import FORMATS
from arco.cli._open import Reader, definitions, reading
from arco.cli._options import LogArgument
from arco.cli._output import Output, grid, say
from arco.cli._points import Point, snapshot_at
from arco.core import DAY, ArcoError, Corrupt, StoreRefused, format_time, new_ulid
from arco.iceberg import Pointers, examine_iceberg, open_locations
from arco.runtime import AsyncRuntime
from arco.state import Definition, Finding, Level, examine_log, plan_upgrade
from arco.storage import self_test

__all__ = ["app", "report"]

app = typer.Typer()

CATALOG, ACTIVITY = "catalog", "activity"

MOST_FILES = 20
"""Lost files of data that are named."""

STYLES = {Level.OK: "green", Level.NOTE: "blue", Level.WARNING: "yellow", Level.ERROR: "bold red"}


@command(app)
async def doctor(session: Session, log: LogArgument = None) -> int | None:
    """Check the store, chains, hashes, density and references, what Iceberg tables lead to, and whether the files of
    current versions are there.

    Writes nothing but a test below selftest/, which it removes. Exits with 7 if it finds an error, with 5 if a newer
    program wrote what there is.
    """
    project = session.project
    document: dict[str, object] = {"workspace": project.scope.root, "store": project.store, "incarnation": None}
    try:
        async with reading(project, session.runtime) as reader:
            document["incarnation"] = reader.incarnation.id
            findings = [await _examine_store(reader, session.runtime), _incarnation(reader)]
            for definition in definitions(log):
                with session.output.progress(f"examining {definition.log}") as progress:
                    handle, place = reader.handle(), reader.place(definition.log)
                    findings += await examine_log(definition, handle, place, session.runtime, progress)
                findings += await _versions(reader, definition)
            if log in (None, CATALOG):
                findings += await _examine_iceberg(session, reader)
            if log in (None, ACTIVITY):
                findings += await _examine_data(session, reader)
    except Corrupt as error:  # the incarnation itself; what lies below it is examined, not raised
        findings = [Finding(Level.ERROR, "", "incarnation", error.message, str(error.details.get("path", "")))]
    return report(session.output, document, findings)


async def _examine_store(reader: Reader, runtime: AsyncRuntime) -> Finding:
    try:
        await self_test(reader.handle(), runtime, new_ulid(runtime, runtime))
    except StoreRefused as error:
        return Finding(Level.ERROR, "", "store", error.message)
    return Finding(Level.OK, "", "store", "creates are atomic, reads follow writes, missing is missing")


async def _examine_iceberg(session: Session, reader: Reader) -> list[Finding]:
    """The tables and views that the newest state names. Where a log cannot be read its own findings say why."""
    project, runtime, life = session.project, session.runtime, reader.incarnation.id
    settings = project.loaded.settings
    places = settings.allowed_locations.split()
    store = reader.handle()
    now = Point(time=runtime.now() + DAY)
    try:
        catalog = await snapshot_at(reader, definitions(CATALOG)[0], now)
    except ArcoError as error:
        return [Finding(Level.WARNING, CATALOG, "iceberg", f"not checked, the catalog cannot be read: {error.message}")]
    try:
        activity = await snapshot_at(reader, definitions(ACTIVITY)[0], now)
    except ArcoError:
        activity = None
    locations = open_locations(store, project.store, project.scope.root, settings.store_options, places, runtime)
    pointers = Pointers(store, f"{life}/iceberg", runtime, life)
    try:
        with session.output.progress("examining Iceberg tables") as progress:
            return await examine_iceberg(catalog, activity, pointers, locations, progress)
    finally:
        await locations.close()


async def _examine_data(session: Session, reader: Reader) -> list[Finding]:
    """One list of all data says what is there. Where the log cannot be read its own findings say why."""
    try:
        activity = await snapshot_at(reader, definitions(ACTIVITY)[0], Point(time=session.runtime.now() + DAY))
        wanted = await current_data(activity)
    except ArcoError as error:
        return [Finding(Level.WARNING, ACTIVITY, "data", f"not checked, the log cannot be read: {error.message}")]
    if not wanted:
        return []
    there: dict[str, int] = {}
    with session.output.progress("examining files of data") as progress:
        async for info in reader.handle().list("data"):
            if info.path in wanted:
                there[info.path] = info.size
                progress(len(there), len(wanted))
    lost = lost_data(wanted, there)
    findings = [
        Finding(Level.ERROR, ACTIVITY, "data", f"{text}; run what makes it with --force", path)
        for path, text in list(lost.items())[:MOST_FILES]
    ]
    if len(lost) > MOST_FILES:
        more = f"so are {len(lost) - MOST_FILES} more files of current versions"
        findings.append(Finding(Level.ERROR, ACTIVITY, "data", more))
    kept = len(wanted) - len(lost)
    if kept:
        text = f"{kept} files of current versions are there and as long as they were; what is in them is not read"
        findings.append(Finding(Level.OK, ACTIVITY, "data", text))
    return findings


async def _versions(reader: Reader, definition: Definition) -> list[Finding]:
    """By which folds the newest revision was made. Where it cannot be read its own findings say why."""
    try:
        head = (await reader.revisions(definition.log).head()).manifest
    except ArcoError:
        return []
    plan = plan_upgrade(definition, head)
    folds = ", ".join(f"{name} {version}" for name, version in sorted(plan.before.items()))
    if plan.is_refold:
        text = f"made by older folds ({folds}); `arco upgrade` folds it anew"
        return [Finding(Level.WARNING, definition.log, "versions", text)]
    known = ", ".join(f"{found.name} {found.newest}" for found in FORMATS if found.newest)
    return [Finding(Level.OK, definition.log, "versions", f"folds: {folds}; formats known here: {known}")]


def _incarnation(reader: Reader) -> Finding:
    life = reader.incarnation
    message = f"{life.id}, number {life.number}, since {format_time(life.created_at)} ({life.reason})"
    return Finding(Level.OK, "", "incarnation", message)


def report(output: Output, document: Mapping[str, object], findings: list[Finding]) -> int | None:
    """Print findings, and return the exit code they ask for."""
    count = Counter(finding.level for finding in findings)
    errors, warnings = count[Level.ERROR], count[Level.WARNING]
    rows = [
        [say(found.level.value, STYLES[found.level]), found.log or None, found.check, _message(found)]
        for found in findings
    ]
    listed = [{**asdict(found), "level": found.level.value} for found in findings]
    output.emit(
        {**document, "healthy": not errors, "errors": errors, "warnings": warnings, "findings": listed},
        grid(["level", "log", "check", "finding"], rows),
        _verdict(errors, warnings),
    )
    return Corrupt.exit_code if errors else None


def _message(found: Finding) -> str:
    """The finding, with its file unless the sentence names it already."""
    return found.message if found.path in found.message else f"{found.message} ({found.path})"


def _verdict(errors: int, warnings: int) -> Text:
    if errors:
        return say(f"Not healthy: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}.", "bold red")
    if warnings:
        return say(f"Healthy, with {_counted(warnings, 'warning')} worth a look.", "yellow")
    return say("Healthy: everything that must be there is there and is what it must be.", "green")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

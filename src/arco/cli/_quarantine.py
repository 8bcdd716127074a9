"""Commands on versions that are held back: list and show them, put versions into quarantine, release them."""

import sys
from enum import StrEnum
from shlex import quote
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import RenderableType
from rich.text import Text

from arco.cli._answers import confirm, document_of, facts, gather, list_out, page_size, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, AssetArgument, LimitOption, YesOption
from arco.cli._output import explained, grid, say, shown_size, shown_time, titled, visible
from arco.cli._run_text import shown_partition
from arco.cli._specs import parse_partitions
from arco.client import AsyncClient
from arco.core import Invalid, NotFound, Refused
from arco.wire import VersionCheck, VersionDecided, VersionDecision, VersionDetail, VersionInfo

__all__ = ["PartitionOption", "app", "partition_of", "versions_out"]

app = typer.Typer(
    help="Look at versions that are held back, put versions into quarantine and release them.", no_args_is_help=True
)

LISTED = 20
"""Files and readers of a version that are shown to people; --json has more of them."""
FAILED = 3
"""Failed checks that a list names."""
HELD = ("blocked", "quarantined")
_STYLES = {"published": "green", "blocked": "yellow", "quarantined": "magenta"}

PartitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition", "-p", metavar="NAME=KEY", help="The partition; repeat it for each dimension.", show_default=False
    ),
]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--version", metavar="N", help="The number of the version, or its materialization id.", show_default=False
    ),
]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for those who look later. Asked for if left out."),
]


class HeldStatus(StrEnum):
    HELD = "held"
    BLOCKED = "blocked"
    QUARANTINED = "quarantined"
    RELEASED = "released"
    EXPIRED = "expired"
    ALL = "all"


def _status(status: str) -> Text:
    return say(status, _STYLES.get(status, "dim"))


def _name(version: VersionInfo) -> str:
    """`version 2 of sales.orders[date=2026-01-03]`."""
    partition = shown_partition(version.partition_key)
    return f"version {version.version} of {version.asset_key}{f'[{partition}]' if partition else ''}"


def _options(version: VersionInfo) -> str:
    """What to write after a command to name the version again."""
    partition = shown_partition(version.partition_key)
    parts = [f" -p {quote(part)}" for part in partition.split(",") if part]
    return f"{version.asset_key}{''.join(parts)}"


def partition_of(given: list[str] | None) -> str | None:
    pairs = parse_partitions(given)
    return ",".join(f"{name}={value}" for name, value in sorted(pairs.items())) or None


# List and show


@asks(app, "list")
async def list_held(
    session: Session,
    asset: Annotated[str | None, typer.Option("--asset", metavar="ASSET", help="Only of this asset.")] = None,
    partition: PartitionOption = None,
    status: Annotated[
        HeldStatus, typer.Option("--status", case_sensitive=False, help="How they stand now.")
    ] = HeldStatus.HELD,
    as_of: AsOfOption = None,
    limit: LimitOption = 50,
) -> None:
    """List versions that are held back by their checks or by somebody, the last one first.

    --status released lists those that somebody vouched for, all also those that expired since.
    """
    async with connect(session) as client:
        pages = client.list_quarantine(
            asset=asset,
            partition=partition_of(partition),
            status=cast(Any, status.value),
            limit=page_size(limit),
            as_of=as_of,
        )
        items, more = await gather(pages, limit)
    of_asset = f" of {asset}" if asset else ""
    empty = f"No version{of_asset} is {status.value}."
    if status in (HeldStatus.HELD, HeldStatus.ALL):
        ever = "was ever" if status is HeldStatus.ALL else "is"
        empty = f"No version{of_asset} {ever} held back: nothing is blocked or quarantined."
    versions_out(session, items, more, empty)


def versions_out(session: Session, items: list[VersionInfo], more: bool, empty: str) -> None:
    headers = ["asset", "partition", "version", "status", "since", "why", "materialization"]
    list_out(session, "versions", items, more, headers, _row, empty)
    held = next((item for item in items if item.status in HELD), None)
    if held is not None and not session.output.as_json:
        session.output.note(f"arco quarantine show {_options(held)} says more")


def _row(found: VersionInfo) -> list[object]:
    since = found.set_at or (found.held_at if found.status in HELD else found.completed_at)
    status = Text.assemble(_status(found.status), (" (current)", "dim") if found.current else "")
    head = [found.asset_key, shown_partition(found.partition_key) or None, found.version, status]
    return [*head, shown_time(since), _why(found), found.materialization_id]


def _why(found: VersionInfo) -> str | None:
    if found.set_by is not None:
        return f"{found.reason} ({found.set_by})"
    if found.status not in HELD:
        return None
    shown = ", ".join(found.failed_checks[:FAILED]) + (", ..." if len(found.failed_checks) > FAILED else "")
    return f"failed {shown}" if shown else "its checks"


@asks(app)
async def show(
    session: Session,
    asset: AssetArgument,
    partition: PartitionOption = None,
    version: VersionOption = None,
    as_of: AsOfOption = None,
) -> None:
    """Show a version: how it stands and why, what its checks found, its files, what was made of it.

    Without --version the newest one of the partition.
    """
    async with connect(session) as client:
        named = await _named(client, asset, partition, version, as_of=as_of)
        found = await client.get_asset_version(asset, named.materialization_id, as_of=as_of)
    session.output.emit(document_of(found), *_detail(session, found))


def _detail(session: Session, found: VersionDetail) -> list[RenderableType]:
    told = facts(
        [
            ("status", _status(found.status)),
            ("decided", _decided(found)),
            ("checks say", found.judged if found.set_to is not None and found.judged != found.set_to else None),
            ("readers get", _readers_get(found)),
            ("made", f"{shown_time(found.completed_at)} by the run {found.run_id}"),
            ("rows", found.row_count),
            (
                "size",
                f"{shown_size(found.byte_size)} in {found.file_count:,} {'file' if found.file_count == 1 else 'files'}",
            ),
            ("expired", shown_time(found.expired_at)),
            ("deleted", shown_time(found.deleted_at)),
            ("code", found.code_version),
            ("materialization", found.materialization_id),
        ]
    )
    parts: list[RenderableType] = [titled(_capital(_name(found)), told)]
    if found.checks:
        rows = [_check_row(check) for check in found.checks]
        headers = ["check", "result", "severity", "action", "what it found"]
        policies = sorted({check.policy for check in found.checks if check.policy})
        if policies:
            of = "policy" if len(policies) == 1 else "policies"
            parts.append(say(f"What its checks did, by the gating {of} {', '.join(policies)}:", "dim"))
        parts.append(explained(session.output.people, headers, rows))
    if found.files:
        files = [[file.path, file.row_count, shown_size(file.size_bytes)] for file in found.files[:LISTED]]
        parts.append(grid(["file", "rows", "size"], files))
        if len(found.files) > LISTED or found.files_truncated:
            parts.append(say(f"The first {LISTED} of {found.file_count:,} files; --json has more.", "dim"))
    if found.readers:
        made = [
            [reader.asset_key, shown_partition(reader.partition_key) or None, reader.run_id, reader.materialization_id]
            for reader in found.readers[:LISTED]
        ]
        parts.append(titled("Made of it", grid(["asset", "partition", "run", "materialization"], made)))
    if found.readers_truncated:
        parts.append(say("There may be more that was made of it.", "dim"))
    if found.status in HELD:
        release = f"arco quarantine release {_options(found)} --version {found.version} --reason TEXT"
        again = f"arco run {_options(found)}"
        parts.append(Text.assemble(("If it is right after all: ", "dim"), (visible(release), "bold cyan")))
        parts.append(
            Text.assemble(
                ("If not, correct its code or what it is made of, then: ", "dim"), (visible(again), "bold cyan")
            )
        )
    return parts


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _decided(found: VersionDetail) -> str | None:
    if found.set_by is None:
        return None
    verb = "quarantined" if found.set_to == "quarantined" else "released"
    return f"{verb} by {found.set_by} at {shown_time(found.set_at)}: {found.reason}"


def _readers_get(found: VersionDetail) -> str:
    if found.current:
        return "this version"
    return f"version {found.current_version}" if found.current_version is not None else "nothing"


def _check_row(check: VersionCheck) -> list[object]:
    said = check.message or ""
    compared = [
        f"{word} {value}"
        for word, value in (("expected", check.expected_value), ("found", check.actual_value))
        if value is not None and value not in said
    ]
    told = ": ".join(part for part in (said, ", ".join(compared)) if part)
    result = say("passed", "green") if check.passed else say("failed", "bold red")
    action = check.action.replace("_", " ") if check.action else None
    return [check.check_name, result, check.severity, action, told or check.decision]


async def _named(
    client: AsyncClient,
    asset: str,
    partition: list[str] | None,
    version: str | None,
    *,
    wanted: Literal["newest", "current", "held"] = "newest",
    as_of: str | None = None,
) -> VersionInfo:
    """The version that somebody means: the one named, or of the partition the newest, current or held one."""
    text = partition_of(partition)
    if version is not None and not version.isdecimal():
        return await client.get_asset_version(asset, version, as_of=as_of)
    items: list[VersionInfo] = []
    async for item in client.list_asset_versions(asset, partition=text, as_of=as_of):
        if version is None or item.version == int(version):
            items.append(item)
        if version is not None and text is not None and items:
            break
        if version is None and text is not None and (item.current or item.status in HELD or wanted == "newest"):
            break
    return _chosen(asset, text, version, items, wanted)


def _chosen(
    asset: str, partition: str | None, version: str | None, items: list[VersionInfo], wanted: str
) -> VersionInfo:
    of = f"{asset}[{partition}]" if partition else asset
    if not items:
        number = f" {version}" if version is not None else ""
        raise NotFound(f"{of} has no version{number}; `arco assets versions {asset}` lists those there are")
    keys = {item.partition_key for item in items}
    if len(keys) > 1:
        some = shown_partition(min(keys))
        options = " ".join(f"-p {part}" for part in some.split(","))
        raise Invalid(f"{asset} has {len(keys):,} partitions with versions; say which one, such as {options}")
    if version is not None or wanted == "newest":
        return items[0]
    if wanted == "current":
        found = next((item for item in items if item.current), None)
        if found is None:
            raise Refused(f"{of} has no version that readers get, so there is nothing to quarantine")
        return found
    if items[0].status not in HELD:
        raise Refused(
            f"the newest version of {of} is {items[0].status}, so there is nothing to release; name an older one "
            "with --version"
        )
    return items[0]


# Decide


@changes(app, "set")
async def set_aside(
    session: Session,
    asset: AssetArgument,
    partition: PartitionOption = None,
    version: VersionOption = None,
    reason: ReasonOption = None,
    yes: YesOption = False,
) -> None:
    """Put a version into quarantine: readers get the last good one again, and no new run reads this one.

    Without --version the current one of the partition. What you decide wins over checks, until somebody releases it.
    """
    async with connect(session) as client:
        found = await _named(client, asset, partition, version, wanted="current")
        why = _reason(session, reason, f"Why is {_name(found)} bad? ")
        confirm(session, f"Put {_name(found)} into quarantine?", yes)
        request = VersionDecision(reason=why)
        done = await client.quarantine_version(asset, found.materialization_id, request, key=session.request_key)
    name = _name(done.version)
    said = f"{_capital(name)} is quarantined{_but(done, why)}. {_now_current(done)}"
    _decided_out(session, done, said)


@changes(app)
async def release(
    session: Session,
    asset: AssetArgument,
    partition: PartitionOption = None,
    version: VersionOption = None,
    reason: ReasonOption = None,
    yes: YesOption = False,
) -> None:
    """Release a version that is quarantined or blocked: you vouch for it, and no check holds it back again.

    Without --version the newest one of the partition. What was skipped because of it runs with `arco runs rerun`.
    """
    async with connect(session) as client:
        found = await _named(client, asset, partition, version, wanted="held")
        why = _reason(session, reason, f"Why is {_name(found)} good? ")
        confirm(session, f"Release {_name(found)}?", yes)
        request = VersionDecision(reason=why)
        done = await client.release_version(asset, found.materialization_id, request, key=session.request_key)
    said = f"{_capital(_name(done.version))} is released{_but(done, why)}. {_now_current(done)}"
    _decided_out(session, done, said)


def _reason(session: Session, given: str | None, question: str) -> str:
    """Why somebody decides. Asked for on a terminal."""
    if given is None and sys.stdin.isatty() and sys.stderr.isatty():
        session.output.aside.print(Text(visible(question)), end="")
        given = sys.stdin.readline()
    if given is None or not given.strip():
        raise Invalid("a decision about a version needs its reason; say it with --reason TEXT")
    return given.strip()


def _but(done: VersionDecided, reason: str) -> str:
    """What to add if nothing changed because it stood so already."""
    if done.version.reason == reason:
        return ""
    by = f" by {done.version.set_by} ({done.version.reason})" if done.version.set_by is not None else ""
    return f" already{by}, so nothing changed"


def _now_current(done: VersionDecided) -> str:
    if done.version.current:
        return "Readers get it."
    if done.current_version is None:
        return "Readers get nothing: there is no other good version."
    return f"Readers get version {done.current_version}."


def _decided_out(session: Session, done: VersionDecided, said: str) -> None:
    written_out(session, done, said)
    if session.output.as_json:
        return
    if done.version.status == "published" and done.skipped_count and done.run_state is not None:
        tasks = "1 task was" if done.skipped_count == 1 else f"{done.skipped_count:,} tasks were"
        again = f"arco runs rerun {done.version.run_id}"
        if done.run_state in ("SUCCEEDED", "FAILED", "CANCELLED"):
            session.output.note(f"{tasks} skipped in the run that made it; `{again}` runs what it did not finish")
        else:
            session.output.note(f"{tasks} skipped in the run that made it, and stay so; once it is over: `{again}`")
    if done.version.status == "quarantined" and done.reading_runs:
        runs = ", ".join(done.reading_runs)
        session.output.note(f"runs under way that were planned to read it go on with it: {runs}")

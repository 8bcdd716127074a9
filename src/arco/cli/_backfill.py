"""`arco backfill`: a run over a range of time or over a list of partitions, through the same planner as every run."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from arco.cli._command import Session, changes
from arco.cli._options import BatchOption, SelectionArgument, TagsOption, WatchOption
from arco.cli._plan import ForceOption
from arco.cli._run import DryRunOption, start_run
from arco.cli._specs import parse_pairs, parse_partitions
from arco.core import Invalid, TooLarge
from arco.wire import RunRequestBody

__all__ = ["app"]

app = typer.Typer()

MAX_FILE_BYTES = 16 << 20
MAX_KEYS = 100_000


@changes(app)
async def backfill(
    session: Session,
    selection: SelectionArgument,
    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="The first partition of time, such as 2026-01-01.")
    ] = "",
    until: Annotated[
        str, typer.Option("--to", metavar="TIME", help="The last one; the newest there is if left out.")
    ] = "",
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="NAME=KEYS",
            help="Of a dimension: a key, several (a,b), a range (a..b) or all (*). Repeatable, also for one dimension.",
        ),
    ] = None,
    partitions_file: Annotated[
        Path | None,
        typer.Option(
            "--partitions-file",
            metavar="FILE",
            help="A partition on each line, such as date=2026-01-01,region=eu, or the key if there is one dimension.",
        ),
    ] = None,
    batch: BatchOption = 0,
    force: ForceOption = False,
    max_parallelism: Annotated[
        int, typer.Option("--max-parallelism", min=0, metavar="N", help="Jobs at once; 0 for as many as there may be.")
    ] = 0,
    tags: TagsOption = None,
    watch: WatchOption = None,
    dry_run: DryRunOption = False,
) -> int | None:
    """Make many partitions: a range of time, or those that are named.

    It is one run. It makes what is missing or outdated; partitions that are up to date are left out, unless --force is
    given, and so are those of the same code that are made of nothing. One that fails does not stop the others, and
    `arco runs rerun` runs again what did not succeed. Exits like `arco run`.

    arco backfill +sales.daily --from 2026-01-01 --to 2026-03-31

    arco backfill sales.daily --partitions-file bad_days.txt --batch 10
    """
    listed = read_partitions(partitions_file) if partitions_file is not None else []
    if not (since or until or partitions or partitions_file is not None):
        raise Invalid("say which partitions: --from and --to, --partition NAME=KEYS, or --partitions-file FILE")
    if listed and (since or until or partitions):
        raise Invalid("--partitions-file names the partitions one by one; leave --from, --to and --partition out")
    request = RunRequestBody(
        selection=selection,
        partitions=merge_pairs(partitions or ()),
        window=f"{since}..{until}" if since or until else "",
        partition_keys=listed,
        mode="force" if force else "fill",
        max_parallelism=max_parallelism,
        tags=parse_pairs("--tag", tags),
        batch=batch,
    )
    return await start_run(session, request, watch, dry_run=dry_run, by_asset=True)


def merge_pairs(given: Iterable[str]) -> dict[str, str]:
    """`NAME=KEYS` texts by name; keys of the same name are put together."""
    found: dict[str, list[str]] = {}
    for text in given:
        for name, keys in parse_partitions([text]).items():
            found.setdefault(name, []).append(keys)
    return {name: ",".join(keys) for name, keys in found.items()}


def read_partitions(path: Path) -> list[str]:
    """The lines of a file, without empty ones and those that begin with #."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is no text in UTF-8; write a partition on each line") from None
    found = list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if len(data) > MAX_FILE_BYTES or len(found) > MAX_KEYS:
        raise TooLarge(f"{path} has more than {MAX_KEYS:,} partitions or {MAX_FILE_BYTES >> 20} MiB; split it")
    if not found:
        raise Invalid(f"{path} names no partition; write one on each line")
    return found

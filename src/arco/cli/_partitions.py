"""Commands on sets of dynamic partitions: the keys that are added and dropped while a workspace runs."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from arco.cli._answers import confirm, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, LimitOption, YesOption
from arco.cli._output import say
from arco.wire import DynamicPartitionsChange

__all__ = ["app"]

app = typer.Typer(help="List, add and drop keys of dynamic partitions.", no_args_is_help=True)

PAGE = 1000

SetArgument = Annotated[
    str, typer.Argument(metavar="SET", help="The name of the set, as dynamic() has it.", show_default=False)
]
KeysArgument = Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys.", show_default=False)]


@asks(app, "list")
async def list_keys(session: Session, name: SetArgument, as_of: AsOfOption = None, limit: LimitOption = 100) -> None:
    """List the keys of a set."""
    keys: list[str] = []
    cursor: str | None = None
    async with connect(session) as client:
        while True:
            size = min(limit - len(keys), PAGE) if limit else PAGE
            found = await client.list_dynamic_partitions(name, cursor=cursor, limit=size, as_of=as_of)
            keys += found.keys
            cursor = found.next_cursor
            if cursor is None or (limit and len(keys) >= limit):
                break
    document = {"name": name, "keys": keys, "more": cursor is not None}
    parts: list[RenderableType] = [Text("\n").join(say(key) for key in keys)]
    if not keys:
        parts = [say(f"{name} has no keys; `arco partitions add {name} KEY` adds one.")]
    if cursor is not None:
        parts.append(say(f"The first {len(keys):,}; --limit 0 shows all.", "dim"))
    session.output.emit(document, *parts)


@changes(app)
async def add(session: Session, name: SetArgument, keys: KeysArgument) -> None:
    """Add keys to a set. Those it has already stay."""
    async with connect(session) as client:
        request = DynamicPartitionsChange(keys=keys)
        written = await client.add_dynamic_partitions(name, request, key=session.request_key)
    written_out(session, written, f"{name} has {_keys(keys)}.")


@changes(app)
async def drop(session: Session, name: SetArgument, keys: KeysArgument, yes: YesOption = False) -> None:
    """Drop keys of a set. Data that was made for them stays."""
    confirm(session, f"Drop {_keys(keys)} of {name}?", yes)
    async with connect(session) as client:
        request = DynamicPartitionsChange(keys=keys)
        written = await client.drop_dynamic_partitions(name, request, key=session.request_key)
    written_out(session, written, f"{name} no longer has {_keys(keys)}.")


def _keys(keys: list[str]) -> str:
    return f"{len(keys):,} keys" if len(keys) > 3 else ", ".join(keys)

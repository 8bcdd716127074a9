"""Commands on namespaces."""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from arco.cli._answers import confirm, document_of, facts, gather, list_out, page_size, written_out
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import (
    AsOfOption,
    DescriptionOption,
    IfExistsOption,
    IfNotExistsOption,
    LimitOption,
    NamespaceArgument,
    PropertiesOption,
    RemovePropertiesOption,
    YesOption,
)
from arco.cli._output import say, shown_time, titled
from arco.cli._specs import changed, parse_pairs
from arco.client import AsyncClient
from arco.wire import HistoryEntry, NamespaceCreate, NamespaceInfo, NamespaceRename, NamespaceUpdate

__all__ = ["HISTORY_HEADERS", "app", "history_row", "walk_namespaces"]

app = typer.Typer(help="Create, list and change namespaces.", no_args_is_help=True)

HISTORY_HEADERS = ["time", "change", "name", "in", "by"]


class Clearable(StrEnum):
    DESCRIPTION = "description"


async def walk_namespaces(
    client: AsyncClient, parent: str | None = None, as_of: str | None = None
) -> AsyncIterator[NamespaceInfo]:
    """Every namespace below one, or all, each before those it holds."""
    async for found in client.list_namespaces(parent, limit=page_size(0), as_of=as_of):
        yield found
        async for below in walk_namespaces(client, f"id:{found.id}", as_of):
            yield below


@changes(app)
async def create(
    session: Session,
    name: NamespaceArgument,
    description: DescriptionOption = None,
    properties: PropertiesOption = None,
    if_not_exists: IfNotExistsOption = False,
) -> None:
    """Create a namespace.

    Those above it must exist: create sales before sales.eu.
    """
    request = NamespaceCreate(
        name=name,
        description=description,
        properties=parse_pairs("--property", properties),
        if_not_exists=if_not_exists,
    )
    async with connect(session) as client:
        written = await client.create_namespace(request, key=session.request_key)
    made = written.namespace
    written_out(session, written, f"The namespace {made.name} is there.", f"id {made.id}")


@asks(app, "list")
async def list_(
    session: Session,
    parent: Annotated[
        str | None, typer.Argument(metavar="[PARENT]", help="Those directly below it.", show_default=False)
    ] = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="Those further below, too.")] = False,
    as_of: AsOfOption = None,
    limit: LimitOption = 100,
) -> None:
    """List namespaces: those at the top, or those below one."""
    async with connect(session) as client:
        if recursive:
            items, more = await _first(walk_namespaces(client, parent, as_of), limit)
        else:
            items, more = await gather(client.list_namespaces(parent, limit=page_size(limit), as_of=as_of), limit)
    headers = ["namespace", "description", "properties", "updated", "id"]
    list_out(session, "namespaces", items, more, headers, _row, "There are none; `arco namespace create` makes one.")


async def _first(found: AsyncIterator[NamespaceInfo], limit: int) -> tuple[list[NamespaceInfo], bool]:
    items: list[NamespaceInfo] = []
    async for item in found:
        if limit and len(items) == limit:
            return items, True
        items.append(item)
    return items, False


def _row(found: NamespaceInfo) -> list[object]:
    return [found.name, found.description, found.properties or None, shown_time(found.updated_at), found.id]


@asks(app)
async def show(session: Session, name: NamespaceArgument, as_of: AsOfOption = None) -> None:
    """Show a namespace. A name it had before finds it too."""
    async with connect(session) as client:
        found = await client.get_namespace(name, as_of=as_of)
    lines = facts(
        [
            ("id", found.id),
            ("description", found.description),
            ("properties", found.properties),
            ("version", str(found.version)),
            ("created", f"{shown_time(found.created_at)} by {found.created_by}"),
            ("updated", f"{shown_time(found.updated_at)} by {found.updated_by}"),
            ("renamed from", found.renamed_from),
        ]
    )
    session.output.emit(document_of(found), titled(found.name, lines))


@changes(app)
async def update(
    session: Session,
    name: NamespaceArgument,
    description: DescriptionOption = None,
    properties: PropertiesOption = None,
    remove_properties: RemovePropertiesOption = None,
    clear: Annotated[list[Clearable] | None, typer.Option("--clear", help="Take this away. Repeatable.")] = None,
) -> None:
    """Change what is said of a namespace.

    What is not named stays as it is.
    """
    given: dict[str, Any] = {
        "description": description,
        "set_properties": parse_pairs("--property", properties) or None,
        "remove_properties": remove_properties or None,
    }
    request = NamespaceUpdate(**changed(given, clear))
    async with connect(session) as client:
        written = await client.update_namespace(name, request, key=session.request_key)
    written_out(session, written, f"Changed {written.namespace.name}.", f"version {written.namespace.version}")


@changes(app)
async def rename(
    session: Session,
    name: NamespaceArgument,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new path.", show_default=False)],
) -> None:
    """Rename a namespace or move it below another one.

    Everything in it keeps its id, and old names go on finding it.
    """
    async with connect(session) as client:
        written = await client.rename_namespace(name, NamespaceRename(new_name=new_name), key=session.request_key)
    written_out(session, written, f"{name} is {written.namespace.name} now.", f"version {written.namespace.version}")


@changes(app)
async def drop(
    session: Session,
    name: NamespaceArgument,
    if_exists: IfExistsOption = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop everything in it as well.")] = False,
    yes: YesOption = False,
) -> None:
    """Drop a namespace.

    Refused while it holds something, unless --cascade is given.
    """
    confirm(session, f"Drop the namespace {name}{' and everything in it' if cascade else ''}?", yes)
    async with connect(session) as client:
        written = await client.drop_namespace(name, if_exists=if_exists, cascade=cascade, key=session.request_key)
    written_out(session, written, f"The namespace {name} is gone.")


@asks(app)
async def history(
    session: Session, name: NamespaceArgument, as_of: AsOfOption = None, limit: LimitOption = 100
) -> None:
    """List the names a namespace has had."""
    async with connect(session) as client:
        items, more = await gather(client.get_namespace_history(name, as_of=as_of), limit)
    list_out(session, "history", items, more, HISTORY_HEADERS, history_row, "It has none.")


def history_row(found: HistoryEntry) -> list[object]:
    style = {"created": "green", "renamed": "yellow", "dropped": "red"}[found.change]
    change = say(found.change, style)
    return [shown_time(found.changed_at), change, found.name, found.parent, found.changed_by]

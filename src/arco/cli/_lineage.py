"""Commands on lineage: what tables and assets are made of, column by column; dependencies that people state by hand."""

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from arco.cli._answers import confirm, document_of, written_out
from arco.cli._column_lineage import COVERAGE, ColumnTree, Covered, coverage_parts, exact_columns
from arco.cli._command import Session, asks, changes
from arco.cli._connect import connect
from arco.cli._options import AsOfOption, DescriptionOption, TableOrAssetArgument, YesOption
from arco.cli._output import say, visible
from arco.cli._specs import parse_pairs
from arco.core import Invalid
from arco.wire import EdgeAdd, LineageEdgeInfo, LineageGraph, LineageNode, QueryRequest

__all__ = ["app"]

app = typer.Typer(help="Walk lineage, and state dependencies by hand.", no_args_is_help=True)


class Direction(StrEnum):
    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    BOTH = "both"


@asks(app)
async def show(
    session: Session,
    table: TableOrAssetArgument,
    direction: Annotated[Direction, typer.Option("--direction", "-d", help="Which way to walk.")] = Direction.BOTH,
    depth: Annotated[int, typer.Option("--depth", min=0, max=1000, help="Hops at most; 0 for any number.")] = 0,
    column: Annotated[
        str | None, typer.Option("--column", metavar="NAME", help="Only what this column is made of.")
    ] = None,
    former: Annotated[bool, typer.Option("--former", help="What only former code was made of, too.")] = False,
    as_of: AsOfOption = None,
) -> None:
    """Show what a table or an asset is made of, and what is made of it.

    (by hand) is a dependency somebody stated; (2 runs) is one that runs recorded; (former) is one that the newest
    version does not have any more.
    """
    if column is not None:
        await _show_column(session, table, column, depth, former, as_of)
        return
    async with connect(session) as client:
        graph = await client.get_lineage(table, direction=direction.value, depth=depth, former=former, as_of=as_of)
    parts: list[RenderableType] = []
    if direction is not Direction.DOWNSTREAM:
        parts.append(_tree(graph, "made of", lambda edge: (edge.target_id, edge.source_id)))
    if direction is not Direction.UPSTREAM:
        parts.append(_tree(graph, "used by", lambda edge: (edge.source_id, edge.target_id)))
    if graph.truncated:
        parts.append(say("There is more than can be shown; --depth looks at what is near.", "yellow"))
    session.output.emit(document_of(graph), *parts, *_left_out(graph))


async def _show_column(session: Session, table: str, column: str, depth: int, former: bool, as_of: str | None) -> None:
    async with connect(session) as client:
        graph = await client.get_lineage(table, direction="upstream", depth=depth, former=former, as_of=as_of)
        tree = ColumnTree(graph, column)
        exact: list[str] = []
        if column not in tree.mapped:
            # Lineage names no column that is made of none, such as a count: whether there is one, its data says.
            found = await client.run_query(QueryRequest(sql=exact_columns(graph.root.id), as_of=as_of))
            exact = [name for (name,) in found.rows]
    tree.check(exact)
    session.output.emit({**document_of(graph), "column": tree.document()}, *tree.parts(), *_left_out(graph))


def _left_out(graph: LineageGraph) -> list[RenderableType]:
    count = graph.former_count
    if not count:
        return []
    told = "1 dependency of former code is" if count == 1 else f"{count:,} dependencies of former code are"
    return [say(f"{told} left out; --former shows what was.", "dim")]


def _tree(graph: LineageGraph, word: str, ends: Callable[[LineageEdgeInfo], tuple[str, str]]) -> RenderableType:
    """The tables one way from the root. One that is reached twice is spread out only the first time."""
    nodes = {node.id: node for node in (graph.root, *graph.nodes)}
    next_of: dict[str, dict[str, list[LineageEdgeInfo]]] = {}
    for edge in graph.edges:
        near, far = ends(edge)
        next_of.setdefault(near, {}).setdefault(far, []).append(edge)
    if graph.root.id not in next_of:
        return Text.assemble(_name(graph.root), (f"  {word} nothing that is known", "dim"))
    top = Tree(Text.assemble(_name(graph.root), (f"  {word}", "dim")))
    spread = {graph.root.id}
    waiting = [(top, graph.root.id)]
    while waiting:
        branch, near = waiting.pop()
        for far, edges in next_of.get(near, {}).items():
            node = nodes.get(far) or LineageNode(id=far, name=None, exists=False, distance=0)
            again = far in spread and far in next_of
            told = Text.assemble(_name(node), ("  (see above)" if again else "", "dim"), (f"  {_edges(edges)}", "dim"))
            twig = branch.add(told)
            if far not in spread:
                spread.add(far)
                waiting.append((twig, far))
    return top


def _name(node: LineageNode) -> Text:
    name = Text(visible(node.name or f"id:{node.id}"), "bold")
    return name if node.exists else Text.assemble(name, ("  (dropped)" if node.name else "  (unknown)", "red"))


def _edges(edges: list[LineageEdgeInfo]) -> str:
    runs = sum(edge.execution_count for edge in edges)
    told = [f"{runs:,} {'run' if runs == 1 else 'runs'}"] if any(edge.recorded for edge in edges) else []
    told += [f"by hand, edge {edge.id}" for edge in edges if edge.manual]
    told += ["former"] if all(edge.former for edge in edges) else []
    return f"({', '.join(told)})"


@asks(app)
async def coverage(session: Session, as_of: AsOfOption = None) -> None:
    """Say of how many columns of each asset it is known what they are made of.

    exact: all of it, and nothing else. approximate: it is among what is listed. unknown: there may be more. What is
    made of nothing has no lineage, and is not counted.
    """
    async with connect(session) as client:
        found = await client.run_query(QueryRequest(sql=COVERAGE, as_of=as_of))
    covered = [Covered(*row) for row in found.rows]
    document = {"assets": [asdict(one) for one in covered]}
    if not covered:
        session.output.emit(document, say("No lineage is recorded yet; `arco run SELECTION` records it."))
        return
    session.output.emit(document, *coverage_parts(covered))


@changes(app)
async def add(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The table that is read.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The table made of it.", show_default=False)],
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="TARGET=SOURCE[,SOURCE]", help="A column and those it is made of. Repeatable."
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Who says so.")] = None,
    description: DescriptionOption = None,
) -> None:
    """State that one table is made of another.

    No run and no rebuild removes what is stated by hand. Stated again, it takes the place of the earlier statement.
    """
    mapped = {name: _names(name, value) for name, value in parse_pairs("--column", columns).items()}
    request = EdgeAdd(source=source, target=target, columns=mapped, owner=owner, description=description)
    async with connect(session) as client:
        written = await client.add_lineage_edge(request, key=session.request_key)
    written_out(session, written, f"{target} is made of {source}.", f"edge {written.edge_id}")


def _names(column: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise Invalid(f"--column {column}= names no source column; write it as total=price,amount")
    return names


@changes(app)
async def drop(
    session: Session,
    edge_id: Annotated[
        str, typer.Argument(metavar="EDGE", help="Its id; `arco lineage show` has it.", show_default=False)
    ],
    yes: YesOption = False,
) -> None:
    """Take back what was stated by hand. What runs recorded stays."""
    confirm(session, f"Drop the lineage edge {edge_id}?", yes)
    async with connect(session) as client:
        written = await client.drop_lineage_edge(edge_id, key=session.request_key)
    written_out(session, written, f"The edge {edge_id} is gone.")

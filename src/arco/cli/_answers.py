"""What a server answered, as people and programs get it: lists, facts about one thing, what a write did.

Programs get the answer as it came (`arco.wire`); lists as `{"<what>": [...], "more": bool}`.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel
from rich.console import RenderableType
from rich.text import Text

from arco.cli._command import Session
from arco.cli._output import cell, fitted, say, shown_position, visible
from arco.client import AsyncPages
from arco.core import Refused
from arco.log import index_of, number_of
from arco.wire import Written

__all__ = ["confirm", "document_of", "facts", "gather", "list_out", "page_size", "pairs_text", "placed", "written_out"]

T = TypeVar("T")
PAGE = 1000
LAST_INDEX = index_of(-1)


def document_of(answer: BaseModel) -> dict[str, Any]:
    return answer.model_dump(mode="json")


def page_size(limit: int) -> int:
    """How many to ask for at once, so that a short list is one small request."""
    return min(limit + 1, PAGE) if limit else PAGE


async def gather(pages: AsyncPages[T], limit: int) -> tuple[list[T], bool]:
    """The first items, all if the limit is 0, and whether there are more."""
    items: list[T] = []
    async for item in pages:
        if limit and len(items) == limit:
            return items, True
        items.append(item)
    return items, False


def list_out(
    session: Session,
    what: str,
    items: Sequence[BaseModel],
    more: bool,
    headers: Sequence[str],
    row: Callable[[Any], Sequence[object]],
    empty: str,
) -> None:
    """A list. `empty` is said to people if nothing is in it."""
    document = {what: [document_of(item) for item in items], "more": more}
    if not items:
        session.output.emit(document, say(empty))
        return
    parts: list[RenderableType] = [fitted(session.output.people, headers, [row(item) for item in items])]
    if more:
        parts.append(say(f"The first {len(items):,}; --limit 0 shows all.", "dim"))
    session.output.emit(document, *parts)


def facts(pairs: Iterable[tuple[str, object]]) -> Text:
    """Lines of name and value; what is not known is left out."""
    known = [(name, value) for name, value in pairs if value not in (None, "", [], {}, ())]
    width = max((len(name) for name, _ in known), default=0)
    return Text("\n").join(Text.assemble((f"  {name:<{width}}  ", "dim"), _value(value)) for name, value in known)


def _value(value: object) -> Text:
    if isinstance(value, dict):
        return say(pairs_text(value))
    if isinstance(value, list):
        return say(", ".join(str(item) for item in value))
    return cell(value)


def pairs_text(pairs: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs.items())


def placed(position: str | None) -> str | None:
    """A position as people write it; where a whole segment is covered, the segment."""
    if position is None or not position.isdecimal():
        return position
    number = int(position)
    return f"segment {number_of(number)}" if index_of(number) == LAST_INDEX else shown_position(number)


def written_out(session: Session, written: Written, done: str, *details: str | None) -> None:
    """What a write did. Warnings go to standard error, so that they are seen whatever becomes of the output."""
    said = "Nothing to do: it was done before under this request key." if written.replayed else done
    told = [detail for detail in details if detail]
    told += [f"position {placed(written.position)}", f"operation {written.operation_id}"]
    session.output.emit(
        document_of(written), Text("\n").join([say(said, "green"), say(f"  {' · '.join(told)}", "dim")])
    )
    if not session.output.as_json:
        for warning in written.warnings:
            session.output.warn(warning)


def confirm(session: Session, question: str, yes: bool) -> None:
    """Ask before something is lost, if there is somebody to ask."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    session.output.aside.print(Text(f"{visible(question)} [y/N] "), end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("not confirmed; nothing was changed")

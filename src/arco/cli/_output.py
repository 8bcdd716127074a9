"""What a command says: tables for people or one JSON document for programs, progress and errors on standard error.

Everything that comes from a workspace is shown with its control characters written out, so that no event can move a
cursor, recolour a terminal or pass for another name; nothing of it is taken for Rich markup.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from arco.core import ArcoError
from arco.log import index_of, number_of

__all__ = [
    "Output",
    "cell",
    "dump",
    "error_document",
    "explained",
    "fits",
    "fitted",
    "grid",
    "say",
    "shown_position",
    "shown_size",
    "shown_time",
    "titled",
    "visible",
]

UNLIMITED = 10_000
"""Columns of an output that is no terminal: what reads it breaks no lines."""

GAP = 3
"""Columns of the terminal between those of a table."""

SENTENCE = 16
"""Room that sentences in a table must have."""

# JSON escapes the lower controls itself; these are allowed in JSON and unwanted on a terminal or in UTF-8.
_UNSAFE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Output:
    """Where one command speaks. `emit` ends it; everything else is said on the way, on standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.people = _console(sys.stdout)
        self.aside = _console(sys.stderr)

    def emit(self, document: object, *people: RenderableType) -> None:
        """The command's answer, in the form that was asked for."""
        if self.as_json:
            self.line(dump(document, indent=2))
            return
        for index, part in enumerate(people):
            if index:
                self.people.print()
            self.people.print(part)

    def line(self, text: str) -> None:
        """One line for programs. Written at once: somebody may be following."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def note(self, message: str) -> None:
        self.aside.print(Text(visible(message), "dim"), soft_wrap=True)

    def warn(self, message: str) -> None:
        self.aside.print(Text.assemble(("warning: ", "bold yellow"), visible(message)), soft_wrap=True)

    def error(self, error: ArcoError) -> None:
        if self.as_json:
            sys.stderr.write(f"{dump({'error': error_document(error)})}\n")
        else:
            # What follows a line break is indented, so that nothing in a message can pass for another one.
            first, *more = (visible(line) for line in error.message.split("\n"))
            said = "".join(f"\n  {line}" for line in more)
            self.aside.print(Text.assemble(("error: ", "bold red"), first, said), soft_wrap=True)

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A bar while something long goes on, if somebody watches. Yields what reports (done, total)."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        watched = self.aside.is_terminal
        with Progress(*columns, console=self.aside, transient=True, disable=not watched) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    @contextmanager
    def steps(self) -> Iterator[Callable[[str, int, int], None]]:
        """As `progress`, with a bar for each thing that is worked on. Yields what reports (what, done, total)."""
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.aside, transient=True, disable=not self.aside.is_terminal) as bars:
            tasks: dict[str, TaskID] = {}

            def told(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bars.add_task(what, total=total)
                bars.update(tasks[what], completed=done, total=total)

            yield told


def error_document(error: ArcoError) -> dict[str, Any]:
    return {"name": error.name, "message": error.message, "details": error.details}


def _console(stream: IO[str]) -> Console:
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    return console


def dump(document: object, *, indent: int | None = None) -> str:
    """JSON text that is safe to show: what a terminal would act on is escaped."""
    separators = None if indent else (",", ":")
    text = json.dumps(document, ensure_ascii=False, indent=indent, separators=separators, default=str)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible(text: str) -> str:
    """The text on one line, with characters that cannot be seen written as escapes."""
    if text.isprintable():
        return text
    return "".join(_escaped(char) if unicodedata.category(char) in _INVISIBLE else char for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cell(value: object) -> Text:
    """A value as it stands in a table."""
    match value:
        case None:
            return Text("-", "dim")
        case Text():
            return value
        case bool():
            return Text("yes" if value else "no")
        case int() | float():
            return Text(f"{value:,}")
        case str():
            return Text(visible(value))
        case _:
            return Text(visible(dump(value)))


def grid(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns of numbers stand to the right."""
    body = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, header in enumerate(headers):
        values = [row[index] for row in body if row[index] is not None]
        numbers = bool(values) and all(type(value) in (int, float) for value in values)
        table.add_column(header, justify="right" if numbers else "left", overflow="fold")
    for row in body:
        table.add_row(*(cell(value) for value in row))
    return table


def fits(console: Console, table: Table) -> bool:
    """Whether a table can be shown without breaking a line."""
    wanted = Measurement.get(console, console.options.update(width=UNLIMITED), table)
    return wanted.maximum <= console.width


def titled(title: str, body: RenderableType | None) -> RenderableType:
    heading = say(title, "bold")
    return heading if body is None else Group(heading, body)


def fitted(console: Console, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> RenderableType:
    """A table if the console is wide enough for it, else one block a row with a line for each column."""
    table = grid(headers, rows)
    if fits(console, table):
        return table
    width = max(len(header) for header in headers)
    blocks = []
    for row in rows:
        lines = [
            Text.assemble((f"{header:<{width}}  ", "bold"), cell(value))
            for header, value in zip(headers, row, strict=True)
        ]
        blocks.append(Text("\n").join(lines))
    return Text("\n\n").join(blocks)


def explained(console: Console, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> RenderableType:
    """A table whose last column is sentences: they may take several lines, the other columns do not."""
    table = grid(headers, rows)
    widths = [max(len(header), *(cell(row[at]).cell_len for row in rows)) for at, header in enumerate(headers[:-1])]
    if fits(console, table) or sum(widths) + len(widths) * GAP + SENTENCE > console.width:
        return fitted(console, headers, rows)
    for column in table.columns[:-1]:
        column.no_wrap = True
    return table


def say(text: str, style: str = "") -> Text:
    return Text(visible(text), style)


def shown_position(position: int) -> str:
    """A position as people write it: `segment:index`."""
    return f"{number_of(position)}:{index_of(position)}"


def shown_time(time: str | None) -> str | None:
    """Our own times are written to the microsecond, which is more than somebody looking at a table wants."""
    return f"{time[:23]}Z" if time is not None and len(time) == 27 and time.endswith("Z") else time


def shown_size(count: int) -> str:
    return decimal(count)

"""What is shown is safe to show, and says the same as what it was made of."""

import io
import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from arco.cli._output import cell, dump, grid, visible
from arco.cli._points import Point, parse_point
from arco.log import position_of

ANY = st.text(st.characters(codec=None, categories=None))


@given(ANY)
def test_visible_text_has_nothing_invisible_in_it(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert visible(shown) == shown


@given(ANY)
def test_json_is_encodable_has_no_controls_and_reads_back(text: str) -> None:
    for indent in (None, 2):
        encoded = dump({"text": text}, indent=indent)
        assert json.loads(encoded) == {"text": text}
        assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in encoded.replace("\n", ""))
        encoded.encode()


@given(st.lists(ANY, min_size=1, max_size=3))
def test_a_table_shows_markup_and_escapes_as_text(values: list[str]) -> None:
    console = Console(width=10_000, file=io.StringIO(), force_terminal=True)
    with console.capture() as captured:
        console.print(grid(["a"], [[f"[red]{value}"] for value in values]))
    lines = captured.get().split("\n")[2:-1]
    assert len(lines) == len(values)
    assert all("[red]" in line for line in lines)


def test_cells() -> None:
    shown = [cell(value).plain for value in (None, True, 1234567, "a", ["a", 1], {"a": None})]
    assert shown == ["-", "yes", "1,234,567", "a", '["a",1]', '{"a":null}']


def test_numbers_stand_to_the_right_also_where_some_are_missing() -> None:
    file = io.StringIO()
    Console(width=60, file=file).print(grid(["n", "x", "y"], [[1, 1234567.5, 1], [12345, None, "a"]]))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert lines[0] == "     n             x   y"
    assert lines[2:] == ["     1   1,234,567.5   1", "12,345             -   a"]


@given(st.integers(0, 10**17), st.integers(0, (1 << 20) - 1))
def test_points_read_back_as_they_are_written(number: int, index: int) -> None:
    assert parse_point(str(number)) == Point(revision=number)
    assert parse_point(f"{number}:{index}") == Point(position=position_of(number, index))

"""The page on commands names every command there is, and every option that is theirs alone is in their help."""

import re
from pathlib import Path

import pytest
import typer

from arco.cli._app import app
from tests.cli.conftest import Cli

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
HEADINGS = [line for line in PAGE.splitlines() if line.startswith("### ")]


def commands(group: typer.Typer, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    own = [(*path, str(found.name)) for found in group.registered_commands]
    for below in group.registered_groups:
        assert below.typer_instance is not None
        own += commands(below.typer_instance, (*path, below.name) if below.name else path)
    return own


EVERY = commands(app)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_each_command_is_in_a_heading_of_the_page(path: tuple[str, ...]) -> None:
    head, *rest = path
    pattern = rf"`arco {head}\b" + (rf"[^`]*\b{re.escape(rest[0])}\b" if rest else "")
    assert any(re.search(pattern, heading) for heading in HEADINGS)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_each_command_says_what_it_does_and_what_it_takes(cli: Cli, path: tuple[str, ...]) -> None:
    ran = cli(*path, "--help", COLUMNS="200")
    assert ran.code == 0
    assert "--json" in ran.out
    assert "--token" not in ran.out


def test_the_page_names_no_command_that_does_not_exist() -> None:
    known = {path[0] for path in EVERY}
    named = {word for heading in HEADINGS for word in re.findall(r"`arco ([a-z]+)", heading)}
    assert named == known


def test_the_terminal_says_where_lines_of_the_help_end(cli: Cli) -> None:
    assert "unless --force is given, and so are those of the same code" in cli("backfill", "--help", COLUMNS="200").out

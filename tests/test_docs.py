"""The documents hold together: links lead somewhere, and the index of decisions has each under its own title."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECISIONS = ROOT / "docs" / "adr"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http://", "https://", "nnnn-")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_has_every_decision_under_its_title() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\) \| (.*) \| .* \|$", (DECISIONS / "README.md").read_text(), re.MULTILINE
    )
    files = sorted(path for path in DECISIONS.glob("[0-9]*.md") if path.name != "0000-template.md")
    assert [(path.name, path.read_text().splitlines()[0]) for path in files] == [
        (name, f"# {number}: {title}") for number, name, title in listed
    ]


def test_every_decision_has_the_form_of_the_template() -> None:
    for path in DECISIONS.glob("[0-9]*.md"):
        lines = path.read_text().splitlines()
        assert lines[2].startswith("State: "), path.name
        assert [line for line in lines if line in ("## Context", "## Decision", "## Consequences")] == [
            "## Context",
            "## Decision",
            "## Consequences",
        ], path.name

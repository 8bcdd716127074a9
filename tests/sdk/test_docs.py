"""The pipelines that the README and docs/servo.md show are pipelines: nothing is wrong with them."""

import ast
import re
from pathlib import Path

import pytest

from arco.sdk import load_project

ROOT = Path(__file__).parents[2]


def shown(page: str) -> list[str]:
    """The pipelines of a page: Python that names its namespace. The rest is parts of one, and Python at least."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    for block in blocks:
        ast.parse(block)
    return [block for block in blocks if "__namespace__" in block]


@pytest.mark.parametrize(("page", "assets"), [("README.md", [3]), ("docs/servo.md", [3, 4, 3])])
def test_pipelines_that_are_shown_can_be_deployed(page: str, assets: list[int], tmp_path: Path) -> None:
    found = []
    for number, pipeline in enumerate(shown(page)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "pipeline.py").write_text(pipeline, encoding="utf-8")
        loaded = load_project(folder)
        assert loaded.problems == ()
        found.append(len(loaded.project.assets))
    assert found == assets

"""The pipelines that the README and docs/servo.md show are pipelines: nothing is wrong with them."""

import re
from pathlib import Path

import pytest

from arco.sdk import load_project

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("page", "assets"), [("README.md", 3), ("docs/servo.md", 3)])
def test_a_pipeline_that_is_shown_can_be_deployed(page: str, assets: int, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    (shown,) = [block for block in blocks if "__namespace__" in block]
    (tmp_path / "pipeline.py").write_text(shown, encoding="utf-8")
    loaded = load_project(tmp_path)
    assert loaded.problems == ()
    assert len(loaded.project.assets) == assets

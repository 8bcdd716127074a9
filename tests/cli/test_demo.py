"""`make demo`: every command of the README's walk-throughs ends well, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "walkthrough.py"


@pytest.mark.prove
def test_the_readme_tells_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ran = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 of 6 succeeded" in ran.stdout
    assert list(tmp_path.iterdir()) == []

"""`make demo` runs to its end, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "engine_demo.py"


@pytest.mark.prove
def test_the_demo_keeps_every_claim_it_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ran = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "acknowledged events are there" in ran.stdout
    assert list(tmp_path.iterdir()) == []

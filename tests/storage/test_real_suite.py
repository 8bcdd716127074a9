"""The suite for real buckets runs and cleans up after itself: tried on emulators, which stand for real ones here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulators.servers import Emulator
from tests.storage.contract import names, run

ROOT = Path(__file__).parents[2]
SOME = "second_create or self_test or racing or signed or workspace"


@pytest.mark.parametrize("cloud", ["s3", "azure"])
def test_it_passes_where_the_contract_does_and_leaves_nothing(request: pytest.FixtureRequest, cloud: str) -> None:
    server: Emulator = request.getfixturevalue(f"{cloud}_server")
    given = {name: "true" if value is True else value for name, value in server.options.items()}
    options = " ".join(f"{name}={value}" for name, value in given.items())
    name = f"ARCO_TEST_{cloud.upper()}"
    environ = {**os.environ, f"{name}_URL": server.url("real-suite"), f"{name}_OPTIONS": options}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/storage/test_real_buckets.py"]
    done = subprocess.run([*command, "-k", SOME], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "5 passed" in done.stdout
    assert run(names(server.store("real-suite"), "")) == []


def test_without_a_bucket_it_says_why_it_does_not_run() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_TEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    for ci in ("true", ""):
        done = subprocess.run(
            [*command, "tests/storage/test_real_buckets.py"],
            cwd=ROOT,
            env={**environ, "CI": ci},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert "no real bucket is named" in done.stdout
        assert done.returncode in (0, 5), done.stdout

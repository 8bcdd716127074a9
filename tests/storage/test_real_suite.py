"""The suite for real buckets runs and cleans up after itself: tried on emulators, which stand for real ones here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulators.servers import Emulator
from tests.storage.contract import names, run

ROOT = Path(__file__).parents[2]
SOME = "second_create or self_test or racing or workspace"
SIGNED = f"{SOME} or signed"


# Signed URLs of Google Cloud name Google's own host; `test_signed_urls.py` asks our server for them.
@pytest.mark.parametrize(("cloud", "chosen", "passed"), [("s3", SIGNED, 5), ("gcs", SOME, 4), ("azure", SIGNED, 5)])
def test_it_passes_where_the_contract_does_and_leaves_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, cloud: str, chosen: str, passed: int
) -> None:
    server: Emulator = request.getfixturevalue(f"{cloud}_server")
    given = {name: "true" if value is True else str(value) for name, value in server.options.items()}
    if key := given.pop("service_account_key", ""):  # JSON with spaces in it, which options are parted by
        file = tmp_path / "service-account.json"
        file.write_text(key)
        given["service_account"] = str(file)
    options = " ".join(f"{name}={value}" for name, value in given.items())
    name = f"ARCO_TEST_{cloud.upper()}"
    environ = {**os.environ, f"{name}_URL": server.url("real-suite"), f"{name}_OPTIONS": options}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/storage/test_real_buckets.py"]
    done = subprocess.run([*command, "-k", chosen], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert f"{passed} passed" in done.stdout
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

"""Emulators of S3 (moto) and Azure (Azurite) as child processes on loopback, and our own of Google Cloud in a thread.

They run for as long as a context lasts. Each child reads its stdin and ends with it, so that none outlives a test run
that was killed.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from arco.storage import Store, open_store
from tests.emulators.gcs import FakeGcs, run_gcs_server

__all__ = ["Emulator", "missing_component", "run_azurite", "run_gcs", "run_guarded_moto", "run_moto"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUCKET = "arco-test"
# Azurite's documented account; every installation has the same.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Emulator:
    """A running server with one empty bucket."""

    bucket_url: str
    options: Mapping[str, str | bool]

    def url(self, prefix: str) -> str:
        return f"{self.bucket_url}/{prefix}"

    def store(self, prefix: str) -> Store:
        return open_store(self.url(prefix), self.options)


def missing_component(reason: str) -> NoReturn:
    """A component that is not installed fails the run in CI and skips elsewhere."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def run_moto() -> Iterator[Emulator]:
    with _running([sys.executable, "-m", "tests.emulators.moto_server"]) as endpoint:
        yield _moto(endpoint)


@contextlib.contextmanager
def run_guarded_moto(folder: Path) -> Iterator[Emulator]:
    """S3 whose access keys may do what `policies.json` in the folder says at any time; `test` may do everything."""
    (folder / "policies.json").write_text(json.dumps({"test": None}))
    with _running([sys.executable, "-m", "tests.emulators.moto_server", str(folder)]) as endpoint:
        yield _moto(endpoint)


def _moto(endpoint: str) -> Emulator:
    _put(f"{endpoint}/{BUCKET}", Authorization="AWS4-HMAC-SHA256 Credential=test/20250101/us-east-1/s3/aws4_request")
    options = {"endpoint": endpoint, "access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}
    return Emulator(f"s3://{BUCKET}", {**options, "allow_http": True})


@contextlib.contextmanager
def run_azurite() -> Iterator[Emulator]:
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "azurite").is_dir():
        missing_component("Azurite is not installed: run `make setup`, which needs Node with npm")
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]
    options += ["--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    with _running([node, str(HERE / "azurite.js"), *options]) as address:
        endpoint = f"{address}/{ACCOUNT}"
        _put(f"{endpoint}/{BUCKET}?restype=container&{_account_signature()}")
        yield Emulator(
            f"az://{BUCKET}",
            {"endpoint": endpoint, "account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "allow_http": True},
        )


@contextlib.contextmanager
def run_gcs(fake: FakeGcs | None = None) -> Iterator[Emulator]:
    """`fake` is for tests that look into the server or tell it to fail."""
    fake = fake or FakeGcs()
    fake.buckets.setdefault(BUCKET, {})
    with run_gcs_server(fake):
        options = {"endpoint": fake.endpoint, "service_account_key": fake.service_account_key}
        yield Emulator(f"gs://{BUCKET}", {**options, "allow_http": True})


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[str]:
    """The address that the server says it listens on."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if found := re.search(r"listens on (http://127\.0\.0\.1:\d+)", line):
                    yield found.group(1)
                    return
            raise RuntimeError(f"{' '.join(command[1:])} ended before it listened")
        finally:
            server.stdin.close()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _account_signature() -> str:
    """The query that lets a request make a container (an account SAS)."""
    version, expiry, rights = "2020-12-06", "2099-01-01T00:00:00Z", "rwdlac"
    text = "\n".join([ACCOUNT, rights, "b", "sco", "", expiry, "", "https,http", version, "", ""])
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    fields = {"sv": version, "ss": "b", "srt": "sco", "sp": rights, "se": expiry, "spr": "https,http"}
    return urllib.parse.urlencode({**fields, "sig": base64.b64encode(digest).decode()})


def _put(url: str, **headers: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT", data=b"", headers=headers)) as answer:
        answer.read()

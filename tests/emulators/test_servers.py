"""A missing emulator must not pass silently where it counts, and the one of S3 decides about creates as S3 does."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.emulators.creates import OneCreateAtATime
from tests.emulators.servers import missing_component


def test_a_missing_component_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not installed"):
        missing_component("not installed")


def test_a_missing_component_skips_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        missing_component("not installed")


def test_of_many_creates_of_one_object_one_succeeds() -> None:
    there: set[str] = set()

    def slow(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Looks first and writes then, as moto does, and takes its time in between."""
        is_there = environ["PATH_INFO"] in there
        time.sleep(0.005)
        there.add(environ["PATH_INFO"])
        yield b"exists" if is_there else b"created"

    def creates(app: Callable[..., Iterable[bytes]]) -> int:
        there.clear()
        asked = {"PATH_INFO": "/a", "HTTP_IF_NONE_MATCH": "*"}
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda _: b"".join(app(dict(asked), lambda *_: None)), range(8))
        return list(answers).count(b"created")

    assert creates(slow) > 1, "without it several succeed"
    assert creates(OneCreateAtATime(slow)) == 1

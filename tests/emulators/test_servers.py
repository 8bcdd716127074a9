"""A missing emulator must not pass silently where it counts, and the one of S3 decides about creates as S3 does."""

import threading
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

    def looking(together: int) -> Callable[..., Iterable[bytes]]:
        """An application that looks first and writes then, as moto does, once so many have looked."""
        all_looked = threading.Barrier(together)

        def look_then_write(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            is_there = environ["PATH_INFO"] in there
            all_looked.wait(30)
            there.add(environ["PATH_INFO"])
            yield b"exists" if is_there else b"created"

        return look_then_write

    def creates(app: Callable[..., Iterable[bytes]]) -> int:
        there.clear()
        asked = {"PATH_INFO": "/a", "HTTP_IF_NONE_MATCH": "*"}
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda _: b"".join(app(dict(asked), lambda *_: None)), range(8))
        return list(answers).count(b"created")

    assert creates(looking(8)) == 8, "without it all succeed"
    assert creates(OneCreateAtATime(looking(1))) == 1

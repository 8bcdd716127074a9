"""A missing emulator must not pass silently where it counts, and the one of S3 decides about creates as S3 does."""

import asyncio

import pytest

from arco.storage import ObjectExists, Store
from tests.emulators.servers import Emulator, missing_component


def test_a_missing_component_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not installed"):
        missing_component("not installed")


def test_a_missing_component_skips_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        missing_component("not installed")


def test_of_many_creates_of_one_object_one_succeeds(s3_server: Emulator) -> None:
    async def race(store: Store, number: int) -> int:
        async def create() -> bool:
            try:
                await store.put(f"races/{number}", b"x" * 1_000, only_if_absent=True)
            except ObjectExists:
                return False
            return True

        return sum(await asyncio.gather(*(create() for _ in range(16))))

    async def races() -> list[int]:
        store = s3_server.store("emulators")
        return [await race(store, number) for number in range(40)]

    assert asyncio.run(races()) == [1] * 40

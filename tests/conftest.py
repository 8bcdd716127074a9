"""Fixtures for every test: the emulated clouds, started once a session when a test first asks for one."""

from collections.abc import Iterator

import pytest

from tests.emulators.servers import Emulator, run_azurite, run_moto


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Emulator]:
    with run_moto() as emulator:
        yield emulator


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Emulator]:
    with run_azurite() as emulator:
        yield emulator

"""Fixtures for every test: the emulated clouds, started once a session when a test first asks for one."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.emulators.gcs import FakeGcs
from tests.emulators.servers import Emulator, run_azurite, run_gcs, run_moto

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, where Ctrl-C is ignored, and so it would be in every process tested here.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Property tests run the same lines again and again: to trace them doubles their time, and tells nothing new."""
    for item in items:
        if item.get_closest_marker("hypothesis"):
            item.add_marker("no_cover")


settings.register_profile("arco", deadline=None)  # no test is about time, and machines are busy
settings.load_profile("arco")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Emulator]:
    with run_moto() as emulator:
        yield emulator


@pytest.fixture(scope="session")
def azure_server() -> Iterator[Emulator]:
    with run_azurite() as emulator:
        yield emulator


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[Emulator]:
    with run_gcs(FakeGcs(page=50)) as emulator:
        yield emulator

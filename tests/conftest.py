"""Fixtures for every test: the emulated clouds, started once a session when a test first asks for one."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.emulators.gcs import FakeGcs
from tests.emulators.servers import Emulator, run_azurite, run_gcs, run_moto

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script, where Ctrl-C is ignored, and so it would be in every process tested here.
    signal.signal(signal.SIGINT, signal.default_int_handler)


HERE = Path(__file__).parent
WHOLE = ("acceptance", "cost", "recorded", "simulation")
"""Folders whose tests take whole workspaces through days and years of what other tests try one by one."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs the same lines again and again is not traced for coverage: that takes its time and tells no more."""
    for item in items:
        if item.get_closest_marker("hypothesis") or item.path.relative_to(HERE).parts[0] in WHOLE:
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

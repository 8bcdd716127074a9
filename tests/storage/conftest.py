"""`any_store`: each backend in turn, as a factory of fresh handles on one fresh location."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from arco.storage import LocalStore, MemoryStore, Store
from tests.emulators.servers import Emulator

OpenStore = Callable[[], Store]

_locations = itertools.count()


@pytest.fixture(params=["local", "memory", "s3", "azure", "gcs"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """A zero-argument function: every call opens another handle on the same objects."""
    if request.param == "local":
        return lambda: LocalStore(tmp_path / "store")
    if request.param == "memory":
        memory = MemoryStore()
        return lambda: memory
    server: Emulator = request.getfixturevalue(f"{request.param}_server")
    prefix = f"location-{next(_locations)}"
    return lambda: server.store(prefix)

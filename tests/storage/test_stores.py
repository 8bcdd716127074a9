"""The contract of `Store`, on every backend."""

import pytest

from tests.storage.conftest import OpenStore
from tests.storage.contract import StoreContract


class TestEveryStore(StoreContract):
    @pytest.fixture
    def open_store(self, any_store: OpenStore) -> OpenStore:
        return any_store

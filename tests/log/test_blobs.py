"""Blobs: stored under their hash, checked when read, and never confused with one another."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Corrupt, Invalid, LostObject, StoreRefused, TooLarge, Unavailable
from arco.log import MAX_BLOB_BYTES, Blobs
from arco.storage import MemoryStore, StoreFailed
from tests.doubles import FaultyStore, run


@settings(deadline=None)
@given(data=st.binary(max_size=300))
def test_a_blob_is_read_by_its_hash(data: bytes) -> None:
    async def scenario() -> None:
        blobs = Blobs(MemoryStore())
        sha256 = await blobs.put(data)
        assert sha256 == hashlib.sha256(data).hexdigest()
        assert await blobs.put(data) == sha256
        assert await blobs.get(sha256) == data

    run(scenario())


def test_a_blob_somebody_else_stored_is_persisted_before_it_is_named() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        sha256 = await Blobs(store.inner).put(b"x")
        await Blobs(store).put(b"x")
        assert store.calls == [("create", Blobs.path(sha256)), ("persist", Blobs.path(sha256))]

    run(scenario())


def test_a_missing_blob_is_lost() -> None:
    async def scenario() -> None:
        with pytest.raises(LostObject, match="write the blob before the event"):
            await Blobs(MemoryStore()).get("ab" * 32)

    run(scenario())


def test_a_damaged_blob_is_corrupt() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        blobs = Blobs(store)
        sha256 = await blobs.put(b"right")
        await store.put(blobs.path(sha256), b"wrong", only_if_absent=False)
        with pytest.raises(Corrupt, match="put it back from the bucket's own versions"):
            await blobs.get(sha256)

    run(scenario())


@pytest.mark.parametrize("name", ["", "x", "AB" * 32, "ab" * 33, "../" + "ab" * 30 + "a", "ab" * 31 + "*/"])
def test_only_a_hash_names_a_blob(name: str) -> None:
    with pytest.raises(Invalid, match="64 lower-case hex digits"):
        Blobs.path(name)


def test_an_oversized_blob_is_refused_before_it_is_sent() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return MAX_BLOB_BYTES + 1

    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        with pytest.raises(TooLarge):
            await Blobs(store).put(Huge())
        assert store.calls == []

    run(scenario())


@pytest.mark.parametrize("operation", ["create", "persist", "get"])
def test_a_store_that_does_not_answer_is_unavailable(operation: str) -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        blobs = Blobs(store)
        sha256 = await Blobs(store.inner).put(b"x")
        store.on(operation, error=StoreFailed("503"))
        with pytest.raises(Unavailable, match="503"):
            await (blobs.get(sha256) if operation == "get" else blobs.put(b"x"))

    run(scenario())


def test_a_full_disk_is_told_as_it_is() -> None:
    async def scenario() -> None:
        store = FaultyStore(MemoryStore())
        store.on("create", error=StoreRefused("no space"))
        with pytest.raises(StoreRefused, match="no space"):
            await Blobs(store).put(b"x")

    run(scenario())

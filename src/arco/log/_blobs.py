"""Blobs: payloads too large for an event, stored under their sha256 before the event that names them.

An orphan and a blob whose event is still on its way look alike, so blobs are never collected; only erasure removes one.
"""

import hashlib

from arco.core import PUT_BACK, Corrupt, Invalid, LostObject, TooLarge, Unavailable
from arco.storage import ObjectExists, ObjectMissing, Store, StoreFailed

__all__ = ["MAX_BLOB_BYTES", "Blobs"]

MAX_BLOB_BYTES = 256 << 20


class Blobs:
    def __init__(self, store: Store) -> None:
        self._store = store

    @staticmethod
    def path(sha256: str) -> str:
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise Invalid("a blob is named by 64 lower-case hex digits of its sha256")
        return f"blobs/{sha256[:2]}/{sha256}"

    async def put(self, data: bytes) -> str:
        """Store the bytes and return their sha256. Storing the same bytes twice is one blob."""
        if len(data) > MAX_BLOB_BYTES:
            raise TooLarge(f"a blob of {len(data)} bytes passes the limit of {MAX_BLOB_BYTES}")
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            try:
                await self._store.put(self.path(sha256), data, only_if_absent=True)
            except ObjectExists:
                await self._store.persist(self.path(sha256))
        except StoreFailed as error:
            raise Unavailable(f"the blob cannot be stored now: {error.message}; try again") from error
        return sha256

    async def get(self, sha256: str) -> bytes:
        """The bytes, checked against their name. A blob that an event names must exist."""
        path = self.path(sha256)
        try:
            data = await self._store.get(path)
        except ObjectMissing:
            raise LostObject(f"{path} is missing; write the blob before the event that names it", path=path) from None
        except StoreFailed as error:
            raise Unavailable(f"{path} cannot be read now: {error.message}; try again") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Corrupt(f"{path} does not have the bytes its name promises; {PUT_BACK}", path=path)
        return data

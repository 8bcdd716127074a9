"""Decisions: one create-once object per multi-table transaction, which says `committed` or `aborted`.

Only the transaction's own coordinator writes `committed`, and only after all its pointers are prepared. Anybody may
write `aborted`. Whichever object is created first is the outcome; it never changes. Absence means undecided as long as
a pointer of the transaction is the newest of its table; whoever puts another pointer after it sees to a decision first.
"""

from typing import Literal

import msgspec

from arco.core import Corrupt, Runtime, StoreRefused, Unavailable, decode_document
from arco.storage import ObjectExists, ObjectMissing, Store, StoreFailed

__all__ = ["Decisions", "Outcome"]

Outcome = Literal["committed", "aborted"]

ATTEMPTS = 8
FORMAT = 1


class _Decision(msgspec.Struct, frozen=True):
    txn: str
    outcome: Outcome
    format: int = FORMAT


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Decision)


class Decisions:
    def __init__(self, store: Store, prefix: str, runtime: Runtime) -> None:
        """`prefix` is the Iceberg folder of an incarnation."""
        self._store = store
        self._prefix = prefix
        self._runtime = runtime

    def path(self, txn: str) -> str:
        return f"{self._prefix}/txns/{txn}"

    async def read(self, txn: str) -> Outcome | None:
        """The outcome; None if there is no decision."""
        path = self.path(txn)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._decode(await self._store.get(path), path, txn)
            except ObjectMissing:
                return None
            except StoreFailed as error:
                if attempt == ATTEMPTS:
                    raise Unavailable(f"the store does not answer: {error.message}; try again") from error
                await self._pause(attempt)
        raise AssertionError

    async def decide(self, txn: str, outcome: Outcome) -> Outcome:
        """See to it that there is a decision, and say which. The caller owns this call to its end.

        `Unavailable` leaves it open: the same must be tried again, or somebody else decides.
        """
        path, data, is_open = self.path(txn), _encoder.encode(_Decision(txn, outcome)), False
        for attempt in range(ATTEMPTS):
            try:
                await self._store.put(path, data, only_if_absent=True)
                return outcome
            except (ObjectExists, StoreFailed, StoreRefused) as error:
                is_open = is_open or isinstance(error, StoreFailed)
                if isinstance(error, StoreRefused) and not is_open:
                    raise
                try:
                    found = await self.read(txn)
                except StoreRefused as refused:
                    raise self._open(path) from refused
                if found is not None:
                    return found
            await self._pause(attempt)
        raise self._open(path)

    @staticmethod
    def _open(path: str) -> Unavailable:
        return Unavailable(f"the store does not settle the create of {path}; the outcome is open, try again", path=path)

    @staticmethod
    def _decode(data: bytes, path: str, txn: str) -> Outcome:
        decision = decode_document(_decoder, data, "decision", FORMAT, path)
        if decision.txn != txn:
            raise Corrupt(f"{path} holds the decision of {decision.txn}; run `arco doctor`", path=path)
        return decision.outcome

    async def _pause(self, attempt: int) -> None:
        await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))

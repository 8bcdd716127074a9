"""Idempotency keys: claims, by which the requests of one key find each other.

A claim is a numbered object below `keys/{hash of the key}`. Whoever is first makes claim 1, which says for which table
the key stands and what the newest pointer was then. Safety does not rest on claims but on pointers, which carry the
key: nobody creates a pointer with a key before it has looked at every pointer after claim 1's `base`, so a table has at
most one. A transaction's claim names the transaction, and the next claim is made only when that one is aborted. A
request that finds nothing to change leaves a claim that says so, and is answered by it when it comes again.

A request that finds a claim and no outcome waits a little and *takes over* by making the next claim. The one before
stops when it sees that, so that nothing of it lands after the newest was refused. Refusals leave no trace: a request
that its client gave up before it was even claimed may still be carried out after a repetition was refused.
"""

import msgspec

from arco.core import Corrupt, Runtime, decode_document, new_ulid
from arco.iceberg._errors import CommitFailed
from arco.iceberg._who import IdempotencyKey, Who
from arco.storage import Lost, Sequence, Store, Tail

__all__ = ["Claim", "Keys"]

FORMAT = 1


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    format: int
    id: str
    number: int
    key: str
    """As the client sent it."""
    request_hash: str
    incarnation: str
    operation: str
    actor: str
    claimed_at: int
    table_id: str = ""
    """Of a commit to one table: which one, whatever its name leads to later."""
    base: int = 0
    """Of a commit to one table: the newest pointer when the key was claimed."""
    txn: str | None = None
    """Of a transaction: its id."""
    unchanged: bool = False
    """The request was carried out, and there was nothing to change: no pointer will ever carry the key."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Claim)


class Keys:
    def __init__(self, store: Store, prefix: str, runtime: Runtime, incarnation: str) -> None:
        """`prefix` is the Iceberg folder of the incarnation, `{inc}/iceberg`."""
        self._store = store
        self._prefix = prefix
        self._runtime = runtime
        self._incarnation = incarnation

    def sequence(self, key: IdempotencyKey) -> Sequence:
        return Sequence(self._store, f"{self._prefix}/keys/{key.hash}", self._runtime)

    async def claims(self, key: IdempotencyKey) -> list[Claim]:
        """All claims of a key, oldest first. `CommitFailed` if they stand for another request."""
        sequence, found = self.sequence(key), list[Claim]()
        while (data := await sequence.read(len(found) + 1)) is not None:
            found.append(self._decoded(sequence, data, len(found) + 1))
            if found[-1].request_hash != key.request_hash:
                raise CommitFailed("Idempotency-Key reused with different request payload")
        return found

    async def claim(
        self,
        key: IdempotencyKey,
        who: Who,
        *,
        after: Claim | None,
        table_id: str = "",
        base: int = 0,
        txn: str | None = None,
        unchanged: bool = False,
    ) -> Claim | None:
        """Make the claim after one, or the first one; None if somebody else made it."""
        claim = Claim(
            format=FORMAT,
            id=new_ulid(self._runtime, self._runtime),
            number=after.number + 1 if after else 1,
            key=key.text,
            request_hash=key.request_hash,
            incarnation=self._incarnation,
            operation=who.operation,
            actor=who.actor,
            claimed_at=self._runtime.now(),
            table_id=table_id,
            base=base,
            txn=txn,
            unchanged=unchanged,
        )
        tail = Tail(claim.number - 1, self._runtime.boottime())
        outcome = await self.sequence(key).create(tail, _encoder.encode(claim))
        return None if isinstance(outcome, Lost) else claim

    async def is_taken_over(self, key: IdempotencyKey, claim: Claim) -> bool:
        return await self.sequence(key).read(claim.number + 1) is not None

    def _decoded(self, sequence: Sequence, data: bytes, number: int) -> Claim:
        path = sequence.path(number)
        claim = decode_document(_decoder, data, "claim", FORMAT, path)
        if (claim.number, claim.incarnation) != (number, self._incarnation):
            raise Corrupt(f"{path} belongs to another place; run `arco doctor`", path=path)
        return claim

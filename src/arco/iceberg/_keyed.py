"""Keyed requests about names: each is carried out once, and a repetition has the answer of the first.

The catalog's log knows its requests by their keys. A drop, though, may get its event from somebody else, who does not
know the key: so a keyed request has an operation id that follows from its key, which stands in the pointer and in the
event, whoever appends that. Commits are recognised elsewhere, by the claims of `Keys`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from arco.core import ArcoError, Conflict, Corrupt, Refused, RequestKey, derive_ulid, request_key_time
from arco.iceberg._errors import CommitFailed, damaged, nothing_changed
from arco.iceberg._keys import Keys
from arco.iceberg._who import Who
from arco.log import Receipt
from arco.runtime import Workspace
from arco.state import REQUESTS, Replica, Snapshot

__all__ = ["KeyedRequests", "check_key", "identified"]

T = TypeVar("T")

_CATALOG = "catalog"


class KeyedRequests:
    def __init__(self, workspace: Workspace, claims: Keys) -> None:
        self._workspace = workspace
        self._claims = claims

    async def once(self, who: Who, work: Callable[[], Awaitable[T]], answer: Callable[[Receipt], Awaitable[T]]) -> T:
        """Do a request's work, or answer as an earlier request of the same key was answered.

        That one may come to its end while this one works, and be the very reason why this one is refused.
        """
        with nothing_changed():
            await self.check_unused(who)
            if who.key is not None:
                await self._claims.claims(who.key)  # refuses a key that stands for a commit
            receipt = await self.find(who)
        if receipt is not None:
            return await answer(receipt)
        try:
            return await work()
        except Refused:
            receipt = await self.find(who)
            if receipt is None:
                raise
        return await answer(receipt)

    async def find(self, who: Who) -> Receipt | None:
        """What became of an earlier request with the same key; None if nothing did, or if it has no key."""
        return await self._workspace.find_operation(_CATALOG, identified(who).operation) if who.key else None

    async def after_damage(self, who: Who, error: Corrupt) -> ArcoError:
        """What damage means that a commit met before it sent anything. If the key was claimed, an earlier request may
        have committed, and nobody can tell."""
        if who.key is not None and await self._claims.claims(who.key):
            return error
        return damaged(error)

    async def check_unused(self, who: Who, *, strong: bool = True) -> None:
        """`CommitFailed` if the key stands for another request about names; by what this process knows, or by a look at
        the end of the log."""
        if who.key is None:
            return
        key = who.key.text

        async def asked(view: Replica | Snapshot) -> str | None:
            request = await view.get(REQUESTS, key, key)
            return None if request is None else str(request.operation)

        operation, _ = await self._workspace.logs[_CATALOG].read(asked, strong=strong)
        if operation is not None and operation != identified(who).operation:
            raise _reused()


def identified(who: Who) -> Who:
    """A keyed request under the operation id that follows from its key, so that a repetition has the same."""
    if who.key is None:
        return who
    made = request_key_time(RequestKey(who.key.text))
    return replace(who, operation=derive_ulid(made, f"{who.actor}:{who.key.text}:{who.key.request_hash}"))


def check_key(error: Conflict) -> None:
    """`CommitFailed` if the log refused a command because of its key."""
    if "stored" in error.details:
        raise _reused() from None


def _reused() -> CommitFailed:
    return CommitFailed("Idempotency-Key reused with different request payload")

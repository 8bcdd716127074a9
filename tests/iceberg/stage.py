"""A stage for the commit protocol: processes on one store, and tables whose metadata is a list of marks.

A *mark* stands for what a commit brings. `marking` appends one, whatever is there; `marking_after` only if a certain
mark is the last one, as a requirement would have it.
"""

from typing import Any

from arco.core import Runtime, new_ulid
from arco.iceberg import (
    CommitFailed,
    Committed,
    Committer,
    Edit,
    IdempotencyKey,
    Keys,
    Locations,
    Pointers,
    Transactions,
    Who,
    parse_idempotency_key,
)
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store

__all__ = ["INCARNATION", "Server", "creating", "marking", "marking_after", "marking_unless", "marks", "new_key"]

INCARNATION = "i1"
SCOPE = Scope("acme", "prod")


class Server:
    """One process: its caches, its queue, its handle on the store with counted requests."""

    def __init__(self, store: Store, runtime: Runtime, *, counted: bool = True) -> None:
        self.runtime = runtime
        self.counts = RequestCounts()
        handle: Store = RoleStore(store, SCOPE, Role.ICEBERG, self.counts) if counted else store
        prefix = f"{INCARNATION}/iceberg"
        self.pointers = Pointers(handle, prefix, runtime, INCARNATION)
        self.keys = Keys(handle, prefix, runtime, INCARNATION)
        self.files = Locations(handle, "file:///store", "acme/prod")
        self.won: list[Committed] = []
        self.committer = Committer(
            self.pointers, self.keys, self.files, runtime, on_committed=lambda won, who: self.won.append(won)
        )
        self.transactions = Transactions(self.committer, runtime)

    async def mark_all(self, table_ids: list[str], mark: str, key: IdempotencyKey | None = None) -> int:
        """The mark on all tables at once; on how many this request committed it."""
        return len(await self.transactions.commit([(table_id, marking(mark)) for table_id in table_ids], self.who(key)))

    def who(self, key: IdempotencyKey | None = None) -> Who:
        return Who(actor="ada", operation=new_ulid(self.runtime, self.runtime), key=key)

    async def create(self, table_id: str) -> Committed:
        edit = creating(self.files.new_table(table_id), table_id)
        return await self.committer.commit(table_id, edit, self.who(), creates=True)

    async def mark(self, table_id: str, mark: str, key: IdempotencyKey | None = None) -> Committed:
        return await self.committer.commit(table_id, marking(mark), self.who(key))

    async def marks(self, table_id: str) -> list[str] | None:
        loaded = await self.committer.load(table_id)
        return None if loaded is None else marks(loaded[1].value)


def marks(value: dict[str, Any]) -> list[str]:
    return list(value["marks"])


def creating(location: str, table_id: str) -> Edit:
    def edit(base: dict[str, Any] | None, base_location: str | None) -> dict[str, Any]:
        if base is not None:
            raise CommitFailed("Requirement failed: table already exists")
        return {"table-uuid": f"uuid of {table_id}", "location": location, "marks": [], "current-snapshot-id": -1}

    return edit


def marking(mark: str) -> Edit:
    def edit(base: dict[str, Any] | None, base_location: str | None) -> dict[str, Any]:
        assert base is not None
        number = len(base["marks"]) + 1
        return {**base, "marks": [*base["marks"], mark], "current-snapshot-id": number, "last-sequence-number": number}

    return edit


def marking_after(mark: str, last: str | None) -> Edit:
    def edit(base: dict[str, Any] | None, base_location: str | None) -> dict[str, Any]:
        assert base is not None
        if (base["marks"] or [None])[-1] != last:
            raise CommitFailed(f"Requirement failed: branch main has changed: expected {last}")
        return marking(mark)(base, base_location)

    return edit


def marking_unless(mark: str, last: str) -> Edit:
    """Nothing to change if that is the last mark."""

    def edit(base: dict[str, Any] | None, base_location: str | None) -> dict[str, Any]:
        assert base is not None
        return base if base["marks"][-1:] == [last] else marking(mark)(base, base_location)

    return edit


def new_key(runtime: Runtime, body: object = None) -> IdempotencyKey:
    """A UUIDv7 of now."""
    noise = runtime.bytes(10).hex()
    milliseconds = f"{runtime.now() // 1000:012x}"
    text = f"{milliseconds[:8]}-{milliseconds[8:]}-7{noise[:3]}-8{noise[3:6]}-{noise[6:18]}"
    return parse_idempotency_key(text, what="commit", body=body, now=runtime.now())

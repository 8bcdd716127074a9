"""`Lifecycle`: tables and views get a name, change it and lose it. The catalog's log holds names, pointers hold lives.

    create    metadata file and pointer 1, then the event commits the name. Before it there is nothing but orphans.
    drop      a pointer that says `dropped`, then the event. The pointer decides: no commit follows it, and whoever
              meets a name that leads to such a pointer appends the event for who did not come to it.
    rename    the event only; it counts if the pointer says `live` after it.
    register  as create, but the metadata file is there already.

So a name that leads to a live pointer is a table, and nothing else is. What is dropped is the table that had the name
when the drop was asked for, even if it gets another name at the same moment. Ids are used once: a table that is
registered again after a drop gets a new one and keeps its uuid.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import msgspec

from arco.core import (
    DAY,
    ArcoError,
    Conflict,
    Corrupt,
    Invalid,
    LostObject,
    NotFound,
    PreconditionFailed,
    Unavailable,
    new_ulid,
    parse_ulid,
    ulid_time,
    uuid_to_ulid,
)
from arco.domains.catalog import NAME_CHANGES, CreateTable, DropTable, Ref, RenameTable
from arco.domains.deployments import ASSETS, WORKSPACE
from arco.iceberg._commit import Committed, Committer, Edit
from arco.iceberg._errors import (
    BadRequest,
    ClaimedElsewhere,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    nothing_written,
)
from arco.iceberg._keyed import KeyedRequests, check_key, identified
from arco.iceberg._loaded import Loaded, loaded
from arco.iceberg._locations import is_near
from arco.iceberg._names import (
    FORMATS,
    Named,
    Names,
    Path,
    check_path,
    dotted,
    find_in,
    is_taken,
    no_such,
    taken_by_rename,
)
from arco.iceberg._pointer import Held, Kind
from arco.iceberg._pointers import Current
from arco.iceberg._turns import beside, unknown
from arco.iceberg._who import Who
from arco.log import Receipt
from arco.runtime import Workspace
from arco.state import Replica, Snapshot
from arco.storage import Glance

__all__ = ["TRIES", "Dropped", "Lifecycle", "busy"]

T = TypeVar("T")

TRIES: Final = 8
"""How often a change is tried on what others left before its caller has to."""

OLDEST: Final = 6 * DAY
"""Age in microseconds at which an operation id is used for no event any more: the log refuses those of a week ago."""

_CATALOG: Final = "catalog"

Put = Callable[[str, Who], Awaitable[Committed]]
"""Creates the first pointer of an id; `Conflict` if it has one."""


@dataclass(frozen=True, slots=True)
class Dropped:
    table_id: str
    metadata_location: str | None
    """Of its last metadata; None of a table that never had any."""
    receipt: Receipt


class Lifecycle:
    def __init__(self, workspace: Workspace, committer: Committer) -> None:
        self.names = Names(workspace.logs[_CATALOG])
        self._workspace = workspace
        self._log = workspace.logs[_CATALOG]
        self.runtime = workspace.runtime
        self._committer = committer
        self._pointers = committer.pointers
        self.keys = KeyedRequests(workspace, committer.keys)

    async def load(self, kind: Kind, path: Path) -> Loaded:
        """What a name leads to, with its metadata; `MetadataMissing` if that file is gone, though it is remembered.

        Where the table is known, the pointer and the file are asked for at once; on local disk, which answers at once,
        one after the other, since a task would take longer than both.
        """
        documents = self._committer.documents
        named = await self._named(kind, path)
        known = self._pointers.remembered(named.table_id)
        expected = known.metadata_location if known is not None and known.is_live else None
        if expected is not None and documents.remembers(expected):
            if is_near(expected):
                current, there = await self._pointers.current(named.table_id), await documents.exists(expected)
            else:
                there, current = await beside(
                    self.runtime, partial(documents.exists, expected), partial(self._pointers.current, named.table_id)
                )
            if there and current is not None and current.is_live and current.metadata_location == expected:
                assert current.held is not None
                return loaded(named.table_id, path, current.held, await documents.read(expected))
        named, current = await self.live(kind, path)
        assert current.held is not None
        document = await documents.confirm(current.held.metadata_location)
        return loaded(named.table_id, path, current.held, document)

    def unchanged(self, found: Loaded) -> Glance | None:
        """A glance that tells whether a load by the same name, if it leads to the same id, finds the same again. None
        where only a load can tell."""
        current = self._pointers.remembered(found.table_id)
        if current is None or not current.is_live or current.number != found.number:
            return None
        in_force = self.in_force(current)
        there = self._committer.documents.glance(current.metadata_location or "")
        if in_force is None or there is None:
            return None
        first, second = in_force, there
        return lambda: first() and second()

    def in_force(self, current: Current) -> Glance | None:
        """A glance that tells whether a pointer is still the newest one; None where only a read can tell."""
        return self._pointers.unchanged(current)

    async def live(self, kind: Kind, path: Path) -> tuple[Named, Current]:
        """What a name leads to, or `NoSuchTable`, `NoSuchView`. A drop that it leads to is brought to its end."""
        for _ in range(TRIES):
            named = await self._named(kind, path)
            current = await self._pointers.current(named.table_id)
            if current is not None and current.is_live:
                return named, current
            if current is None or current.held is None:
                raise no_such(kind, path)
            try:
                await self._finish(current)  # the name may be another table's by now, so it is looked up again
            except ArcoError:
                raise no_such(kind, path) from None  # gone it is, whoever appends the event
        raise busy(path)

    async def exists(self, kind: Kind, path: Path) -> bool:
        return await self.find(kind, path) is not None

    async def find(self, kind: Kind, path: Path) -> Current | None:
        """What is in force for a name; None if it leads to nothing."""
        try:
            return (await self.live(kind, path))[1]
        except (NoSuchTable, NoSuchView):
            return None

    async def check_free(self, kind: Kind, path: Path) -> None:
        """`AlreadyExists` if something has the name, `NoSuchNamespace` if it would be nowhere."""
        for _ in range(TRIES):
            named = await self.names.find(path)
            if named is None:
                await self.names.check_namespace(path[:-1])
                return
            if not await self._is_gone(named):
                raise is_taken(kind, named)
        raise busy(path)

    async def create(self, kind: Kind, path: Path, who: Who, put: Put, *, uuid: str | None = None) -> Loaded:
        """Create a table or view: `put` makes its first pointer, under the id its uuid suggests if that is free."""
        check_path(path)
        who = identified(who)

        async def work() -> Loaded:
            with nothing_written():
                await self.check_free(kind, path)
                committed = await self._first(put, uuid, who)
            receipt = await self._name(kind, path, committed.table_id, who)
            if receipt.replayed:
                return await answer(receipt)
            assert committed.document is not None
            return loaded(committed.table_id, path, committed.held, committed.document)

        async def answer(receipt: Receipt) -> Loaded:
            named = await find_in(await self._log.snapshot(position=receipt.position), path)
            if named is None:
                raise no_such(kind, path)
            return await self.last(named.table_id, path)

        return await self.keys.once(who, work, answer)

    async def commit(self, kind: Kind, path: Path, edit: Edit, who: Who) -> Committed:
        """Change what a name leads to. A repeated request goes to what the name led to when its key was claimed."""
        try:
            return await self._commit(kind, path, edit, who)
        except Corrupt as error:
            raise await self.keys.after_damage(who, error) from error

    async def _commit(self, kind: Kind, path: Path, edit: Edit, who: Who) -> Committed:
        await self.keys.check_unused(who, strong=False)
        claimed: str | None = None
        for _ in range(TRIES):
            table_id = claimed
            if table_id is None:
                named = await self.names.find(path)
                if named is not None and named.kind == kind:
                    table_id = named.table_id
                else:
                    table_id = claimed = await self._committer.claimed(who)
            if table_id is None:
                raise no_such(kind, path)
            try:
                return await self._committer.commit(table_id, edit, who, kind=kind)
            except ClaimedElsewhere as error:
                claimed = error.table_id
            except (NoSuchTable, NoSuchView):
                if claimed is not None:
                    raise no_such(kind, path) from None
                await self.live(kind, path)  # says so by its name, or finds the next one of that name
        raise busy(path)

    async def drop(self, kind: Kind, path: Path, who: Who, *, purge: bool = False) -> Dropped:
        """Drop a table or view. `purge` lets the collector delete its files too."""
        who = identified(who)

        async def work() -> Dropped:
            for _ in range(TRIES):
                with nothing_written():
                    named = await self._named(kind, path)
                    current = await self._pointers.current(named.table_id)
                if current is None or current.held is None:
                    raise no_such(kind, path)
                dropped = await self._drop(named.table_id, kind, current, who, purge)
                if dropped is not None:
                    return dropped
            raise busy(path)

        async def answer(receipt: Receipt) -> Dropped:
            named = await find_in(await self._log.snapshot(position=int(receipt.first) - 1), path)
            current = await self._pointers.current(named.table_id) if named is not None else None
            if named is None or current is None:
                raise no_such(kind, path)
            return Dropped(named.table_id, current.metadata_location, receipt)

        return await self.keys.once(who, work, answer)

    async def drop_id(self, table_id: str, who: Who) -> Dropped:
        """Drop whatever has an id. Also a table that was only ever a row in the catalog, and has no pointer."""
        who = identified(who)

        async def work() -> Dropped:
            for _ in range(TRIES):
                named = await self.names.find_id(table_id)
                if named is None or named.kind is None:
                    raise NotFound(f"there is no Iceberg table with the id {table_id}; it was dropped, or never was")
                current = await self._pointers.current(table_id)
                if current is None or current.held is None:
                    return Dropped(table_id, None, await self._drop_event(table_id, "none", who))
                dropped = await self._drop(table_id, named.kind, current, who, purge=False)
                if dropped is not None:
                    return dropped
            raise Unavailable(f"the table {table_id} changes too often to be dropped; try again")

        async def answer(receipt: Receipt) -> Dropped:
            return Dropped(table_id, None, receipt)

        return await self.keys.once(who, work, answer)

    async def rename(self, kind: Kind, source: Path, target: Path, who: Who) -> None:
        check_path(target)
        check_path(source)
        who = identified(who)

        async def work() -> bool:
            for _ in range(TRIES):
                with nothing_written():
                    named, _ = await self.live(kind, source)
                if source == target:
                    return True
                if await self._rename(named, target, who):
                    return await self._is_live(named.table_id)
            raise busy(source)

        async def answer(receipt: Receipt) -> bool:
            return True

        if not await self.keys.once(who, work, answer):
            raise no_such(kind, source)

    # The steps

    async def _named(self, kind: Kind, path: Path) -> Named:
        """What a name means, or `NoSuchTable`, `NoSuchView`; one that nothing can have means nothing."""
        try:
            named = await self.names.find(path)
        except BadRequest:
            named = None
        if named is None or named.kind != kind:
            raise no_such(kind, path)
        return named

    async def _first(self, put: Put, uuid: str | None, who: Who) -> Committed:
        suggested = await self._free_id(uuid) if uuid is not None else None
        if suggested is not None:
            with suppress(Conflict):
                return await put(suggested, who)
        return await put(self._pointers.new_id(), who)

    async def _free_id(self, uuid: str) -> str | None:
        """The id with the bits of a uuid, if no table and no asset has it or had it."""
        try:
            table_id = uuid_to_ulid(uuid)
        except Invalid:
            return None

        async def is_known(view: Replica | Snapshot) -> bool:
            known = await view.rows(NAME_CHANGES, table_id) or await view.get(ASSETS, WORKSPACE, table_id)
            return bool(known)

        known, _ = await self._log.read(is_known)
        try:
            return None if known or await self._pointers.current(table_id) is not None else table_id
        except LostObject:  # it had pointers, and they were collected
            return None

    async def _name(self, kind: Kind, path: Path, table_id: str, who: Who) -> Receipt:
        """Commit the name of a table whose first pointer is there."""
        for _ in range(TRIES):
            try:
                with nothing_written():
                    return await self._decide(CreateTable(path, format=FORMATS[kind], table_id=table_id), who)
            except Conflict as error:
                check_key(error)
                with nothing_written():
                    named = await self.names.find(path)
                    if named is not None and not await self._is_gone(named):
                        raise is_taken(kind, named) from None
            except NotFound:
                raise NoSuchNamespace(f"Namespace does not exist: {dotted(path[:-1])}") from None
        raise busy(path)

    async def _rename(self, named: Named, target: Path, who: Who) -> bool:
        """Move a name; False if somebody else was faster at something."""
        try:
            with nothing_written():
                await self._decide(RenameTable(Ref(id=named.table_id), target, named.version), who)
        except PreconditionFailed:
            return False
        except Conflict as error:
            check_key(error)
            with nothing_written():
                holder = await self.names.find(target)
                if holder is not None and not await self._is_gone(holder):
                    raise taken_by_rename(named.path, holder) from None
            return False
        except NotFound:
            await self.names.check_namespace(target[:-1])
            return False
        return True

    async def _is_live(self, table_id: str) -> bool:
        current = await self._pointers.current(table_id)
        if current is None or current.is_live:
            return current is not None
        await self._finish(current)
        return False

    async def _drop(self, table_id: str, kind: Kind, current: Current, who: Who, purge: bool) -> Dropped | None:
        """Drop a table; None if somebody else did."""
        held = current.held
        assert held is not None
        if current.is_live:
            with nothing_written():
                held = (await self._committer.drop(table_id, who, kind=kind, purge=purge)).held
        if held.operation != who.operation:
            if not current.is_live:
                await self._finish(current)
            return None
        try:
            receipt = await self._drop_event(table_id, _fence(table_id, held), who)
        except Corrupt as error:
            why = f"the table is dropped, but its name is not free, because stored data is damaged ({error.message})"
            raise unknown(who.operation, why) from error
        return Dropped(table_id, held.metadata_location, receipt)

    async def _is_gone(self, named: Named) -> bool:
        """Whether what has a name is dropped; then the name is free afterwards."""
        if named.kind is None:
            return False
        current = await self._pointers.current(named.table_id)
        if current is None or current.state != "dropped":
            return False
        await self._finish(current)
        return True

    async def _finish(self, current: Current) -> None:
        """Append the event of a drop that its pointer decided, for who did not come to it."""
        held = current.held
        assert held is not None
        operation = held.operation
        if ulid_time(parse_ulid(operation)) < self.runtime.now() - OLDEST:
            operation = new_ulid(self.runtime, self.runtime)
        dropper = Who(current.pointer.actor, operation, traceparent=current.pointer.traceparent)
        await self._drop_event(current.table_id, _fence(current.table_id, held), dropper)

    async def _drop_event(self, table_id: str, fence: str, who: Who) -> Receipt:
        for _ in range(TRIES):
            try:
                receipt = await self._decide(DropTable(Ref(id=table_id), fence=fence), who)
            except NotFound:  # somebody else was faster
                position = str(await self._log.current())
                return Receipt(who.operation, position, position, replayed=True)
            if not receipt.replayed or await self.names.find_id(table_id) is None:
                return receipt
            # The operation stands for something else: whoever asked used it twice.
            who = replace(who, operation=new_ulid(self.runtime, self.runtime), key=None)
        raise Unavailable(f"the table {table_id} is dropped, but its name cannot be freed now; try again")

    async def _decide(self, command: msgspec.Struct, who: Who) -> Receipt:
        key = who.key
        return await self._workspace.decide(
            _CATALOG,
            command,
            actor=who.actor,
            operation=who.operation,
            correlation=who.correlation,
            traceparent=who.traceparent,
            key=key.text if key else "",
            asked=key.request_hash if key else "",
        )

    async def last(self, table_id: str, path: Path) -> Loaded:
        """What a table is, or was before it was dropped."""
        current = await self._pointers.current(table_id)
        if current is None or current.held is None:
            raise LostObject(f"the table {table_id} was created, but it has no pointer; run `arco doctor`")
        document = await self._committer.documents.read(current.held.metadata_location)
        return loaded(table_id, path, current.held, document)


def _fence(table_id: str, held: Held) -> str:
    return f"pointers/{table_id}/{held.number}"


def busy(path: Path) -> Unavailable:
    return Unavailable(f"{dotted(path)} changes too often to be changed now; try again", retry_after=1)

"""Iceberg tables in a backup: a set of pointers that was in force at one moment, with what they lead to.

Tables are read one after the other while others commit. A transaction over several tables must be in the copy of all of
them or of none, so the tables are looked at twice: whatever a transaction needs that the first look met was there when
the second one began. From the second look only that is taken.

Decisions are read after all pointers, each once. One that is still missing then was undecided, and a restore aborts it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from arco.backup._format import Backup, Listing, TableCopy, TableFile
from arco.backup._vault import Vault, in_parallel
from arco.core import Forbidden, Invalid, Runtime, Superseded, Unavailable
from arco.iceberg import Locations, MetadataMissing, Outcome, Pointer, Pointers, decode_pointer
from arco.log import Unknown
from arco.storage import StoreFailed, Tail

__all__ = ["TableCopier", "included"]

GROUPS = 64
"""Lists of tables; a table's own is the one its id leads to, so that a backup writes only those in which something
changed."""


@dataclass(slots=True)
class _Seen:
    """The pointers of a table that are to be copied: from `first` to `last`."""

    first: int
    last: int
    txns: dict[int, str] = field(default_factory=dict)
    """Transactions that new pointers belong to, by number."""
    later: list[tuple[int, str | None]] = field(default_factory=list)
    """Pointers that the second look found, and their transactions."""


def included(seen: Mapping[str, _Seen]) -> None:
    """Take from the second look what transactions need that were met already; nothing else."""
    needed = {txn for one in seen.values() for txn in one.txns.values()}
    while True:
        grown = False
        for one in seen.values():
            wanted = [number for number, txn in one.later if txn in needed and number > one.last]
            if not wanted:
                continue
            for number, txn in one.later:
                if one.last < number <= max(wanted) and txn is not None:
                    one.txns[number] = txn
                    needed.add(txn)
            one.last, grown = max(wanted), True
        if not grown:
            return


class TableCopier:
    """Copies the tables of one workspace into a vault."""

    def __init__(self, vault: Vault, base: int, pointers: Pointers, locations: Locations, runtime: Runtime) -> None:
        self._vault = vault
        self._base = base
        self._pointers = pointers
        self._locations = locations
        self._runtime = runtime
        self._decisions: dict[str, Outcome | None] = {}
        self.copied = 0
        self.copied_bytes = 0
        self.troubled: list[str] = []
        """Tables whose metadata in force could not be copied, with the reason."""

    async def copy(
        self, ids: Iterable[str], previous: Backup | None, progress: Callable[[int, int], None]
    ) -> list[Listing]:
        """The lists of tables of a backup; `previous` is one of the same incarnation, if there is any."""
        known: dict[str, tuple[int, int]] = {}
        for listing in previous.lists_of("iceberg") if previous is not None else ():
            known |= {
                one.table_id: (one.first, one.first + len(one.pointers) - 1)
                for one in await self._vault.tables(listing)
            }
        seen: dict[str, _Seen] = {}
        wanted = sorted(ids)

        async def look(table_id: str) -> None:
            found = await self._look(table_id, known.get(table_id))
            if found is not None:
                seen[table_id] = found

        await in_parallel(self._runtime, wanted, look)
        if any(one.txns for one in seen.values()):
            await in_parallel(self._runtime, sorted(seen), lambda table_id: self._look_again(table_id, seen[table_id]))
            included(seen)
        lists, done = [], 0
        groups: dict[str, list[str]] = {}
        for table_id in sorted(seen):
            groups.setdefault(_group(table_id), []).append(table_id)
        for name, members in sorted(groups.items()):
            lists.append(await self._group(name, members, seen, previous))
            done += len(members)
            progress(done, len(seen))
        return lists

    async def _look(self, table_id: str, known: tuple[int, int] | None) -> _Seen | None:
        sequence = self._pointers.sequence(table_id)
        if known is None:
            tail = await sequence.tail()
            if tail.number == 0:
                return None
            first = await sequence.floor() + 1
            return _Seen(first, tail.number, await self._txns(table_id, first, tail.number))
        first, last = known
        one = _Seen(first, last)
        try:
            one.last += await self._later(table_id, one)
        except Superseded:  # what was copied last has been collected since
            return await self._look(table_id, None)
        one.txns = {number: txn for number, txn in one.later if txn is not None}
        one.first, one.later = max(first, await sequence.floor() + 1), []
        return one

    async def _look_again(self, table_id: str, one: _Seen) -> None:
        await self._later(table_id, one)

    async def _later(self, table_id: str, one: _Seen) -> int:
        """Note the pointers after the last one that is known, and say how many there are."""
        sequence, tail = self._pointers.sequence(table_id), Tail(one.last, Unknown)
        while True:
            found = await sequence.next(tail)
            if isinstance(found, Tail):
                return len(one.later)
            data, tail = found
            one.later.append((tail.number, decode_pointer(data, sequence.path(tail.number)).txn))

    async def _txns(self, table_id: str, first: int, last: int) -> dict[int, str]:
        found = {}
        for number in range(first, last + 1):
            pointer, _ = await self._read(table_id, number)
            if pointer.txn is not None:
                found[number] = pointer.txn
        return found

    async def _read(self, table_id: str, number: int) -> tuple[Pointer, str]:
        sequence = self._pointers.sequence(table_id)
        data = await sequence.read_known(number)
        return decode_pointer(data, sequence.path(number)), data.decode()

    async def _group(
        self, name: str, members: list[str], seen: Mapping[str, _Seen], previous: Backup | None
    ) -> Listing:
        before: dict[str, TableCopy] = {}
        for listing in previous.lists_of("iceberg", name) if previous is not None else ():
            before |= {one.table_id: one for one in await self._vault.tables(listing)}
        copies: dict[str, TableCopy] = {}

        async def copy(table_id: str) -> None:
            copies[table_id] = await self._table(table_id, seen[table_id], before.get(table_id))

        await in_parallel(self._runtime, members, copy)
        tables = [copies[table_id] for table_id in members]
        size = sum(file.content.size for one in tables for file in one.metadata)
        return await self._vault.put_list("iceberg", name, tables, size, self._base, previous)

    async def _table(self, table_id: str, one: _Seen, before: TableCopy | None) -> TableCopy:
        texts: dict[int, str] = {}
        if before is not None:
            texts = {before.first + index: text for index, text in enumerate(before.pointers)}
        pointers = []
        for number in range(one.first, one.last + 1):
            if number not in texts:
                _, texts[number] = await self._read(table_id, number)
            pointers.append(decode_pointer(texts[number].encode(), table_id))
        files = {file.location: file for file in before.metadata} if before is not None else {}
        missing = set(before.missing) if before is not None else set()
        decisions = {txn: await self._decision(txn) for pointer in pointers if (txn := pointer.txn) is not None}
        named = list(dict.fromkeys(_locations(pointers)))
        for location in named:
            if location not in files and location not in missing:
                file = await self._metadata(table_id, location, is_newest=location == named[-1])
                if file is None:
                    missing.add(location)
                else:
                    files[location] = file
        return TableCopy(
            table_id,
            pointers[-1].kind,
            tuple(texts[number] for number in range(one.first, one.last + 1)),
            one.first,
            {txn: outcome for txn, outcome in decisions.items() if outcome is not None},
            tuple(files[location] for location in named if location in files),
            tuple(location for location in named if location in missing),
        )

    async def _decision(self, txn: str) -> Outcome | None:
        if txn not in self._decisions:
            self._decisions[txn] = await self._pointers.decisions.read(txn)
        return self._decisions[txn]

    async def _metadata(self, table_id: str, location: str, *, is_newest: bool) -> TableFile | None:
        try:
            data = await self._locations.read_file(location)
        except (MetadataMissing, Forbidden, Invalid) as error:
            if is_newest:
                self.troubled.append(f"{table_id}: {error.message}")
            return None
        except StoreFailed as error:
            raise Unavailable(f"{location} cannot be read now: {error.message}; run it again") from error
        content, is_new = await self._vault.put(data, self._base)
        if is_new:
            self.copied, self.copied_bytes = self.copied + 1, self.copied_bytes + len(data)
        return TableFile(location, content)


def _locations(pointers: list[Pointer]) -> Iterable[str]:
    for pointer in pointers:
        if pointer.before is not None:
            yield pointer.before.metadata_location
        yield pointer.metadata_location


def _group(table_id: str) -> str:
    return f"{hashlib.sha256(table_id.encode()).digest()[0] % GROUPS:02d}"

"""`Source`: the incarnation that an erasure starts from: where its logs end, and what will be named no more.

Its seal, once there is one, names what comes after it: the folder of the new incarnation, and the words for texts.
"""

import re
from collections.abc import Awaitable, Callable, Iterable

from arco.backup._redact import Selection
from arco.backup._seal import find_seal, table_ids
from arco.backup._survey import Editing, rewrite_blobs
from arco.backup._target import LOGS, Next
from arco.backup._vault import in_parallel
from arco.core import Conflict, Refused, Runtime, derive_ulid
from arco.domains.deployments import ASSETS, AssetStatus
from arco.iceberg import Decisions, Outcome, Pointer, decode_pointer
from arco.log import Blobs, Place
from arco.runtime import DEFINITIONS, Incarnation
from arco.state import Revisions, open_ledger, snapshot_at_revision
from arco.storage import ObjectMissing, RequestCounts, Role, RoleStore, Scope, Sequence, Store

__all__ = ["Source"]

FOLDER = "warehouse"
"""Where Iceberg tables lie that nobody placed, each in a folder named by its id."""

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_VERSION = re.compile(rf"data/.+/(?:arco_version=)?{_ULID.pattern}")
"""The folder of one version."""


class Source:
    """The incarnation that an erasure starts from."""

    def __init__(self, base: Store, scope: Scope, runtime: Runtime, life: Incarnation) -> None:
        self.life = life
        self.reader = RoleStore(base, scope, Role.READER, RequestCounts())
        self.ends: dict[str, int] = {}
        self.seal: tuple[str, int] | None = None
        """Id and time of the seal of the catalog's log."""
        self._scope = scope
        self._runtime = runtime

    def place(self, log: str) -> Place:
        return Place(self._scope.tenant, self._scope.workspace, self.life.id, log)

    def revisions(self, log: str) -> Revisions:
        return Revisions(self.reader, self.place(log), self._runtime)

    async def find_ends(self) -> None:
        for log in LOGS:
            seal, self.ends[log] = await find_seal(self.reader, self.place(log), self._runtime)
            if log == "catalog" and seal is not None:
                self.seal = seal.id, seal.received

    def seed(self, selection: Selection) -> str:
        """What everything that an erasure makes up is made of. Who has only what is left cannot make it."""
        assert self.seal is not None, "it is sealed"
        return f"{self.seal[0]}:{selection.text()}"

    def successor(self, selection: Selection) -> str:
        assert self.seal is not None, "it is sealed"
        return f"inc-{derive_ulid(self.seal[1], self.seed(selection)).lower()}"

    async def settled(self) -> Next | None:
        """What comes next, if one that was interrupted had written it whole."""
        try:
            data = await self.reader.get(Next.path(self.life))
        except ObjectMissing:
            return None
        found = Next.decode(data, Next.path(self.life))
        if found.life.reason != "erase":
            raise Conflict(
                f"a {found.life.reason} was interrupted before it opened {found.life.id}; run it again first"
            )
        return found

    async def blobs(self, words: dict[str, str]) -> dict[str, bytes]:
        ledgers = [(open_ledger(self.reader, self.revisions(log)), self.ends[log]) for log in LOGS]
        return await rewrite_blobs(self.reader, ledgers, words)

    async def check_ids(self, selection: Selection) -> None:
        """An asset of the current code would be planned without being known."""
        if not selection.ids:
            return
        definition = next(known for known in DEFINITIONS if known.log == "catalog")
        head = (await self.revisions("catalog").head()).manifest
        rows = await snapshot_at_revision(definition, self.reader, head, self._runtime).scan(ASSETS)
        for row in rows.select(["asset_id", "key", "status"]).to_pylist():
            if row["asset_id"] in selection.ids and row["status"] == AssetStatus.ACTIVE:
                raise Refused(
                    f"the asset {row['key']} is in the code that is deployed; deploy the code without it, then erase it"
                )

    async def tables(
        self, selection: Selection, take: Callable[[list[Pointer], dict[str, Outcome]], Awaitable[None]]
    ) -> None:
        """Read the pointers of every table that stays, but for its seal, with the decisions they need."""
        prefix = f"{self.life.id}/iceberg"
        decisions = Decisions(self.reader, prefix, self._runtime)

        async def read(table_id: str) -> None:
            sequence = Sequence(self.reader, f"{prefix}/pointers/{table_id}", self._runtime)
            tail, floor = await sequence.tail(), await sequence.floor()
            pointers: list[Pointer] = []
            outcomes: dict[str, Outcome] = {}
            for number in range(floor + 1, tail.number + 1):
                pointer = decode_pointer(await sequence.read_known(number), sequence.path(number))
                if pointer.seal:
                    break
                if pointer.txn is not None and (outcome := await decisions.read(pointer.txn)) is not None:
                    outcomes[pointer.txn] = outcome
                pointers.append(pointer)
            if pointers:
                await take(pointers, outcomes)

        found = sorted(await table_ids(self.reader, self.life.id))
        await in_parallel(self._runtime, [one for one in found if one not in selection.ids], read)

    async def check_tables(self, selection: Selection) -> None:
        """See that every pointer can be read: after the seal it would be too late to find one damaged."""

        async def take(pointers: list[Pointer], outcomes: dict[str, Outcome]) -> None: ...

        await self.tables(selection, take)

    async def gone(self, edits: Iterable[Editing], selection: Selection, blobs: dict[str, bytes]) -> set[str]:
        """Objects and folders beside the incarnations that nothing names afterwards."""
        found, after = {Blobs.path(sha256) for sha256 in blobs}, set[str]()
        for editing in edits:
            found |= editing.before
            after |= editing.after
        found -= after
        # Beside the files of a version lies what its writer left there; the folder is its own.
        folders = {_folder(path) for path in found if _VERSION.fullmatch(_folder(path))} - set(map(_folder, after))
        for one in selection.ids:
            if _ULID.fullmatch(one):  # what else it may be is the name of no folder of Arco's
                folders |= {f"data/{one}", f"logs/{one}", f"{FOLDER}/{one.lower()}"}
        for folder in folders:
            async for _ in self.reader.list(folder):
                found.add(f"{folder}/")
                break
        return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0]

"""The reconciler: what the pointers of Iceberg tables say and the log `activity` was not told, it is told now.

    tables of the catalog and of the log -> newest pointer -> numbers after `recorded_through` -> events

Nothing is listed. A number of a transaction counts once that is decided: committed, or `aborted`, which is told too, so
that numbers have no gaps. What this process is about to tell itself is left to its receipts, so that a pass may end
before the log has it. Two reconcilers at once, or one beside another process's committer, tell a thing twice at worst.

A pass asks the store once per table that this process knows and a few times for others. Passes that find nothing come
less and less often, down to one an hour, and where there are no such tables nothing is asked. A table is not left to
the passes if somebody asks for it: when this process meets a pointer of another one, it looks soon afterwards whether
the log was told of it, which costs no request where it was.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog import ICEBERG_FORMATS
from arco.core import SECOND, ArcoError, Corrupt, Invalid, OutcomeUnknown, Refused, Task
from arco.domains.catalog import TABLES
from arco.domains.tables import TABLE_COMMITS, TABLE_STATES, CommitState, TableState, commit_key
from arco.iceberg._documents import Documents
from arco.iceberg._events import committed_event
from arco.iceberg._pointer import Pointer
from arco.iceberg._pointers import Pointers
from arco.iceberg._receipts import Receipts, read_metadata, tell
from arco.log import NewEvent
from arco.runtime import Workspace
from arco.state import Snapshot, freeze

__all__ = ["Missing", "Reconciled", "Reconciler"]

FIRST_SECONDS = 2.0
"""From the start of a process to its first pass: what the one before it left is told soon."""
PASS_SECONDS = 300.0
IDLE_SECONDS = 3600.0
AT_ONCE = 50
"""Events of one append."""
MAX_NUMBERS = 1_000
"""Numbers of one table that a pass looks at."""
GRACE_SECONDS = 1.5
"""From meeting a pointer to the look at whether it was told: who created it may be about to."""
MAX_MET = 1_000
"""Tables that may wait for that look; the passes come to the others."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A pointer that the log was not told of, or one that nobody can tell any more."""

    table_id: str
    number: int
    is_lost: bool = False
    """The pointer was collected before it was told."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    tables: int
    """Tables that were looked at."""
    missing: tuple[Missing, ...]
    """What was told now, or would be."""
    undecided: int
    """Tables whose newest pointer belongs to a transaction that is under way."""
    lag_seconds: float
    """Age of the oldest commit that was missing."""
    troubled: tuple[str, ...] = ()
    """Tables that could not be looked at, with the reason."""


class Reconciler:
    def __init__(self, workspace: Workspace, pointers: Pointers, documents: Documents, receipts: Receipts) -> None:
        self._receipts = receipts
        self._workspace = workspace
        self._runtime = workspace.runtime
        self._pointers = pointers
        self._documents = documents
        self._task: Task | None = None
        self._known_at = (-1, -1)
        self._known_ids: frozenset[str] = frozenset()
        self._met: dict[str, Task] = {}
        self.last: Reconciled | None = None
        """What the last pass found."""
        self.restored = 0
        """Events that this process made for others."""

    def start(self) -> None:
        """Reconcile now and then, until `stop`."""
        if self._task is None:
            self._task = self._runtime.spawn(self._run(), "iceberg reconciler")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for task in self._met.values():
            task.cancel()
        self._met.clear()

    def meet(self, table_id: str) -> None:
        """There may be something to tell of a table. Returns at once."""
        if self._task is not None and table_id not in self._met and len(self._met) < MAX_MET:
            self._met[table_id] = self._runtime.spawn(self._look_at(table_id), f"receipts of {table_id}")

    async def _look_at(self, table_id: str) -> None:
        try:
            await self._runtime.sleep(self._runtime.uniform(1.0, 1.5) * GRACE_SECONDS)
            if await self._is_behind(table_id):
                await self._workspace.logs["activity"].current()  # what was told elsewhere may not be known here yet
                if await self._is_behind(table_id):
                    await self._table(table_id, await self._state(table_id), dry_run=False)
        except ArcoError:
            pass  # the next pass finds it, or the next who meets it
        finally:
            self._met.pop(table_id, None)

    async def _is_behind(self, table_id: str) -> bool:
        """Whether a pointer that this process knows was not told, as far as it knows."""
        current, state = self._pointers.remembered(table_id), await self._state(table_id)
        newest = 0 if current is None else current.tail.number
        return newest > (0 if state is None else state.recorded_through)

    async def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._workspace.logs["activity"].follower.ended:
            await self._runtime.sleep(self._runtime.uniform(0.9, 1.1) * pause)
            try:
                found = await self.reconcile() if await self._is_due() else None
            except ArcoError:
                pause = PASS_SECONDS  # whoever asks for something meets the same trouble and says so
                continue
            is_quiet = found is None or not (found.missing or found.undecided)
            pause = min(max(pause * 2, PASS_SECONDS), IDLE_SECONDS) if is_quiet else PASS_SECONDS

    async def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """Tell the log what it was not told."""
        ids = await self._ids()
        states = {table_id: await self._state(table_id) for table_id in ids}
        missing: list[Missing] = []
        troubled: list[str] = []
        undecided, oldest = 0, self._runtime.now()
        for number, table_id in enumerate(sorted(states)):
            if number % AT_ONCE == 0:
                await self._runtime.sleep(0)  # a disk answers at once: whoever else has something to do would wait
            try:
                found = await self._table(table_id, states[table_id], dry_run)
            except (Corrupt, Refused, Invalid) as error:  # this one's own trouble: the others go on
                troubled.append(f"{table_id}: {error.message}")
                continue
            undecided += found.undecided
            oldest = min([oldest, *found.times])
            missing += found.missing
        lag = (self._runtime.now() - oldest) / SECOND if missing else 0.0
        self.last = Reconciled(len(states), tuple(missing), undecided, max(lag, 0.0), tuple(troubled))
        return self.last

    async def _is_due(self) -> bool:
        """Whether there are tables, and this process leads. Where there are none nobody is asked."""
        return bool(await self._ids()) and await self._workspace.logs["activity"].leads()

    async def _ids(self) -> frozenset[str]:
        """Tables that may have something to tell, by what this process knows. Dropped ones that told it all have not.

        No look at the ends of the logs: what is not known here yet is met by the next pass.
        """
        activity, catalog = self._workspace.logs["activity"], self._workspace.logs["catalog"]
        at = (catalog.replica.watermark, activity.replica.watermark)
        if at != self._known_at:
            named = await _iceberg_ids(freeze(catalog.definition, catalog.replica))
            states = await freeze(activity.definition, activity.replica).scan(TABLE_STATES)
            rows = states.select(["table_id", "state", "number", "recorded_through"]).to_pylist()
            told = {row["table_id"] for row in rows if not _is_over(row)}
            self._known_ids, self._known_at = frozenset({*named, *told}), at
        return self._known_ids

    async def _state(self, table_id: str) -> TableState | None:
        found: TableState | None = await self._workspace.logs["activity"].replica.get(TABLE_STATES, table_id, table_id)
        return found

    async def _table(self, table_id: str, state: TableState | None, dry_run: bool) -> "_Found":
        through = 0 if state is None else state.recorded_through
        found = _Found([], [])
        current = await self._pointers.current(table_id, hint=through)
        if current is None:
            return found
        newest = current.tail.number if current.decided else current.tail.number - 1
        found.undecided = int(not current.decided)
        if newest <= through:
            return found
        events: list[tuple[Pointer, NewEvent]] = []
        for number in range(through + 1, min(newest, through + MAX_NUMBERS) + 1):
            if self._receipts.is_waiting(table_id, number) or await self._is_told(table_id, number):
                continue
            try:
                pointer = await self._pointers.read(table_id, number)
            except OutcomeUnknown:
                found.missing.append(Missing(table_id, number, is_lost=True))
                continue
            found.missing.append(Missing(table_id, number))
            found.times.append(pointer.committed_at)
            if not dry_run:
                events.append((pointer, await self._event(pointer)))
            if len(events) == AT_ONCE:
                await self._tell(events)
                events = []
        await self._tell(events)
        return found

    async def _tell(self, events: list[tuple[Pointer, NewEvent]]) -> None:
        if not events:
            return
        await tell(self._workspace, [event for _, event in events])
        self.restored += len(events)
        for pointer, _ in events:
            self._receipts.told(pointer.committed_at)

    async def _is_told(self, table_id: str, number: int) -> bool:
        """Asked of now: a receipt may have come since the pass began."""
        replica, state = self._workspace.logs["activity"].replica, await self._state(table_id)
        if state is not None and number <= state.recorded_through:
            return True
        return await replica.get(TABLE_COMMITS, table_id, commit_key(table_id, number)) is not None

    async def _event(self, pointer: Pointer) -> NewEvent:
        is_aborted = pointer.txn is not None and await self._pointers.decisions.read(pointer.txn) != "committed"
        metadata = await read_metadata(self._documents, pointer.metadata_location)
        base = await read_metadata(self._documents, pointer.base_location)
        return committed_event(pointer, metadata, base, aborted=is_aborted)


@dataclass(slots=True)
class _Found:
    missing: list[Missing]
    times: list[int]
    undecided: int = 0


def _is_over(row: dict[str, Any]) -> bool:
    return bool(row["state"] == CommitState.DROPPED and row["number"] <= row["recorded_through"])


async def _iceberg_ids(catalog: Snapshot) -> list[str]:
    rows = await catalog.scan(TABLES)
    wanted = pc.is_in(rows.column("format"), pa.array(ICEBERG_FORMATS))
    ids: list[str] = rows.column("table_id").filter(wanted).to_pylist()
    return ids

"""Erasing: the workspace goes on in a new incarnation without chosen events, and nothing of them is left in the store.

    survey -> seal the old incarnation -> log, blobs, state, tables -> delete what only they named -> incarnations/{n+1}
           -> delete the old incarnation

Nothing that was acknowledged may be lost, so the log is rewritten after its seal, up to it; before the seal everything
is gone through in memory, so that what would be refused is refused while nothing has happened. What is deleted beside
the incarnations is deleted while no incarnation takes writes: nobody can name it again meanwhile.

The same command goes on after a crash: the folder's name is made of the seal and of what is erased. The seal's own id
is deleted in the end, so that the name tells nobody what was erased.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from arco.backup._redact import MIN_TEXT, Selection, replace_texts
from arco.backup._rewrite import rewrite_segment
from arco.backup._seal import check_formats, seal_incarnation, table_ids
from arco.backup._source import Source
from arco.backup._superseded import Buried, bury
from arco.backup._survey import Editing, survey_log
from arco.backup._target import LOGS, Progress, Target
from arco.core import Conflict, Invalid, NotFound, Runtime, derive_ulid, new_ulid
from arco.iceberg import Outcome, Pointer, Who
from arco.log import FIRST_LINK, Blobs, check_segment, position_of
from arco.runtime import DEFINITIONS, Incarnation, open_incarnation, read_incarnation
from arco.state import WORKSPACE_ERASED, WorkspaceErased, open_ledger
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store

__all__ = ["Erased", "ErasurePlan", "erase", "plan_erasure"]

_ID = re.compile(r"[A-Za-z0-9_-]{3,128}")


@dataclass(frozen=True)
class ErasurePlan:
    """What an erasure would do."""

    selection: Selection
    reason: str
    old: Incarnation
    is_sealed: bool
    """Whether an erasure or a restore was begun already, and not finished."""
    segments: dict[str, int]
    """How many segments each log has, without its seal."""
    whole: dict[str, dict[str, int]] = field(default_factory=dict)
    """Events that go, by log and type."""
    edited: dict[str, dict[str, int]] = field(default_factory=dict)
    """Events of which a part goes or is replaced."""
    first: dict[str, int] = field(default_factory=dict)
    """The first position of each log where something else stands afterwards; a log without any is not in it."""
    blobs: int = 0
    """Blobs that are rewritten."""
    objects: tuple[str, ...] = ()
    """Objects beside the incarnations that go; what ends in a slash is a folder."""
    tables: tuple[str, ...] = ()
    """Iceberg tables that go."""
    is_filled: bool = False
    """Whether an erasure was interrupted that had written all of its incarnation: that one is finished, and nothing
    else is done. `objects` are left to delete."""

    @property
    def is_empty(self) -> bool:
        return not (self.first or self.tables or self.objects or self.is_filled)


@dataclass(frozen=True)
class Erased:
    incarnation: Incarnation
    plan: ErasurePlan
    deleted: int
    """Objects beside the incarnations that are gone."""
    buried: list[Buried]


def check_selection(selection: Selection) -> None:
    if not (selection.positions or selection.ids or selection.texts):
        raise Invalid("nothing says what to erase; name events (--event), an id (--about) or a text (--text)")
    for one in selection.ids:
        if _ID.fullmatch(one) is None:
            raise Invalid(f"{one[:80]!r} is no id; `arco table show`, `assets show` and `runs list` show ids")
    for text in selection.texts:
        if len(text) < MIN_TEXT:
            raise Invalid(f"a text of fewer than {MIN_TEXT} characters stands everywhere; name a longer one")


async def plan_erasure(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    selection: Selection,
    reason: str,
    *,
    progress: Progress = lambda what, done, total: None,
) -> ErasurePlan:
    """Read both logs and see what would happen. `NotFound` if a part of the selection is nowhere; `Outdated` or
    `Corrupt` if what is there could not be sealed or copied."""
    check_selection(selection)
    source = Source(base, scope, runtime, await read_incarnation(base, scope, runtime))
    await source.find_ends()
    if (settled := await source.settled()) is not None:
        return ErasurePlan(selection, reason, source.life, True, source.ends, objects=settled.delete, is_filled=True)
    await check_formats(source.reader, scope.tenant, scope.workspace, source.life.id, runtime)
    words = _words(selection, "plan")
    blobs = await source.blobs(words)
    await source.check_ids(selection)
    await source.check_tables(selection)
    edits = {}
    for definition in DEFINITIONS:
        edits[definition.log] = Editing(definition.log, definition, selection, _with(words, blobs), reason)
        revisions, last = source.revisions(definition.log), source.ends[definition.log]
        await survey_log(source.reader, revisions, last, edits[definition.log], blobs, progress)
    tables = [table_id for table_id in await table_ids(source.reader, source.life.id) if table_id in selection.ids]
    objects = await source.gone(edits.values(), selection, blobs)
    plan = ErasurePlan(
        selection,
        reason,
        source.life,
        source.seal is not None,
        source.ends,
        {log: dict(sorted(editing.whole.items())) for log, editing in edits.items()},
        {log: dict(sorted(editing.edited.items())) for log, editing in edits.items()},
        {log: editing.first for log, editing in edits.items() if editing.first},
        len(blobs),
        tuple(sorted(objects)),
        tuple(sorted(tables)),
    )
    try:
        _check_found(plan, edits.values())
    except NotFound:
        # The same command once more, after it was interrupted or when what was too young has its age.
        former = await bury(base, scope, runtime, dry_run=True) if source.life.reason == "erase" else []
        if not plan.is_empty or not any(one.objects or one.waiting for one in former):
            raise
    return plan


def _check_found(plan: ErasurePlan, edits: Iterable[Editing]) -> None:
    selection = plan.selection
    for log, ranges in selection.positions.items():
        if log not in LOGS:
            raise NotFound(f"there is no log {log[:80]!r}; there are {' and '.join(LOGS)}")
        found = {position for editing in edits if editing.log == log for position in editing.chosen}
        for first, last in ranges:
            if not any(first <= position <= last for position in found):
                raise NotFound(
                    f"there is no event at {first >> 20}:{first & (1 << 20) - 1} of {log} that could be erased; "
                    f"`arco log cat {log}` shows what there is"
                )
    met = {text for editing in edits for text in editing.found} | set(plan.tables)
    folders = {path.split("/")[1] for path in plan.objects if path.endswith("/")}
    for wanted in selection.ids:
        if wanted not in met and wanted not in folders:
            raise NotFound(f"no event names the id {wanted[:80]!r}; it is erased already, or it is no id")
    if selection.texts and not plan.blobs and not any(text in met for text in selection.texts):
        raise NotFound("the text stands in no event and in no blob; letters must be the same, small or large")


def _words(selection: Selection, seed: str) -> dict[str, str]:
    """What stands for each text afterwards. It tells nobody what it stands for."""
    longest = sorted(selection.texts, key=lambda text: (-len(text), text))
    return {text: f"erased_{derive_ulid(0, f'{seed}:{n}')[-8:].lower()}" for n, text in enumerate(longest)}


def _with(words: dict[str, str], blobs: dict[str, bytes]) -> dict[str, str]:
    return words | {sha256: hashlib.sha256(data).hexdigest() for sha256, data in blobs.items()}


async def erase(
    base: Store,
    scope: Scope,
    runtime: Runtime,
    plan: ErasurePlan,
    *,
    actor: str,
    progress: Progress = lambda what, done, total: None,
) -> Erased:
    """Carry out a plan; what came since it was made is gone through in the same way.

    An empty plan ends an erasure that was carried out before.
    """
    if plan.is_empty:
        return Erased(plan.old, plan, 0, await bury(base, scope, runtime, progress=progress))
    who = Who(actor, new_ulid(runtime, runtime), source="admin", client="arco erase")
    admin = RoleStore(base, scope, Role.ADMIN, RequestCounts())
    await seal_incarnation(
        admin,
        scope.tenant,
        scope.workspace,
        plan.old.id,
        runtime,
        who,
        known=plan.segments,
        manifests=False,
        progress=lambda done, total: progress("sealing tables", done, total),
    )
    source = Source(base, scope, runtime, plan.old)
    await source.find_ends()
    ends = {log: str(position_of(number + 1, 0) - 1) for log, number in source.ends.items()}
    life = Incarnation(
        source.successor(plan.selection),
        plan.old.number + 1,
        runtime.now(),
        "erase",
        plan.old.id,
        through=ends,
    )
    following = await source.settled()
    if following is None:
        target = Target(base, scope, runtime, life, actor, progress)
        gone = await _Writing(source, target, plan, runtime, progress).fill()
        # From here on the old log cannot be read whole any more, so nothing is written a second time.
        following = await target.settle(plan.old, gone)
    # `next` goes once its incarnation is open, so whoever finds the old one still the newest has the only one.
    newest = await read_incarnation(base, scope, runtime)
    if newest.id not in (plan.old.id, following.life.id):
        raise Conflict(f"{newest.id} was opened meanwhile; nothing was deleted: look at it, then run this again")
    deleted = 0
    if newest.id == plan.old.id:
        deleted = await _delete(RoleStore(base, scope, Role.COLLECTOR, RequestCounts()), following.delete, progress)
    opened = await open_incarnation(base, scope, runtime, following.life)
    return Erased(opened, plan, deleted, await bury(base, scope, runtime, progress=progress))


class _Writing:
    def __init__(self, source: Source, target: Target, plan: ErasurePlan, runtime: Runtime, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._plan = plan
        self._words = _words(plan.selection, source.seed(plan.selection))
        self._runtime = runtime
        self._progress = progress

    async def fill(self) -> list[str]:
        """Write the whole incarnation; returns what nothing names any more."""
        await self._target.begin(self._plan.old)
        blobs = await self._source.blobs(self._words)
        for data in blobs.values():
            await self._target.create(Blobs.path(hashlib.sha256(data).hexdigest()), data)
        edits = []
        for definition in DEFINITIONS:
            words = _with(self._words, blobs)
            editing = Editing(definition.log, definition, self._plan.selection, words, self._plan.reason)
            await self._ledger(definition.log, editing)
            edits.append(editing)
        await self._target.fold()
        await self._source.tables(self._plan.selection, self._copy_table)
        written = {Blobs.path(hashlib.sha256(data).hexdigest()) for data in blobs.values()}
        named = {path for editing in edits for path in editing.after}
        gone = await self._source.gone(edits, self._plan.selection, blobs) | (written - named)
        return sorted(gone)

    async def _ledger(self, log: str, editing: Editing) -> None:
        """The segments up to the seal, each as its events are now."""
        target, source = self._target, self._source
        place, sequence, last = target.place(log), target.ledger(log), source.ends[log]
        ledger = open_ledger(source.reader, source.revisions(log))
        old = new = FIRST_LINK
        batch: list[tuple[str, bytes]] = []
        async for number, data, path in ledger.known(1, last):
            _, old = check_segment(data, ledger.place, old, path)
            rewritten, link = rewrite_segment(data, place, new, path, edit=editing.edit)
            there = await target.same_segment(sequence.path(number), rewritten)
            if there is None:
                batch.append((sequence.path(number), rewritten))
            else:
                link = msgspec.structs.replace(link, sha256=hashlib.sha256(there).hexdigest())
            new = link
            if len(batch) == 64 or number == last:
                await target.write_segments(batch)
                batch = []
                self._progress(f"log {log}", number, last)
        life = target.life
        whole, edited = sum(editing.whole.values()), sum(editing.edited.values())
        said = WorkspaceErased(life.id, life.previous, self._plan.reason, str(new.number), whole, edited, editing.types)
        await target.note(log, new, WORKSPACE_ERASED, said)

    async def _copy_table(self, pointers: list[Pointer], outcomes: dict[str, Outcome]) -> None:
        await self._target.write_pointers([self._redacted(pointer) for pointer in pointers], outcomes)

    def _redacted(self, pointer: Pointer) -> Pointer:
        """Who committed may be a text that goes. Where the metadata lies stays: a table cannot be renamed."""
        return msgspec.structs.replace(
            pointer,
            actor=replace_texts(pointer.actor, self._words),
            client=replace_texts(pointer.client, self._words),
        )


async def _delete(store: RoleStore, gone: tuple[str, ...], progress: Progress) -> int:
    """Delete objects, and everything in folders."""
    paths = {path for path in gone if not path.endswith("/")}
    for folder in sorted(set(gone) - paths):
        paths |= {info.path async for info in store.list(folder.rstrip("/"))}
    for done, path in enumerate(sorted(paths), 1):
        await store.delete(path)
        progress("deleting", done, len(paths))
    return len(paths)

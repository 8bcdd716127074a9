"""Known mistakes, applied to the engine inside the simulation only. Each must be caught within a few seeds.

A mutant replaces one method or function of the engine by a version with the mistake. It is tried on one scripted
scenario, or on the random world; the same scenario without the mutant must satisfy every checker.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from arco.core import SECOND, Conflict, Superseded, new_ulid
from arco.log import Command, Follower, Gateway, HintFile, Ledger, Receipt, position_of
from arco.log import Owner as LogOwner
from arco.log._owner import _Group
from arco.log._segment import SEGMENT_FORMAT, Header, Link, encode_segment
from arco.state import Collector, Kind, LayerReader, Manifest, Table, _compactor, _runner, packed_through
from arco.state._codec import sort_rows
from arco.state._manifest import Layer, Pending
from arco.state._packing import Packing
from arco.storage import Lost, ObjectExists, ObjectInfo, Sequence, StoreFailed, Tail, Won
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.stage import run_scenario
from tests.simulation.world import Result, run_seed

__all__ = ["MUTANTS", "Mutant", "Patch", "report_mutants", "try_mutant"]

TRIES = 25
"""Seeds within which a mutant must be caught."""

Patch = tuple[Any, str, Any]
"""What to replace, the name in it, and by what."""


@dataclass(frozen=True)
class Mutant:
    name: str
    mistake: str
    scenario: str
    """Which scripted scenario; empty for the random world."""
    patches: Callable[[], list[Patch]]
    run: Callable[[int], Result] = run_seed
    """What runs a seed of the random world."""
    first: int = 1
    """The seed to begin with: what some mistakes need happens in few worlds."""


@contextmanager
def _applied(mutant: Mutant) -> Iterator[None]:
    patches = mutant.patches()
    saved = [(target, name, _found(target, name)) for target, name, _ in patches]
    for target, name, replacement in patches:
        _replace(target, name, replacement)
    try:
        yield
    finally:
        for target, name, original in saved:
            _replace(target, name, original)


def _found(target: Any, name: str) -> Any:
    return target[name] if isinstance(target, dict) else getattr(target, name)


def _replace(target: Any, name: str, value: Any) -> None:
    if isinstance(target, dict):
        target[name] = value
    else:
        setattr(target, name, value)


def try_mutant(mutant: Mutant, tries: int = TRIES) -> tuple[int, str, str]:
    """How many seeds it took, which checker caught it and what it said; 0 seeds if it survived."""
    with _applied(mutant):
        for number, seed in enumerate(range(mutant.first, mutant.first + tries), 1):
            if mutant.scenario:
                checker, text, _ = run_scenario(SCENARIOS[mutant.scenario], seed)
            else:
                result = mutant.run(seed)
                checker, text = result.checker, result.violation
            if checker:
                return number, checker, text
    return 0, "", ""


def _segment(owner: LogOwner, number: int, previous: str, group: _Group) -> bytes:
    place = owner._follower.place
    header = Header(
        format=SEGMENT_FORMAT,
        log=place.log,
        number=number,
        id=new_ulid(owner._runtime, owner._runtime),
        previous=previous,
        incarnation=place.incarnation,
        tenant=place.tenant,
        workspace=place.workspace,
        writer=owner._writer,
        received=group.received,
        folds=dict(owner._follower.fold.versions),
    )
    return encode_segment(header, group.encoded)


def _answer_at(group: _Group, number: int) -> None:
    for entry, first, count in group.members:
        start = position_of(number, first)
        entry.answer.set(Receipt(entry.command.operation, str(start), str(start + count - 1)))
    group.members = []


def _take_the_next() -> list[Patch]:
    """Whoever loses a number appends the same events under the next one, without validating them again."""

    async def append(self: LogOwner, tail: Tail, link: Link, group: _Group) -> bool:
        follower = self._follower
        while True:
            data = _segment(self, tail.number + 1, link.sha256, group)
            outcome = await self._create(tail, data)
            if isinstance(outcome, Won):
                await follower.accept(data, outcome.tail)
                self._on_won(outcome.tail, data)
                _answer_at(group, outcome.tail.number)
                return True
            await follower.accept(outcome.data, Tail(tail.number + 1, tail.proven))
            await follower.catch_up()
            tail, link = follower.tail, follower.fold.link

    return [(LogOwner, "_append", append)]


def _floor_in_the_hint() -> list[Patch]:
    """The floor lives in an object that is overwritten together with the hint, from whatever the writer last read."""
    write = HintFile.write

    def where(sequence: Any) -> tuple[Any, str]:
        handle = sequence._store
        return handle._inner.disk, f"{handle.scope.root}/{sequence.prefix}/floor/in-the-hint"

    async def floor(self: Sequence) -> int:
        disk, path = where(self)
        await self._runtime.sleep(0.01)
        self._floor = int(disk.objects.get(path, (b"0", 0))[0])
        return self._floor

    async def raise_floor(self: Sequence, number: int, unique: str) -> int:
        disk, path = where(self)
        disk.objects[path] = (str(number).encode(), disk.now())
        self._floor = number
        return number

    async def overwrite(self: HintFile, hint: Any) -> None:
        handle: Any = self._store
        path = f"{handle.scope.root}/{self._path.removesuffix('/hint')}/floor/in-the-hint"
        disk = handle._inner.disk
        if path in disk.objects:
            disk.objects[path] = (b"0", disk.now())  # what this writer read when it started
        await write(self, hint)

    return [(Sequence, "floor", floor), (Sequence, "raise_floor", raise_floor), (HintFile, "write", overwrite)]


def _refuse_after_append() -> list[Patch]:
    """An owner that finds another one in the hint after its win refuses what it has appended."""
    append = LogOwner._append

    async def refuse(self: LogOwner, tail: Tail, link: Link, group: _Group) -> bool:
        done = await append(self, tail, link, group)
        store: Any = self._follower.sequence._store
        path = f"{store.scope.root}/{self._follower.sequence.prefix}/hint"
        hint = store._inner.disk.objects.get(path)
        if done and hint and self._writer not in hint[0].decode():
            group.refused += [(entry, Conflict("another owner took over")) for entry, _, _ in group.members]
            group.members = []
        return done

    return [(LogOwner, "_append", refuse)]


def _merge_apart() -> list[Patch]:
    """Merges take every other layer."""

    def plan(manifest: Manifest, fan_in: int) -> list[list[Layer]]:
        busy = {pending.table for pending in manifest.pending}
        runs = []
        for table in sorted({layer.table for layer in manifest.layers} - busy):
            layers = manifest.layers_of(table)
            if len(layers) >= fan_in:
                runs.append([layers[0], layers[2]])
        return runs

    def fits(manifest: Manifest, pending: Pending) -> bool:
        ends = {(layer.first, layer.last) for layer in manifest.layers_of(pending.table)}
        return set(pending.inputs) <= ends

    return [(_compactor, "plan_merges", plan), (_compactor, "can_adopt", fits)]


def _first_wins() -> list[Patch]:
    """A merge of images keeps the oldest row of a key, so that a delete never wins."""
    merge: Any = getattr(_runner, "merge_layers")  # noqa: B009 - imported there, not exported

    async def merge_layers(
        table: Table, layers: Any, oldest: bool, cutoff: int | None, reader: LayerReader, writer: Any
    ) -> Any:
        if table.kind is Kind.FACT:
            return await merge(table, layers, oldest, cutoff, reader, writer)
        parts = [await reader.read(table, file) for layer in layers for file in layer.files]
        rows = sort_rows(table, pa.concat_tables([table.schema.empty_table(), *parts]).combine_chunks())
        keys = list(zip(*[rows.column(name).to_pylist() for name in (table.group, *table.key)], strict=True))
        first: dict[Any, int] = {}
        for index in sorted(range(len(keys)), key=rows.column("_position").to_pylist().__getitem__):
            first.setdefault(keys[index], index)
        return await writer.files(table, rows.take(pa.array(sorted(first.values()), pa.int64())), "merged")

    return [(_runner, "merge_layers", merge_layers)]


def _retry_in_the_client() -> list[Patch]:
    """The store's client repeats a create by itself, and what it then finds there counts as somebody else's."""

    async def create(self: Sequence, tail: Tail, data: bytes) -> Won | Lost:
        number = tail.number + 1
        sent = self._runtime.boottime()
        while True:
            try:
                await self._store.put(self.path(number), data, only_if_absent=True)
                return Won(Tail(number, sent))
            except StoreFailed:
                await self._pause(0)
            except ObjectExists:
                stored = await self.read(number)
                if stored is not None:
                    return Lost(stored)

    return [(Sequence, "create", create)]


def _grace_period() -> list[Patch]:
    """Unreferenced files are deleted when they are an hour old, whatever they build on."""

    async def unreachable(self: Collector, head: Manifest, manifests: list[Manifest]) -> tuple[list[ObjectInfo], int]:
        reachable = {file.path for manifest in manifests for layer in manifest.layers for file in layer.files}
        now = max((manifest.published_at for manifest in manifests), default=0)
        now = max(now, self._runtime.now())
        found = [info async for info in self._store.list(self._layout.state)]
        garbage = [info for info in found if info.path not in reachable and now - info.modified > 3600 * SECOND]
        return garbage, len(found) - len(garbage)

    return [(Collector, "_unreachable", unreachable)]


def _rebatch_after_cancel() -> list[Patch]:
    """A create without an answer is given up, and its group is appended once more under the number after it."""

    async def append(self: LogOwner, tail: Tail, link: Link, group: _Group) -> bool:
        sequence, store = self._follower.sequence, self._follower.sequence._store
        data, number = _segment(self, tail.number + 1, link.sha256, group), tail.number + 1
        try:
            await store.put(sequence.path(number), data, only_if_absent=True)
        except ObjectExists:
            raise Superseded("another process appended") from None
        except StoreFailed:
            previous, number = hashlib.sha256(data).hexdigest(), number + 1
            data = _segment(self, number, previous, group)
            await sequence.create(Tail(number - 1, tail.proven), data)
        await self._follower.accept(data, Tail(number, tail.proven))
        self._on_won(self._follower.tail, data)
        _answer_at(group, number)
        return True

    return [(LogOwner, "_append", append)]


def _forward_without_operation() -> list[Patch]:
    """Every forward is a new operation."""

    async def forward(self: Gateway, command: Command) -> tuple[Receipt | None, bool]:
        fresh = new_ulid(self._runtime, self._runtime)
        return await _original_forward(self, msgspec.structs.replace(command, operation=fresh))

    return [(Gateway, "_forward", forward)]


_original_forward = Gateway._forward


def _validate_after_skipping() -> list[Patch]:
    """A program that skipped a type it does not know goes on deciding."""

    def check_writable(self: Follower) -> None:
        if self._sealed:
            raise Superseded("sealed")

    return [(Follower, "check_writable", check_writable)]


def _floor_after_deletion() -> list[Patch]:
    """A collector deletes first and raises the floor then."""

    async def delete(self: Collector, found: Any, ledger: Ledger, progress: Any) -> Any:
        for info in found.objects:
            await self._store.delete(info.path)
        for sequence, infos in ((self._revisions.sequence, found.manifests), (ledger.sequence, found.segments)):
            if infos:
                newest = max(int(info.path.rsplit("/", 1)[1]) for info in infos)
                await sequence.raise_floor(newest, new_ulid(self._runtime, self._runtime))
        return found

    return [(Collector, "_delete", delete)]


def _pack_the_newest() -> list[Patch]:
    """Everything up to the watermark is packed, the newest segment too."""

    def plan(manifest: Manifest, size: Any, gauge: Any) -> tuple[int, int] | None:
        first, last = packed_through(manifest) + 1, manifest.link.number
        busy = any(known.kind == "pack" for known in manifest.pending)
        return None if busy or last < first else (first, last)

    async def work(self: Packing, head: Manifest, pending: Pending) -> Any:
        first, last = (int(number) for number in pending.inputs[0])
        segments = [data async for _, data, _ in self._ledger.known(first, last)]
        return (await self._write(f"{pending.directory}/x", first, segments),)

    return [(_compactor, "plan_pack", plan), (Packing, "work", work)]


def _trust_absence() -> list[Patch]:
    """Nobody looks at the floor of a log: what is not there, or can be created, is free."""
    check = Sequence.check_floor

    async def unchecked(self: Sequence, number: int, proven: float) -> None:
        if "/ledger/" not in self.prefix:
            await check(self, number, proven)

    return [(Sequence, "check_floor", unchecked)]


def _drop_the_young() -> list[Patch]:
    """Originals go as soon as they are in a pack."""
    return [(Collector, "_old", lambda self, found, now: found)]


MUTANTS: tuple[Mutant, ...] = (
    Mutant("take the next", "a loser appends at the next number unvalidated", "rivals", _take_the_next),
    Mutant(
        "floor in the hint", "the floor is overwritten from an old read", "hint_written_from_memory", _floor_in_the_hint
    ),
    Mutant("refuse after append", "a won command is answered with a refusal", "", _refuse_after_append),
    Mutant("merge apart", "layers that are not neighbours merge", "tombstone_between_layers", _merge_apart),
    Mutant("first wins", "a merge keeps the oldest image", "tombstone_between_layers", _first_wins),
    Mutant("retry in the client", "a create is repeated and called lost to itself", "", _retry_in_the_client),
    Mutant("grace period", "files are collected by age", "sleeping_publish", _grace_period),
    Mutant(
        "re-batch after cancel",
        "an open create is dropped, the next number taken",
        "outage_in_the_middle",
        _rebatch_after_cancel,
    ),
    Mutant(
        "forward without operation",
        "each forward is a new operation",
        "forwarded_into_silence",
        _forward_without_operation,
    ),
    Mutant(
        "validate after skipping",
        "deciding on a state with skipped events",
        "one_release_behind",
        _validate_after_skipping,
    ),
    Mutant(
        "floor after deletion", "segments go before the floor is raised", "sleeping_collector", _floor_after_deletion
    ),
    Mutant("pack the newest", "no segment stays loose", "packed_in_an_idle_log", _pack_the_newest),
    Mutant("trust absence", "the floor is not looked at", "sleeping_owner", _trust_absence),
    Mutant("trust absence in packs", "a follower does not look at the floor", "sleeping_follower", _trust_absence),
    Mutant("drop the young", "originals go before they are an hour old", "", _drop_the_young),
)


def report_mutants(console: Console, mutants: tuple[Mutant, ...]) -> int:
    """Try all; exit code 1 if one survives or its scenario fails without it."""
    grid = Grid("mutant", "mistake", "seeds", "caught by")
    survived = 0
    for mutant in mutants:
        if mutant.scenario:
            checker, text, _ = run_scenario(SCENARIOS[mutant.scenario], 1)
            if checker:
                print(f"{mutant.scenario} fails without a mutant: {text}")
                survived += 1
        seeds, checker, _ = try_mutant(mutant)
        survived += not seeds
        grid.add_row(mutant.name, mutant.mistake, str(seeds or f"> {TRIES}"), checker or "SURVIVED")
    console.print(grid)
    print(f"{len(mutants)} mutants, {survived} survived")
    return 1 if survived else 0

"""What must hold of a workspace after it was written by processes that died: nothing lost, nothing twice.

The log is read once and compared with what the workers were told, then the published state with the log.
"""

import asyncio
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from arco.core import Superseded, Unavailable
from arco.domains.catalog import NAMES, NAMESPACES
from arco.domains.execution import MATERIALIZATIONS, PARTITIONS
from arco.log import Event, position_of, read_log
from arco.runtime import AsyncRuntime, OpenLog
from arco.state import Level, examine_log, verify_revision
from arco.storage import Role, Tail
from tests.prove.acks import Ack
from tests.prove.report import Report
from tests.prove.worker import SCOPE, STORE, open_workspace

__all__ = ["Logs", "check_workspace"]


@dataclass
class Logs:
    """What stands in the logs."""

    events: dict[int, Event] = field(default_factory=dict)
    """Of `activity`, by position."""
    materializations: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Positions of each materialization id."""
    told: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each operation says each materialization."""
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Operations of each request key."""
    namespaces: Counter[str] = field(default_factory=Counter)
    segments: int = 0
    owners: int = 0
    """How often a segment has another writer than the one before."""


def check_workspace(folder: Path, acks: list[Ack], report: Report) -> None:
    """Everything, in this order: the acknowledgements, the state, the integrity, the commands."""
    asyncio.run(_check(folder, acks, report))
    place = [f"--store=file://{(folder / STORE).resolve()}"]
    place += [f"--tenant={SCOPE.tenant}", f"--workspace={SCOPE.workspace}"]
    for command in (["doctor"], ["rebuild", "--verify"]):
        done = subprocess.run(
            [sys.executable, "-m", "arco.cli", *command, *place],
            capture_output=True,
            text=True,
            check=False,
        )
        shown = "" if done.returncode == 0 else f"exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}"
        report.check(f"arco {' '.join(command)} is clean", done.returncode == 0, shown)


async def _check(folder: Path, acks: list[Ack], report: Report) -> None:
    runtime = AsyncRuntime()
    async with await open_workspace(folder, runtime, may_own=False) as workspace:
        logs = Logs()
        for log in workspace.logs.values():
            await _settle(log)
            await _read(log, logs)
        _check_acks(acks, logs, report)
        await _check_facts(workspace.logs["activity"], acks, logs, report)
        await _check_claims(workspace.logs["catalog"], acks, logs, report)
        for name, log in workspace.logs.items():
            store = workspace.handle(Role.READER)
            found = await examine_log(log.definition, store, log.place, runtime)
            bad = [f"{known.check}: {known.message}" for known in found if known.level in (Level.ERROR, Level.WARNING)]
            report.none(f"{name}: chains, hashes, density and references hold", bad)
            compared = await verify_revision(log.definition, store, log.follower.ledger, log.compactor.head.manifest)
            differing = [
                f"{one.table}: {one.rows} rows, {one.refolded_rows} refolded" for one in compared if not one.equal
            ]
            report.none(f"{name}: the state equals the log folded anew", differing)
        _tell(acks, logs, {name: log.compactor.head.manifest.number for name, log in workspace.logs.items()}, report)


async def _settle(log: OpenLog) -> None:
    for _ in range(20):
        try:
            await log.compactor.compact()
            return
        except (Unavailable, Superseded):
            continue
    raise AssertionError(f"the log {log.place.log} cannot be published")


async def _read(log: OpenLog, logs: Logs) -> None:
    writer = ""
    async for found in read_log(log.follower.ledger, Tail(0, float("-inf")), log.replica.link.__class__(0, "")):
        if isinstance(found, Tail):
            break
        segment = found[0]
        logs.segments += 1
        logs.owners += segment.header.writer != writer
        writer = segment.header.writer
        for index, event in enumerate(segment.events):
            data: dict[str, Any] = msgspec.json.decode(event.data)
            position = position_of(segment.header.number, index)
            if log.place.log == "catalog":
                logs.namespaces[data["description"]] += 1
            else:
                logs.events[position] = event
                logs.materializations[data["materialization_id"]].append(position)
                logs.told[event.operation, data["materialization_id"]] += 1
                if event.key:
                    logs.keys[event.key].add(event.operation)


def _check_acks(acks: list[Ack], logs: Logs, report: Report) -> None:
    lost, twice, refused = [], [], []
    repeated = {identity for ack in acks if ack.kind == "repeating" for identity in ack.ids}
    for ack in acks:
        if ack.kind in ("recorded", "repeated"):
            for position, identity in zip(range(ack.first, ack.last + 1), ack.ids, strict=True):
                event = logs.events.get(position)
                if event is None or msgspec.json.decode(event.data)["materialization_id"] != identity:
                    lost.append(f"{identity} at {position}")
        elif ack.kind == "refused":
            refused += [f"{i}" for i in ack.ids if i in logs.materializations or i in logs.namespaces]
    for identity, positions in logs.materializations.items():
        if len(positions) > 1 and identity not in repeated:
            twice.append(f"{identity} at {positions}")
    report.none("every acknowledged event stands at its position", lost)
    report.none("no fact stands in the log twice unless it was told twice", twice)
    report.none("no operation stands in the log twice", [str(told) for told, count in logs.told.items() if count > 1])
    report.none("a repeated request is one operation", [key for key, found in logs.keys.items() if len(found) > 1])
    report.none("what was refused is nowhere", refused)
    report.none("no worker met damage or a refusing disk", [ack.name for ack in acks if ack.kind == "trouble"])


def _recorded(acks: list[Ack]) -> set[str]:
    return {identity for ack in acks if ack.kind == "recorded" for identity in ack.ids}


async def _check_facts(log: OpenLog, acks: list[Ack], logs: Logs, report: Report) -> None:
    snapshot = await log.snapshot()
    rows = (await snapshot.scan(MATERIALIZATIONS)).select(["materialization_id", "partition_id", "version"]).to_pylist()
    seen = Counter(row["materialization_id"] for row in rows)
    report.none("every fact is in the state once", [name for name, count in seen.items() if count > 1])
    report.none("the state has every fact of the log", sorted(set(logs.materializations) - set(seen))[:5])
    report.none("the state has no other fact", sorted(set(seen) - set(logs.materializations))[:5])
    missing = sorted(_recorded(acks) - set(seen))
    report.none("the state has every acknowledged fact", missing)
    versions: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        versions[row["partition_id"]].append(row["version"])
    gaps = [name for name, found in versions.items() if sorted(found) != list(range(1, len(found) + 1))]
    report.none("versions of each partition are dense", gaps)
    partitions = {row["partition_id"]: row for row in (await snapshot.scan(PARTITIONS)).to_pylist()}
    wrong = [name for name, found in versions.items() if partitions[name]["version_count"] != len(found)]
    report.none("partitions count their versions", wrong)


async def _check_claims(log: OpenLog, acks: list[Ack], logs: Logs, report: Report) -> None:
    snapshot = await log.snapshot()
    owners = {row["description"]: row["namespace_id"] for row in (await snapshot.scan(NAMESPACES)).to_pylist()}
    names = {row["name"]: row["object_id"] for row in (await snapshot.scan(NAMES)).to_pylist()}
    won = [(ack.name, ack.ids[0]) for ack in acks if ack.kind == "claimed"]
    report.none(
        "every granted claim is in the state, for who was told",
        [f"{name} of {identity}" for name, identity in won if names.get(name, "") != owners.get(identity)],
    )
    report.none("no name was granted twice", [n for n, count in Counter(name for name, _ in won).items() if count > 1])
    report.none("no claim is in the log twice", [i for i, count in logs.namespaces.items() if count > 1])
    report.check("names and namespaces are one to one", len(names) == len(owners) == len(logs.namespaces))


def _tell(acks: list[Ack], logs: Logs, revisions: dict[str, int], report: Report) -> None:
    kinds = Counter(ack.kind for ack in acks)
    events = sum(len(ack.ids) for ack in acks if ack.kind in ("recorded", "repeated", "claimed"))
    collected = sum(ack.count for ack in acks if ack.kind == "collected")
    manifests = sum(int(ack.name) for ack in acks if ack.kind == "collected")
    report.say(f"answers: {', '.join(f'{count:,} {kind}' for kind, count in sorted(kinds.items()))}")
    report.say(f"events acknowledged: {events:,}; events in the activity log: {len(logs.events):,}")
    report.say(f"segments: {logs.segments:,}; ownership changes: {logs.owners:,}; revisions: {revisions}")
    report.say(f"objects collected: {collected:,}, of them {manifests:,} manifests")

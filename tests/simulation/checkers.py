"""What must hold, each as a named checker. Some watch while a run goes on, others look at what is left in the end."""

import hashlib
from typing import Any

from arco.core import SECOND
from arco.log import Link, Segment, check_link, decode_index, decode_segment, link_of
from arco.state import (
    OPERATIONS,
    Definition,
    LayerReader,
    Layout,
    Manifest,
    Replica,
    bucket_of,
    decode_manifest,
    digest_rows,
    empty_manifest,
    retained,
)
from arco.state._fold import Rows
from arco.storage import MIN_AGE
from tests.simulation.clients import Ask, History
from tests.simulation.linear import NameOp, is_linearizable
from tests.simulation.look import DirectStore, drive, floor_of, numbers_of, pack_entries, true_head
from tests.simulation.node import DEFINITIONS, SCOPE, Cluster
from tests.simulation.observe import Sight
from tests.simulation.oracle import WATCHED, LogEvent, events_of, expected, observed
from tests.simulation.scheduler import Violation
from tests.simulation.store import SimDisk

__all__ = ["LogView", "check_deletion", "check_everything"]


def _reachable(cluster: Cluster, log: str, head: Manifest) -> tuple[set[str], set[str]]:
    """Files and directories that the head, its history and its pending work need."""
    disk, prefix = cluster.disk, Layout(cluster.place(log)).manifests
    numbers = numbers_of(cluster, prefix)
    files: set[str] = set()
    for manifest in [head, *[_retained(disk, numbers, entry.revision, entry.sha256) for entry in head.history]]:
        files |= {file.path for layer in manifest.layers for file in layer.files}
        if manifest.older is not None:
            files.add(manifest.older.path)
        files |= {entry.path for entry in pack_entries(cluster, manifest)}
    return files, {pending.directory for pending in head.pending}


def _retained(disk: SimDisk, numbers: dict[int, str], revision: int, sha256: str) -> Manifest:
    path = numbers.get(revision)
    if path is None or hashlib.sha256(disk.objects[path][0]).hexdigest() != sha256:
        raise Violation("collection never removes the reachable", f"retained revision {revision} is gone or altered")
    return decode_manifest(disk.objects[path][0], path)


def check_deletion(cluster: Cluster, path: str) -> None:
    """Called before the disk deletes an object."""
    relative = path.removeprefix(f"{SCOPE.root}/")
    if relative.startswith("selftest"):
        return
    _, area, log, rest = relative.split("/", 3)
    if "/floor/" in path:
        raise Violation("collection never removes the reachable", f"{relative} was deleted")
    head = true_head(cluster, log)
    if area == "ledger":
        _check_dropped(cluster, head, path)
        return
    if area == "manifests":
        number = int(path.rsplit("/", 1)[1])
        kept = {head.number, *(entry.revision for entry in head.history)}
        if number in kept or number > floor_of(cluster, Layout(cluster.place(log)).manifests):
            raise Violation("collection never removes the reachable", f"{relative} was deleted, the head keeps it")
        return
    files, directories = _reachable(cluster, log, head)
    if relative in files or rest.split("/", 1)[0] in directories:
        raise Violation("collection never removes the reachable", f"{relative} was deleted, the head needs it")


def _check_dropped(cluster: Cluster, head: Manifest, path: str) -> None:
    """A segment goes only when it is old, below the floor, and in a pack that is there."""
    checker, number = "collection never removes the reachable", int(path.rsplit("/", 1)[1])
    if number > floor_of(cluster, Layout(cluster.place(head.log)).ledger):
        raise Violation(checker, f"segment {number} was deleted above the floor")
    if cluster.disk.now() - cluster.disk.objects[path][1] < MIN_AGE * SECOND:
        raise Violation(checker, f"segment {number} was deleted too early")
    for entry in pack_entries(cluster, head):
        if not entry.level and entry.first <= number <= entry.last:
            return
    raise Violation(checker, f"segment {number} was deleted and is in no pack")


class LogView:
    """One log as it stands on the disk in the end: its segments, the chain of its manifests, and what they publish."""

    def __init__(self, cluster: Cluster, definition: Definition) -> None:
        self.cluster = cluster
        self.definition = definition
        self.name = definition.log
        self.place = cluster.place(self.name)
        self.layout = Layout(self.place)
        self.store = DirectStore(cluster.disk)
        self.segments, self.links = self._read()
        self._refolds: dict[int, Replica] = {}
        self._digests: dict[tuple[int, str], str] = {}
        self.events: list[LogEvent] = events_of(self.segments)
        self.manifests = self._chain()

    @property
    def head(self) -> Manifest:
        return self.manifests[-1] if self.manifests else empty_manifest(self.place)

    def _read(self) -> tuple[list[Segment], list[Link]]:
        """The segments along the chain of hashes from the newest one back, wherever they are now."""
        numbers, floor = numbers_of(self.cluster, self.layout.ledger), floor_of(self.cluster, self.layout.ledger)
        loose = [number for number in sorted(numbers) if number > floor]
        if loose != list(range(floor + 1, floor + len(loose) + 1)) or (floor and not loose):
            raise Violation("numbers are dense", f"the log {self.name} has {sorted(numbers)} and the floor {floor}")
        self.data: dict[int, bytes] = {}
        found = self.cluster.disk.objects[numbers[loose[-1]]][0] if loose else None
        for number in range(floor + len(loose), 0, -1):
            if found is None:
                raise Violation("numbers are dense", f"segment {number} of {self.name} is nowhere")
            if number > floor and found != self.cluster.disk.objects[numbers[number]][0]:
                raise Violation("numbers are dense", f"segment {number} of {self.name} is not what continues it")
            self.data[number] = found
            found = self.cluster.disk.archive.get(decode_segment(found, f"segment {number}").header.previous)
        segments, links, link = [], [], empty_manifest(self.place).link
        for number in range(1, floor + len(loose) + 1):
            segment = decode_segment(self.data[number], f"segment {number}")
            check_link(segment, self.place, link, f"segment {number}")
            link = link_of(segment, self.data[number])
            segments.append(segment)
            links.append(link)
        return segments, links

    def _chain(self) -> list[Manifest]:
        """Every manifest from the first to the head, deleted ones included, along the chain of hashes."""
        disk, head = self.cluster.disk, true_head(self.cluster, self.name)
        found = [head] if head.number else []
        while found and found[-1].previous:
            data = disk.archive.get(found[-1].previous)
            if data is None:
                raise Violation(
                    "revisions are totally ordered", f"{found[-1].number} of {self.name} has no predecessor"
                )
            found.append(decode_manifest(data, "archive"))
        return found[::-1]

    def refold(self, through: int) -> Replica:
        """A fresh fold of the log up to a segment."""
        if through in self._refolds:
            return self._refolds[through]
        replica = Replica(self.definition, LayerReader(self.store), empty_manifest(self.place))
        drive(replica.apply(list(zip(self.segments, self.links, strict=True))[:through]))
        self._refolds[through] = replica
        return replica

    def digest(self, through: int, name: str) -> str:
        """The digest of a table in a fresh fold."""
        if (through, name) not in self._digests:
            table = self.definition.tables[name]
            self._digests[through, name] = digest_rows(table, drive(self.refold(through).scan(table)))
        return self._digests[through, name]

    def published(self, manifest: Manifest) -> Replica:
        return Replica(self.definition, LayerReader(self.store), manifest)


def check_everything(cluster: Cluster, history: History, sight: Sight, *, sample: int = 2) -> None:
    views = [LogView(cluster, definition) for definition in DEFINITIONS]
    for view in views:
        check_sequences(view, sight)
        check_packs(view)
        check_answers(view, [ask for ask in history.asks if ask.log == view.name], cluster)
        check_events(view, cluster, history)
        check_revisions(view, sight, cluster)
        check_states(view, history, sample)
        check_live_replicas(view, cluster)
        check_retained(view)
    check_linearizable(history)


def check_sequences(view: LogView, sight: Sight) -> None:
    """No number is won twice: what somebody was told to have won is there, and create-once objects never changed."""
    disk = view.cluster.disk
    for path, data in sight.wins.items():
        if f"/ledger/{view.name}/" in path and view.data.get(int(path.rsplit("/", 1)[1])) != data:
            raise Violation("no number is won twice", f"{path} does not hold what its winner wrote")
    for path, contents in disk.created.items():
        relative, number = path.removeprefix(f"{SCOPE.root}/"), path.rsplit("/", 1)[1]
        if len(set(contents)) == 1 or not relative.startswith((view.layout.ledger, view.layout.manifests)):
            continue  # whoever writes a file again after its collection does so in vain: nothing names it
        prefix = view.layout.ledger if relative.startswith(view.layout.ledger) else view.layout.manifests
        if "/floor/" in path or int(number) > floor_of(view.cluster, prefix):
            raise Violation("no number is won twice", f"{path} had {len(set(contents))} different contents")


def check_packs(view: LogView) -> None:
    """Packs hold the segments of the chain, from the first one on; what is in none of them is loose."""
    checker, through = "packs hold the log", 0
    for entry in pack_entries(view.cluster, view.head):
        if entry.level:
            continue
        data = view.cluster.disk.objects[f"{SCOPE.root}/{entry.path}"][0]
        if hashlib.sha256(data).hexdigest() != entry.sha256 or entry.first != through + 1 or entry.index is None:
            raise Violation(checker, f"{entry.path} of {view.name} is not what the head promises")
        index = decode_index(entry, view.place, data[-entry.index[0] :])
        offsets = index.offsets()
        for place, number in enumerate(range(entry.first, entry.last + 1)):
            if data[offsets[place] : offsets[place + 1]] != view.data.get(number):
                raise Violation(checker, f"{entry.path} has another segment {number} of {view.name}")
        through = entry.last
    if through and through >= view.head.link.number:
        raise Violation(checker, f"the newest segment of {view.name} was packed")
    if floor_of(view.cluster, view.layout.ledger) > through:
        raise Violation(checker, f"the floor of {view.name} lies above its packs, which end at {through}")


def check_answers(view: LogView, asks: list[Ask], cluster: Cluster) -> None:
    """Every answer agrees with the log."""
    checker = "every answer agrees with the log"
    runs: dict[str, list[int]] = {}
    keys: dict[str, set[str]] = {}
    for item in view.events:
        runs.setdefault(item.event.operation, []).append(item.position)
        if item.event.key:
            keys.setdefault(item.event.key, set()).add(item.event.operation)
    writers = {item.position: item.writer for item in view.events}
    for ask in asks:
        command = ask.command
        operations = {command.operation} & set(runs)
        if command.key and not ask.misuse:
            operations |= keys.get(command.key, set())
        if len(operations) > 1:
            raise Violation(checker, f"{ask.kind} with key {command.key} was carried out {len(operations)} times")
        copies = [_spans(view, runs[operation]) for operation in operations]
        if copies and copies[0] > 1:
            if command.name or command.key:
                raise Violation(checker, f"{ask.kind} {command.operation} was carried out {copies[0]} times")
            cluster.probe.path("duplicate recorded")
        if ask.answer == "acknowledged":
            _check_receipt(view, ask, runs)
            assert ask.receipt is not None
            if writers.get(int(ask.receipt.first)) not in ask.asked_at:
                cluster.probe.path("forwarded")
        elif ask.answer in ("refused", "unavailable"):
            if operations or _intended(view, ask):
                raise Violation(
                    checker, f"{ask.kind} {command.operation} is in the log, answered {ask.answer}: {ask.reason}"
                )
        else:
            cluster.probe.path("unknown had landed" if operations else "unknown had not landed")
            if ask.cancelled and operations:
                cluster.probe.path("cancelled but landed")


def _spans(view: LogView, positions: list[int]) -> int:
    """How many times an operation's events stand in the log."""
    first = {item.position: item for item in view.events if item.position in set(positions)}
    return len(positions) // first[positions[0]].event.span


def _intended(view: LogView, ask: Ask) -> bool:
    """Whether the log holds what was asked for, under whatever operation."""
    if ask.kind != "create":
        return False
    wanted = ask.command.data
    return any(
        item.event.type == "NamespaceCreated" and item.data["description"].encode() in bytes(wanted)
        for item in view.events
    )


def _check_receipt(view: LogView, ask: Ask, runs: dict[str, list[int]]) -> None:
    receipt = ask.receipt
    assert receipt is not None
    checker = "every acknowledged event is in the log"
    if receipt.operation != ask.command.operation and not ask.command.key:
        raise Violation(checker, f"{ask.kind}: asked as {ask.command.operation}, receipt for {receipt.operation}")
    wanted = set(range(int(receipt.first), int(receipt.last) + 1))
    if not wanted <= set(runs.get(receipt.operation, ())):
        raise Violation(checker, f"{ask.kind} {receipt.operation} was acknowledged at {receipt.first} and is not there")
    row = drive(view.published(view.head).get(OPERATIONS, receipt.operation, receipt.operation))
    if (ask.command.name or ask.command.key) and (row is None or row.first != int(receipt.first)):
        raise Violation("every acknowledged event is in one published state", f"{ask.kind} {receipt.operation}: {row}")


def check_events(view: LogView, cluster: Cluster, history: History) -> None:
    """Decided events are possible where they stand; nothing the fold had to reject was decided."""
    held: dict[str, str] = {}
    names: dict[str, str] = {}
    checker = "decided events are valid where they stand"
    previous = ""
    for item in view.events:
        data, kind = item.data, item.event.type
        if item.event.operation not in history.operations:
            raise Violation("nothing is in the log that nobody asked for", f"{kind} of {item.event.operation}")
        if kind in ("AttemptClaimed", "AttemptReserved"):
            if held.get(data["attempt"]):
                raise Violation(checker, f"attempt {data['attempt']} granted twice, at {item.position}")
            held[data["attempt"]] = data["worker"]
        elif kind == "AttemptReleased":
            held[data["attempt"]] = ""
        elif kind == "NamespaceCreated":
            if data["name"] in names:
                raise Violation(checker, f"namespace {data['name']} created twice, at {item.position}")
            names[data["name"]] = data["namespace_id"]
        elif kind in ("NamespaceDropped", "NamespaceRenamed"):
            if data["namespace_id"] not in names.values():
                raise Violation(checker, f"namespace {data['namespace_id']} is not there at {item.position}")
            names = {name: key for name, key in names.items() if key != data["namespace_id"]}
            if kind == "NamespaceRenamed":
                names[data["name"]] = data["namespace_id"]
        elif kind == "RetentionAdvanced":
            cluster.probe.path("retention advanced")
        if previous not in ("", item.writer):
            cluster.probe.fault("owner change")
            cluster.probe.path("takeover")
        previous = item.writer


def check_revisions(view: LogView, sight: Sight, cluster: Cluster) -> None:
    """Revisions are totally ordered, and who was told to have published is in the order."""
    checker = "revisions are totally ordered"
    chain = {manifest.number: manifest for manifest in view.manifests}
    for number, manifest in enumerate(view.manifests, 1):
        if manifest.number != number:
            raise Violation(checker, f"{view.name}: {manifest.number} follows {number - 1}")
    for before, after in zip(view.manifests, view.manifests[1:], strict=False):
        if int(after.watermark) < int(before.watermark):
            raise Violation(checker, f"{view.name}: revision {after.number} covers less than {before.number}")
        if after.published_at <= before.published_at or after.generation < before.generation:
            raise Violation(checker, f"{view.name}: revision {after.number} is older than {before.number}")
        _count_merges(before, after, cluster)
        unpinned = retained(after.history, after.published_at, ())
        if len(unpinned) < len(after.history):
            cluster.probe.path("pinned kept")
    root = f"{SCOPE.root}/{view.layout.manifests}/"
    for path, data in sight.wins.items():
        if path.startswith(root):
            won = decode_manifest(data, path)
            if won.number not in chain or chain[won.number].id != won.id:
                raise Violation(checker, f"{view.name}: revision {won.number} was won and is not in the chain")


def _count_merges(before: Manifest, after: Manifest, cluster: Cluster) -> None:
    probe = cluster.probe
    swapped = after.generation > before.generation
    if swapped:
        refolded = bool(before.skipped) and not after.skipped
        probe.path("skipped type refolded" if refolded else "rebuild swapped")
    if after.packs != before.packs:
        probe.path("segments packed")
        if before.publisher != after.publisher:
            probe.path("packing finished by another")
    left = {pending.id for pending in after.pending}
    spans = {(layer.table, layer.first, layer.last): layer for layer in after.layers if layer.level}
    for pending in before.pending:
        if pending.kind == "merge" and pending.id not in left:
            layer = spans.get((pending.table, pending.inputs[0][0], pending.inputs[-1][1]))
            adopted = layer is not None and not swapped
            probe.path("merge adopted" if adopted else "merge dropped")
            if adopted and before.publisher != after.publisher:
                probe.path("merge finished by another")


def check_states(view: LogView, history: History, sample: int) -> None:
    """Rebuild equals live, at the head and at some retained revisions; readers saw what the events say."""
    checker = "rebuild equals live"
    kept = [m for m in view.manifests if m.number in {entry.revision for entry in view.head.history}]
    chosen = [*kept[:: max(len(kept) // sample, 1)][:sample], view.head] if sample else [view.head]
    for manifest in chosen:
        live = view.published(manifest)
        for name, table in view.definition.tables.items():
            found = digest_rows(table, drive(live.scan(table)))
            if not manifest.skipped and found != view.digest(manifest.link.number, name):
                raise Violation(checker, f"table {name} of revision {manifest.number} of {view.name}")
    live = view.published(view.head)
    for name in WATCHED[view.name]:
        rows = drive(live.scan(view.definition.tables[name])).to_pylist()
        _compare(view, "state agrees with the log", name, int(view.head.watermark), rows)
    rejected = drive(live.scan(view.definition.tables["rejections"])).to_pylist()
    if any(row["domain"] != "execution" for row in rejected):
        raise Violation("decided events are valid where they stand", f"rejected: {rejected[0]['reason']}")
    for read in history.tables:
        if read.log == view.name:
            _compare(view, "a reader sees one whole revision", read.table, read.position, read.rows)


def _compare(view: LogView, checker: str, table: str, position: int, rows: list[dict[str, Any]]) -> None:
    found, wanted = observed(table, rows), expected(view.events, position, table)
    if found != wanted or len(rows) != len(found):
        odd = sorted(set(found.items()) ^ set(wanted.items()))[:3]
        raise Violation(checker, f"{table} of {view.name} at {position}: {odd}")


def check_live_replicas(view: LogView, cluster: Cluster) -> None:
    """Replicas equal revisions: what each process holds in memory is the fold of what it has read."""
    for node in cluster.alive():
        replica = node.log(view.name).replica
        if replica.skips:
            continue
        direct = Replica(view.definition, LayerReader(view.store), replica.base)  # a copy that reads directly
        direct._link, direct.retention, direct.dirty = replica.link, replica.retention, replica.dirty
        for name, table in view.definition.tables.items():
            if digest_rows(table, drive(direct.scan(table))) != view.digest(replica.link.number, name):
                raise Violation("replicas equal revisions", f"{node.name}: table {name} at {replica.link.number}")
            _compare_memory(node.name, replica, view.refold(replica.link.number), name)


def _compare_memory(node: str, live: Replica, anew: Replica, table: str) -> None:
    """Every bucket in memory holds exactly what the fold of the log holds."""
    if table in live.retention:
        return  # expired rows may or may not still be in memory
    wanted: dict[int, dict[str, Rows]] = {}
    for group, rows in anew.dirty.get(table, {}).items():  # folded from nothing, so it is all there
        present = {key: versioned for key, versioned in rows.items() if versioned[1] is not None}
        if present:
            wanted.setdefault(bucket_of(group), {})[group] = present
    for number, bucket in live._buckets[table].items():
        names = {*bucket.groups, *(bucket._stored._groups.to_pylist() if bucket._stored else ())}
        found = {group: dict(bucket.find(group)) for group in names if bucket.find(group)}
        if found != wanted.get(number, {}):
            raise Violation("replicas equal revisions", f"{node}: bucket {number} of {table} at {live.link.number}")


def check_retained(view: LogView) -> None:
    """Every retained revision is there, with all its files, unaltered."""
    numbers = numbers_of(view.cluster, view.layout.manifests)
    disk = view.cluster.disk
    manifests = [_retained(disk, numbers, entry.revision, entry.sha256) for entry in view.head.history]
    reader = LayerReader(view.store)
    done: set[str] = set()
    for manifest in [*manifests, view.head]:
        for layer in manifest.layers:
            for file in layer.files:
                if file.sha256 not in done:
                    drive(reader.bytes_of(file))
                    done.add(file.sha256)


def check_linearizable(history: History) -> None:
    """The decided history of each name can be put in one order that explains every answer."""
    per_name: dict[str, list[NameOp]] = {}
    for ask in history.asks:
        if ask.log != "catalog" or ask.kind not in ("create", "drop") or not ask.asked_at:
            continue
        make = NameOp.create if ask.kind == "create" else NameOp.drop
        ops = per_name.setdefault(ask.subject, [])
        if ask.answer == "acknowledged":
            ops.append(make(ask.invoked, ask.returned, done=True))
        elif ask.answer == "refused" and "ahead" not in ask.reason:
            ops.append(make(ask.invoked, ask.returned, done=False))
        elif ask.answer in ("unknown", "pending"):
            ops.append(make(ask.invoked, None, done=True))
    for read in history.names:
        per_name.setdefault(read.name, []).append(NameOp.read(read.invoked, read.returned, found=read.found))
    for name, ops in per_name.items():
        if not name.startswith("r") and not is_linearizable(ops):
            raise Violation("decided history is linearizable", f"the name {name} with {len(ops)} operations")

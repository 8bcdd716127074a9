"""Measures what each kind of append and publish writes, for the model: `python -m tests.cost.profile --write`."""

import asyncio
import hashlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

import arco.cost
from arco.backup import Backup, Vault, prune, take_backup
from arco.core import DAY
from arco.domains.catalog import CreateNamespace
from arco.iceberg import Locations
from arco.log import NewEvent, Receipt, encode_pack
from arco.runtime import Workspace, init_workspace
from arco.servo import Asked, Mode, RunRequest, Servo, deploy, open_envelope, prepare_deploy
from arco.state import Manifest, encode_manifest
from arco.storage import RequestCounts, Role, RoleStore
from tests.doubles import FakeRuntime, run
from tests.iceberg.house import ROOT
from tests.runtime.test_requests import documented
from tests.servo.world import SECRET, WORKER, chain, project, result_of
from tests.simulation.months import CODE, SCOPE, Observed, fact

__all__ = ["FILE", "measure"]

FILE = Path(arco.cost.__file__).parent / "operations.json"
ROUNDS = 9
"""Of each kind: one merge of every table."""
FACTS = 25
PINNED_SECONDS = 1_000.0
"""More than a quarter of an hour, from which on a backup pins the revision it copies."""
BESIDE = {"trigger": "plan and trigger a run"}


class _Scale:
    """A workspace that publishes when told to, and what it wrote."""

    def __init__(self, runtime: FakeRuntime, store: Observed, workspace: Workspace) -> None:
        self.runtime, self.store, self.workspace = runtime, store, workspace
        self.seen: dict[str, list[dict[str, Any]]] = {}

    async def weigh(self, kind: str, log: str, work: Callable[[], Awaitable[Any]]) -> Any:
        compactor = self.workspace.logs[log].compactor
        await compactor.publish()
        await self.runtime.sleep(2)  # hints
        before, layers = self.store.written.copy(), compactor.head.manifest.layers
        done = await work()
        segment = self.store.written["ledger"] - before["ledger"]
        await compactor.publish()
        new = [layer for layer in compactor.head.manifest.layers if layer not in layers and layer.level == 0]
        delta = sum(self.store.written[name] - before[name] for name in ("state", "private"))
        found = {"log": log, "tables": sorted({layer.table for layer in new}), "segment": segment, "delta": delta}
        self.seen.setdefault(kind, []).append({**found, "rows": sum(layer.rows for layer in new)})
        return done

    def record(self, count: int, number: int) -> Awaitable[Receipt]:
        events: list[NewEvent] = [fact(self.runtime, number, index) for index in range(count)]
        return self.workspace.record("activity", events, actor="outside")


async def _measure() -> dict[str, Any]:
    runtime = FakeRuntime()
    store = Observed(runtime)
    await init_workspace(store, SCOPE, runtime)
    opened = await Workspace.open(store, SCOPE, runtime, test_store=False, compact=False)
    async with opened as workspace:
        scale = _Scale(runtime, store, workspace)
        made = msgspec.structs.replace(project(chain(4)), code_sha256=hashlib.sha256(CODE).hexdigest())
        await workspace.handle(Role.OWNER).put(Servo.code_path(made.code_sha256), CODE, only_if_absent=True)
        await deploy(workspace, await prepare_deploy(workspace, made), actor="me")
        servo = Servo(workspace, SECRET)
        for number in range(ROUNDS):
            await _round(scale, servo, number)
        for log in workspace.logs.values():
            await log.compactor.compact()
        await asyncio.sleep(0)
        heads = [log.compactor.head.manifest for log in workspace.logs.values()]
        found = {**_profile(scale, heads), "index_bytes": await _index_bytes(workspace)}
    async with await Workspace.open(store, SCOPE, runtime, test_store=False) as workspace:
        return {**found, **await _backup(_Scale(runtime, store, workspace))}


async def _backup(scale: _Scale) -> dict[str, dict[str, float]]:
    """What the second backup asks of both stores, beside a get for each segment and a copy for each file of state; what
    the third asks beyond that for each log, since its head is old enough to be pinned; and what pruning asks of the
    other one for each that is kept."""
    workspace, runtime = scale.workspace, scale.runtime
    other = Observed(runtime)
    handle = RoleStore(other, SCOPE, Role.BACKUP, RequestCounts())
    vault = Vault(handle, SCOPE.tenant, SCOPE.workspace, runtime)
    locations = Locations(workspace.handle(Role.ICEBERG), ROOT, SCOPE.root)
    taken: list[Backup] = []
    asked: list[dict[str, float]] = []
    for number, age in enumerate((0.0, 0.0, PINNED_SECONDS)):
        await workspace.decide("catalog", CreateNamespace((f"b{number}",)), actor="me")
        posted = await scale.record(1, 2 * ROUNDS + number)
        await workspace.published("activity", posted.position)
        await runtime.sleep(5 + age)  # hints, and merges
        before = scale.store.requests + other.requests
        taken.append((await take_backup(workspace, vault, locations, store=ROOT, actor="me")).backup)
        await runtime.sleep(5)
        asked.append(_fixed(taken, scale.store.requests + other.requests - before))
    _, young, old = asked
    before = Counter(other.requests)
    await prune(vault, runtime, keep=DAY)
    pruned = other.requests - before
    logs = len(taken[-1].logs)
    return {
        "backup": {name: young[name] for name in ("create", "get", "range", "head", "list")},
        "pin": {name: (old[name] - young[name]) / logs for name in ("create", "get", "head", "put")},
        "prune": {"get": pruned["get"] / len(taken), "list": pruned["list"]},
    }


def _fixed(taken: list[Backup], asked: Counter[str]) -> dict[str, float]:
    """What the newest backup asked for beside segments and files of state."""
    newest, before = taken[-1], taken[-2].logs if len(taken) > 1 else {}
    segments = sum(copy.link.number - before[log].link.number for log, copy in newest.logs.items() if log in before)
    files = newest.copied - 2 * len(newest.logs)  # of each log a chunk and the manifest
    return {
        name: asked[name] - files * (name in ("get", "head", "create")) - segments * (name == "get")
        for name in ("create", "get", "range", "head", "list", "put")
    }


async def _index_bytes(workspace: Workspace) -> float:
    """What each segment adds to a pack beside itself."""
    ledger = workspace.logs["activity"].follower.ledger
    last = workspace.logs["activity"].follower.tail.number
    segments = [data async for _, data, _ in ledger.known(1, last)]
    data, _ = encode_pack("pack", ledger.place, 1, segments)
    return (len(data) - sum(map(len, segments))) / len(segments)


async def _round(scale: _Scale, servo: Servo, number: int) -> None:
    workspace, runtime = scale.workspace, scale.runtime
    change = CreateNamespace((f"n{number}",))
    await scale.weigh("change", "catalog", lambda: workspace.decide("catalog", change, actor="me"))
    await scale.weigh("post", "activity", lambda: scale.record(1, 2 * number))
    await scale.weigh("many", "activity", lambda: scale.record(FACTS, 2 * number + 1))
    request = RunRequest("*", mode=Mode.FORCE, at=runtime.now())
    await scale.weigh("trigger", "activity", lambda: servo.runs.trigger(request, Asked("me")))
    claimed = await scale.weigh("claim", "activity", lambda: servo.work.claim(WORKER, 1, 0.0))
    while claimed:
        now = runtime.now()
        envelope = open_envelope(SECRET, claimed[0], tenant=SCOPE.tenant, workspace=SCOPE.workspace, now=now)
        result = result_of(envelope, now)
        done = await scale.weigh(
            "result",
            "activity",
            lambda result=result: servo.work.finish([result], WORKER, 1),  # type: ignore[misc]
        )
        claimed = done.envelopes


def _profile(scale: _Scale, heads: list[Manifest]) -> dict[str, Any]:
    def mean(kind: str, name: str) -> float:
        return sum(one[name] for one in scale.seen[kind]) / len(scale.seen[kind])

    kinds = {
        kind: {
            "log": found[0]["log"],
            "tables": _shares([one["tables"] for one in found]),
            "segment_bytes": mean(kind, "segment"),
            "delta_bytes": mean(kind, "delta"),
            "requests": BESIDE.get(kind, ""),
        }
        for kind, found in scale.seen.items()
        if kind != "many"
    }
    rows = {kind: mean(kind, "rows") for kind in kinds}
    rows["fact"] = (mean("many", "rows") - mean("post", "rows")) / (FACTS - 1)
    row_bytes = (mean("many", "delta") - mean("post", "delta")) / (mean("many", "rows") - mean("post", "rows"))
    merged = [file for head in heads for layer in head.layers if layer.level for file in layer.files if file.rows]
    left = sum(file.length for file in merged) - row_bytes * sum(file.rows for file in merged)
    head = max(heads, key=lambda one: len(one.layers))
    bare = msgspec.structs.replace(head, layers=(), history=(), pending=())
    with_layers = msgspec.structs.replace(bare, layers=head.layers)
    with_history = msgspec.structs.replace(bare, history=head.history)

    def added(manifest: Manifest, parts: int) -> float:
        return (len(encode_manifest(manifest)) - len(encode_manifest(bare))) / parts

    return {
        "requests": documented(),
        "kinds": {kind: kinds[kind] for kind in sorted(kinds)},
        "fact_bytes": (mean("many", "segment") - mean("post", "segment")) / (FACTS - 1),
        "manifest_bytes": len(encode_manifest(bare)),
        "layer_bytes": added(with_layers, len(head.layers)),
        "entry_bytes": added(with_history, len(head.history)),
        "file_bytes": left / len(merged),
        "row_bytes": row_bytes,
        "rows": dict(sorted(rows.items())),
    }


def _shares(changed: list[list[str]]) -> dict[str, float]:
    """How often each table is among those that changed."""
    names = sorted({table for one in changed for table in one})
    return {name: sum(name in one for one in changed) / len(changed) for name in names}


def _rounded(value: Any) -> Any:
    """Three digits: more would only tell how well random ids compress."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def measure() -> dict[str, Any]:
    found: dict[str, Any] = _rounded(run(_measure()))
    return found


if __name__ == "__main__":
    text = msgspec.json.format(msgspec.json.encode(measure()), indent=1) + b"\n"
    if "--write" in sys.argv:
        FILE.write_bytes(text)
    else:
        print(text.decode())

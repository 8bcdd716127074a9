"""Measures what each kind of append and publish writes, for the model: `python -m tests.cost.profile --write`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

import arco.cost
from arco.domains.catalog import CreateNamespace
from arco.log import NewEvent, encode_pack
from arco.runtime import Workspace, init_workspace
from arco.servo import Asked, Mode, RunRequest, Servo, deploy, open_envelope, prepare_deploy
from arco.state import Manifest, encode_manifest
from tests.doubles import FakeRuntime, run
from tests.runtime.test_requests import documented
from tests.servo.world import SECRET, WORKER, chain, project, result_of
from tests.simulation.months import SCOPE, Observed, fact

__all__ = ["FILE", "measure"]

FILE = Path(arco.cost.__file__).parent / "operations.json"
ROUNDS = 9
"""Of each kind: one merge of every table."""
FACTS = 25
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

    def record(self, count: int, number: int) -> Awaitable[object]:
        events: list[NewEvent] = [fact(self.runtime, number, index) for index in range(count)]
        return self.workspace.record("activity", events, actor="outside")


async def _measure() -> dict[str, Any]:
    runtime = FakeRuntime()
    store = Observed(runtime)
    await init_workspace(store, SCOPE, runtime)
    opened = await Workspace.open(store, SCOPE, runtime, test_store=False, compact=False)
    async with opened as workspace:
        scale = _Scale(runtime, store, workspace)
        await deploy(workspace, await prepare_deploy(workspace, project(chain(4))), actor="me")
        servo = Servo(workspace, SECRET)
        for number in range(ROUNDS):
            await _round(scale, servo, number)
        for log in workspace.logs.values():
            await log.compactor.compact()
        await asyncio.sleep(0)
        heads = [log.compactor.head.manifest for log in workspace.logs.values()]
        return {**_profile(scale, heads), "index_bytes": await _index_bytes(workspace)}


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

"""The engine at work: what `make demo` shows. Everything is real, every number is counted or measured here and now.

A workspace on local disk in a temporary folder, removed at the end (`--keep` leaves it). The chapters are functions in
the order they are told. `--child FOLDER` is this script's other life: a process that writes until it is killed.
"""

import argparse
import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from arco.core import AssetId, AssetKey, Conflict, PartitionKey, new_ulid, partition_id
from arco.domains.catalog import CreateNamespace
from arco.domains.execution import (
    MATERIALIZATION_COMPLETED,
    MATERIALIZATIONS,
    PARTITIONS,
    DataFile,
    MaterializationCompleted,
)
from arco.log import Receipt, index_of, number_of
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.state import new_event
from arco.storage import LocalStore, Operation, RequestCounts, Role, Scope

SCOPE = Scope("acme", "demo")
PRODUCERS = 16
EVENTS = 2_000
ASSETS = 8
DAYS = 25
CHILD_ACKNOWLEDGES = 300
"""The child is killed when so many are acknowledged."""


@dataclass
class Demo:
    root: Path
    runtime: AsyncRuntime = field(default_factory=AsyncRuntime)
    console: Console = field(default_factory=lambda: Console(highlight=False))
    assets: list[AssetId] = field(default_factory=list)
    counts: list[RequestCounts] = field(default_factory=list)

    async def chapter(self, title: str) -> None:
        if self.console.is_terminal:
            await self.runtime.sleep(0.6)
        self.console.print()
        self.console.rule(Text(title, "bold"), align="left", style="cyan")

    def say(self, text: str, *, good: bool = False) -> None:
        self.console.print(Text.assemble(("  ok  " if good else "      ", "bold green"), text), soft_wrap=True)

    def demand(self, held: bool, text: str) -> None:
        """A claim of the demo: shown as kept, or the demo ends."""
        if not held:
            raise SystemExit(f"the demo found a fault: not true that {text}")
        self.say(text, good=True)


@asynccontextmanager
async def opened(demo: Demo) -> AsyncIterator[Workspace]:
    """A process of its own would do the same: test the store, find the newest state, own the logs, compact."""
    async with await Workspace.open(LocalStore(demo.root), SCOPE, demo.runtime) as workspace:
        yield workspace
    demo.counts.append(workspace.counts)


def materialization(runtime: AsyncRuntime, asset: AssetId, number: int, day: int) -> MaterializationCompleted:
    """What a finished task reports: a version of one partition of one asset."""
    key = PartitionKey({"date": date(2026, 11, 1) + timedelta(days=day)})
    now = runtime.now()
    rows = 1_000 + number
    return MaterializationCompleted(
        materialization_id=new_ulid(runtime, runtime),
        asset_id=asset,
        asset_key=str(AssetKey("sales", f"orders_{number % ASSETS}")),
        partition_id=partition_id(asset, key),
        partition_key=str(key),
        run_id=new_ulid(runtime, runtime),
        task_id=new_ulid(runtime, runtime),
        files=(DataFile(f"part-{number}.parquet", rows * 40, rows),),
        row_count=rows,
        byte_size=rows * 40,
        schema_hash="demo",
        started_at=now,
        completed_at=now,
    )


async def record(workspace: Workspace, fact: MaterializationCompleted, actor: str) -> Receipt:
    event = new_event(MATERIALIZATION_COMPLETED, fact, subject=f"{fact.asset_key} {fact.partition_key}")
    return await workspace.record("activity", [event], actor=actor)


async def decide(demo: Demo, workspace: Workspace) -> None:
    await demo.chapter("1  Decide: commands are validated against the state, then appended")
    for path in (("sales",), ("sales", "eu"), ("sales", "us")):
        command = CreateNamespace(path)
        receipt = await workspace.decide("catalog", command, actor="ana@acme.example")
        demo.say(f"namespace {'.'.join(path):<9} created at position {shown(receipt.position)}")
    before = workspace.counts.count(Role.OWNER, Operation.CREATE)
    refusal = ""
    try:
        await workspace.decide("catalog", CreateNamespace(("sales",)), actor="bob")
    except Conflict as error:
        refusal = error.message
    demo.demand(bool(refusal), f"a second sales is refused: {refusal}")
    written = workspace.counts.count(Role.OWNER, Operation.CREATE) - before
    demo.demand(written == 0, "the refusal wrote nothing")


async def produce(demo: Demo, workspace: Workspace) -> int:
    await demo.chapter(f"2  Record: {EVENTS:,} facts by {PRODUCERS} producers, one durable append for whoever waits")
    demo.assets = [AssetId(new_ulid(demo.runtime, demo.runtime)) for _ in range(ASSETS)]
    before = workspace.counts.count(Role.OWNER, Operation.CREATE)
    receipts: list[Receipt] = []

    async def producer(first: int) -> None:
        for number in range(first, EVENTS, PRODUCERS):
            asset = demo.assets[number % ASSETS]
            fact = materialization(demo.runtime, asset, number, number // ASSETS % DAYS)
            receipts.append(await record(workspace, fact, f"worker-{first}"))

    started = demo.runtime.boottime()
    await asyncio.gather(*(producer(first) for first in range(PRODUCERS)))
    seconds = demo.runtime.boottime() - started
    segments = workspace.counts.count(Role.OWNER, Operation.CREATE) - before
    count = len(receipts)
    demo.say(f"{count:,} acknowledged in {seconds:.2f} s: {count / seconds:,.0f} events/s, each one synced to disk")
    demo.say(f"{segments} segments, {count / segments:.1f} events each, {segments / count:.3f} writes an event")
    demo.demand(len({receipt.first for receipt in receipts}) == EVENTS, "every event has a position of its own")
    return max(receipt.position for receipt in receipts)


async def publish(demo: Demo, workspace: Workspace, position: int) -> None:
    await demo.chapter("3  Publish and read: a revision is one manifest over Parquet files")
    manifest = await workspace.published("activity", position)
    layers, size = len(manifest.layers), sum(layer.bytes for layer in manifest.layers)
    demo.say(f"revision {manifest.number} covers segment {manifest.link.number}: {layers} layers, {size:,} bytes")
    log = workspace.logs["activity"]
    await log.snapshot()
    before = workspace.counts.count()
    snapshot = await log.snapshot()
    demo.say(f"opening a snapshot that is still the newest took {workspace.counts.count() - before} request")
    facts, partitions = await snapshot.scan(MATERIALIZATIONS), await snapshot.scan(PARTITIONS)
    demo.demand(facts.num_rows == EVENTS, f"the table of facts has {facts.num_rows:,} rows")
    demo.demand(partitions.num_rows == ASSETS * DAYS, f"the table of images has {partitions.num_rows} partitions")


async def travel(demo: Demo, workspace: Workspace, before: int) -> None:
    await demo.chapter("4  Time travel: any position of the log is a state")
    fact = materialization(demo.runtime, demo.assets[0], EVENTS, 0)
    receipt = await record(workspace, fact, "worker-0")
    await workspace.published("activity", receipt.position)
    log = workspace.logs["activity"]
    now = await (await log.snapshot()).get(PARTITIONS, fact.asset_id, fact.partition_id)
    then = await (await log.snapshot(position=before)).get(PARTITIONS, fact.asset_id, fact.partition_id)
    demo.say(f"{fact.asset_key} {fact.partition_key}")
    demo.say(f"at {shown(before):>6}: version {then.current_version}, {then.row_count:,} rows")
    demo.say(f"now at {shown(receipt.position)}: version {now.current_version}, {now.row_count:,} rows")
    demo.demand(now.current_version == then.current_version + 1, "what came later has not changed the past")


async def kill(demo: Demo) -> None:
    await demo.chapter("5  kill -9: a process dies while it writes")
    ids, ended = await asyncio.to_thread(run_and_kill, demo.root)
    demo.say(f"a process acknowledged {len(ids)} events to a pipe and was ended by {signal.Signals(-ended).name}")
    async with opened(demo) as workspace:
        receipt = await record(workspace, materialization(demo.runtime, demo.assets[0], 0, 0), "survivor")
        demo.say(f"this process takes the log over and goes on at {shown(receipt.position)}")
        await workspace.published("activity", receipt.position)
        snapshot = await workspace.logs["activity"].snapshot()
        stored = (await snapshot.scan(MATERIALIZATIONS)).column("materialization_id").to_pylist()
    demo.demand(ids <= set(stored), f"all {len(ids)} acknowledged events are there")
    demo.demand(len(stored) == len(set(stored)), "none is there twice")
    in_flight = len(stored) - EVENTS - 2 - len(ids)
    demo.say(f"{in_flight} more were durable when the process died, but it had no time to say so")


def run_and_kill(root: Path) -> tuple[set[str], int]:
    """Start the child, kill it in the middle, and return what it had acknowledged and how it ended."""
    command = [sys.executable, __file__, "--child", str(root)]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            for line in child.stdout:  # what it wrote before it died is read to the end
                lines.append(line)
                if len(lines) == CHILD_ACKNOWLEDGES:
                    child.send_signal(signal.SIGKILL)
        finally:
            child.kill()
    # A line that the kill cut off is no acknowledgement.
    return {line.strip() for line in lines if line.endswith("\n")}, child.returncode


async def write_until_killed(root: Path) -> None:
    """The child: acknowledges on standard output what it has appended, and only then."""
    demo = Demo(root)
    asset = AssetId(new_ulid(demo.runtime, demo.runtime))

    async def producer(workspace: Workspace, first: int) -> None:
        for number in range(first, 1_000_000, 4):
            fact = materialization(demo.runtime, asset, number, number % DAYS)
            await record(workspace, fact, "child")
            sys.stdout.write(f"{fact.materialization_id}\n")
            sys.stdout.flush()

    async with opened(demo) as workspace:
        await asyncio.gather(*(producer(workspace, first) for first in range(4)))


async def examine(demo: Demo) -> None:
    await demo.chapter("6  Examine: hashes, chains, references, and the whole log folded once more")
    where = ["--store", f"file://{demo.root}", "--tenant", SCOPE.tenant, "--workspace", SCOPE.workspace]
    for command in (["doctor"], ["rebuild", "--verify", "activity"]):
        demo.console.print(Text(f"  $ arco {' '.join(command)}", "bold"))
        ended = subprocess.run(
            [sys.executable, "-m", "arco.cli", *command, *where], capture_output=True, text=True, check=False
        )
        for line in ended.stdout.splitlines():
            demo.console.print(Text(f"    {line.rstrip()}"), soft_wrap=True)
        demo.demand(ended.returncode == 0, f"arco {' '.join(command)} exits with 0 {ended.stderr.strip()}".rstrip())


async def account(demo: Demo) -> None:
    await demo.chapter("7  What it cost: requests to the store, by role")
    operations = [operation for operation in Operation if any(counts.count(None, operation) for counts in demo.counts)]
    table = Table(box=None, pad_edge=False)
    table.add_column("      role")
    for operation in operations:
        table.add_column(operation.value, justify="right")
    for role in Role:
        numbers = [sum(counts.count(role, operation) for counts in demo.counts) for operation in operations]
        if any(numbers):
            table.add_row(f"      {role.value}", *(f"{number:,}" for number in numbers))
    demo.console.print(table)
    demo.say("Creates are the commits: segments by the owner, files and manifests by the compactor. Nothing is locked.")
    demo.say("Not counted: the process that was killed and the two commands.")


def shown(position: int) -> str:
    return f"{number_of(position)}:{index_of(position)}"


async def show(root: Path) -> None:
    demo = Demo(root)
    started = demo.runtime.boottime()
    demo.console.print(Text.assemble(("Arco", "bold"), f": a workspace in {root}, no database, no broker"))
    incarnation = await init_workspace(LocalStore(root), SCOPE, demo.runtime)
    demo.demand(True, f"the store keeps its promises; created {SCOPE.root}, {incarnation.id}")
    async with opened(demo) as workspace:
        await decide(demo, workspace)
        position = await produce(demo, workspace)
        await publish(demo, workspace, position)
        await travel(demo, workspace, position)
    await kill(demo)
    await examine(demo)
    await account(demo)
    demo.console.print(f"\nDone in {demo.runtime.boottime() - started:.1f} s.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the workspace for a look with the arco command")
    parser.add_argument("--child", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(write_until_killed(Path(options.child)))
        return
    root = Path(tempfile.mkdtemp(prefix="arco-demo-"))
    try:
        asyncio.run(show(root))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        if options.keep:
            print(f"Kept. Look around: export ARCO_STORE=file://{root} ARCO_TENANT_ID=acme ARCO_WORKSPACE_ID=demo")
        else:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()

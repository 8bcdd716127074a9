"""Records a small workspace for a release: its log, its published state, and what both must come to for ever.

    python -m tests.recorded.record 0.2     writes tests/recorded/0.2

Run it once when a release is made and keep the folder: `test_recorded.py` opens every folder with today's code. Clock
and chance are fixed, so recording twice gives the same bytes. The folder holds `store/`, the objects as plain files
under their paths, and `expected.json`: per log the chain, the head, the columns of each table, and its rows and digest,
once folded from the whole log and once as published (which is a little behind, on purpose).

A later fold version may derive other rows from the same events. Then, and only then, the digests of older releases are
to be changed, together with that version.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from arco import not_null
from arco.assets import Dimension, Engine, Retries, TimePartitions
from arco.core import DAY, HOUR, Conflict, NotFound, new_ulid
from arco.domains.catalog import (
    AddColumn,
    AlterColumn,
    AlterTable,
    ColumnShape,
    CreateNamespace,
    CreateTable,
    DescribeColumn,
    DropColumn,
    DropContract,
    DropNamespace,
    DropSla,
    DropTable,
    Ref,
    RenameNamespace,
    RenameTable,
    ReplaceSchema,
    SetContract,
    SetSla,
    UpdateNamespace,
    UpdateTable,
)
from arco.domains.deployments import DEPLOYMENTS_TABLE, AddPartitions, DropPartitions
from arco.domains.execution import (
    MATERIALIZATION_COMPLETED,
    MATERIALIZATION_FAILED,
    MATERIALIZATIONS,
    ColumnStats,
    DataFile,
    DeleteVersions,
    ExpireVersions,
    MaterializationCompleted,
    MaterializationFailed,
    QuarantineVersion,
    RefreshStatistics,
    ReleaseVersion,
    RetentionPolicy,
)
from arco.domains.lineage import (
    CaptureMethod,
    ColumnInfluence,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    TransformType,
)
from arco.domains.orchestration import (
    ACTIVE_RUNS,
    WORKSPACE,
    ConfirmDispatch,
    FinishTask,
    Outcome,
    ReapAttempts,
    RequestDispatch,
    TriggerRun,
    dispatch_id,
)
from arco.domains.tables import (
    ICEBERG_COMMITTED,
    CommitSource,
    CommitState,
    IcebergColumn,
    IcebergCommitted,
    IcebergKind,
)
from arco.log import Blobs, NewEvent
from arco.runtime import DEFINITIONS, Workspace, init_workspace
from arco.servo import RunRequest, deploy, prepare_deploy
from arco.state import (
    AdvanceRetention,
    Cadence,
    Definition,
    PinRevision,
    ReleasePin,
    Table,
    digest_rows,
    new_event,
    verify_chain,
)
from arco.storage import MemoryStore, Role, Scope, Store
from tests.doubles import FakeRuntime, run
from tests.servo.world import ASKED, WORKER, World, project, result_of

__all__ = ["HERE", "SCOPE", "fields_of", "record", "summary"]

HERE = Path(__file__).parent
SCOPE = Scope("acme", "prod")


Fields = dict[str, Any]
"""By column, and within structs and lists of them by field: what a release had. Later ones may add some, which its
digests do not cover."""


class Source(Protocol):
    """A replica or a snapshot."""

    async def scan(self, table: Table) -> pa.Table: ...


async def summary(definition: Definition, source: Source, columns: dict[str, Fields]) -> dict[str, Any]:
    """Rows and digest of each table that `columns` names."""
    found: dict[str, Any] = {}
    for name, mine in columns.items():
        table = definition.tables[name]
        data = (await source.scan(table)).select([*mine, "_position"])
        for place, (column, fields) in enumerate(mine.items()):
            kind = _only(data.schema.field(column).type, fields)
            if kind != data.schema.field(column).type:
                data = data.set_column(place, column, pa.array(data.column(column).to_pylist(), kind))
        found[name] = {"rows": data.num_rows, "digest": digest_rows(table, data)}
    return found


def _fields(kind: pa.DataType) -> Fields:
    """The fields of a type, at every depth; nothing for what has none."""
    if pa.types.is_list(kind):
        return _fields(kind.value_type)
    return {field.name: _fields(field.type) for field in kind} if pa.types.is_struct(kind) else {}


def fields_of(definition: Definition) -> dict[str, Fields]:
    """The columns of every table of a log, as this program has them."""
    return {
        name: {field.name: _fields(field.type) for field in table.schema if field.name in table.columns}
        for name, table in sorted(definition.tables.items())
    }


def _only(kind: pa.DataType, fields: Fields) -> pa.DataType:
    """The type with no other fields than these."""
    if pa.types.is_list(kind):
        return pa.list_(_only(kind.value_type, fields))
    if pa.types.is_struct(kind):
        return pa.struct(
            [(field.name, _only(field.type, fields[field.name])) for field in kind if field.name in fields]
        )
    return kind


def record() -> dict[str, bytes]:
    """The files of a recording, by path."""
    return run(_record())


async def _record() -> dict[str, bytes]:
    runtime = FakeRuntime(seed=20260101)
    store = MemoryStore(runtime)
    await init_workspace(store, SCOPE, runtime)
    workspace = await Workspace.open(store, SCOPE, runtime, compact=False, cadence=Cadence(fan_in=4))
    await _work_on_catalog(workspace, runtime)
    await _work_on_runs(workspace, runtime, store)
    await _work_on_batches(workspace, runtime, store)
    await _work_on_iceberg(workspace, runtime)
    await _work_on_activity(workspace, runtime)
    expected: dict[str, Any] = {}
    for definition in DEFINITIONS:
        log = workspace.logs[definition.log]
        published = await log.snapshot()
        columns = fields_of(definition)
        chain = await verify_chain(log.follower.ledger)
        expected[definition.log] = {
            "chain": {"segments": chain.segments, "events": chain.events, "sha256": chain.link.sha256},
            "revision": published.manifest.number,
            "columns": columns,
            "folded": await summary(definition, log.replica, columns),
            "published": await summary(definition, published, columns),
        }
    await workspace.close()
    files = {f"store/{info.path}": await store.get(info.path) async for info in store.list("")}
    return {**files, "expected.json": (json.dumps(expected, indent=1) + "\n").encode()}


# The catalog


async def _work_on_catalog(workspace: Workspace, runtime: FakeRuntime) -> None:
    async def decide(command: msgspec.Struct, actor: str = "ann", key: str = "") -> None:
        await workspace.decide("catalog", command, actor=actor, key=key)
        await runtime.sleep(1.5)

    async def create(*path: str, **options: Any) -> None:
        await decide(CreateNamespace(path, **options))

    compactor = workspace.logs["catalog"].compactor
    await create("sales", description="Everything sold", properties={"owner": "ann", "tier": "gold"})
    for name in ("eu", "us", "apac"):
        await create("sales", name)
    await compactor.publish()
    await create("Büro überall")
    await create("sales", "eu", "de", properties={"country": "DE"})
    await decide(UpdateNamespace(at("sales", "us"), "North and South", {"tier": "silver"}), actor="bob")
    key = f"{new_ulid(runtime, runtime)}:rename"
    rename = RenameNamespace(at("sales", "apac"), ("sales", "asia"))
    await decide(rename, key=key)
    await decide(rename, key=key)  # a repetition: nothing is appended
    await compactor.publish()
    await decide(DropNamespace(at("sales", "us")), actor="bob")
    await create("sales", "us", description="Again, under a new id")
    for refused, error in (
        (CreateNamespace(("sales",)), Conflict),
        (DropNamespace(at("nowhere")), NotFound),
    ):
        try:
            await decide(refused)
        except error:
            continue
        raise AssertionError("this must be refused")
    await _work_on_tables(decide)
    await compactor.publish()
    await decide(PinRevision("audit", 2, "the yearly audit", runtime.now() + 20 * DAY))
    await decide(PinRevision("trial", 1, "a trial", runtime.now() + DAY))
    await decide(ReleasePin("trial"))
    await compactor.compact()
    runtime.suspend(9 * 86_400)
    await decide(AdvanceRetention("operations", runtime.now() - 8 * DAY))
    await decide(AdvanceRetention("requests", runtime.now() - 8 * DAY))
    await compactor.rebuild()
    await create("finance")
    await create("finance", "ledger")
    await compactor.compact()
    await decide(DropNamespace(at("finance", "ledger")))  # in the log, not yet published
    await decide(DropNamespace(at("sales", "eu"), cascade=True))


def at(*path: str) -> Ref:
    return Ref(path=path)


async def _work_on_tables(decide: Callable[..., Awaitable[None]]) -> None:
    """Every command on tables, columns, contracts and SLAs, and every way in which it can be told."""
    orders = at("sales", "orders")
    columns = (
        AddColumn("id", "bigint", is_nullable=False),
        AddColumn("amount", "decimal(10,2)", description="In euros"),
        AddColumn("buyer", "struct<name: string, mail: varchar>", pii_type="EMAIL", sensitivity="CONFIDENTIAL"),
        AddColumn("day", "date"),
    )
    await decide(
        CreateTable(
            ("sales", "orders"),
            format="DELTA",
            location="data/sales/orders",
            columns=columns,
            description="One row an order",
            owners=("ann", "sales@acme.com"),
            tags={"tier": "gold"},
            properties={"delta.minReaderVersion": "2"},
            side="code",
        )
    )
    await decide(CreateTable(("sales", "eu", "de", "rates"), columns=(AddColumn("rate", "float"),)))
    await decide(
        ReplaceSchema(at("sales", "eu", "de", "rates"), (ColumnShape("price", "float"), ColumnShape("day", "date")))
    )
    await decide(CreateTable(("sales", "eu", "visits"), format="CSV"))
    await decide(
        UpdateTable(orders, description="Orders, by people", owners=("bob",), tags={"tier": "silver", "pii": "yes"}),
        actor="bob",
    )
    await decide(UpdateTable(orders, location=None, set_properties={"a": "1"}, remove_properties=("nothing",)))
    await decide(SetContract(orders, terms={"delay": "1 hour"}, description="For the reports"))
    await decide(SetSla(orders, freshness_seconds=3600, availability_percent=99.5))
    await decide(
        AlterTable(
            orders,
            (
                AddColumn("channel", "string", description="Shop or web"),
                AlterColumn("amount", new_name="total", data_type="decimal(12,2)"),
                AlterColumn("id", is_nullable=True),
                DropColumn("day"),
            ),
        )
    )
    await decide(AlterTable(orders, (AlterColumn("total", new_name="sum", inferred=True),), side="code"))
    await decide(DescribeColumn(orders, "sum", description="In euros, with tax", pii_type="CUSTOM:price"), actor="bob")
    await decide(RenameTable(at("sales", "eu", "visits"), ("sales", "visits")))
    await decide(RenameTable(at("sales", "visits"), ("sales", "calls")))
    await decide(SetContract(orders, compatibility="full", status="draft"))
    await decide(SetContract(at("sales", "calls"), compatibility="none"))
    await decide(SetSla(at("sales", "calls"), availability_percent=90.0))
    await decide(DropContract(at("sales", "calls")))
    await decide(DropSla(at("sales", "calls")))
    await decide(DropTable(at("sales", "calls")))


# The activity


async def _work_on_runs(workspace: Workspace, runtime: FakeRuntime, store: Store) -> None:
    """Every event of deployments and orchestration: runs that succeed, fail, are retried, reaped and cancelled."""
    world = World(workspace, runtime, store)
    first = project({"shop.a": [], "shop.b": ["shop.a"], "shop.c": ["shop.b"]}, retries=Retries(1, delay_seconds=1.0))
    await world.deploy(first)
    await workspace.decide("catalog", AddPartitions("customers", ("ann", "bob")), actor="ann")
    await workspace.decide("catalog", DropPartitions("customers", ("bob",)), actor="ann")
    done = await world.trigger(run_key="nightly")
    await world.work_off()
    assert (await world.run_row(done)).state == "SUCCEEDED"
    await world.trigger(timeout_seconds=3600.0, priority=5, tags={"why": "record"})
    for outcome in (Outcome.FAILED, Outcome.FAILED):  # one retry, then it counts
        (claimed,) = await world.claim(wait=30)
        await world.finish(claimed, outcome, retryable=True)
    cancelled = await world.trigger(max_parallelism=1)
    (claimed,) = await world.claim()
    await workspace.decide("activity", ReapAttempts((claimed.attempt_id,), "silent"), actor="servo")
    (claimed,) = await world.claim(wait=30)
    await world.servo.runs.cancel(cancelled, "enough", ASKED)
    await world.finish(claimed, Outcome.CANCELLED)
    planned = await world.servo.runs.plan(RunRequest("shop.a", at=runtime.now()))
    blob = await Blobs(workspace.handle(Role.OWNER)).put(msgspec.json.encode(planned.plan))
    large = TriggerRun(planned.plan_id, planned.plan.code_version, "", "asked", "shop.a", 1, plan_blob=blob)
    await workspace.decide("activity", large, actor="ann")
    (active,) = await workspace.logs["activity"].replica.rows(ACTIVE_RUNS, WORKSPACE)
    dispatch = RequestDispatch(active.run_id, "shop.a", 1, "outside")
    await workspace.decide("activity", dispatch, actor="servo")
    await workspace.decide(
        "activity", ConfirmDispatch(active.run_id, dispatch_id(active.run_id, "shop.a", 1)), actor="servo"
    )
    await world.work_off()
    await world.deploy(project({"shop.a": [], "shop.b": ["shop.a"]}, description="new"))
    again = await prepare_deploy(workspace, first)
    before = (await workspace.logs["catalog"].replica.rows(DEPLOYMENTS_TABLE, WORKSPACE))[0].deployment_id
    await deploy(workspace, again, actor="ann", rollback_of=before)


async def _work_on_batches(workspace: Workspace, runtime: FakeRuntime, store: Store) -> None:
    """A backfill on Spark: claimed together, one lost with its driver, the rest told together with how it ran."""
    world = World(workspace, runtime, store)
    days = (Dimension("date", TimePartitions("0 0 * * *", "2025-12-01")),)
    made = project(
        {"lake.a": [], "lake.b": ["lake.a"]},
        engine=Engine.SPARK,
        partitions=days,
        checks=(not_null("id", warn=1, error=5, samples=3),),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
        one_plan=True,
    )
    await world.deploy(made)
    await world.trigger(window="2025-12-01..2025-12-06", batch=4)
    claimed = await world.claim()
    lost = tuple(envelope.attempt_id for envelope in claimed[:2])
    await workspace.decide("activity", ReapAttempts(lost, "the driver died"), actor="servo")
    claimed = claimed[2:]
    while claimed:
        results = [_made_together(result_of(envelope, runtime.now())) for envelope in claimed]
        await world.servo.work.finish(results, WORKER)
        claimed = await world.claim(wait=60)


def _made_together(result: FinishTask) -> FinishTask:
    """A result as Spark's: how its batch ran, and what its columns are made of."""
    columns = ColumnLineage(
        CaptureMethod.PLAN_INTROSPECTION,
        Confidence.MEDIUM,
        ConfidenceReason.PLAN_INTROSPECTION,
        coverage=1.0,
        mappings=(ColumnMapping(ColumnRef("x"), (ColumnRef("x"),), TransformType.AGGREGATE, reason="a UDF"),),
        influences=(ColumnInfluence((ColumnRef("date"),), TransformType.GROUP_BY),),
        reason="one of its functions is somebody's own",
    )
    outputs = tuple(msgspec.structs.replace(output, plan="together") for output in result.outputs)
    lineage = result.lineage
    if lineage is not None:
        edges = tuple(msgspec.structs.replace(edge, column_lineage=columns) for edge in lineage.edges)
        lineage = msgspec.structs.replace(lineage, edges=edges)
    return msgspec.structs.replace(result, outputs=outputs, lineage=lineage)


async def _work_on_activity(workspace: Workspace, runtime: FakeRuntime) -> None:
    assets = {name: new_ulid(runtime, runtime) for name in ("sales.orders", "sales.customers", "finance.ledger")}

    def completed(asset: str, day: str, rows: int, **changes: Any) -> MaterializationCompleted:
        stats = ColumnStats("order_id", 0, "A-1", f"A-{rows}", rows)
        partition = f"part_{asset}_{day}".replace(".", "_")
        fields: dict[str, Any] = {
            "materialization_id": new_ulid(runtime, runtime),
            "asset_id": assets[asset],
            "asset_key": asset,
            "partition_id": partition,
            "partition_key": f"day={day}",
            "run_id": "run-1",
            "task_id": f"task-{asset}-{day}",
            "files": (DataFile(f"data/{asset}/{day}/0.parquet", 10 * rows, rows, (stats,)),),
            "row_count": rows,
            "byte_size": 10 * rows,
            "schema_hash": f"sha256:{asset}",
            "started_at": runtime.now() - 60_000_000,
            "completed_at": runtime.now(),
        }
        return MaterializationCompleted(**{**fields, **changes})

    def failed(asset: str, day: str, error: str, run_id: str) -> NewEvent:
        like = completed(asset, day, 0)
        payload = MaterializationFailed(
            like.asset_id, asset, like.partition_id, like.partition_key, run_id, like.task_id, error, runtime.now()
        )
        return new_event(MATERIALIZATION_FAILED, payload, source="worker")

    async def facts(*events: NewEvent, key: str = "") -> None:
        await workspace.record("activity", events, actor="worker", key=key)
        await runtime.sleep(30)

    def new(payload: MaterializationCompleted) -> NewEvent:
        return new_event(MATERIALIZATION_COMPLETED, payload, subject=payload.asset_key)

    compactor = workspace.logs["activity"].compactor
    for day in range(1, 9):
        batch = [new(completed(asset, f"2026-01-{day:02d}", 100 * day)) for asset in assets]
        await facts(*batch, key=new_ulid(runtime, runtime) if day % 3 == 0 else "")
        if day % 2 == 0:
            await compactor.publish()
    await compactor.compact()
    late = completed("sales.orders", "2026-01-03", 333, run_id="run-2", code_version="v2", schema_version=2)
    await facts(failed("sales.orders", "2026-01-03", "no space left on device", "run-2"), new(late))
    await facts(new(late))  # the same fact once more
    await facts(new(completed("sales.orders", "2026-01-04", 1, status="quarantined", run_id="run-3")))
    await facts(new(completed("sales.orders", "2026-01-05", 1, status="mislaid")))  # rejected by the fold
    await facts(failed("finance.ledger", "2026-02-01", "division by zero", "run-4"))
    bad = completed("sales.orders", "2026-01-06", 2, run_id="run-5")
    await facts(new(bad))
    await workspace.decide("activity", QuarantineVersion(bad.asset_id, bad.materialization_id, "too few"), actor="ann")
    await workspace.decide("activity", ReleaseVersion(bad.asset_id, bad.materialization_id, "a holiday"), actor="bob")
    await workspace.decide("activity", RefreshStatistics(bad.asset_id, bad.materialization_id, bad.files), actor="ann")
    policy = RetentionPolicy(min_versions=1, max_versions=1)
    older = await _older(workspace, late)
    await workspace.decide("activity", ExpireVersions(late.asset_id, older, policy), actor="ann")
    runtime.suspend(25 * 3600)
    await workspace.decide("activity", DeleteVersions(late.asset_id, older, policy), actor="ann")
    await compactor.publish()
    runtime.suspend(40 * 86_400)
    oldest = runtime.now() - 40 * DAY - HOUR
    await workspace.decide("activity", AdvanceRetention("materializations", oldest), actor="ann")
    await facts(new(completed("sales.customers", "2026-02-10", 7)))
    await facts(new(completed("sales.customers", "2025-01-01", 7, completed_at=runtime.now() - 400 * DAY)))  # too old
    await compactor.compact()
    await facts(new(completed("sales.orders", "2026-02-11", 11)))  # in the log, not yet published


async def _work_on_iceberg(workspace: Workspace, runtime: FakeRuntime) -> None:
    """Commits of a table: its creation, another schema, out of order, twice, an aborted one, and its drop."""
    table = new_ulid(runtime, runtime)
    columns = (IcebergColumn(1, "id", "long", nullable=False), IcebergColumn(2, "note", "string", doc="Said"))

    def commit(number: int, **changes: Any) -> NewEvent:
        told = IcebergCommitted(
            table_id=table,
            number=number,
            kind=IcebergKind.TABLE,
            state=CommitState.LIVE,
            source=CommitSource.EXTERNAL,
            actor="ann",
            committed_at=runtime.now(),
            metadata_location=f"s3://lake/orders/metadata/{number:05d}.metadata.json",
            table_uuid="01563e3a-b5d3-d676-4c61-efb99302bd5b",
            format_version=2,
            schema_id=0,
        )
        return new_event(ICEBERG_COMMITTED, msgspec.structs.replace(told, **changes), subject=table)

    counts = {"added_rows": 7, "added_files": 1, "total_rows": 7, "total_files": 1, "total_bytes": 900}
    append = {"snapshot_id": 1 << 60, "operation": "append", "sequence_number": 1, "client": "duckdb/1.4", **counts}
    made = {"source": CommitSource.SERVO, "run_id": "run-1", "materialization_id": new_ulid(runtime, runtime)}
    for events in (
        [commit(1, columns=columns)],
        [commit(3, columns=columns[:1], schema_id=1)],
        [commit(2, **append), commit(2, **append)],
        [commit(4, state=CommitState.ABORTED, transaction_id=new_ulid(runtime, runtime))],
        [commit(5, **append, **made)],
    ):
        await workspace.record("activity", events, actor="iceberg")
        await runtime.sleep(30)
    await workspace.logs["activity"].compactor.publish()
    dropped = commit(6, state=CommitState.DROPPED, source=CommitSource.ADMIN, metadata_location="")
    await workspace.record("activity", [dropped], actor="iceberg")


async def _older(workspace: Workspace, version: MaterializationCompleted) -> tuple[str, ...]:
    """The versions that came before one."""
    rows = await workspace.logs["activity"].replica.rows(MATERIALIZATIONS, version.asset_id)
    mine = [row.materialization_id for row in rows if row.partition_id == version.partition_id]
    return tuple(name for name in mine if name != version.materialization_id)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recorded.record", description=__doc__.split("\n")[0])
    parser.add_argument("release", help="name of the folder, such as 0.2")
    parser.add_argument("--force", action="store_true", help="replace a recording that exists")
    chosen = parser.parse_args(arguments)
    folder = HERE / chosen.release
    if folder.exists() and not chosen.force:
        print(f"{folder.name} is recorded already; a release that is out stays as it was")
        return 1
    if folder.exists():
        shutil.rmtree(folder)
    files = record()
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    print(f"{folder.name}: {len(files)} files, {sum(map(len, files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

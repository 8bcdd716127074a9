"""A workspace with a little of everything, made through the API, and the ids of what it holds."""

from dataclasses import dataclass, replace
from typing import Any

from arco.core import new_ulid
from arco.domains.orchestration import Outcome
from arco.storage import Scope
from tests.api.workers import Worker, deploy
from tests.api.world import World
from tests.servo.world import project

__all__ = ["Content", "fill", "fill_whole", "materialization"]

RATE = {"values": {"rate.requests_per_minute": 1_000_000}}


@dataclass(frozen=True)
class Content:
    namespace: str
    namespace_id: str
    table: str
    table_id: str
    column: str
    edge_id: str
    run_id: str
    key_id: str
    key_name: str
    principal: str
    operation_id: str
    activity_operation_id: str
    position: str
    request_key: str
    # What only `fill_whole` makes; `run_id` is then that of a run that was planned and done here.
    asset: str = ""
    asset_id: str = ""
    sha256: str = ""
    deployment_id: str = ""
    partitions: str = ""
    task_key: str = ""
    attempt_id: str = ""
    run_key: str = ""
    run_request_key: str = ""
    version: str = ""
    """A version of the asset that is in quarantine."""

    @property
    def path_parameters(self) -> dict[str, str]:
        """What stands in the paths of routes, by the name it has there."""
        return {
            "namespace": self.namespace,
            "table": self.table,
            "column": self.column,
            "edge_id": self.edge_id,
            "run_id": self.run_id,
            "key_id": self.key_id,
            "principal": self.principal,
            "operation_id": self.operation_id,
            "asset": self.asset,
            "sha256": self.sha256,
            "deployment_id": self.deployment_id,
            "name": self.partitions,
            "version": self.version,
        }


def materialization(world: World, table_id: str, name: str, run_id: str) -> dict[str, Any]:
    runtime = world.host.runtime
    now = runtime.now()
    return {
        "type": "MaterializationCompleted",
        "data": {
            "materialization_id": new_ulid(runtime, runtime),
            "asset_id": table_id,
            "asset_key": name,
            "partition_id": f"{table_id}-all",
            "partition_key": "",
            "run_id": run_id,
            "task_id": "load",
            "files": [{"path": "data/orders/1.parquet", "size_bytes": 10, "row_count": 3}],
            "row_count": 3,
            "byte_size": 10,
            "schema_hash": "0",
            "started_at": now - 10,
            "completed_at": now,
        },
    }


async def fill(world: World, *, token: str | None = None, word: str = "sales") -> Content:
    """Make the content; what is there already is left. `word` is in every name, so that a test finds it again."""

    async def done(method: str, path: str, body: Any = None, **options: Any) -> Any:
        return await world.done(method, path, body, token=token, **options)

    runtime = world.host.runtime
    await done("PATCH", "/settings", RATE)
    namespace = await done("POST", "/namespaces", {"name": word, "description": word, "if_not_exists": True})
    columns = [{"name": "id", "type": "long"}, {"name": f"{word}_email", "type": "string", "pii_type": "EMAIL"}]
    key = new_ulid(runtime, runtime)
    wanted = {"name": f"{word}.orders", "columns": columns, "description": word, "owners": [f"{word}-team"]}
    table = await done("POST", "/tables", {**wanted, "if_not_exists": True}, headers={"Idempotency-Key": key})
    if columns[1]["name"] not in [column["name"] for column in table["table"]["columns"]]:
        await done("POST", f"/tables/{word}.orders/alter", {"changes": [{"action": "add", **columns[1]}]})
    daily = await done("POST", "/tables", {**wanted, "name": f"{word}.daily", "if_not_exists": True})
    await done("PUT", f"/tables/{word}.orders/contract", {"description": word})
    await done("PUT", f"/tables/{word}.orders/sla", {"freshness_seconds": 60})
    edge = await done("POST", "/lineage/edges", {"source": f"{word}.orders", "target": f"{word}.daily"})
    run_id = f"{word}-run"
    event = materialization(world, table["table"]["id"], f"{word}.orders", run_id)
    batch = {"events": [event, _check(event)]}
    events = await done("POST", "/events", batch, headers={"Idempotency-Key": new_ulid(runtime, runtime)})
    name = f"{word}-{new_ulid(runtime, runtime)}"
    made = await done("POST", "/keys", {"name": name, "role": "viewer"})
    await done("PUT", f"/roles/{word}@example.com", {"role": "editor"})
    assert daily["table"]["id"] != table["table"]["id"]
    return Content(
        namespace=word,
        namespace_id=namespace["namespace"]["id"],
        table=f"{word}.orders",
        table_id=table["table"]["id"],
        column=f"{word}_email",
        edge_id=edge["edge_id"],
        run_id=run_id,
        key_id=made["key"]["id"],
        key_name=name,
        principal=f"{word}@example.com",
        operation_id=table["operation_id"],
        activity_operation_id=events["operation_id"],
        position=table["position"],
        request_key=key,
    )


async def fill_whole(world: World, *, token: str | None = None, word: str = "sales") -> Content:
    """The same, and what orchestration has: code, a deployment, partitions, a run of which one task failed."""
    content = await fill(world, token=token, word=word)

    async def done(method: str, path: str, body: Any = None, **options: Any) -> Any:
        return await world.done(method, path, body, token=token, **options)

    runtime, asset, set_name = world.host.runtime, f"{word}.{word}_asset", f"{word}_customers"
    given = project({asset: [], f"{word}.broken": [asset]}, description=word, owners=(f"{word}-team",))
    deployed = await deploy(world, given, token=token, code=f"code of {word}".encode(), message=word)
    await done("POST", f"/partitions/{set_name}", {"keys": [f"{word}-customer"]})
    key, run_key = new_ulid(runtime, runtime), f"{word}-{new_ulid(runtime, runtime)}"
    wanted = {"selection": "*", "mode": "force", "tags": {word: word}, "run_key": run_key}
    run = await done("POST", "/runs", wanted, headers={"Idempotency-Key": key})
    who = await done("GET", "/whoami")
    worker = Worker(world, Scope(who["tenant"], who["workspace"]), name=f"{word}-worker")
    while claimed := await worker.claim(100):
        for envelope in claimed:
            outcome = Outcome.FAILED if envelope.task_key.endswith(".broken") else Outcome.SUCCEEDED
            await worker.finish(envelope, outcome, printed=(f"{word} was here\n",))
    task = await done("GET", f"/runs/{run['run_id']}/task", task=asset)
    (version,) = (await done("GET", f"/assets/{asset}/versions", limit=1))["items"]
    address = f"/assets/{asset}/versions/{version['materialization_id']}"
    await done("POST", f"{address}/quarantine", {"reason": f"{word} looks wrong"})
    return replace(
        content,
        run_id=run["run_id"],
        asset=asset,
        asset_id=(await done("GET", f"/assets/{asset}"))["asset_id"],
        sha256=(await done("GET", "/deployments", limit=1))["items"][0]["code_sha256"],
        deployment_id=deployed["deployment_id"],
        partitions=set_name,
        task_key=asset,
        attempt_id=task["attempts"][-1]["attempt_id"],
        run_key=run_key,
        run_request_key=key,
        version=version["materialization_id"],
    )


def _check(event: dict[str, Any]) -> dict[str, Any]:
    made = event["data"]
    return {
        "type": "CheckExecuted",
        "data": {
            "check_id": "not-null",
            "check_name": "not null",
            "check_type": "null",
            "asset_id": made["asset_id"],
            "partition_id": made["partition_id"],
            "materialization_id": made["materialization_id"],
            "run_id": made["run_id"],
            "task_id": made["task_id"],
            "passed": True,
            "severity": "WARN",
            "executed_at": made["completed_at"],
        },
    }

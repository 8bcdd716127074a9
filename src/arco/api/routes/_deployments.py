"""Deployments: store code, deploy a project, list what was deployed, go back; keys of dynamic partitions."""

import hashlib
from typing import Annotated, Any

import msgspec
from fastapi import Path, Request

from arco.api._reading import CallerDep, Cursor, Limit, ReadsDep
from arco.api._routing import router
from arco.api._writing import Writes, WritesDep
from arco.assets import Project
from arco.core import Invalid, PreconditionFailed, Refused
from arco.domains.deployments import AddPartitions, Deploy, DropPartitions
from arco.servo import (
    Deployed as Done,
)
from arco.servo import (
    DeployPlan,
    Servo,
    deploy,
    dynamic_partitions,
    find_deployed,
    list_deployments,
    prepare_deploy,
    project_of_deployment,
)
from arco.storage import ObjectExists, ObjectMissing, Role, Store
from arco.wire import (
    CodeStored,
    DeployChange,
    DeployDiff,
    Deployed,
    DeploymentInfo,
    DeployRequest,
    DynamicPartitionsChange,
    DynamicPartitionsInfo,
    Page,
    RollbackRequest,
    Written,
)

__all__ = ["deployments"]

deployments = router("deployments")

Sha256 = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="sha256 of the archive, in lower-case hex.")]
SetName = Annotated[str, Path(min_length=1, max_length=128, description="The name of the set of dynamic partitions.")]
DeploymentId = Annotated[str, Path(max_length=64, description="The deployment's id.")]

_ZIP: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@deployments.put("/code/{sha256}", openapi_extra=_ZIP)
async def put_code(request: Request, caller: CallerDep, sha256: Sha256) -> CodeStored:
    """Store an archive of code under its hash. Storing the same one again changes nothing."""
    data = await request.body()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Invalid("the body does not have the sha256 that its address names; send the archive as it was hashed")
    store, path = caller.workspace.handle(Role.OWNER), Servo.code_path(sha256)
    try:
        await store.put(path, data, only_if_absent=True)
    except ObjectExists:
        await store.persist(path)
    return CodeStored(sha256=sha256, byte_size=len(data))


@deployments.post("/deployments", status_code=201)
async def create_deployment(writes: WritesDep, body: DeployRequest) -> Deployed:
    """Make a project the current one: validated, compared with what is current, refused if somebody was faster."""
    try:
        project = msgspec.convert(body.project, Project)
    except msgspec.ValidationError as error:
        raise Invalid(f"the project does not fit: {error}; make it with the same version of arco") from None
    workspace = writes.caller.workspace
    asked = _fingerprint(body.project, body.message, body.allow_breaking, body.expected_current)
    if not body.dry_run:
        if (before := await _replayed(writes, project, asked)) is not None:
            return before
        await _check_code(workspace.handle(Role.READER), project)
    plan = await prepare_deploy(workspace, project)
    current = plan.current.deployment_id if plan.current is not None else ""
    if body.expected_current is not None and body.expected_current != current:
        raise PreconditionFailed(
            f"the current deployment is {current or 'none'}, not {body.expected_current or 'none'}; look at the "
            "difference again",
            expected=body.expected_current,
            current=current,
        )
    if body.dry_run:
        return _answer(plan, None)
    return _answer(plan, await _deploy(writes, plan, asked, body.message, body.allow_breaking))


def _fingerprint(*asked: Any) -> str:
    """Of a whole request. A project may have megabytes, for which the canonical form of small ones takes too long."""
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()


async def _replayed(writes: Writes, project: Project, asked: str) -> Deployed | None:
    """The answer to this very request when it came before under its key, whatever was deployed since."""
    before = await writes.repeated("catalog", Deploy, asked)
    if before is None:
        return None
    receipt, workspace = before[0], writes.caller.workspace
    await writes.settle("catalog", receipt)
    past = await workspace.logs["catalog"].snapshot(position=int(receipt.first) - 1)
    plan = await prepare_deploy(workspace, project, past)
    return _answer(plan, await find_deployed(workspace, plan.code_version, receipt))


async def _check_code(store: Store, project: Project) -> None:
    """The code must be there before anything refers to it."""
    path = Servo.code_path(project.code_sha256)
    try:
        await store.head(path)
    except ObjectMissing:
        raise Refused(
            f"the code {project.code_sha256} was not stored here; send it to /api/v1/code/{project.code_sha256} first"
        ) from None


async def _deploy(
    writes: Writes, plan: DeployPlan, asked: str, message: str, allow_breaking: bool, rollback_of: str = ""
) -> Done:
    caller = writes.caller
    done = await deploy(
        caller.workspace,
        plan,
        actor=caller.actor,
        message=message,
        allow_breaking=allow_breaking,
        rollback_of=rollback_of,
        key=writes.key,
        operation=writes.operation,
        correlation=caller.request_id,
        traceparent=caller.traceparent,
        asked=asked,
    )
    await writes.settle("catalog", done.receipt)
    return done


def _answer(plan: DeployPlan, done: Done | None) -> Deployed:
    found = plan.diff
    named = {*found.added, *(change.key for change in found.changed), *(renamed.after for renamed in found.renamed)}
    return Deployed(
        deployment_id=done.deployment_id if done is not None else None,
        code_version=plan.code_version,
        diff=DeployDiff(
            added=list(found.added),
            changed=[DeployChange(key=change.key, fields=list(change.fields)) for change in found.changed],
            removed=list(found.removed),
            renamed=[f"{renamed.before} -> {renamed.after}" for renamed in found.renamed],
            affected=[f"{affected.key}: {affected.reason}" for affected in found.affected],
            unchanged=sum(asset.key not in named for asset in plan.project.assets),
        ),
        warnings=list(plan.breaking),
        operation_id=done.receipt.operation if done is not None else None,
        position=done.receipt.last if done is not None else None,
        replayed=done.receipt.replayed if done is not None else False,
    )


@deployments.get("/deployments")
async def list_deployments_route(reads: ReadsDep, cursor: Cursor = None, limit: Limit = 50) -> Page[DeploymentInfo]:
    """What was deployed, newest first."""
    return await reads.catalog(lambda view: list_deployments(view, cursor, limit))


@deployments.post("/deployments/{deployment_id}/rollback", status_code=201)
async def rollback_deployment(writes: WritesDep, deployment_id: DeploymentId, body: RollbackRequest) -> Deployed:
    """Deploy again what a former deployment made current."""
    project = await project_of_deployment(writes.caller.workspace, deployment_id)
    asked = _fingerprint(deployment_id, body.message, body.allow_breaking)
    if (before := await _replayed(writes, project, asked)) is not None:
        return before
    plan = await prepare_deploy(writes.caller.workspace, project)
    return _answer(plan, await _deploy(writes, plan, asked, body.message, body.allow_breaking, deployment_id))


@deployments.get("/partitions/{name}")
async def list_dynamic_partitions(
    reads: ReadsDep, name: SetName, cursor: Cursor = None, limit: Limit = 1000
) -> DynamicPartitionsInfo:
    """The keys of a set of dynamic partitions."""
    return await reads.catalog(lambda view: dynamic_partitions(view, name, cursor, limit))


@deployments.post("/partitions/{name}", status_code=201)
async def add_dynamic_partitions(writes: WritesDep, name: SetName, body: DynamicPartitionsChange) -> Written:
    """Add keys to a set of dynamic partitions; those it has already stay."""
    receipt = await writes.decide("catalog", AddPartitions(name, tuple(body.keys)))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)


@deployments.post("/partitions/{name}/drop")
async def drop_dynamic_partitions(writes: WritesDep, name: SetName, body: DynamicPartitionsChange) -> Written:
    """Drop keys of a set of dynamic partitions. Data that was made for them stays."""
    receipt = await writes.decide("catalog", DropPartitions(name, tuple(body.keys)))
    return Written(operation_id=receipt.operation, position=receipt.last, replayed=receipt.replayed)

"""Deploys: what one would do (`prepare_deploy`), doing it (`deploy`), going back (deploy `project_of_deployment`).

prepare: validate -> compare with what is current -> schemas against what is registered -> ids that stay
deploy:  the project as a blob -> one command, decided at the tail of the log

Between the two somebody else may deploy; the command then is refused and nothing has changed.
"""

import msgspec

from arco.assets import Project, SchemaColumn, project_fingerprint, resolve, validate
from arco.core import Invalid, NotFound, fingerprint, parse_path, shown
from arco.domains.catalog import COLUMNS, CONTRACTS, Column, Contract, find_namespace_id, find_object_id
from arco.domains.deployments import (
    ASSET_NAMES,
    ASSETS,
    CODE_VERSIONS,
    CURRENT_DEPLOYMENT,
    DEPLOYMENTS_TABLE,
    WORKSPACE,
    CodeVersion,
    CurrentDeployment,
    Deploy,
    Deployment,
    assign_ids,
    decode_project,
    pack_project,
)
from arco.log import Blobs, Receipt, check_no_secret, may_hold_secret
from arco.runtime import Workspace
from arco.servo._deploy_diff import DeployDiff, diff
from arco.servo._deploy_schema import breaking_changes, canonical_columns
from arco.servo._iceberg_names import check_names_free
from arco.state import AUDIT, Audit, Snapshot, View
from arco.storage import Role

__all__ = [
    "DeployPlan",
    "Deployed",
    "deploy",
    "find_deployed",
    "load_project",
    "prepare_deploy",
    "project_of_deployment",
]

CATALOG = "catalog"


class DeployPlan(msgspec.Struct, frozen=True):
    """What a deploy would do, compared with the deployment that is current."""

    project: Project
    """With its dependencies resolved and its assets in order."""
    code_version: str
    current: CurrentDeployment | None
    diff: DeployDiff
    kept_ids: dict[str, str]
    """Ids of the assets that have one already, by key."""
    table_ids: dict[str, str]
    """Tables of the catalog that have an asset's name, by key."""
    breaking: tuple[str, ...]
    """Changes of declared schemas that readers would not survive; such a deploy is refused unless it is allowed."""

    @property
    def changes_nothing(self) -> bool:
        """Whether exactly this is deployed already."""
        return self.current is not None and self.current.code_version == self.code_version


class Deployed(msgspec.Struct, frozen=True):
    deployment_id: str
    code_version: str
    receipt: Receipt
    is_new: bool
    """False if exactly this was current already, or the same request had been carried out before."""


class _Known(msgspec.Struct, frozen=True):
    """What the catalog says, at one position."""

    current: CurrentDeployment | None
    table_ids: dict[str, str]
    kept_ids: dict[str, str]
    registered: dict[str, tuple[tuple[SchemaColumn, ...], str]]
    """Columns and compatibility of the tables behind assets that declare a schema, by key."""


async def prepare_deploy(workspace: Workspace, project: Project, past: Snapshot | None = None) -> DeployPlan:
    """Find out what deploying a project would do, or would have done in a past state of the catalog.

    `Invalid` lists everything that is wrong with it.
    """
    project = _checked(project)
    if past is not None:
        known = await _read(past, project)
    else:
        known, _ = await workspace.logs[CATALOG].read(lambda view: _read(view, project))
    before = None if known.current is None else await load_project(workspace, known.current.manifest)
    change = diff(before, project)
    return DeployPlan(
        project=project,
        code_version=project_fingerprint(project),
        current=known.current,
        diff=change,
        kept_ids=known.kept_ids,
        table_ids=known.table_ids,
        breaking=tuple(_breaking(before, project, change, known)),
    )


async def deploy(
    workspace: Workspace,
    plan: DeployPlan,
    *,
    actor: str,
    message: str = "",
    allow_breaking: bool = False,
    rollback_of: str = "",
    key: str = "",
    operation: str = "",
    correlation: str = "",
    traceparent: str = "",
    asked: str = "",
) -> Deployed:
    """Carry out a plan, if nobody deployed since it was made. The code itself is uploaded before.

    `asked` is the fingerprint of the request; by default that of the plan's project and the other arguments.
    """
    packed = pack_project(plan.project)
    if may_hold_secret(packed.data):
        check_no_secret("project", msgspec.json.decode(packed.data))
    await Blobs(workspace.handle(Role.OWNER)).put(packed.data)
    command = Deploy(
        project=packed.text,
        project_blob=packed.sha256,
        expected_current=plan.current.deployment_id if plan.current is not None else "",
        message=message,
        rollback_of=rollback_of,
        table_ids=plan.table_ids,
        breaking=plan.breaking,
        allow_breaking=allow_breaking,
    )
    receipt = await workspace.decide(
        CATALOG,
        command,
        actor=actor,
        key=key,
        operation=operation,
        correlation=correlation,
        traceparent=traceparent,
        # What was found out on the way, and how the project is compressed, is no part of what is asked.
        asked=asked or fingerprint([plan.code_version, message, rollback_of, allow_breaking]),
    )
    return await find_deployed(workspace, plan.code_version, receipt)


async def project_of_deployment(workspace: Workspace, deployment_id: str) -> Project:
    """What a former deployment made current. To go back is to deploy it again, with `rollback_of`."""

    async def find(view: View) -> CodeVersion:
        row: Deployment | None = await view.get(DEPLOYMENTS_TABLE, WORKSPACE, deployment_id)
        if row is None:
            raise NotFound(f"there is no deployment {shown(deployment_id)}; list the deployments to see their ids")
        version: CodeVersion = await view.get(CODE_VERSIONS, WORKSPACE, row.code_version)
        return version

    version, _ = await workspace.logs[CATALOG].read(find)
    return await load_project(workspace, version.manifest)


async def load_project(workspace: Workspace, manifest: str) -> Project:
    """The project of a code version; `manifest` is the sha256 of its blob."""
    return decode_project(await Blobs(workspace.handle(Role.READER)).get(manifest))


def _checked(project: Project) -> Project:
    problems = validate(project)
    if problems:
        raise Invalid(
            f"the project has {len(problems)} problem{'s' if len(problems) > 1 else ''}:\n"
            + "\n".join(str(problem) for problem in problems),
            problems=[str(problem) for problem in problems],
        )
    return resolve(project)


async def _read(view: View, project: Project) -> _Known:
    current: CurrentDeployment | None = await view.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
    assets = {row.asset_id: row for row in await view.rows(ASSETS, WORKSPACE)}
    names = {row.key: row for row in await view.rows(ASSET_NAMES, WORKSPACE)}
    table_ids: dict[str, str] = {}
    for definition in project.assets:
        *above, name = parse_path(definition.key)
        parent = await find_namespace_id(view, tuple(above))
        table = None if parent is None else await find_object_id(view, parent, "table", name)
        if table is not None:
            table_ids[definition.key] = table
    await check_names_free(view, project.assets, table_ids)
    ids = assign_ids(project.assets, assets, names, table_ids, lambda label: "")
    kept = {key: asset_id for key, asset_id in ids.items() if asset_id in assets}
    registered = {
        definition.key: await _registered(view, kept.get(definition.key), table_ids.get(definition.key))
        for definition in project.assets
        if definition.schema
    }
    return _Known(current, table_ids, kept, registered)


async def _registered(view: View, *candidates: str | None) -> tuple[tuple[SchemaColumn, ...], str]:
    """The columns of the first of these tables that has any, and what its contract asks for."""
    for table_id in candidates:
        if table_id is None:
            continue
        rows: list[Column] = await view.rows(COLUMNS, table_id)
        active = [row for row in rows if row.status == "active"]
        if active:
            contract: Contract | None = await view.get(CONTRACTS, table_id, table_id)
            enforced = contract is not None and contract.status == "active"
            columns = tuple(SchemaColumn(row.name, row.data_type, row.is_nullable) for row in active)
            return columns, contract.compatibility if contract is not None and enforced else "backward"
    return (), "backward"


def _breaking(before: Project | None, after: Project, change: DeployDiff, known: _Known) -> list[str]:
    """A schema that nobody registered yet is compared with what the current code version declares."""
    declared = {definition.key: definition.schema for definition in before.assets} if before is not None else {}
    origin = {renamed.after: renamed.before for renamed in change.renamed}
    found: list[str] = []
    for definition in after.assets:
        key = definition.key
        now = canonical_columns(key, definition.schema)
        if now:
            columns, compatibility = known.registered[key]
            former = columns or canonical_columns(key, declared.get(origin.get(key, key), ()))
            found += breaking_changes(key, former, now, compatibility) if former else []
    return found


async def find_deployed(workspace: Workspace, code_version: str, receipt: Receipt) -> Deployed:
    """The deployment that a receipt stands for: its last event if it has any, else the one that was current then."""

    async def find(view: View) -> tuple[str, bool]:
        audit: Audit | None = await view.get(AUDIT, receipt.last, receipt.last)
        if audit is not None and audit.operation == receipt.operation:
            return audit.resource, not receipt.replayed
        current: CurrentDeployment = await view.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
        return current.deployment_id, False

    log = workspace.logs[CATALOG]
    if receipt.replayed:
        deployment_id, is_new = await find(await log.snapshot(position=receipt.position))
    else:
        (deployment_id, is_new), _ = await log.read(find, strong=False, min_position=receipt.position)
    return Deployed(deployment_id, code_version, receipt, is_new)

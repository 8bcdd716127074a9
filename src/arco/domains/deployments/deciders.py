"""What decides a deploy: only what changed becomes an event, and a refusal leaves everything as it was."""

from collections.abc import Mapping
from typing import Final

import msgspec

from arco.assets import Project, check_partition_value, project_fingerprint, resolve, validate
from arco.core import Invalid, NotFound, PreconditionFailed, Refused, TooLarge, check_name, parse_ulid, shown
from arco.domains.deployments.commands import AddPartitions, Deploy, DropPartitions
from arco.domains.deployments.events import (
    ASSET_DEFINED,
    ASSET_REMOVED,
    CODE_DEPLOYED,
    CODE_ROLLED_BACK,
    PARTITIONS_ADDED,
    PARTITIONS_DROPPED,
    AssetDefined,
    AssetRemoved,
    CodeDeployed,
    PartitionsAdded,
    PartitionsDropped,
)
from arco.domains.deployments.ids import assign_ids
from arco.domains.deployments.project import definition_text, unpack_project
from arco.domains.deployments.tables import (
    ASSET_NAMES,
    ASSETS,
    CURRENT_DEPLOYMENT,
    DEPLOYMENTS_TABLE,
    DYNAMIC_PARTITIONS,
    WORKSPACE,
    AssetName,
    AssetRow,
    AssetStatus,
    CurrentDeployment,
    Deployment,
)
from arco.log import NewEvent
from arco.state import Decider, Decision, View, new_event

__all__ = ["COMMANDS"]

MAX_MESSAGE: Final = 1_000
MAX_KEYS: Final = 10_000
SHOWN_PROBLEMS: Final = 20


async def deploy(command: Deploy, view: View, decision: Decision) -> list[NewEvent]:
    project = unpack_project(command.project, command.project_blob)
    _check(command, project)
    current: CurrentDeployment | None = await view.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
    code_version = project_fingerprint(project)
    await _check_rollback(command, code_version, view)
    if current is not None and current.code_version == code_version:
        return []
    _check_current(command, "" if current is None else current.deployment_id)
    assets: dict[str, AssetRow] = {row.asset_id: row for row in await view.rows(ASSETS, WORKSPACE)}
    names: dict[str, AssetName] = {row.key: row for row in await view.rows(ASSET_NAMES, WORKSPACE)}
    ids = assign_ids(project.assets, assets, names, command.table_ids, decision.new_id)
    deployment_id = decision.new_id("deployment")
    removed, defined = _removed(ids, assets, deployment_id), _defined(project, ids, assets, deployment_id)
    added = sum(not _is_active(assets, event.asset_id) for event in defined)
    event = CodeDeployed(
        deployment_id=deployment_id,
        code_version=code_version,
        manifest=command.project_blob,
        code_sha256=project.code_sha256,
        lock_sha256=project.lock_sha256,
        python=project.python,
        asset_count=len(ids),
        added_count=added,
        changed_count=len(defined) - added,
        removed_count=len(removed),
        message=command.message,
        rollback_of=command.rollback_of,
    )
    kind = CODE_ROLLED_BACK if command.rollback_of else CODE_DEPLOYED
    done = msgspec.structs.replace(new_event(kind, event, subject=deployment_id), blobs=(command.project_blob,))
    return [
        *(new_event(ASSET_REMOVED, event, subject=event.key) for event in removed),
        *(new_event(ASSET_DEFINED, event, subject=event.definition.key) for event in defined),
        done,
    ]


def _check(command: Deploy, project: Project) -> None:
    """Refuse what no state of the workspace would make right."""
    if len(command.message) > MAX_MESSAGE:
        raise TooLarge(f"the message has {len(command.message)} characters, the limit is {MAX_MESSAGE}; shorten it")
    problems = validate(project)
    if problems:
        shown_problems = "; ".join(str(problem) for problem in problems[:SHOWN_PROBLEMS])
        more = len(problems) - SHOWN_PROBLEMS
        raise Invalid(
            f"the project has {len(problems)} problems: {shown_problems}" + (f"; and {more} more" if more > 0 else ""),
            problems=[str(problem) for problem in problems],
        )
    if resolve(project) != project:
        raise Invalid("the assets of a project stand in order and name each other by key; resolve it before packing it")
    for table_id in command.table_ids.values():
        parse_ulid(table_id)
    if command.breaking and not command.allow_breaking:
        raise Refused(
            "declared schemas break what is registered: " + "; ".join(command.breaking[:SHOWN_PROBLEMS]) + "; make the "
            "changes compatible, or deploy with allow_breaking",
            breaking=list(command.breaking),
        )


async def _check_rollback(command: Deploy, code_version: str, view: View) -> None:
    if not command.rollback_of:
        return
    target: Deployment | None = await view.get(DEPLOYMENTS_TABLE, WORKSPACE, command.rollback_of)
    if target is None:
        raise NotFound(f"there is no deployment {shown(command.rollback_of)} to go back to; list the deployments")
    if target.code_version != code_version:
        raise Invalid(
            f"the deployment {target.deployment_id} was of the code version {target.code_version}, not {code_version}"
        )


def _check_current(command: Deploy, current: str) -> None:
    if command.expected_current is not None and command.expected_current != current:
        raise PreconditionFailed(
            "somebody else deployed meanwhile; look at the difference to what is current now, then deploy again",
            expected=command.expected_current,
            current=current,
        )


def _removed(ids: Mapping[str, str], assets: Mapping[str, AssetRow], deployment_id: str) -> list[AssetRemoved]:
    kept = set(ids.values())
    return [
        AssetRemoved(row.asset_id, deployment_id, row.key)
        for row in assets.values()
        if row.status == AssetStatus.ACTIVE and row.asset_id not in kept
    ]


def _defined(
    project: Project, ids: Mapping[str, str], assets: Mapping[str, AssetRow], deployment_id: str
) -> list[AssetDefined]:
    """New assets, those that come back, and those whose definition is another one now."""
    defined = []
    for definition in project.assets:
        asset_id = ids[definition.key]
        if not _is_active(assets, asset_id) or assets[asset_id].definition != definition_text(definition):
            defined.append(AssetDefined(asset_id, deployment_id, definition))
    return defined


def _is_active(assets: Mapping[str, AssetRow], asset_id: str) -> bool:
    return asset_id in assets and assets[asset_id].status == AssetStatus.ACTIVE


async def add_partitions(command: AddPartitions, view: View, decision: Decision) -> list[NewEvent]:
    name, keys = _check_partitions(command)
    known = {row.key for row in await view.rows(DYNAMIC_PARTITIONS, name)}
    new = tuple(key for key in keys if key not in known)
    return [new_event(PARTITIONS_ADDED, PartitionsAdded(name, new), subject=name)] if new else []


async def drop_partitions(command: DropPartitions, view: View, decision: Decision) -> list[NewEvent]:
    name, keys = _check_partitions(command)
    known = {row.key for row in await view.rows(DYNAMIC_PARTITIONS, name)}
    missing = [key for key in keys if key not in known]
    if missing:
        raise NotFound(f"the dynamic partitions {name} have no key {shown(missing[0])}; list them to see their keys")
    return [new_event(PARTITIONS_DROPPED, PartitionsDropped(name, keys), subject=name)]


def _check_partitions(command: AddPartitions | DropPartitions) -> tuple[str, tuple[str, ...]]:
    """The name, and the keys in their order, each once."""
    name = check_name("set of dynamic partitions", command.name)
    if not command.keys:
        raise Invalid(f"no key of the dynamic partitions {name} is given; give at least one")
    if len(command.keys) > MAX_KEYS:
        raise TooLarge(f"{len(command.keys)} keys at once are too many, the limit is {MAX_KEYS}; send several commands")
    return name, tuple(dict.fromkeys(check_partition_value(key) for key in command.keys))


COMMANDS: dict[str, tuple[type[msgspec.Struct], Decider]] = {
    "Deploy": (Deploy, deploy),
    "AddPartitions": (AddPartitions, add_partitions),
    "DropPartitions": (DropPartitions, drop_partitions),
}

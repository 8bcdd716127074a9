"""The fold of deployments: assets and their names, deployments, keys of dynamic partitions."""

import msgspec

from arco.domains.deployments.deciders import COMMANDS
from arco.domains.deployments.events import (
    ASSET_DEFINED,
    ASSET_REMOVED,
    CODE_DEPLOYED,
    CODE_ROLLED_BACK,
    EVENTS,
    PARTITIONS_ADDED,
    PARTITIONS_DROPPED,
    AssetDefined,
    AssetRemoved,
    CodeDeployed,
    PartitionsAdded,
)
from arco.domains.deployments.project import definition_text
from arco.domains.deployments.tables import (
    ASSET_NAMES,
    ASSETS,
    CODE_VERSIONS,
    CURRENT_DEPLOYMENT,
    DEPLOYMENTS_TABLE,
    DYNAMIC_PARTITIONS,
    WORKSPACE,
    AssetName,
    AssetRow,
    AssetStatus,
    CodeVersion,
    CurrentDeployment,
    Deployment,
    DynamicPartition,
    NameState,
)
from arco.state import Domain, Group, Input, Reject, Stage

__all__ = ["DEPLOYMENTS"]


def _fold_asset(group: Group, item: Input) -> None:
    event = item.payload
    row: AssetRow | None = group.get(ASSETS, event.asset_id)
    if isinstance(event, AssetDefined):
        _define(group, item, event, row)
    elif isinstance(event, AssetRemoved):
        if row is None:
            raise Reject(f"the asset {event.asset_id} does not exist")
        group.put(
            ASSETS,
            msgspec.structs.replace(
                row, status=AssetStatus.REMOVED, deployment_id=event.deployment_id, removed_at=item.received
            ),
        )
        _release(group, item, row, NameState.REMOVED)


def _define(group: Group, item: Input, event: AssetDefined, before: AssetRow | None) -> None:
    definition = event.definition
    if before is not None and before.key != definition.key:
        _release(group, item, before, NameState.FORMER)
    group.put(
        ASSETS,
        AssetRow(
            workspace=WORKSPACE,
            asset_id=event.asset_id,
            key=definition.key,
            kind=definition.kind,
            unit=definition.unit or definition.key,
            description=definition.description,
            owners=definition.owners,
            tags=definition.tags,
            code_version=definition.code_version,
            definition=definition_text(definition),
            status=AssetStatus.ACTIVE,
            deployment_id=event.deployment_id,
            created_at=item.received if before is None else before.created_at,
            deployed_at=item.received,
            removed_at=None,
        ),
    )
    _name(group, item, definition.key, event.asset_id, NameState.CURRENT)
    for key in definition.renamed_from:
        if group.get(ASSET_NAMES, key) is None:
            _name(group, item, key, event.asset_id, NameState.FORMER)


def _release(group: Group, item: Input, row: AssetRow, state: NameState) -> None:
    """The asset gives up its key; if another one took it first, that one has it."""
    held: AssetName | None = group.get(ASSET_NAMES, row.key)
    if held is not None and held.asset_id == row.asset_id:
        _name(group, item, row.key, row.asset_id, state)


def _name(group: Group, item: Input, key: str, asset_id: str, state: NameState) -> None:
    group.put(ASSET_NAMES, AssetName(WORKSPACE, key, asset_id, state, item.received))


def _fold_deployment(group: Group, item: Input) -> None:
    event: CodeDeployed = item.payload
    actor, now = item.event.actor, item.received
    if group.get(CODE_VERSIONS, event.code_version) is None:
        group.put(
            CODE_VERSIONS,
            CodeVersion(
                WORKSPACE,
                event.code_version,
                event.manifest,
                event.code_sha256,
                event.lock_sha256,
                event.python,
                event.asset_count,
                actor,
                now,
            ),
        )
    current: CurrentDeployment | None = group.get(CURRENT_DEPLOYMENT, WORKSPACE)
    group.put(
        DEPLOYMENTS_TABLE,
        Deployment(
            workspace=WORKSPACE,
            deployment_id=event.deployment_id,
            code_version=event.code_version,
            previous="" if current is None else current.deployment_id,
            rollback_of=event.rollback_of,
            message=event.message,
            asset_count=event.asset_count,
            added_count=event.added_count,
            changed_count=event.changed_count,
            removed_count=event.removed_count,
            deployed_by=actor,
            deployed_at=now,
        ),
    )
    group.put(
        CURRENT_DEPLOYMENT,
        CurrentDeployment(
            WORKSPACE,
            event.deployment_id,
            event.code_version,
            event.manifest,
            event.code_sha256,
            event.lock_sha256,
            event.python,
            event.asset_count,
            actor,
            now,
        ),
    )


def _fold_partitions(group: Group, item: Input) -> None:
    event = item.payload
    for index, key in enumerate(event.keys):
        known = group.get(DYNAMIC_PARTITIONS, (event.name, key)) is not None
        if not isinstance(event, PartitionsAdded):
            group.delete(DYNAMIC_PARTITIONS, (event.name, key))
        elif not known:
            order = f"{item.position:020d}-{index:06d}"
            group.put(DYNAMIC_PARTITIONS, DynamicPartition(event.name, key, order, item.event.actor, item.received))


def _workspace(item: Input) -> tuple[str, ...]:
    return (WORKSPACE,)


DEPLOYMENTS = Domain(
    name="deployments",
    log="catalog",
    version=1,
    events=EVENTS,
    stages=(
        Stage(
            "assets", (ASSETS, ASSET_NAMES), _workspace, _fold_asset, events=(ASSET_DEFINED.name, ASSET_REMOVED.name)
        ),
        Stage(
            "deployments",
            (CODE_VERSIONS, DEPLOYMENTS_TABLE, CURRENT_DEPLOYMENT),
            _workspace,
            _fold_deployment,
            events=(CODE_DEPLOYED.name, CODE_ROLLED_BACK.name),
        ),
        Stage(
            "dynamic partitions",
            (DYNAMIC_PARTITIONS,),
            lambda item: (item.payload.name,),
            _fold_partitions,
            events=(PARTITIONS_ADDED.name, PARTITIONS_DROPPED.name),
        ),
    ),
    commands=COMMANDS,
)

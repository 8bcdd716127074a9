"""Domain `deployments` (log `catalog`, decided): assets, code versions, deployments, keys of dynamic partitions.

pack_project -> Deploy -> deciders (validate, ids) -> events -> fold -> tables; the project itself is a blob
"""

from arco.domains.deployments.commands import AddPartitions, Deploy, DropPartitions
from arco.domains.deployments.fold import DEPLOYMENTS
from arco.domains.deployments.ids import assign_ids
from arco.domains.deployments.project import PackedProject, decode_project, definition_text, pack_project
from arco.domains.deployments.read import read_asset_ids, read_dynamic_partitions, resolve_key
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

__all__ = [
    "ASSETS",
    "ASSET_NAMES",
    "CODE_VERSIONS",
    "CURRENT_DEPLOYMENT",
    "DEPLOYMENTS",
    "DEPLOYMENTS_TABLE",
    "DYNAMIC_PARTITIONS",
    "WORKSPACE",
    "AddPartitions",
    "AssetName",
    "AssetRow",
    "AssetStatus",
    "CodeVersion",
    "CurrentDeployment",
    "Deploy",
    "Deployment",
    "DropPartitions",
    "DynamicPartition",
    "NameState",
    "PackedProject",
    "assign_ids",
    "decode_project",
    "definition_text",
    "pack_project",
    "read_asset_ids",
    "read_dynamic_partitions",
    "resolve_key",
]

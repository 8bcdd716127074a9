"""Tables of deployments. A workspace has one project at a time, so what belongs to it lives in one group: a deploy
reads it in one go, and assets are listed page by page in the order of their keys.

- `assets` (images): every asset there ever was, under its id: its newest definition, and whether it still exists.
- `asset_names` (images): what a key means: the asset that has it, or had it last. Old keys keep resolving.
- `code_versions` (facts): each project that was ever deployed; `manifest` is the blob that holds all its definitions.
- `deployments` (facts): when which code version became the current one.
- `current_deployment` (images): the newest of them, in one row.
- `dynamic_partitions` (images): keys of dynamic partitions, in the group of their set.
"""

from enum import StrEnum

import msgspec

from arco.state import Kind, Table, Time

__all__ = [
    "ASSETS",
    "ASSET_NAMES",
    "CODE_VERSIONS",
    "CURRENT_DEPLOYMENT",
    "DEPLOYMENTS_TABLE",
    "DYNAMIC_PARTITIONS",
    "WORKSPACE",
    "AssetName",
    "AssetRow",
    "AssetStatus",
    "CodeVersion",
    "CurrentDeployment",
    "Deployment",
    "DynamicPartition",
    "NameState",
]

WORKSPACE = "workspace"
"""The group of what concerns the whole workspace."""


class AssetStatus(StrEnum):
    ACTIVE = "active"
    REMOVED = "removed"
    """The current code version does not define it. Its data and its id stay."""


class NameState(StrEnum):
    CURRENT = "current"
    """An asset has this key."""
    FORMER = "former"
    """The asset is called otherwise now."""
    REMOVED = "removed"
    """The asset that had it last was removed."""


class AssetRow(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    asset_id: str
    key: str
    kind: str
    unit: str
    description: str
    owners: tuple[str, ...]
    tags: dict[str, str]
    code_version: str
    """Of this asset: the hash of its function and what that calls."""
    definition: str
    """The whole definition, as JSON with sorted keys."""
    status: str
    deployment_id: str
    """The deployment that defined it so, or removed it."""
    created_at: Time
    deployed_at: Time
    """When its definition last changed."""
    removed_at: Time | None


class AssetName(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    key: str
    asset_id: str
    state: str
    updated_at: Time


class CodeVersion(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    code_version: str
    manifest: str
    """sha256 of the blob with the project, all definitions included, as JSON."""
    code_sha256: str
    lock_sha256: str
    python: str
    asset_count: int
    created_by: str
    created_at: Time


class Deployment(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    deployment_id: str
    code_version: str
    previous: str
    """The deployment that was current before; empty for the first."""
    rollback_of: str
    """The deployment whose code version this one brought back; empty if it is a deploy of what the code says."""
    message: str
    asset_count: int
    added_count: int
    changed_count: int
    removed_count: int
    deployed_by: str
    deployed_at: Time


class CurrentDeployment(msgspec.Struct, frozen=True, gc=False):
    workspace: str
    deployment_id: str
    code_version: str
    manifest: str
    code_sha256: str
    lock_sha256: str
    python: str
    asset_count: int
    deployed_by: str
    deployed_at: Time


class DynamicPartition(msgspec.Struct, frozen=True, gc=False):
    name: str
    key: str
    added_order: str
    """Sorts the keys of a set by when they were added."""
    added_by: str
    added_at: Time


ASSETS = Table("assets", AssetRow, Kind.IMAGE, ("asset_id",), "workspace", prune=("created_at",))
ASSET_NAMES = Table("asset_names", AssetName, Kind.IMAGE, ("key",), "workspace")
CODE_VERSIONS = Table("code_versions", CodeVersion, Kind.FACT, ("code_version",), "workspace")
DEPLOYMENTS_TABLE = Table("deployments", Deployment, Kind.FACT, ("deployment_id",), "workspace")
CURRENT_DEPLOYMENT = Table(
    "current_deployment", CurrentDeployment, Kind.IMAGE, ("workspace",), "workspace", audited=True
)
DYNAMIC_PARTITIONS = Table("dynamic_partitions", DynamicPartition, Kind.IMAGE, ("name", "key"), "name", audited=True)

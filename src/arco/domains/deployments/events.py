"""Events of deployments: what a deploy did, asset by asset, and then that it was done; keys of dynamic partitions.

The events of one deploy stand together in one segment, `CodeDeployed` last. It names the blob with the whole project,
so that whoever plans or runs reads one object and no events.
"""

from typing import Any

import msgspec

from arco.assets import AssetDefinition
from arco.log import EventType, unchanged

__all__ = [
    "ASSET_DEFINED",
    "ASSET_REMOVED",
    "CODE_DEPLOYED",
    "CODE_ROLLED_BACK",
    "EVENTS",
    "PARTITIONS_ADDED",
    "PARTITIONS_DROPPED",
    "AssetDefined",
    "AssetRemoved",
    "CodeDeployed",
    "PartitionsAdded",
    "PartitionsDropped",
]


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A payload."""


class AssetDefined(Fact, frozen=True):
    """From now on the asset is this. One that had another key before is renamed by it."""

    asset_id: str
    deployment_id: str
    definition: AssetDefinition


class AssetRemoved(Fact, frozen=True):
    asset_id: str
    deployment_id: str
    key: str


class CodeDeployed(Fact, frozen=True):
    deployment_id: str
    code_version: str
    """Fingerprint of the project."""
    manifest: str
    """sha256 of the blob with the project as JSON; the event's only blob."""
    code_sha256: str
    lock_sha256: str
    python: str
    asset_count: int
    added_count: int = 0
    changed_count: int = 0
    removed_count: int = 0
    message: str = ""
    rollback_of: str = ""
    """The deployment whose code version this one brings back."""


class PartitionsAdded(Fact, frozen=True):
    name: str
    keys: tuple[str, ...]
    """In the order in which they are to stand."""


class PartitionsDropped(Fact, frozen=True):
    name: str
    keys: tuple[str, ...]


def _with_engine(payload: dict[str, Any]) -> dict[str, Any]:
    """Version 2 has rules as checks and says which engine makes an asset: Spark makes queries, Python made the rest."""
    definition = payload["definition"]
    if definition.get("kind") != "sql":
        return payload
    return {**payload, "definition": {**definition, "engine": "spark"}}


ASSET_DEFINED = EventType("AssetDefined", AssetDefined, version=3, upcasters={1: _with_engine, 2: unchanged})
"""Version 3 has formats of data; before them everything was Parquet."""
ASSET_REMOVED = EventType("AssetRemoved", AssetRemoved)
CODE_DEPLOYED = EventType("CodeDeployed", CodeDeployed, audit=("DeployAssets", "deployment"))
CODE_ROLLED_BACK = EventType("CodeRolledBack", CodeDeployed, audit=("RollbackDeployment", "deployment"))
"""The same as `CodeDeployed`, under the name that the audit has for it."""
PARTITIONS_ADDED = EventType("PartitionsAdded", PartitionsAdded, audit=("AddPartitions", "partitions"))
PARTITIONS_DROPPED = EventType("PartitionsDropped", PartitionsDropped, audit=("DropPartitions", "partitions"))

EVENTS = (ASSET_DEFINED, ASSET_REMOVED, CODE_DEPLOYED, CODE_ROLLED_BACK, PARTITIONS_ADDED, PARTITIONS_DROPPED)

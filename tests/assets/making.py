"""Short ways to make definitions for tests."""

from typing import Any

from arco.assets import (
    AssetDefinition,
    AssetKind,
    Dependency,
    Dimension,
    PartitionSpace,
    Project,
    StaticPartitions,
    TimePartitions,
)
from arco.core import parse_time

AT = parse_time("2026-01-01T00:00:00Z")


def an_asset(key: str, *upstream: str | Dependency, **fields: Any) -> AssetDefinition:
    dependencies = tuple(Dependency(key=one) if isinstance(one, str) else one for one in upstream)
    defaults: dict[str, Any] = {"function": "pipelines:made", "file": "pipelines.py", "line": 7}
    if fields.get("kind") is AssetKind.EXTERNAL:
        defaults.pop("function")
    return AssetDefinition(key=key, dependencies=dependencies, **{**defaults, **fields})


def a_project(*assets: AssetDefinition) -> Project:
    return Project(assets=tuple(sorted(assets, key=lambda asset: asset.key)))


def days(start: str = "2025-01-01", name: str = "date", **fields: Any) -> Dimension:
    return Dimension(name, TimePartitions("0 0 * * *", start, **fields))


def keys(*texts: str, name: str = "region") -> Dimension:
    return Dimension(name, StaticPartitions(texts))


def space(*dimensions: Dimension, at: str | int = AT, dynamic: dict[str, list[str]] | None = None) -> PartitionSpace:
    return PartitionSpace(dimensions, parse_time(at) if isinstance(at, str) else at, dynamic or {})

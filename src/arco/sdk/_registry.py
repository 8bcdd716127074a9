"""Everything that was defined in this process, in the order of definition: what loaders collect and drivers look up."""

import importlib
from typing import TYPE_CHECKING, Any, TypeAlias

from arco.core import NotFound

if TYPE_CHECKING:
    from arco.sdk._asset import Asset
    from arco.sdk._check import Check

    AnyAsset: TypeAlias = Asset[..., Any]
    AnyCheck: TypeAlias = Check[..., Any]

__all__ = ["ASSETS", "CHECKS", "find_asset", "find_check"]

ASSETS: "list[AnyAsset]" = []
CHECKS: "list[AnyCheck]" = []


def find_asset(module: str, key: str) -> "AnyAsset":
    """The definition of an asset, after importing its module. The latest one counts."""
    importlib.import_module(module)
    for asset in reversed(ASSETS):
        if asset.module == module and any(definition.key == key for definition in asset.definitions):
            return asset
    raise NotFound(f"the module {module} defines no asset {key}; deploy the project again")


def find_check(module: str, asset_key: str, name: str) -> "AnyCheck":
    """The definition of a check of an asset, after importing its module."""
    importlib.import_module(module)
    named = [check for check in reversed(CHECKS) if check.module == module and check.name == name]
    if not named:
        raise NotFound(f"the module {module} defines no check {name}; deploy the project again")
    # A function that makes checks may give several assets one of the same name.
    for check in named:
        if check.target and (check.target == asset_key or asset_key.endswith(f".{check.target}")):
            return check
    return named[0]

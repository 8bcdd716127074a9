"""Tables of assets: Servo writes them, and nobody else changes, renames or drops them.

Such a table says so in properties that only Servo may set. They come with its first metadata and never go, so that a
look at any of its metadata is enough to know.
"""

from typing import Any, Final

from arco.core import Forbidden, parse_ulid
from arco.iceberg._locations import Locations
from arco.iceberg._who import Who

__all__ = ["ASSET", "asset_of", "check_writer", "places_of"]

ASSET: Final = "arco.asset-id"
"""The property that names the asset."""


def asset_of(metadata: dict[str, Any]) -> str | None:
    """The id of the asset whose table this is; None if it is nobody's."""
    found = (metadata.get("properties") or {}).get(ASSET)
    return found if isinstance(found, str) else None


def places_of(metadata: dict[str, Any], locations: Locations) -> tuple[str, ...]:
    """Below which URLs the files of a table are: its location, and for the table of an asset the asset's data."""
    asset = asset_of(metadata)
    own = locations.check_stored(str(metadata["location"]))
    return (own,) if asset is None else (own, f"{locations.workspace_url}/data/{parse_ulid(asset)}")


def check_writer(metadata: dict[str, Any] | None, who: Who) -> None:
    """`Forbidden` if only Servo may change this table, and somebody else asks."""
    if who.source == "servo" or metadata is None:
        return
    asset = asset_of(metadata)
    if asset is not None:
        raise Forbidden(
            f"this is the table of the asset {asset}, which only Arco writes; run the asset to change its rows, deploy "
            "the project without it or without format='iceberg' to drop it",
            asset=asset,
        )

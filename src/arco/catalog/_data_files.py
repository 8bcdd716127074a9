"""Files of data: what current versions are made of, and whether it is there.

A file that is there and as long as it was written counts as whole; what is in it is not read.
"""

from collections.abc import Mapping

from arco.catalog._sql_data import current_versions
from arco.domains.execution import PARTITIONS
from arco.state import Snapshot

__all__ = ["current_data", "lost_data"]

_FOLDER = "data/"


async def current_data(activity: Snapshot) -> dict[str, tuple[str, int]]:
    """The version and the size of each file of the workspace that belongs to the current version of a partition."""
    found: dict[str, tuple[str, int]] = {}
    for asset_id in (await activity.scan(PARTITIONS)).column("asset_id").unique().to_pylist():
        for version in await current_versions(activity, activity, asset_id):
            name = f"{version.asset_key}[{version.partition_key}]" if version.partition_key else version.asset_key
            found |= {file.path: (name, file.size_bytes) for file in version.files if file.path.startswith(_FOLDER)}
    return found


def lost_data(wanted: Mapping[str, tuple[str, int]], there: Mapping[str, int]) -> dict[str, str]:
    """What is wrong with files, by path; `there` has the size of those that exist."""
    found: dict[str, str] = {}
    for path, (version, size) in sorted(wanted.items()):
        if path not in there:
            found[path] = f"{path} of {version} is missing"
        elif there[path] != size:
            found[path] = f"{path} of {version} has {there[path]} bytes and was written with {size}"
    return found

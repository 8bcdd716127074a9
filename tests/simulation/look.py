"""Looking at the disk directly: no fault, no delay, no code of the engine in between but its codecs."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from arco.log import Pack, list_packs
from arco.state import Layout, Manifest, decode_manifest, empty_manifest
from arco.storage import ObjectInfo
from tests.simulation.node import SCOPE, Cluster
from tests.simulation.store import SimDisk

__all__ = ["DirectStore", "drive", "floor_of", "numbers_of", "pack_entries", "true_head"]

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a checker must not wait")


class DirectStore:
    """The objects of the workspace, without a way to go wrong."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    async def get(self, path: str) -> bytes:
        return self._disk.get(f"{SCOPE.root}/{path}")

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self._disk.get_range(f"{SCOPE.root}/{path}", offset, length)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        raise AssertionError("a checker writes nothing")

    async def head(self, path: str) -> ObjectInfo:
        return self._disk.head(f"{SCOPE.root}/{path}")

    async def delete(self, path: str) -> None:
        raise AssertionError("a checker deletes nothing")

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for info in self._disk.list(f"{SCOPE.root}/{prefix}"):
            yield info

    async def sign(self, path: str, *, expires_in: int) -> str:
        raise AssertionError("a checker signs nothing")

    async def persist(self, path: str) -> None: ...

    async def close(self) -> None: ...


def numbers_of(cluster: Cluster, prefix: str) -> dict[int, str]:
    """Number to path of the objects of a sequence."""
    root = f"{SCOPE.root}/{prefix}/"
    found = {}
    for path in cluster.disk.objects:
        if path.startswith(root) and "/floor/" not in path and not path.endswith("/hint"):
            found[int(path.rsplit("/", 1)[1])] = path
    return found


def floor_of(cluster: Cluster, prefix: str) -> int:
    root = f"{SCOPE.root}/{prefix}/floor/"
    floors = [int(data.split(b" ")[0]) for path, (data, _) in cluster.disk.objects.items() if path.startswith(root)]
    return max(floors, default=0)


def pack_entries(cluster: Cluster, manifest: Manifest) -> list[Pack]:
    """Packs of a manifest and the lists that name them, in order."""
    found: list[Pack] = []
    rest = list(manifest.packs)
    while rest:
        entry = rest.pop(0)
        found.append(entry)
        if entry.level:
            rest = [*list_packs(entry, cluster.disk.objects[f"{SCOPE.root}/{entry.path}"][0]), *rest]
    return found


def true_head(cluster: Cluster, log: str) -> Manifest:
    place = cluster.place(log)
    numbers = numbers_of(cluster, Layout(place).manifests)
    if not numbers:
        return empty_manifest(place)
    path = numbers[max(numbers)]
    return decode_manifest(cluster.disk.objects[path][0], path)

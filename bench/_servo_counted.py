"""`python -m bench._servo_counted FILE serve --json`: the command line, with every request to the store counted.

At SIGUSR1 the process writes what it counted so far to FILE, whole or not at all. Objects are told apart by where they
lie, so that appends, publishes and merges are numbers of their own.
"""

import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import arco.api._server as server
from arco.cli import main
from arco.core import Clock
from arco.storage import ObjectInfo, Store, open_store
from bench._measure import MeteredStore

__all__ = ["run"]

Counts = Counter[str]
"""By what was done to which kind of object, such as `create segment`."""

_PLACES = (("/ledger/", "segment"), ("/manifests/", "manifest"), ("/data/", "data"), ("/logs/", "log"))


class _Store(MeteredStore):
    def __init__(self, inner: Store, counts: Counts) -> None:
        super().__init__(inner)
        self._seen = counts

    async def get(self, path: str) -> bytes:
        self._seen[f"get {_kind(path)}"] += 1
        return await super().get(path)

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        self._seen[f"get {_kind(path)}"] += 1
        return await super().get_range(path, offset, length)

    async def head(self, path: str) -> ObjectInfo:
        self._seen[f"head {_kind(path)}"] += 1
        return await super().head(path)

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        self._seen[f"{'create' if only_if_absent else 'put'} {_kind(path)}"] += 1
        await super().put(path, data, only_if_absent=only_if_absent)

    async def delete(self, path: str) -> None:
        self._seen[f"delete {_kind(path)}"] += 1
        await super().delete(path)

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        self._seen["list"] += 1
        return super().list(prefix)


def _kind(path: str) -> str:
    if path.endswith("/hint"):
        return "hint"
    if path.endswith("/delta"):
        return "delta"
    return next((kind for place, kind in _PLACES if place in path), "other")


def run() -> None:
    file, counts = Path(sys.argv.pop(1)), Counts()

    def write(*_: object) -> None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(counts))
        part.rename(file)

    def counted(url: str, options: Mapping[str, str | bool] | None = None, *, clock: Clock | None = None) -> Store:
        return _Store(open_store(url, options, clock=clock), counts)

    server.open_store = counted  # type: ignore[attr-defined]
    signal.signal(signal.SIGUSR1, write)
    main()


if __name__ == "__main__":
    run()

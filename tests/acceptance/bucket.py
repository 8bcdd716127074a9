"""Direct access to what a server keeps in its store, past the server: segments, manifests, files, damage.

Every call opens the store anew and reads what is there now. What is read is checked: chains of segments and manifests
hold, or the call fails.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from typer.testing import CliRunner

from arco.cli._app import app
from arco.log import FIRST_LINK, Event, Ledger, Place, Segment, position_of, read_log
from arco.runtime import DEFINITIONS, AsyncRuntime, init_workspace, read_incarnation
from arco.state import Definition, Manifest, Revisions, open_ledger, verify_revision
from arco.storage import ObjectInfo, RequestCounts, Role, RoleStore, Scope, Store, Tail, open_store

__all__ = ["Bucket", "Opened", "Ran", "Site"]

T = TypeVar("T")


@dataclass(frozen=True)
class Site:
    """Where workspaces are kept: a folder, or a prefix of an emulated bucket."""

    kind: str
    url: str
    options: dict[str, str]

    @property
    def environ(self) -> dict[str, str]:
        """The site as the command line takes it."""
        return {"ARCO_STORE": self.url, **{f"ARCO_STORE_OPTIONS_{name.upper()}": v for name, v in self.options.items()}}

    def open(self) -> Store:
        return open_store(self.url, self.options)


@dataclass(frozen=True)
class Opened:
    """The store while a call lasts."""

    base: Store
    store: RoleStore
    runtime: AsyncRuntime
    scope: Scope
    incarnation: str

    def place(self, log: str) -> Place:
        return Place(self.scope.tenant, self.scope.workspace, self.incarnation, log)

    def ledger(self, log: str) -> Ledger:
        return open_ledger(self.store, self.revisions(log))

    def revisions(self, log: str) -> Revisions:
        return Revisions(self.store, self.place(log), self.runtime)

    def full(self, path: str) -> str:
        return f"{self.scope.root}/{path}"


@dataclass(frozen=True)
class Ran:
    """What a command of the command line came to."""

    code: int
    document: Any
    text: str


def definition_of(log: str) -> Definition:
    return next(known for known in DEFINITIONS if known.log == log)


class Bucket:
    def __init__(self, site: Site, scope: Scope) -> None:
        self.site = site
        self.scope = scope
        self._incarnation = ""

    def init(self) -> None:
        async def work() -> None:
            base = self.site.open()
            try:
                await init_workspace(base, self.scope, AsyncRuntime())
            finally:
                await base.close()

        asyncio.run(work())

    def run(self, work: Callable[[Opened], Awaitable[T]]) -> T:
        async def main() -> T:
            runtime, base = AsyncRuntime(), self.site.open()
            try:
                if not self._incarnation:
                    self._incarnation = (await read_incarnation(base, self.scope, runtime)).id
                store = RoleStore(base, self.scope, Role.READER, RequestCounts())
                return await work(Opened(base, store, runtime, self.scope, self._incarnation))
            finally:
                await base.close()

        return asyncio.run(main())

    # The log

    def segments(self, log: str) -> list[Segment]:
        """Every segment, its chain checked."""

        async def work(opened: Opened) -> list[Segment]:
            return [
                found[0]
                async for found in read_log(opened.ledger(log), Tail(0, float("-inf")), FIRST_LINK)
                if not isinstance(found, Tail)
            ]

        return self.run(work)

    def events(self, log: str) -> list[tuple[int, Event]]:
        """Every event with its position, in the order of the log."""
        return [
            (position_of(segment.header.number, index), event)
            for segment in self.segments(log)
            for index, event in enumerate(segment.events)
        ]

    def payloads(self, log: str) -> list[tuple[int, dict[str, Any]]]:
        return [(position, msgspec.json.decode(event.data)) for position, event in self.events(log)]

    # The state

    def manifests(self, log: str, first: int = 1) -> list[Manifest]:
        """Every revision from one to the newest: numbers are dense and each names its predecessor's hash."""

        async def work(opened: Opened) -> list[Manifest]:
            revisions = opened.revisions(log)
            head = await revisions.head()
            data = [await revisions.sequence.read_known(number) for number in range(first, head.manifest.number + 1)]
            found = [revisions.decode(one, first + index) for index, one in enumerate(data)]
            for before, manifest in zip(data, found[1:], strict=False):
                assert manifest.previous == hashlib.sha256(before).hexdigest(), f"{manifest.number} breaks the chain"
            return found

        return self.run(work)

    def head(self, log: str) -> Manifest:
        async def work(opened: Opened) -> Manifest:
            return (await opened.revisions(log).head()).manifest

        return self.run(work)

    def unlike_the_log(self, log: str) -> list[str]:
        """Tables of the newest revision that differ from a fold of the log by position, begun from nothing."""

        async def work(opened: Opened) -> list[str]:
            manifest = (await opened.revisions(log).head()).manifest
            compared = await verify_revision(definition_of(log), opened.store, opened.ledger(log), manifest)
            return [f"{one.table}: {one.rows} rows, {one.refolded_rows} refolded" for one in compared if not one.equal]

        return self.run(work)

    # Objects

    def objects(self, folder: str = "") -> list[ObjectInfo]:
        """Everything below a folder of the workspace; paths are relative to the workspace."""

        async def work(opened: Opened) -> list[ObjectInfo]:
            root = f"{self.scope.root}/"
            below = opened.full(folder) if folder else self.scope.root
            return [
                ObjectInfo(info.path.removeprefix(root), info.size, info.modified)
                async for info in opened.base.list(below)
            ]

        return sorted(self.run(work), key=lambda info: info.path)

    def delete(self, *paths: str) -> None:
        """Damage: what no role of a server could do."""

        async def work(opened: Opened) -> None:
            for path in paths:
                await opened.base.delete(opened.full(path))

        self.run(work)

    def segment_path(self, log: str, number: int) -> str:
        async def work(opened: Opened) -> str:
            return opened.ledger(log).path(number)

        return self.run(work)

    # Commands

    def arco(self, *args: str) -> Ran:
        """A command that has the store itself, with `--json`."""
        place = ["--tenant", self.scope.tenant, "--workspace", self.scope.workspace]
        result = CliRunner().invoke(app, [*args, "--json", *place], env=self.site.environ)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        document = msgspec.json.decode(result.stdout) if result.stdout.strip() else None
        return Ran(result.exit_code, document, result.stdout + result.stderr)

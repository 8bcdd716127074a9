"""`Servo`: orchestration of one open workspace, as the API and the simulation use it."""

import re
from collections.abc import Callable, Collection
from typing import Final

from arco.assets import Project
from arco.core import Invalid
from arco.domains.deployments import CURRENT_DEPLOYMENT, WORKSPACE, CurrentDeployment
from arco.runtime import Workspace
from arco.servo._batches import MayBatch, may_batch
from arco.servo._controllers import Watch
from arco.servo._history_loop import HistoryKeeper
from arco.servo._iceberg_loop import Catalog, IcebergAssets
from arco.servo._loop import Controllers
from arco.servo._planning import Projects
from arco.servo._queue import EmbeddedQueue
from arco.servo._runs import Runs
from arco.servo._tokens import check_callback
from arco.servo._work import Relay, Work
from arco.state import View

__all__ = ["Servo"]

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Servo:
    """`secret` is what the deployment's processes share: envelopes and callbacks are signed with keys made of it.

    `may_batch` says of which assets tasks may run together. `catalog` has the Iceberg tables; without one assets get no
    tables.
    """

    def __init__(
        self,
        workspace: Workspace,
        secret: bytes,
        relay: Relay | None = None,
        may_batch: MayBatch = may_batch,
        catalog: Callable[[], Catalog] | None = None,
    ) -> None:
        self.workspace = workspace
        self.projects = Projects()
        self.watch = Watch()
        self.runs = Runs(workspace, self.projects, may_batch)
        self.work = Work(workspace, self.projects, self.watch, EmbeddedQueue(workspace), secret, relay)
        self.controllers = Controllers(workspace, self.watch)
        self.history = HistoryKeeper(workspace)
        self.iceberg = IcebergAssets(workspace, catalog) if catalog is not None else None
        self._secret = secret

    def start(self) -> None:
        """Act when time makes it necessary, until `stop`."""
        self.controllers.start()
        self.history.start()
        if self.iceberg is not None:
            self.iceberg.start()

    async def stop(self) -> None:
        await self.controllers.stop()
        await self.history.stop()
        if self.iceberg is not None:
            await self.iceberg.stop()

    def rows_held(self) -> int:
        """What it remembers of Iceberg tables of assets, counted as rows."""
        return self.iceberg.rows_held() if self.iceberg is not None else 0

    def shed(self) -> None:
        """Let go of that; it can be read again."""
        if self.iceberg is not None:
            self.iceberg.shed()

    async def let_go(self, asset_id: str, paths: Collection[str]) -> Collection[str]:
        """Told before files of an asset are deleted: tables stop naming them; those that have to stay."""
        return await self.iceberg.let_go(asset_id, paths) if self.iceberg is not None else ()

    def table_problem(self, asset_id: str) -> str | None:
        """Why the Iceberg table of an asset does not have what is current, as far as this process knows."""
        return self.iceberg.problems.get(asset_id) if self.iceberg is not None else None

    async def current_project(self, catalog: View) -> Project:
        """What is deployed in a state of the catalog; empty before the first deployment."""
        row: CurrentDeployment | None = await catalog.get(CURRENT_DEPLOYMENT, WORKSPACE, WORKSPACE)
        return Project(()) if row is None else (await self.projects.get(self.workspace, row.manifest)).project

    def check_callback(self, attempt_id: str, token: str) -> None:
        """`Unauthenticated` unless the token is that of this attempt."""
        scope = self.workspace.scope
        check_callback(self._secret, token, scope.tenant, scope.workspace, attempt_id, self.workspace.runtime.now())

    @staticmethod
    def code_path(sha256: str) -> str:
        """Where an archive of code lies."""
        if _SHA256.fullmatch(sha256) is None:
            raise Invalid("code is named by 64 lower-case hex digits of its sha256")
        return f"code/{sha256}.zip"

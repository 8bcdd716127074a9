"""`Upkeep`: what follows commits in one workspace: the log is told, what it missed is found, what is old is removed."""

from dataclasses import dataclass

from arco.iceberg._collection import IcebergCollector
from arco.iceberg._commit import Committed, Committer
from arco.iceberg._locations import Locations
from arco.iceberg._outcomes import Outcomes
from arco.iceberg._receipts import Receipts
from arco.iceberg._reconciler import Reconciler
from arco.iceberg._who import Who
from arco.runtime import Workspace

__all__ = ["Upkeep", "open_upkeep"]


@dataclass(frozen=True)
class Upkeep:
    receipts: Receipts
    reconciler: Reconciler
    collector: IcebergCollector
    outcomes: Outcomes
    """Of the commits of this process."""

    def start(self) -> None:
        """Look for commits that the log was not told, now and then and when one is met, until `stop`."""
        self.reconciler.start()

    async def stop(self) -> None:
        await self.reconciler.stop()
        await self.receipts.close()


def open_upkeep(workspace: Workspace, committer: Committer, locations: Locations) -> Upkeep:
    """From now on the log is told of whatever the committer commits."""
    receipts = Receipts(workspace, committer.documents)

    def committed(done: Committed, who: Who) -> None:
        receipts.committed(done.pointer, done.document)

    committer.on_committed = committed
    reconciler = Reconciler(workspace, committer.pointers, committer.documents, receipts)
    committer.pointers.on_met = lambda pointer: reconciler.meet(pointer.table_id)
    receipts.on_left = reconciler.meet
    return Upkeep(receipts, reconciler, IcebergCollector(workspace, locations), committer.outcomes)

"""`Iceberg`: the tables and views of one workspace, as one process serves them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from arco.core import Clock
from arco.iceberg._commit import Committed, Committer
from arco.iceberg._keys import Keys
from arco.iceberg._lifecycle import Lifecycle
from arco.iceberg._locations import Locations, MetadataFiles, Place, account_of, parse_location
from arco.iceberg._pointers import Pointers
from arco.iceberg._tables import Tables
from arco.iceberg._transactions import Transactions
from arco.iceberg._views import Views
from arco.iceberg._who import Who
from arco.runtime import Workspace
from arco.storage import Glance, Role, Store, open_store

__all__ = ["Iceberg", "open_iceberg", "open_lifecycle", "open_locations"]

OnCommitted = Callable[[Committed, Who], None]


@dataclass(frozen=True)
class Iceberg:
    tables: Tables
    views: Views
    lifecycle: Lifecycle
    committer: Committer
    pointers: Pointers


def _ignore(committed: Committed, who: Who) -> None:
    """Nobody wants to know."""


def open_locations(
    store: Store, root: str, workspace: str, options: Mapping[str, str], allowed: Iterable[str], clock: Clock
) -> Locations:
    """The places of a warehouse: its folder in the workspace's `store`, and allowed ones, opened when they are used.

    `root` is the URL of the whole store and `options` what opens it; places of the same cloud, and of Azure of the same
    account, are opened by them too.
    """
    own = parse_location(root, account_of(options))

    def outside(place: Place) -> Store:
        if place.scheme == own.scheme != "file" and place.account == own.account:
            return open_store(place.url, options, clock=clock)
        return open_store(place.url, _options_of(place), clock=clock)

    return Locations(store, root, workspace, allowed=allowed, open_outside=outside, account=own.account)


def _options_of(place: Place) -> dict[str, str]:
    """What opens a place of another cloud or account than the store's. Keys come from the environment."""
    name, _, host = place.account.partition(".dfs.")
    if not name:
        return {}
    found = {"account_name": name}
    return found if host == "core.windows.net" else {**found, "endpoint": f"https://{name}.blob.{host}"}


def open_iceberg(workspace: Workspace, locations: Locations, *, on_committed: OnCommitted = _ignore) -> Iceberg:
    """`on_committed` hears of every pointer that this process wins: commits, creations and drops."""
    committer = _committer(workspace, locations, on_committed)
    lifecycle = Lifecycle(workspace, committer)
    transactions = Transactions(committer, workspace.runtime)
    return Iceberg(
        Tables(lifecycle, committer, transactions, locations),
        Views(lifecycle, committer, locations),
        lifecycle,
        committer,
        committer.pointers,
    )


def open_lifecycle(workspace: Workspace, *, on_committed: OnCommitted = _ignore) -> Lifecycle:
    """For who drops tables and looks at no metadata: no place has to be known for that."""
    return Lifecycle(workspace, _committer(workspace, _NoFiles(), on_committed))


def _committer(workspace: Workspace, files: MetadataFiles, on_committed: OnCommitted) -> Committer:
    store, runtime, incarnation = workspace.handle(Role.ICEBERG), workspace.runtime, workspace.incarnation.id
    prefix = f"{incarnation}/iceberg"
    pointers = Pointers(store, prefix, runtime, incarnation, min_age=workspace.min_age)
    return Committer(pointers, Keys(store, prefix, runtime, incarnation), files, runtime, on_committed=on_committed)


class _NoFiles:
    async def read(self, location: str) -> bytes:
        raise AssertionError(f"nothing reads {location} here")

    async def create(self, location: str, data: bytes) -> None:
        raise AssertionError(f"nothing writes {location} here")

    async def exists(self, location: str) -> bool:
        raise AssertionError(f"nothing looks for {location} here")

    def glance(self, location: str) -> Glance | None:
        raise AssertionError(f"nothing looks for {location} here")

"""A seal beside an owner that never rests, in virtual time: every request takes its way there and its way back."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from arco.backup._seal import find_seal, seal_incarnation
from arco.core import Runtime, Superseded, Unavailable
from arco.domains.catalog import CreateNamespace
from arco.log import decode_segment
from arco.runtime import Workspace
from arco.state import Layout
from arco.storage import RequestCounts, Role, RoleStore, Sequence, Store
from tests.doubles import FakeRuntime, PassingStore
from tests.iceberg.house import House, Process, in_house
from tests.runtime.world import SCOPE

T = TypeVar("T")
Seconds = Callable[[], float]


class Distant(PassingStore):
    """A store whose answers take time: half of it before the request takes effect, half after."""

    def __init__(self, inner: Store, runtime: Runtime, seconds: Seconds) -> None:
        super().__init__(inner)
        self._runtime = runtime
        self._seconds = seconds

    async def _call(self, operation: str, path: str, action: Callable[[], Awaitable[T]]) -> T:
        if operation == "persist":
            return await action()  # nothing, on a store to which there is a way
        await self._runtime.sleep(self._seconds() / 2)
        try:
            return await action()
        finally:
            await self._runtime.sleep(self._seconds() / 2)


class Owner:
    """A process with more to write than it can: whenever a segment is there, it has the next one."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.acknowledged: list[str] = []

    async def write(self, client: int) -> None:
        while len(self.acknowledged) < 2_000:
            name = f"n{client}_{len(self.acknowledged)}"
            try:
                await self.workspace.decide("catalog", CreateNamespace((name,)), actor="ann")
            except Superseded:
                return
            self.acknowledged.append(name)

    async def named(self) -> set[str]:
        """What the log says was created before its seal."""
        log = self.workspace.logs["catalog"]
        store, runtime = self.workspace.handle(Role.READER), self.workspace.runtime
        seal, end = await find_seal(store, log.place, runtime)
        assert seal is not None
        sequence, found = Sequence(store, Layout(log.place).ledger, runtime), set()
        for number in range(1, end + 1):
            segment = decode_segment(await sequence.read_known(number), sequence.path(number))
            found |= {event.subject for event in segment.events}
        return found


async def seal_beside(house: House, owners: Seconds, sealers: Seconds) -> Owner:
    """Seal an incarnation whose owner writes without rest, given how far either is from the store."""
    runtime = house.runtime
    store = Distant(house.objects, runtime, owners)
    owner = Owner(await Workspace.open(store, SCOPE, runtime, test_store=False))
    clients = [runtime.spawn(owner.write(client), "client") for client in range(3)]
    while len(owner.acknowledged) < 20:
        await runtime.sleep(owners())
    admin = RoleStore(Distant(house.objects, runtime, sealers), SCOPE, Role.ADMIN, RequestCounts())
    who, life = (await house.open()).who(), owner.workspace.incarnation.id
    try:
        await seal_incarnation(admin, SCOPE.tenant, SCOPE.workspace, life, runtime, who, known={})
    finally:
        for client in clients:
            await client
    return owner


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_an_owner_that_never_rests_is_sealed(seconds: float, seed: int) -> None:
    async def main(house: House, process: Process) -> None:
        chance = FakeRuntime(seed)

        def way() -> float:
            return chance.uniform(0.7 * seconds, 1.3 * seconds)

        owner = await seal_beside(house, way, way)
        assert len(owner.acknowledged) < 500, "the seal comes within a few tries"
        assert set(owner.acknowledged) <= await owner.named(), "nothing is acknowledged after the seal"

    in_house(main)


def test_who_is_too_far_away_to_seal_is_told_so() -> None:
    async def main(house: House, process: Process) -> None:
        with pytest.raises(Unavailable, match="faster than it can be sealed"):
            await seal_beside(house, lambda: 0.1, lambda: 1.0)
        await process.decide(CreateNamespace(("still",)))

    in_house(main)

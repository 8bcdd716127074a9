"""Real processes that share one workspace on local disk: who forwards, streams, dies, hangs and publishes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from arco.core import new_ulid
from arco.log import FIRST_LINK, Event, HintFile, Place, read_log
from arco.runtime import AsyncRuntime, init_workspace, read_incarnation
from arco.state import Layout, Revisions, open_ledger
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Tail
from tests.api.peer import SCOPE

SECRET = "0123456789abcdef" * 2


@dataclass
class Peer:
    """One of the processes, and what a test asks of it."""

    process: subprocess.Popen[str]
    address: str
    client: httpx.AsyncClient

    async def claim(self, attempt: str, worker: str = "w", key: str = "") -> httpx.Response:
        asked = {"attempt": attempt, "worker": worker, "key": key}
        return await self.client.post(f"{self.address}/test/claim", json=asked)

    async def claim_all(self, attempts: list[str]) -> list[httpx.Response]:
        return list(await asyncio.gather(*(self.claim(attempt) for attempt in attempts)))

    async def state(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(f"{self.address}/test/state")).json()
        return found

    async def attempts(self, **query: int) -> dict[str, Any]:
        response = await self.client.get(f"{self.address}/test/attempts", params=query)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def published(self, position: int) -> httpx.Response:
        return await self.client.get(f"{self.address}/test/published", params={"position": position})

    async def slow(self, **seconds: float) -> None:
        await self.client.post(f"{self.address}/test/slow", json=seconds)

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.process.pid, number)


class Deployment:
    def __init__(self, folder: Path, client: httpx.AsyncClient) -> None:
        self.folder = folder
        self.client = client
        self.processes: list[subprocess.Popen[str]] = []

    async def start(self, *roles: str, secret: str = SECRET) -> list[Peer]:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.api.peer", str(self.folder), secret, role],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
            for role in roles
        ]
        self.processes += started
        found = []
        for process in started:
            assert process.stdout is not None
            address = (await asyncio.to_thread(process.stdout.readline)).strip()
            assert address, "the process did not start"
            found.append(Peer(process, address, self.client))
        return found

    async def _place(self) -> tuple[Place, RoleStore]:
        store = LocalStore(self.folder)
        incarnation = await read_incarnation(store, SCOPE, AsyncRuntime())
        place = Place(SCOPE.tenant, SCOPE.workspace, incarnation.id, "activity")
        return place, RoleStore(store, SCOPE, Role.READER, RequestCounts())

    async def own(self, peer: Peer) -> None:
        """Make this one the owner, and wait until everybody can know it."""
        assert (await peer.claim("first")).status_code == 200
        place, store = await self._place()
        hint = HintFile(store, Layout(place).ledger_hint, AsyncRuntime())

        async def named() -> bool:
            return (await hint.read()).address == peer.address

        await until(named, "the hint names the owner")

    async def log(self) -> list[Event]:
        """Every event in the log, its chain checked."""
        place, store = await self._place()
        ledger = open_ledger(store, Revisions(store, place, AsyncRuntime()))
        events: list[Event] = []
        async for found in read_log(ledger, Tail(0, float("-inf")), FIRST_LINK):
            if not isinstance(found, Tail):
                events += found[0].events
        return events

    async def claimed(self) -> Counter[str]:
        return Counter(msgspec.json.decode(event.data)["attempt"] for event in await self.log())


@asynccontextmanager
async def deployment(folder: Path) -> AsyncIterator[Deployment]:
    await init_workspace(LocalStore(folder), SCOPE, AsyncRuntime())
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        found = Deployment(folder, client)
        try:
            yield found
        finally:
            for process in found.processes:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def deployed(folder: Path, test: Callable[[Deployment], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with deployment(folder) as found:
            await test(found)

    asyncio.run(main())


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(200):
        if await holds():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"still not: {what}")


async def streaming(owner: Peer, *others: Peer) -> None:
    """Wait until the others are on the owner's stream."""
    for peer in others:

        async def on_stream(peer: Peer = peer) -> bool:
            return bool((await peer.state())["source"] == owner.address)

        await until(on_stream, f"{peer.address} hears {owner.address}")


def test_commands_land_once_wherever_they_enter_and_only_the_owner_publishes(tmp_path: Path) -> None:
    async def test(deployment: Deployment) -> None:
        everyone = await deployment.start("api", "api", "api")
        await deployment.own(everyone[0])
        answers = await asyncio.gather(*(everyone[n % 3].claim(f"n{n}") for n in range(45)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["first"] for answer in answers}) == 45
        # All three want the same: one gets it, and the others hear the reason from the owner.
        rivals = await asyncio.gather(*(peer.claim("same", peer.address) for peer in everyone))
        assert sorted(answer.status_code for answer in rivals) == [200, 409, 409]
        refused = [answer.json() for answer in rivals if answer.status_code == 409]
        assert all(found["name"] == "Conflict" and "same is claimed by" in found["message"] for found in refused)
        # The same request key at another door is the same request.
        runtime = AsyncRuntime()
        key = new_ulid(runtime, runtime)
        repeated = [(await peer.claim("keyed", key=key)).json() for peer in everyone]
        assert [found["replayed"] for found in repeated] == [False, True, True]
        assert len({found["first"] for found in repeated}) == 1
        counted = await deployment.claimed()
        assert set(counted.values()) == {1}
        assert len(counted) == 48
        states = [await peer.state() for peer in everyone]
        assert [state["owning"] for state in states] == [True, False, False]
        last = max(int(answer.json()["last"]) for answer in [*answers, *rivals] if answer.status_code == 200)
        for peer in everyone:
            assert (await peer.published(last)).json() >= last
            found = await peer.attempts(min=last)
            assert {row["attempt"]: row["grants"] for row in found["rows"]} == dict(counted)
        publishing = [(await peer.state())["publishing"] for peer in everyone]
        assert publishing[0] > 0
        assert publishing[1:] == [0, 0], "they ask the owner's process, and do not race with it"

    deployed(tmp_path, test)


def test_the_stream_brings_followers_to_the_tail_without_a_request(tmp_path: Path) -> None:
    async def test(deployment: Deployment) -> None:
        owner, two, three = await deployment.start("api", "api", "api")
        await deployment.own(owner)
        await two.claim("second")
        await three.attempts(strong=1)
        await streaming(owner, two, three)
        before = [(await peer.state())["requests"] for peer in (two, three)]
        for number in range(20):
            assert (await owner.claim(f"n{number}")).status_code == 200
        tail = (await owner.state())["tail"]
        for peer in (two, three):

            async def at_the_tail(peer: Peer = peer) -> bool:
                return bool((await peer.state())["tail"] == tail)

            await until(at_the_tail, "the follower is at the owner's tail")
        assert [(await peer.state())["requests"] for peer in (two, three)] == before
        # What a follower answers without looking is what the stream brought.
        assert len((await two.attempts())["rows"]) == 22

    deployed(tmp_path, test)


@pytest.mark.parametrize("landed", [False, True])
def test_an_owner_killed_in_the_middle_of_a_group_loses_and_repeats_nothing(tmp_path: Path, landed: bool) -> None:
    async def test(deployment: Deployment) -> None:
        owner, two, three = await deployment.start("api", "api", "api")
        await deployment.own(owner)
        await owner.slow(**{"after" if landed else "before": 5.0})
        wanted = [[f"a{n}" for n in range(8)], [f"b{n}" for n in range(8)]]
        asked = asyncio.gather(two.claim_all(wanted[0]), three.claim_all(wanted[1]))
        await asyncio.sleep(0.5)
        owner.kill()
        answers = [answer for found in await asked for answer in found]
        assert {answer.status_code for answer in answers} == {200}
        counted = await deployment.claimed()
        assert counted == Counter(["first", *wanted[0], *wanted[1]])
        last = max(int(answer.json()["last"]) for answer in answers)
        for peer in (two, three):
            assert (await peer.published(last)).json() >= last
            found = await peer.attempts(min=last)
            assert {row["attempt"]: row["grants"] for row in found["rows"]} == dict(counted)

    deployed(tmp_path, test)


def test_an_owner_that_hangs_is_replaced_and_wakes_up_harmless(tmp_path: Path) -> None:
    async def test(deployment: Deployment) -> None:
        owner, two, three = await deployment.start("api", "api", "api")
        await deployment.own(owner)
        await owner.slow(before=0.4)
        asked = asyncio.gather(two.claim_all(["a", "b"]), three.claim_all(["c", "d"]))
        await asyncio.sleep(0.2)
        owner.kill(signal.SIGSTOP)  # with the group in its hands
        answers = [answer for found in await asked for answer in found]
        assert {answer.status_code for answer in answers} == {200}
        assert any([(await peer.state())["owning"] for peer in (two, three)])
        assert (await two.claim("e")).status_code == 200
        owner.kill(signal.SIGCONT)
        # It finds its number taken, and what it is asked from now on goes to the new owner.
        assert (await owner.claim("f")).status_code == 200
        assert (await owner.claim("a", "late")).status_code == 409
        assert await deployment.claimed() == Counter(["first", *"abcdef"])
        found = await owner.attempts(strong=1)
        assert {row["grants"] for row in found["rows"]} == {1}
        assert len(found["rows"]) == 7

    deployed(tmp_path, test)


def test_a_process_with_another_secret_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def test(deployment: Deployment) -> None:
        (owner,) = await deployment.start("api")
        (stranger,) = await deployment.start("api", secret="f" * 32)
        await deployment.own(owner)
        answer = await stranger.claim("second")
        assert (answer.status_code, answer.json()["name"]) == (403, "Forbidden")
        assert "ARCO_SERVICE_SECRET" in answer.json()["message"]
        assert SECRET not in answer.text
        assert await deployment.claimed() == Counter(["first"])
        assert (await owner.state())["owning"]
        # Reading needs nobody's leave: it has the store.
        assert len((await stranger.attempts(strong=1))["rows"]) == 1

    deployed(tmp_path, test)


def test_a_compactor_of_its_own_publishes_for_writers_and_a_shutdown_is_quick(tmp_path: Path) -> None:
    async def test(deployment: Deployment) -> None:
        owner, two, compactor = await deployment.start("writer", "writer", "compactor")
        await deployment.own(owner)
        receipts = [(await peer.claim(f"n{n}")).json() for n, peer in enumerate((owner, two, owner))]
        last = max(int(receipt["last"]) for receipt in receipts)
        for peer in (owner, two):
            assert (await peer.published(last)).json() >= last
            assert (await peer.state())["publishing"] == 0
        assert (await compactor.state())["publishing"] > 0
        await streaming(owner, two)
        # Streams are open; the owner still leaves at once, and the next one goes on.
        owner.kill(signal.SIGTERM)
        assert await asyncio.to_thread(owner.process.wait, 10) == 0
        answer = await two.claim("later")
        assert answer.status_code == 200
        assert (await two.published(int(answer.json()["last"]))).status_code == 200

    deployed(tmp_path, test)

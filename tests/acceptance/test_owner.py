"""An owner that is killed while clients write: what was acknowledged is there once, the rest is there or not."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

import httpx

from tests.acceptance.deployment import Deployment, Process, new_key, until
from tests.acceptance.load import check_state, names_of

CLIENTS = 16


@dataclass
class Clients:
    """Clients that each write one table after the other, to either of two servers, every request with a key."""

    servers: list[Process]
    acknowledged: dict[str, str] = field(default_factory=dict)
    """Key by name of the table."""
    unsettled: dict[str, str] = field(default_factory=dict)
    stop: Event = field(default_factory=Event)

    def run(self, client: int) -> None:
        at = client
        for number in itertools.count():
            if self.stop.is_set():
                return
            name, key = f"sales.t{client}_{number}", new_key()
            try:
                answer = self.servers[at % 2].create_table(name, key=key, wait="durable")
            except httpx.ConnectError:
                at += 1  # nothing was sent: go to the other one
                continue
            except httpx.TransportError:
                self.unsettled[name] = key
                continue
            if answer.status_code == 201:
                self.acknowledged[name] = key
            else:
                assert answer.status_code == 503, answer.text
                assert answer.headers["Retry-After"]
                self.unsettled[name] = key


def operations_by_key(deployment: Deployment) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for _, event in deployment.bucket.events("catalog"):
        if event.key:
            found.setdefault(event.key, set()).add(event.operation)
    return found


def test_an_owner_killed_in_the_middle_of_a_group_loses_and_doubles_nothing(deployment: Deployment) -> None:
    servers = deployment.start("all", "all")
    servers[0].done("POST", "/namespaces", {"name": "sales"})
    clients = Clients(servers)

    def more() -> None:
        """Every client gets some more answers."""
        enough = len(clients.acknowledged) + 3 * CLIENTS
        until(lambda: len(clients.acknowledged) > enough, "clients write", 40)

    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(clients.run, number) for number in range(CLIENTS)]
        try:
            more()
            servers[0].kill()  # the owner, while clients wait for it and for what was forwarded to it
            more()
            [servers[0]] = deployment.start("all")
            more()
            servers[1].kill()  # who took over
            more()
        finally:
            clients.stop.set()
        for client in running:
            client.result()

    segments = deployment.bucket.segments("catalog")
    assert max(len({event.operation for event in segment.events}) for segment in segments) > 1, "groups were written"
    assert len({segment.header.writer for segment in segments}) >= 2, "the log had several owners"
    told = operations_by_key(deployment)
    assert {name for name, key in clients.acknowledged.items() if len(told.get(key, ())) != 1} == set()
    assert {key for key, operations in told.items() if len(operations) > 1} == set()
    there = {name for name, key in clients.unsettled.items() if key in told}
    assert clients.unsettled, "some requests got no answer"
    expected = sorted({*clients.acknowledged, *there})
    assert names_of(servers[0], "sales") == expected

    for name, key in clients.unsettled.items():
        answer = servers[0].create_table(name, key=key, wait="durable")
        assert answer.status_code == 201, answer.text
        assert answer.json()["replayed"] is (name in there), name
    assert servers[0].create_table("sales.last").status_code == 201
    everything = sorted({*clients.acknowledged, *clients.unsettled, "sales.last"})
    assert names_of(servers[0], "sales") == everything
    assert all(len(operations) == 1 for operations in operations_by_key(deployment).values())
    check_state(deployment.bucket)

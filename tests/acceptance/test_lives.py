"""A workspace that goes on in another incarnation while servers run: nobody is told of a write that is not there, and
the servers go on with the new one by themselves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.acceptance.bucket import Bucket
from tests.acceptance.deployment import Deployment, Process, until
from tests.acceptance.load import names_of
from tests.acceptance.test_owner import Clients

CLIENTS = 4

pytestmark = pytest.mark.prove


@contextmanager
def writing(servers: list[Process]) -> Iterator[Clients]:
    """Clients that write to both servers, from before what is done here until both have taken something after it."""
    clients = Clients(servers)

    def more() -> None:
        enough = len(clients.acknowledged) + 3 * CLIENTS
        until(lambda: len(clients.acknowledged) > enough, "clients write", 60)

    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(clients.run, number) for number in range(CLIENTS)]
        try:
            more()
            yield clients
            more()
        finally:
            clients.stop.set()
        for client in running:
            client.result()


def keys_in(bucket: Bucket) -> set[str]:
    """Request keys in the log of an incarnation. Reading it fails if anything stands after a seal."""
    return {event.key for _, event in bucket.events("catalog") if event.key}


def newest(deployment: Deployment) -> Bucket:
    """The incarnation that is open now; the deployment's own bucket goes on looking at the one it met first."""
    return Bucket(deployment.bucket.site, deployment.bucket.scope)


def test_servers_go_on_from_a_backup_and_acknowledge_nothing_that_is_lost(
    deployment: Deployment, tmp_path: Path
) -> None:
    servers = deployment.start("all", "all")
    servers[0].done("POST", "/namespaces", {"name": "sales"})
    old = deployment.bucket
    assert old.events("catalog")
    vault = f"file://{tmp_path}/vault"
    with writing(servers) as clients:
        first = set(clients.acknowledged.copy().values())
        done = old.arco("backup", "--to", vault)
        assert done.code == 0, done.text
        count = len(clients.acknowledged)
        until(lambda: len(clients.acknowledged) > count + CLIENTS, "clients write after the backup", 60)
        done = old.arco("restore", "--from", vault, "--replace")
        assert done.code == 0, done.text
    before, after = keys_in(old), keys_in(newest(deployment))
    told = set(clients.acknowledged.values())
    assert first <= after, "what was acknowledged before the backup began is in it"
    assert told <= before | after
    assert told & (before - after), "something came after the backup and is left behind with the old incarnation"
    assert told & (after - before), "something was taken by the new incarnation"
    for number, server in enumerate(servers):
        assert server.create_table(f"sales.last{number}").status_code == 201
    there = {name for name, key in clients.acknowledged.items() if key in after}
    assert {*there, "sales.last0", "sales.last1"} <= set(names_of(servers[1], "sales"))
    lost = {name for name, key in clients.acknowledged.items() if key not in after}
    assert not lost & set(names_of(servers[0], "sales")), "both servers show the new incarnation"


def test_servers_go_on_after_an_erasure_and_lose_nothing(deployment: Deployment) -> None:
    servers = deployment.start("all", "all")
    servers[0].done("POST", "/namespaces", {"name": "sales", "description": "ask jane@acme.com"})
    with writing(servers) as clients:
        done = deployment.bucket.arco("erase", "--text", "jane@acme.com", "--reason", "ticket 7", "--yes")
        assert done.code == 0, done.text
    new = newest(deployment)
    assert set(clients.acknowledged.values()) <= keys_in(new)
    assert b"jane" not in msgspec.json.encode(new.events("catalog"))
    for number, server in enumerate(servers):
        assert server.create_table(f"sales.last{number}").status_code == 201
        assert "jane" not in str(server.done("GET", "/namespaces/sales"))

"""Clients that write until they are told to stop, and what a test wants to know of the store while they do."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from arco.state import Manifest
from tests.acceptance import facts
from tests.acceptance.bucket import Bucket
from tests.acceptance.deployment import Door

__all__ = ["LOGS", "Load", "attempts", "check_state", "names_of"]

LOGS = ("catalog", "activity")


class Load:
    """Clients that create tables and send facts. All of it is acknowledged, or the test fails."""

    def __init__(self, api: Door, namespace: str, clients: int = 3) -> None:
        self._api = api
        self._clients = clients
        self._namespace = namespace
        self._stop = Event()
        self.tables: list[str] = []
        self.facts: list[str] = []

    @contextmanager
    def running(self) -> Iterator["Load"]:
        with ThreadPoolExecutor(self._clients) as pool:
            clients = [pool.submit(self._client, number) for number in range(self._clients)]
            try:
                yield self
            finally:
                self._stop.set()
            for client in clients:
                client.result()

    def _client(self, client: int) -> None:
        asset = facts.asset()
        for number in itertools.count():
            if self._stop.wait(0.03):
                return
            name = f"{self._namespace}.t{client}_{number}"
            answer = self._api.create_table(name, 2, wait="durable")
            assert answer.status_code == 201, answer.text
            self.tables.append(name)
            told = [facts.materialization(asset, number % 3) for _ in range(2)]
            self._api.send(told)
            self.facts += [fact["data"]["materialization_id"] for fact in told]


def names_of(api: Door, namespace: str) -> list[str]:
    """The tables of a namespace, page by page."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = api.done("GET", "/tables", namespace=namespace, limit=1000, **cursor)
        found += [table["name"] for table in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


def attempts(bucket: Bucket, head: Manifest) -> set[tuple[int, str]]:
    """Base revision and id of everything that somebody wrote files for."""
    folders = {info.path.split("/")[3] for info in bucket.objects(f"{head.incarnation}/state/{head.log}")}
    return {(int(folder[:20]), folder[21:]) for folder in folders}


def check_state(bucket: Bucket) -> None:
    """Revisions are a whole chain, and the newest is what the log says, folded from nothing."""
    for log in LOGS:
        bucket.manifests(log)
        assert bucket.unlike_the_log(log) == []

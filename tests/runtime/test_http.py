"""HTTP from a server: a peer that resets connections while they are made is a network that fails, and nothing else."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from arco.runtime import HttpTransport

uvloop = pytest.importorskip("uvloop")


@contextlib.contextmanager
def resetting() -> Iterator[str]:
    """A server that resets every connection it accepts, as the kernel does for a process that was killed."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        listener.settimeout(0.1)
        stop = threading.Event()

        def reset() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.close()

        thread = threading.Thread(target=reset)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            stop.set()
            thread.join()


async def ask_often(url: str, transport: httpx.AsyncHTTPTransport) -> Counter[type]:
    met: Counter[type] = Counter()

    async def ask(client: httpx.AsyncClient) -> None:
        for _ in range(40):
            try:
                await client.post(url, content=b"x")
            except Exception as error:  # noqa: BLE001 - which ones there are is the question
                met[type(error)] += 1

    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        await asyncio.gather(*(ask(client) for _ in range(16)))
    return met


def test_connections_that_are_reset_while_they_are_made_fail_as_the_network_does() -> None:
    with resetting() as url:
        met = uvloop.run(ask_often(url, HttpTransport(trust_env=False)))
    assert met.total() == 640
    assert all(issubclass(kind, httpx.NetworkError) for kind in met), met

"""Answers leave in one piece, nothing that was written stays behind, and what is hot is answered at once, in order."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import uvicorn

from arco.api._connection import SMALL, OnePiece
from arco.api._server import config_of


class Sent:
    """A transport that notes what it is given."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.gone = False

    def write(self, data: bytes) -> None:
        assert not self.gone
        self.steps.append(data)

    def is_closing(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.steps.append("closed")


def steps(*work: Callable[[OnePiece], None] | None) -> list[Any]:
    """What is sent; None lets the loop turn."""

    async def run() -> list[Any]:
        sent = Sent()
        transport = OnePiece(cast(asyncio.Transport, sent))
        for one in work:
            if one is None:
                await asyncio.sleep(0)
            else:
                one(transport)
        return list(sent.steps)  # what is sent when the loop ends does not count

    return asyncio.run(run())


def test_the_head_goes_with_its_body() -> None:
    assert steps(lambda to: to.write(b"head"), lambda to: to.write(b"body"), None) == [b"headbody"]


def test_a_large_body_is_not_copied() -> None:
    body = b"x" * (SMALL + 1)
    assert steps(lambda to: to.write(b"head"), lambda to: to.write(body), None) == [b"head", body]


def test_an_empty_body_sends_the_head() -> None:
    assert steps(lambda to: to.write(b"head"), lambda to: to.write(b"")) == [b"head"]


def test_a_head_alone_is_sent_when_the_loop_turns() -> None:
    assert steps(lambda to: to.write(b"head")) == []
    assert steps(lambda to: to.write(b"head"), None) == [b"head"]


def test_parts_that_come_later_are_sent_once_and_in_order() -> None:
    parts = [lambda to, data=data: to.write(data) for data in (b"1", b"2", b"3")]
    assert steps(parts[0], None, parts[1], None, None, parts[2], None) == [b"1", b"2", b"3"]
    assert steps(*parts, None) == [b"12", b"3"]


def test_closing_sends_what_is_held_first() -> None:
    assert steps(lambda to: to.write(b"head"), lambda to: to.close(), None) == [b"head", "closed"]


def test_nothing_is_sent_to_who_has_gone_meanwhile() -> None:
    def goes(to: OnePiece) -> None:
        cast(Sent, to._transport).gone = True

    body = b"x" * (SMALL + 1)
    assert steps(lambda to: to.write(b"head"), goes, None) == []
    assert steps(goes, lambda to: to.write(b"head"), lambda to: to.write(body), None) == []
    assert steps(goes, lambda to: to.send(b"head", b"body")) == []


class Sometimes:
    """An application that is asked for what was not answered at once; `/hot` is, `/slow` takes a while."""

    def __init__(self, body: bytes = b"hot") -> None:
        self.hot = self
        self.asked: list[str] = []
        self._body = body

    def answer(self, scope: Any) -> tuple[bytes, bytes] | None:
        if not scope["path"].startswith("/hot"):
            return None
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(self._body), self._body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        if scope["path"] == "/slow":
            await asyncio.sleep(0.05)
        body = scope["path"].encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def exchange(app: Sometimes, *paths: str, method: str = "GET", headers: str = "") -> list[bytes]:
    """The bodies of the answers to requests that are sent in one piece over one connection."""

    async def run() -> list[bytes]:
        server = uvicorn.Server(config_of(app))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            task = asyncio.ensure_future(server.serve(sockets=[listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"".join(f"{method} {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode() for path in paths))
            found = [await asyncio.wait_for(_body(reader, method), 60) for _ in paths]
            writer.close()
            server.should_exit = True
            await task
        return found

    return asyncio.run(run())


async def _body(reader: asyncio.StreamReader, method: str) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head if method == "HEAD" else await reader.readexactly(length)


def test_what_is_hot_is_answered_without_the_application() -> None:
    app = Sometimes()
    assert exchange(app, "/hot", "/cold", "/hot") == [b"hot", b"/cold", b"hot"]
    assert app.asked[0] == "/cold"


def test_a_large_answer_that_is_hot_is_whole() -> None:
    body = bytes(range(256)) * 20_000
    found = exchange(Sometimes(body), "/hot", "/hot", "/cold")
    assert found[0] == body
    assert found[1] in (body, b"/hot")  # while the first is on its way the next one waits, as the application does
    assert found[2] == b"/cold"


def test_many_requests_behind_a_slow_one_are_answered_in_order() -> None:
    paths = ["/slow", *(f"/hot{number % 3}" if number % 2 else f"/{number}" for number in range(2_000))]
    expected = [b"hot" if path.startswith("/hot") else path.encode() for path in paths]
    app = Sometimes()
    found = exchange(app, *paths)
    # Which ones are answered at once depends on what waits: the rest is the application's, under the same path.
    assert [one if one == b"hot" or not one.startswith(b"/hot") else b"hot" for one in found] == expected


def test_a_head_that_is_held_goes_first() -> None:
    found = exchange(Sometimes(b""), "/cold", "/hot", method="HEAD")
    assert [one.count(b"http/1.1 200") for one in found] == [1, 1]
    assert [b"content-length: 0" in one for one in found] == [False, True]


def test_a_connection_that_is_to_end_is_the_applications() -> None:
    app = Sometimes()
    assert exchange(app, "/hot", headers="Connection: close\r\n") == [b"/hot"]

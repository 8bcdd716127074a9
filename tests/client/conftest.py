"""Both clients on a scripted server, in virtual time: what holds for one holds for the other."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from arco.client import AsyncClient, Client
from tests.doubles import START, FakeRuntime, run

URL = "http://arco.test"
TOKEN = "arco_acme_prod_01ARZ3NDEKTSV4RRFFQ69G5FAV_hunter2"

Step = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Time(FakeRuntime):
    """Seconds pass only while somebody sleeps, or when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.slept: list[float] = []

    def boottime(self) -> float:
        return self.seconds

    def now(self) -> int:
        return START + int(self.seconds * 1_000_000)

    async def sleep(self, seconds: float) -> None:
        self.pause(seconds)

    def pause(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class BlockingTime(Time):
    def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.pause(seconds)


class Script:
    """A server that answers one step a request, the last one for ever, and remembers what it was asked."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.time: Time = Time() if kind == "async" else BlockingTime()
        self.requests: list[httpx.Request] = []
        self.client: Any = None
        self._steps: Sequence[Step] = ()

    def answers(self, *steps: Step, timeout: float = 30.0, token: str | None = TOKEN, url: str = URL) -> "Script":
        self._steps = steps
        transport = httpx.MockTransport(self._answer)
        kind: Any = AsyncClient if self.kind == "async" else Client
        self.client = kind(url, token, transport=transport, timeout=timeout, runtime=self.time)
        return self

    def _answer(self, request: httpx.Request) -> httpx.Response:
        step = self._steps[min(len(self.requests), len(self._steps) - 1)]
        self.requests.append(request)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, httpx.Response):  # each request gets an answer of its own
            return httpx.Response(step.status_code, headers=step.headers, content=step.content)
        return step(request)

    def ask(self, work: Callable[[Any], Any]) -> Any:
        """The result of a call, whichever client it is; a list for one that is iterated."""
        found = work(self.client)
        if inspect.isawaitable(found):
            return run(_awaited(found))
        if hasattr(found, "__aiter__"):
            return run(_collected(found))
        return list(found) if hasattr(found, "__iter__") and hasattr(found, "page") else found

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("Idempotency-Key") for request in self.requests]


async def _awaited(found: Any) -> Any:
    return await found


async def _collected(found: Any) -> list[Any]:
    return [item async for item in found]


@pytest.fixture(params=["async", "blocking"])
def server(request: pytest.FixtureRequest) -> Script:
    return Script(request.param)


def problem(status: int, kind: str, detail: str = "no", headers: dict[str, str] | None = None, **more: Any) -> Step:
    body = {
        "type": f"urn:arco:problem:{kind}",
        "title": "t",
        "status": status,
        "detail": detail,
        "hint": "h",
        "request_id": "r1",
        **more,
    }

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json=body, headers=headers)

    answer.__name__ = f"{status} {kind}"
    return answer


def described(step: Any) -> str:
    """The same name of a step or of an error in every process."""
    return str(getattr(step, "__name__", step))


WRITTEN = {"operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "position": "3145728", "replayed": False}
NAMESPACE: dict[str, Any] = {
    "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "name": "sales",
    "parent": None,
    "description": None,
    "properties": {},
    "version": 1,
    "created_by": "me",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_by": "me",
    "updated_at": "2026-01-01T00:00:00Z",
}


def ok(body: Any, **headers: str) -> Step:
    return lambda request: httpx.Response(
        200, json=body, headers={name.replace("_", "-"): v for name, v in headers.items()}
    )

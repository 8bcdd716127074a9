"""Orchestration through the API: projects deployed with their code, and a worker that calls as a real one does."""

import hashlib
from typing import Any

import httpx
import msgspec

from arco.api._internal import encode_error
from arco.assets import Project
from arco.core import ServiceIdentity
from arco.domains.orchestration import FinishTask, Outcome, TaskLog
from arco.servo import Envelope, open_envelope
from arco.storage import Role, Scope
from arco.wire import unpack_error
from tests.api.world import ACME, SERVICE_SECRET, World
from tests.servo.world import result_of

__all__ = ["CODE", "SHA256", "Worker", "body_of", "deploy", "put_code", "task_states", "trigger"]

CODE = b"an archive that nobody unpacks here"
SHA256 = hashlib.sha256(CODE).hexdigest()


async def put_code(world: World, data: bytes = CODE, *, token: str | None = None, sha256: str = "") -> httpx.Response:
    address = f"/api/v1/code/{sha256 or hashlib.sha256(data).hexdigest()}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return await world.http.put(address, content=data, headers=headers | {"Content-Type": "application/zip"})


def body_of(given: Project, *, sha256: str = SHA256, **fields: Any) -> dict[str, Any]:
    """What is sent to deploy a project."""
    return {"project": msgspec.to_builtins(msgspec.structs.replace(given, code_sha256=sha256)), **fields}


async def deploy(world: World, given: Project, *, token: str | None = None, code: bytes = CODE, **fields: Any) -> Any:
    """Store the code and deploy; the answer."""
    stored = await put_code(world, code, token=token)
    assert stored.is_success, stored.text
    body = body_of(given, sha256=stored.json()["sha256"], **fields)
    return await world.done("POST", "/deployments", body, token=token)


async def trigger(world: World, selection: str = "*", **fields: Any) -> str:
    """Start a run; its id."""
    return str((await world.done("POST", "/runs", {"selection": selection, **fields}))["run_id"])


async def task_states(world: World, run_id: str) -> dict[str, str]:
    """How the tasks of a run stand."""
    page = await world.done("GET", f"/runs/{run_id}/tasks")
    return {task["task_key"]: task["state"] for task in page["items"]}


class Worker:
    """One life of a worker, by default with what the processes of the world share."""

    def __init__(
        self,
        world: World,
        scope: Scope = ACME,
        *,
        name: str = "w1",
        session: str = "s1",
        secret: bytes = SERVICE_SECRET,
    ) -> None:
        self.world = world
        self.scope = scope
        self.who = {"worker": name, "session": session}
        self._identity = ServiceIdentity(secret, name, world.host.runtime)

    def address(self, path: str, scope: Scope | None = None, incarnation: str = "") -> str:
        place = scope or self.scope
        known = self.world.host.workspaces.get(place) or self.world.workspace(self.scope)
        return f"/internal/{place.root}{path}?incarnation={incarnation or known.incarnation.id}"

    async def call(self, method: str, path: str, body: Any = None, *, scope: Scope | None = None) -> httpx.Response:
        """One signed call; `scope` is the workspace that stands in its path, if another one."""
        target = self.address(path, scope)
        data = b"" if body is None else msgspec.json.encode(body)
        headers = self._identity.headers(method, target, data)
        return await self.world.http.request(method, target, content=data, headers=headers)

    async def begin(self) -> None:
        answer = await self.call("POST", "/work/sessions", self.who)
        assert answer.status_code == 204, answer.text

    async def claim(self, slots: int = 1, wait: float = 0.0) -> list[Envelope]:
        return self.opened(await self.call("POST", "/work/claims", self.who | {"slots": slots, "wait_seconds": wait}))

    def opened(self, answer: httpx.Response) -> list[Envelope]:
        """The envelopes of an answer, checked as a worker checks them."""
        assert answer.status_code == 200, answer.text
        tenant, workspace, now = self.scope.tenant, self.scope.workspace, self.world.host.runtime.now()
        return [
            open_envelope(SERVICE_SECRET, text.encode(), tenant=tenant, workspace=workspace, now=now)
            for text in answer.json()["envelopes"]
        ]

    async def beat(self, *envelopes: Envelope) -> httpx.Response:
        return await self.call("POST", "/work/beats", self.alive(*envelopes))

    def alive(self, *envelopes: Envelope, token: str | None = None) -> dict[str, Any]:
        """What is sent as signs of life."""
        return {
            "attempts": [
                {"attempt_id": one.attempt_id, "token": one.callback_token if token is None else token}
                for one in envelopes
            ]
        }

    def results(self, *told: tuple[Envelope, FinishTask], slots: int = 0, token: str | None = None) -> dict[str, Any]:
        """What is sent as results."""
        ended = [
            {"token": envelope.callback_token if token is None else token, "result": result}
            for envelope, result in told
        ]
        return self.who | {"results": ended, "slots": slots}

    async def tell_all(self, *told: tuple[Envelope, FinishTask], slots: int = 0) -> httpx.Response:
        return await self.call("POST", "/work/results", self.results(*told, slots=slots))

    async def tell(self, envelope: Envelope, result: FinishTask, *, slots: int = 0) -> httpx.Response:
        """Tell one result; if it alone is refused, that is the answer."""
        answer = await self.tell_all((envelope, result), slots=slots)
        refused = answer.json().get("refused") if answer.status_code == 200 else None
        if not refused:
            return answer
        error = unpack_error(msgspec.json.encode(refused[0]["error"]))
        assert error is not None
        said = encode_error(error)
        return httpx.Response(said.status_code, content=bytes(said.body))

    async def finish(
        self,
        envelope: Envelope,
        outcome: Outcome = Outcome.SUCCEEDED,
        *,
        retryable: bool = False,
        slots: int = 0,
        printed: tuple[str, ...] = (),
    ) -> httpx.Response:
        """End an attempt that printed something, a chunk each."""
        result = result_of(envelope, self.world.host.runtime.now(), outcome, retryable=retryable)
        if printed:
            await self.print(envelope, *printed)
            size = sum(len(text.encode()) for text in printed)
            result = msgspec.structs.replace(result, log=TaskLog(len(printed), size, False))
        return await self.tell(envelope, result, slots=slots)

    async def print(self, envelope: Envelope, *chunks: str) -> None:
        store = self.world.workspace(self.scope).handle(Role.WORKER)
        for number, text in enumerate(chunks):
            path = f"logs/{envelope.run_id}/{envelope.attempt_id}/{number:06d}"
            await store.put(path, text.encode(), only_if_absent=True)

    async def work_off(self, *failing: str) -> list[str]:
        """Do everything that is ready, one task at a time; those named fail for good."""
        done = []
        while claimed := await self.claim():
            (envelope,) = claimed
            done.append(envelope.task_key)
            outcome = Outcome.FAILED if envelope.task_key in failing else Outcome.SUCCEEDED
            answer = await self.finish(envelope, outcome)
            assert answer.status_code == 200, answer.text
        return done

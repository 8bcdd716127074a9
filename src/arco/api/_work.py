"""`/internal/*` for workers: sessions, tasks, signs of life, results, code. Not part of the public API.

    POST /internal/{tenant}/{workspace}/work/sessions                  a worker begins
    POST /internal/{tenant}/{workspace}/work/claims                    tasks, as signed envelopes; waits for the first
    POST /internal/{tenant}/{workspace}/work/attempts/{id}/beats       a sign of life -> whether to stop
    POST /internal/{tenant}/{workspace}/work/attempts/{id}/result      the end of an attempt -> the next tasks
    GET  /internal/{tenant}/{workspace}/code/{sha256}                  an archive of code

Every call carries the service identity of the deployment; one that speaks of an attempt carries that attempt's callback
token as well. Both are checked before anything is read.
"""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arco.api._host import Host
from arco.api._internal import BASE, Admit, answering, decode_body
from arco.core import Invalid, NotFound
from arco.runtime import Workspace
from arco.servo import CALLBACK, RELAYED, Claimed, Claims, Pulse, Result, Servo, Session
from arco.storage import ObjectMissing, Role

__all__ = ["work_routes"]


def work_routes(admitted: Admit, host: Host) -> list[Route]:
    def servo_of(workspace: Workspace) -> Servo:
        return host.servo_of(workspace.scope)

    async def sessions(request: Request) -> Response:
        workspace, body = await admitted(request)
        await servo_of(workspace).work.open_session(decode_body(body, Session).id)
        return Response(status_code=204)

    async def claims(request: Request) -> Response:
        workspace, body = await admitted(request)
        asked: Claims = decode_body(body, Claims)
        return _claimed(await servo_of(workspace).work.claim(asked.id, asked.slots, asked.wait_seconds))

    async def beats(request: Request) -> Response:
        workspace, body = await admitted(request)
        servo, attempt = servo_of(workspace), request.path_params["attempt_id"]
        token = request.headers.get(CALLBACK, "")
        servo.check_callback(attempt, token)
        pulse = decode_body(body, Pulse) if body else Pulse()
        relayed = request.headers.get(RELAYED) == "1"
        beat = await (servo.work.beat_here(attempt, pulse) if relayed else servo.work.beat(attempt, token, pulse))
        return Response(msgspec.json.encode(beat), media_type="application/json")

    async def result(request: Request) -> Response:
        workspace, body = await admitted(request)
        servo, attempt = servo_of(workspace), request.path_params["attempt_id"]
        servo.check_callback(attempt, request.headers.get(CALLBACK, ""))
        told: Result = decode_body(body, Result)
        if told.result.attempt_id != attempt:
            raise Invalid("the result is of another attempt than the one it was sent for")
        traceparent = request.headers.get("traceparent", "")[:128]
        return _claimed(await servo.work.finish(told.result, told.id, told.slots, traceparent))

    async def code(request: Request) -> Response:
        workspace, _ = await admitted(request)
        sha256 = request.path_params["sha256"]
        try:
            data = await workspace.handle(Role.READER).get(servo_of(workspace).code_path(sha256))
        except ObjectMissing:
            raise NotFound(f"there is no code {sha256} in this workspace; deploy it again") from None
        return Response(data, media_type="application/zip")

    return [
        Route(f"{BASE}/work/sessions", answering(sessions), methods=["POST"]),
        Route(f"{BASE}/work/claims", answering(claims), methods=["POST"]),
        Route(f"{BASE}/work/attempts/{{attempt_id}}/beats", answering(beats), methods=["POST"]),
        Route(f"{BASE}/work/attempts/{{attempt_id}}/result", answering(result), methods=["POST"]),
        Route(f"{BASE}/code/{{sha256}}", answering(code), methods=["GET"]),
    ]


def _claimed(envelopes: list[bytes]) -> Response:
    found = Claimed(tuple(envelope.decode() for envelope in envelopes))
    return Response(msgspec.json.encode(found), media_type="application/json")

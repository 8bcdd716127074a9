"""`/internal/*` for workers: sessions, tasks, signs of life, results, code. Not part of the public API.

    POST /internal/{tenant}/{workspace}/work/sessions                  a worker begins
    POST /internal/{tenant}/{workspace}/work/claims                    tasks, as signed envelopes; waits for the first
    POST /internal/{tenant}/{workspace}/work/beats                     signs of life -> whether each attempt shall stop
    POST /internal/{tenant}/{workspace}/work/results                   ends of attempts -> what was refused, next tasks
    GET  /internal/{tenant}/{workspace}/code/{sha256}                  an archive of code

Every call carries the service identity of the deployment; one that speaks of attempts carries the callback token of
each as well. All of them are checked before anything is read.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arco.api._host import Host
from arco.api._internal import BASE, Admit, answering, decode_body
from arco.core import ArcoError, NotFound
from arco.runtime import Workspace
from arco.servo import RELAYED, Beats, Claimed, Claims, Heard, Refusal, Results, Servo, Session
from arco.storage import ObjectMissing, Role

__all__ = ["work_routes"]


def work_routes(admitted: Admit, host: Host) -> list[Route]:
    def servo_of(workspace: Workspace) -> Servo:
        return host.servo_of(workspace.scope)

    async def sessions(request: Request) -> Response:
        workspace, body = await admitted(request, opens=True)
        await servo_of(workspace).work.open_session(decode_body(body, Session).id)
        return Response(status_code=204)

    async def claims(request: Request) -> Response:
        workspace, body = await admitted(request, opens=True)
        asked: Claims = decode_body(body, Claims)
        return _claimed(await servo_of(workspace).work.claim(asked.id, asked.slots, asked.wait_seconds))

    async def beats(request: Request) -> Response:
        workspace, body = await admitted(request, opens=True)
        servo = servo_of(workspace)
        attempts = decode_body(body, Beats).attempts
        for attempt in attempts:
            servo.check_callback(attempt.attempt_id, attempt.token)
        if request.headers.get(RELAYED) == "1":
            heard = await servo.work.beat_here(attempts)
        else:
            heard = await servo.work.beat(attempts)
        return Response(msgspec.json.encode(Heard(tuple(heard))), media_type="application/json")

    async def results(request: Request) -> Response:
        workspace, body = await admitted(request, opens=True)
        servo = servo_of(workspace)
        told = decode_body(body, Results)
        for ended in told.results:
            servo.check_callback(ended.result.attempt_id, ended.token)
        traceparent = request.headers.get("traceparent", "")[:128]
        done = await servo.work.finish([ended.result for ended in told.results], told.id, told.slots, traceparent)
        return _claimed(done.envelopes, done.refused)

    async def code(request: Request) -> Response:
        workspace, _ = await admitted(request, opens=True)
        sha256 = request.path_params["sha256"]
        try:
            data = await workspace.handle(Role.READER).get(servo_of(workspace).code_path(sha256))
        except ObjectMissing:
            raise NotFound(f"there is no code {sha256} in this workspace; deploy it again") from None
        return Response(data, media_type="application/zip")

    return [
        Route(f"{BASE}/work/sessions", answering(sessions), methods=["POST"]),
        Route(f"{BASE}/work/claims", answering(claims), methods=["POST"]),
        Route(f"{BASE}/work/beats", answering(beats), methods=["POST"]),
        Route(f"{BASE}/work/results", answering(results), methods=["POST"]),
        Route(f"{BASE}/code/{{sha256}}", answering(code), methods=["GET"]),
    ]


def _claimed(envelopes: list[bytes], refused: Mapping[str, ArcoError] = MappingProxyType({})) -> Response:
    refusals = tuple(Refusal.of(attempt_id, error) for attempt_id, error in refused.items())
    found = Claimed(tuple(envelope.decode() for envelope in envelopes), refusals)
    return Response(msgspec.json.encode(found), media_type="application/json")

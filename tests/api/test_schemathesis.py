"""schemathesis against the whole OpenAPI document: whatever is sent, the answer is one that the document names.

Every operation is asked what the document allows and what it forbids, at the edges of each schema (`coverage`) and by
chance (`fuzzing`, from a fixed seed). Of what is allowed, half is asked of objects that exist. `ARCO_FUZZ` is how many
cases of chance there are for each operation; more than the default find rarer things.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.core.transport import Response
from schemathesis.generation import GenerationMode

from arco.core import new_ulid
from arco.storage import ObjectExists, Role
from tests.api.content import Content, fill_whole
from tests.api.openapi import current
from tests.api.running import Running, running_world
from tests.api.workers import CODE, SHA256, body_of, put_code
from tests.servo.world import project

EXAMPLES = int(os.environ.get("ARCO_FUZZ", "4"))
BASE = "http://localhost:8020"
CONDITIONS = ("If-Match", "If-None-Match")
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_headers_conformance,
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.negative_data_rejection,
    schemathesis.checks.unsupported_method,
    schemathesis.checks.allow_header_conformance,
]

schemathesis.serializer.alias("application/zip", "application/octet-stream")
schema = schemathesis.openapi.from_dict(current())
schema.config.generation.with_security_parameters = False  # in development mode nobody needs a key


class Target:
    """The world under test. What a case drops is made anew before the next operation."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.content: Content | None = None
        self.asked = ""
        self.cases = 0
        self.statuses: dict[str, Counter[int]] = {}

    def ask(self, case: schemathesis.Case) -> Response:
        if self.asked != case.operation.label:
            self.asked = case.operation.label
            self.content = self.running.run(self._fill())
        assert self.content is not None
        assert case.meta is not None
        self.cases += 1
        if case.meta.generation.mode is GenerationMode.POSITIVE and self.cases % 2:
            self._meet(case, self.content)
        sent = requests.Request(**_plain(case.as_transport_kwargs(base_url=BASE))).prepare()
        body: Any = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
        headers = {str(name): str(value) for name, value in sent.headers.items()}
        raw = self.running.send(str(sent.method), str(sent.url), headers, body)
        self.statuses.setdefault(case.operation.label, Counter())[raw.status] += 1
        return Response(raw.status, raw.headers, raw.body, sent, elapsed=0.0, verify=False, encoding="utf-8")

    async def _fill(self) -> Content:
        made = self.running.world
        with contextlib.suppress(ObjectExists):
            worker = made.workspace().handle(Role.WORKER)
            await worker.put("data/known/1.csv", b"id,name\n1,a\n", only_if_absent=True)
        assert (await put_code(made)).is_success
        return await fill_whole(made)

    def _meet(self, case: schemathesis.Case, content: Content) -> None:
        """Let the case ask for what exists, with values that mean something: texts of chance hardly ever do."""
        known, runtime = content.path_parameters, self.running.world.host.runtime
        case.path_parameters = {name: known[name] for name in case.path_parameters}
        usual: dict[str, Any] = {"namespace": content.namespace, "parent": content.namespace, "from": "catalog:0"}
        if case.path.endswith("/versions/diff"):
            usual = {"from": 1, "to": 1}
        if "{run_id}" in case.path:
            usual = {"task": content.task_key, "attempt": 0}
        odd = {"cursor", "min_position", "to", "table", "log", "as_of"} - usual.keys()
        case.query = {name: usual.get(name, value) for name, value in case.query.items() if name not in odd}
        for name in CONDITIONS:
            case.headers.pop(name, None)
        if "Idempotency-Key" in case.headers:
            case.headers["Idempotency-Key"] = new_ulid(runtime, runtime)
        if case.path.endswith("/cancel"):
            case.path_parameters = {"run_id": self.running.run(self._begun(content))}
        if "{sha256}" in case.path:
            case.path_parameters, case.body = {"sha256": SHA256}, CODE.decode()
        if isinstance(case.body, dict):
            case.body = _sensible(case.body, self._words(case, content))

    async def _begun(self, content: Content) -> str:
        """A run that nobody works on."""
        wanted = {"selection": content.asset, "mode": "force"}
        return str((await self.running.world.done("POST", "/runs", wanted))["run_id"])

    def _words(self, case: schemathesis.Case, content: Content) -> dict[str, Any]:
        fresh = f"new{self.cases}"
        return {
            "name": fresh if "/namespaces" in case.path or "/keys" in case.path else f"{content.namespace}.{fresh}",
            "new_name": fresh if "/namespaces" in case.path else f"{content.namespace}.{fresh}",
            "description": "what people say",
            "column": content.column,
            "columns": [{"name": "id", "type": "long"}] if "/tables" in case.path else {},
            "changes": [{"action": "add", "name": fresh, "type": "long"}],
            "location": "data/known",
            "format": "CSV",
            "source": content.table,
            "target": f"{content.namespace}.daily",
            "pii_type": "EMAIL",
            "owners": ["a team"],
            "sql": "SELECT full_name FROM system.tables",
            "as_of": None,
            "role": "viewer",
            "principal": None,
            "expires_at": None,
            "values": {"query.max_seconds": 60 + self.cases % 2},
            "tables": [{"table": "tables"}],
            "revision": None,
            "project": self._project(),
            "expected_current": None,
            "selection": content.asset,
            "partitions": {},
            "run_key": fresh,
            "keys": [f"{content.namespace}-customer"] if case.path.endswith("/drop") else [fresh],
            "reason": "enough",
            "message": "what people say",
        }

    def _project(self) -> dict[str, Any]:
        """One that can be deployed: its code is there."""
        given: dict[str, Any] = body_of(project({f"sales.made{self.cases}": []}))["project"]
        return given


def _sensible(body: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    texts = {name: {"a": "b"} for name in ("properties", "set_properties", "tags", "terms")}
    return {name: (words | texts | {"remove_properties": ["c"]}).get(name, value) for name, value in body.items()}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with running_world() as running:
        yield Target(running)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
def test_every_answer_is_one_that_the_document_names(case: schemathesis.Case, target: Target) -> None:
    case.validate_response(target.ask(case), checks=CHECKS)


def test_every_operation_succeeded_and_refused_something(target: Target) -> None:
    """Else the cases above would say little. Runs last; alone it has nothing to look at."""
    if not target.statuses:
        pytest.skip("no case was run")
    for operation, statuses in target.statuses.items():
        assert any(status < 300 for status in statuses), (operation, statuses)
        assert any(400 <= status < 500 for status in statuses), (operation, statuses)

"""Tenancy: whoever has a key of one workspace finds nothing of another, not even that it is there.

Every route is asked with the keys of a stranger (another tenant) and of a sibling (another workspace of the tenant) for
the victim's names and ids, and again for names and ids that exist nowhere. Both must look the same: status, body but
for what was asked, and store requests. What is asked of the store never lies outside the caller's workspace.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import pytest

from arco.api import Door
from arco.api._caller import format_token
from arco.api._permissions import ROUTES
from arco.catalog import SystemRelations
from arco.catalog._cursors import encode_cursor
from arco.core import ArcoError, Forbidden, Invalid, new_ulid
from arco.domains.access import UserRole
from arco.runtime import AsyncRuntime
from arco.state import bucket_of
from arco.storage import RequestCounts, Role, RoleStore, Scope
from tests.api.content import Content, fill_whole
from tests.api.stores import AskedStore, SigningStore
from tests.api.workers import body_of, put_code
from tests.api.world import ACME, OTHER, SIBLING, World, world
from tests.servo.world import project

T = TypeVar("T")

VICTIM = "zebra"
"""In every name that the victim uses. The strangers' own names, and those that exist nowhere, are nothing like it."""
NOWHERE = "quokka"
OWN = "falcon"

Ask = tuple[str, str, dict[str, Any], Any]
"""Method, path, query, body."""


@dataclass(frozen=True)
class Place:
    """A world with three filled workspaces, and what their stores are asked."""

    world: World
    store: AskedStore
    victim: Content
    own: dict[Scope, Content]

    async def token(self, scope: Scope) -> str:
        return await self.world.token(UserRole.OWNER, scope)


@asynccontextmanager
async def _place() -> AsyncIterator[Place]:
    store = AskedStore(SigningStore(AsyncRuntime()))
    async with world(door=Door.KEYS, scopes=(ACME, SIBLING, OTHER), store=store) as made:
        contents = {}
        for scope, word in ((ACME, VICTIM), (SIBLING, OWN), (OTHER, OWN)):
            contents[scope] = await fill_whole(made, token=await made.token(UserRole.OWNER, scope), word=word)
            await (
                made.workspace(scope).handle(Role.WORKER).put(f"data/{word}/1.csv", b"a,b\n1,2\n", only_if_absent=True)
            )
        victim = contents.pop(ACME)
        yield Place(made, store, victim, contents)


def in_place(work: Callable[[Place], Awaitable[T]]) -> T:
    async def main() -> T:
        async with _place() as place:
            return await work(place)

    return asyncio.run(main())


def _nowhere(place: Place) -> Content:
    """What looks like the victim's and is nobody's."""
    runtime = place.world.host.runtime

    def same_place(found: re.Match[str]) -> str:
        """Of the same time and the same bucket, so that it has the same place among the ids of others."""
        while bucket_of(made := found[1] + new_ulid(runtime, runtime)[10:]) != bucket_of(found[0]):
            pass
        return made

    def other(value: str) -> str:
        changed = value.replace(VICTIM, NOWHERE)
        return re.sub(r"([0-7][0-9A-HJKMNP-TV-Z]{9})[0-9A-HJKMNP-TV-Z]{16}", same_place, changed)

    made = replace(place.victim, **{field.name: other(getattr(place.victim, field.name)) for field in fields(Content)})
    # Not a ULID but as long, and of the same letters.
    return replace(made, edge_id=made.edge_id[::-1], sha256=made.sha256[::-1], position=place.victim.position)


def _asked(method: str, route: str, wanted: Content) -> list[Ask]:
    """Every way to ask a route for what is wanted: by name, by id, and through its parameters and body."""
    path = route.removeprefix("/api/v1")
    found: list[Ask] = []
    ways = [
        {"namespace": wanted.namespace, "table": wanted.table},
        {"namespace": f"id:{wanted.namespace_id}", "table": f"id:{wanted.table_id}"},
    ]
    if "{version}" in path:  # also a version of theirs as if it were one of our own asset
        ways = [ways[0], {"asset": f"{OWN}.{OWN}_asset"}]
    by_id = "{namespace}" in path or "{table}" in path or "{version}" in path
    for way in ways if by_id else ways[:1]:
        named = wanted.path_parameters | way
        concrete = re.sub(r"\{(\w+)\}", lambda match, named=named: quote(named[match[1]], safe=""), path)  # type: ignore[misc]
        for query in _queries(method, path, wanted):
            found += [(method, concrete, query, body) for body in _bodies(method, path, wanted)]
    return found


def _queries(method: str, path: str, wanted: Content) -> list[dict[str, Any]]:
    cursor = encode_cursor(f"table/{wanted.namespace_id}", (f"{wanted.namespace}_a",))
    match method, path:
        case "GET", "/namespaces":
            return [
                {"parent": wanted.namespace},
                {"parent": f"id:{wanted.namespace_id}"},
                {"cursor": cursor},
                {"as_of": f"run:{wanted.run_id}"},
            ]
        case "GET", "/tables":
            own = {"namespace": OWN, "cursor": cursor}
            return [{"namespace": wanted.namespace}, {"namespace": f"id:{wanted.namespace_id}"}, own]
        case "GET", "/tables/{table}/versions/diff":
            return [{"from": 1, "to": 1}]
        case "GET", "/tables/{table}/checks":
            return [{}, {"cursor": encode_cursor(f"checks/{wanted.table_id}", ("1", "x"))}]
        case "GET", "/diff":
            return [{"from": f"run:{wanted.run_id}"}, {"from": "catalog:0", "table": wanted.table}]
        case "GET", "/revisions" | "/audit":
            return [{"cursor": cursor}]
        case "GET", "/runs":
            return [{"cursor": encode_cursor("runs/", (wanted.run_id,))}, {"as_of": f"run:{wanted.run_id}"}]
        case "GET", "/assets":
            return [{"cursor": encode_cursor("assets", (wanted.asset,))}]
        case "GET", "/deployments":
            return [{"cursor": encode_cursor("deployments", (wanted.deployment_id,))}]
        case "GET", "/assets/{asset}/partitions":
            return [{}, {"cursor": encode_cursor(f"partitions/{wanted.asset_id}", (wanted.asset_id,))}]
        case "GET", "/assets/{asset}/versions":
            place = f"versions/{wanted.asset_id}//"
            return [{}, {"status": "quarantined"}, {"cursor": encode_cursor(place, ("1", wanted.version))}]
        case "GET", "/quarantine":
            return [
                {"asset": wanted.asset},
                {"asset": wanted.table, "status": "all"},
                {"cursor": encode_cursor("held///held", (f"{0:018d}:{wanted.version}",))},
                {"as_of": f"run:{wanted.run_id}"},
            ]
        case "GET", "/partitions/{name}":
            return [{}, {"cursor": encode_cursor(f"dynamic/{wanted.partitions}", (wanted.namespace,))}]
        case "GET", "/runs/{run_id}/tasks":
            return [{}, {"cursor": encode_cursor(f"tasks/{wanted.run_id}/", (wanted.task_key,))}]
        case "GET", "/runs/{run_id}/task" | "/runs/{run_id}/logs":
            return [{"task": wanted.task_key}, {"task": f"{OWN}.{OWN}_asset"}]
        case "GET", _ if "{" in path and "operations" not in path:
            return [{}, {"as_of": f"run:{wanted.run_id}"}]
        case _:
            return [{}]


def _bodies(method: str, path: str, wanted: Content) -> list[Any]:
    columns = [{"name": "id", "type": "long"}]
    cursor = encode_cursor("versions/x", (wanted.asset_id,))
    event = {
        "type": "AssetObserved",
        "data": {
            "observation_id": wanted.table_id,
            "asset_id": wanted.table_id,
            "asset_key": wanted.table,
            "partition_id": wanted.table_id,
            "partition_key": "",
            "data_version": "1",
            "observed_at": 1767225600000000,
        },
    }
    bodies: dict[tuple[str, str], list[Any]] = {
        ("POST", "/namespaces"): [{"name": f"{wanted.namespace}.below"}],
        ("PATCH", "/namespaces/{namespace}"): [{"description": "mine"}],
        ("POST", "/namespaces/{namespace}/rename"): [{"new_name": f"{OWN}.taken"}],
        ("POST", "/tables"): [{"name": f"{wanted.namespace}.mine", "columns": columns}],
        ("POST", "/tables/register"): [
            {"name": f"{OWN}.mine", "location": location, "format": "CSV"}
            for location in (f"data/{wanted.namespace}", f"../{ACME.root}/data/{wanted.namespace}")
        ],
        ("PATCH", "/tables/{table}"): [{"description": "mine"}],
        ("POST", "/tables/{table}/rename"): [{"new_name": f"{OWN}.taken"}],
        ("POST", "/tables/{table}/alter"): [{"changes": [{"action": "add", "name": "x", "type": "long"}]}],
        ("PUT", "/tables/{table}/schema"): [{"columns": columns}],
        ("PATCH", "/tables/{table}/columns/{column}"): [{"description": "mine"}],
        ("PUT", "/tables/{table}/contract"): [{"description": "mine"}],
        ("PUT", "/tables/{table}/sla"): [{"freshness_seconds": 1}],
        ("POST", "/lineage/edges"): [
            {"source": f"{OWN}.orders", "target": f"id:{wanted.table_id}"},
            {"source": wanted.table, "target": f"{OWN}.orders"},
            {"source": f"{OWN}.orders", "target": f"{OWN}.daily", "columns": {wanted.column: ["id"]}},
        ],
        ("POST", "/events"): [{"events": [event]}],
        ("POST", "/query"): [
            {"sql": f"SELECT * FROM {wanted.table}"},
            {"sql": f"SELECT full_name FROM system.tables WHERE table_id = '{wanted.table_id}'"},
            {"sql": f"SELECT count(*) FROM system.audit WHERE operation = '{wanted.operation_id}'"},
            {"sql": "SELECT 1", "as_of": f"run:{wanted.run_id}"},
        ],
        ("POST", "/browser/urls"): [
            {"tables": [{"table": "tables", "groups": [wanted.table_id]}]},
            {"tables": [{"table": wanted.table}]},
        ],
        ("POST", "/deployments"): [
            body_of(project({f"{OWN}.asset": []}), sha256=wanted.sha256),
            body_of(project({f"{OWN}.asset": []}), expected_current=wanted.deployment_id, dry_run=True),
            body_of(project({f"{OWN}.mine": [wanted.asset]}), dry_run=True),
        ],
        ("POST", "/deployments/{deployment_id}/rollback"): [{}],
        ("POST", "/partitions/{name}"): [{"keys": ["mine"]}],
        ("POST", "/partitions/{name}/drop"): [{"keys": [f"{wanted.namespace}-customer"]}],
        ("POST", "/assets/{asset}/versions/{version}/quarantine"): [{"reason": "mine"}],
        ("POST", "/assets/{asset}/versions/{version}/release"): [{"reason": "mine"}],
        ("POST", "/maintenance/versions"): [{"selection": wanted.asset}, {"cursor": cursor}],
        ("POST", "/maintenance/history"): [{}, {"dry_run": True}],
        ("POST", "/maintenance/orphans"): [{"selection": wanted.asset, "older_than_hours": 1}, {"cursor": cursor}],
        ("POST", "/maintenance/statistics"): [{"selection": wanted.asset}, {"cursor": cursor}],
        ("POST", "/plans"): [{"selection": wanted.asset}],
        ("POST", "/runs"): [{"selection": wanted.asset}, {"selection": "*", "run_key": wanted.run_key}],
        ("POST", "/runs/{run_id}/cancel"): [{}],
        ("POST", "/runs/{run_id}/rerun"): [{"from_failure": only} for only in (True, False)],
        ("POST", "/keys"): [{"name": wanted.key_name, "principal": wanted.principal}],
        ("PUT", "/roles/{principal}"): [{"role": "viewer"}],
        ("PATCH", "/settings"): [{"values": {wanted.namespace: 1}}],
    }
    return bodies.get((method, path), [None])


def _masked(text: str, wanted: Content) -> str:
    """The answer without what every answer has anew, and without what was asked for."""
    for field in fields(Content):
        if field.name != "position":
            text = text.replace(getattr(wanted, field.name), "<asked>")
    text = text.replace(wanted.namespace, "<asked>").replace(quote(wanted.principal), "<asked>")
    for pattern, mask in (
        (r"arco_[\w-]+", "<token>"),
        (r"[0-7][0-9A-HJKMNP-TV-Z]{25}", "<id>"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
        (r"https?://\S+?\"", "<url>"),
        (r"[0-9a-f]{64}", "<hash>"),
        (r"plan_[0-9a-f]{32}", "<plan>"),
        (r'"elapsed_ms":[\d.]+', "<elapsed>"),
        (r'("operation":"[a-z_]+","count":)\d+', r"\1<requests>"),
        (r"\b\d{5,}\b", "<position>"),
    ):
        text = re.sub(pattern, mask, text)
    return text


async def _measured(place: Place, scope: Scope, ask: Ask, **more: Any) -> tuple[httpx.Response, Counter[str]]:
    """The answer, and how often the store was asked for what. Nothing outside the caller's workspace may be touched."""
    await _settle(place, scope)
    place.store.asked.clear()
    method, path, query, body = ask
    answer = await place.world.ask(method, path, body, token=await place.token(scope), **more, **query)
    asked = list(place.store.asked)
    outside = [path for _, path in asked if path != scope.root and not path.startswith(f"{scope.root}/")]
    assert not outside, (ask, outside)
    return answer, Counter(operation for operation, _ in asked)


async def _settle(place: Place, scope: Scope) -> None:
    """Nothing is left to publish, and the tail was looked at just now."""
    for opened in place.world.workspace(scope).logs.values():
        await opened.published(await opened.current())


async def _positions(place: Place) -> list[int]:
    return [await opened.current() for opened in place.world.workspace(ACME).logs.values()]


@pytest.mark.parametrize("scope", [OTHER, SIBLING], ids=["stranger", "sibling"])
def test_every_route_answers_for_the_victims_things_as_for_what_does_not_exist(scope: Scope) -> None:
    async def work(place: Place) -> int:
        nowhere, before, pairs = _nowhere(place), await _positions(place), 0
        for method, route in ROUTES:
            asks = zip(_asked(method, route, place.victim), _asked(method, route, nowhere), strict=True)
            for theirs, nobodys in asks:
                # The second time everything is loaded that an answer needs, so the requests are comparable.
                first = [await _measured(place, scope, ask) for ask in (theirs, nobodys)]
                again = [await _measured(place, scope, ask) for ask in (theirs, nobodys)]
                for (found, _), (control, _) in (first, again):
                    assert found.status_code == control.status_code, (theirs, found.text, control.text)
                    assert _masked(found.text, place.victim) == _masked(control.text, nowhere), theirs
                    assert found.headers.keys() == control.headers.keys(), theirs
                if not again[0][0].is_success or method == "GET":
                    assert again[0][1] == again[1][1], (theirs, again)
                pairs += 1
        assert await _positions(place) == before
        return pairs

    assert in_place(work) > len(ROUTES)


def test_lists_show_nothing_of_others() -> None:
    async def work(place: Place) -> list[str]:
        token = await place.token(OTHER)
        found = []
        for path, query in (
            ("/namespaces", {}),
            ("/audit", {"limit": 1000}),
            ("/keys", {}),
            ("/roles", {}),
            ("/settings", {}),
            ("/revisions", {}),
            ("/whoami", {}),
            ("/assets", {}),
            ("/deployments", {}),
            ("/runs", {}),
            ("/quarantine", {"status": "all"}),
            (f"/runs/{place.own[OTHER].run_id}", {}),
            (f"/runs/{place.own[OTHER].run_id}/explain", {}),
            ("/diff", {"from": "catalog:0"}),
            ("/diff", {"from": "activity:0", "log": "activity"}),
        ):
            found.append((await place.world.ask("GET", path, token=token, **query)).text)
        logs = place.world.workspace(OTHER).logs
        for name in SystemRelations(await logs["catalog"].frozen(), await logs["activity"].frozen()).names():
            rows = await place.world.done("POST", "/query", {"sql": f"SELECT * FROM {name}"}, token=token)
            found.append(str(rows["rows"]))
        return found

    texts = in_place(work)
    assert all(VICTIM not in text and ACME.tenant not in text for text in texts)
    assert any(OWN in text for text in texts)


def test_a_request_key_of_another_workspace_replays_nothing() -> None:
    async def work(place: Place) -> Any:
        headers = {"Idempotency-Key": place.victim.request_key}
        body = {"name": f"{OWN}.keyed", "columns": [{"name": "id", "type": "long"}]}
        made = await place.world.done("POST", "/tables", body, token=await place.token(OTHER), headers=headers)
        return made, place.victim

    made, victim = in_place(work)
    assert made["replayed"] is False
    assert made["table"]["id"] != victim.table_id
    assert made["operation_id"] != victim.operation_id


def test_a_request_key_and_a_run_key_of_another_workspace_find_no_run() -> None:
    async def work(place: Place) -> tuple[Any, str]:
        headers = {"Idempotency-Key": place.victim.run_request_key}
        body = {"selection": "*", "mode": "force", "tags": {VICTIM: VICTIM}, "run_key": place.victim.run_key}
        made = await place.world.done("POST", "/runs", body, token=await place.token(OTHER), headers=headers)
        return made, place.victim.run_id

    made, theirs = in_place(work)
    assert made["replayed"] is False
    assert made["run_id"] != theirs


def test_code_is_stored_in_each_workspace_by_itself() -> None:
    """That somebody else has the same code makes no difference."""

    async def work(place: Place) -> list[tuple[int, list[tuple[str, str]]]]:
        found = []
        for data in (f"code of {VICTIM}".encode(), f"code of {NOWHERE}".encode()):
            await _settle(place, OTHER)
            place.store.asked.clear()
            answer = await put_code(place.world, data, token=await place.token(OTHER))
            asked = [(operation, path.rpartition("/")[0]) for operation, path in place.store.asked]
            found.append((answer.status_code, asked))
        return found

    theirs, nobodys = in_place(work)
    assert theirs == nobodys == (200, [("put", f"{OTHER.root}/code")])


def test_an_operation_of_another_workspace_is_unknown() -> None:
    async def work(place: Place) -> list[Any]:
        token = await place.token(SIBLING)
        asked = (place.victim.operation_id, place.victim.activity_operation_id)
        return [await place.world.done("GET", f"/operations/{id}", token=token) for id in asked]

    assert [found["status"] for found in in_place(work)] == ["unknown", "unknown"]


# Tokens


def test_a_token_is_good_for_the_workspace_it_was_made_in_and_no_other() -> None:
    """A key's id and secret under another workspace's name, and names of workspaces that are not here, look alike."""

    async def work(place: Place) -> set[tuple[int, str]]:
        _, _, _, key_id, secret = (await place.token(OTHER)).split("_", 4)
        runtime = place.world.host.runtime
        tokens = [format_token(scope, key_id, secret) for scope in (ACME, SIBLING, Scope("nobody", "here"))]
        tokens += [
            format_token(ACME, new_ulid(runtime, runtime), secret),
            format_token(ACME, "8" + key_id[1:], secret),  # larger than any id
            format_token(ACME, key_id.lower(), secret),
            f"arco_-_prod_{key_id}_{secret}",
            f"arco_acme_-prod_{key_id}_{secret}",
            f"arco_acme/prod_{key_id}_{secret}",
            f"arco_../acme_prod_{key_id}_{secret}",
            format_token(ACME, key_id, secret[:-1]),
            format_token(ACME, key_id, secret + "a"),
            "arco",
        ]
        found = set()
        for method, route in ROUTES:
            path = re.sub(r"\{\w+\}", "x", route.removeprefix("/api/v1"))
            # However slow this machine is: a look at the tail is due every five seconds, whatever is asked.
            for scope in (ACME, SIBLING):
                await _settle(place, scope)
            place.store.asked.clear()
            for token in tokens:
                answer = await place.world.ask(method, path, token=token, headers={"X-Request-Id": "same"})
                found.add((answer.status_code, answer.text))
            assert place.store.asked == []
        return found

    [(status, _)] = in_place(work)
    assert status == 401


# Signed URLs


def test_signed_urls_name_files_of_the_callers_workspace_only() -> None:
    async def work(place: Place) -> set[str]:
        body = {"tables": [{"table": "tables"}, {"table": "names"}, {"table": "materializations"}]}
        signed = await place.world.done("POST", "/browser/urls", body, token=await place.token(OTHER))
        return {
            url
            for log in signed["logs"]
            for url in (log["manifest_url"], *(file["url"] for file in log["files"]))
            if url is not None
        }

    urls = in_place(work)
    assert urls
    assert all(f"/objects/{OTHER.root}/" in url and "/private/" not in url for url in urls)


def test_a_signed_url_bent_to_another_workspace_reads_nothing() -> None:
    """An object that is there, one that is not, and a workspace that is not: one answer, and no store request."""

    async def work(place: Place) -> set[tuple[int, str]]:
        found = set()
        urls = []
        for scope in (OTHER, ACME):
            signed = await place.world.done(
                "POST", "/browser/urls", {"tables": [{"table": "tables"}]}, token=await place.token(scope)
            )
            urls.append(signed["logs"][0]["manifest_url"])
        mine, theirs = urls
        path, _, query = mine.partition("?")
        bent = [
            f"{theirs.partition('?')[0]}?{query}",
            path.replace(OTHER.root, ACME.root) + f"?{query}",
            path.replace(OTHER.root, "nobody/here") + f"?{query}",
            path.replace(OTHER.root, f"{OTHER.root}/../../{ACME.root}") + f"?{query}",
            path.replace(OTHER.root, f"{OTHER.root}/%2e%2e/%2e%2e/{ACME.root}") + f"?{query}",
            path.replace("/objects/", "/objects//") + f"?{query}",
            f"{path}x?{query}",
            f"{path}?{query}&expires=99999999999999999",
            path,
        ]
        place.store.asked.clear()
        for url in bent:
            answer = await place.world.http.get(url, headers={"X-Request-Id": "same"})
            found.add((answer.status_code, answer.text))
        assert place.store.asked == []
        assert (await place.world.http.get(mine)).status_code == 200
        return found

    [(status, _)] = in_place(work)
    assert status == 403


# Store handles

ESCAPES = [
    "..",
    "../dev/data/x",
    "data/../../dev/data/x",
    "data/../../../globex/prod/data/x",
    "/data/x",
    "/",
    "//globex/prod/data/x",
    "data//x",
    "data/./x",
    "./data/x",
    "data/x/..",
    "%2e%2e/dev/data/x",
    "..%2fdev/data/x",
    "data/%2e%2e/%2e%2e/dev/data/x",
    "..\\dev\\data\\x",
    "data\\..\\..\\dev",
    "data/\uff0e\uff0e/x",
    "data/*",
    "data/?",
    "data/x\x00",
    "data/\nx",
    "file:///x",
]


@pytest.mark.parametrize("role", list(Role))
def test_no_handle_can_name_anything_outside_its_workspace(role: Role) -> None:
    async def work() -> list[tuple[str, str]]:
        base = AskedStore(SigningStore(AsyncRuntime()))
        for scope in (ACME, SIBLING, OTHER):
            await base.inner.put(f"{scope.root}/data/x", b"secret", only_if_absent=True)
        handle = RoleStore(base, ACME, role, RequestCounts())
        for path in ESCAPES:
            for call in _operations(handle, path):
                with pytest.raises((Invalid, Forbidden)):
                    await call()
        return base.asked

    assert asyncio.run(work()) == []


def _operations(handle: RoleStore, path: str) -> list[Callable[[], Awaitable[Any]]]:
    """Everything a store can be asked of a path."""

    async def listed() -> None:
        async for _ in handle.list(path):
            pass

    return [
        lambda: handle.get(path),
        lambda: handle.get_range(path, 0, 1),
        lambda: handle.head(path),
        lambda: handle.put(path, b"", only_if_absent=True),
        lambda: handle.put(path, b"", only_if_absent=False),
        lambda: handle.delete(path),
        lambda: handle.sign(path, expires_in=60),
        lambda: handle.persist(path),
        listed,
    ]


def test_a_handle_lists_its_own_workspace_even_where_another_begins_with_its_name() -> None:
    async def work() -> list[str]:
        base = SigningStore(AsyncRuntime())
        for scope in (ACME, Scope("acme", "prod-2"), Scope("acme-2", "prod")):
            await base.put(f"{scope.root}/data/{scope.workspace}", b"", only_if_absent=True)
        handle = RoleStore(base, ACME, Role.READER, RequestCounts())
        return [info.path async for info in handle.list("")]

    assert asyncio.run(work()) == ["data/prod"]


@pytest.mark.parametrize(
    ("tenant", "workspace"), [("..", "x"), ("a", ".."), ("a/b", "c"), ("", "x"), ("a", ""), ("A", "b")]
)
def test_no_scope_can_name_another_one(tenant: str, workspace: str) -> None:
    with pytest.raises(ArcoError):
        Scope(tenant, workspace)

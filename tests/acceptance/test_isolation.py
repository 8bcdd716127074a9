"""Workspaces that know nothing of each other (criterion 6): at the token, at the path, at the signature."""

import asyncio
from urllib.parse import urlsplit

import pytest

from arco.core import Invalid, ServiceIdentity
from arco.runtime import AsyncRuntime
from arco.storage import RequestCounts, Role, RoleStore, Scope
from tests.acceptance.conftest import NAMED, Served
from tests.acceptance.deployment import SECRET, Door, new_key

OURS, SIBLING, FOREIGN = NAMED


@pytest.fixture(scope="module")
def filled(served: dict[Scope, Served]) -> dict[Scope, Served]:
    """Three workspaces of two tenants, each with a namespace `sales` and a table named after the workspace."""
    chosen = {scope: served[scope] for scope in (OURS, SIBLING, FOREIGN)}
    for scope, found in chosen.items():
        if found.api.ask("GET", "/namespaces/sales").status_code == 404:  # the servers outlive this fixture
            found.api.done("POST", "/namespaces", {"name": "sales"})
            assert found.api.create_table(f"sales.of_{scope.tenant}_{scope.workspace}", 2).status_code == 201
    return chosen


def test_a_token_opens_its_own_workspace_only(filled: dict[Scope, Served]) -> None:
    for scope, found in filled.items():
        [table] = found.api.done("GET", "/tables", namespace="sales")["items"]
        assert table["name"] == f"sales.of_{scope.tenant}_{scope.workspace}"
        assert found.api.done("GET", "/whoami")["workspace"] == scope.workspace
    ours = filled[OURS].api
    for scope in (SIBLING, FOREIGN, Scope("acme", "absent"), Scope("nobody", "prod")):
        _, _, _, key_id, secret = ours.token.split("_", 4)
        forged = Door(ours.url, ours.http, f"arco_{scope.tenant}_{scope.workspace}_{key_id}_{secret}")
        answers = [
            forged.ask("GET", "/tables", namespace="sales"),
            forged.ask("POST", "/namespaces", {"name": "mine"}),
            forged.ask("POST", "/events", {"events": []}),
        ]
        # A workspace that exists and one that does not are answered alike.
        assert {answer.status_code for answer in answers} == {401}
        assert {answer.json()["detail"] for answer in answers} == {
            "this key is not valid here: unknown, revoked, expired, or of another workspace"
        }


def test_what_another_workspace_has_is_not_there(filled: dict[Scope, Served]) -> None:
    ours = filled[OURS].api
    for scope in (SIBLING, FOREIGN):
        other = filled[scope]
        before = other.bucket.objects()
        [theirs] = other.api.done("GET", "/tables", namespace="sales")["items"]
        operation = other.bucket.events("catalog")[-1][1].operation
        unknown = new_key()
        for method, path, body in (
            ("GET", "/tables/{}", None),
            ("GET", "/tables/{}/columns", None),
            ("GET", "/tables/{}/lineage", None),
            ("PATCH", "/tables/{}", {"description": "ours now"}),
            ("POST", "/tables/{}/rename", {"new_name": "sales.stolen"}),
            ("DELETE", "/tables/{}", None),
        ):
            answers = [ours.ask(method, path.format(f"id:{name}"), body) for name in (theirs["id"], unknown)]
            assert [answer.status_code for answer in answers] == [404, 404], (method, path)
            assert (
                answers[0].text.replace(theirs["id"], unknown).split('"request_id"')[0]
                == (answers[1].text.split('"request_id"')[0])
            )
        assert ours.done("GET", f"/operations/{operation}")["status"] == "unknown"
        assert ours.ask("GET", "/tables/sales.of_globex_prod").status_code == 404
        assert other.bucket.objects() == before


def test_no_path_leads_out_of_a_workspace(filled: dict[Scope, Served]) -> None:
    ours, theirs = filled[OURS], filled[SIBLING]
    stolen = theirs.bucket.objects()[0].path
    before = theirs.bucket.objects()
    for location in (
        f"../{SIBLING.workspace}/data/x",
        f"data/../../{SIBLING.workspace}/{stolen}",
        f"/{SIBLING.root}/{stolen}",
        f"{ours.bucket.site.url}/{SIBLING.root}/{stolen}",
        stolen,
    ):
        answer = ours.api.ask("POST", "/tables/register", {"name": "sales.stolen", "location": location})
        assert answer.status_code in (400, 404), (location, answer.text)
        query = ours.api.ask("POST", "/query", {"sql": f"select * from read_parquet('{location}')"})
        assert query.status_code == 400, query.text
    for table in (f"../{SIBLING.workspace}/tables", "api_keys", "role_bindings"):
        assert ours.api.ask("POST", "/browser/urls", {"tables": [{"table": table}]}).status_code == 404

    # The same at the lowest door: a handle cannot even name what is outside.
    async def escape(path: str) -> None:
        base = ours.bucket.site.open()
        handle = RoleStore(base, OURS, Role.OWNER, RequestCounts())
        try:
            for action in (handle.get(path), handle.head(path), handle.put(path, b"", only_if_absent=False)):
                with pytest.raises(Invalid):
                    await action
        finally:
            await base.close()

    for path in (f"../{SIBLING.workspace}/{stolen}", f"/{SIBLING.root}/{stolen}", f"a/../../{SIBLING.workspace}/x"):
        asyncio.run(escape(path))
    assert theirs.bucket.objects() == before


def test_a_signed_url_opens_one_object_of_its_own_workspace(filled: dict[Scope, Served]) -> None:
    """Local disk has no server that would check a signature, so ours does. The emulator of S3 checks none: there the
    URL must name an object below our workspace, sign what it names, and expire."""
    ours, theirs = filled[OURS], filled[SIBLING]
    asked = {"tables": [{"table": "tables"}], "expires_in": 60}
    [log] = ours.api.done("POST", "/browser/urls", asked)["logs"]
    urls = [log["manifest_url"], *(file["url"] for file in log["files"])]
    for url in urls:
        path = urlsplit(url).path
        assert f"/{OURS.root}/" in path
        assert "/private/" not in path
        assert SECRET not in url
        assert ours.api.http.get(url).status_code == 200
    if ours.bucket.site.kind == "s3":
        assert all("X-Amz-Signature=" in url and "X-Amz-Expires=60" in url for url in urls)
        return
    manifest = theirs.bucket.head("catalog")
    mine = ours.bucket.head("catalog")
    for forged in (
        urls[0].replace(f"/{OURS.root}/", f"/{SIBLING.root}/").replace(mine.incarnation, manifest.incarnation),
        urls[0].replace("/manifests/", "/private/"),
        urls[0].replace("expires=", "expires=9"),
        urls[0].partition("?")[0],
        urls[0].replace("/objects/", f"/objects/{SIBLING.root}/..%2f..%2f"),
    ):
        answer = ours.api.http.get(forged)
        assert answer.status_code in (403, 404), forged
        assert manifest.id.encode() not in answer.content


def test_a_service_of_one_workspace_is_none_of_another(filled: dict[Scope, Served]) -> None:
    ours = filled[OURS].api
    identity, stranger = (
        ServiceIdentity(secret.encode(), "test", AsyncRuntime()) for secret in (SECRET, SECRET.upper())
    )

    def path_of(scope: Scope) -> str:
        life = filled[scope].api.done("GET", "/whoami")["incarnation"] if scope in filled else "inc-x"
        return f"/internal/{scope.root}/logs/catalog/segments?incarnation={life}"

    signed = identity.headers("GET", path_of(OURS), b"")
    for scope in (SIBLING, FOREIGN):
        # A call for one workspace is not good for another one.
        assert ours.http.get(f"{ours.url}{path_of(scope)}", headers=signed).status_code == 401
        own = stranger.headers("GET", path_of(scope), b"")
        assert ours.http.get(f"{ours.url}{path_of(scope)}", headers=own).status_code == 401
        bearer = {"Authorization": f"Bearer {ours.token}"}
        assert ours.http.get(f"{ours.url}{path_of(scope)}", headers=bearer).status_code == 401
    absent = path_of(Scope("nobody", "prod"))
    assert ours.http.get(f"{ours.url}{absent}", headers=identity.headers("GET", absent, b"")).status_code == 401

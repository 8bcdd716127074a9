"""Signed URLs for browsers: exactly the files a query needs, readable in ranges, worth nothing when bent."""

import hashlib
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from arco.domains.access import UserRole
from arco.storage import sign_local
from tests.api.content import fill
from tests.api.stores import SECRET, SIGNED_URL
from tests.api.world import ACME, World, run_world


async def _signed(world: World, *tables: str, **more: Any) -> Any:
    await fill(world)
    return await world.done("POST", "/browser/urls", {"tables": [{"table": name} for name in tables], **more})


def test_urls_are_of_the_manifest_and_the_files_of_the_tables_asked_for() -> None:
    async def work(world: World) -> Any:
        signed = await _signed(world, "tables", "columns")
        [log] = signed["logs"]
        manifest = (await world.http.get(log["manifest_url"])).content
        found = []
        for file in log["files"]:
            last = file["offset"] + file["length"] - 1
            part = await world.http.get(file["url"], headers={"Range": f"bytes={file['offset']}-{last}"})
            found.append((part.status_code, hashlib.sha256(part.content).hexdigest() == file["sha256"]))
        return log, manifest, found

    log, manifest, found = run_world(work)
    assert log["log"] == "catalog"
    assert {file["table"] for file in log["files"]} == {"tables", "columns"}
    assert manifest
    assert set(found) == {(206, True)}


@pytest.mark.parametrize("name", ["api_keys", "settings", "role_bindings", "nothing", "", "../x", "tables "])
def test_private_and_unknown_tables_are_the_same_nothing(name: str) -> None:
    async def work(world: World) -> httpx.Response:
        await fill(world)
        return await world.ask("POST", "/browser/urls", {"tables": [{"table": name}]})

    answer = run_world(work)
    assert answer.status_code == 404
    assert "api_keys" not in answer.json()["detail"].partition(";")[2]


def test_groups_choose_fewer_files_and_never_more() -> None:
    async def work(world: World) -> list[int]:
        content = await fill(world)
        found = []
        for groups in (None, [content.table_id], ["nobody"]):
            body = {"tables": [{"table": "columns", "groups": groups}]}
            signed = await world.done("POST", "/browser/urls", body)
            found.append(len(signed["logs"][0]["files"]))
        return found

    everything, some, none = run_world(work)
    assert everything >= some >= 1
    assert none <= everything


def test_tables_of_two_logs_need_the_newest_revision() -> None:
    async def work(world: World) -> list[int]:
        await fill(world)
        tables = [{"table": "tables"}, {"table": "materializations"}]
        both = await world.ask("POST", "/browser/urls", {"tables": tables})
        one = await world.ask("POST", "/browser/urls", {"tables": tables, "revision": 1})
        kept = await world.ask("POST", "/browser/urls", {"tables": tables[:1], "revision": 1})
        gone = await world.ask("POST", "/browser/urls", {"tables": tables[:1], "revision": 10_000})
        twice = await world.ask("POST", "/browser/urls", {"tables": tables[:1] * 2})
        return [answer.status_code for answer in (both, one, kept, gone, twice)]

    both, one, kept, gone, twice = run_world(work)
    assert (both, one, gone, twice) == (200, 400, 404, 400)
    assert kept in (200, 404)


def test_urls_live_as_long_as_asked_and_no_longer() -> None:
    async def work(world: World) -> list[int]:
        url = (await _signed(world, "tables", expires_in=1))["logs"][0]["manifest_url"]
        before = await world.http.get(url)
        await world.host.runtime.sleep(1.1)
        return [before.status_code, (await world.http.get(url)).status_code]

    assert run_world(work) == [200, 403]


@pytest.mark.parametrize("seconds", [0, -1, 3601, 1.5, "60"])
def test_a_life_that_is_none_is_refused(seconds: Any) -> None:
    async def work(world: World) -> int:
        body = {"tables": [{"table": "tables"}], "expires_in": seconds}
        return (await world.ask("POST", "/browser/urls", body)).status_code

    assert run_world(work) == 400


# Reading them


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        (None, 200, slice(None)),
        ("bytes=0-3", 206, slice(0, 4)),
        ("bytes=2-", 206, slice(2, None)),
        ("bytes=-5", 206, slice(-5, None)),
        ("bytes=0-99999999", 206, slice(None)),
        ("bytes=99999999-", 416, None),
        ("bytes=5-2", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=", 416, None),
        ("bytes=0-1,3-4", 416, None),
        ("items=0-1", 416, None),
        ("bytes=" + "9" * 5000 + "-", 416, None),
        ("bytes=²-", 416, None),
    ],
)
def test_ranges_are_answered_as_a_bucket_would(wanted: str | None, status: int, part: slice | None) -> None:
    async def work(world: World) -> tuple[bytes, httpx.Response, httpx.Response]:
        url = (await _signed(world, "tables"))["logs"][0]["manifest_url"]
        whole = (await world.http.get(url)).content
        headers: Any = {"Range": wanted.encode()} if wanted is not None else {}
        return whole, await world.http.get(url, headers=headers), await world.http.head(url, headers=headers)

    whole, answer, head = run_world(work)
    assert answer.status_code == head.status_code == status
    if part is None:
        assert answer.headers["content-range"] == f"bytes */{len(whole)}"
        return
    assert answer.content == whole[part]
    assert head.content == b""
    assert head.headers["content-length"] == answer.headers["content-length"] == str(len(whole[part]))
    assert answer.headers["accept-ranges"] == "bytes"
    if status == 206:
        start = part.indices(len(whole))[0]
        assert answer.headers["content-range"] == f"bytes {start}-{start + len(whole[part]) - 1}/{len(whole)}"


def _bent(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    expires, signature = query["expires"][0], query["signature"][0]
    base = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return {
        "another expiry": f"{base}?expires={int(expires) + 1}&signature={signature}",
        "no signature": f"{base}?expires={expires}",
        "no expiry": f"{base}?signature={signature}",
        "nothing": base,
        "another signature": f"{base}?expires={expires}&signature={signature[::-1]}",
        "an upper signature": f"{base}?expires={expires}&signature={signature.upper()}",
        "a shorter signature": f"{base}?expires={expires}&signature={signature[:-1]}",
        "one more parameter": f"{base}?expires={expires}&signature={signature}&x=1",
        "the same twice": f"{base}?expires={expires}&signature={signature}&signature={signature}",
        "a longer path": f"{base}/x?expires={expires}&signature={signature}",
        "another path": f"{base}0?expires={expires}&signature={signature}",
        "a doubled slash": base.replace("/objects/", "/objects//") + f"?expires={expires}&signature={signature}",
        "a huge expiry": f"{base}?expires={'9' * 5000}&signature={signature}",
        "a negative expiry": f"{base}?expires=-{expires}&signature={signature}",
        "letters beyond ASCII": f"{base}?expires={expires}&signature=%C3%A9",
    }


@pytest.mark.parametrize("way", list(_bent("http://x/objects/a?expires=1&signature=a")))
def test_a_bent_url_reads_nothing(way: str) -> None:
    async def work(world: World) -> tuple[httpx.Response, int]:
        url = (await _signed(world, "tables"))["logs"][0]["manifest_url"]
        before = world.workspace().counts.count()
        answer = await world.http.get(_bent(url)[way])
        return answer, world.workspace().counts.count() - before

    answer, asked = run_world(work)
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:arco:problem:forbidden"
    assert asked == 0


def test_an_object_that_is_gone_is_not_found_and_a_bare_workspace_is_nothing() -> None:
    async def work(world: World) -> list[int]:
        expires = world.host.runtime.now() + 60_000_000
        paths = (f"{ACME.root}/data/gone", ACME.root, "nobody/here/x", "single")
        urls = [sign_local(SECRET, SIGNED_URL, path, expires) for path in paths]
        return [(await world.http.get(url)).status_code for url in urls]

    assert run_world(work) == [404, 403, 403, 403]


def test_a_url_needs_no_key_and_answers_nothing_but_get_and_head() -> None:
    async def work(world: World) -> list[int]:
        owner = await world.token(UserRole.OWNER)
        await fill(world, token=owner)
        body = {"tables": [{"table": "tables"}]}
        signed = await world.done("POST", "/browser/urls", body, token=owner)
        url = signed["logs"][0]["manifest_url"]
        return [(await world.http.request(method, url)).status_code for method in ("GET", "HEAD", "PUT", "DELETE")]

    assert run_world(work) == [200, 200, 405, 405]

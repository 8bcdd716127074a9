"""Deployments over HTTP: code by its hash, what a deploy would change, what is refused, going back, request keys."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from arco.api._limits import CODE_BYTES
from arco.assets import AssetDefinition, Dimension, DynamicPartitions, Project, SchemaColumn
from arco.core import new_ulid
from arco.storage import Role
from tests.api.workers import CODE, SHA256, Worker, body_of, deploy, put_code
from tests.api.world import World, run_world
from tests.servo.world import chain, project

BARE = AssetDefinition(key="n.a", function="pipeline:make", code_version="1")
CUSTOMERS = Dimension("customer", DynamicPartitions("customers"))


def _key(world: World) -> dict[str, str]:
    return {"Idempotency-Key": new_ulid(world.host.runtime, world.host.runtime)}


async def _position(world: World) -> int:
    return await world.workspace().logs["catalog"].current()


def _schema(*columns: tuple[str, str]) -> Project:
    return Project((msgspec.structs.replace(BARE, schema=tuple(SchemaColumn(*column) for column in columns)),))


# Code


def test_code_is_stored_under_its_hash_once_and_a_worker_gets_it() -> None:
    async def work(world: World) -> tuple[list[httpx.Response], list[httpx.Response]]:
        stored = [await put_code(world), await put_code(world)]
        worker = Worker(world)
        return stored, [await worker.call("GET", f"/code/{name}") for name in (SHA256, "0" * 64, "x", SHA256.upper())]

    stored, got = run_world(work)
    assert [answer.json() for answer in stored] == [{"sha256": SHA256, "byte_size": len(CODE)}] * 2
    assert [answer.status_code for answer in got] == [200, 404, 400, 400]
    assert got[0].content == CODE


def test_code_of_another_hash_is_not_stored() -> None:
    async def work(world: World) -> tuple[list[httpx.Response], list[str]]:
        answers = [
            await put_code(world, b"something else", sha256=SHA256),
            await put_code(world, b"", sha256=SHA256),
            await put_code(world, CODE, sha256="0" * 63),
            await put_code(world, CODE, sha256=SHA256.upper()),
            await put_code(world, CODE, sha256="..%2f..%2fdata"),
        ]
        return answers, [info.path async for info in world.workspace().handle(Role.READER).list("code")]

    answers, stored = run_world(work)
    assert [answer.status_code for answer in answers] == [400, 400, 400, 400, 404]
    assert stored == []


def test_code_that_is_too_large_is_not_even_read() -> None:
    async def work(world: World) -> list[int]:
        headers = {"Content-Type": "application/zip", "Content-Length": str(CODE_BYTES + 1)}
        declared = await world.http.put(f"/api/v1/code/{SHA256}", content=b"x", headers=headers)
        taken = 0

        async def endless() -> Any:
            nonlocal taken
            while taken <= 2 * CODE_BYTES:
                taken += 1 << 20
                yield b"x" * (1 << 20)

        streamed = await world.http.put(f"/api/v1/code/{SHA256}", content=endless())
        assert taken <= CODE_BYTES + (2 << 20)
        large = b"x" * (2 << 20)  # more than other bodies may have
        kept = await put_code(world, large)
        return [declared.status_code, streamed.status_code, kept.status_code]

    assert run_world(work) == [413, 413, 200]


# Deploying


def test_a_deploy_tells_what_is_new_changed_gone_and_affected() -> None:
    async def work(world: World) -> list[Any]:
        first = await deploy(world, project({"n.a": [], "n.b": ["n.a"], "n.c": []}))
        changed = project({"n.a": [], "n.b": ["n.a"], "n.d": []})
        changed = msgspec.structs.replace(
            changed,
            assets=tuple(
                msgspec.structs.replace(asset, code_version="new") if asset.key == "n.a" else asset
                for asset in changed.assets
            ),
        )
        dry = await world.done("POST", "/deployments", body_of(changed, dry_run=True))
        before = await _position(world)
        again = await world.done("POST", "/deployments", body_of(changed, dry_run=True))
        assert (dry, before) == (again, await _position(world))
        done = await deploy(world, changed, message="second")
        return [first, dry, done, await world.done("GET", "/deployments")]

    first, dry, done, listed = run_world(work)
    assert first["diff"]["added"] == ["n.a", "n.b", "n.c"]
    assert dry["deployment_id"] is dry["operation_id"] is None
    assert dry["diff"] == done["diff"]
    assert dry["code_version"] == done["code_version"]
    assert (done["diff"]["added"], done["diff"]["removed"], done["diff"]["renamed"]) == (["n.d"], ["n.c"], [])
    assert done["diff"]["changed"] == [{"key": "n.a", "fields": ["code"]}]
    assert [text.partition(":")[0] for text in done["diff"]["affected"]] == ["n.b"]
    assert [(row["deployment_id"], row["current"], row["message"]) for row in listed["items"]] == [
        (done["deployment_id"], True, "second"),
        (first["deployment_id"], False, ""),
    ]


def test_a_dry_run_needs_no_code_and_a_deploy_does() -> None:
    async def work(world: World) -> list[httpx.Response]:
        return [
            await world.ask("POST", "/deployments", body_of(project(chain(1)), dry_run=True)),
            await world.ask("POST", "/deployments", body_of(project(chain(1)))),
        ]

    dry, refused = run_world(work)
    assert dry.status_code == 201
    assert refused.status_code == 409
    assert f"/api/v1/code/{SHA256}" in refused.json()["detail"]


def test_a_deploy_of_what_is_current_changes_nothing() -> None:
    async def work(world: World) -> tuple[Any, Any, bool]:
        first = await deploy(world, project(chain(2)))
        before = await _position(world)
        again = await deploy(world, project(chain(2)))
        return first, again, await _position(world) == before

    first, again, untouched = run_world(work)
    assert again["deployment_id"] == first["deployment_id"]
    assert again["diff"] == {name: [] for name in first["diff"]} | {"unchanged": 2}
    assert untouched


def test_a_deploy_is_refused_if_somebody_was_faster() -> None:
    async def work(world: World) -> list[httpx.Response]:
        first = await deploy(world, project(chain(1)), expected_current="")
        await deploy(world, project(chain(2)), expected_current=first["deployment_id"])
        answers = []
        for expected in ("", first["deployment_id"], "nothing"):
            for dry_run in (False, True):
                body = body_of(project(chain(3)), expected_current=expected, dry_run=dry_run)
                answers.append(await world.ask("POST", "/deployments", body))
        return answers

    answers = run_world(work)
    assert [answer.status_code for answer in answers] == [412] * 6
    assert all(answer.json()["details"]["current"] for answer in answers)


def test_of_several_deploys_at_once_one_wins_and_the_others_look_again() -> None:
    async def work(world: World) -> list[httpx.Response]:
        await deploy(world, project(chain(1)))
        bodies = [body_of(project(chain(number))) for number in range(2, 6)]
        return await asyncio.gather(*(world.ask("POST", "/deployments", body) for body in bodies))

    answers = run_world(work)
    assert sorted(answer.status_code for answer in answers) == [201, 412, 412, 412]


INVALID: dict[str, Any] = {
    "no project": {"assets": "none"},
    "a field that nobody knows": {"assets": [], "colour": "blue"},
    "assets that are no assets": {"assets": [1]},
    "an asset without a key": {"assets": [{"function": "a:b"}]},
    "code without a hash": {**body_of(project(chain(1)))["project"], "code_sha256": "x"},
    "code that would escape": {**body_of(project(chain(1)))["project"], "code_sha256": "../../data/x"},
    "a cycle": body_of(project({"n.a": ["n.b"], "n.b": ["n.a"]}))["project"],
    "a dependency on nothing": body_of(project({"n.a": ["n.nothing"]}))["project"],
    "two assets with one key": body_of(Project((BARE, BARE)))["project"],
    "a key that is none": body_of(Project((msgspec.structs.replace(BARE, key="a/b"),)))["project"],
}


def test_a_project_that_is_wrong_is_refused_with_everything_that_is_wrong() -> None:
    async def work(world: World) -> tuple[dict[str, httpx.Response], bool]:
        await put_code(world)
        before = await _position(world)
        answers = {name: await world.ask("POST", "/deployments", {"project": given}) for name, given in INVALID.items()}
        return answers, await _position(world) == before

    answers, untouched = run_world(work)
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(INVALID, 400)
    assert answers["a cycle"].json()["details"]["problems"]
    assert untouched


def test_a_schema_that_readers_would_not_survive_needs_a_word() -> None:
    async def work(world: World) -> tuple[Any, httpx.Response, Any, Any]:
        await deploy(world, _schema(("id", "long"), ("name", "string")))
        broken = _schema(("id", "string"))
        dry = await world.done("POST", "/deployments", body_of(broken, dry_run=True))
        refused = await world.ask("POST", "/deployments", body_of(broken))
        current = await world.done("GET", "/deployments")
        return dry, refused, current, await deploy(world, broken, allow_breaking=True)

    dry, refused, current, done = run_world(work)
    assert len(dry["warnings"]) == 1
    assert refused.status_code == 409
    assert refused.json()["details"]["breaking"] == dry["warnings"] == done["warnings"]
    assert len(current["items"]) == 1


# Going back


def test_going_back_is_a_deploy_of_what_was() -> None:
    async def work(world: World) -> tuple[Any, Any, Any, Any, list[int]]:
        first = await deploy(world, project(chain(2)))
        ids = (await world.done("GET", "/assets/n.a0001"))["asset_id"]
        await deploy(world, project({"n.other": []}))
        path = f"/deployments/{first['deployment_id']}/rollback"
        back = await world.done("POST", path, {"message": "oops"})
        assert (await world.done("GET", "/assets/n.a0001"))["asset_id"] == ids
        unknown = await world.ask("POST", "/deployments/nothing/rollback", {})
        return (
            first,
            back,
            await world.done("POST", path, {}),
            await world.done("GET", "/deployments"),
            [unknown.status_code],
        )

    first, back, again, listed, unknown = run_world(work)
    assert back["code_version"] == first["code_version"]
    assert back["deployment_id"] != first["deployment_id"]
    assert (back["diff"]["added"], back["diff"]["removed"]) == (["n.a0000", "n.a0001"], ["n.other"])
    assert again["deployment_id"] == back["deployment_id"], "that is current already"
    newest = listed["items"][0]
    assert (newest["deployment_id"], newest["rollback_of"], newest["current"]) == (
        back["deployment_id"],
        first["deployment_id"],
        True,
    )
    assert unknown == [404]


# Request keys


@pytest.mark.parametrize("what", ["deploy", "deploy what is current", "roll back"])
def test_the_same_request_is_answered_the_same_way_whatever_was_deployed_since(what: str) -> None:
    async def work(world: World) -> tuple[Any, list[Any], bool]:
        first = await deploy(world, project(chain(2)))
        path, body = "/deployments", body_of(project(chain(3)), expected_current=first["deployment_id"])
        if what == "deploy what is current":
            body = body_of(project(chain(2)), expected_current=first["deployment_id"])
        if what == "roll back":
            await deploy(world, project(chain(4)))
            path, body = f"/deployments/{first['deployment_id']}/rollback", {"message": "back"}
        headers = _key(world)
        done = await world.done("POST", path, body, headers=headers)
        again = [await world.done("POST", path, body, headers=headers)]
        await deploy(world, project({"n.other": []}))
        before = await _position(world)
        again.append(await world.done("POST", path, body, headers=headers))
        return done, again, await _position(world) == before

    done, again, untouched = run_world(work)
    assert again == [done | {"replayed": True}] * 2
    assert untouched


def test_a_request_key_of_another_deploy_is_refused_with_both_fingerprints() -> None:
    async def work(world: World) -> list[httpx.Response]:
        await put_code(world)
        headers, given = _key(world), project(chain(1))
        bodies = [
            body_of(given),
            body_of(project(chain(2))),
            body_of(given, message="x"),
            body_of(given, allow_breaking=True),
        ]
        return [await world.ask("POST", "/deployments", body, headers=headers) for body in bodies]

    first, *others = run_world(work)
    assert first.status_code == 201
    for answer in others:
        assert answer.status_code == 409, answer.text
        assert len({answer.json()["details"][name] for name in ("stored", "given")}) == 2


def test_deployments_are_listed_by_the_page_and_as_they_were() -> None:
    async def work(world: World) -> tuple[list[str], list[str], Any]:
        made = [await deploy(world, project(chain(number))) for number in range(1, 6)]
        found: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = await world.done("GET", "/deployments", **query)
            found += [row["deployment_id"] for row in page["items"]]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        past = await world.done("GET", "/deployments", as_of=made[1]["position"])
        return [one["deployment_id"] for one in made], found, past

    made, found, past = run_world(work)
    assert found == made[::-1]
    assert [(row["deployment_id"], row["current"]) for row in past["items"]] == [(made[1], True), (made[0], False)]


# Dynamic partitions


def test_keys_of_dynamic_partitions_come_and_go() -> None:
    async def work(world: World) -> tuple[Any, ...]:
        path = "/partitions/customers"
        empty = await world.done("GET", path)
        await deploy(world, Project((msgspec.structs.replace(BARE, partitions=(CUSTOMERS,)),)))
        await world.done("POST", path, {"keys": ["b", "a", "b"]})
        before = await _position(world)
        await world.done("POST", path, {"keys": ["a"]})
        assert await _position(world) == before
        await world.done("POST", path, {"keys": ["c"]})
        pages = [await world.done("GET", path, limit=2)]
        pages.append(await world.done("GET", path, limit=2, cursor=pages[0]["next_cursor"]))
        count = (await world.done("GET", "/assets/n.a"))["partition_count"]
        missing = await world.ask("POST", f"{path}/drop", {"keys": ["a", "nobody"]})
        await world.done("POST", f"{path}/drop", {"keys": ["b"]})
        return empty, pages, count, missing, await world.done("GET", path)

    empty, pages, count, missing, after = run_world(work)
    assert (empty["keys"], empty["next_cursor"]) == ([], None)
    assert [page["keys"] for page in pages] == [["a", "b"], ["c"]]
    assert pages[1]["next_cursor"] is None
    assert count == 3
    assert missing.status_code == 404
    assert after["keys"] == ["a", "c"]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("customers", []),
        ("customers", [""]),
        ("customers", ["a\nb"]),
        ("customers", ["a,b"]),
        ("customers", ["*"]),
        ("customers", ["a" * 257]),
        ("customers", ["a"] * 10_001),
        ("a\u200bb", ["a"]),
        ("a" * 129, ["a"]),
    ],
)
def test_bad_keys_of_dynamic_partitions_are_refused(name: str, keys: list[str]) -> None:
    async def work(world: World) -> list[int]:
        before = await _position(world)
        answers = [await world.ask("POST", f"/partitions/{name}{what}", {"keys": keys}) for what in ("", "/drop")]
        assert await _position(world) == before
        return [answer.status_code for answer in answers]

    assert set(run_world(work)) <= {400, 413}


def test_keys_are_added_once_under_a_request_key() -> None:
    async def work(world: World) -> tuple[Any, Any]:
        headers = _key(world)
        first = await world.done("POST", "/partitions/customers", {"keys": ["a"]}, headers=headers)
        await world.done("POST", "/partitions/customers/drop", {"keys": ["a"]})
        again = await world.done("POST", "/partitions/customers", {"keys": ["a"]}, headers=headers)
        assert (await world.done("GET", "/partitions/customers"))["keys"] == []
        return first, again

    first, again = run_world(work)
    assert again == first | {"replayed": True}

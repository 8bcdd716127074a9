"""Access delegation: who gets which credentials, when they are made anew, and that 304 is not told without them."""

from dataclasses import dataclass, replace
from typing import Any

from arco.api import Door
from arco.api.iceberg._vended import Vended
from arco.core import Clock, Forbidden, Unavailable, new_ulid
from arco.domains.access import UserRole
from arco.iceberg import Credentials, Unsupported, Who, signer_for
from arco.iceberg.metadata import parse_create
from tests.api.iceberg.content import table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import ACME, World, run_world

NS = namespace("ns")
T = f"{NS}/tables/t"
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}


@dataclass
class Counter:
    """A clock that is set by hand."""

    inner: Clock
    ahead: int = 0

    def now(self) -> int:
        return self.inner.now() + self.ahead

    def boottime(self) -> float:
        return self.inner.boottime()


class FakeVendor:
    refresh_key = "client.refresh-credentials-endpoint"

    def __init__(self, clock: Counter) -> None:
        self.clock = clock
        self.asked: list[tuple[str, bool]] = []
        self.refuses: Exception | None = None

    async def vend(self, location: str, *, write: bool, lifetime: int = 3600) -> Credentials:
        if self.refuses is not None:
            raise self.refuses
        self.asked.append((location, write))
        return Credentials(
            f"{location}/",
            {"s3.access-key-id": f"{'w' if write else 'r'}{len(self.asked)}"},
            self.clock.now() // 1000 + 3_600_000,
        )

    async def close(self) -> None: ...


def _with_vendor(world: World) -> tuple[FakeVendor, Counter]:
    clock = Counter(world.host.runtime)
    vendor = FakeVendor(clock)
    found = world.host.warehouse_of(ACME)
    world.host.warehouses[ACME] = replace(found, vendor=Vended(vendor, clock))
    return vendor, clock


async def _made(world: World) -> Any:
    await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
    return await done(world, "POST", f"{NS}/tables", table())


def test_credentials_are_for_the_table_and_for_who_asks_for_them() -> None:
    async def work(world: World) -> None:
        vendor, _ = _with_vendor(world)
        made = await _made(world)
        location = made["metadata"]["location"]
        assert "storage-credentials" not in await done(world, "GET", T)
        for role, expected in ((UserRole.EDITOR, True), (UserRole.VIEWER, False)):
            token = await world.token(role)
            answer = await ask(world, "GET", T, headers=VENDED, token=token)
            found = answer.json()
            assert vendor.asked[-1] == (location, expected)
            assert found["storage-credentials"][0]["prefix"] == f"{location}/"
            endpoint = "v1/acme.prod/namespaces/ns/tables/t/credentials"
            assert found["config"] == {"client.refresh-credentials-endpoint": endpoint}
            assert "no-store" in answer.headers["cache-control"]
            again = await ask(world, "GET", f"/{endpoint}", token=token)
            assert again.json() == {"storage-credentials": found["storage-credentials"]}
            assert again.headers["cache-control"] == "no-store"
        assert len(vendor.asked) == 2

    run_world(work)


def test_a_plan_comes_with_what_reads_whoever_asks_for_it() -> None:
    async def work(world: World) -> None:
        vendor, _ = _with_vendor(world)
        await _made(world)
        for role in (UserRole.EDITOR, UserRole.VIEWER):
            plan = await done(world, "POST", f"{T}/plan", {}, headers=VENDED, token=await world.token(role))
            assert plan["storage-credentials"][0]["config"] == {"s3.access-key-id": "r1"}
        assert [write for _, write in vendor.asked] == [False]

    run_world(work)


def test_credentials_for_the_table_of_an_asset_read_its_data_and_write_nothing() -> None:
    async def work(world: World) -> None:
        vendor, _ = _with_vendor(world)
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        runtime, warehouse = world.host.runtime, world.host.warehouse_of(ACME)
        asset = new_ulid(runtime, runtime)
        owned = parse_create(table() | {"properties": {"arco.asset-id": asset}})
        made = await warehouse.tables.create(("ns", "t"), owned, Who("servo", new_ulid(runtime, runtime), "servo"))
        places = [str(made.metadata["location"]), f"memory://store/{ACME.root}/data/{asset}"]
        answer = await ask(world, "GET", T, headers=VENDED, token=await world.token(UserRole.EDITOR))
        assert vendor.asked == [(place, False) for place in places]
        assert [one["prefix"] for one in answer.json()["storage-credentials"]] == [f"{place}/" for place in places]
        known = VENDED | {"If-None-Match": answer.headers["etag"]}
        token = await world.token(UserRole.EDITOR)
        assert (await ask(world, "GET", T, headers=known, token=token)).status_code == 304
        refused = await ask(world, "POST", T, {"updates": [], "requirements": []}, token=token)
        assert error_of(refused)[:2] == (403, "ForbiddenException")
        body = table() | {"name": "other", "properties": {"arco.asset-id": asset}}
        status, _, message = error_of(await ask(world, "POST", f"{NS}/tables", body, token=token))
        assert (status, "arco.asset-id" in message) == (400, True)

    run_world(work)


def test_credentials_are_made_anew_when_half_of_their_life_is_over() -> None:
    async def work(world: World) -> None:
        vendor, clock = _with_vendor(world)
        await _made(world)
        for ahead, count in ((0, 1), (1700, 1), (1900, 2), (2000, 2)):
            clock.ahead = ahead * 1_000_000
            await done(world, "GET", T, headers=VENDED)
            assert len(vendor.asked) == count

    run_world(work)


def test_304_is_not_told_once_the_credentials_end() -> None:
    async def work(world: World) -> None:
        vendor, clock = _with_vendor(world)
        await _made(world)
        plain = (await ask(world, "GET", T)).headers["etag"]
        tag = (await ask(world, "GET", T, headers=VENDED)).headers["etag"]
        assert tag != plain
        assert (await ask(world, "GET", T, headers=VENDED | {"If-None-Match": plain})).status_code == 200
        assert (await ask(world, "GET", T, headers={"If-None-Match": tag})).status_code == 200
        assert (await ask(world, "GET", T, headers=VENDED | {"If-None-Match": tag})).status_code == 304
        ended = tag.rpartition("w")[0] + f'w{world.host.runtime.now() // 1_000_000 + 60}"'
        assert (await ask(world, "GET", T, headers=VENDED | {"If-None-Match": ended})).status_code == 200
        viewer = await world.token(UserRole.VIEWER)
        answer = await ask(world, "GET", T, headers=VENDED | {"If-None-Match": tag}, token=viewer)
        assert answer.status_code == 200
        assert clock.ahead == 0
        assert len(vendor.asked) == 2

    run_world(work)


def test_what_cannot_be_limited_is_not_granted() -> None:
    async def work(world: World) -> None:
        vendor, _ = _with_vendor(world)
        await _made(world)
        for refusal, status in ((Unsupported("no"), 406), (Forbidden("no"), 403), (Unavailable("later"), 503)):
            vendor.refuses = refusal
            assert error_of(await ask(world, "GET", f"{T}/credentials"))[0] == status
            answer = await ask(world, "GET", T, headers=VENDED)
            if status == 503:
                assert error_of(answer)[0] == 503
                assert "retry-after" in answer.headers
            else:
                assert "storage-credentials" not in answer.json()
                assert answer.json()["config"] == {}

    run_world(work)


def test_nothing_is_vended_for_a_table_that_is_refused() -> None:
    async def work(world: World) -> None:
        vendor, _ = _with_vendor(world)
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        for staged in (True, False):
            body = table(location="memory://elsewhere/t", stage=staged)
            assert (await ask(world, "POST", f"{NS}/tables", body, headers=VENDED)).status_code == 400
        assert vendor.asked == []
        staged_table = await done(world, "POST", f"{NS}/tables", table(stage=True), headers=VENDED)
        assert vendor.asked == [(staged_table["metadata"]["location"], True)]

    run_world(work)


def test_a_store_without_credentials_grants_none() -> None:
    async def work(world: World) -> None:
        await _made(world)
        found = await done(world, "GET", T, headers=VENDED)
        assert found["config"] == {}
        assert "storage-credentials" not in found
        assert await done(world, "GET", f"{T}/credentials") == {"storage-credentials": []}
        body = {"region": "x", "uri": "https://x/", "method": "GET", "headers": {}}
        assert error_of(await ask(world, "POST", f"{T}/sign", body))[:2] == (406, "UnsupportedOperationException")

    run_world(work)


def test_requests_are_signed_for_who_may_send_them() -> None:
    async def work(world: World) -> None:
        options = {
            "access_key_id": "AK",
            "secret_access_key": "SK",
            "region": "eu-west-1",
            "endpoint": "http://s3.test",
        }
        signer = signer_for("s3://bucket", options, world.host.runtime)
        assert signer is not None
        found = world.host.warehouse_of(ACME)

        class Places:
            """The table's place as it would be on S3."""

            def check_stored(self, location: str) -> str:
                return location.replace("memory://store", "s3://bucket")

            async def close(self) -> None: ...

        world.host.warehouses[ACME] = replace(found, signer=signer, locations=Places())  # type: ignore[arg-type]
        made = await _made(world)
        key = made["metadata"]["location"].replace("memory://store/", "")
        headers = {"X-Iceberg-Access-Delegation": "vended-credentials, remote-signing"}
        answer = await ask(world, "GET", T, headers=headers)
        config = answer.json()["config"]
        assert config["s3.remote-signing-enabled"] == "true"
        assert config["s3.signer.endpoint"] == "v1/acme.prod/namespaces/ns/tables/t/sign"
        tag = answer.headers["etag"]
        assert (await ask(world, "GET", T, headers=headers | {"If-None-Match": tag})).status_code == 304
        path = f"/{config['s3.signer.endpoint']}"
        viewer, editor = await world.token(UserRole.VIEWER), await world.token(UserRole.EDITOR)
        for token, method, status in ((viewer, "GET", 200), (viewer, "PUT", 403), (editor, "PUT", 200)):
            uri = f"http://s3.test/bucket/{key}/data/f.parquet"
            body = {"region": "eu-west-1", "uri": uri, "method": method, "headers": {}}
            signed = await ask(world, "POST", path, body, token=token)
            assert signed.status_code == status, signed.text
            if status == 200:
                assert signed.headers["cache-control"] in ("private", "no-cache")
                assert any(name.lower() == "authorization" for name in signed.json()["headers"])
        other = {"region": "eu-west-1", "uri": "http://s3.test/bucket/other/x", "method": "GET", "headers": {}}
        assert error_of(await ask(world, "POST", path, other))[0] == 403

    run_world(work, door=Door.DEVELOPMENT)

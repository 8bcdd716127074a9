"""Credentials end at the table: what is asked of each cloud, and what S3 does with the result."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import httpx
import pytest

from arco.core import Forbidden, Invalid, StoreRefused, Unavailable
from arco.iceberg import BadRequest, Credentials, Unsupported, Vendor, vendor_for
from arco.iceberg._vending_azure import directory_signature
from arco.iceberg._vending_gcs import access_boundary
from arco.iceberg._vending_s3 import session_policy
from arco.storage import open_store
from tests.doubles import START, FakeRuntime, run
from tests.emulators.policies import evaluate
from tests.emulators.servers import BUCKET, Emulator, run_guarded_moto

ROLE = "arn:aws:iam::123456789012:role/arco-tables"
KEYS = {"access_key_id": "test", "secret_access_key": "very-hidden", "region": "eu-west-1"}
S3 = {**KEYS, "vend_role_arn": ROLE}
TABLE = "t/w/warehouse/01abc"


class Cloud:
    """Answers as it is told to, and remembers what it was asked."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self.answers.pop(0)

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.asked[-1].content.decode()))


ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s3cret</SecretAccessKey><SessionToken>tok</SessionToken>
<Expiration>2026-01-01T01:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


def vendor(url: str, options: dict[str, Any], cloud: Cloud | None = None) -> Vendor:
    found = vendor_for(url, options, FakeRuntime(), client=cloud.client() if cloud else None)
    assert found is not None
    return found


def vend(vendor: Vendor, location: str, *, write: bool = False, lifetime: int = 3600) -> Credentials:
    async def asking() -> Credentials:
        return await vendor.vend(location, write=write, lifetime=lifetime)

    return run(asking())


class TestS3:
    def test_what_is_asked_and_answered(self) -> None:
        cloud = Cloud(httpx.Response(200, text=ASSUMED))
        made = vend(vendor(f"s3://{BUCKET}", S3, cloud), f"s3://{BUCKET}/{TABLE}/", write=True, lifetime=60)
        assert str(cloud.asked[0].url) == "https://sts.eu-west-1.amazonaws.com/"
        assert cloud.form["RoleArn"] == ROLE
        assert cloud.form["DurationSeconds"] == "900"
        assert cloud.form["RoleSessionName"] == "arco-01abc"
        assert "ExternalId" not in cloud.form
        assert json.loads(cloud.form["Policy"]) == session_policy("aws", BUCKET, TABLE, write=True)
        assert made == Credentials(
            f"s3://{BUCKET}/{TABLE}/",
            {
                "s3.access-key-id": "ASIA1",
                "s3.secret-access-key": "s3cret",
                "s3.session-token": "tok",
                "s3.session-token-expires-at-ms": "1767229200000",
                "client.region": "eu-west-1",
            },
            1_767_229_200_000,
        )
        assert "s3cret" not in repr(made)
        assert "very-hidden" not in str(cloud.asked[0].headers) + cloud.asked[0].content.decode()

    def test_options_reach_the_request(self) -> None:
        cloud = Cloud(httpx.Response(200, text=ASSUMED))
        options = {**S3, "vend_external_id": "e-1", "endpoint": "https://minio:9000", "sts_endpoint": "https://sts/x"}
        made = vend(vendor(f"s3://{BUCKET}/t", options, cloud), f"s3://{BUCKET}/{TABLE}")
        assert str(cloud.asked[0].url) == "https://sts/x"
        assert cloud.form["ExternalId"] == "e-1"
        assert made.config["s3.endpoint"] == "https://minio:9000"
        assert made.config["s3.path-style-access"] == "true"

    def test_a_role_of_another_partition(self) -> None:
        cloud = Cloud(httpx.Response(200, text=ASSUMED))
        options = {**S3, "region": "cn-north-1", "vend_role_arn": "arn:aws-cn:iam::123456789012:role/r"}
        vend(vendor(f"s3://{BUCKET}", options, cloud), f"s3://{BUCKET}/{TABLE}")
        assert cloud.asked[0].url.host == "sts.cn-north-1.amazonaws.com.cn"
        assert f"arn:aws-cn:s3:::{BUCKET}" in cloud.form["Policy"]

    @pytest.mark.parametrize("name", ["a*b", "a?b", "${aws:username}", "a$"])
    def test_what_a_policy_could_misread_is_refused_before_anything_is_asked(self, name: str) -> None:
        cloud = Cloud()
        with pytest.raises((Forbidden, BadRequest)):
            vend(vendor(f"s3://{BUCKET}", S3, cloud), f"s3://{BUCKET}/w/{name}")
        assert cloud.asked == []

    @pytest.mark.parametrize(
        "location", ["s3://other/w/a", f"s3://{BUCKET}/t", f"s3://{BUCKET}/tt/a", "gs://arco-test/t/a"]
    )
    def test_a_location_elsewhere_is_refused(self, location: str) -> None:
        with pytest.raises(Forbidden, match="not below the store"):
            vend(vendor(f"s3://{BUCKET}/t", S3, Cloud()), location)

    def test_climbing_out_is_refused(self) -> None:
        with pytest.raises(Invalid):
            vend(vendor(f"s3://{BUCKET}/t", S3, Cloud()), f"s3://{BUCKET}/t/../u")

    @pytest.mark.parametrize(
        "answer",
        [
            httpx.Response(403, text="<Error><Code>AccessDenied</Code><Message>secret things</Message></Error>"),
            httpx.Response(200, text="no xml"),
            httpx.Response(200, text="<AccessKeyId>a</AccessKeyId>"),
            httpx.Response(302, headers={"location": "http://elsewhere"}),
        ],
    )
    def test_a_refusal_names_the_status_only(self, answer: httpx.Response) -> None:
        with pytest.raises(Unavailable, match="made no credentials") as caught:
            vend(vendor(f"s3://{BUCKET}", S3, Cloud(answer)), f"s3://{BUCKET}/{TABLE}")
        assert "secret" not in caught.value.message

    def test_a_wrong_role_is_refused_at_the_start(self) -> None:
        with pytest.raises(Invalid, match="vend_role_arn"):
            vendor(f"s3://{BUCKET}", {**S3, "vend_role_arn": "arco"})


@pytest.mark.parametrize("write", [True, False])
def test_the_policy_ends_at_the_table(write: bool) -> None:
    policy = session_policy("aws", "b", "w/orders", write=write, kms_key="arn:aws:kms:eu-west-1:1:key/k")

    def may(action: str, key: str) -> bool:
        return evaluate(policy, action, f"arn:aws:s3:::b/{key}", {})

    def lists(prefix: str | None) -> bool:
        return evaluate(policy, "s3:ListBucket", "arn:aws:s3:::b", {} if prefix is None else {"s3:prefix": prefix})

    assert may("s3:GetObject", "w/orders/data/1.parquet")
    assert may("s3:PutObject", "w/orders/data/1.parquet") == write
    assert may("s3:DeleteObject", "w/orders/data/1.parquet") == write
    for key in ("w/orders", "w/orders_private/a", "w/a", "orders/a"):
        assert not any(may(action, key) for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"))
    assert lists("w/orders/")
    assert lists("w/orders/data/")
    assert not any(lists(prefix) for prefix in (None, "", "w/", "w/orders", "w/orders_private/"))
    assert len(json.dumps(policy, separators=(",", ":"))) < 2048, "the most that STS takes"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Emulator, Path]]:
    with run_guarded_moto(tmp_path) as server:
        yield server, tmp_path


def test_a_session_of_the_emulator_reads_and_writes_its_table_only(guarded: tuple[Emulator, Path]) -> None:
    """STS of moto makes the session; the guard before its S3 decides by the policy that the session was asked with."""
    server, _ = guarded
    options = {**server.options, "vend_role_arn": ROLE}

    async def story() -> None:
        runtime = FakeRuntime()
        found = vendor_for(server.bucket_url, options, runtime)
        assert found is not None
        own = open_store(server.bucket_url, server.options)
        await own.put("w/orders/a", b"1", only_if_absent=True)
        await own.put("w/orders_private/a", b"2", only_if_absent=True)
        made = await found.vend(f"{server.bucket_url}/w/orders", write=True)
        await found.close()
        key = made.config["s3.access-key-id"]
        theirs = open_store(
            server.bucket_url,
            {
                "endpoint": made.config["s3.endpoint"],
                "region": made.config["client.region"],
                "access_key_id": key,
                "secret_access_key": made.config["s3.secret-access-key"],
                "session_token": made.config["s3.session-token"],
                "allow_http": True,
            },
        )
        assert await theirs.get("w/orders/a") == b"1"
        await theirs.put("w/orders/b", b"3", only_if_absent=True)
        assert [info.path async for info in theirs.list("w/orders")] == ["w/orders/a", "w/orders/b"]
        await theirs.delete("w/orders/b")
        with pytest.raises(StoreRefused):
            await theirs.get("w/orders_private/a")
        with pytest.raises(StoreRefused):
            await theirs.put("w/orders_private/b", b"", only_if_absent=True)
        with pytest.raises(StoreRefused):
            [info async for info in theirs.list("w")]
        await own.close()
        await theirs.close()

    asyncio.run(story())


class TestGcs:
    def cloud(self, **token: Any) -> Cloud:
        return Cloud(
            httpx.Response(200, json={"access_token": "own", "expires_in": 3000, "token_type": "Bearer"}),
            httpx.Response(200, json={"access_token": "down", "token_type": "Bearer", **token}),
        )

    @pytest.mark.parametrize(("token", "seconds"), [({"expires_in": 1200}, 1200), ({}, 3000)])
    def test_what_is_asked_and_answered(self, token: dict[str, int], seconds: int) -> None:
        cloud = self.cloud(**token)
        made = vend(vendor("gs://b", {}, cloud), "gs://b/w/orders")
        own, exchange = cloud.asked
        assert own.headers["Metadata-Flavor"] == "Google"
        assert str(exchange.url) == "https://sts.googleapis.com/v1/token"
        assert cloud.form["subject_token"] == "own"
        assert json.loads(cloud.form["options"]) == access_boundary("b", "w/orders", write=False)
        expires = START // 1000 + seconds * 1000
        assert made.expires_at_ms == expires
        assert made.config["gcs.oauth2.token"] == "down"
        assert made.config["gcs.oauth2.token-expires-at"] == str(made.expires_at_ms)

    def test_the_boundary_ends_at_the_table(self) -> None:
        rule = access_boundary("b", "w/orders", write=True)["accessBoundary"]["accessBoundaryRules"][0]
        assert rule["availablePermissions"] == ["inRole:roles/storage.objectUser"]
        assert rule["availabilityCondition"]["expression"] == (
            "resource.name.startsWith('projects/_/buckets/b/objects/w/orders/') || "
            "api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('w/orders/')"
        )

    @pytest.mark.parametrize("name", ["a'b", 'a"b', "a`b"])
    def test_a_quote_is_refused_before_anything_is_asked(self, name: str) -> None:
        cloud = self.cloud()
        with pytest.raises((Forbidden, BadRequest)):
            vend(vendor("gs://b", {}, cloud), f"gs://b/w/{name}")
        assert cloud.asked == []

    @pytest.mark.parametrize("answer", [httpx.Response(200, text="x"), httpx.Response(400, json={"error": "denied"})])
    def test_an_answer_without_a_token(self, answer: httpx.Response) -> None:
        with pytest.raises(Unavailable, match="GCP made no credentials"):
            vend(vendor("gs://b", {}, Cloud(answer)), "gs://b/w/orders")


class TestAzure:
    OPTIONS = {"account_name": "acc", "account_key": "aGlkZGVu", "hierarchical_namespace": "true"}  # noqa: RUF012

    def test_a_directory_is_signed(self) -> None:
        made = vend(vendor("az://files", self.OPTIONS), "abfss://files@acc.dfs.core.windows.net/w/orders", write=True)
        token = made.config["adls.sas-token.acc.dfs.core.windows.net"]
        fields = parse_qs(token)
        assert fields["sr"] == ["d"]
        assert fields["sdd"] == ["2"]
        assert fields["sp"] == ["racwdl"]
        assert fields["spr"] == ["https"]
        assert made.config["adls.sas-token-expires-at-ms.acc"] == str(made.expires_at_ms)
        assert token not in repr(made)

    @pytest.mark.parametrize("account", ["other.dfs.core.windows.net", "acc.dfs.core.chinacloudapi.cn", "acc"])
    def test_a_container_of_another_account_gets_nothing(self, account: str) -> None:
        with pytest.raises(Forbidden, match="not below the store"):
            vend(vendor("az://files", self.OPTIONS), f"abfss://files@{account}/w/orders", write=True)

    def test_the_signature_is_that_of_azures_library(self) -> None:
        """Made once by `generate_directory_sas` of azure-storage-file-datalake."""
        token = directory_signature(
            "acc", b"hidden", "files", "w/orders", "rl", starts=START, ends=START + 3600 * 1_000_000
        )
        assert parse_qs(token)["sig"] == ["H+GjqIO8vScwpB1rFnUlvX4DBZwYDcAqLYfy/F4yasU="]

    def test_without_directories_nothing_wider_is_made(self) -> None:
        options = {**self.OPTIONS, "hierarchical_namespace": "false"}
        with pytest.raises(Unsupported, match="hierarchical_namespace=true"):
            vend(vendor("az://files", options), "az://files/w/orders")

    def test_a_key_that_is_none(self) -> None:
        with pytest.raises(Invalid, match="account_key is not Base64"):
            vendor("az://files", {**self.OPTIONS, "account_key": "%%"})


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("file:///tmp/x", {}),
        ("memory://x", {}),
        ("s3://bucket", KEYS),
        ("s3://bucket", {"vend_role_arn": ROLE}),
        ("az://files", {"account_name": "acc", "sas_key": "x"}),
    ],
)
def test_where_nothing_is_handed_out(url: str, options: dict[str, str]) -> None:
    assert vendor_for(url, options, FakeRuntime()) is None


def test_the_stores_own_client_takes_the_options() -> None:
    open_store("s3://bucket", {**S3, "vend_external_id": "e", "sts_endpoint": "https://sts"})
    open_store("az://files", TestAzure.OPTIONS)

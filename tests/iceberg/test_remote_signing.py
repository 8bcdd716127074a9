"""Only requests that stay within the table are signed, and those work."""

import asyncio
import hashlib
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from botocore.awsrequest import AWSRequest
from pyiceberg.io.fsspec import S3V4RestSigner

from arco.core import Forbidden
from arco.iceberg import BadRequest, RemoteSigner, SignedRequest, parse_sign, signer_for
from tests.doubles import FakeRuntime, run
from tests.emulators.servers import Emulator

OPTIONS = {"access_key_id": "key", "secret_access_key": "hidden", "region": "eu-west-1"}
HERE = "https://s3.example.com"
TABLE = "w/orders"
LOCATION = f"s3://b/{TABLE}"


def make(**options: str) -> RemoteSigner:
    found = signer_for("s3://b/w", {**OPTIONS, "endpoint": HERE, **options}, FakeRuntime())
    assert found is not None
    return found


def sign(
    method: str,
    uri: str,
    *,
    write: bool = True,
    headers: dict[str, list[str]] | None = None,
    body: str | None = None,
    signer: RemoteSigner | None = None,
) -> SignedRequest:
    asked = {"method": method, "uri": uri, "region": "eu-west-1", "headers": headers or {}, "body": body}

    async def signing() -> SignedRequest:
        return (signer or make()).sign(parse_sign(asked), [LOCATION], write=write)

    return run(signing())


READS = [
    ("GET", f"/b/{TABLE}/data/a.parquet"),
    ("HEAD", f"/b/{TABLE}/metadata/1.json"),
    ("GET", f"/b/{TABLE}/a?partNumber=1"),
    ("GET", f"/b?list-type=2&prefix={quote(TABLE + '/', safe='')}"),
    ("GET", f"/b/?list-type=2&prefix={TABLE}/data&delimiter=/&max-keys=10&encoding-type=url"),
]
WRITES = [
    ("PUT", f"/b/{TABLE}/data/a.parquet"),
    ("PUT", f"/b/{TABLE}/a?partNumber=1&uploadId=x"),
    ("POST", f"/b/{TABLE}/a?uploads"),
    ("POST", f"/b/{TABLE}/a?uploadId=x"),
    ("DELETE", f"/b/{TABLE}/a"),
    ("DELETE", f"/b/{TABLE}/a?uploadId=x"),
]


@pytest.mark.parametrize(("method", "path"), READS + WRITES)
def test_what_a_writer_may_do(method: str, path: str) -> None:
    signed = sign(method, HERE + path)
    assert signed.headers["authorization"][0].startswith("AWS4-HMAC-SHA256 Credential=key/20260101/eu-west-1/s3/")
    assert signed.uri.startswith(f"{HERE}/b/")
    assert signed.cacheable == (method in ("GET", "HEAD"))


@pytest.mark.parametrize(("method", "path"), READS)
def test_what_a_reader_may_do(method: str, path: str) -> None:
    sign(method, HERE + path, write=False)


@pytest.mark.parametrize(("method", "path"), [*WRITES, ("POST", "/b?delete")])
def test_a_reader_gets_no_write_signed(method: str, path: str) -> None:
    with pytest.raises(Forbidden, match="may read the table, not change it"):
        sign(method, HERE + path, write=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/b/w/orders"),
        ("GET", "/b/w/orders_private/a"),
        ("GET", "/b/w/orders/../secret"),
        ("GET", "/b/w/orders/%2e%2e/secret"),
        ("GET", "/b/w/orders/..%2fsecret"),
        ("GET", "/b/w/orders/..%5csecret"),
        ("GET", "/b/w/orders//a"),
        ("GET", "/b/w/orders/./a"),
        ("GET", "/b/w"),
        ("GET", "//b/w/orders/a"),
        ("GET", "/b%2Fx/w/orders/a"),
        ("GET", "/other/w/orders/a"),
        ("GET", "/bb/w/orders/a"),
        ("GET", "/b"),
        ("GET", "/b?list-type=2"),
        ("GET", "/b?list-type=2&prefix="),
        ("GET", "/b?list-type=2&prefix=w/orders"),
        ("GET", "/b?list-type=2&prefix=w/orders_private/"),
        ("GET", "/b?list-type=2&prefix=w/orders/../"),
        ("GET", "/b?prefix=w/orders/&versions"),
        ("GET", "/b?uploads&prefix=w/orders/"),
        ("GET", "/b?policy"),
        ("GET", "/"),
        ("GET", "/b/w/orders/a?acl"),
        ("GET", "/b/w/orders/a?versionId=1"),
        ("PUT", "/b/w/orders/a?acl"),
        ("PUT", "/b/w/orders/a?tagging"),
        ("PUT", "/b"),
        ("PUT", "/b?policy"),
        ("DELETE", "/b"),
        ("DELETE", "/b/w/orders/a?versionId=1"),
        ("POST", "/b"),
        ("HEAD", "/b"),
        ("POST", "/b/w/orders/a?restore"),
        ("POST", "/b/w/orders/a?uploads&uploadId=x"),
    ],
)
def test_what_nobody_gets_signed(method: str, path: str) -> None:
    with pytest.raises(Forbidden):
        sign(method, HERE + path)


@pytest.mark.parametrize(
    "uri",
    [
        "http://s3.example.com/b/w/orders/a",
        "https://s3.example.com:8443/b/w/orders/a",
        "https://s3.example.com.evil.org/b/w/orders/a",
        "https://c.s3.example.com/w/orders/a",
        "https://user@s3.example.com/b/w/orders/a",
        "https://s3.example.com/b/w/orders/a#x",
        "file:///b/w/orders/a",
        "/b/w/orders/a",
    ],
)
def test_other_hosts_are_refused(uri: str) -> None:
    with pytest.raises(Forbidden, match="not where the store is"):
        sign("GET", uri)


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("PATCH", f"{HERE}/b/w/orders/a"),
        ("GET", f"{HERE}/b/w/orders/%ff"),
        ("GET", f"{HERE}/b/w/orders/%00"),
        ("GET", f"{HERE}/b/w/orders/ü"),
        ("GET", f"{HERE}/b?prefix=w/orders/&prefix=w/"),
        ("GET", "https://s3.example.com:x/b"),
        ("GET", f"{HERE}/b/{'a' * 9000}"),
    ],
)
def test_what_is_no_request(method: str, uri: str) -> None:
    with pytest.raises(BadRequest):
        sign(method, uri)


def test_another_region() -> None:
    with pytest.raises(BadRequest, match="region is us-east-1"):
        sign("GET", f"{HERE}/b/w/orders/a", signer=make(region="us-east-1"))


def test_the_bucket_in_the_host() -> None:
    assert sign("GET", "https://b.s3.example.com/w/orders/a").uri == "https://b.s3.example.com/w/orders/a"
    with pytest.raises(Forbidden):
        sign("GET", "https://b.s3.example.com/b/w/orders/a")


@pytest.mark.parametrize(
    "uri",
    [
        "https://b.s3.eu-west-1.amazonaws.com/w/orders/a",
        "https://s3.eu-west-1.amazonaws.com:443/b/w/orders/a",
        "https://b.s3.dualstack.eu-west-1.amazonaws.com/w/orders/a",
    ],
)
def test_aws_itself(uri: str) -> None:
    signer = signer_for("s3://b", OPTIONS, FakeRuntime())
    assert sign("GET", uri, signer=signer).uri == uri.replace(":443", "")
    with pytest.raises(Forbidden):
        sign("GET", uri.replace("https", "http"), signer=signer)


def test_the_answer_is_encoded_anew() -> None:
    """What was judged is what is sent, whatever the spelling of the request."""
    signed = sign("GET", f"{HERE}/b/w%2Forders/k=a+b%20c%7E/%C3%BC")
    assert signed.uri == f"{HERE}/b/w/orders/k%3Da%2Bb%20c~/%C3%BC"


def test_headers_that_decide_are_signed_and_others_are_left_alone() -> None:
    headers = {"Content-Type": ["x"], "Range": ["bytes=0-1"], "x-amz-storage-class": ["STANDARD"], "User-Agent": ["y"]}
    signed = sign("PUT", f"{HERE}/b/{TABLE}/a", headers=headers)
    assert (
        "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,"
        in (signed.headers["authorization"][0])
    )
    assert set(signed.headers) == {"authorization", "x-amz-content-sha256", "x-amz-date"}
    assert signed.headers["x-amz-content-sha256"] == ["UNSIGNED-PAYLOAD"]


@pytest.mark.parametrize(
    "name",
    ["x-amz-acl", "x-amz-grant-read", "x-amz-security-token", "x-amz-website-redirect-location", "authorization"],
)
def test_headers_that_do_more_are_refused(name: str) -> None:
    with pytest.raises(Forbidden, match=name):
        sign("PUT", f"{HERE}/b/{TABLE}/a", headers={name: ["public-read"]})


@pytest.mark.parametrize("source", ["/b/w/orders/a", "b/w/orders/a", "b/w%2Forders/a"])
def test_a_copy_within_the_table(source: str) -> None:
    signed = sign("PUT", f"{HERE}/b/{TABLE}/b", headers={"x-amz-copy-source": [source]})
    assert "x-amz-copy-source" in signed.headers["authorization"][0]


@pytest.mark.parametrize("source", ["/b/w/s/a", "c/w/orders/a", "b/w/orders/../secret", "b/w/orders/a?versionId=1"])
def test_a_copy_from_elsewhere_is_refused(source: str) -> None:
    with pytest.raises(Forbidden):
        sign("PUT", f"{HERE}/b/{TABLE}/b", headers={"x-amz-copy-source": [source]})


DELETE = '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}<Quiet>true</Quiet></Delete>'


def keys(*names: str) -> str:
    return DELETE.format("".join(f"<Object><Key>{name}</Key></Object>" for name in names))


def test_a_delete_of_many_is_signed_with_its_body() -> None:
    body = keys("w/orders/a", "w/orders/b")
    signed = sign("POST", f"{HERE}/b?delete", body=body)
    assert signed.headers["x-amz-content-sha256"] == [hashlib.sha256(body.encode()).hexdigest()]
    assert not signed.cacheable
    with pytest.raises(BadRequest, match="digest"):
        sign("POST", f"{HERE}/b?delete", body=body, headers={"x-amz-content-sha256": ["UNSIGNED-PAYLOAD"]})


@pytest.mark.parametrize(
    "body",
    [
        keys("w/orders/a", "w/secret"),
        keys("w/orders/../secret"),
        DELETE.format("<Object><Key>w/orders/a</Key><VersionId>1</VersionId></Object>"),
    ],
)
def test_a_delete_of_others_is_refused(body: str) -> None:
    with pytest.raises(Forbidden):
        sign("POST", f"{HERE}/b?delete", body=body)


@pytest.mark.parametrize("body", [None, "", "no xml", "<Delete/>", "<!DOCTYPE a>" + keys("w/orders/a"), "<a>w</a>" * 9])
def test_a_delete_that_cannot_be_judged_is_refused(body: str | None) -> None:
    with pytest.raises(BadRequest):
        sign("POST", f"{HERE}/b?delete", body=body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"method": "GET", "uri": "x", "region": "r"},
        {"method": "GET", "uri": "x", "region": "r", "headers": {"a": "b"}},
        {"method": "GET", "uri": "x", "region": "r", "headers": {"a": ["b\r\nc: d"]}},
        {"method": "GET", "uri": "x", "region": "r", "headers": {"a": ["b"], "A": ["c"]}},
        {"method": "GET", "uri": "x", "region": "r", "headers": {}, "provider": "gcs"},
        {"method": "GET", "uri": "x", "region": "r", "headers": {}, "body": 1},
        {"method": "GET", "uri": "x", "region": "r", "headers": {}, "properties": {"a": "b"}},
    ],
)
def test_bodies_that_are_no_request(body: Any) -> None:
    with pytest.raises(BadRequest):
        parse_sign(body)


def test_who_has_a_signer() -> None:
    clock = FakeRuntime()
    assert signer_for("file:///x", OPTIONS, clock) is None
    assert signer_for("s3://b", {}, clock) is None
    environ = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-north-1"}
    found = signer_for("s3://b", {}, clock, environ=environ)
    assert found is not None
    assert found.config("v1/x/sign")["client.region"] == "eu-north-1"
    assert "hidden" not in repr(make().config("v1/x/sign"))


def test_the_emulator_takes_what_was_signed(s3_server: Emulator) -> None:
    endpoint, bucket = str(s3_server.options["endpoint"]), s3_server.bucket_url.removeprefix("s3://")
    found = signer_for(s3_server.bucket_url, s3_server.options, FakeRuntime())
    assert found is not None
    signer = found

    async def send(method: str, path: str, content: bytes = b"", **more: Any) -> httpx.Response:
        asked = {"method": method, "uri": f"{endpoint}/{bucket}{path}", "region": "us-east-1", "headers": {}, **more}
        signed = signer.sign(parse_sign(asked), [f"{s3_server.bucket_url}/signed/t"], write=True)
        headers = {name: ",".join(values) for name, values in signed.headers.items()}
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.request(method, signed.uri, content=content, headers=headers)

    async def story() -> None:
        assert (await send("PUT", "/signed/t/k=a%20b/1", b"one")).status_code == 200
        assert (await send("PUT", "/signed/t/2", b"two")).status_code == 200
        assert (await send("GET", "/signed/t/k=a%20b/1")).content == b"one"
        assert "<Key>signed/t/2</Key>" in (await send("GET", "?list-type=2&prefix=signed/t/")).text
        body = keys("signed/t/2")
        assert (await send("POST", "?delete", body.encode(), body=body)).status_code == 200
        assert (await send("HEAD", "/signed/t/2")).status_code == 404

    asyncio.run(story())


def test_pyiceberg_sends_what_was_signed(s3_server: Emulator) -> None:
    """Its signer's own code makes the request from a table's configuration; the route between them is left out."""
    endpoint, bucket = str(s3_server.options["endpoint"]), s3_server.bucket_url.removeprefix("s3://")
    found = signer_for(s3_server.bucket_url, s3_server.options, FakeRuntime())
    assert found is not None
    signer = found
    asked: list[str] = []

    class Session:
        def post(self, url: str, headers: dict[str, str], json: Any) -> Any:
            async def signing() -> SignedRequest:
                return signer.sign(parse_sign(json), [f"{s3_server.bucket_url}/signed/t"], write=True)

            asked.append(url)
            signed = run(signing())
            request = httpx.Request("POST", url)
            return httpx.Response(200, json={"uri": signed.uri, "headers": signed.headers}, request=request)

    client = S3V4RestSigner({"uri": "http://catalog/iceberg", **signer.config("v1/x/sign")})
    client._session = Session()  # type: ignore[assignment]
    sent = {"content-type": "application/octet-stream", "user-agent": "x", "x-amz-meta-a": "b"}
    request = AWSRequest("PUT", f"{endpoint}/{bucket}/signed/t/k%3D1", headers=sent, data=b"one")
    request.context["client_region"] = signer.config("")["client.region"]
    client(request)
    assert asked == ["http://catalog/iceberg/v1/x/sign"]
    assert request.headers.get_all("content-type") == ["application/octet-stream"], "not twice"
    answer = httpx.put(request.url, content=b"one", headers=dict(request.headers.items()))
    assert answer.status_code == 200

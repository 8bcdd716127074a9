"""Signatures as AWS makes them: its own example, and botocore's signer for everything else."""

import hashlib
from datetime import UTC, datetime
from unittest import mock

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from arco.iceberg._sigv4 import Keys, keys_from, request_url, sign_headers

NOW = datetime(2013, 5, 24, tzinfo=UTC)
MICROS = int(NOW.timestamp()) * 1_000_000
EMPTY = hashlib.sha256(b"").hexdigest()


def test_the_example_of_the_documentation() -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, GET object."""
    keys = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    headers = sign_headers(
        "GET", "examplebucket.s3.amazonaws.com", "/test.txt", (), {"range": "bytes=0-9"}, EMPTY, keys,
        "us-east-1", "s3", MICROS,
    )  # fmt: skip
    assert headers["authorization"].endswith(
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        " Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


@pytest.mark.parametrize("token", ["", "a-session"])
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/bucket/a/b.parquet", []),
        ("/bucket/k=a b+c%2F~/ü€.avro", []),
        ("/bucket/", [("list-type", "2"), ("prefix", "a b/+=&ü/"), ("delimiter", "/")]),
        ("/bucket/x", [("uploads", "")]),
        ("/bucket/x", [("uploadId", "a/b+c"), ("partNumber", "10"), ("partNumber2", "9")]),
    ],
)
def test_it_agrees_with_botocore(path: str, query: list[tuple[str, str]], token: str) -> None:
    url = request_url("http://127.0.0.1:9000", path, query)
    sent = {"content-type": "application/xml", "x-amz-meta-b": " two   spaces ", "x-amz-content-sha256": EMPTY}
    theirs = AWSRequest(method="PUT", url=url, headers=dict(sent))
    with mock.patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        S3SigV4Auth(Credentials("key", "secret", token or None), "s3", "eu-west-1").add_auth(theirs)
    del sent["x-amz-content-sha256"]
    digest = theirs.headers["X-Amz-Content-SHA256"]
    keys = Keys("key", "secret", token)
    ours = sign_headers("PUT", "127.0.0.1:9000", path, query, sent, digest, keys, "eu-west-1", "s3", MICROS)
    assert ours["authorization"] == theirs.headers["Authorization"]


def test_sts_agrees_with_botocore() -> None:
    body, kind = b"Action=AssumeRole", "application/x-www-form-urlencoded; charset=utf-8"
    digest = hashlib.sha256(body).hexdigest()
    headers = {"content-type": kind, "x-amz-content-sha256": digest}
    theirs = AWSRequest(method="POST", url="https://sts.eu-west-1.amazonaws.com/", data=body, headers=headers)
    with mock.patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        SigV4Auth(Credentials("key", "secret"), "sts", "eu-west-1").add_auth(theirs)
    ours = sign_headers(
        "POST", "sts.eu-west-1.amazonaws.com", "/", (), {"content-type": kind}, digest, Keys("key", "secret"),
        "eu-west-1", "sts", MICROS,
    )  # fmt: skip
    assert ours["authorization"] == theirs.headers["Authorization"]


def test_keys_come_from_one_place() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "f", "AWS_SESSION_TOKEN": "g"}
    assert keys_from({"access_key_id": "a", "secret_access_key": "b"}, environ) == Keys("a", "b")
    assert keys_from({"access_key_id": "a"}, environ) == Keys("e", "f", "g")
    assert keys_from({"access_key_id": "a"}, {}) is None


def test_a_secret_is_not_shown() -> None:
    assert "hidden" not in repr(Keys("id", "hidden", "hidden"))

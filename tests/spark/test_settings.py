"""What a worker is told of Spark, and where Spark finds a store."""

import re
from pathlib import Path

import pytest

from arco.core import Invalid, check_master
from arco.spark import SparkSettings, parse_conf
from arco.spark._errors import SparkUnreachable
from arco.spark._place import place_of
from arco.spark._session import _LOGGING, check_reachable
from arco.worker._messages import Setup
from arco.worker._spark import SparkExecutor


@pytest.mark.parametrize(
    "text",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[2, 4]",
        "local-cluster[2,1,1024]",
        "yarn",
        "spark://a:7077,b:7077",
        "k8s://https://k.example.com:6443",
        "sc://h:15002/;use_ssl=true",
    ],
)
def test_masters_are_taken_as_they_are(text: str) -> None:
    assert check_master(text) == text


@pytest.mark.parametrize("text", ["", "here", "http://a:7077", "spark://user:pass@a:7077", "local[", "yarn "])
def test_what_is_no_master_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no Spark master; write local"):
        check_master(text)


def test_every_logger_that_is_told_less_has_a_name_and_a_level() -> None:
    named = set(re.findall(r"^logger\.(\w+)\.name = ", _LOGGING, re.MULTILINE))
    assert named == set(re.findall(r"^logger\.(\w+)\.level = ", _LOGGING, re.MULTILINE))
    assert "DiskBlockObjectWriter\nlogger.blocks.level = error\n" in _LOGGING


def test_settings_are_pairs_and_their_values_are_not_shown() -> None:
    conf = parse_conf(["spark.a=1", "spark.b=x=y", "spark.c="])
    assert conf == {"spark.a": "1", "spark.b": "x=y", "spark.c": ""}
    assert "x=y" not in repr(SparkSettings("yarn", conf))
    for text in ("spark.a", "a=1"):
        with pytest.raises(Invalid, match="is no setting of Spark"):
            parse_conf([text])


def test_a_token_in_the_address_of_a_server_is_not_told() -> None:
    with pytest.raises(SparkUnreachable, match=r"sc://127.0.0.1:1 does not answer") as told:
        check_reachable("sc://127.0.0.1:1/;use_ssl=true;token=hidden")
    assert "hidden" not in str(told.value)


def test_the_master_is_no_setting() -> None:
    with pytest.raises(Invalid, match="with --master"):
        parse_conf(["spark.master=local[1]"])


def test_a_folder_is_named_by_its_path_and_nothing_in_it_is_a_pattern(tmp_path: object) -> None:
    place = place_of(f"file://{tmp_path}/a[1]", {}, "acme/prod")
    assert place.is_local
    assert place.file("data/x.parquet") == f"{tmp_path}/a[1]/acme/prod/data/x.parquet"
    assert place.pattern("data/x.parquet") == f"{tmp_path}/a\\[1\\]/acme/prod/data/x.parquet"


def test_a_bucket_is_named_for_hadoop_and_its_credentials_are_not_shown() -> None:
    options = {"access_key_id": "AK", "secret_access_key": "SK", "endpoint": "http://127.0.0.1:9", "region": "eu"}
    place = place_of("s3://bucket/prefix", options, "acme/prod")
    assert place.file("data/x") == "s3a://bucket/prefix/acme/prod/data/x"
    assert place.conf["fs.s3a.secret.key"] == "SK"
    assert place.conf["fs.s3a.path.style.access"] == "true"
    assert place.conf["fs.s3a.connection.ssl.enabled"] == "false"
    assert "SK" not in repr(place)
    with pytest.raises(Invalid, match="cannot reach a store at az://"):
        place_of("az://container", {}, "acme/prod")


@pytest.mark.parametrize("endpoint", ["https://lake.region.example.com", "https://lake.region.example.com/"])
def test_hadoop_adds_the_bucket_to_the_host_where_hosts_are_named_after_buckets(endpoint: str) -> None:
    options = {"endpoint": endpoint, "virtual_hosted_style_request": "true"}
    conf = place_of("s3://lake/prefix", options, "acme/prod").conf
    assert conf["fs.s3a.endpoint"] == "https://region.example.com"
    assert conf["fs.s3a.path.style.access"] == "false"
    assert conf["fs.s3a.connection.ssl.enabled"] == "true"
    named = place_of("s3://lake/prefix", {"endpoint": "https://lake.region.example.com"}, "acme/prod").conf
    assert named["fs.s3a.endpoint"] == "https://lake.region.example.com"
    assert named["fs.s3a.path.style.access"] == "true"


def test_what_hadoop_finds_by_itself_is_not_set() -> None:
    assert place_of("s3://bucket", {"virtual_hosted_style_request": "true"}, "acme/prod").conf == {}


KEYS = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SK", "AWS_SESSION_TOKEN": "ST"}


def test_where_a_bucket_is_comes_from_the_environment_and_its_keys_do_not() -> None:
    environ = {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "auto"}
    assert place_of("s3://bucket", {}, "acme/prod", environ=KEYS).conf == {}
    assert place_of("s3://bucket", {}, "acme/prod", environ=environ).conf == {
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.endpoint.region": "auto",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    options = {"endpoint": "https://minio.example", "region": "eu"}
    conf = place_of("s3://bucket", options, "acme/prod", environ=environ).conf
    assert (conf["fs.s3a.endpoint"], conf["fs.s3a.endpoint.region"]) == ("https://minio.example", "eu")


def test_a_driver_tells_spark_where_its_environment_says_a_bucket_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    executor = SparkExecutor(Setup("", str(tmp_path), "s3://bucket", {}, "acme", "prod"))
    assert executor._place.conf["fs.s3a.endpoint"] == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("given", "algorithm", "key"),
    [("AES256", "AES256", None), ("aws:kms", "SSE-KMS", "key-1"), ("aws:kms:dsse", "DSSE-KMS", "key-1")],
)
def test_spark_encrypts_as_the_store_does_and_names_a_key_only_to_kms(
    given: str, algorithm: str, key: str | None
) -> None:
    options = {"server_side_encryption": given, "sse_kms_key_id": "key-1"}
    conf = place_of("s3://bucket", options, "acme/prod").conf
    assert (conf["fs.s3a.encryption.algorithm"], conf.get("fs.s3a.encryption.key")) == (algorithm, key)
    own = place_of("s3://bucket", {"server_side_encryption": given}, "acme/prod").conf
    assert own == {"fs.s3a.encryption.algorithm": algorithm}


def test_what_hadoop_cannot_encrypt_is_refused() -> None:
    with pytest.raises(Invalid, match="AES256, aws:kms"):
        place_of("s3://bucket", {"server_side_encryption": "rot13"}, "acme/prod")

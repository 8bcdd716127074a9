"""`open_store`: what a URL may say, and that a secret in it is refused without being repeated."""

from pathlib import Path

import pytest

from arco.core import Invalid
from arco.storage import CloudStore, LocalStore, open_store, verify_local
from tests.emulators.servers import Emulator
from tests.storage.contract import run
from tests.storage.test_local import SECRET, StoppedClock

S3 = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_path_opens_local_disk(tmp_path: Path, form: str) -> None:
    store = open_store(form.format(tmp_path / "x"))
    assert isinstance(store, LocalStore)
    run(store.put("a", b"1", only_if_absent=True))
    assert (tmp_path / "x" / "a").read_bytes() == b"1"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run(open_store("~/x").put("a", b"1", only_if_absent=True))
    assert (tmp_path / "x" / "a").exists()


def test_the_same_memory_is_shared_by_name() -> None:
    run(open_store("memory://shared").put("a", b"1", only_if_absent=True))
    assert run(open_store("memory://shared").get("a")) == b"1"
    with pytest.raises(Exception, match="no object"):
        run(open_store("memory://other").get("a"))


def test_local_disk_signs_with_its_options(tmp_path: Path) -> None:
    options = {"signing_secret": SECRET.decode(), "signing_url": "http://localhost:1/o"}
    url = run(open_store(str(tmp_path), options, clock=StoppedClock()).sign("a/b", expires_in=1))
    assert verify_local(SECRET, "http://localhost:1/o", url, now=0) == "a/b"


def test_a_bucket_url_names_bucket_and_prefix(s3_server: Emulator) -> None:
    run(open_store(s3_server.url("pre/fix"), s3_server.options).put("a", b"1", only_if_absent=True))
    assert run(open_store(s3_server.url("pre"), s3_server.options).get("fix/a")) == b"1"
    assert isinstance(open_store(s3_server.bucket_url, s3_server.options), CloudStore)


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("http://host/x", {}, "a path, file://, memory://, s3://, az:// and gs://"),
        ("gs://UPPER", {}, "3 to 63 characters"),
        ("gs://bucket", {"region": "x"}, "application_credentials, bearer_token"),
        ("file://", {}, "path of a folder"),
        ("", {}, "path of a folder"),
        ("memory://", {}, "named by letters"),
        ("memory://a/b", {}, "named by letters"),
        ("s3://", S3, "3 to 63 characters"),
        ("s3://UPPER", S3, "3 to 63 characters"),
        ("s3://bucket?x=1", S3, "as options"),
        ("s3://bucket#x", S3, "as options"),
        ("s3://bucket:80/x", S3, "as options"),
        ("s3://bucket/a/../b", S3, "dot segment"),
        ("s3://bucket/a*", S3, "not safe"),
        ("s3://bucket/" + "x" * 101, S3, "100 characters"),
        ("az://a/x", {}, "3 to 63 characters"),
        ("s3://bucket", {"acess_key": "x"}, "access_key_id, allow_http, connect_timeout"),
        ("az://container", {"region": "x"}, "account_key, account_name"),
        ("/tmp/x", {"region": "x"}, "signing_secret, signing_url"),
        ("memory://x", {"region": "x"}, "it has none"),
        ("s3://bucket", {"allow_http": "yes"}, "true or false"),
        ("s3://bucket", {"timeout": "soon"}, "500ms, 30s or 2m"),
        ("s3://bucket", {"region": ""}, "is a text"),
        ("s3://bucket", {"region": True}, "is a text"),
        ("/tmp/x", {"signing_secret": SECRET.decode()}, "both signing_secret and signing_url"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_is(url: str, options: dict[str, str | bool], says: str) -> None:
    with pytest.raises(Invalid) as caught:
        open_store(url, options, clock=StoppedClock())
    assert says in caught.value.message


@pytest.mark.parametrize(
    "url", ["s3://key:hunter2@bucket/x", "s3://hunter2@bucket", "az://a:hunter2@b", "s3://bucket/x?secret=hunter2"]
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Invalid, match="options") as caught:
        open_store(url, {})
    assert "hunter2" not in caught.value.message


def test_a_wrong_value_is_not_repeated() -> None:
    with pytest.raises(Invalid) as caught:
        open_store("s3://bucket", {"allow_http": "hunter2"})
    assert "hunter2" not in caught.value.message
    with pytest.raises(Invalid, match="at least 32 bytes") as caught:
        open_store("/tmp/x", {"signing_secret": "hunter2", "signing_url": "http://x"}, clock=StoppedClock())
    assert "hunter2" not in caught.value.message

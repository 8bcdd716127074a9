"""Signed URLs of the clouds, as a browser uses them: one object, ranges of it, for a while, and nothing private."""

import http.client
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from arco.core import Forbidden, Invalid
from arco.storage import RequestCounts, Role, RoleStore, Scope, Store
from tests.emulators.gcs import HOST
from tests.emulators.servers import Emulator
from tests.storage.contract import run

DATA = bytes(range(256)) * 4
ODD = "acme/main/data/a+b@c=1,d/~x!.parquet"
PATH = "acme/main/state/activity/1-a/t.parquet"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Cloud:
    name: str
    server: Emulator
    store: Store

    def fetch(self, url: str, method: str = "GET", **headers: str) -> Answer:
        """What a browser gets. Google's URLs name Google's host; here it is reached at the emulator's address."""
        parts = urlsplit(url)
        address = parts
        if self.name == "gcs":
            assert (parts.scheme, parts.netloc) == ("https", HOST)
            address = urlsplit(str(self.server.options["endpoint"]))
            headers = {"Host": HOST, **headers}
        connection = http.client.HTTPConnection(address.netloc, timeout=10)
        try:
            connection.request(method, f"{parts.path}?{parts.query}", headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
        finally:
            connection.close()


@pytest.fixture(params=["s3", "azure", "gcs"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    server: Emulator = request.getfixturevalue(f"{request.param}_server")
    store = server.store("signed-urls")
    for path in (PATH, ODD):
        run(store.put(path, DATA, only_if_absent=False))
    return Cloud(request.param, server, store)


@pytest.mark.parametrize("path", [PATH, ODD])
def test_it_reads_the_object_and_ranges_of_it(cloud: Cloud, path: str) -> None:
    url = run(cloud.store.sign(path, expires_in=60))
    whole = cloud.fetch(url)
    assert (whole.status, whole.body) == (200, DATA)
    part = cloud.fetch(url, Range="bytes=100-199")
    assert (part.status, part.body) == (206, DATA[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(DATA)}"
    assert part.headers["content-length"] == "100"


def test_it_tells_the_size_where_the_cloud_says_so(cloud: Cloud) -> None:
    """S3 signs one method; there a reader asks for a range instead (docs/stores.md)."""
    if cloud.name == "s3":
        pytest.skip("moto checks no signature; S3 refuses HEAD of a URL signed for GET")
    head = cloud.fetch(run(cloud.store.sign(PATH, expires_in=60)), "HEAD")
    assert (head.status, head.headers["content-length"]) == (200, str(len(DATA)))


def test_it_reads_nothing_else_and_writes_nothing(cloud: Cloud) -> None:
    if cloud.name == "s3":
        pytest.skip("moto checks no signature")
    url = run(cloud.store.sign(PATH, expires_in=60))
    run(cloud.store.put(f"{PATH}2", b"other", only_if_absent=False))
    for changed in (url.replace("t.parquet", "t.parquet2"), url.replace("acme", "bcme"), url.replace("sig", "Sig", 1)):
        assert cloud.fetch(changed).status in (400, 401, 403), changed
    for method in ("PUT", "DELETE"):
        assert cloud.fetch(url, method).status in (400, 401, 403)
    assert run(cloud.store.get(PATH)) == DATA


def test_it_ends(cloud: Cloud) -> None:
    if cloud.name == "s3":
        pytest.skip("moto checks no signature")
    url = run(cloud.store.sign(PATH, expires_in=2))
    assert cloud.fetch(url).status == 200
    time.sleep(3.1)
    assert cloud.fetch(url).status in (400, 403)


def test_its_life_has_a_limit(cloud: Cloud) -> None:
    for seconds in (0, 8 * 86_400):
        with pytest.raises(Invalid):
            run(cloud.store.sign(PATH, expires_in=seconds))


@pytest.mark.parametrize("role", Role)
def test_nobody_signs_what_is_private(cloud: Cloud, role: Role) -> None:
    handle = RoleStore(cloud.store, Scope("acme", "main"), role, RequestCounts())
    with pytest.raises(Forbidden):
        run(handle.sign("inc-1/private/activity/1-a/keys.parquet", expires_in=60))
    url = run(handle.sign("state/activity/1-a/t.parquet", expires_in=60))
    assert cloud.fetch(url).body == DATA


def test_it_carries_no_key(cloud: Cloud) -> None:
    url = run(cloud.store.sign(PATH, expires_in=60))
    for name in ("secret_access_key", "account_key", "service_account_key"):
        value = cloud.server.options.get(name)
        # moto's key is called "test", as the bucket is
        assert value in (None, "test") or str(value) not in url

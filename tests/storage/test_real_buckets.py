"""The contract, races, signing and the self-test on real buckets, if somebody names them.

    ARCO_TEST_S3_URL=s3://bucket/prefix  ARCO_TEST_GCS_URL=gs://bucket/prefix  ARCO_TEST_AZURE_URL=az://container/prefix

Credentials come from the usual variables of each cloud, other options from ARCO_TEST_S3_OPTIONS and so on, as
`name=value` with spaces between. Everything happens below a new random folder of the prefix, which is emptied at the
end. Without any of them nothing here runs, in CI neither.
"""

import os
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import Scope, Store, open_store, self_test
from tests.storage.conftest import OpenStore
from tests.storage.contract import StoreContract, names, run


@dataclass(frozen=True)
class Bucket:
    cloud: str
    url: str
    options: dict[str, str | bool]

    def open(self, folder: str = "") -> Store:
        return open_store(f"{self.url.rstrip('/')}/{folder}".rstrip("/"), self.options)


def named(environ: dict[str, str]) -> list[Bucket]:
    found = []
    for cloud in ("s3", "gcs", "azure"):
        if url := environ.get(f"ARCO_TEST_{cloud.upper()}_URL"):
            pairs = (text.partition("=") for text in environ.get(f"ARCO_TEST_{cloud.upper()}_OPTIONS", "").split())
            found.append(Bucket(cloud, url, {name: value for name, _, value in pairs}))
    return found


BUCKETS = named(dict(os.environ))
if not BUCKETS:
    pytest.skip(
        "no real bucket is named; set ARCO_TEST_S3_URL, ARCO_TEST_GCS_URL or ARCO_TEST_AZURE_URL",
        allow_module_level=True,
    )


@pytest.fixture(scope="module", params=BUCKETS, ids=[bucket.cloud for bucket in BUCKETS])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Bucket, str]]:
    """A bucket and a folder in it that is nobody else's."""
    bucket: Bucket = request.param
    folder = f"arco-test-{uuid.uuid4().hex}"
    yield bucket, folder
    store = bucket.open()

    async def remove() -> None:
        for path in await names(store, folder):
            await store.delete(path)
        assert await names(store, folder) == []

    run(remove())


@pytest.fixture
def any_location(place: tuple[Bucket, str]) -> OpenStore:
    bucket, folder = place
    below = f"{folder}/{uuid.uuid4().hex[:8]}"
    return lambda: bucket.open(below)


class TestRealBucket(StoreContract):
    @pytest.fixture
    def open_store(self, any_location: OpenStore) -> OpenStore:
        return any_location


def test_it_passes_the_self_test(any_location: OpenStore) -> None:
    async def scenario() -> None:
        await self_test(any_location(), AsyncRuntime(), uuid.uuid4().hex)
        assert await names(any_location(), "") == []

    run(scenario())


def test_a_workspace_lives_in_it(any_location: OpenStore) -> None:
    async def scenario() -> None:
        from arco.domains.catalog import CreateNamespace

        runtime, scope = AsyncRuntime(), Scope("acme", "real")
        await init_workspace(any_location(), scope, runtime)
        for number in range(2):
            async with await Workspace.open(any_location(), scope, runtime) as workspace:
                receipt = await workspace.decide("catalog", CreateNamespace((f"n{number}",)), actor="me")
                await workspace.published("catalog", receipt.position)

    run(scenario())


def test_a_signed_url_reads_the_object_and_a_range_of_it(any_location: OpenStore) -> None:
    store = any_location()
    run(store.put("a/b=1.parquet", b"0123456789", only_if_absent=True))
    url = run(store.sign("a/b=1.parquet", expires_in=60))
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.read() == b"0123456789"
    asked = urllib.request.Request(url, headers={"Range": "bytes=2-4"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert (answer.status, answer.read()) == (206, b"234")

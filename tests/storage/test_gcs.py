"""Google Cloud Storage: three outcomes of a create, its limit of writes, its rights, and that no secret is repeated."""

from collections.abc import Iterator

import pytest

from arco.core import ArcoError, StoreRefused
from arco.runtime import AsyncRuntime, Workspace, init_workspace
from arco.storage import ObjectExists, Scope, Store, StoreFailed, gcs_store, open_store, self_test
from tests.emulators.gcs import FakeGcs
from tests.emulators.servers import Emulator, run_gcs
from tests.storage.contract import names, run
from tests.storage.test_cloud import CALLS, create, everything_said_by


@pytest.fixture
def fake() -> FakeGcs:
    return FakeGcs()


@pytest.fixture
def store(fake: FakeGcs) -> Iterator[Store]:
    with run_gcs(fake) as emulator:
        yield emulator.store("x")


def stored(fake: FakeGcs) -> dict[str, bytes]:
    return {name: found.data for bucket in fake.buckets.values() for name, found in bucket.items()}


@pytest.mark.parametrize("status", [500, 503, 0])
def test_a_create_whose_answer_was_lost_is_open_and_sent_once(fake: FakeGcs, store: Store, status: int) -> None:
    """Trap 13."""
    fake.fail("PUT", status, applied=True)
    with pytest.raises(StoreFailed):
        run(create(store))
    assert fake.requests["PUT"] == 1
    assert stored(fake) == {"x/a/b": b"mine"}
    with pytest.raises(ObjectExists):
        run(create(store))


@pytest.mark.parametrize("status", [409, 429, 503])
def test_a_create_that_was_not_decided_is_open(fake: FakeGcs, store: Store, status: int) -> None:
    fake.fail("PUT", status)
    with pytest.raises(StoreFailed, match=str(status)):
        run(create(store))
    assert fake.requests["PUT"] == 1
    assert stored(fake) == {}
    run(create(store))


@pytest.mark.parametrize("status", [429, 503])
def test_reads_and_deletes_are_repeated(fake: FakeGcs, store: Store, status: int) -> None:
    run(create(store))
    for method in ("GET", "HEAD", "DELETE"):
        fake.fail(method, status, times=2)
    assert run(store.get("a/b")) == b"mine"
    assert run(store.head("a/b")).size == 4
    run(store.delete("a/b"))
    assert stored(fake) == {}
    assert [fake.requests[method] for method in ("GET", "HEAD", "DELETE")] == [3, 3, 3]


@pytest.mark.parametrize(
    ("method", "call", "right"),
    [
        ("GET", "get", "storage.objects.list"),
        ("PUT", "create", "storage.objects.create"),
        ("DELETE", "delete", "storage.objects.delete"),
        ("GET", "list", "storage.objects.list"),
    ],
)
def test_a_refusal_names_the_right_it_needs(fake: FakeGcs, store: Store, method: str, call: str, right: str) -> None:
    fake.fail(method, 403)
    with pytest.raises(StoreRefused, match=right):
        run(CALLS[call](store))


def test_one_name_is_written_once_a_second_and_numbered_names_are_not_slowed_down(fake: FakeGcs, store: Store) -> None:
    fake.limit = 60
    run(store.put("hint", b"1", only_if_absent=False))
    with pytest.raises(StoreFailed, match="429"):
        run(store.put("hint", b"2", only_if_absent=False))
    assert stored(fake) == {"x/hint": b"1"}
    for number in range(20):
        run(store.put(f"log/{number}", b"", only_if_absent=True))


def test_the_self_test_waits_for_the_limit(fake: FakeGcs, store: Store) -> None:
    fake.limit = 1.0

    async def scenario() -> None:
        await self_test(store, AsyncRuntime(), "nonce-1")

    run(scenario())
    assert run(names(store, "")) == []


def test_a_workspace_lives_with_the_limit(fake: FakeGcs, store: Store) -> None:
    """Hints are refused now and then; nothing else is written twice."""
    fake.limit = 1.5

    async def scenario() -> None:
        runtime, scope = AsyncRuntime(), Scope("acme", "prod")
        await init_workspace(store, scope, runtime)
        async with await Workspace.open(store, scope, runtime, test_store=False) as workspace:
            from arco.domains.catalog import CreateNamespace

            for number in range(12):
                await workspace.decide("catalog", CreateNamespace((f"n{number}",)), actor="me")
                await runtime.sleep(0.3)

    run(scenario())


def test_a_key_that_google_does_not_know_is_refused_without_being_repeated(fake: FakeGcs, store: Store) -> None:
    stranger = FakeGcs()
    with run_gcs(fake) as emulator:
        options = {**emulator.options, "service_account_key": stranger.service_account_key}
        other = open_store(emulator.url("x"), options)
        for call in CALLS.values():
            with pytest.raises(ArcoError) as caught:
                run(call(other))
            said = everything_said_by(caught.value) + repr(other)
            assert "PRIVATE KEY" not in said
            assert "Bearer" not in said


def test_without_a_key_nothing_is_signed_and_the_cure_is_named(gcs_server: Emulator) -> None:
    options = {"endpoint": str(gcs_server.options["endpoint"]), "bearer_token": "t0k", "timeout": "2s"}
    store = gcs_store("arco-test", options={**options, "allow_http": True})
    with pytest.raises(StoreRefused, match="service_account_key") as caught:
        run(store.sign("a/b", expires_in=60))
    assert "t0k" not in everything_said_by(caught.value)


def test_a_key_that_is_no_document_is_refused_without_its_value() -> None:
    store = gcs_store("bucket", options={"service_account_key": "hunter2"})
    with pytest.raises(ArcoError, match="check their values") as caught:
        run(store.get("a"))
    assert "hunter2" not in everything_said_by(caught.value)

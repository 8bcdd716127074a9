"""How the answers of real and broken servers become the port's words, and that no secret gets into them."""

import asyncio
import os
import signal
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arco.core import ArcoError, Invalid, StoreRefused
from arco.storage import (
    ObjectExists,
    ObjectInfo,
    ObjectMissing,
    Store,
    StoreFailed,
    azure_store,
    open_store,
    s3_store,
)
from tests.emulators.servers import Emulator
from tests.storage.contract import run
from tests.storage.faulty import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, Fault, run_faulty


def create(store: Store, data: bytes = b"mine") -> Coroutine[Any, Any, None]:
    return store.put("a/b", data, only_if_absent=True)


def test_a_server_without_faults_is_read_and_written() -> None:
    with run_faulty(Fault.NONE) as server:
        store = server.store("pre/fix")
        run(create(store))
        assert server.objects == {"pre/fix/a/b": b"mine"}
        assert run(store.get("a/b")) == b"mine"
        with pytest.raises(ObjectExists):
            run(create(store))


@pytest.mark.parametrize("fault", [Fault.APPLIES_THEN_500, Fault.APPLIES_THEN_DROPS])
def test_a_create_whose_answer_was_lost_is_open_and_sent_once(fault: Fault) -> None:
    """Trap 13: a client that repeats it would be told 412 and report a won create as lost."""
    with run_faulty(fault) as server:
        with pytest.raises(StoreFailed):
            run(create(server.store()))
        assert server.count("PUT") == 1
        assert server.objects == {"a/b": b"mine"}


def test_409_of_s3_is_open_not_exists() -> None:
    """Trap 14: nothing landed, so it must be tried again."""
    with run_faulty(Fault.CONFLICT_NOTHING_APPLIED) as server:
        with pytest.raises(StoreFailed, match="409 ConditionalRequestConflict"):
            run(create(server.store()))
        assert server.objects == {}
        assert server.count("PUT") == 1


def test_409_of_azure_is_exists(azure_server: Emulator) -> None:
    store = azure_server.store("conflict")
    run(create(store))
    with pytest.raises(ObjectExists):
        run(create(store))


def test_failing_reads_are_repeated_and_failing_writes_are_not() -> None:
    with run_faulty(Fault.ALWAYS_503) as server:
        with pytest.raises(StoreFailed, match="503 SlowDown"):
            run(server.store().get("a/b"))
        assert server.count("GET") > 1
        for only_if_absent in (True, False):
            with pytest.raises(StoreFailed):
                run(server.store().put("a/b", b"", only_if_absent=only_if_absent))
        assert server.count("PUT") == 2


def test_403_for_a_missing_object_names_the_list_right() -> None:
    with run_faulty(Fault.FORBIDS_MISSING) as server:
        for read in (server.store().get, server.store().head):
            with pytest.raises(StoreRefused, match="s3:ListBucket"):
                run(read("a/b"))


def test_a_refused_write_names_the_right_it_needs() -> None:
    with run_faulty(Fault.READ_ONLY) as server:
        with pytest.raises(StoreRefused, match="s3:PutObject"):
            run(create(server.store()))
        with pytest.raises(StoreRefused, match="s3:DeleteObject"):
            run(server.store().delete("a/b"))


def test_a_refused_list_names_the_right_it_needs() -> None:
    with run_faulty(Fault.NO_LIST) as server, pytest.raises(StoreRefused, match="s3:ListBucket"):
        run(_collect(server.store(), "a"))


def test_a_server_without_conditional_writes_is_refused() -> None:
    with run_faulty(Fault.NO_CONDITIONAL_WRITES) as server, pytest.raises(StoreRefused, match="501"):
        run(create(server.store()))


def test_an_unreachable_server_is_a_failure_that_may_pass() -> None:
    store = s3_store(
        "bucket",
        options={
            "endpoint": "http://127.0.0.1:1",
            "access_key_id": "a",
            "secret_access_key": "b",
            "region": "us-east-1",
            "allow_http": "true",
        },
    )
    with pytest.raises(StoreFailed, match="cannot be reached"):
        run(create(store))


@pytest.mark.parametrize("server", ["s3_server", "azure_server", "gcs_server"])
def test_a_missing_bucket_is_refused_and_never_taken_for_empty(request: pytest.FixtureRequest, server: str) -> None:
    emulator: Emulator = request.getfixturevalue(server)
    scheme = emulator.bucket_url.partition("://")[0]
    store = open_store(f"{scheme}://no-such-bucket/x", emulator.options)
    for call in (store.get("a"), create(store), store.delete("a"), _collect(store, "a")):
        with pytest.raises(StoreRefused, match="does not exist"):
            run(call)


async def _collect(store: Store, prefix: str) -> list[ObjectInfo]:
    return [info async for info in store.list(prefix)]


def everything_said_by(error: BaseException | None) -> str:
    """All text a log could print of an error, its causes and contexts included."""
    if error is None:
        return ""
    own = f"{error} {error!r} {error.args} {vars(error)}"
    return own + everything_said_by(error.__cause__) + everything_said_by(error.__context__)


CALLS: dict[str, Callable[[Store], Coroutine[Any, Any, object]]] = {
    "get": lambda store: store.get("a/b"),
    "get_range": lambda store: store.get_range("a/b", 0, 4),
    "head": lambda store: store.head("a/b"),
    "create": create,
    "put": lambda store: store.put("a/b", b"", only_if_absent=False),
    "delete": lambda store: store.delete("a/b"),
    "list": lambda store: _collect(store, "a"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", [Fault.QUOTES_REQUEST, Fault.READ_ONLY, Fault.ALWAYS_503, Fault.FORBIDS_MISSING])
def test_no_error_repeats_a_credential(fault: Fault, call: str) -> None:
    with run_faulty(fault) as server:
        store = server.store()
        try:
            run(CALLS[call](store))
        except ArcoError as error:
            said = everything_said_by(error)
        else:
            said = ""
        assert said or fault not in (Fault.QUOTES_REQUEST, Fault.ALWAYS_503)
        for secret in (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, "Signature="):
            assert secret not in said + repr(store)


def test_unusable_options_are_refused_without_their_values() -> None:
    store = azure_store("container", options={"account_name": "a", "account_key": "not base64 !!"})
    with pytest.raises(Invalid, match="check their values") as caught:
        run(store.get("a"))
    assert "not base64" not in everything_said_by(caught.value)


def test_a_forked_process_is_told_instead_of_waiting_for_ever(s3_server: Emulator) -> None:
    store = s3_server.store("forked")
    run(create(store))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of the very thing that is tested
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            asyncio.run(store.get("a/b"))
        except StoreRefused as error:
            os._exit(42 if "spawn" in error.message else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert run(store.get("a/b")) == b"mine"


def test_an_object_missing_is_missing_on_a_server_with_the_list_right() -> None:
    with run_faulty(Fault.NONE) as server, pytest.raises(ObjectMissing):
        run(server.store().get("a/b"))

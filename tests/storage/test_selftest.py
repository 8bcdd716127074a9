"""`self_test` passes every store that keeps its promises and refuses each kind that does not, with a cure."""

import pytest

from arco.core import StoreRefused, Unavailable
from arco.runtime import AsyncRuntime
from arco.storage import MemoryStore, RequestCounts, Role, RoleStore, Scope, Store, self_test
from tests.storage.conftest import OpenStore
from tests.storage.contract import names, run
from tests.storage.faulty import Fault, run_faulty

SCOPE = Scope("acme", "main")


def try_store(store: Store) -> None:
    async def scenario() -> None:
        await self_test(store, AsyncRuntime(), "nonce-1")

    run(scenario())


def test_every_backend_passes_and_is_left_clean(any_store: OpenStore) -> None:
    try_store(any_store())
    assert run(names(any_store(), "")) == []


@pytest.mark.parametrize("role", Role)
def test_every_role_may_run_it(role: Role) -> None:
    memory = MemoryStore()
    try_store(RoleStore(memory, SCOPE, role, RequestCounts()))
    assert run(names(memory, "")) == []


@pytest.mark.parametrize(
    ("fault", "promise", "cure"),
    [
        (Fault.IGNORES_CONDITION, "concurrent creates of one object succeeded", "conditional writes"),
        (Fault.LOOKS_THEN_WRITES, "concurrent creates of one object succeeded", "conditional writes"),
        (Fault.CONSOLE, "never written", "use another store"),
        (Fault.FORBIDS_MISSING, "refused to look for an object that is missing", "s3:ListBucket"),
        (Fault.READ_ONLY, "does not let us create", "s3:PutObject"),
        (Fault.NO_CONDITIONAL_WRITES, "does not let us create", "use a store that can"),
        (Fault.NO_DELETE, "does not let us delete", "s3:DeleteObject"),
        (Fault.EMPTY_LIST, "a list does not show", "lists follow writes"),
        (Fault.STALE_READS, "older than the last write", "reads follow writes"),
    ],
)
def test_a_broken_promise_is_named_with_its_cure(fault: Fault, promise: str, cure: str) -> None:
    with run_faulty(fault) as server:
        with pytest.raises(StoreRefused, match=promise) as caught:
            try_store(server.store())
        assert cure in caught.value.message
        if fault is not Fault.NO_DELETE:
            assert server.objects == {}


def test_a_wrong_region_is_told_by_the_server_s_own_word() -> None:
    with run_faulty(Fault.OTHER_REGION) as server, pytest.raises(Unavailable, match="AuthorizationHeaderMalformed"):
        try_store(server.store())


@pytest.mark.parametrize("fault", [Fault.CONFLICT_NOTHING_APPLIED, Fault.ALWAYS_503])
def test_a_store_that_decides_nothing_is_unavailable_not_refused(fault: Fault) -> None:
    with run_faulty(fault) as server, pytest.raises(Unavailable):
        try_store(server.store())


@pytest.mark.parametrize(
    "fault", [Fault.NO_LIST, Fault.CONFLICT_ONCE, Fault.APPLIES_THEN_500, Fault.APPLIES_THEN_DROPS]
)
def test_what_a_store_may_do_is_no_reason_to_refuse_it(fault: Fault) -> None:
    with run_faulty(fault) as server:
        try_store(server.store())
        assert server.objects == {}


class SecondCreateReplaces(MemoryStore):
    """Atomic between racers, but a later create replaces what is there."""

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        await super().put(path, data, only_if_absent=only_if_absent and data != b"second")


class ShowsEverything(MemoryStore):
    async def get(self, path: str) -> bytes:
        return b"something"


class LosesWrites(MemoryStore):
    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        await super().put(path, data, only_if_absent=only_if_absent)
        await super().delete(path)


class GarblesWrites(MemoryStore):
    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        await super().put(path, data[::-1], only_if_absent=only_if_absent)


class GarblesRanges(MemoryStore):
    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        return (await super().get(path))[:length]


class KeepsEverything(MemoryStore):
    async def delete(self, path: str) -> None:
        """Says it did."""


@pytest.mark.parametrize(
    ("store", "promise"),
    [
        (SecondCreateReplaces, "a create replaced an object"),
        (ShowsEverything, "never written"),
        (LosesWrites, "of one object succeeded"),
        (GarblesWrites, "not those read back"),
        (GarblesRanges, "range"),
        (KeepsEverything, "still there"),
    ],
)
def test_each_promise_is_tried(store: type[MemoryStore], promise: str) -> None:
    with pytest.raises(StoreRefused, match=promise):
        try_store(store())

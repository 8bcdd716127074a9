"""Workspaces of a server of many: none is closed before a backup has what was written, and a collection saw it; what
they hold together stays within the bound."""

from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from arco.api import BackupOptions, Host, HttpPeers, ProcessRole, ServeOptions, ServiceIdentity, close_app, create_app
from arco.api._caller import authenticate, by_token, format_token, new_secret
from arco.api._server import make_host
from arco.api._uses import uses_of
from arco.backup import Schedule
from arco.core import DAY, HOUR, SECOND, LostObject, StoreRefused, Unauthenticated, new_ulid
from arco.domains.access import KEY_NAMES, CreateApiKey, UserRole
from arco.domains.catalog import CreateNamespace
from arco.runtime import OPEN_BYTES, ROW_BYTES, Hosted, init_workspace
from arco.state import Cadence, PackSize
from arco.storage import MemoryStore, Scope, Store
from tests.api.iceberg.content import table
from tests.backup.world import paths, vault_of
from tests.doubles import FakeRuntime, FaultyStore, run
from tests.runtime.world import SCOPE

HOURS = HOUR / SECOND
SECRET = b"s" * 32
_numbers = count()


def into_memory() -> BackupOptions:
    """Backups into a store that nobody else has: those in memory are found by name in the whole process."""
    return BackupOptions(f"memory://backups-of-hosted-{next(_numbers)}", Schedule(every=6 * HOUR))


def fresh(base: Store, runtime: FakeRuntime, **given: Any) -> Host:
    """What a server has that was just started."""
    options = ServeOptions("memory://store", (SCOPE,), **{"all_workspaces": True, **given})
    peers = HttpPeers(ServiceIdentity(SECRET, "test", runtime), runtime)
    return make_host(base, runtime, options, "http://127.0.0.1:1", SECRET, peers)


def served(test: Callable[[Host, FakeRuntime, FaultyStore], Coroutine[Any, Any, None]], **given: Any) -> None:
    async def main() -> None:
        runtime = FakeRuntime()
        base = FaultyStore(MemoryStore(runtime))
        await init_workspace(base, SCOPE, runtime)
        host = fresh(base, runtime, **given)
        assert host.served is not None
        await test(host, runtime, base)
        await host.served.close()

    run(main())


async def ask(host: Host, name: str = "") -> None:
    """A request of somebody who may; one that creates a namespace if it has a name."""
    request: dict[str, Any] = {}
    workspace = await host.find(SCOPE, request)
    assert workspace is not None
    if name:
        await workspace.decide("catalog", CreateNamespace((name,)), actor="ann")
    uses_of(request).accept()
    uses_of(request).release()


async def backups(host: Host, runtime: FakeRuntime) -> int:
    assert host.backups is not None
    survey = await vault_of(host.backups.target, runtime).survey()
    return len(survey.backups)


async def collections(store: Store) -> int:
    """How many raised a floor."""
    return len([path for path in await paths(store, SCOPE.root) if "/manifests/catalog/floor/" in path])


def test_what_was_written_is_in_a_backup_before_the_workspace_closes() -> None:
    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        await ask(host, "a")
        await runtime.sleep(0.5 * HOURS)
        assert await backups(host, runtime) == 1
        assert not host.workspaces
        await ask(host, "b")
        await runtime.sleep(4 * HOURS)
        assert await backups(host, runtime) == 1, "six hours have not passed"
        assert SCOPE in host.workspaces, "nobody would come back for it"
        await runtime.sleep(3 * HOURS)
        assert await backups(host, runtime) == 2
        assert not host.workspaces
        await runtime.sleep(48 * HOURS)
        assert await backups(host, runtime) == 2

    served(work, backup=into_memory())


def test_a_store_of_backups_that_takes_nothing_keeps_no_workspace_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(path: str, data: bytes, *, only_if_absent: bool) -> None:
        raise StoreRefused("the quota is used up")

    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        assert host.backups is not None
        monkeypatch.setattr(host.backups.target, "put", refuse)
        await ask(host, "a")
        await runtime.sleep(2 * HOURS)
        assert SCOPE in host.workspaces, "it may get better"
        await runtime.sleep(6 * HOURS)
        assert not host.workspaces
        asked = len(base.calls)
        await runtime.sleep(48 * HOURS)
        assert len(base.calls) == asked
        monkeypatch.undo()
        await ask(host)
        await runtime.sleep(0.5 * HOURS)
        assert await backups(host, runtime) == 1, "somebody came back, so it was tried again"
        assert not host.workspaces

    served(work, backup=into_memory(), collect_every=DAY)


@pytest.mark.parametrize("same", [False, True])
def test_a_workspace_that_lost_its_first_incarnation_is_named_in_the_log_and_to_nobody_without_a_key(
    caplog: pytest.LogCaptureFixture, same: bool
) -> None:
    """Neither by a server that was just started nor by one that had it open."""

    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        await ask(host, "a")
        await runtime.sleep(1 * HOURS)
        assert not host.workspaces
        first = f"{SCOPE.root}/incarnations/{0:013d}/{1:020d}"
        await base.delete(first)
        caplog.clear()
        other = host if same else fresh(base, runtime)
        answers = []
        for scope in (SCOPE, Scope(SCOPE.tenant, "nobody")):
            token = format_token(scope, new_ulid(runtime, runtime), new_secret(runtime)[0])
            with pytest.raises(Unauthenticated) as refused:
                await by_token(other, token, {})
            answers.append((refused.value.message, refused.value.details))
        assert answers[0] == answers[1]
        [told] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert told.startswith(f"{SCOPE.root} is damaged: ")
        assert first.removeprefix(f"{SCOPE.root}/") in told
        with pytest.raises(LostObject, match="is missing"):  # the developer, on a loopback address
            await authenticate(other, Request({"type": "http", "headers": [(b"host", b"localhost")]}))
        before = len(base.calls)
        assert await other.find(SCOPE, {}) is None
        assert len(base.calls) == before, "it is remembered, as a name that nobody knows is"

    served(work)


def test_who_only_reads_keeps_nothing_open() -> None:
    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        await ask(host, "a")
        await runtime.sleep(1 * HOURS)
        await ask(host)
        await runtime.sleep(0.2 * HOURS)
        assert not host.workspaces
        assert await backups(host, runtime) == 1

    served(work, backup=into_memory(), collect_every=DAY)


def test_what_was_written_is_collected_once_a_day_before_the_workspace_closes() -> None:
    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        assert host.collections is not None
        began = []
        for day in range(3):
            for number in range(3):
                await ask(host, f"n{day}-{number}")
                await runtime.sleep(0.3 * HOURS)
                assert not host.workspaces, "it was collected, or had been that day"
                began.append(host.collections.known[SCOPE].began)
                await runtime.sleep(0.3 * HOURS)
            await runtime.sleep(24 * HOURS)
        assert len(set(began)) == 3
        assert await collections(base), "something was old enough on the last day"

    served(work, collect_every=DAY, idle_seconds=60.0)


def test_a_collection_that_fails_keeps_no_workspace_open() -> None:
    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        assert host.collections is not None
        await ask(host, "a")
        base.on("head", path="/manifests/", error=StoreRefused("it is locked"), times=10_000)
        await runtime.sleep(1 * HOURS)
        assert not host.workspaces
        assert not host.collections.known[SCOPE].covered, "the next one tries again"

    served(work, collect_every=DAY)


def test_a_collector_neither_publishes_nor_appends_nor_answers() -> None:
    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        assert host.served is not None
        lease = await host.served.use(SCOPE)
        assert lease is not None
        log = lease.workspace.logs["catalog"]
        assert (log.publishing.compacts, lease.workspace.may_own) == (False, False)
        assert host.backups is None
        await runtime.sleep(1 * HOURS)
        assert host.collections is not None
        first = host.collections.known[SCOPE]
        assert first.covered
        await runtime.sleep(24 * HOURS)
        assert host.collections.known[SCOPE].began > first.began
        lease.release()

    served(work, collect_every=DAY, backup=into_memory(), role=ProcessRole.COLLECTOR, all_workspaces=False)


def test_only_who_collects_has_what_it_takes() -> None:
    for role in ProcessRole:

        async def work(host: Host, runtime: FakeRuntime, base: FaultyStore, role: ProcessRole = role) -> None:
            assert (host.collections is not None) is (role in (ProcessRole.ALL, ProcessRole.COLLECTOR))
            assert (host.backups is not None) is (role in (ProcessRole.ALL, ProcessRole.API))

        served(work, collect_every=DAY, backup=into_memory(), role=role, all_workspaces=False)

    async def off(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        assert host.collections is None

    served(off)


def test_packs_that_cannot_be_made_are_in_the_log_and_the_metrics_until_they_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "arco.compactor"]

    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        app = create_app(host)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:

            async def figures() -> list[str]:
                lines = (await http.get("/metrics")).text.splitlines()
                return [line for line in lines if line.startswith("arco_log_failing_jobs{")]

            async def readiness() -> tuple[int, str]:
                answer = await http.get("/readyz")
                return answer.status_code, answer.json()["checks"]["merging"]

            where = f'tenant_id="{SCOPE.tenant}",workspace_id="{SCOPE.workspace}"'
            full = StoreRefused("the disk is full; free space")
            base.on("create", path="/packs/catalog/", error=full, times=10**6)
            for number in range(20):
                await ask(host, f"n{number}")
                await runtime.sleep(120)
            [line] = told()
            assert line.startswith(
                f"{SCOPE.root}: merges or packs of the log catalog cannot be made now: the disk is full"
            )
            assert await figures() == [
                f'arco_log_failing_jobs{{log="{log}",{where}}} {count}'
                for log, count in (("catalog", "1.0"), ("activity", "0.0"))
            ]
            assert await readiness() == (200, "1 of 1 workspaces cannot merge or pack")
            base.heal()
            await runtime.sleep(1 * HOURS)
            assert told() == [line, f"{SCOPE.root}: merges and packs of the log catalog get on again"]
            assert all(figure.endswith(" 0.0") for figure in await figures())
            assert await readiness() == (200, "ok")
        await close_app(app)

    served(work, cadence=Cadence(packs=PackSize(segments=4, keep=2)), idle_seconds=3 * HOURS, all_workspaces=False)


# What they hold in memory


def hosted(host: Host, scope: Scope) -> Hosted:
    """One that is open, as it is: to use it would be a reason to count."""
    assert host.served is not None
    found = host.served._entries[scope].hosted
    assert found is not None
    return found


async def owner_of(host: Host, scope: Scope) -> str:
    """A key of an owner."""
    runtime = host.runtime
    request: dict[str, Any] = {}
    workspace = await host.find(scope, request)
    assert workspace is not None
    secret, digest = new_secret(runtime)
    await workspace.decide(
        "catalog", CreateApiKey("owner", role=UserRole.OWNER), actor="test", minted={"secret_hash": digest}
    )
    row = await workspace.logs["catalog"].replica.get(KEY_NAMES, "owner", "owner")
    uses_of(request).accept()
    uses_of(request).release()
    return format_token(scope, row.key_id, secret)


class Callers:
    """Of several workspaces, over HTTP."""

    def __init__(self, host: Host, http: httpx.AsyncClient, tokens: dict[Scope, str]) -> None:
        self.host = host
        self.tokens = tokens
        self._http = http

    async def ask(self, scope: Scope, method: str, path: str, body: Any = None) -> Any:
        """An answer, with time for what comes after it."""
        headers = {"Authorization": f"Bearer {self.tokens[scope]}"}
        url = path.format(f"{scope.tenant}.{scope.workspace}")
        answer = await self._http.request(method, url, json=body, headers=headers)
        assert answer.is_success, (answer.status_code, answer.text)
        await self.host.runtime.sleep(2)
        return answer.json()

    def held(self) -> int:
        """What all of them hold now."""
        return sum(OPEN_BYTES + hosted(self.host, scope).bytes_held() for scope in self.host.workspaces)


def called(count: int, test: Callable[[Callers], Coroutine[Any, Any, None]], **given: Any) -> None:
    scopes = [Scope(SCOPE.tenant, f"w{index}") for index in range(count)]

    async def work(host: Host, runtime: FakeRuntime, base: FaultyStore) -> None:
        for scope in scopes:
            await init_workspace(base, scope, runtime)
        tokens = {scope: await owner_of(host, scope) for scope in scopes}
        app = create_app(host)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            await test(Callers(host, http, tokens))
        await close_app(app)

    served(work, **given)


TABLES = "/iceberg/v1/{}/namespaces/ns/tables"
BIG = {"note": "x" * 20_000}


def test_metadata_of_iceberg_tables_counts_and_goes_first() -> None:
    async def work(callers: Callers) -> None:
        host, bound = callers.host, 1 << 20
        assert host.served is not None
        made: dict[tuple[Scope, str], Any] = {}
        for scope in callers.tokens:
            await callers.ask(scope, "POST", "/iceberg/v1/{}/namespaces", {"namespace": ["ns"]})
            for name in ("a", "b", "c"):
                made[scope, name] = await callers.ask(scope, "POST", TABLES, table(name, properties=BIG))
                assert callers.held() <= bound
        sizes = {scope: host.warehouses[scope].bytes_held() for scope in callers.tokens}
        assert min(sizes.values()) == 0, "some let go of it"
        assert max(sizes.values()) > 3 * 6 * len(BIG["note"]), "those that were used last did not have to"
        for _ in range(2):
            for (scope, name), answer in made.items():
                assert await callers.ask(scope, "GET", f"{TABLES}/{name}") == answer
                assert callers.held() <= bound
        for scope in callers.tokens:
            listed = await callers.ask(scope, "GET", TABLES)
            assert sorted(one["name"] for one in listed["identifiers"]) == ["a", "b", "c"]
        assert host.served.closes == 0, "that was enough"
        rows = sum(log.rows_held() for workspace in host.workspaces.values() for log in workspace.logs.values())
        assert len(host.workspaces) * OPEN_BYTES + ROW_BYTES * rows < bound, "and it was not for the rows"

    called(4, work, memory_mb=1)


def test_rows_go_too_and_are_read_again() -> None:
    async def work(callers: Callers) -> None:
        host, bound, names = callers.host, 1 << 20, [f"n{number:03d}" for number in range(200)]
        assert host.served is not None
        first, second = callers.tokens
        await callers.ask(first, "POST", "/iceberg/v1/{}/namespaces", {"namespace": ["ns"]})
        made = await callers.ask(first, "POST", TABLES, table("t", properties=BIG))
        most = 0
        for name in names:
            await callers.ask(second, "POST", "/api/v1/namespaces", {"name": name})
            most = max(most, callers.held())
            assert most <= bound + 16 * ROW_BYTES, "it is counted when a request ends"
        assert most > bound / 2
        assert hosted(host, first).bytes_held() == 0
        listed = await callers.ask(second, "GET", "/api/v1/namespaces?limit=500")
        assert [one["name"] for one in listed["items"]] == names
        assert await callers.ask(first, "GET", f"{TABLES}/t") == made
        assert host.served.closes == 0

    called(2, work, memory_mb=1)

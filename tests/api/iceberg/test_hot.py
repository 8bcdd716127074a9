"""What is given again is what the application would give, whatever happened in between, and by whom."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from arco.api import Door, Host, create_app
from arco.api._caller import authenticate, format_token, new_secret
from arco.api._limits import RateLimiter
from arco.api.iceberg._hot import MAX_KEY, hold
from arco.core import RateLimited
from arco.domains.access import KEY_NAMES, CreateApiKey, RevokeApiKey, UserRole
from arco.runtime import Workspace
from arco.storage import LocalStore, Operation, RequestCounts, Scope
from tests.api.iceberg.content import table
from tests.api.iceberg.world import PREFIX, ask, done, namespace
from tests.api.world import ACME, World, world

TABLES = f"{namespace('ns')}/tables"
T = f"{TABLES}/t"

Answer = tuple[int, dict[str, str], bytes]


def scope_of(method: str, path: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """A request as the server hands it over."""
    parts = urlsplit(f"/iceberg{PREFIX}{path}")
    given = {"host": "localhost:8020", **(headers or {})}
    return {
        "type": "http",
        "method": method,
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


def hot(app: Any, method: str, path: str, headers: dict[str, str] | None = None) -> Answer | None:
    """What is given again, if anything is."""
    found = app.hot.answer(scope_of(method, path, headers))
    if found is None:
        return None
    head, body = found
    first, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), bytes(body)


async def cold(app: Any, method: str, path: str, headers: dict[str, str] | None = None) -> Answer:
    """What the application answers."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope_of(method, path, headers), receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


def alike(found: Answer) -> Answer:
    """An answer without what is another each time."""
    status, headers, body = found
    return status, {name: value for name, value in headers.items() if name != "x-request-id"}, body


async def both(app: Any, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[Answer | None, Answer]:
    """What is given again and what the application answers, which must be the same if both are there."""
    again, plain = hot(app, method, path, headers), await cold(app, method, path, headers)
    if again is not None:
        assert alike(again) == alike(plain)
    return again, plain


@asynccontextmanager
async def on_disk(folder: Path, **options: Any) -> AsyncIterator[World]:
    async with world(store=LocalStore(folder), **options) as made:
        yield made


def run(work: Callable[[World], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def main() -> None:
        async with on_disk(folder, **options) as made:
            await done(made, "POST", "/namespaces", {"namespace": ["ns"]})
            await done(made, "POST", TABLES, table())
            await work(made)

    asyncio.run(main())


def test_a_load_is_given_again_for_two_looks(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        app = made.app
        assert (await both(app, "GET", T))[0] is None
        counts = made.workspace().counts
        before = requests(counts)
        again = hot(app, "GET", T)
        assert requests(counts) - before == {Operation.HEAD: 2}
        assert again is not None
        assert again[0] == 200
        etag = again[1]["etag"]
        for headers in ({"if-none-match": etag}, {"if-none-match": '"other"'}):
            await cold(app, "GET", T, headers)
            assert (await both(app, "GET", T, headers))[0] is not None
        named, _ = await both(app, "GET", T, {"x-request-id": "mine-1"})
        assert named is not None
        assert named[1]["x-request-id"] == "mine-1"
        assert (await cold(app, "HEAD", T))[0] == 204
        assert (await both(app, "HEAD", T))[0] is not None
        await cold(app, "GET", f"{T}?snapshots=refs")
        assert (await both(app, "GET", f"{T}?snapshots=refs"))[0] is not None

    run(work, tmp_path)


def requests(counts: RequestCounts) -> Counter[Operation]:
    found: Counter[Operation] = Counter()
    for (_, operation), number in counts.table().items():
        found[operation] += number
    return found


def test_each_is_counted_and_has_an_id_of_its_own(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        await cold(made.app, "GET", T)
        ((asked, status),) = [one for one in made.app.hot._measured.statuses if one[0].route.endswith("/{table}")]
        before = made.app.hot._measured.statuses[asked, status]
        found = [hot(made.app, "GET", T) for _ in range(3)]
        assert made.app.hot._measured.statuses[asked, status] == before + 3
        assert len({one[1]["x-request-id"] for one in found if one is not None}) == 3

    run(work, tmp_path)


def test_errors_and_what_is_delegated_are_never_given_again(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        for path in (f"{TABLES}/none", "/nowhere", f"{TABLES}/t/credentials", TABLES):
            assert (await both(made.app, "GET", path))[0] is None
            assert (await both(made.app, "GET", path))[0] is None
        huge = {"x-more": "m" * MAX_KEY}
        await both(made.app, "GET", T, huge)
        assert (await both(made.app, "GET", T, huge))[0] is None

    run(work, tmp_path)


def test_a_page_of_another_origin_gets_nothing_though_others_did(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        await cold(made.app, "GET", T)
        for headers in ({"origin": "http://evil.example"}, {"x-forwarded-for": "1.2.3.4"}, {"host": "evil.example"}):
            again, plain = await both(made.app, "GET", T, headers)
            assert (again, plain[0]) == (None, 401)

    run(work, tmp_path)


def test_memory_that_is_not_near_gives_nothing_again() -> None:
    async def main() -> None:
        async with world() as made:
            await done(made, "POST", "/namespaces", {"namespace": ["ns"]})
            await done(made, "POST", TABLES, table())
            await cold(made.app, "GET", T)
            assert hot(made.app, "GET", T) is None

    asyncio.run(main())


def test_a_key_that_is_revoked_or_over_gets_nothing(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        owner = await made.token(UserRole.OWNER)
        await done(made, "POST", "/namespaces", {"namespace": ["ns"]}, token=owner)
        await done(made, "POST", TABLES, table(), token=owner)
        viewer = await made.token(UserRole.VIEWER)
        headers = {"authorization": f"Bearer {viewer}"}
        await cold(made.app, "GET", T, headers)
        assert (await both(made.app, "GET", T, headers))[0] is not None
        assert (await both(made.app, "GET", T, {"authorization": f"Bearer {viewer[:-1]}x"}))[1][0] == 401
        assert (await both(made.app, "GET", T))[1][0] == 401

        for found in made.app.hot._given:
            kept = made.app.hot._given[found]
            made.app.hot._given[found] = kept._replace(expires_at=made.host.runtime.now())
        assert hot(made.app, "GET", T, headers) is None

        await cold(made.app, "GET", T, headers)
        assert hot(made.app, "GET", T, headers) is not None
        key_id = viewer.split("_")[3]
        await made.workspace().decide("catalog", RevokeApiKey(key_id), actor="test")
        again, plain = await both(made.app, "GET", T, headers)
        assert (again, plain[0]) == (None, 401)

    async def main() -> None:
        async with on_disk(tmp_path, door=Door.KEYS) as made:
            await work(made)

    asyncio.run(main())


def test_the_end_of_a_key_is_known(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_disk(tmp_path, door=Door.KEYS) as made:
            owner = await made.token(UserRole.OWNER)
            await done(made, "POST", "/namespaces", {"namespace": ["ns"]}, token=owner)
            await done(made, "POST", TABLES, table(), token=owner)
            workspace, runtime = made.workspace(), made.host.runtime
            secret, digest = new_secret(runtime)
            end = runtime.now() + 3_600_000_000
            command = CreateApiKey("brief", role=UserRole.VIEWER, expires_at=end)
            await workspace.decide("catalog", command, actor="test", minted={"secret_hash": digest})
            row = await workspace.logs["catalog"].replica.get(KEY_NAMES, "brief", "brief")
            headers = {"authorization": f"Bearer {format_token(ACME, row.key_id, secret)}"}
            await cold(made.app, "GET", T, headers)
            assert [kept.expires_at for kept in made.app.hot._given.values()] == [end]

    asyncio.run(main())


def test_requests_that_are_given_again_count(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        await made.done("PATCH", "/settings", {"values": {"rate.requests_per_minute": 60}})
        await cold(made.app, "GET", T)
        while hot(made.app, "GET", T) is not None:
            pass
        rates: RateLimiter = made.app.state.rates
        with pytest.raises(RateLimited):
            rates.take(made.host.actor, 60)
        assert (await cold(made.app, "GET", T))[0] == 429

    run(work, tmp_path)


def test_a_file_that_was_taken_away_is_missed_at_once(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        plain = await cold(made.app, "GET", T)
        assert hot(made.app, "GET", T) is not None
        (file,) = tmp_path.rglob("*.metadata.json")
        data = file.read_bytes()
        file.unlink()
        again, gone = await both(made.app, "GET", T)
        assert (again, gone[0]) == (None, 404)
        file.write_bytes(data)
        assert alike(await cold(made.app, "GET", T)) == alike(plain)

    run(work, tmp_path)


def test_what_another_process_did_is_seen(tmp_path: Path) -> None:
    """The second process has never appended, so that it looks at the log each time."""

    async def work(made: World) -> None:
        runtime = made.host.runtime
        other = await Workspace.open(LocalStore(tmp_path), ACME, runtime, compact=False, address="other")
        host = Host(runtime, {ACME: other}, ACME, Door.DEVELOPMENT)
        app = create_app(host)
        try:
            plain = await cold(app, "GET", T)  # which brings the catalog here, and so is not remembered
            await cold(app, "GET", T)
            again, _ = await both(app, "GET", T)
            assert again is not None
            assert not other.logs["catalog"].owning
            change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
            await done(made, "POST", T, change)
            again, changed = await both(app, "GET", T)
            assert again is None
            assert changed[2] != plain[2]
            assert (await both(app, "GET", T))[0] is not None
            renamed = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
            await done(made, "POST", "/tables/rename", renamed)
            again, gone = await both(app, "GET", T)
            assert (again, gone[0]) == (None, 404)
        finally:
            await other.close()

    run(work, tmp_path)


Step = tuple[str, str]
STEPS = st.tuples(
    st.sampled_from(["create", "commit", "rename", "drop", "namespace", "nothing"]), st.sampled_from("ab")
)


@settings(max_examples=8, deadline=None)
@given(st.lists(STEPS, min_size=4, max_size=14))
def test_it_is_always_what_the_application_answers(steps: list[Step]) -> None:
    async def main(folder: Path) -> None:
        async with on_disk(folder) as made:
            await done(made, "POST", "/namespaces", {"namespace": ["ns"]})
            given = 0
            for number, (step, name) in enumerate(steps):
                await _take(made, step, name, number)
                for path in (f"{TABLES}/a", f"{TABLES}/b"):
                    for _ in range(2):
                        for method in ("GET", "HEAD"):
                            given += (await both(made.app, method, path))[0] is not None
            created = any(step == "create" for step, _ in steps)
            assert given or not created

    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))


async def _take(made: World, step: str, name: str, number: int) -> None:
    """One step, whether it succeeds or not."""
    path, other = f"{TABLES}/{name}", "b" if name == "a" else "a"
    if step == "create":
        await ask(made, "POST", TABLES, {**table(), "name": name})
    elif step == "commit":
        updates = [{"action": "set-properties", "updates": {"step": str(number)}}]
        await ask(made, "POST", path, {"requirements": [], "updates": updates})
    elif step == "rename":
        names = {"source": {"namespace": ["ns"], "name": name}, "destination": {"namespace": ["ns"], "name": other}}
        await ask(made, "POST", "/tables/rename", names)
    elif step == "drop":
        await ask(made, "DELETE", path)
    elif step == "namespace":
        await ask(made, "POST", "/namespaces", {"namespace": [f"more{number}"]})


def test_an_answer_that_is_dropped_elsewhere_is_not_held_here(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        await cold(made.app, "GET", T)
        warehouse = made.host.warehouse_of(ACME)
        made.host.warehouses[ACME] = replace(warehouse, answers=type(warehouse.answers)(0))
        warehouse.answers._found.clear()
        del warehouse
        assert hot(made.app, "GET", T) is None
        assert (await cold(made.app, "GET", T))[0] == 200

    run(work, tmp_path)


def test_what_changed_while_it_was_asked_who_asks_is_not_overlooked(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        scope = scope_of("GET", T)
        caller = await authenticate(made.host, Request(scope))
        for stands_still in (True, False):
            if not stands_still:
                await done(made, "POST", "/namespaces", {"namespace": ["meanwhile"]})
            made.app.hot._given.clear()
            hold(scope, lambda: True)
            made.app.hot.remember(scope, caller, 60, Response(b""))
            assert bool(made.app.hot._given) == stands_still

    run(work, tmp_path)


def test_the_application_answers_now_and_then_so_that_a_workspace_in_use_is_known(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        await cold(made.app, "GET", T)
        assert hot(made.app, "GET", T) is not None
        [(key, kept)] = made.app.hot._given.items()
        made.app.hot._given[key] = kept._replace(ask_at=made.host.runtime.boottime() - 1)
        assert hot(made.app, "GET", T) is None

    run(work, tmp_path)


def test_answers_of_a_workspace_that_was_closed_are_not_held(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        await cold(made.app, "GET", T)
        for told in made.host.on_closed:
            told(Scope("acme", "another"))
        assert hot(made.app, "GET", T) is not None
        for told in made.host.on_closed:
            told(ACME)
        assert not made.app.hot._given

    run(work, tmp_path)

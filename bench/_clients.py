"""Many clients at once over real sockets, on one server process and on three: how fast, and is everything right after.

Each client has a connection of its own, sends a request key with every write and waits for its answer. Afterwards what
was answered is compared with what the log and `system.tables` say: every acknowledged table is there exactly once, at
the position its answer named, of many that raced for a name one won, and no increment of a counter was lost.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arco.core import new_ulid
from arco.log import FIRST_LINK, Ledger, Place, Unknown, number_of, position_of, read_log
from arco.runtime import AsyncRuntime, init_workspace
from arco.state import Revisions, open_ledger
from arco.storage import LocalStore, RequestCounts, Role, RoleStore, Scope, Tail
from bench._measure import Line, Stopwatch, percentile
from bench._servers import Client, servers

__all__ = ["measure_clients"]

CLIENTS = 32
COLUMNS = 20
SECTION = f"clients: {CLIENTS} over HTTP (local disk)"
ATTEMPTS = 1_000
"""How often a client tries to change a counter that others change too."""


@dataclass(frozen=True)
class _Done:
    """A table whose creation was acknowledged."""

    name: str
    operation: str
    position: int
    began: float
    ended: float

    @property
    def milliseconds(self) -> float:
        return (self.ended - self.began) * 1_000


@dataclass
class _Load:
    """Clients of one workspace, spread evenly over its servers."""

    runtime: AsyncRuntime
    clients: list[Client]
    created: list[_Done] = field(default_factory=list)
    """Everything that was acknowledged."""

    async def together(self, work: Callable[[int, Client], Awaitable[Any]], clients: int = CLIENTS) -> list[Any]:
        return await asyncio.gather(*(work(number, self.clients[number]) for number in range(clients)))

    async def create(self, client: Client, name: str, wait: str) -> int:
        """Try to create a table; the status of the answer."""
        columns = [{"name": f"column_{number:02d}", "type": "string"} for number in range(COLUMNS)]
        body = {"name": f"bench.{name}", "columns": columns}
        began = self.runtime.boottime()
        answer = await client.ask("POST", f"/tables?wait={wait}", body, key=self.key())
        if answer.status == 201:
            ended, found = self.runtime.boottime(), answer.body
            self.created.append(_Done(name, found["operation_id"], int(found["position"]), began, ended))
        return answer.status

    def key(self) -> str:
        return new_ulid(self.runtime, self.runtime)


@dataclass(frozen=True)
class _Phase:
    """So many tables created by some clients."""

    done: list[_Done]
    seconds: float
    publishes: int

    @property
    def rate(self) -> float:
        return len(self.done) / self.seconds

    @property
    def group(self) -> float:
        """Tables for each segment."""
        return len(self.done) / len({number_of(one.position) for one in self.done})

    def percentile(self, percent: int) -> float:
        return percentile([one.milliseconds for one in self.done], percent)


async def measure_clients(folder: Path, runtime: AsyncRuntime, quick: bool) -> list[Line]:
    lines: list[Line] = []
    for count in (1, 3):
        lines += await _measure(folder / str(count), count, runtime, 6 if quick else 40)
    return lines


async def _measure(folder: Path, count: int, runtime: AsyncRuntime, each: int) -> list[Line]:
    scope = Scope("bench", "clients")
    store = LocalStore(folder)
    incarnation = await init_workspace(store, scope, runtime)
    place = Place(scope.tenant, scope.workspace, incarnation.id, "catalog")
    revisions = Revisions(RoleStore(store, scope, Role.READER, RequestCounts()), place, runtime)
    with servers(folder, scope, count) as urls:
        load = _Load(runtime, [Client(urls[number % count]) for number in range(CLIENTS)])
        try:
            await _prepare(load)
            alone = await _phase(load, revisions, "alone", "published", each, clients=1)
            published = await _phase(load, revisions, "published", "published", each)
            durable = await _phase(load, revisions, "durable", "durable", each)
            checks = [await _race(load), await _repeat(load), await _count(load), await _listed(load)]
        finally:
            for client in load.clients:
                await client.close()
    store = LocalStore(folder / scope.root)
    checks.append(await _logged(load, open_ledger(store, Revisions(store, place, runtime))))
    name = "1 server" if count == 1 else f"{count} servers"
    return [
        _speed(f"{name}, 1 client, published", alone, alone),
        _speed(f"{name}, published", published, alone),
        _speed(f"{name}, durable", durable, alone),
        *[_verdict(f"{name}, {what}", found, wanted) for what, found, wanted in checks],
    ]


async def _prepare(load: _Load) -> None:
    """All clients are one identity here, so its rate is raised to what all of them send."""
    first = load.clients[0]
    limit = {"rate.requests_per_minute": 1_000_000}
    position = (await first.done("PATCH", "/settings", {"values": limit}, key=load.key()))["position"]
    await first.done("POST", "/namespaces", {"name": "bench"}, key=load.key())
    # Every server must know of it before the load begins, and has carried out something before it is measured.
    await load.together(lambda _, client: client.done("GET", f"/namespaces/bench?min_position={position}"))
    await load.together(lambda number, client: load.create(client, f"first_{number:02d}", "published"))


async def _phase(load: _Load, revisions: Revisions, name: str, wait: str, each: int, clients: int = CLIENTS) -> _Phase:
    async def create_some(number: int, client: Client) -> None:
        for turn in range(each):
            status = await load.create(client, f"{name}_{number:02d}_{turn:04d}", wait)
            if status != 201:
                raise RuntimeError(f"creating a table was answered {status}")

    before, known = (await revisions.head()).manifest.number, len(load.created)
    with Stopwatch() as watch:
        await load.together(create_some, clients)
    published = (await revisions.head()).manifest.number - before
    return _Phase(load.created[known:], watch.wall, published)


def _speed(name: str, phase: _Phase, alone: _Phase) -> Line:
    """Segments and publishes for each table, beside the rate and how long a client waits."""
    return Line(
        SECTION,
        f"{name}: {1 / phase.group:.2f} segments, {phase.publishes / len(phase.done):.2f} publishes",
        f"{phase.rate:.0f} tables/s",
        f"p50 {phase.percentile(50):.0f} ms, p95 {phase.percentile(95):.0f} ms",
        phase.rate / alone.rate if phase is not alone else None,
    )


def _verdict(name: str, found: str, wanted: str) -> Line:
    right = found == wanted
    return Line(SECTION, name, found, "" if right else f"must be {wanted}", budget="exactly", ok=right)


# Is it right? What was looked at, what was found, what it must be.

_Check = tuple[str, str, str]


async def _race(load: _Load) -> _Check:
    """All clients want the same name."""
    rounds, found = 5, Counter[str]()
    for number in range(rounds):

        async def take(_: int, client: Client, name: str = f"race_{number}") -> int:
            return await load.create(client, name, "durable")

        statuses = Counter(await load.together(take))
        found[", ".join(f"{times} × {status}" for status, times in sorted(statuses.items()))] += 1
    text = "; ".join(f"{times} times {outcome}" for outcome, times in sorted(found.items()))
    return f"races of {CLIENTS} for a name", text, f"{rounds} times 1 × 201, {CLIENTS - 1} × 409"


async def _repeat(load: _Load) -> _Check:
    """Every client sends one request three times at once, under one key and over three connections."""

    async def send(number: int, client: Client) -> bool:
        key, name = load.key(), f"repeated_{number:02d}"
        others = [load.clients[(number + step) % CLIENTS] for step in (11, 22)]
        began = load.runtime.boottime()
        answers = await asyncio.gather(
            *(one.ask("POST", "/tables", {"name": f"bench.{name}"}, key=key) for one in (client, *others))
        )
        found = [answer.body for answer in answers if answer.status == 201]
        if len(found) < len(answers):
            return False
        ended = load.runtime.boottime()
        load.created.append(_Done(name, found[0]["operation_id"], int(found[0]["position"]), began, ended))
        return len({answer["table"]["id"] for answer in found}) == 1 and sum(a["replayed"] for a in found) == 2

    # One after the other: a connection carries one request at a time.
    same = sum([await send(number, client) for number, client in enumerate(load.clients)])
    return "requests sent three times at once under a key", f"{same} done once", f"{CLIENTS} done once"


async def _count(load: _Load) -> _Check:
    """Every client adds one to a number that all of them read and write, if nobody wrote it meanwhile."""
    await load.clients[0].done("POST", "/tables", {"name": "bench.counter", "properties": {"n": "0"}}, key=load.key())

    async def add_one(_: int, client: Client) -> int:
        for attempt in range(ATTEMPTS):
            read = await client.ask("GET", "/tables/bench.counter")
            body = {"set_properties": {"n": str(int(read.body["properties"]["n"]) + 1)}}
            answer = await client.ask(
                "PATCH",
                "/tables/bench.counter?wait=durable",
                body,
                key=load.key(),
                headers={"If-Match": read.headers["etag"]},
            )
            if answer.status == 200:
                return attempt
            if answer.status != 412:
                raise RuntimeError(f"a counter was answered {answer.status}: {answer.body}")
        raise RuntimeError("a client never got its turn")

    tries = sum(await load.together(add_one)) + CLIENTS
    final = (await load.clients[-1].done("GET", "/tables/bench.counter"))["properties"]["n"]
    return f"{CLIENTS} increments with If-Match, {tries} tries", f"final value {final}", f"final value {CLIENTS}"


async def _listed(load: _Load) -> _Check:
    """`system.tables`, asked on another server than the one that wrote last."""
    sql = "select name, count(*) from system.tables where namespace = 'bench' and name <> 'counter' group by name"
    rows = (await load.clients[-1].done("POST", "/query", {"sql": sql, "max_rows": 10_000}))["rows"]
    wanted = {done.name: 1 for done in load.created}
    right = sum(wanted.get(name) == times for name, times in rows)
    found = f"{right} of {len(rows)} once each"
    return "tables in system.tables", found, f"{len(wanted)} of {len(load.created)} once each"


async def _logged(load: _Load, ledger: Ledger) -> _Check:
    """The log is the one order in which everything happened: its chain holds, every acknowledgement is an event at its
    position, and what began after something else was acknowledged stands after it."""
    created: dict[int, tuple[str, str]] = {}
    async for found in read_log(ledger, Tail(0, Unknown), FIRST_LINK):
        if isinstance(found, Tail):
            break
        for index, event in enumerate(found[0].events):
            if event.type == "TableCreated" and event.subject != "bench.counter":
                created[position_of(found[0].header.number, index)] = (event.subject, event.operation)
    right = sum(created.get(done.position) == (f"bench.{done.name}", done.operation) for done in load.created)
    ordered, latest, ends = 0, 0, sorted(load.created, key=lambda done: done.ended)
    for done in sorted(load.created, key=lambda done: done.began):
        while ends and ends[0].ended < done.began:
            latest = max(latest, ends.pop(0).position)
        ordered += done.position > latest
    number = len(load.created)
    text = "{} tables, {} as answered, {} in order"
    return "the log, verified", text.format(len(created), right, ordered), text.format(number, number, number)

"""Facts that arrive more than once, out of order, or late (criteria 1, 2 and 9)."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec

from arco.core import ServiceIdentity, new_ulid
from arco.domains.catalog import CreateNamespace
from arco.domains.execution import MATERIALIZATION_COMPLETED, MaterializationCompleted
from arco.log import Command
from arco.runtime import AsyncRuntime
from arco.state import new_event
from tests.acceptance import facts
from tests.acceptance.conftest import Served
from tests.acceptance.deployment import SECRET, new_key

TIMES = 10


def forward(served: Served, log: str, command: Command) -> httpx.Response:
    """Hand a command to the owner as another process of the deployment does."""
    incarnation = served.api.done("GET", "/whoami")["incarnation"]
    path = f"/internal/{served.bucket.scope.root}/logs/{log}/commands?incarnation={incarnation}"
    body = msgspec.json.encode(command)
    identity = ServiceIdentity(SECRET.encode(), "test", AsyncRuntime())
    headers = {"content-type": "application/json", **identity.headers("POST", path, body)}
    return served.api.http.post(f"{served.api.url}{path}", content=body, headers=headers)


def check_published(served: Served, log: str) -> None:
    """What is published is what the log says, folded in the order of positions."""
    assert served.bucket.arco("compact", log).code == 0
    assert served.bucket.unlike_the_log(log) == []


def test_a_request_sent_ten_times_with_its_key_is_carried_out_once(workspace: Served) -> None:
    api, bucket = workspace.api, workspace.bucket
    before = len(bucket.events("catalog"))
    names, batch = [new_key() for _ in range(3)], [facts.materialization(facts.asset(), day) for day in range(5)]
    answers: list[list[dict[str, Any]]] = [[] for _ in range(4)]
    keys = [new_key() for _ in range(4)]
    for _ in range(TIMES):
        for number, name in enumerate(names):
            answers[number].append(api.done("POST", "/namespaces", {"name": name}, key=keys[number]))
        answers[3].append(api.send(batch, key=keys[3]))
    for told in answers:
        assert [answer["replayed"] for answer in told] == [False] + [True] * (TIMES - 1)
        assert len({(answer["operation_id"], answer["position"]) for answer in told}) == 1
    assert [event.key for _, event in bucket.events("catalog")[before:]] == keys[:3]
    assert [event.key for _, event in bucket.events("activity")] == [keys[3]] * 5
    # The same key with something else asked is neither carried out nor taken for the first request.
    assert api.ask("POST", "/namespaces", {"name": new_key()}, key=keys[0]).status_code == 409

    # Facts without a key: nobody can know that it is the same request, so the log has it each time, the state once.
    for _ in range(TIMES):
        api.send(batch)
    assert len(bucket.events("activity")) == 5 * (TIMES + 1)

    # A forwarded command that lands again, because its answer was lost: the operation id tells, or the fact's own id.
    runtime = AsyncRuntime()
    data = msgspec.Raw(msgspec.json.encode(CreateNamespace(("forwarded",))))
    fact = msgspec.convert(facts.materialization(facts.asset())["data"], MaterializationCompleted)
    told_once = msgspec.structs.replace(new_event(MATERIALIZATION_COMPLETED, fact), id=new_key())
    decided = Command(new_ulid(runtime, runtime), "test", name="CreateNamespace", data=data)
    recorded = Command(new_ulid(runtime, runtime), "test", events=(told_once,))
    for log, command in (("catalog", decided), ("activity", recorded)):
        sent = [forward(workspace, log, command) for _ in range(TIMES)]
        assert {answer.status_code for answer in sent} == {200}, sent[0].text
    assert [event.operation for _, event in bucket.events("catalog")].count(decided.operation) == 1

    assert api.values(
        "select count(*) from system.namespaces",
        "select count(*) from system.materializations",
        "select max(version) from system.materializations",
        "select count(*) from system.partitions",
        "select max(version_count) from system.partitions",
        "select count(*) from system.rejections",
    ) == [4, 6, 1, 6, 1, 0]
    for log in ("catalog", "activity"):
        check_published(workspace, log)


def test_replaying_the_whole_ledger_gives_the_same_rows(common: Served) -> None:
    """A segment cannot be delivered twice here: its number is its identity, and a reader takes each number once. What
    can be done again is the fold of all of them."""
    api = common.api
    api.done("POST", "/namespaces", {"name": "replayed"})
    for number in range(5):
        assert api.create_table(f"replayed.t{number}", 3).is_success
    api.send([facts.materialization(facts.asset(), day % 3) for day in range(30)])
    names = ["tables", "columns", "names", "audit", "materializations", "partitions"]

    def state() -> list[Any]:
        return api.values(*(f"select list(t order by t) from system.{name} t" for name in names))

    before = state()
    for _ in range(2):
        assert common.bucket.arco("rebuild").code == 0
        assert state() == before
    assert api.create_table("replayed.t9").is_success  # the server goes on from what was swapped in
    tables = api.done("GET", "/tables", namespace="replayed")["items"]
    assert [table["name"] for table in tables] == [f"replayed.t{number}" for number in (0, 1, 2, 3, 4, 9)]
    for log in ("catalog", "activity"):
        check_published(common, log)


def many_facts() -> list[dict[str, Any]]:
    """Facts of every kind about a few assets; what is told of a materialization may arrive before it."""
    assets, start = [facts.asset() for _ in range(3)], facts.now() - 1_000_000
    found = []
    for number in range(36):
        at = start + 1_000 * number
        made = facts.materialization(assets[number % 3], number % 4, at=at)
        found += [made, facts.check(made, number, at), facts.check(made, number + 1, at)]
        found.append(facts.observation(assets[number % 3], at))
        found.append(facts.lineage(assets[number % 3], assets[(number + 1) % 3], number, at))
    return found


ORDER_FREE = {
    "materializations": "version, _position",
    "partitions": "current_materialization_id, current_version, newest_materialization_id, last_task_id,"
    "last_success_at, created_at, updated_at, _position",
    "observations": "_position",
    "check_results": "_position",
    "gating_decisions": "_position",
    "check_result_days": "_position",
    "quality": "updated_at, _position",
    "lineage_edges": "recorded_lineage_at, created_at, updated_at, _position",
    "lineage_executions": "_position",
    "lineage_execution_days": "_position",
    "lineage_upstream": "_position",
    "lineage_ids": "_position",
    "lineage_metadata": "updated_at, _position",
}
"""Tables, and the columns in which the order of arrival shows."""


def test_facts_in_any_order_and_in_any_batches_give_the_same_state(workspace: Served, another: Served) -> None:
    """Segments themselves have no order but their numbers, in which everybody folds them; who is told of a later one
    first reads those between. What may come in any order is what producers send."""
    told, chance = many_facts(), random.Random(2)
    shuffled = chance.sample(told, len(told))
    states = []
    for served, ordered, most in ((workspace, told, 60), (another, shuffled, 9)):
        left = list(ordered)
        while left:
            size = chance.randint(1, most)
            served.api.send(left[:size])
            del left[:size]
        # Some of them once more, after everything else.
        served.api.send(chance.sample(ordered, 20))
        states.append(
            served.api.values(
                "select count(*) from system.rejections",
                *(
                    f"select list(t order by t) from (select * exclude ({columns}) from system.{name}) t"
                    for name, columns in ORDER_FREE.items()
                ),
            )
        )
    assert [state[0] for state in states] == [0, 0]
    for number, name in enumerate(ORDER_FREE, 1):
        assert states[0][number] == states[1][number], name
        assert states[0][number], name
    for served in (workspace, another):
        check_published(served, "activity")


def test_the_current_version_is_the_published_one_with_the_greatest_position(common: Served) -> None:
    api, chance, start = common.api, random.Random(9), facts.now() - 1_000_000
    asset_id = facts.asset()
    made = [
        facts.materialization(
            asset_id,
            day=number % 5,
            at=start + chance.randint(0, 900_000),
            status="quarantined" if number % 4 == 3 else "published",
        )
        for number in range(80)
    ]
    made.append(facts.materialization(asset_id, day=5, status="quarantined"))
    chance.shuffle(made)
    with ThreadPoolExecutor(8) as producers:
        list(producers.map(lambda first: api.send(made[first : first + 3]), range(0, len(made), 3)))
    api.send(chance.sample(made, 30))  # told again, after others: it makes nothing current

    first: dict[str, tuple[int, dict[str, Any]]] = {}
    for position, data in common.bucket.payloads("activity"):
        if data.get("asset_id") != asset_id:
            continue
        first.setdefault(data["materialization_id"], (position, data))
    expected: dict[str, str | None] = {fact["data"]["partition_id"]: None for fact in made}
    for _, data in sorted(first.values(), key=lambda found: found[0]):
        if data.get("status", "published") == "published":
            expected[data["partition_id"]] = data["materialization_id"]
    assert len(expected) == 6
    current = api.rows(
        f"select partition_id, current_materialization_id from system.partitions where asset_id = '{asset_id}'"
    )
    assert dict(map(tuple, current)) == expected
    versions = "select list(version order by _position) from system.materializations group by partition_id"
    assert all(found == list(range(1, len(found) + 1)) for [found] in api.rows(versions))
    check_published(common, "activity")

"""Compactors that die, race and fall behind (criteria 4, 5 and 8), and one that is not there.

The server of the API and the compactor are processes of their own. The tests share them, and leave both running.
"""

import itertools
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.acceptance.bucket import Bucket
from tests.acceptance.conftest import Served
from tests.acceptance.deployment import Deployment, Process, new_key, until
from tests.acceptance.load import LOGS, Load, attempts, check_state, names_of

BUSY = {"publish_interval_ms": 20, "merge_fan_in": 2}
"""Settings with which a compactor publishes and merges nearly all the time."""


@dataclass
class Pair:
    deployment: Deployment
    api: Process
    compactor: Process

    @property
    def bucket(self) -> Bucket:
        return self.deployment.bucket

    def start_compactor(self) -> None:
        [self.compactor] = self.deployment.start("compactor", **BUSY)


@pytest.fixture(scope="module")
def pair(module_deployment: Deployment) -> Iterator[Pair]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCEPTANCE_PATIENCE", "2")
        [api] = module_deployment.start("api")
    api.done("POST", "/namespaces", {"name": "sales"}, wait="durable")
    [compactor] = module_deployment.start("compactor", **BUSY)
    found = Pair(module_deployment, api, compactor)
    yield found
    for process in (found.compactor, found.api):
        if process.process.is_alive():  # else a test failed half-way
            process.end()


def is_in_the_middle(bucket: Bucket, of: str) -> bool:
    """Whether a compactor that stands still has announced a merge and not finished it, or written files for the next
    revision and not published it."""
    head = bucket.head("catalog")
    merges = {pending.id for pending in head.pending}
    if of == "merge":
        return bool(merges)
    return any(base == head.number and attempt not in merges for base, attempt in attempts(bucket, head))


def kill_in_the_middle(compactor: Process, bucket: Bucket, of: str) -> None:
    def caught() -> bool:
        compactor.signal(signal.SIGSTOP)
        if is_in_the_middle(bucket, of):
            return True
        compactor.signal(signal.SIGCONT)
        time.sleep(0.3)  # let it get on before we look again
        return False

    until(caught, f"a compactor in the middle of a {of}", 40)
    compactor.kill()


def test_a_compactor_killed_while_it_publishes_or_merges_leaves_nothing_wrong(pair: Pair) -> None:
    api, bucket = pair.api, pair.bucket
    api.done("POST", "/namespaces", {"name": "crash"})
    load = Load(api, "crash")
    with load.running():
        for of in ("merge", "publish"):
            kill_in_the_middle(pair.compactor, bucket, of)
            pair.start_compactor()
    assert api.create_table("crash.last").status_code == 201
    until(lambda: not any(bucket.head(log).pending for log in LOGS), "merges of the dead are finished by the living")
    assert names_of(api, "crash") == sorted([*load.tables, "crash.last"])
    assert sorted(data["materialization_id"] for _, data in bucket.payloads("activity")) == sorted(load.facts)
    check_state(bucket)
    examined = bucket.arco("doctor")
    assert examined.code == 0, examined.text


def test_of_two_compactors_exactly_one_wins_each_revision_and_the_other_goes_on(pair: Pair) -> None:
    api, bucket = pair.api, pair.bucket
    until(lambda: bucket.head("catalog").number, "something was published")
    manifests = [bucket.head("catalog")]
    [rival] = pair.deployment.start("compactor", **BUSY)
    both = [rival, pair.compactor]
    api.done("POST", "/namespaces", {"name": "race"})

    def race() -> bool:
        """Both hear of a write at the same moment, and publish it. Whether that is decided often enough."""
        number = next(races)
        for compactor in both:
            compactor.signal(signal.SIGSTOP)
        written = api.create_table(f"race.t{number}", wait="durable").json()
        for compactor in both[:: 1 if number % 2 else -1]:
            compactor.signal(signal.SIGCONT)
        until(lambda: api.done("GET", f"/operations/{written['operation_id']}")["published"], "one publishes it")
        manifests.extend(bucket.manifests("catalog", manifests[-1].number)[1:])
        return is_decided()

    def is_decided() -> bool:
        """Both have won revisions, in turn, and some were written in vain: another was first."""
        first, *new = manifests
        kept = {manifest.id for manifest in new}
        kept |= {pending.id for manifest in new for pending in manifest.pending}
        bases = range(first.number, manifests[-1].number)
        lost = [one for base, one in attempts(bucket, first) if base in bases and one not in kept]
        turns = sum(one.publisher != after.publisher for one, after in itertools.pairwise(new))
        return {manifest.publisher for manifest in new} == {one.url for one in both} and turns >= 4 and len(lost) >= 2

    races = itertools.count(1)
    until(race, "two compactors won from each other", 40)
    assert api.create_table("race.t0").status_code == 201
    for compactor in both:
        assert api.http.get(f"{compactor.url}/readyz").status_code == 200
    rival.end()
    assert names_of(api, "race") == sorted(f"race.t{number}" for number in range(next(races)))
    check_state(bucket)


def test_without_a_compactor_a_write_is_durable_and_settled_later(pair: Pair) -> None:
    """The server waits 2 s for a publisher here, not 20."""
    api, bucket = pair.api, pair.bucket
    # Killed while it publishes, it may leave a request that the store carries out after we looked.
    until(lambda: not bucket.head("catalog").pending, "the compactor rests")
    pair.compactor.kill()
    head = bucket.head("catalog").number
    key = new_key()
    answer = api.create_table("sales.orders", key=key)
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["Retry-After"]) >= 1
    problem = answer.json()
    assert problem["type"] == "urn:arco:problem:outcome-unknown"
    operation = api.done("GET", f"/operations/{problem['operation_id']}")
    assert (operation["status"], operation["published"], operation["log"]) == ("done", False, "catalog")
    assert len({event.operation for _, event in bucket.events("catalog") if event.key == key}) == 1
    assert bucket.head("catalog").number == head
    # Whoever needs no revision is not held up, and the same request again is the same operation.
    assert api.done("GET", "/tables/sales.orders")["name"] == "sales.orders"
    again = api.create_table("sales.orders", key=key, wait="durable")
    assert (again.status_code, again.json()["replayed"]) == (201, True)
    assert again.json()["operation_id"] == problem["operation_id"]

    pair.start_compactor()
    until(lambda: api.done("GET", f"/operations/{problem['operation_id']}")["published"], "it is published")
    assert int(bucket.head("catalog").watermark) >= int(operation["last_position"])
    settled = api.create_table("sales.orders", key=key)
    assert (settled.status_code, settled.json()["replayed"]) == (201, True)
    assert api.create_table("sales.next").status_code == 201
    assert bucket.unlike_the_log("catalog") == []


def test_many_deltas_are_merged_and_layers_stay_few(workspace: Served) -> None:
    api, bucket = workspace.api, workspace.bucket
    api.done("POST", "/namespaces", {"name": "sales"})
    for number in range(60):
        assert api.create_table(f"sales.t{number}").status_code == 201
    manifests = bucket.manifests("catalog")
    layers = [layer for manifest in manifests for layer in manifest.layers]
    written = {file.path.split("/")[3][21:] for layer in layers for file in layer.files}
    assert len(written & {manifest.id for manifest in manifests}) > 50, "so many deltas"
    until(lambda: not bucket.head("catalog").pending, "merges are finished")
    head = bucket.head("catalog")
    for table in {layer.table for layer in head.layers}:
        layers = head.layers_of(table)
        files = [file for layer in layers for file in layer.files]
        assert sum(layer.level == 0 for layer in layers) < 8, table
        assert len(layers) <= 7 * 3, table
        assert len(files) <= 50, table
        assert max(file.length for file in files) <= 256 << 20
    base = head.layers_of("tables")[0]
    assert base.level > 0
    assert base.rows >= 8, "the oldest deltas are a new base"
    assert len(names_of(api, "sales")) == 60
    assert bucket.unlike_the_log("catalog") == []

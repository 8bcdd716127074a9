"""A pipeline whose workspace and data are on S3; the worker's key may do what `arco policy` says, and no more."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from arco.core import ArcoError
from arco.storage import ObjectMissing, Store, open_store
from tests.emulators.servers import Emulator, run_guarded_moto
from tests.spark.jars import s3_jars
from tests.spark.pipelines import PIPELINE, Site, carry_out_example, check_lineage, check_results, plans

pytestmark = pytest.mark.prove

NOSY = """

@asset(engine="spark")
def reads_of_others(context):
    return context.spark.read.parquet("s3a://arco-test/lake/rival/prod/data/secret.parquet")


@asset(engine="spark")
def writes_elsewhere(context):
    context.spark.range(1).write.parquet("s3a://arco-test/lake/acme/prod/code/evil")
    return context.spark.range(1)
"""


@dataclass(frozen=True)
class Guarded:
    site: Site
    emulator: Emulator
    folder: Path

    def store(self, key: str) -> Store:
        return open_store(self.emulator.url("lake"), {**self.emulator.options, "access_key_id": key})

    def denied(self) -> list[dict[str, Any]]:
        path = self.folder / "denied"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def environ(emulator: Emulator, key: str, tenant: str = "acme") -> dict[str, str]:
    options = {**emulator.options, "access_key_id": key}
    named = {f"ARCO_STORE_OPTIONS_{name.upper()}": str(value).lower() for name, value in options.items()}
    named |= {"ARCO_STORE": emulator.url("lake"), "ARCO_TENANT_ID": tenant, "ARCO_WORKSPACE_ID": "prod"}
    return {**named, "ARCO_SERVICE_SECRET": "the secret of servers and of workers"}


@contextmanager
def serving(folder: Path, source: str, *init: str) -> Iterator[Guarded]:
    """A project on S3 with a server, and a worker whose key is guarded."""
    jars = s3_jars()
    with run_guarded_moto(folder) as emulator:
        Site(folder / "rival", environ(emulator, "test", "rival")).arco("init")
        site = Site(folder / "project", environ(emulator, "test"), source)
        site.arco("init", *init)
        policy = site.arco("policy", "spark")
        (folder / "policies.json").write_text(json.dumps({"test": None, "worker": policy}))
        conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.jars": ",".join(jars)}
        options = [part for pair in conf.items() for part in ("--spark-conf", "=".join(pair))]
        with site.serving():
            site.arco("deploy")
            with site.running(environ(emulator, "worker"), "worker", "--slots", "1", "--master", "local[2]", *options):
                yield Guarded(site, emulator, folder)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with serving(tmp_path_factory.mktemp("guarded"), PIPELINE + NOSY) as made:
        yield made


@pytest.mark.minutes
def test_the_example_runs_with_what_the_policy_allows(tmp_path: Path) -> None:
    with serving(tmp_path, "", "--example") as made:
        carry_out_example(made.site)
        assert made.denied() == []


def test_a_pipeline_runs_with_what_the_policy_allows(guarded: Guarded) -> None:
    guarded.site.backfill("n.totals,n.kinds,n.raw")
    check_results(guarded.site)
    check_lineage(guarded.site)
    assert plans(guarded.site, "kinds") == {"together"}
    assert guarded.denied() == []


@pytest.mark.parametrize("name", ["reads_of_others", "writes_elsewhere"])
def test_functions_cannot_leave_their_prefixes(guarded: Guarded, name: str) -> None:
    before = len(guarded.denied())
    run = guarded.site.arco("run", f"n.{name}", "--watch", exits=8)
    assert run is not None
    assert len(guarded.denied()) > before
    assert {one["key"] for one in guarded.denied()} == {"worker"}
    (error,) = guarded.site.rows(f"SELECT DISTINCT error FROM system.tasks WHERE asset_key = 'n.{name}'")[0]
    assert "403" in error or "AccessDenied" in error


def test_the_key_of_a_worker_opens_nothing_else(guarded: Guarded) -> None:
    async def scenario() -> None:
        store, own = guarded.store("worker"), "acme/prod"
        (incarnation,) = {
            info.path.split("/")[2] async for info in guarded.store("test").list(own) if "/ledger/" in info.path
        }
        places = ["data/x", "code/x", "blobs/x", "incarnations/x", f"{incarnation}/ledger/activity/x"]
        refused = [path for path in places if not await _can(store.put(f"{own}/{path}", b"", only_if_absent=True))]
        assert refused == places[1:]
        assert not await _can(store.delete(f"{own}/data/x"))
        for path in ("rival/prod/incarnations/1", "rival/prod/data/x"):
            assert not await _can(store.get(path))
            assert not await _can(store.put(path, b"", only_if_absent=True))

        async def look() -> list[str]:
            return [info.path async for info in store.list("rival/prod")]

        assert not await _can(look())

    asyncio.run(scenario())


async def _can(work: Any) -> bool:
    try:
        await work
    except ObjectMissing:
        return True
    except ArcoError:
        return False
    return True

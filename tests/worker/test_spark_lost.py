"""A server of Spark Connect that is killed in the middle of a job: the attempt is lost, the next one begins anew."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from arco.domains.orchestration import FailureCategory, FinishTask, Outcome
from arco.spark import SparkSettings
from tests.spark.clusters import connect_server, free_port
from tests.worker.test_spark import SOURCE, begun, failed, heard
from tests.worker.warm import WarmWorld, on_spark

pytestmark = [pytest.mark.prove, pytest.mark.minutes]


class Server:
    """A server at one place, killed and started as often as is wanted."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._port = free_port()
        self.url = f"sc://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._stack.enter_context(connect_server(self._folder, {"spark.ui.enabled": "false"}, self._port))

    def kill(self) -> None:
        os.kill(int((self._folder / "connect" / "pid").read_text()), signal.SIGKILL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ExitStack() as stack:
        made = Server(tmp_path_factory.mktemp("server"), stack)
        made.start()
        yield made


@pytest.fixture(scope="module")
def world(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmWorld]:
    settings = SparkSettings(server.url, {"spark.sql.shuffle.partitions": "2"})
    made = WarmWorld(tmp_path_factory.mktemp("world"), SOURCE, spark=settings)
    made.start()
    yield made
    made.close()


def lost(result: FinishTask, *texts: str) -> None:
    failed(result, FailureCategory.WORKER_LOST, *texts)
    assert result.failure is not None
    assert (result.failure.is_transient, result.failure.retryable) == (True, True)


def test_a_server_that_is_killed_is_a_loss_and_its_successor_is_used(server: Server, world: WarmWorld) -> None:
    first = world.envelope(definitions=(on_spark("endless"),), heartbeat_seconds=4.0)
    world.give(first)
    begun(world, first.attempt_id)
    heard(world, first.attempt_id)
    server.kill()
    lost(world.result(first), "went away", "does not answer")
    unmet = world.do(world.envelope(definitions=(on_spark("empty"),)))
    failed(unmet, FailureCategory.UPSTREAM_FAILURE, f"{server.url} does not answer", "--master")
    server.start()
    second = world.envelope(definitions=(on_spark("endless"),), heartbeat_seconds=4.0)
    world.give(second)
    heard(world, second.attempt_id)
    server.kill()
    server.start()
    lost(world.result(second), "started anew")
    assert world.do(world.envelope(definitions=(on_spark("empty"),))).outcome is Outcome.SUCCEEDED

"""A worker that keeps running, so that many tests share one warm Spark application. Its drivers are real processes."""

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from arco.assets import AssetDefinition, Engine
from arco.domains.orchestration import FinishTask
from arco.servo._envelope import Envelope
from arco.spark import SparkSettings
from arco.worker import Worker
from tests.worker.plane import World, definition

CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}
LOCAL = SparkSettings("local[2]", CONF)
SECONDS = 180


class WarmWorld(World):
    """A world whose worker runs in a thread until `close`."""

    def __init__(self, folder: Path, source: str, *, spark: SparkSettings = LOCAL, **fields: Any) -> None:
        super().__init__(folder, source)
        self._spark, self._fields = spark, fields
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._worker: Worker | None = None
        self._running: Future[None] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        self._worker = self.worker(environment, spark=self._spark, **{"slots": 1, **self._fields})
        self._running = asyncio.run_coroutine_threadsafe(self._worker.run(), self._loop)

    def give(self, envelope: Envelope) -> None:
        self._loop.call_soon_threadsafe(self.plane.add, envelope)

    def give_batch(self, *envelopes: Envelope) -> list[Envelope]:
        """Let envelopes be claimed together; as they are handed out."""

        async def add() -> list[Envelope]:
            return self.plane.add_batch(*envelopes)

        return asyncio.run_coroutine_threadsafe(add(), self._loop).result()

    def result(self, envelope: Envelope) -> FinishTask:
        """The result of an envelope that was given."""
        return asyncio.run_coroutine_threadsafe(self._result(envelope), self._loop).result()

    def do(self, envelope: Envelope) -> FinishTask:
        self.give(envelope)
        return self.result(envelope)

    async def _result(self, envelope: Envelope) -> FinishTask:
        async with asyncio.timeout(SECONDS):
            while True:
                for result in self.plane.results:
                    if result.attempt_id == envelope.attempt_id:
                        return result
                if self._running is not None and self._running.done():
                    self._running.result()
                await asyncio.sleep(0.01)

    def close(self) -> None:
        if self._worker is not None and self._running is not None:
            self._loop.call_soon_threadsafe(self._worker.stop)
            self._running.result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def on_spark(name: str, **fields: Any) -> AssetDefinition:
    return definition(name, **{"engine": Engine.SPARK, **fields})


__all__ = ["CONF", "LOCAL", "WarmWorld", "on_spark"]

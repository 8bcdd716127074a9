"""Jobs of Spark beside the loop: what is said when Spark is not what it should be."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from arco.core import Refused, Unavailable
from arco.runtime import AsyncRuntime
from arco.spark._jobs import on_spark


class Gone:
    """A context whose process died: nobody answers any more."""

    def setJobGroup(self, group: str, what: str) -> None: ...  # noqa: N802

    def setLocalProperty(self, name: str, value: str | None) -> None:  # noqa: N802
        raise ConnectionRefusedError("nobody listens")

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        raise ConnectionRefusedError("nobody listens")


@pytest.mark.parametrize("error", [ConnectionResetError("reset by peer"), EOFError("reset by peer")], ids=repr)
def test_a_job_whose_spark_dies_did_not_end(error: Exception) -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    session: Any = SimpleNamespace(_jsparkSession=None, sparkContext=Gone())

    def work(spark: Any, share: Any) -> None:
        raise error

    with pytest.raises(Unavailable, match="the fold on Spark did not end: reset by peer; try again, or use"):
        asyncio.run(on_spark(AsyncRuntime(), lambda: session, "fold", work))


def test_a_remote_session_is_refused() -> None:
    pytest.importorskip("pyspark", reason="needs arco[spark]")
    session: Any = SimpleNamespace()
    with pytest.raises(Refused, match=r"Spark Connect \(sc://\)"):
        asyncio.run(on_spark(AsyncRuntime(), lambda: session, "fold", lambda spark, share: None))

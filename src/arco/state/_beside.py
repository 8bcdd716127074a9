"""Where heavy work runs: small pieces at once, large ones beside the loop, so that requests are answered meanwhile."""

from collections.abc import Callable
from typing import TypeVar

from arco.core import Runtime

__all__ = ["work_on"]

T = TypeVar("T")

LARGE_ROWS = 20_000
"""Sorting or encoding fewer rows takes a few milliseconds, which is about what handing it over costs others."""


async def work_on(rows: int, work: Callable[[], T], runtime: Runtime | None) -> T:
    """The result of work on so many rows. It must touch nothing that anybody changes meanwhile."""
    if runtime is None or rows < LARGE_ROWS:
        return work()
    return await runtime.offload(work)

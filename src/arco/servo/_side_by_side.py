"""Several requests under way at once, with their results in order."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from arco.core import ArcoError, Runtime

__all__ = ["side_by_side"]

T = TypeVar("T")


async def side_by_side(
    runtime: Runtime, works: Sequence[Callable[[], Awaitable[T]]], at_once: int, name: str
) -> list[T | ArcoError]:
    """What each of them gave, or the error with which it ended. Any other error is raised."""
    found: list[T | ArcoError | None] = [None] * len(works)

    async def run(place: int) -> None:
        try:
            found[place] = await works[place]()
        except ArcoError as error:
            found[place] = error

    for start in range(0, len(works), at_once):
        places = range(start, min(start + at_once, len(works)))
        for task in [runtime.spawn(run(place), name) for place in places]:
            await task
    return cast("list[T | ArcoError]", found)

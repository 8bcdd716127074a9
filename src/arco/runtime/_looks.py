"""`Looks`: one look at the store for everybody who wants the newest state at the same time."""

from collections.abc import Awaitable, Callable

from arco.core import ArcoError, Future, Runtime, Unavailable

__all__ = ["Looks"]


class Looks:
    """A look serves all who asked before it began; whoever goes away takes nobody with it."""

    def __init__(self, look: Callable[[], Awaitable[None]], runtime: Runtime) -> None:
        self._look = look
        self._runtime = runtime
        self._next: Future[None] | None = None
        self._busy = False

    async def look(self) -> None:
        if self._next is None:
            self._next = self._runtime.future()
            if not self._busy:
                self._busy = True
                self._runtime.spawn(self._run(), "look at the tail")
        await self._next

    async def _run(self) -> None:
        asked: Future[None] | None = None
        try:
            while self._next is not None:
                asked, self._next = self._next, None
                try:
                    await self._look()
                    asked.set(None)
                except ArcoError as error:
                    asked.fail(error)
        finally:
            self._busy = False
            for left in (asked, self._next):
                if left is not None:
                    left.fail(Unavailable("looking at the log was interrupted; try again"))
            self._next = None

"""`Waiters`: who waits for a revision that covers a position. The compactor publishes at once while there are any."""

from arco.core import ArcoError, Future, Runtime, Stale
from arco.log import number_of
from arco.state._manifest import Manifest

__all__ = ["Waiters"]

Waiter = tuple[int, Future[Manifest]]


class Waiters:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: list[Waiter] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, position: int) -> Future[Manifest]:
        waiter: Future[Manifest] = self._runtime.future()
        self._waiting.append((position, waiter))
        return waiter

    def asked(self) -> list[Waiter]:
        """Those who wait now, for `give_up` after the log was read."""
        return list(self._waiting)

    def segment(self) -> int:
        """The last segment that somebody waits for; 0 if nobody does."""
        return max((number_of(position) for position, _ in self._waiting), default=0)

    def answer(self, manifest: Manifest) -> None:
        left = []
        for position, waiter in self._waiting:
            if int(manifest.watermark) >= position:
                waiter.set(manifest)
            else:
                left.append((position, waiter))
        self._waiting = left

    def give_up(self, asked: list[Waiter], watermark: int) -> None:
        """Whoever asked before the log was read, for a position that it does not have, asks in vain."""
        for position, waiter in asked:
            if position > watermark:
                waiter.fail(Stale(f"the log ends before position {position}; nothing was lost, there is none yet"))
        self._waiting = [known for known in self._waiting if not known[1].done()]

    def fail(self, error: ArcoError) -> None:
        for _, waiter in self._waiting:
            waiter.fail(error)
        self._waiting = []

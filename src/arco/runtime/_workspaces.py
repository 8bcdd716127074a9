"""`Workspaces`: many workspaces in one process, each open only while somebody needs it.

    use -> open already? -> does it exist (one read, remembered) -> opened once for all who ask -> `Lease`
    release -> idle for a while, or too much in memory -> closed, the least recently used first

What is open costs memory and a probe an hour; what is closed costs nothing. Nothing is polled: one timer waits for the
next workspace that may be closed, whatever their number. A workspace stays open while a request holds it, and while it
has something to do by itself (`Hosted.is_busy`). Memory is counted, not measured: so much for an open workspace, so
much for a row, and the size of what else is remembered (`Hosted.bytes_held`), because a process does not give back to
the system what Python frees.

A name that nobody knows is asked for at the store once, and then refused without asking for a while; names that were
never found share a rate, so that nobody can make this process search the bucket. One that is there and cannot be found
by its name is refused like one that nobody knows: whoever asks may be anybody, so only the log is told, and who asks
`lost`.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from arco.core import ArcoError, Future, LostObject, NotFound, RateLimited, Runtime, Task, Unavailable
from arco.runtime._remains import is_nameless
from arco.runtime._workspace import Workspace
from arco.storage import Scope

__all__ = ["OPEN_BYTES", "ROW_BYTES", "Bounds", "Hosted", "Lease", "Workspaces"]

T = TypeVar("T")

_log = logging.getLogger("arco.workspaces")

OPEN_BYTES = 96 << 10
"""What an open workspace takes that nobody reads; `python -m bench --only workspaces` compares it."""
ROW_BYTES = 1 << 10
"""What a row in memory takes, as a Python object with its place in dictionaries."""

UNKNOWN_SECONDS = 30.0
"""For which it is remembered that there is no such workspace; one that is made meanwhile is seen after that."""
MAX_UNKNOWN = 10_000
MISSES = 10
"""Names in a second that may turn out to be nobody's: each costs a head and a list, and strangers can make them up."""
MEASURED_SECONDS = 1.0
"""Between two counts of what one workspace holds."""
BUSY_SECONDS = 30.0
"""After which a workspace is looked at again that was idle and had something to do."""
STRANGER_SECONDS = 10.0
"""For which a workspace stays open that nobody with a valid key has asked for."""
PATIENCE = 30.0
"""Seconds for which a request waits until a workspace is open."""


class Hosted(Protocol):
    """One open workspace and what works on it."""

    @property
    def workspace(self) -> Workspace: ...

    def is_busy(self) -> bool:
        """Whether it would do something by itself, or has not settled what it was asked for."""
        ...

    async def is_over(self) -> bool:
        """Whether this life of the workspace has ended, so that it must be opened anew."""
        ...

    def bytes_held(self) -> int:
        """Bytes it holds in memory beside `OPEN_BYTES`, `ROW_BYTES` for each row among them."""
        ...

    def shed(self) -> None:
        """Let go of what can be read again."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Bounds:
    idle_seconds: float | None = 600.0
    """After which a workspace is closed that nobody asked for; None to keep what is open."""
    memory_bytes: int | None = None
    """What open workspaces may take together, with all they hold; None for each one's own bounds alone."""


@dataclass(frozen=True)
class _Unknown:
    """A name that is refused without asking."""

    until: float
    lost: LostObject | None


class _Entry:
    def __init__(self, runtime: Runtime) -> None:
        self.opened: Future[Hosted] = runtime.future()
        self.hosted: Hosted | None = None
        self.closing: Future[None] | None = None
        """Set once it is closed; whoever comes meanwhile waits for that and opens it anew."""
        self.unused: Future[None] = runtime.future()
        """Set while it closes, when the last one who used it has gone."""
        self.uses = 0
        self.expires = float("inf")
        """When it may be closed, if nobody uses it until then."""
        self.measured = float("-inf")
        self.cost = OPEN_BYTES


class Lease:
    """The right to use a workspace until `release`. It counts as used once somebody proved that they may."""

    def __init__(self, owner: "Workspaces", scope: Scope, entry: _Entry, hosted: Hosted) -> None:
        self.hosted = hosted
        self._owner = owner
        self._scope = scope
        self._entry: _Entry | None = entry
        self._accepted = False

    @property
    def workspace(self) -> Workspace:
        return self.hosted.workspace

    def accept(self) -> None:
        self._accepted = True

    def release(self) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            self._owner.released(self._scope, entry, accepted=self._accepted)


class Workspaces:
    def __init__(
        self,
        runtime: Runtime,
        open_one: Callable[[Scope], Awaitable[Hosted]],
        exists: Callable[[Scope], Awaitable[bool]],
        bounds: Bounds | None = None,
        named: Iterable[Scope] | None = None,
    ) -> None:
        """`exists` makes one request for a workspace that does, and raises `LostObject` for what is left of one. With
        `named` all other workspaces are refused without asking."""
        self.bounds = bounds or Bounds()
        self._idle = self.bounds.idle_seconds if self.bounds.idle_seconds is not None else float("inf")
        self.named = None if named is None else frozenset(named)
        self.memory = 0
        """Bytes that open workspaces take, as counted."""
        self.opens = 0
        self.closes = 0
        self.lookups = 0
        self._runtime = runtime
        self._open_one = open_one
        self._exists = exists
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()  # the least recently used first
        self._known: set[Scope] = set()
        self._unknown: OrderedDict[Scope, _Unknown] = OrderedDict()
        self._asking: dict[Scope, Future[bool]] = {}
        self._misses = (float(MISSES), float("-inf"))  # how many are left, as of when
        self._wakeup: Future[None] = runtime.future()
        self._task: Task | None = None
        self._due = float("-inf")  # when the timer ends that runs now
        self._ended = False

    def lost(self, scope: Scope) -> LostObject | None:
        """What is missing of a workspace that `use` has just not found; None if there is nothing of it."""
        unknown = self._unknown.get(scope)
        return None if unknown is None else unknown.lost

    def serves(self, scope: Scope) -> bool:
        """Whether it may be opened here, if it exists."""
        return self.named is None or scope in self.named

    # Using

    async def use(self, scope: Scope) -> Lease | None:
        """Open it, or take part if it is open; None if it is not served here or does not exist."""
        while True:
            if self._ended:
                raise Unavailable("this process is stopping; ask another one")
            entry = self._entries.get(scope)
            if entry is None:
                if not await self._is_there(scope):
                    return None
                entry = self._entries.get(scope) or self._begin(scope)
            if entry.closing is not None:
                await self._patiently(scope, entry.closing)
                continue
            entry.uses += 1
            try:
                hosted = await self._patiently(scope, entry.opened)
                is_over = await hosted.is_over()
            except NotFound:
                self._remember_unknown(scope)
                self.released(scope, entry, accepted=False)
                return None
            except LostObject as error:
                if is_nameless(error):
                    self._lose(scope, entry, error)
                self.released(scope, entry, accepted=False)
                if not is_nameless(error):
                    raise
                return None
            except BaseException:
                self.released(scope, entry, accepted=False)
                raise
            if not is_over and entry.closing is None:
                return Lease(self, scope, entry, hosted)
            if entry.closing is None:
                self._close(scope, entry)
            self.released(scope, entry, accepted=False)

    async def take_part(self, scope: Scope) -> Lease | None:
        """As `use`, if it is open now; nothing is opened or waited for."""
        entry = self._entries.get(scope)
        if entry is None or entry.hosted is None or entry.closing is not None:
            return None
        entry.uses += 1
        lease = Lease(self, scope, entry, entry.hosted)
        try:
            is_over = await entry.hosted.is_over()
        except BaseException:
            lease.release()
            raise
        if not is_over:
            return lease
        lease.release()
        return None

    async def _patiently(self, scope: Scope, future: Future[T]) -> T:
        """Whoever gives up does not end the opening: others wait for it too."""

        async def wait() -> T:
            return await future

        try:
            return await self._runtime.timeout(PATIENCE, wait())
        except TimeoutError:
            raise Unavailable(f"the workspace {scope.root} takes long to open or to close; try again") from None

    def _begin(self, scope: Scope) -> _Entry:
        entry = self._entries[scope] = _Entry(self._runtime)
        self._runtime.spawn(self._open(scope, entry), f"open {scope.root}")
        return entry

    async def _open(self, scope: Scope, entry: _Entry) -> None:
        began = self._runtime.boottime()
        try:
            entry.hosted = await self._open_one(scope)
        except ArcoError as error:
            self._drop(scope, entry)  # the next one who asks tries anew
            _log.warning("%s could not be opened: %s", scope.root, error.message)
            entry.opened.fail(error)
        except BaseException as error:
            self._drop(scope, entry)
            entry.opened.fail(Unavailable(f"the workspace {scope.root} could not be opened: {error!r}; try again"))
            raise
        else:
            self.opens += 1
            self.memory += entry.cost
            self._known.add(scope)
            if self.bounds.idle_seconds is not None:
                entry.expires = self._runtime.boottime() + min(STRANGER_SECONDS, self._idle)
            _log.info("%s opened in %.0f ms", scope.root, 1000 * (self._runtime.boottime() - began))
            entry.opened.set(entry.hosted)
            self._tend(entry.expires)

    def _lose(self, scope: Scope, entry: _Entry, error: LostObject) -> None:
        """It cannot be found by its name any more."""
        if self.lost(scope) is not error:  # else another one who waited has said so
            self._remember_unknown(scope, error)
        if entry.hosted is not None and entry.closing is None:
            self._close(scope, entry)

    def _drop(self, scope: Scope, entry: _Entry) -> None:
        if self._entries.get(scope) is entry:
            del self._entries[scope]

    def released(self, scope: Scope, entry: _Entry, *, accepted: bool) -> None:
        """Somebody needs it no more."""
        entry.uses -= 1
        if entry.closing is not None and not entry.uses:
            entry.unused.set(None)
        if entry.hosted is None or entry.closing is not None:
            return
        now = self._runtime.boottime()
        if accepted:
            entry.expires = now + self._idle
            self._entries.move_to_end(scope)
        if now - entry.measured > MEASURED_SECONDS:
            self._measure(entry)
        if self._is_too_much():
            self._wakeup.set(None)

    # Whether it exists

    async def _is_there(self, scope: Scope) -> bool:
        """Asked once, for all who ask at once."""
        if not self.serves(scope):
            return False
        if scope in self._known:
            return True
        unknown = self._unknown.get(scope)
        if unknown is not None and unknown.until > self._runtime.boottime():
            return False
        asking = self._asking.get(scope)
        if asking is None:
            if self._misses_left() < 1:
                raise RateLimited("too many names of workspaces that nobody knows; try again", retry_after=1)
            asking = self._asking[scope] = self._runtime.future()
            self._runtime.spawn(self._ask(scope, asking), f"look for {scope.root}")
        return await asking

    async def _ask(self, scope: Scope, answer: Future[bool]) -> None:
        self.lookups += 1
        lost = None
        try:
            try:
                found = await self._exists(scope)
            except LostObject as error:
                found, lost = False, error
            if found:
                self._known.add(scope)
            else:
                self._misses = (self._misses_left() - 1, self._runtime.boottime())
                self._remember_unknown(scope, lost)
            answer.set(found)
        except BaseException as error:
            answer.fail(
                error if isinstance(error, ArcoError) else Unavailable(f"{scope.root} was not found: {error!r}")
            )
            if not isinstance(error, ArcoError):
                raise
        finally:
            self._asking.pop(scope, None)

    def _misses_left(self) -> float:
        left, since = self._misses
        return min(float(MISSES), left + (self._runtime.boottime() - since) * MISSES)

    def _remember_unknown(self, scope: Scope, lost: LostObject | None = None) -> None:
        if lost is not None:
            _log.error("%s is damaged: %s", scope.root, lost.message)
        self._known.discard(scope)
        self._unknown[scope] = _Unknown(self._runtime.boottime() + UNKNOWN_SECONDS, lost)
        self._unknown.move_to_end(scope)
        while len(self._unknown) > MAX_UNKNOWN:
            self._unknown.popitem(last=False)

    # Closing

    def _measure(self, entry: _Entry) -> None:
        if entry.hosted is None:
            return
        before, entry.cost = entry.cost, OPEN_BYTES + entry.hosted.bytes_held()
        self.memory += entry.cost - before
        entry.measured = self._runtime.boottime()

    def _is_too_much(self) -> bool:
        return self.bounds.memory_bytes is not None and self.memory > self.bounds.memory_bytes

    def _tend(self, expires: float) -> None:
        """Let the timer go on, in time for this one too."""
        if self._task is None and not self._ended:
            self._task = self._runtime.spawn(self._run(), "idle workspaces")
        if expires < self._due or self._is_too_much():
            self._wakeup.set(None)

    async def _run(self) -> None:
        while True:
            due = self._sweep()
            self._due = self._runtime.boottime() + due
            self._wakeup = self._runtime.future()
            await self._wait(due)

    async def _wait(self, due: float) -> None:
        async def wait() -> None:
            await self._wakeup

        if due == float("inf"):
            await wait()
            return
        with suppress(TimeoutError):
            await self._runtime.timeout(max(due, 0.001), wait())

    def _sweep(self) -> float:
        """Close what is idle and what there is no room for; seconds until the next may be."""
        if self._is_too_much():
            self._make_room()
        now, due = self._runtime.boottime(), float("inf")
        for scope, entry in list(self._entries.items()):
            if entry.hosted is None or entry.closing is not None or entry.uses:
                continue
            left = entry.expires - now
            if left > 0:
                due = min(due, left)
            elif entry.hosted.is_busy():
                due = min(due, BUSY_SECONDS)
            else:
                self._close(scope, entry)
        if any(entry.uses for entry in self._entries.values()):
            due = min(due, self._idle)  # what is released meanwhile was used until then
        return due

    def _make_room(self) -> None:
        """First what can be read again goes, then whole workspaces; the least recently used first."""
        for entry in list(self._entries.values()):
            if self._is_too_much() and entry.hosted is not None and entry.closing is None:
                entry.hosted.shed()
                self._measure(entry)
        if self.bounds.idle_seconds is None:
            return
        for scope, entry in list(self._entries.items()):
            free = entry.hosted is not None and entry.closing is None and not entry.uses
            if self._is_too_much() and free and entry.hosted is not None and not entry.hosted.is_busy():
                self._close(scope, entry)

    def _close(self, scope: Scope, entry: _Entry) -> None:
        entry.closing = self._runtime.future()
        if not entry.uses:
            entry.unused.set(None)
        self.memory -= entry.cost
        self._runtime.spawn(self._end(scope, entry, entry.closing), f"close {scope.root}")

    async def _end(self, scope: Scope, entry: _Entry, closed: Future[None]) -> None:
        hosted = entry.hosted
        assert hosted is not None
        try:
            await entry.unused
            await hosted.close()
        except ArcoError as error:  # what was answered is durable; whoever opens it next publishes it
            _log.warning("%s closed with trouble: %s", scope.root, error.message)
        finally:
            self.closes += 1
            self._drop(scope, entry)
            closed.set(None)
        _log.info("%s closed", scope.root)

    async def close(self) -> None:
        """Close everything; nothing is opened any more."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for entry in list(self._entries.values()):
            with suppress(ArcoError):
                await entry.opened
        for scope, entry in list(self._entries.items()):
            if entry.closing is None and entry.hosted is not None:
                self._close(scope, entry)
            entry.unused.set(None)  # requests had their time to end
        for entry in list(self._entries.values()):
            if entry.closing is not None:
                await entry.closing

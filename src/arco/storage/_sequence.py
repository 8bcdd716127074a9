"""`Sequence`: numbered objects, each created only if absent and never changed. The one primitive of agreement.

Log segments, manifests, Iceberg pointers and incarnations are sequences. Numbers start at 1 and are dense. The rules,
and what each prevents:

- Number n is created only by who has seen n-1 (`Tail`), so numbers stay dense and existence is monotone.
- A create is one request without client retries. After any answer but success n is read: our bytes (won), other bytes
  (lost), absent (the same bytes again), until settled. The bytes of an object must never repeat (they carry a unique
  id), so equal bytes mean "mine", and an applied write whose answer got lost is never reported as lost.
- Collection deletes numbers, and a deleted number looks like a free one. Before deleting, the collector raises the
  **floor**, a create-only object that is never deleted; numbers up to the floor may be gone. "n is the tail" and "I won
  n" hold only above it. Nothing younger than `min_age` is deleted, so the floor need not be read when less than a
  quarter of that passed since the tail was proven; the age counts from when the proving request was *sent*, on a clock
  that counts sleep.

`floor/{k}` objects are numbered too (k = 1, 2, …) and hold the floor as decimal text.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from arco.core import PUT_BACK, Corrupt, LostObject, Runtime, StoreRefused, Superseded, Unavailable
from arco.storage._store import Glance, ObjectExists, ObjectMissing, Store, StoreFailed, glance_at

__all__ = ["MIN_AGE", "Lost", "Sequence", "Tail", "Won"]

T = TypeVar("T")

MIN_AGE = 3600.0
"""Seconds an object exists at least before a collector may delete it."""

ATTEMPTS = 8
"""How often a failing request is repeated before the caller is told to come back later."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Proof that at boot time `proven` (when the proving request was sent) no number above `number` existed."""

    number: int
    proven: float


@dataclass(frozen=True, slots=True)
class Won:
    tail: Tail


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else's object has the number; `data` is what it holds."""

    data: bytes


class Sequence:
    """The numbered objects below one prefix."""

    def __init__(self, store: Store, prefix: str, runtime: Runtime, *, min_age: float = MIN_AGE) -> None:
        self.prefix = prefix
        self._store = store
        self._runtime = runtime
        self._min_age = min_age
        self._won = 0  # the newest number this handle created
        self._floor_number = 0  # number of the newest floor object seen
        self._floor = 0

    def path(self, number: int) -> str:
        """Where a number lives; 4,096 numbers a folder, since some stores are directories."""
        return f"{self.prefix}/{number >> 12:013d}/{number:020d}"

    def is_below(self, floor: int, folder: str) -> bool:
        """Whether a folder can hold only numbers up to a floor."""
        name = folder.removeprefix(f"{self.prefix}/")
        return name.isdigit() and (int(name) + 1) << 12 <= floor + 1

    def floor_path(self, k: int) -> str:
        return f"{self.prefix}/floor/{k:020d}"

    async def read(self, number: int) -> bytes | None:
        """The object, or None if there is none (which means absence only above the floor)."""
        try:
            return await self._patiently(lambda: self._store.get(self.path(number)))
        except ObjectMissing:
            return None

    async def read_known(self, number: int) -> bytes:
        """An object that is known to exist; its absence is `LostObject`."""
        data = await self.read(number)
        if data is None:
            raise LostObject(
                f"{self.path(number)} is missing although a newer object or a manifest names it; "
                f"run `arco doctor`, then {PUT_BACK}",
                path=self.path(number),
            )
        return data

    async def create(self, tail: Tail, data: bytes) -> Won | Lost:
        """Create `tail.number + 1`. The caller owns this call to its end: it must not be cancelled half-way.

        Raises `Superseded` if the number lies below the floor (we slept too long), `StoreRefused` if nothing can have
        landed, `Unavailable` if the store does not answer: then the outcome is open, and the same bytes must be tried
        again for the same number.
        """
        number = tail.number + 1
        path = self.path(number)
        await self.persist(tail.number)
        proven = tail.proven  # a win that is read back may be of an earlier call, and others went on since
        unsettled = False
        for attempt in range(ATTEMPTS):
            sent = self._runtime.boottime()
            try:
                await self._store.put(path, data, only_if_absent=True)
                proven = sent
                break
            except (ObjectExists, StoreFailed, StoreRefused) as error:
                unsettled = unsettled or isinstance(error, StoreFailed)
                if isinstance(error, StoreRefused) and not unsettled:
                    raise  # nothing was sent that could still land
                stored = await self._settle(path, self.read(number), unsettled)
                if stored == data:
                    break
                if stored is not None:
                    # What stands there may have come long after a deletion, from somebody who slept like us.
                    await self._settle(path, self.check_floor(number, tail.proven), unsettled)
                    return Lost(stored)
            await self._pause(attempt)
        else:
            raise _open(path)
        await self._settle(path, self.check_floor(number, tail.proven), True)
        self._won = number
        return Won(Tail(number, proven))

    async def _settle(self, path: str, question: Awaitable[T], unsettled: bool) -> T:
        """A store that refuses to tell what became of a create leaves it open."""
        try:
            return await question
        except StoreRefused as error:
            if unsettled:
                raise _open(path) from error
            raise

    async def persist(self, number: int) -> None:
        """Before building on a number: make it survive a power loss if another process wrote it.

        Its writer did the same with its predecessor, so one number stands for all below it.
        """
        if number > self._won:
            try:
                await self._patiently(lambda: self._store.persist(self.path(number)))
            except ObjectMissing:
                raise Superseded(
                    f"{self.path(number)} is gone: this process was away too long; re-read the tail"
                ) from None

    async def next(self, tail: Tail) -> tuple[bytes, Tail] | Tail:
        """The object after the tail with its number, or the tail proven anew. One request while nothing is old."""
        asked = self._runtime.boottime()
        data = await self.read(tail.number + 1)
        if data is not None:
            return data, Tail(tail.number + 1, tail.proven)
        await self.check_floor(tail.number + 1, tail.proven)
        return Tail(tail.number, asked)

    def unchanged(self, tail: Tail) -> Glance | None:
        """A glance that tells whether a tail is still the tail; None if the store is not near.

        It says no when the tail was proven so long ago that the floor must be read: ask `next` then.
        """
        following = glance_at(self._store, self.path(tail.number + 1))
        if following is None:
            return None
        is_there, boottime, until = following, self._runtime.boottime, tail.proven + self._min_age / 4

        def holds() -> bool:
            return boottime() <= until and not is_there()

        return holds

    async def tail(self, hint: int = 0) -> Tail:
        """The newest number: gallop up from max(hint, floor), then bisect; 0 if the sequence is empty.

        The floor is read before and after: what was deleted in between cannot pass for absent.
        """
        for attempt in range(ATTEMPTS):
            floor = await self.floor()
            asked = self._runtime.boottime()
            number = await self._gallop(max(hint, floor))
            if await self.floor() <= number and (number > floor or floor == 0):
                return Tail(number, asked)
            if number == floor and await self.floor() == floor:
                raise LostObject(
                    f"{self.path(floor + 1)} is missing although the floor of {self.prefix} is {floor}; "
                    "run `arco doctor`",
                    path=self.path(floor + 1),
                )
            hint = 0
            await self._pause(attempt)
        raise Unavailable(f"the tail of {self.prefix} moves faster than it can be found; try again")

    async def _gallop(self, start: int) -> int:
        """The newest number, given that all numbers from `start + 1` to it exist."""
        if start > self._floor and not await self.exists(start):
            start = self._floor  # the hint was wrong: it is advice only
        return await self.newest(start)

    async def newest(self, known: int) -> int:
        """The newest number, given one that exists: gallop and bisect. That none is newer counts only above the floor:
        the caller checks it."""
        return await _newest(self.exists, known)

    async def exists(self, number: int) -> bool:
        return await self._is_there(self.path(number))

    async def floor(self) -> int:
        """The newest floor: numbers up to it may be deleted. One request if it did not change since last asked."""
        newest = await _newest(lambda k: self._is_there(self.floor_path(k)), self._floor_number)
        if newest > self._floor_number:
            data = await self._patiently(lambda: self._store.get(self.floor_path(newest)))
            text = data.split(b" ", 1)[0]
            if not text.isdigit():
                raise Corrupt(f"{self.floor_path(newest)} does not hold a number; run `arco doctor`")
            self._floor_number, self._floor = newest, int(text)
        return self._floor

    async def raise_floor(self, number: int, unique: str) -> int:
        """Declare that numbers up to `number` may be deleted. The collector calls it before it deletes any."""
        while await self.floor() < number:
            k = self._floor_number + 1
            data = f"{number} {unique}".encode()
            for attempt in range(ATTEMPTS):
                try:
                    await self._store.put(self.floor_path(k), data, only_if_absent=True)
                    break
                except ObjectExists:
                    break
                except StoreFailed:
                    await self._pause(attempt)
            else:
                raise Unavailable(f"the store does not settle {self.floor_path(k)}; nothing was deleted, try again")
        return self._floor

    async def check_floor(self, number: int, proven: float) -> None:
        """`number` counts (as won, or as absent) only if no collector may have deleted it since `proven`."""
        if self._runtime.boottime() - proven <= self._min_age / 4:
            return
        floor = await self.floor()
        if number <= floor:
            raise Superseded(
                f"{self.path(number)} lies below the floor {floor}: this process was away too long; re-read the tail",
                number=number,
                floor=floor,
            )

    async def _is_there(self, path: str) -> bool:
        try:
            await self._patiently(lambda: self._store.head(path))
        except ObjectMissing:
            return False
        return True

    async def _patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        attempt = 0
        while True:
            try:
                return await request()
            except StoreFailed as error:
                attempt += 1
                if attempt == ATTEMPTS:
                    raise Unavailable(f"the store does not answer: {error.message}; try again") from error
                await self._pause(attempt)

    async def _pause(self, attempt: int) -> None:
        await self._runtime.sleep(self._runtime.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 2.0))


def _open(path: str) -> Unavailable:
    return Unavailable(f"the store does not settle the create of {path}; the outcome is open, try again", path=path)


async def _newest(exists: Callable[[int], Awaitable[bool]], known: int) -> int:
    """Gallop up from a known number, then bisect. One question if nothing is newer."""
    step = 1
    while await exists(known + step):
        known, step = known + step, step * 2
    absent = known + step
    while absent - known > 1:
        middle = (known + absent) // 2
        if await exists(middle):
            known = middle
        else:
            absent = middle
    return known

"""`Vended`: credentials that are handed out again while half of their life is left.

A cloud makes credentials slowly and not often, and clients load tables often. Whoever may read (or write) a table gets
the same ones, so that their ETag stays the same too.
"""

from collections import OrderedDict
from typing import Final

from arco.core import Clock
from arco.iceberg import Credentials, Vendor

__all__ = ["Vended"]

LIFETIME: Final = 3600
MAX_KEPT: Final = 10_000


class Vended:
    def __init__(self, vendor: Vendor, clock: Clock) -> None:
        self._vendor = vendor
        self._clock = clock
        self._kept: OrderedDict[tuple[str, bool], Credentials] = OrderedDict()

    @property
    def refresh_key(self) -> str:
        return self._vendor.refresh_key

    async def vend(self, location: str, *, write: bool) -> Credentials:
        """Credentials for a location that was checked; see `Vendor`."""
        key = (location, write)
        found = self._kept.get(key)
        if found is None or found.expires_at_ms - self._clock.now() // 1000 < LIFETIME * 500:
            found = await self._vendor.vend(location, write=write, lifetime=LIFETIME)
            self._kept[key] = found
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    async def close(self) -> None:
        await self._vendor.close()

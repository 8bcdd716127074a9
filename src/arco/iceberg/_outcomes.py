"""`Outcomes`: how the commits of one process ended, counted by who asked and by what they were told."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar, get_args

from arco.core import Corrupt, Invalid, OutcomeUnknown, Refused, Unavailable
from arco.iceberg._who import Source, Who

__all__ = ["OUTCOMES", "Outcome", "Outcomes"]

T = TypeVar("T")

Outcome = Literal["committed", "replayed", "unchanged", "refused", "unavailable", "unknown", "damaged", "failed"]
"""`replayed`: an earlier request of the key did it. `unchanged`: there was nothing to change. `refused`: nothing was
written, and the caller must change something. `unavailable`: nothing was written, try again. `failed`: anything else, a
caller that went away among it."""

OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

# The first that fits: an unknown outcome is also `Unavailable`.
_ERRORS: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Outcome], ...]] = (
    (OutcomeUnknown, "unknown"),
    (Unavailable, "unavailable"),
    ((Invalid, Refused), "refused"),
    (Corrupt, "damaged"),
)


class Outcomes:
    def __init__(self) -> None:
        self.counts: Counter[tuple[Source, Outcome]] = Counter()

    async def count(self, who: Who, work: Awaitable[T], told: Callable[[T], Outcome]) -> T:
        """The result of the work, counted as `told` says; an error by its kind."""
        try:
            done = await work
        except BaseException as error:
            self.counts[who.source, _of(error)] += 1
            raise
        self.counts[who.source, told(done)] += 1
        return done


def _of(error: BaseException) -> Outcome:
    return next((outcome for kind, outcome in _ERRORS if isinstance(error, kind)), "failed")

"""Times as integers: microseconds since 1970-01-01 UTC, and their RFC 3339 text."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from arco.core._errors import Invalid

__all__ = ["DAY", "HOUR", "MAX_TIME", "MINUTE", "SECOND", "day_of", "format_time", "parse_time", "time_text"]

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MAX_TIME = 253_402_300_799_999_999
"""The last microsecond of the year 9999: what comes later no calendar can print."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(micros: int) -> str:
    """`2026-11-15T20:45:00.000000Z`: always UTC, always six digits, so that texts sort like times."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise Invalid(f"{micros} microseconds since 1970 are no date; check the clock and the unit") from None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_text(micros: int | None) -> str | None:
    """`format_time` of a time that may not have come."""
    return None if micros is None else format_time(micros)


def day_of(micros: int) -> str:
    """The day of a time in UTC, as `2026-11-15`."""
    return _day(micros // DAY)


@lru_cache(maxsize=1024)
def _day(number: int) -> str:
    return format_time(number * DAY)[:10]


def parse_time(text: str) -> int:
    """Microseconds of an RFC 3339 text. A time without an offset is refused: it means different things to readers."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is not a time; write it as 2026-11-15T20:45:00Z") from error
    if moment.tzinfo is None:
        raise Invalid(f"the time {text!r} has no offset; append Z for UTC")
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds

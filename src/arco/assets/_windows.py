"""Time windows: which ones a cron expression makes in a time zone, and which of them exist at a moment.

A *tick* is a moment the expression names; a *window* goes from one tick to the next. Times are microseconds since 1970
in UTC, so that windows follow each other without gap or overlap also where clocks are put forward or back:

- An expression for a time of day (`30 2 * * *`) ticks once a day. Where that local time does not exist, it ticks when
  the clocks have been put forward; where it exists twice, it ticks the first time.
- An expression with `*` for minute or hour ticks in every real hour: the repeated hour makes windows of its own, the
  missing one makes none.

Ticks of a year are computed once. A window exists when it has ended.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from arco.assets._definition import TimePartitions
from arco.core import DAY, MINUTE, Invalid, format_time, shown

__all__ = ["MAX_PARTITIONS", "Windows", "check_windows", "local_time", "span_of", "window_of", "windows_at"]

MAX_PARTITIONS = 1_000_000
"""Of one dimension, and of one asset."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_YEAR_MIN = 1970
_YEAR_MAX = 9998
_LATEST = (datetime(_YEAR_MAX, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_CRON_FIELDS = 5
_KEPT_DEFINITIONS = 4096


class Windows(NamedTuple):
    """Windows in order: the i-th is from `begins[i]` to before `ends[i]`."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]


class _Rules(NamedTuple):
    """A definition, parsed."""

    zone: tzinfo
    start: int
    end: int | None
    crons: tuple[CronSim, ...]
    days: frozenset[date]
    moments: frozenset[int]

    def excludes(self, tick: int) -> bool:
        if not (self.crons or self.days or self.moments):
            return False
        if tick in self.moments:
            return True
        local = local_time(tick, self.zone)
        return local.date() in self.days or any(_matches(cron, local) for cron in self.crons)


def check_windows(partitions: TimePartitions) -> None:
    """Refuse a definition that makes no windows or ambiguous ones; the message says which part is wrong."""
    rules = _rules(partitions)
    if partitions.values not in ("date", "time"):
        raise Invalid(f"{shown(partitions.values)} cannot name windows; use 'date' or 'time'")
    if rules.end is not None and rules.end <= rules.start:
        raise Invalid(f"the partitions end at {partitions.end} and start at {partitions.start}; end must be later")
    if partitions.values == "date":
        year = _datetime(rules.start).year
        days = [local_time(tick, rules.zone).date() for tick in _ticks(partitions.cron, partitions.timezone, year)]
        if len(set(days)) < len(days):
            raise Invalid(
                f"the cron expression {shown(partitions.cron)} makes several windows a day, which a date cannot tell "
                "apart; name them by their begin with values='time'"
            )


def windows_at(partitions: TimePartitions, at: int) -> Windows:
    """The windows that exist at a moment: they have ended, and begin and end within the definition's range."""
    rules = _rules(partitions)
    horizon = min(at, _LATEST) if rules.end is None else min(at, rules.end)
    last = _last_tick(partitions, rules.start, horizon)
    kept = _newest.get(partitions)
    if kept is not None and kept[0] == last:
        return kept[1]
    ticks = [] if last is None else list(_ticks_between(partitions, rules.start, last + 1))
    pairs = [(begin, end) for begin, end in pairwise(ticks) if not rules.excludes(begin)]
    windows = Windows(tuple(begin for begin, _ in pairs), tuple(end for _, end in pairs))
    if len(_newest) >= _KEPT_DEFINITIONS:
        _newest.clear()
    _newest[partitions] = (last, windows)
    return windows


def span_of(partitions: TimePartitions, windows: Windows, begin: int, end: int) -> tuple[int, int]:
    """Where the windows that overlap a span stand in `windows`, as a half-open range of places.

    Places go on beyond both ends, as if the definition had no bounds: -1 is the window before the first one that
    exists. The range is empty where no window is (an exclusion); it then lies between its neighbours.
    """
    begins, ends = windows
    if not begins:
        return 0, 0
    first, last = bisect_right(ends, begin), bisect_left(begins, end)
    rules = _rules(partitions)
    if begin < begins[0]:
        before = _outside(partitions, rules, begin, begins[0])
        first = -sum(1 for window in before if window[1] > begin)
        last = last or -sum(1 for window in before if window[0] >= end)
    if end > ends[-1]:
        after = _outside(partitions, rules, ends[-1], end)
        last = len(begins) + len(after)
        if begin >= ends[-1]:
            first = len(begins) + sum(1 for window in after if window[1] <= begin)
    return first, last


def window_of(partitions: TimePartitions, value: date | datetime) -> tuple[int, int]:
    """Begin and end of the window that a partition's value names, whether it has ended or not."""
    rules = _rules(partitions)
    if not _YEAR_MIN < value.year < _YEAR_MAX:
        raise Invalid(f"{value.isoformat()} names no window; use the years {_YEAR_MIN + 1} to {_YEAR_MAX - 1}")
    if isinstance(value, datetime):
        begin = _micros(value)
        found = begin in _ticks(partitions.cron, partitions.timezone, _datetime(begin).year)
    else:
        near = _micros(datetime(value.year, value.month, value.day, tzinfo=UTC))
        begins = [
            tick
            for tick in _ticks_between(partitions, near - DAY, near + 2 * DAY)
            if local_time(tick, rules.zone).date() == value
        ]
        found, begin = bool(begins), begins[0] if begins else near
    if not found or rules.excludes(begin):
        raise Invalid(f"no window of {shown(partitions.cron)} in {partitions.timezone} is named {value.isoformat()}")
    end = next(_ticks_after(partitions, begin + 1), None)
    if end is None:
        raise Invalid(f"the window of {shown(partitions.cron)} that begins {format_time(begin)} never ends")
    return begin, end


def local_time(tick: int, zone: tzinfo) -> datetime:
    return _datetime(tick).astimezone(zone)


# Parsing


@lru_cache(_KEPT_DEFINITIONS)
def _rules(partitions: TimePartitions) -> _Rules:
    zone = _zone(partitions.timezone)
    _cron(partitions.cron)
    start = _moment("start", partitions.start, zone)
    end = None if partitions.end is None else _moment("end", partitions.end, zone)
    crons: list[CronSim] = []
    days: set[date] = set()
    moments: set[int] = set()
    for text in partitions.exclusions:
        if len(text.split()) == _CRON_FIELDS:
            crons.append(_cron(text))
        elif _is_day(text):
            days.add(date.fromisoformat(text))
        else:
            moments.add(_moment("exclusion", text, zone))
    return _Rules(zone, start, end, tuple(crons), frozenset(days), frozenset(moments))


@lru_cache(256)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = get_close_matches(name, available_timezones(), 3)
        cure = f"did you mean {' or '.join(near)}?" if near else "use a name such as Europe/Berlin or UTC"
        raise Invalid(f"the time zone {shown(name)} is unknown; {cure}") from None


def _cron(text: str) -> CronSim:
    if len(text.split()) == _CRON_FIELDS:
        try:
            return CronSim(text, _EPOCH)
        except CronSimError as error:
            raise Invalid(f"{shown(text)} is not a cron expression: {error}; write it as '0 0 * * *'") from None
    raise Invalid(
        f"{shown(text)} is not a cron expression of five fields (minute, hour, day, month, weekday); "
        "write it as '0 0 * * *'"
    )


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _moment(what: str, text: str, zone: tzinfo) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        cure = "write it as 2025-01-01 or 2025-01-01T06:00"
        raise Invalid(f"the {what} {shown(text)} of the partitions is no date or time; {cure}") from None
    if moment.tzinfo is not None:
        raise Invalid(f"the {what} {shown(text)} has an offset; write local time, the time zone stands beside it")
    if not _YEAR_MIN < moment.year < _YEAR_MAX:
        raise Invalid(f"the {what} {shown(text)} is outside the years {_YEAR_MIN + 1} to {_YEAR_MAX - 1}")
    return _micros(moment.replace(tzinfo=zone))


def _matches(cron: CronSim, local: datetime) -> bool:
    return (
        local.minute in cron.minutes
        and local.hour in cron.hours
        and local.month in cron.months
        and cron.match_day(local.date())
    )


# Ticks

_newest: dict[TimePartitions, tuple[int | None, Windows]] = {}
"""The windows up to the last tick each definition was asked for. A definition's earlier answers are not kept, so that
what is remembered does not grow with time."""


@lru_cache(1024)
def _ticks(cron: str, timezone: str, year: int) -> tuple[int, ...]:
    """The ticks in a year, as UTC counts years."""
    fields, zone = _cron(cron), _zone(timezone)
    begin, end = _micros(datetime(year, 1, 1, tzinfo=UTC)), _micros(datetime(year + 1, 1, 1, tzinfo=UTC))
    offsets = [(hour * 60 + minute) * MINUTE for hour in sorted(fields.hours) for minute in sorted(fields.minutes)]
    ticks: list[int] = []
    # A year of UTC touches the local days on both sides of it.
    for number in range(date(year, 1, 1).toordinal() - 1, date(year + 1, 1, 1).toordinal() + 2):
        day = date.fromordinal(number)
        if day.month not in fields.months or not fields.match_day(day):
            continue
        opens = datetime(day.year, day.month, day.day, tzinfo=zone)
        closes = opens + timedelta(days=1)
        if opens.utcoffset() == closes.replace(fold=1).utcoffset():
            midnight = _micros(opens)
            ticks += [midnight + offset for offset in offsets]
        else:
            ticks += _ticks_of_changed_day(cron, opens, closes)
    return tuple(tick for tick in sorted(set(ticks)) if begin <= tick < end)


def _ticks_of_changed_day(cron: str, opens: datetime, closes: datetime) -> Iterator[int]:
    """The ticks of a local day in which the clocks are changed. A day that is left out altogether has none."""
    last = max(closes.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    before = opens.astimezone(UTC) - timedelta(seconds=1)
    for local in CronSim(cron, before.astimezone(opens.tzinfo)):
        moment = local.astimezone(UTC)
        if moment >= last:
            return
        if moment > before and moment.astimezone(opens.tzinfo).date() == opens.date():
            yield _micros(moment)


def _ticks_between(partitions: TimePartitions, begin: int, end: int) -> Iterator[int]:
    count = 0
    for year in range(_datetime(begin).year, _datetime(end).year + 1):
        ticks = _ticks(partitions.cron, partitions.timezone, year)
        chosen = ticks[bisect_left(ticks, begin) : bisect_left(ticks, end)]
        count += len(chosen)
        if count > MAX_PARTITIONS:
            raise Invalid(
                f"the cron expression {shown(partitions.cron)} makes more than {MAX_PARTITIONS:,} windows since "
                f"{partitions.start}; use a longer interval or a later start"
            )
        yield from chosen


def _ticks_after(partitions: TimePartitions, begin: int) -> Iterator[int]:
    year = _datetime(begin).year
    for later in range(year, min(year + 50, _YEAR_MAX)):
        ticks = _ticks(partitions.cron, partitions.timezone, later)
        yield from ticks[bisect_left(ticks, begin) :]


def _last_tick(partitions: TimePartitions, start: int, at: int) -> int | None:
    """The last tick that is not after `at`, if one is not before `start`."""
    for year in range(_datetime(max(at, 0)).year, _datetime(start).year - 1, -1):
        ticks = _ticks(partitions.cron, partitions.timezone, year)
        place = bisect_right(ticks, at)
        if place:
            return ticks[place - 1] if ticks[place - 1] >= start else None
    return None


def _outside(partitions: TimePartitions, rules: _Rules, begin: int, end: int) -> list[tuple[int, int]]:
    """Windows that would overlap a span if the definition had no bounds."""
    reach = begin
    for year in range(_datetime(begin).year, _YEAR_MIN, -1):
        ticks = _ticks(partitions.cron, partitions.timezone, year)
        place = bisect_right(ticks, begin)
        if place:
            reach = ticks[place - 1]
            break
    found: list[tuple[int, int]] = []
    ticks_after = _ticks_after(partitions, reach)
    tick = next(ticks_after, None)
    for after in ticks_after:
        if tick is None or tick >= end:
            break
        if not rules.excludes(tick):
            found.append((tick, after))
        tick = after
    return found


def _datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _micros(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND

"""Time windows: they follow each other without gap, exist once they have ended, and survive changes of the clock."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import TimePartitions, window_of
from arco.assets._windows import Windows, check_windows, span_of, windows_at
from arco.core import DAY, HOUR, MAX_TIME, Invalid, format_time, parse_time

ZONES = ["UTC", "America/New_York", "Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Australia/Lord_Howe"]
CRONS = [
    "0 0 * * *",
    "30 2 * * *",
    "*/30 2 * * *",
    "0 * * * *",
    "15 1-3 * * *",
    "0 6 * * 1",
    "0 0 1 * *",
    "*/20 23,0 * * *",
]
YEARS = [2018, 2024]


def windows(cron: str, start: str, at: str, **fields: object) -> Windows:
    return windows_at(TimePartitions(cron, start, **fields), parse_time(at))  # type: ignore[arg-type]


def texts(moments: tuple[int, ...]) -> list[str]:
    return [format_time(moment)[:16] for moment in moments]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_windows_are_those_between_the_ticks_of_cron(zone: str, cron: str) -> None:
    tz = UTC if zone == "UTC" else ZoneInfo(zone)
    for year in YEARS:
        start, end = datetime(year, 1, 1, tzinfo=tz), datetime(year + 1, 1, 3, tzinfo=tz).astimezone(UTC)
        expected = []
        for local in CronSim(cron, start - timedelta(seconds=1)):
            moment = local.astimezone(UTC)
            if moment > end:
                break
            if moment >= start:
                expected.append(int(moment.timestamp()) * 1_000_000)
        made = windows(cron, f"{year}-01-01", end.isoformat(), timezone=zone, values="time")
        assert list(made.begins) == expected[:-1]
        assert list(made.ends) == expected[1:]


@given(st.sampled_from(CRONS), st.sampled_from(ZONES), st.integers(0, 2000), st.integers(0, 9000))
@settings(deadline=None, max_examples=60)
def test_later_moments_only_add_windows(cron: str, zone: str, days: int, hours: int) -> None:
    definition = TimePartitions(cron, "2019-03-05T07:30", timezone=zone, values="time")
    at = parse_time("2019-03-01T00:00:00Z") + days * DAY
    late = windows_at(definition, at + hours * HOUR)
    early = windows_at(definition, at)
    assert late.begins[: len(early.begins)] == early.begins
    assert all(end <= at for end in early.ends)
    assert all(end > at for end in late.ends[len(early.ends) :])
    assert early.begins[1:] == early.ends[:-1]
    for begin, end in zip(late.begins, late.ends, strict=True):
        assert begin < end


def test_a_window_exists_when_it_has_ended() -> None:
    assert len(windows("0 0 * * *", "2025-01-01", "2025-01-02T23:59:59Z").begins) == 1
    assert len(windows("0 0 * * *", "2025-01-01", "2025-01-03T00:00:00Z").begins) == 2
    assert windows("0 0 * * *", "2025-01-01", "2024-06-01T00:00:00Z") == Windows((), ())


def test_the_first_window_begins_at_the_first_tick_from_the_start() -> None:
    assert texts(windows("0 0 * * 1", "2025-01-01", "2025-01-21T00:00:00Z").begins) == [
        "2025-01-06T00:00",
        "2025-01-13T00:00",
    ]


def test_no_window_ends_after_the_end() -> None:
    made = windows("0 0 * * *", "2025-01-01", "2026-01-01T00:00:00Z", end="2025-01-03T12:00")
    assert texts(made.ends) == ["2025-01-02T00:00", "2025-01-03T00:00"]


def test_a_day_without_two_in_the_morning_has_a_window_from_three() -> None:
    made = windows("30 2 * * *", "2025-03-29", "2025-04-01T12:00:00Z", timezone="Europe/Berlin")
    assert texts(made.begins) == ["2025-03-29T01:30", "2025-03-30T01:00", "2025-03-31T00:30"]


def test_a_day_of_twenty_five_hours_has_as_many_hourly_windows() -> None:
    made = windows("0 * * * *", "2025-10-26", "2025-10-26T23:00:00Z", timezone="Europe/Berlin", values="time")
    assert len(made.begins) == 25
    assert {end - begin for begin, end in zip(*made, strict=True)} == {HOUR}


def test_a_daily_window_is_as_long_as_its_day() -> None:
    made = windows("0 0 * * *", "2025-03-29", "2025-04-01T00:00:00Z", timezone="Europe/Berlin")
    assert [(end - begin) // HOUR for begin, end in zip(*made, strict=True)] == [24, 23, 24]


def test_a_day_that_a_zone_left_out_has_no_window() -> None:
    made = windows("0 12 * * *", "2011-12-28", "2012-01-02T12:00:00Z", timezone="Pacific/Apia")
    zone = ZoneInfo("Pacific/Apia")
    days = [
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=begin)).astimezone(zone) for begin in made.begins
    ]
    assert [day.isoformat()[5:16] for day in days] == ["12-28T12:00", "12-29T12:00", "12-31T12:00", "01-01T12:00"]


@pytest.mark.parametrize(
    ("exclusion", "left"),
    [
        ("0 0 * * 6,0", ["2025-01-03", "2025-01-06", "2025-01-07"]),
        ("2025-01-04", ["2025-01-03", "2025-01-05", "2025-01-06", "2025-01-07"]),
        ("2025-01-04T00:00", ["2025-01-03", "2025-01-05", "2025-01-06", "2025-01-07"]),
        ("2025-01-04T01:00", ["2025-01-03", "2025-01-04", "2025-01-05", "2025-01-06", "2025-01-07"]),
    ],
)
def test_windows_that_begin_at_an_exclusion_do_not_exist(exclusion: str, left: list[str]) -> None:
    made = windows("0 0 * * *", "2025-01-03", "2025-01-08T00:00:00Z", exclusions=(exclusion,))
    assert [text[:10] for text in texts(made.begins)] == left
    assert all(end - begin == DAY for begin, end in zip(*made, strict=True))


def test_a_day_excludes_all_its_hours() -> None:
    made = windows("0 * * * *", "2025-01-01", "2025-01-03T00:00:00Z", exclusions=("2025-01-01",), values="time")
    assert len(made.begins) == 24
    assert texts(made.begins)[0] == "2025-01-02T00:00"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cron": "0 0 * *"}, "five fields"),
        ({"cron": "61 0 * * *"}, "not a cron expression"),
        ({"timezone": "Europe/Berlim"}, "Europe/Berlin"),
        ({"timezone": "../etc"}, "unknown"),
        ({"start": "yesterday"}, "no date"),
        ({"start": "2025-01-01T00:00+01:00"}, "offset"),
        ({"start": "1066-01-01"}, "years"),
        ({"end": "2024-01-01"}, "later"),
        ({"exclusions": ("soon",)}, "exclusion"),
        ({"values": "week"}, "'date' or 'time'"),
        ({"cron": "0 * * * *"}, "several windows a day"),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(fields: dict[str, object], words: str) -> None:
    definition = TimePartitions(**{"cron": "0 0 * * *", "start": "2025-01-01", **fields})  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=words):
        check_windows(definition)


def test_windows_without_number_are_refused() -> None:
    with pytest.raises(Invalid, match="more than 1,000,000 windows"):
        windows("* * * * *", "2020-01-01", "2025-01-01T00:00:00Z", values="time")


@given(st.dates(date(2019, 1, 1), date(2027, 12, 31)), st.sampled_from(ZONES))
@settings(deadline=None, max_examples=50)
def test_a_value_names_its_window_before_and_after_it_ended(day: date, zone: str) -> None:
    definition = TimePartitions("0 0 * * *", "2018-12-31", timezone=zone)
    begin, end = window_of(definition, day)
    made = windows_at(definition, end)
    assert (made.begins[-1], made.ends[-1]) == (begin, end)
    assert len(windows_at(definition, end - 1).begins) == len(made.begins) - 1


def test_a_value_that_names_no_window_is_refused() -> None:
    weekly = TimePartitions("0 0 * * 1", "2025-01-01")
    assert texts(window_of(weekly, date(2025, 1, 6))) == ["2025-01-06T00:00", "2025-01-13T00:00"]
    with pytest.raises(Invalid, match="2025-01-07"):
        window_of(weekly, date(2025, 1, 7))
    with pytest.raises(Invalid, match="no window"):
        window_of(TimePartitions("0 * * * *", "2025-01-01"), datetime(2025, 1, 1, 0, 30, tzinfo=UTC))
    for extreme in (date.min, date.max, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        with pytest.raises(Invalid, match="names no window"):
            window_of(weekly, extreme)


def test_the_ends_of_time_are_no_obstacle() -> None:
    yearly = TimePartitions("0 0 1 1 *", "9990-01-01")
    assert len(windows_at(yearly, MAX_TIME).begins) == 8
    assert windows_at(yearly, 0) == windows_at(yearly, -MAX_TIME // 1000) == Windows((), ())


@given(st.integers(-400, 800), st.integers(1, 90), st.booleans())
@settings(deadline=None)
def test_places_go_on_beyond_the_windows_that_exist(first: int, length: int, excluded: bool) -> None:
    """Days counted from a bounded range are the days of the calendar, but for those left out."""
    definition = TimePartitions(
        "0 0 * * *", "2025-01-01", end="2025-12-31", exclusions=("2025-06-01",) if excluded else ()
    )
    origin = parse_time("2025-01-01T00:00:00Z")
    made = windows_at(definition, parse_time("2026-06-01T00:00:00Z"))
    left_out = 151 if excluded else 10_000
    begin, end = span_of(definition, made, origin + first * DAY, origin + (first + length) * DAY)

    def place(day: int) -> int:
        return day if day <= left_out else day - 1

    assert (begin, end) == (place(first), place(first + length))

"""A simulated year of a busy workspace: a table of months, and what must be flat, bounded, linear and whole."""

from tests.prove.report import Report
from tests.simulation.months import run
from tests.simulation.year import SHORT, YEAR, Month, live_year
from tests.simulation.year_checks import judge, table_of

__all__ = ["prove_year"]


def prove_year(quick: bool, report: Report) -> None:
    form = SHORT if quick else YEAR

    def ended(month: Month) -> None:
        report.say(f"month {month.number}: {sum(month.requests.values()):,.0f} requests a day, ${month.dollars:.3f}")

    year = run(live_year(form, ended=ended))
    print(table_of(year.months), flush=True)
    for check in judge(year):
        report.check(check.what, check.holds, check.detail)

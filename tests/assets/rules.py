"""The contract of rules: what every engine must find in the same data.

A class that knows an engine gets the cases by inheriting `RulesContract`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from arco import (
    Percent,
    accepted_values,
    anomaly,
    between,
    fresh,
    matches,
    not_null,
    references,
    row_count,
    schema_matches,
    sql_check,
    unique,
)
from arco.assets import CheckDefinition, Facts, Samples, Severity, Values, Verdict, judge, samples_of

__all__ = ["CASES", "ORDERS", "VIEWS", "Case", "RulesContract", "micros"]

T0 = datetime(2025, 6, 1, tzinfo=UTC)


def micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


ORDERS = pa.table(
    {
        "order_id": pa.array([1, 2, 3, 3, None, 5, 6, 7, 8, 9], pa.int64()),
        "region": ["eu", "eu", "us", "us", "us", None, "it's", "$x", "eu\n", "back\\slash"],
        "amount": pa.array([0.1, 10.0, -1.0, 5.5, None, 100.0, 7.0, 8.0, float("nan"), 0.0], pa.float64()),
        "price": pa.array([Decimal("1.10"), *[Decimal("2.00")] * 8, Decimal("0.99")], pa.decimal128(10, 2)),
        "email": ["a@x.de", "b@x.de", "nobody", None, "c@x.de\n", "d@y", "e@x.de", "F@X.DE", "", "g@x.de"],
        "day": [date(2025, 5, 20 + i) for i in range(10)],
        "at": pa.array([T0 + timedelta(hours=i) for i in range(10)], pa.timestamp("us", "UTC")),
        "local": pa.array([datetime(2025, 6, 1, i) for i in range(10)], pa.timestamp("us")),
        "text_time": ["2025-06-01T00:00:00Z", "soon", None, *["2025-06-01T02:00:00Z"] * 7],
        "customer": pa.array([1, 2, 3, 4, None, 1, 1, 1, 1, 1], pa.int64()),
        'odd name.`x"': [1] * 10,
        "nothing": pa.nulls(10, pa.string()),
    }
)
CUSTOMERS = pa.table({"id": pa.array([1, 2, 3, None], pa.int64()), "region": ["eu", "eu", "us", "us"]})
EMPTY = ORDERS.slice(0, 0)
VIEWS = {"shop.customers": "customers"}


class Case(NamedTuple):
    check: CheckDefinition
    passed: bool | None
    actual: str | None = None
    severity: Severity = Severity.ERROR
    table: pa.Table = ORDERS
    message: str = ""
    facts: Facts = Facts()


def _failing(check: CheckDefinition, failing: int, total: int = 10, **fields: Any) -> Case:
    share = f" ({100 * failing / total:.3g} %)" if failing else ""
    return Case(check, failing == 0, f"{failing} of {total} rows{share}", **fields)


def _fresh_facts(hours: float, window: float | None = None) -> Facts:
    end = None if window is None else micros(T0 + timedelta(hours=window))
    return Facts(now=micros(T0 + timedelta(hours=hours)), window_end=end)


CASES = [
    Case(row_count(min=10, max=10), True, "10"),
    Case(row_count(min=11), False, "10", message="there are 10 rows; expected are at least 11"),
    Case(row_count(max=9, severity="critical"), False, "10", Severity.CRITICAL),
    Case(row_count(min=2, max=3, where="region = 'eu'"), True, "2"),
    Case(row_count(min=1), False, "0", table=EMPTY),
    _failing(not_null("order_id"), 1, message="order_id is null in 1 of 10 rows (10 %), and no row may be so"),
    _failing(not_null("day"), 0),
    _failing(not_null("order_id"), 0, 0, table=EMPTY),
    _failing(not_null('odd name.`x"'), 0),
    _failing(not_null("nothing"), 10),
    _failing(not_null("order_id", where="region = 'eu' -- only here"), 0, 2),
    Case(not_null("order_id", error=1), True, "1 of 10 rows (10 %)", message="and at most 1 row may be so"),
    Case(not_null("order_id", error=Percent(10)), True, "1 of 10 rows (10 %)"),
    Case(not_null("order_id", error=Percent(9.9)), False, message="and at most 9.9 % of the rows may be so"),
    Case(not_null("order_id", warn=Percent(1), error=Percent(50)), False, severity=Severity.WARNING),
    Case(not_null("nothing", warn=Percent(1), error=Percent(50), severity="critical"), False, None, Severity.CRITICAL),
    Case(not_null("nothing", warn=5), False, severity=Severity.WARNING, message="and at most 5 rows may be so"),
    _failing(unique("order_id"), 1),
    _failing(unique("day"), 0),
    _failing(unique("order_id", "region"), 1, message="order_id, region repeats what an earlier row has"),
    _failing(unique("customer", "day"), 0),
    _failing(unique("customer"), 5),
    _failing(unique("customer", where="day < DATE '2025-05-25'"), 0, 5),
    _failing(
        between("amount", 0, 100), 2, message="amount is not between 0 and 100 in"
    ),  # not-a-number is greater than 100
    _failing(between("amount", 0), 1, message="amount is not at least 0 in"),
    _failing(between("amount", max=10.0), 2, message="amount is not at most 10.0 in"),
    _failing(between("amount", 0.1), 2),
    _failing(between("price", Decimal("1.00"), Decimal("2.00")), 1),
    _failing(between("price", 1), 1),
    _failing(between("day", date(2025, 5, 21), date(2025, 5, 28)), 2),
    _failing(between("at", datetime(2025, 6, 1, 1, tzinfo=UTC)), 1),
    _failing(between("local", datetime(2025, 6, 1, 1)), 1),
    _failing(between("region", "a", "f"), 5),
    _failing(accepted_values("region", ["eu", "us"]), 4, message="region is none of eu, us in"),
    _failing(accepted_values("region", ["eu", "us", "it's", "$x", "eu\n", "back\\slash"]), 0),
    _failing(accepted_values("order_id", [1, 2, 3]), 5),
    _failing(accepted_values("day", [date(2025, 5, 20)]), 9),
    _failing(matches("email", r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$"), 5),
    _failing(matches("email", "@"), 2, message="email does not match @ in"),
    _failing(matches("email", r"(?i)@x\.de$"), 4),
    _failing(matches("region", r"^\$|u|s"), 0),
    _failing(references("customer", "shop.customers", "id"), 1),
    _failing(references(["customer", "region"], "shop.customers", ["id", "region"]), 5),
    _failing(sql_check("negative", "SELECT * FROM data WHERE amount < 0"), 1),
    _failing(sql_check("negative", "WITH x AS (SELECT * FROM data) SELECT amount FROM x WHERE amount < -5;"), 0),
    _failing(sql_check("total", "SELECT 1 FROM data HAVING count(*) < 100"), 1),
    _failing(sql_check("joined", "SELECT d.* FROM data d JOIN customers c ON d.customer = c.id WHERE c.id = 2"), 1),
    Case(fresh("at", timedelta(hours=3)), True, "1:00:00", facts=_fresh_facts(10)),
    Case(fresh("at", timedelta(hours=3)), False, "5:00:00", facts=_fresh_facts(14)),
    Case(fresh("at", timedelta(hours=3)), True, "1:00:00", facts=_fresh_facts(1000, window=10)),
    Case(fresh("at", timedelta(hours=3)), True, "1:00:00", facts=_fresh_facts(10, window=1000)),
    Case(fresh("at", 4 * 3600, warn=3600), False, "2:00:00", Severity.WARNING, facts=_fresh_facts(11)),
    Case(fresh("local", 3600), True, "1:00:00", facts=_fresh_facts(10)),
    Case(fresh("day", 3 * 86400), True, "2 days, 0:00:00", facts=_fresh_facts(-24)),
    Case(fresh("text_time", 3600), True, "1:00:00", facts=_fresh_facts(3)),
    Case(fresh("at", 3600, where="region = 'us'"), False, "6:00:00", facts=_fresh_facts(10)),
    Case(fresh("at", 3600), False, None, table=EMPTY, message="there are no rows"),
    Case(schema_matches(ORDERS.column_names), True),
    Case(schema_matches({"order_id": "long", "price": "decimal(10,2)"}, extra=True), True),
    Case(schema_matches({"order_id": "string"}, extra=True), False, message="order_id is long and not string"),
    Case(schema_matches(["order_id", "gone"], extra=True), False, message="gone is missing"),
    Case(schema_matches(["order_id"]), False, message="region is not expected"),
    Case(anomaly(), True, "10", facts=Facts(history={"anomaly(row_count)": [9, 10, 11, 10, 9]})),
    Case(anomaly(), False, "10", facts=Facts(history={"anomaly(row_count)": [90, 100, 110, 100, 90]})),
    Case(anomaly(), True, "10", facts=Facts(history={"anomaly(row_count)": [1, 1]}), message="too little"),
    Case(anomaly("sum(customer)"), True, "15", facts=Facts(history={"anomaly(sum(customer))": [14, 15, 16, 15, 15]})),
    Case(
        anomaly("max(customer)", percent=10, versions=1, where="region = 'us'"),
        False,
        "4",
        facts=Facts(history={"anomaly(max(customer))": [5]}),
    ),
    Case(not_null("emial"), None, message="no result: the column emial is not there; did you mean email?"),
    Case(between("region", 1), None, message="no result: the column region is string"),
    Case(matches("order_id", "1"), None, message="no result: the column order_id is long"),
    Case(not_null("email", where="emial = 1"), None, message="no result: "),
    Case(not_null("email", where="CAST(region AS INT) = 1"), None, message="while it ran"),
    Case(sql_check("typo", "SELECT * FROM dta"), None, message="no result: "),
    Case(sql_check("typo", "SELEC * FROM data"), None, message="no result: "),
    Case(references("customer", "shop.customers", "idd"), None, message="no result: "),
    Case(anomaly("sum(amuont)"), None, message="no result: "),
    Case(anomaly("sum(customer)"), None, table=EMPTY, message="has no value"),
]


class RulesContract:
    def values(
        self, checks: Sequence[CheckDefinition], table: pa.Table, inputs: Mapping[str, pa.Table]
    ) -> tuple[Values, Facts]:
        """What an engine measures, and the columns that it saw."""
        raise NotImplementedError

    def samples(self, query: Samples, table: pa.Table, inputs: Mapping[str, pa.Table]) -> pa.Table:
        raise NotImplementedError

    def is_chosen(self, check: CheckDefinition) -> bool:
        return True

    def verdicts(self, checks: Sequence[CheckDefinition], table: pa.Table, facts: Facts) -> list[Verdict]:
        values, seen = self.values(checks, table, {"customers": CUSTOMERS})
        known = Facts(seen.columns, facts.now, facts.window_end, facts.history)
        return [judge(check, values, known, VIEWS) for check in checks]

    def faults(self, case: Case, verdict: Verdict) -> list[str]:
        wanted = (case.passed, case.severity, case.actual if case.actual is not None else verdict.actual)
        found = (verdict.passed, verdict.severity, verdict.actual)
        is_good = wanted == found and case.message in verdict.message
        return [] if is_good else [f"{case.check.name}: wanted {wanted} {case.message!r}, found {verdict}"]

    @pytest.mark.parametrize("table", [ORDERS, EMPTY], ids=["orders", "empty"])
    def test_every_rule_finds_what_it_should_beside_all_others(self, table: pa.Table) -> None:
        cases = [case for case in CASES if case.table is table and self.is_chosen(case.check)]
        values, seen = self.values([case.check for case in cases], table, {"customers": CUSTOMERS})
        faults = []
        for case in cases:
            known = Facts(seen.columns, case.facts.now, case.facts.window_end, case.facts.history)
            faults += self.faults(case, judge(case.check, values, known, VIEWS))
        assert faults == []

    def test_no_value_of_the_data_is_told(self) -> None:
        (verdict,) = self.verdicts([not_null("email", where="CAST(region AS INT) = 1")], ORDERS, Facts())
        assert verdict.passed is None
        assert not any(value in verdict.message for value in ("eu", "us", "it's"))

    def test_samples_are_failing_rows(self) -> None:
        wanted = {
            not_null("order_id", samples=5): [None],
            not_null("nothing", samples=2): ...,
            unique("order_id", samples=5): [3, 3],
            between("amount", 0, where="region = 'us'", samples=5): [3],
            references("customer", "shop.customers", "id", samples=5): [3],
            sql_check("negative", "SELECT order_id, region FROM data WHERE amount < 0", samples=5): [3],
        }
        for check, orders in wanted.items():
            query = samples_of(check, VIEWS, ["order_id", "region"])
            assert query is not None
            found = self.samples(query, ORDERS, {"customers": CUSTOMERS})
            assert found.column_names == ["order_id", "region"]
            assert found.num_rows == 2 if orders is ... else found.column("order_id").to_pylist() == orders, check.name

"""Rules as people write them: names, levels, and mistakes that are told with file, line and cure."""

import inspect
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import arco
from arco import (
    Percent,
    accepted_values,
    anomaly,
    asset,
    between,
    check,
    fresh,
    matches,
    not_null,
    references,
    row_count,
    schema_matches,
    sql_check,
    unique,
)
from arco.assets import Between, CheckDefinition, Constant, NotNull, References, Rows, Rule, rule_name
from arco.core import Invalid
from arco.sdk import load_project

MADE = [
    not_null("email", warn=Percent(1), error=Percent(5), samples=10),
    unique("day", "region", where="region <> 'test'"),
    between("amount", 0, 10.5),
    accepted_values("status", ["open", "paid"], error=3),
    matches("email", "^[^@]+@[^@]+$"),
    references("customer_id", "sales.customers", "id"),
    sql_check("no_gaps", "SELECT * FROM data WHERE amount < 0"),
    row_count(min=1, max=10),
    fresh("ordered_at", timedelta(hours=6), warn=3600),
    schema_matches({"id": "long"}, extra=True),
    anomaly("sum(amount)", percent=50, versions=3),
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_a_rule_is_a_frozen_value_that_survives_json(made: CheckDefinition) -> None:
    assert msgspec.json.decode(msgspec.json.encode(made), type=CheckDefinition) == made
    assert made.rule is not None
    assert callable(getattr(arco, rule_name(made.rule)))


def test_there_is_a_function_for_every_rule() -> None:
    assert {rule_name(made.rule) for made in MADE if made.rule} == {
        str(kind.__struct_config__.tag) for kind in Rule.__args__
    }


def test_names_are_readable_and_do_not_change_with_limits() -> None:
    assert [made.name for made in MADE] == [
        "not_null(email)",
        "unique(day,region)",
        "between(amount)",
        "accepted_values(status)",
        "matches(email)",
        "references(customer_id)",
        "no_gaps",
        "row_count",
        "fresh(ordered_at)",
        "schema_matches",
        "anomaly(sum(amount))",
    ]
    assert not_null("email", error=5).name == not_null("email").name
    assert not_null("email", name="has_email").name == "has_email"


def test_levels_are_rows_or_percent() -> None:
    rule = not_null("x", warn=3, error=Percent(5)).rule
    assert rule == NotNull("x", warn=Rows(3), error=Percent(5.0))


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (1, Constant("int", "1")),
        (0.1, Constant("float", "0.1")),
        (Decimal("1E+2"), Constant("decimal", "100")),
        ("it's", Constant("string", "it's")),
        (date(2025, 1, 2), Constant("date", "2025-01-02")),
        (datetime(2025, 1, 2, 3), Constant("timestamp", "2025-01-02 03:00:00+00:00")),
        (
            datetime(2025, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
            Constant("timestamp", "2025-01-02 02:00:00+00:00"),
        ),
        (datetime(2025, 1, 2, 3, tzinfo=UTC), Constant("timestamp", "2025-01-02 03:00:00+00:00")),
    ],
)
def test_values_keep_their_types(value: Any, constant: Constant) -> None:
    rule = between("x", value).rule
    assert isinstance(rule, Between)
    assert rule.min == constant


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: not_null(""), "not_null: the name of a column is empty; write it as text"),
    (lambda: not_null("x", severity="bad"), "the severity is 'bad'; use info, warning, error, critical"),
    (lambda: not_null("x", error=Percent(100)), "error=100 percent; use 0 to less than 100"),
    (lambda: not_null("x", error=-1), "error is '-1'; write a number of rows, or Percent"),
    (lambda: not_null("x", error=0.5), "error is '0.5'; write a number of rows, or Percent"),  # type: ignore[arg-type]
    (lambda: not_null("x", warn=5, error=5), "warn is not less than error"),
    (lambda: not_null("x", warn=1, error=5, severity="info"), "it has warn= and the severity info"),
    (lambda: not_null("x", samples=5000), "samples is '5000'; use 0 to 1000"),
    (lambda: not_null("x", name="Not Null"), "the check name 'Not Null' is not a name"),
    (lambda: not_null("x", where=5), "where is of type int"),  # type: ignore[arg-type]
    (lambda: unique(), "unique: it names no column; name at least one"),
    (lambda: unique("a", "a"), "it names a column twice"),
    (lambda: unique(*(f"column_{i}" for i in range(20))), "too many for a name; give it one with name="),
    (lambda: between("x"), "it has neither min nor max"),
    (lambda: between("x", float("nan")), "'nan' is no value that data can have"),
    (lambda: accepted_values("x", "abc"), "its values are one text; write them as a list"),
    (lambda: accepted_values("x", []), "it has no values"),
    (lambda: matches("x", "("), "is no regular expression"),
    (lambda: matches("x", "(?=a)"), "a group that looks around"),
    (lambda: references(["a", "b"], "n.x", "id"), "it compares 2 columns with 1"),
    (lambda: sql_check("x", " "), "the query is"),
    (lambda: sql_check("x", "SELECT 1; DROP TABLE data"), "the query has a semicolon in it; give one query"),
    (lambda: row_count(), "it has neither min nor max"),
    (lambda: row_count(min=2, max=1), "min is 2 and max is 1"),
    (lambda: row_count(min=True), "'True' is no number of rows"),
    (lambda: fresh("x", 0), "0.0 seconds is no age"),
    (lambda: fresh("x", 10, warn=10), "warn is not less than within"),
    (lambda: schema_matches("id"), "its columns are one text"),
    (lambda: anomaly(deviations=1, percent=1), "it has both deviations and percent; choose one"),
    (lambda: anomaly(versions=0), "it looks at 0 versions"),
    (lambda: anomaly(versions=2, at_least=3), "it needs at least 3 versions of 2"),
    (lambda: anomaly(percent=-1), "-1 is no distance"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_mistake_is_told_with_its_place_and_a_cure(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(Invalid) as raised:
        mistake()
    assert message in raised.value.message
    assert raised.value.details["file"] == __file__
    assert raised.value.details["line"] == inspect.getsourcelines(mistake)[1]
    assert raised.value.details["cure"]


def test_an_asset_takes_rules_and_functions() -> None:
    @check
    def good(data: Any) -> bool:
        return True

    @asset(namespace="rules", checks=[good, not_null("id")])
    def checked() -> None: ...

    assert checked.checks["rules.checked"] == (good, not_null("id"))
    with pytest.raises(Invalid, match=r"are a single one; write it as a list"):
        asset(namespace="rules", name="x", checks=not_null("id"))(lambda: None)  # type: ignore[call-overload]

    with pytest.raises(Invalid, match=r"among its checks; decorate the function with @check, or use a rule"):
        asset(namespace="rules", name="x", checks=[lambda data: True])(lambda: None)  # type: ignore[list-item]


def test_a_reference_may_name_the_asset_itself() -> None:
    @asset(namespace="rules")
    def customers() -> None: ...

    assert references("id", customers).rule == References(("id",), "rules.customers", ("id",))


def test_rules_come_with_the_project_that_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(
        "from arco import asset, not_null, references\n"
        "@asset(namespace='n', schema={'id': 'long'})\n"
        "def customers(): ...\n"
        "@asset(namespace='n', schema={'email': 'string pii', 'customer': 'long'},\n"
        "       checks=[not_null('emial'), references('customer', 'customers', 'id')])\n"
        "def orders(customers): ...\n"
    )
    loaded = load_project(tmp_path)
    assert [str(problem) for problem in loaded.problems] == [
        "pipeline.py:4: n.orders: the check 'not_null(emial)': the column emial is not there; did you mean email?"
    ]
    orders = loaded.project.assets[1]
    assert orders.checks == (not_null("emial"), references("customer", "n.customers", "id"))
    assert [column.pii for column in orders.schema] == [True, False]

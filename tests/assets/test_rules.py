"""Patterns that mean the same everywhere, problems of checks that a project tells, verdicts at their limits."""

import re

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco import Percent, anomaly, between, not_null, references, row_count
from arco.assets import (
    AssetDefinition,
    CheckDefinition,
    Dependency,
    Dialect,
    Facts,
    NoValue,
    Project,
    SchemaColumn,
    Severity,
    check_pattern,
    judge,
    measures_of,
    resolve,
    validate,
)
from arco.assets._patterns import portable_pattern
from arco.core import Invalid


@pytest.mark.parametrize(
    "pattern",
    [
        "(?<=a)b", "(?!a)", r"(a)\1", "(?P<x>a)", "(?#x)", "(?>a)", "a++", "a{2}{3}", "a{", "a{,5}", "a{1001}",
        "[[:alpha:]]", "[a&&b]", r"\p{L}", r"\u0041", r"[\b]", "[]a]", r"\z", "(?x)a",
    ],
)  # fmt: skip
def test_patterns_that_engines_read_differently_are_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a", "^a$", r"a\.b\$", "[a-z$]+?", r"[\]\[a]", "a*?b+?c??", "(?i)x|(?:y)", "(?i:x)", r"\x41\d\bx", "a{2,}",
        r"a\Z", "(?m)^a$",
    ],
)  # fmt: skip
def test_other_patterns_mean_the_same_in_duckdb_as_in_python(pattern: str) -> None:
    written = portable_pattern(check_pattern(pattern), Dialect.DUCKDB)
    texts = ["", "a", "b", "aa", "ab", "aabc", "x", "X", "y", "a.b$", "]", "[", "A1 x", "a\n", "\na\n", "$", "1\n"]
    found = [duckdb.execute("SELECT regexp_matches(?, ?)", [text, written]).fetchall()[0][0] for text in texts]
    # Python's own $ also stands before a last line break; ours does not.
    exact = re.compile(r"^a\Z" if pattern == "^a$" else pattern)
    assert found == [exact.search(text) is not None for text in texts]


# Projects

CUSTOMERS = AssetDefinition("n.customers", function="m:f", schema=(SchemaColumn("id", "long"),))


def problems(*checks: CheckDefinition, parameter: str = "customers", declared: bool = True) -> list[str]:
    schema = (SchemaColumn("email", "string"), SchemaColumn("customer", "long")) if declared else ()
    orders = AssetDefinition(
        "n.orders", function="m:g", dependencies=(Dependency("n.customers", parameter),), checks=checks, schema=schema
    )
    return [str(problem).partition("n.orders: ")[2] for problem in validate(Project((CUSTOMERS, orders)))]


def test_a_typo_in_a_column_is_found_before_anything_runs() -> None:
    assert problems(not_null("emial")) == [
        "the check 'not_null(emial)': the column emial is not there; did you mean email?"
    ]
    assert problems(not_null("emial"), declared=False) == []
    assert problems(between("email", 1)) == [
        "the check 'between(email)': the column email is string, and the rule asks for number; correct the check, or "
        "the declared schema"
    ]


def test_a_reference_must_be_read_and_have_the_columns() -> None:
    good = references("customer", "customers", "id")
    assert problems(good) == []
    resolved = resolve(Project((CUSTOMERS, AssetDefinition("n.orders", function="m:g", checks=(good,)))))
    assert resolved.assets[1].checks == (references("customer", "n.customers", "id"),)
    assert "which it does not read; make that asset a parameter" in problems(good, parameter="")[0]
    assert "has no column 'idd'; did you mean id?" in problems(references("customer", "n.customers", "idd"))[0]


def test_a_check_has_a_function_or_a_rule_and_its_own_name() -> None:
    assert "not exactly one of a function and a rule" in problems(CheckDefinition("empty"))[0]
    assert "two of its checks are called" in problems(not_null("email"), not_null("email", where="true"))[0]


# Verdicts


@given(total=st.integers(0, 10**9), data=st.data(), limit=st.floats(0, 99.99))
def test_a_percentage_is_exceeded_when_more_rows_fail(total: int, data: st.DataObject, limit: float) -> None:
    failing = data.draw(st.integers(0, total))
    check = not_null("x", error=Percent(limit))
    names = [measure.name for measure in measures_of(check)]
    verdict = judge(check, dict(zip(names, (total, failing), strict=True)), Facts())
    assert verdict.passed is (failing * 100 <= limit * max(total, 1))


@given(failing=st.integers(0, 20))
def test_two_levels(failing: int) -> None:
    check = not_null("x", warn=5, error=10, severity="critical")
    names = [measure.name for measure in measures_of(check)]
    verdict = judge(check, dict(zip(names, (20, failing), strict=True)), Facts())
    assert verdict.passed is (failing <= 5)
    assert verdict.severity is (Severity.WARNING if 5 < failing <= 10 else Severity.CRITICAL)


@pytest.mark.parametrize("values", [{}, {"other": 1}])
def test_what_was_not_measured_gives_no_result(values: dict[str, float]) -> None:
    assert judge(row_count(min=0), values, Facts()).passed is None
    (name,) = (measure.name for measure in measures_of(row_count(min=0)))
    assert judge(row_count(min=0), {name: NoValue("why")}, Facts()).message == "no result: why"
    assert judge(row_count(min=0), {name: None}, Facts()).passed is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=30), st.floats(-1e7, 1e7))
def test_an_anomaly_is_far_from_the_mean(history: list[float], value: float) -> None:
    check = anomaly(deviations=2)
    (name,) = (measure.name for measure in measures_of(check))
    facts = Facts(history={check.name: history})
    mean = sum(history) / len(history)
    assert judge(check, {name: mean}, facts).passed is True
    spread = max(history) - min(history) + abs(mean)
    assert judge(check, {name: mean + 10 * spread + 1}, facts).passed is False
    assert judge(check, {name: value}, Facts(history={check.name: history[:4]})).passed is True

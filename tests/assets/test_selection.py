"""Selections: what each form means, that the operators are those of sets, and that errors point at the place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import AssetKind, Graph, select
from arco.core import Invalid
from tests.assets.making import a_project, an_asset

PROJECT = a_project(
    an_asset("raw.orders", kind=AssetKind.EXTERNAL),
    an_asset("raw.customers", kind=AssetKind.EXTERNAL, tags={"pii": "yes"}),
    an_asset("sales.orders", "raw.orders", owners=("sales+eu@acme.com",), tags={"tier": "gold", "pii": "no"}),
    an_asset("sales.orders_daily", "sales.orders", "raw.customers", owners=("Team (Sales)",)),
    an_asset("sales.report", "sales.orders_daily", renamed_from=("sales.summary",)),
    an_asset("sales.alerts", "sales.report"),
)
EVERY = tuple(asset.key for asset in PROJECT.assets)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sales.report", "sales.report"),
        ("report", "sales.report"),
        ("sales.summary", "sales.report"),
        ("raw.*", "raw.customers raw.orders"),
        ("*_daily", "sales.orders_daily"),
        ("*.orders", "raw.orders sales.orders"),
        ("sales.?lerts", "sales.alerts"),
        ("*", " ".join(EVERY)),
        ("+orders_daily", "raw.customers raw.orders sales.orders sales.orders_daily"),
        ("1+orders_daily", "raw.customers sales.orders sales.orders_daily"),
        ("0+orders_daily", "sales.orders_daily"),
        ("orders_daily+", "sales.alerts sales.orders_daily sales.report"),
        ("orders_daily+1", "sales.orders_daily sales.report"),
        ("1+orders_daily+1", "raw.customers sales.orders sales.orders_daily sales.report"),
        ("+orders_daily+", " ".join(EVERY)),
        ("tag:pii", "raw.customers sales.orders"),
        ("tag:pii=yes", "raw.customers"),
        ("owner:sales+eu@acme.com", "sales.orders"),
        ('owner:"Team (Sales)"', "sales.orders_daily"),
        ("namespace:raw", "raw.customers raw.orders"),
        ("kind:external", "raw.customers raw.orders"),
        ("+tag:tier=gold", "raw.orders sales.orders"),
        ("not raw.* and not tag:tier", "sales.alerts sales.orders_daily sales.report"),
        ("raw.orders or report and alerts", "raw.orders"),
        ("(raw.orders or report) and +report", "raw.orders sales.report"),
        ("raw.orders, report", "raw.orders sales.report"),
        ("raw.orders,report", "raw.orders sales.report"),
        ("1+(report or alerts)", "sales.alerts sales.orders_daily sales.report"),
        ("(tag:tier)+1", "sales.orders sales.orders_daily"),
        ("not not report", "sales.report"),
        ("  report  ", "sales.report"),
    ],
)
def test_what_a_selection_means(text: str, expected: str) -> None:
    assert select(text, PROJECT) == tuple(expected.split())


@pytest.mark.parametrize(
    ("text", "words", "position"),
    [
        ("orders", "ambiguous: raw.orders, sales.orders; write the key with its namespace", 0),
        ("sales.reprt", "no asset 'sales.reprt'; did you mean sales.report", 0),
        ("report or nothing_like_it", "no asset 'nothing_like_it'; there are 6 assets", 10),
        ("zoo.*", "no asset matches 'zoo.*'; namespaces are raw, sales", 0),
        ("tag:tear=gold", "no asset has tag 'tear=gold'; did you mean tier=gold", 0),
        ("owner:nobody", "no asset has owner 'nobody'", 0),
        ("kind:thing", "no asset has kind 'thing'; known are asset, external, observable, sql", 0),
        ("column:x", "there is no 'column:'; methods are tag:, owner:, namespace:, kind:", 0),
        ("(report", "this parenthesis is not closed", 0),
        ("report)", "')' is not expected here", 6),
        ("report alerts", "'alerts' is not expected here; join parts", 7),
        ("report and", "something is missing here", 10),
        ("and report", "'and' is not expected here", 0),
        ("report and and alerts", "'and' is not expected here", 11),
        (",", "',' is not expected here", 0),
        ("+", "names no asset", 0),
        ('owner:"x', "a quote is not closed", 6),
        ("(" * 101 + "report" + ")" * 101, "nested more than", 100),
    ],
)
def test_an_error_says_where_and_what_is_known(text: str, words: str, position: int) -> None:
    with pytest.raises(Invalid) as refused:
        select(text, PROJECT)
    assert words in refused.value.message
    assert refused.value.details["position"] == position
    assert f"character {position + 1}" in refused.value.message


@pytest.mark.parametrize("text", ["", "   ", "report and alerts", "not *", "x" * 20_000, "not " * 500 + "report"])
def test_a_selection_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        select(text, PROJECT)


atoms = st.sampled_from(["report", "+report", "sales.orders+", "raw.*", "tag:pii", "kind:external", "1+alerts", "*"])
expressions = st.recursive(
    atoms.map(lambda atom: (atom, frozenset(select(atom, PROJECT)))),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}) and ({two[1][0]})", two[0][1] & two[1][1])),
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}) or ({two[1][0]})", two[0][1] | two[1][1])),
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}),({two[1][0]})", two[0][1] | two[1][1])),
        inner.map(lambda one: (f"not ({one[0]})", frozenset(EVERY) - one[1])),
        inner.map(lambda one: (f"+({one[0]})+1", _extended(one[1]))),
    ),
    max_leaves=8,
)


def _extended(keys: frozenset[str]) -> frozenset[str]:
    graph = Graph(PROJECT)
    return frozenset(graph.ancestors(keys) | graph.descendants(keys, 1))


@given(expressions)
@settings(deadline=None)
def test_operators_are_those_of_sets(expression: tuple[str, frozenset[str]]) -> None:
    text, expected = expression
    if expected:
        assert select(text, PROJECT) == tuple(sorted(expected))
    else:
        with pytest.raises(Invalid, match="selects nothing"):
            select(text, PROJECT)


@given(st.text(st.sampled_from('ab.*?+12 ()",:=ornotdsagk'), max_size=30))
@settings(deadline=None)
def test_any_text_selects_or_is_refused(text: str) -> None:
    try:
        chosen = select(text, PROJECT)
    except Invalid:
        return
    assert chosen
    assert set(chosen) <= set(EVERY)


def test_an_empty_project_has_nothing_to_select() -> None:
    with pytest.raises(Invalid, match="the project has no assets"):
        select("a.b", a_project())

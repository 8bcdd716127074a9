"""Plans without Spark: reading them, limits, and what becomes of plans that cannot be read."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Invalid, TooLarge
from arco.domains.lineage import ColumnLineage, Confidence, ConfidenceReason, TransformType
from arco.spark import _lineage, _plans
from arco.spark._lineage import column_lineage, lineage_from_explain, lineage_from_plan
from arco.spark._mixing import partition_mixing
from arco.spark._plans import bottom_up, parse_plan
from arco.spark._traces import Kind
from tests.spark.plans import add, alias, attribute, input_of, literal, node, plan, project

WIDE = 5_000


def names(count: int) -> list[str]:
    return [f"c{at}" for at in range(count)]


def test_no_value_of_a_plan_is_kept() -> None:
    text = plan(project(alias(9, "p", add(attribute(0), literal("secret")))), input_of("x", "a"))
    assert "secret" in text
    assert "secret" not in repr(parse_plan(text))
    assert "secret" not in repr(lineage_from_plan(text))


def test_nodes_come_after_their_children_from_left_to_right() -> None:
    union = plan(node("Union", 2), project(attribute(0)), input_of("x", "a"), project(attribute(5)), input_of("y", "b"))
    inputs = [found.input for found in bottom_up(parse_plan(union)) if found.input]
    assert inputs == ["x", "y"]
    kinds = [found.kind for found in bottom_up(parse_plan(union), stop=lambda found: found.input is not None)]
    assert kinds == ["SubqueryAlias", "Project", "SubqueryAlias", "Project", "Union"]


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[]", "[1]", "{}", '[{"class": "X"}]', '[{"class":"X","num-children":3}]']
)
def test_what_is_no_plan_gives_a_lineage_that_says_so(text: str) -> None:
    lineage = lineage_from_plan(text, columns=["a", "b"])
    assert [column.name for column in lineage.columns] == ["a", "b"]
    assert {column.confidence for column in lineage.columns} == {Confidence.LOW}
    assert lineage.coverage == lineage.exact == 0
    assert "no analysed plan" in lineage.reason
    assert not partition_mixing(text, {"x": {"day": "day"}}).proven


@settings(max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda kids: (
            st.lists(kids)
            | st.dictionaries(
                st.sampled_from(["class", "num-children", "output", "projectList", "name", "exprId", "id", "plan"]),
                kids,
            )
        ),
        max_leaves=20,
    )
)
def test_nothing_that_is_given_as_a_plan_raises(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    assert lineage_from_plan(text).coverage == 0
    assert lineage_from_explain(f"== Analyzed Logical Plan ==\n\n{text}").coverage == 0
    assert not partition_mixing(text, {}).proven


def test_a_plan_that_is_too_long_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_plans, "MAX_PLAN_CHARACTERS", 100)
    text = plan(project(attribute(0)), input_of("x", "a"))
    with pytest.raises(TooLarge):
        parse_plan(text)
    assert "at most 100" in lineage_from_plan(text).reason


def test_subqueries_are_not_followed_without_end() -> None:
    inner = [project(literal("1")), *input_of("x", "a")]
    for _ in range(40):
        query = {"class": "org.Exists", "num-children": 0, "plan": inner}
        inner = [node("Filter", 1, condition=[query]), *input_of("x", "a")]
    with pytest.raises(TooLarge, match="deep"):
        parse_plan(plan(inner))


def test_a_field_that_spark_leaves_out_is_no_empty_list() -> None:
    text = plan(
        node("Aggregate", 1, groupingExpressions=None, aggregateExpressions=[alias(9, "n", literal("1"))]),
        input_of("x", "a"),
    )
    assert "groupingExpressions" in lineage_from_plan(text).reason
    assert not partition_mixing(text, {"x": {"day": "a"}}).proven


def test_5000_columns_are_exact() -> None:
    columns = names(WIDE)
    sums = [alias(WIDE + at, f"s{at}", add(attribute(at), attribute((at + 1) % WIDE))) for at in range(WIDE)]
    lineage = lineage_from_plan(plan(project(*sums), input_of("x", *columns)))
    assert lineage.exact == 1
    assert [found.column for found in lineage.columns[7].direct] == ["c7", "c8"]


def test_a_plan_of_1000_steps_and_a_sum_of_5000_terms_are_exact() -> None:
    steps = [project(alias(101 + at, "s", add(attribute(100 + at), attribute(at % 100)))) for at in range(1_000)]
    first = project(
        alias(100, "s", add(*(attribute(at % 100) for at in range(WIDE)))), *(attribute(at) for at in range(100))
    )
    passed = [{**step, "projectList": [*step["projectList"], *(attribute(at) for at in range(100))]} for step in steps]
    lineage = lineage_from_plan(plan(*passed[::-1], first, input_of("x", *names(100))))
    assert lineage.exact == 1
    assert len(lineage.columns[0].direct) == 100


def test_columns_of_too_many_columns_say_so_and_others_stay_exact() -> None:
    total = alias(WIDE, "total", add(*(attribute(at) for at in range(WIDE))))
    shares = [alias(WIDE + 1 + at, f"p{at}", add(attribute(WIDE), attribute(at))) for at in range(1_000)]
    below = project(total, *(attribute(at) for at in range(WIDE)))
    lineage = lineage_from_plan(plan(project(attribute(3), *shares), below, input_of("x", *names(WIDE))))
    assert lineage.columns[0].confidence == Confidence.HIGH
    assert lineage.columns[-1].confidence == Confidence.LOW
    assert "too many" in lineage.columns[-1].reason
    assert sum(len(column.direct) for column in lineage.columns) <= _lineage.MAX_DEPENDENCIES


def test_a_node_that_is_not_known_leaves_a_doubt() -> None:
    text = plan(node("Novelty", 1), project(attribute(0, "a")), input_of("x", "a"))
    (column,) = lineage_from_plan(text).columns
    assert [found.kind for found in column.direct] == [Kind.IDENTITY]
    assert column.confidence == Confidence.LOW
    assert "Novelty" in column.reason
    assert "Novelty" in partition_mixing(text, {"x": {"day": "a"}}).reason


def test_a_node_that_is_not_known_between_two_relations_ends_it() -> None:
    text = plan(node("Novelty", 2), input_of("x", "a"), input_of("y", "b", start=5))
    assert "Novelty" in lineage_from_plan(text, columns=["a"]).reason


# As events


def joined() -> str:
    condition = [{"class": "org.EqualTo", "num-children": 2}, *attribute(1, "k"), *attribute(5, "k")]
    items = [attribute(0, "a"), alias(20, "s", add(attribute(0), attribute(6))), alias(21, "one", literal("1"))]
    join = node("Join", 2, joinType={"object": "org.apache.spark.sql.catalyst.plans.Inner$"}, condition=condition)
    return plan(project(*items), join, input_of("x", "a", "k"), input_of("y", "k", "c", start=5))


def test_an_edge_gets_what_comes_from_its_input() -> None:
    lineage = column_lineage(lineage_from_plan(joined()), "y", source_ids={"c": "C1"}, target_ids={"s": "S1"})
    (mapping,) = lineage.mappings
    assert (mapping.target_column.name, mapping.target_column.column_id) == ("s", "S1")
    assert [(source.name, source.column_id) for source in mapping.source_columns] == [("c", "C1")]
    assert mapping.transform_type is TransformType.EXPRESSION
    assert lineage.influences is not None
    assert [(found.transform_type, found.source_columns[0].name) for found in lineage.influences] == [
        (TransformType.JOIN, "k")
    ]
    assert (lineage.confidence, lineage.confidence_reason) == (Confidence.HIGH, ConfidenceReason.PLAN_INTROSPECTION)
    assert (lineage.coverage, lineage.unmapped_columns, lineage.reason) == (1.0, (), None)


def test_a_column_made_in_two_ways_has_two_mappings() -> None:
    choice = [{"class": "org.If", "num-children": 3}, *attribute(1), *attribute(0), *literal("0")]
    lineage = column_lineage(lineage_from_plan(plan(project(alias(9, "v", choice)), input_of("x", "a", "k"))), "x")
    assert [(mapping.transform_type, mapping.source_columns[0].name) for mapping in lineage.mappings] == [
        (TransformType.EXPRESSION, "a"),
        (TransformType.CASE, "k"),
    ]


def test_a_lineage_that_cannot_be_read_lists_its_columns_as_unmapped() -> None:
    lineage = column_lineage(lineage_from_plan("?", columns=["a"]), "x")
    assert [column.name for column in lineage.unmapped_columns] == ["a"]
    assert (lineage.coverage, lineage.confidence, lineage.confidence_reason) == (
        0,
        Confidence.LOW,
        ConfidenceReason.MIXED,
    )
    assert lineage.reason


def test_columns_without_a_name_are_left_out_of_an_edge_that_says_so() -> None:
    sources = [attribute(0, "s"), attribute(1, "t"), alias(9, "", attribute(1))]
    edge = column_lineage(lineage_from_plan(plan(project(*sources), input_of("x", "", "k"))), "x")
    assert msgspec.json.decode(msgspec.json.encode(edge), type=ColumnLineage) == edge
    assert [(mapping.target_column.name, mapping.source_columns[0].name) for mapping in edge.mappings] == [("t", "k")]
    assert edge.reason == "columns without a name are left out"


@pytest.mark.parametrize("size", [200, 20_000])
def test_an_edge_fits_into_the_event(size: int) -> None:
    lineage = lineage_from_plan(
        plan(project(*(attribute(at, f"c{at}") for at in range(WIDE))), input_of("x", *names(WIDE)))
    )
    edge = column_lineage(lineage, "x", max_bytes=size)
    assert len(msgspec.json.encode(edge)) < size + 300
    assert 0 < len(edge.mappings) < WIDE
    assert edge.coverage == 1
    assert "is listed" in (edge.reason or "")


# The text of an explain


EXPLAINED = """== Parsed Logical Plan ==
'Project ['a]

== Analyzed Logical Plan ==
total: bigint, k: int
Project [total#9L, k#1]
+- Filter (total#9L > cast(3 as bigint))
   +- Aggregate [k#1], [sum((a#0 + 1)) AS total#9L, k#1]
      +- SubqueryAlias arco_input_x
         +- Relation [a#0,k#1,b#2] parquet

== Optimized Logical Plan ==
LocalRelation <empty>, [total#9L, k#1]
"""


def test_an_explain_gives_names_and_kinds() -> None:
    lineage = lineage_from_explain(EXPLAINED)
    total, key = lineage.columns
    assert total.direct == (("x", "a", Kind.AGGREGATION),)
    assert key.direct == (("x", "k", Kind.IDENTITY),)
    assert lineage.rows == (("x", "a", Kind.FILTER), ("x", "k", Kind.GROUP_BY))
    assert {total.confidence, key.confidence} == {Confidence.MEDIUM}
    assert "text of a plan" in lineage.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no section"),
        ("== Physical Plan ==\nScan", "no section"),
        (EXPLAINED.replace("b#2", "... 7 more fields"), "maxToStringFields"),
        (EXPLAINED.replace("cast(3", "cast)3"), "unreadable"),
        (EXPLAINED.replace("a#0 + 1", "(" * 500 + "a#0" + ")" * 500), "deep"),
    ],
)
def test_an_explain_that_cannot_be_read_says_why(text: str, reason: str) -> None:
    lineage = lineage_from_explain(text, columns=["total", "k"])
    assert reason in lineage.reason
    assert lineage.coverage == 0
    assert [column.name for column in lineage.columns] == ["total", "k"]


def test_a_literal_with_a_line_break_stays_in_its_line() -> None:
    assert lineage_from_explain(EXPLAINED.replace("bigint))\n", "bigint)) AND (k#1 = a\nb)\n")).coverage == 1


def test_invalid_is_what_parsing_raises() -> None:
    with pytest.raises(Invalid):
        parse_plan("[]")

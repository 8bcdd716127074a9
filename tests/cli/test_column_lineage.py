"""Lineage by column: how it reads, what it says of what it does not know, and assets that have no table."""

from pathlib import Path

import pytest
from rich.console import Group

from arco.cli._column_lineage import ColumnTree, Covered, coverage_parts
from arco.core import NotFound
from arco.wire import ColumnEdgeInfo, LineageEdgeInfo, LineageGraph, LineageNode
from tests.cli.conftest import Cli
from tests.cli.test_servo_text import rendered


def mapping(target: str | None, *sources: str, kind: str = "DIRECT", sure: str = "high") -> ColumnEdgeInfo:
    reason = None if sure == "high" else "a function of somebody's own"
    return ColumnEdgeInfo(target=target, sources=list(sources), kind=kind, confidence=sure, reason=reason)


def edge(
    source: str, target: str, *mappings: ColumnEdgeInfo, manual: bool = False, method: str | None = None
) -> LineageEdgeInfo:
    return LineageEdgeInfo(
        id=f"{source}-{target}",
        source_id=source,
        target_id=target,
        manual=manual,
        recorded=not manual,
        parameter="",
        columns={},
        mappings=list(mappings),
        capture_method=method,
        confidence=None,
        coverage=None,
        first_seen_at=None,
        last_seen_at=None,
        execution_count=1,
        owner=None,
        description=None,
    )


def graph(*edges: LineageEdgeInfo) -> LineageGraph:
    def node(id: str) -> LineageNode:
        return LineageNode(id=id, name=f"shop.{id}", exists=True, distance=0)

    ids = dict.fromkeys(id for found in edges for id in (found.source_id, found.target_id) if id != "report")
    return LineageGraph(
        root=node("report"), nodes=[node(id) for id in ids], edges=list(edges), truncated=False, position="1"
    )


def text(found: LineageGraph, column: str) -> str:
    return rendered(Group(*ColumnTree(found, column).parts()))


def test_a_column_is_followed_to_where_it_comes_from() -> None:
    found = graph(
        edge("sales", "report", mapping("revenue", "amount", kind="AGGREGATE"), mapping(None, "day", kind="GROUP_BY")),
        edge("raw", "sales", mapping("amount", "cents", kind="EXPRESSION", sure="medium"), mapping("other", "x")),
    )
    assert text(found, "revenue").splitlines() == [
        "shop.report.revenue",
        "└── shop.sales.amount  aggregated",
        "    └── shop.raw.cents  computed, medium confidence: a function of somebody's own",
        "Its rows are grouped by shop.sales.day.",
    ]


def test_what_somebody_says_is_told_as_that() -> None:
    for manual, method, told in (
        (False, "annotation", "as its author says"),
        (True, "annotation", "stated by hand"),
        (False, "static_analysis", "in a way that was not told"),
    ):
        found = graph(edge("raw", "report", mapping("x", "amount", kind="UNKNOWN"), manual=manual, method=method))
        assert text(found, "x").splitlines()[1] == f"└── shop.raw.amount  {told}"


def test_what_is_reached_twice_is_followed_once_and_a_cycle_ends() -> None:
    found = graph(
        edge("a", "report", mapping("x", "p", "q")),
        edge("b", "a", mapping("p", "s"), mapping("q", "s")),
        edge("report", "b", mapping("s", "x")),
    )
    lines = text(found, "x").splitlines()
    assert sum("shop.b.s" in line for line in lines) == 2
    assert sum("(see above)" in line for line in lines) == 2


def test_of_a_column_that_is_not_known_it_says_which_are() -> None:
    with pytest.raises(NotFound, match=r"what shop\.report\.nope is made of, only of a, b;"):
        ColumnTree(graph(edge("s", "report", mapping("b", "x"))), "nope").check(["a"])
    with pytest.raises(NotFound, match="is made of, nor of any other column of it, as before"):
        ColumnTree(graph(edge("s", "report")), "nope").check([])


def test_a_count_is_made_of_no_column_and_its_rows_of_some() -> None:
    found = graph(
        edge("sales", "report", mapping("day", "day"), mapping(None, "day", kind="GROUP_BY")),
        edge("raw", "sales", mapping("day", "at")),
    )
    tree = ColumnTree(found, "n")
    tree.check(["day", "n"])
    assert text(found, "n").splitlines() == [
        "shop.report.n  made of no column",
        "Its rows are grouped by shop.sales.day.",
    ]
    assert tree.document() == {"name": "n", "made_of": [], "rows": ["grouped by shop.sales.day"]}
    assert ColumnTree(found, "day").document()["made_of"] == ["shop.sales.day"]


def test_coverage_adds_up() -> None:
    shown = rendered(
        Group(*coverage_parts([Covered("a", 3, 2, 1, 0, "a UDF"), Covered("b", 1, 0, 0, 1, "no lineage was told")]))
    )
    assert "4 columns of 2 assets: 2 exact (50%), 1 approximate (25%), 1 unknown (25%)." in shown
    assert "a UDF" in shown
    alone = rendered(Group(*coverage_parts([Covered("a", 3, 3, 0, 0, None)])))
    assert "why" not in alone
    assert "3 columns of 1 asset: 3 exact (100%)" in alone


SOURCE = '''"""A shop whose assets are made by Python."""

from arco import asset, daily

__namespace__ = "shop"

DAYS = daily("2026-01-01", end="2026-01-04")


@asset(partitions=DAYS)
def orders(context):
    day = context.partition["date"].day
    return [{"id": number, "amount": 1.5} for number in range(day)]


@asset
def total(orders):
    return [{"rows": sum(len(rows) for rows in orders.values())}]


@asset
def number(total):
    return {"a": 1}


@asset
def never():
    return [{"a": 1}]
'''


def test_assets_without_tables_are_queried_and_walked(cli: Cli, home: Path) -> None:
    (home / "shop.py").write_text(SOURCE)
    assert cli("init").code == 0
    empty = cli("lineage", "coverage")
    assert (empty.code, "No lineage is recorded yet" in empty.out) == (0, True)
    assert cli("deploy").code == 0
    ran = cli("run", "+shop.number", "-p", "date=*")
    assert ran.code == 0, ran.out + ran.err

    found = cli(
        "query", "select date::varchar, count(*)::int, sum(amount) from shop.orders group by 1 order by 1", "--json"
    )
    assert found.document["rows"] == [["2026-01-01", 1, 1.5], ["2026-01-02", 2, 3.0], ["2026-01-03", 3, 4.5]]
    assert cli("query", "select * from shop.total", "--json").document["rows"] == [[6]]
    columns = cli("assets", "show", "shop.orders", "--json").document["columns"]
    assert [(column["name"], column["type"]) for column in columns] == [("id", "long"), ("amount", "double")]
    known = "select unnest(columns).column_id from system.asset_schemas where asset_key = 'shop.orders'"
    assert [[column["id"]] for column in columns] == cli("query", known, "--json").document["rows"]
    assert "amount   double" in cli("assets", "show", "shop.orders").out
    for name, code, said in (
        ("number", 3, "is a value and no table"),
        ("never", 3, "`arco run shop.never` makes it"),
        ("nope", 3, "there is no table or asset shop.nope"),
    ):
        refused = cli("query", f"select * from shop.{name}")
        assert (refused.code, said in refused.err) == (code, True), refused.err

    walked = cli("lineage", "show", "shop.total")
    assert walked.code == 0
    assert "shop.orders" in walked.out
    assert "shop.number" in walked.out
    assert cli("lineage", "show", "shop.nope").code == 3
    (total,) = (one for one in cli("lineage", "coverage", "--json").document["assets"] if one["asset"] == "shop.total")
    assert (total["columns"], total["unknown"], total["reason"]) == (1, 1, "no lineage was told")


CHANGING = """from arco import asset

__namespace__ = "n"


@asset
def old():
    return [{"a": 1}]


@asset
def new():
    return [{"a": 2}]


"""


def test_what_former_code_was_made_of_is_left_out_once_the_new_one_ran(cli: Cli, home: Path) -> None:
    def deploy(report: str) -> None:
        (home / "changing.py").write_text(CHANGING + report)
        assert cli("deploy").code == 0

    def run(selection: str) -> None:
        ran = cli("run", selection)
        assert ran.code == 0, ran.out + ran.err

    def shown(*options: str) -> str:
        found = cli("lineage", "show", "n.rep", "--direction", "upstream", *options)
        assert found.code == 0, found.err
        return found.out

    def covered() -> list[tuple[str, int, int]]:
        found = cli("lineage", "coverage", "--json").document["assets"]
        return [(one["asset"], one["exact"], one["unknown"]) for one in found]

    assert cli("init").code == 0
    deploy('@asset\ndef rep(old):\n    return [{"x": 1}]\n')
    run("*")
    assert "n.old" in shown()
    assert covered() == [("n.rep", 0, 1)]
    before = cli("query", "select 1", "--json").document["positions"]

    deploy('@asset(column_lineage={"x": ["new.a"]})\ndef rep(new):\n    return [{"x": 2}]\n')
    assert "n.old  (1 run)" in shown()  # the data is still made of it
    run("n.rep")
    assert "n.new  (1 run)" in shown()
    assert "n.old" not in shown()
    assert "1 dependency of former code is left out; --former shows what was." in shown()
    assert "n.old  (1 run, former)" in shown("--former")
    assert shown("--column", "x").splitlines()[:2] == ["n.rep.x", "└── n.new.a  as its author says"]
    assert "n.old" in shown("--as-of", f"activity:{before['activity']}"), before
    assert covered() == [("n.rep", 1, 0)]

    deploy('@asset(column_lineage={"n": []})\ndef rep(new):\n    return [{"n": 1, "x": 2}]\n')
    run("n.rep")
    assert shown("--column", "n").splitlines()[0] == "n.rep.n  made of no column"
    assert cli("lineage", "show", "n.rep", "--column", "n", "--json").document["column"]["made_of"] == []
    for column in ("x", "nope"):
        unknown = cli("lineage", "show", "n.rep", "--column", column)
        assert (unknown.code, f"what n.rep.{column} is made of, only of n;" in unknown.err) == (3, True)
    assert covered() == [("n.rep", 1, 1)]

    deploy('@asset\ndef rep(new):\n    return [{"x": 3}]\n')
    run("n.rep")
    assert cli("lineage", "show", "n.rep", "--column", "x").code == 3  # nobody says so any more
    assert covered() == [("n.rep", 0, 1)]

    deploy('@asset\ndef rep():\n    return [{"x": 4}]\n')
    run("n.rep")
    assert "made of nothing that is known" in shown()
    assert "2 dependencies of former code are left out" in shown()
    assert covered() == []

"""The graph: its order respects every dependency and nothing else decides about it; cycles are shown."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.assets import AssetDefinition, Graph, Project
from arco.core import Invalid
from tests.assets.making import a_project, an_asset


@st.composite
def projects(draw: st.DrawFn, cyclic: bool = False) -> Project:
    """Assets a.n0, a.n1, ... each made of some of the others, by default of earlier ones only."""
    count = draw(st.integers(1, 12))
    assets = []
    for number in range(count):
        pool = range(count) if cyclic else range(number)
        chosen = draw(st.sets(st.sampled_from(list(pool)), max_size=4)) if pool else set()
        assets.append(an_asset(f"a.n{number:02}", *(f"a.n{one:02}" for one in sorted(chosen))))
    return a_project(*assets)


@given(projects(), st.randoms())
@settings(deadline=None)
def test_stages_come_after_what_they_need_and_no_later(project: Project, random: Random) -> None:
    stages = Graph(project).order()
    stage_of = {unit: number for number, stage in enumerate(stages) for unit in stage}
    assert sorted(stage_of) == [asset.key for asset in project.assets]
    for asset in project.assets:
        above = [stage_of[dependency.key] for dependency in asset.dependencies]
        assert stage_of[asset.key] == max(above, default=-1) + 1
    assert all(list(stage) == sorted(stage) for stage in stages)
    shuffled = list(project.assets)
    random.shuffle(shuffled)
    assert Graph(Project(assets=tuple(shuffled))).order() == stages


@given(projects(cyclic=True))
@settings(deadline=None)
def test_a_cycle_is_found_exactly_when_there_is_one(project: Project) -> None:
    graph = Graph(project)
    needs = {asset.key: {one.key for one in asset.dependencies} for asset in project.assets}
    reaches = {key: {*above} for key, above in needs.items()}
    for _ in needs:
        reaches = {key: above | {far for one in above for far in reaches[one]} for key, above in reaches.items()}
    knotted = {key for key, above in reaches.items() if key in above}
    cycles = graph.cycles()
    assert bool(cycles) == bool(knotted)
    for cycle in cycles:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        for one, other in pairwise(cycle):
            assert other in needs[one]
    # Each knot is told once, and none is forgotten.
    knots = {
        frozenset(other for other in knotted if other in reaches[key] and key in reaches[other]) for key in knotted
    }
    assert sorted(min(knot) for knot in knots) == sorted(cycle[0] for cycle in cycles)
    if cycles:
        with pytest.raises(Invalid, match="cycle"):
            graph.order()


@given(projects(), st.integers(0, 4))
@settings(deadline=None, max_examples=50)
def test_ancestors_and_descendants_are_each_others_reverse(project: Project, depth: int) -> None:
    graph = Graph(project)
    for one in graph.assets:
        for other in graph.ancestors([one], depth):
            assert one in graph.descendants([other], depth)
        assert graph.ancestors([one], 0) == {one}
        assert graph.ancestors([one], 1) == {one, *graph.upstream(one)}
        assert graph.ancestors([one]) == graph.ancestors([one], len(graph.assets))


def test_a_cycle_shows_its_path_and_places() -> None:
    project = a_project(
        an_asset("s.a", "s.b", file="one.py", line=3),
        an_asset("s.b", "s.c", file="two.py", line=4),
        an_asset("s.c", "s.a"),
    )
    with pytest.raises(Invalid) as refused:
        Graph(project).order()
    assert "s.a -> s.b -> s.c -> s.a" in refused.value.message
    assert "s.a at one.py:3, s.b at two.py:4" in refused.value.message
    assert refused.value.details["cycle"] == ["s.a", "s.b", "s.c", "s.a"]


def test_assets_of_one_function_are_one_unit() -> None:
    both: list[AssetDefinition] = [an_asset(f"s.{name}", "s.raw", unit="s.made") for name in ("x", "y")]
    graph = Graph(a_project(*both, an_asset("s.raw"), an_asset("s.end", "s.x", "s.y", "other.unknown")))
    assert graph.order() == (("s.raw",), ("s.made",), ("s.end",))
    assert [asset.key for asset in graph.units["s.made"]] == ["s.x", "s.y"]
    assert graph.upstream("s.end") == ("s.x", "s.y")
    assert graph.upstream_units("s.end") == ("s.made",)
    assert graph.downstream_units("s.raw") == ("s.made",)
    assert graph.downstream("s.raw") == ("s.x", "s.y")


def test_a_long_chain_has_an_order() -> None:
    chain = [an_asset(f"s.n{number:04}", *([f"s.n{number - 1:04}"] if number else [])) for number in range(3000)]
    graph = Graph(a_project(*chain))
    assert len(graph.order()) == 3000
    assert len(graph.ancestors(["s.n2999"])) == 3000
    assert Graph(a_project(*chain[1:], an_asset("s.n0000", "s.n2999"))).cycles()[0][0] == "s.n0000"

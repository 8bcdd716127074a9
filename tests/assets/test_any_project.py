"""Any project: validation never fails itself, and what it lets through the rest of the package can work with."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arco.assets import (
    All,
    AssetDefinition,
    AssetKind,
    Custom,
    Dependency,
    Dimension,
    DynamicPartitions,
    Graph,
    Identity,
    Latest,
    Mapping,
    Offset,
    PartitionSpace,
    Project,
    Retries,
    StaticPartitions,
    TimePartitions,
    Window,
    resolve,
    select,
    upstream_keys,
    validate,
)
from arco.core import Invalid, parse_time

AT = parse_time("2025-02-10T05:00:00Z")
KEYS = ["s.a", "s.b", "s.c", "t.a", "t.d", "a", "c", "nothing", "s.old"]
DYNAMIC = {"people": ["p", "q"]}

times = st.builds(
    TimePartitions,
    cron=st.sampled_from(["0 0 * * *", "0 0 * * 1", "0 0 1 * *", "0 * * * *", "30 2 * * *", "0 0 30 2 *", "bad"]),
    start=st.sampled_from(["2025-01-01", "2025-01-20T12:00", "2025-03-01", "bad"]),
    end=st.sampled_from([None, None, "2025-02-01", "2024-01-01"]),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Nowhere"]),
    exclusions=st.sampled_from([(), ("2025-01-25",), ("0 0 * * 0",), ("bad",)]),
    values=st.sampled_from(["date", "time"]),
)
statics = st.builds(
    StaticPartitions, st.lists(st.sampled_from(["eu", "us", "ap", "2025-01-05", "", "a,b"]), max_size=3).map(tuple)
)
dynamics = st.builds(DynamicPartitions, st.sampled_from(["people", "nobody", "Bad"]))
good = st.sampled_from(
    [
        TimePartitions("0 0 * * *", "2025-01-01"),
        TimePartitions("0 0 * * 1", "2025-01-01"),
        TimePartitions("0 * * * *", "2025-02-08", values="time"),
        TimePartitions("0 0 * * *", "2025-01-20", "2025-02-05", "Europe/Berlin", ("2025-01-25",)),
        StaticPartitions(("eu", "us")),
        StaticPartitions(("us",)),
        DynamicPartitions("people"),
    ]
)
dimensions = st.lists(
    st.builds(Dimension, st.sampled_from(["date", "region"]), good | times | statics | dynamics),
    max_size=2,
    unique_by=lambda one: one.name,
).map(lambda several: tuple(sorted(several, key=lambda one: one.name)))
small = st.integers(-3, 3)
mappings: st.SearchStrategy[Mapping] = st.one_of(
    st.just(Identity()),
    st.just(All()),
    st.just(Latest()),
    st.builds(Window, small, small),
    st.builds(Offset, small),
    st.builds(
        Custom,
        st.dictionaries(st.sampled_from(["eu", "us", "2025-01-06"]), st.sampled_from([(), ("eu",), ("us", "xx")])),
    ),
)
dependencies = st.builds(
    Dependency,
    key=st.sampled_from(KEYS),
    parameter=st.sampled_from(["", "", "one", "two"]),
    mappings=st.dictionaries(st.sampled_from(["date", "region", "", "zone"]), mappings, max_size=1),
)


@st.composite
def assets(draw: st.DrawFn) -> AssetDefinition:
    kind = draw(st.sampled_from([AssetKind.ASSET] * 4 + list(AssetKind)))
    fields: dict[str, Any] = {
        "key": draw(st.sampled_from(["s.a", "s.b", "s.c", "t.a", "t.d", "bad"])),
        "kind": kind,
        "function": draw(st.sampled_from(["m:f", "m:f", ""])),
        "unit": draw(st.sampled_from(["", "", "", "s.u"])),
        "dependencies": tuple(draw(st.lists(dependencies, max_size=2))),
        "partitions": draw(dimensions),
        "retries": draw(st.builds(Retries, st.sampled_from([0, 3, -1]))),
        "renamed_from": draw(st.sampled_from([(), (), ("s.old",), ("s.a",)])),
    }
    return AssetDefinition(**fields)


projects = st.lists(assets(), max_size=5).map(lambda several: Project(assets=tuple(several)))


@st.composite
def plausible(draw: st.DrawFn) -> Project:
    """Assets with partitions that exist, each made of earlier ones by mappings that may fit."""
    made: list[AssetDefinition] = []
    plain = st.lists(
        st.builds(Dimension, st.sampled_from(["date", "region"]), good), max_size=2, unique_by=lambda one: one.name
    )
    for number in range(draw(st.integers(2, 4))):
        partitions = tuple(sorted(draw(plain), key=lambda one: one.name))
        needs = []
        for other in draw(st.lists(st.sampled_from(made), max_size=2, unique_by=lambda one: one.key)) if made else ():
            names = [dimension.name for dimension in other.partitions]
            chosen = draw(st.dictionaries(st.sampled_from(names), mappings)) if names else {}
            needs.append(Dependency(other.key, mappings=chosen))
        made.append(AssetDefinition(f"s.n{number}", function="m:f", partitions=partitions, dependencies=tuple(needs)))
    return Project(assets=tuple(made))


def repaired(project: Project) -> Project:
    """Without the assets that have problems, again and again, until there are none."""
    while problems := validate(project):
        named = {problem.asset for problem in problems}
        project = Project(assets=tuple(asset for asset in project.assets if asset.key not in named))
    return project


@given(projects | plausible() | plausible())
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_what_validation_lets_through_can_be_worked_with(project: Project) -> None:
    whole = resolve(repaired(project))
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Project) == whole
    graph = Graph(whole)
    assert sum(len(stage) for stage in graph.order()) == len(graph.units)
    assert len(graph.assets) == len(whole.assets)
    if whole.assets:
        assert select("*", whole) == tuple(graph.assets)
    spaces = {key: PartitionSpace(asset.partitions, AT, DYNAMIC) for key, asset in graph.assets.items()}
    for asset in whole.assets:
        own = spaces[asset.key]
        assert len(own.keys()) == own.count()
        for dependency in asset.dependencies:
            check_upstream(dependency, own, spaces[dependency.key])


def check_upstream(dependency: Dependency, own: PartitionSpace, upstream: PartitionSpace) -> None:
    order = {key: place for place, key in enumerate(upstream.keys())}
    for key in own.keys()[:5] + own.keys()[-5:]:
        try:
            found = upstream_keys(dependency, own, upstream, key)
        except Invalid as error:
            assert "selects nothing" in error.message or "outside the range" in error.message  # noqa: PT017
        else:
            places = [order[one] for one in found]
            assert places == sorted(set(places))
            assert places or any(isinstance(mapping, Window) for mapping in dependency.mappings.values())


@given(projects)
@settings(deadline=None, max_examples=100)
def test_the_order_of_definitions_does_not_matter(project: Project) -> None:
    backwards = Project(assets=tuple(reversed(project.assets)))
    keys = [asset.key for asset in project.assets]
    if len(set(keys)) == len(keys):
        assert {str(one) for one in validate(project)} == {str(one) for one in validate(backwards)}
        assert resolve(project) == resolve(backwards)

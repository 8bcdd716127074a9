"""Validation: each rule finds its violation with place and cure, all of them are told, and good projects have none."""

from typing import Any

import msgspec
import pytest

from arco.assets import (
    All,
    AssetDefinition,
    AssetKind,
    CheckDefinition,
    Custom,
    Dependency,
    Dimension,
    DynamicPartitions,
    Engine,
    GatingAction,
    GatingPolicy,
    Identity,
    Latest,
    Offset,
    Project,
    Retries,
    SchemaColumn,
    SecretRef,
    Source,
    SourceFormat,
    TimePartitions,
    Window,
    file_pattern,
    resolve,
    validate,
)
from arco.core import Invalid, PartitionKey
from tests.assets.making import a_project, an_asset, days, keys


def messages(*assets: AssetDefinition) -> list[str]:
    return [str(problem) for problem in validate(Project(assets=assets))]


GOOD = (
    an_asset("raw.events", kind=AssetKind.EXTERNAL, partitions=(days(), keys("eu", "us"))),
    an_asset("sales.daily", "raw.events", partitions=(days(),), retries=Retries(3), timeout_seconds=60.0),
    an_asset("sales.next", Dependency("sales.daily", "daily", {"date": Offset(-1)}), partitions=(days(),)),
    an_asset("sales.all", Dependency("sales.daily", "daily", {"date": All()}), renamed_from=("sales.every",)),
    an_asset(
        "sales.region",
        Dependency("raw.events", mappings={"date": Latest(), "region": Identity()}),
        partitions=(keys("eu"),),
        secrets=(SecretRef("api", "env", "API_KEY"),),
        gating=GatingPolicy("own", {"error": GatingAction.FAIL_TASK}),
        checks=(CheckDefinition("good", "pipelines:good"),),
        schema=(SchemaColumn("id", "long"),),
    ),
    an_asset("sales.x", unit="sales.both"),
    an_asset("sales.y", unit="sales.both"),
)


def test_a_good_project_has_no_problems() -> None:
    assert messages(*GOOD) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"function": ""}, "has no function; decorate"),
        ({"kind": AssetKind.SQL, "function": "", "sql": " "}, "its SQL text is empty"),
        ({"kind": AssetKind.EXTERNAL, "function": "m:f"}, "it is external and yet has a function"),
        ({"kind": AssetKind.OBSERVABLE, "checks": (CheckDefinition("c", "m:c"),)}, "has checks"),
        ({"retries": Retries(-1)}, "retries are -1; use 0 to 100"),
        ({"retries": Retries(101)}, "retries are 101"),
        ({"retries": Retries(1, delay_seconds=-1.0)}, "the retry delay is -1.0"),
        ({"retries": Retries(1, delay_seconds=float("nan"))}, "the retry delay is nan"),
        ({"retries": Retries(1, delay_seconds=10.0, max_delay_seconds=5.0)}, "the longest retry delay is 5.0"),
        ({"retries": Retries(1, jitter=1.5)}, "the jitter of retries is 1.5"),
        ({"timeout_seconds": 0.0}, "the time-out is 0.0 seconds"),
        ({"timeout_seconds": float("inf")}, "the time-out is inf"),
        ({"heartbeat_seconds": 0.5}, "the heartbeat time is 0.5"),
        ({"heartbeat_seconds": float("nan")}, "the heartbeat time is nan"),
        ({"checks": (CheckDefinition("c", "m:c"), CheckDefinition("c", "m:d"))}, "two of its checks are called 'c'"),
        ({"secrets": (SecretRef("s", "vault", "x"),)}, "use the provider 'env'"),
        ({"secrets": (SecretRef("s", "env", "not a name"),)}, "which is no variable"),
        ({"schema": (SchemaColumn("a", "long"), SchemaColumn("a", "int"))}, "two of its columns"),
        ({"gating": GatingPolicy("g", {"bad": GatingAction.WARN})}, "the severity 'bad'"),
        ({"gating": GatingPolicy("g", {})}, "it has a gating policy and no checks that it could judge; give it checks"),
        ({"owners": ("",)}, "an owner is empty"),
        ({"partitions": (keys(name="Region"),)}, "partition dimension Region"),
        ({"partitions": (keys(),)}, "it has no keys"),
        ({"partitions": (keys("a", "b", "a"),)}, "the key 'a' is there twice"),
        ({"partitions": (keys("a,b"),)}, "cannot be a partition key"),
        ({"partitions": (keys("a"), keys("b"))}, "have one name"),
        ({"partitions": (keys("a", name="z"), keys("b", name="a"))}, "not sorted"),
        ({"partitions": (Dimension("d", DynamicPartitions("Bad Name")),)}, "not a name"),
        ({"partitions": (Dimension("d", TimePartitions("x", "2025-01-01")),)}, "not a cron expression"),
        ({"partitions": (days("2025-13-01"),)}, "no date or time"),
        (
            {"partitions": tuple(keys(*(str(n) for n in range(1100)), name=name) for name in ("a", "b"))},
            "its static partitions alone make 1,210,000",
        ),
    ],
)
def test_what_is_wrong_with_one_asset(fields: dict[str, Any], words: str) -> None:
    found = messages(an_asset("s.a", **fields))
    assert any(words in message for message in found), found
    assert all(message.startswith("pipelines.py:7: s.a: ") for message in found)


@pytest.mark.parametrize("key", ["orders", "Sales.orders", "sales.", "sales.a.b", "sales.1", "a b.c"])
def test_a_key_that_is_none(key: str) -> None:
    assert messages(an_asset(key))


def test_two_assets_with_one_key_are_both_named() -> None:
    found = messages(an_asset("s.a", file="one.py", line=1), an_asset("s.a", file="two.py", line=2))
    assert found == ["two.py:2: s.a: two assets have this key: one at one.py:1, one at two.py:2; rename one of them"]


@pytest.mark.parametrize(
    ("dependency", "words"),
    [
        (Dependency("s.upp"), "there is no asset 's.upp'; did you mean s.up?"),
        (Dependency("orders", "orders"), "parameter orders: 'orders' is ambiguous: a.orders, b.orders; write the key"),
        (Dependency("s.up", mappings={"region": All()}), "names the dimension 'region'; its dimensions are date"),
        (Dependency("a.orders", mappings={"date": All()}), "it has no partitions"),
        (Dependency("a.orders", mappings={"": All()}), "it has no partitions"),
        (Dependency("s.two", mappings={"": All()}), "is for one dimension; it has date, region"),
        (Dependency("s.up", mappings={"date": Identity()}), "looks for the asset's own date, which it does not have"),
        (Dependency("s.up", mappings={"date": Offset(-1)}), "looks for the asset's own date"),
        (Dependency("s.region", mappings={"region": Window(1, -1)}), "the first number must be the smaller one"),
        (Dependency("s.region"), "selects nothing for eu: it has no such keys"),
        (Dependency("s.zone"), "compares time windows with keys"),
        (Dependency("s.region", mappings={"region": Custom({"eu": ("xx",)})}), "selects xx, which it does not have"),
        (Dependency("s.region", mappings={"region": Custom({"eu": ()})}), "selects nothing for eu"),
        (
            Dependency("s.up", mappings={"date": Custom({"eu": ("2025-01-01", "xx"), "us": ()})}),
            "selects xx, which is no time",
        ),
        (Dependency("s.region", mappings={"region": Custom({"eu": ("us",), "as": ("us",)})}), "is for as"),
    ],
)
def test_dependencies_and_mappings_that_cannot_be(dependency: Dependency, words: str) -> None:
    found = messages(
        an_asset("a.orders"),
        an_asset("b.orders"),
        an_asset("s.up", partitions=(days(),)),
        an_asset("s.two", partitions=(days(), keys("eu"))),
        an_asset("s.region", partitions=(keys("us"),)),
        an_asset("s.zone", partitions=(days(name="region"),)),
        an_asset("s.mine", dependency, partitions=(keys("eu"),)),
    )
    assert any(words in message for message in found), found
    assert all(": s.mine: " in message for message in found)


def test_ranges_of_time_that_never_meet() -> None:
    found = messages(
        an_asset("s.old", partitions=(days("2020-01-01", end="2021-01-01"),)),
        an_asset("s.new", "s.old", partitions=(days("2025-01-01"),)),
    )
    assert any("the two ranges of time do not meet" in message for message in found)


def test_a_custom_mapping_must_know_its_dimension() -> None:
    mapped = Dependency("s.up", mappings={"country": Custom({"eu": ("de",)})})
    up = an_asset("s.up", partitions=(keys("de", name="country"),))
    assert messages(up, an_asset("s.one", mapped, partitions=(keys("eu"),))) == []
    found = messages(up, an_asset("s.two", mapped, partitions=(days(), keys("eu"))))
    assert any("it is not clear which dimension" in message for message in found)


def test_a_dependency_given_twice() -> None:
    twice = messages(an_asset("s.up"), an_asset("s.a", "s.up", "s.up"))
    assert any("given twice" in message for message in twice)
    assert messages(an_asset("s.up"), an_asset("s.a", Dependency("s.up", "one"), Dependency("s.up", "two"))) == []


def test_cycles_are_shown_with_their_path() -> None:
    found = messages(an_asset("s.a", "s.b"), an_asset("s.b", "s.a"), an_asset("s.c", "s.c"))
    assert len(found) == 2
    assert "s.a -> s.b -> s.a (s.a at pipelines.py:7, s.b at pipelines.py:7); remove one of them" in found[0]
    assert "s.c -> s.c" in found[1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"partitions": (days(),)}, "has other partitions"),
        ({"function": "m:other"}, "has other function"),
        ({"retries": Retries(1)}, "has other retries"),
        ({"timeout_seconds": 9.0}, "has other time-outs"),
    ],
)
def test_assets_of_one_function_share_how_they_run(fields: dict[str, Any], words: str) -> None:
    found = messages(an_asset("s.x", unit="s.both"), an_asset("s.y", unit="s.both", **fields))
    assert len(found) == 1
    assert f"s.y: it is made together with s.x and {words}" in found[0]


def test_former_keys_that_are_taken() -> None:
    found = messages(
        an_asset("s.a", renamed_from=("s.b",)),
        an_asset("s.b"),
        an_asset("s.c", renamed_from=("s.z",)),
        an_asset("s.d", renamed_from=("s.z",)),
        an_asset("s.e", renamed_from=("s.e",)),
        an_asset("s.f", renamed_from=("nothing",)),
    )
    assert [message.split(": ", 2)[1] for message in found] == ["s.a", "s.d", "s.e", "s.f"]
    assert "claimed by s.b" in found[0]
    assert "claimed by s.c" in found[1]
    assert "claimed by itself" in found[2]


def test_everything_wrong_is_told_at_once() -> None:
    found = validate(
        Project(
            assets=(
                an_asset("s.a", "s.b", "s.unknown", retries=Retries(-1)),
                an_asset("s.b", "s.a", partitions=(keys(),)),
                an_asset("s.b"),
            )
        )
    )
    assert len(found) >= 5
    assert list(found) == sorted(
        found, key=lambda problem: (problem.file, problem.line, problem.asset, problem.message)
    )


def test_names_are_resolved_to_keys() -> None:
    project = resolve(
        a_project(
            an_asset("b.orders", partitions=(days(),), renamed_from=("b.purchases",)),
            an_asset("a.orders"),
            an_asset("c.only"),
            an_asset(
                "b.report",
                Dependency("orders", "orders", {"": Offset(-1)}),
                Dependency("b.purchases"),
                Dependency("only"),
                Dependency("missing"),
                partitions=(days(),),
            ),
        )
    )
    report = next(asset for asset in project.assets if asset.key == "b.report")
    assert [one.key for one in report.dependencies] == ["b.orders", "b.orders", "c.only", "missing"]
    assert report.dependencies[0].mappings == {"date": Offset(-1)}


ORDERS = Source("landing/orders/{date}/*.csv", SourceFormat.CSV)


def an_external(source: Source, **fields: Any) -> AssetDefinition:
    return an_asset("raw.orders", kind=AssetKind.EXTERNAL, **{"source": source, "partitions": (days(),), **fields})


@pytest.mark.parametrize("path", ["landing/orders/{date:%Y/%m/%d}/*.csv", "landing/{date}.csv", "landing/a?b/{date}*"])
def test_files_of_others_lie_below_landing(path: str) -> None:
    assert messages(an_external(Source(path, SourceFormat.JSON))) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/etc/{date}", "is not below landing/"),
        ("data/{date}/x.csv", "is not below landing/"),
        ("s3://bucket/{date}", "is not below landing/"),
        ("landing/../data/{date}", "has the segment '..'"),
        ("landing/{date}/..", "has the segment '..'"),
        ("landing/./{date}", "has the segment '.'"),
        ("landing//{date}", "has the segment ''"),
        ("landing/**/{date}", "has the segment '**'"),
        ("landing/{date:../../x}/y", "has the segment '..'"),
        ("landing/a b/{date}", "has the segment 'a b'"),
        ("landing/x.csv", "does not name the dimension date"),
        ("landing/{day}/x.csv", "names the dimension 'day'"),
        ("landing/{date/x.csv", "cannot be read"),
        ("landing/{date!r}/x.csv", "cannot be read"),
        ("landing/{date.year}/x.csv", "cannot be read"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str, words: str) -> None:
    assert any(words in text for text in messages(an_external(Source(path, SourceFormat.CSV))))


def test_what_is_said_of_files_must_be_acted_on() -> None:
    options = messages(an_external(msgspec.structs.replace(ORDERS, options={"path": "/etc", "sep": ";"})))
    assert any("no option 'path' of csv" in text for text in options)
    required = messages(an_external(ORDERS, schema=(SchemaColumn("id", "long", nullable=False),)))
    assert any("which nobody holds the files to" in text for text in required)
    on_python = messages(an_external(ORDERS), an_asset("n.a", Dependency("raw.orders", "orders"), partitions=(days(),)))
    assert any("reads the files of raw.orders and does not run on Spark" in text for text in on_python)
    assert any("names files of others" in text for text in messages(an_asset("n.a", source=ORDERS)))


@pytest.mark.parametrize("value", ["..", "a/b", "a b", "*", "", "a\\b", "%2e"])
def test_a_value_that_is_no_part_of_a_path_is_refused(value: str) -> None:
    source = Source("landing/{region}/x.csv", SourceFormat.CSV)
    with pytest.raises(Invalid):
        file_pattern(source, PartitionKey({"region": value}))


def test_a_pattern_has_the_files_of_its_partition_only() -> None:
    pattern = file_pattern(Source("landing/o/{region}/*.csv", SourceFormat.CSV), PartitionKey({"region": "e.u"}))
    assert (pattern.folder, pattern.text) == ("landing/o/e.u", "landing/o/e.u/*.csv")
    names = ["a.csv", "b.json", "_a.csv", ".a.csv", "x/a.csv", "a.csv.gz"]
    assert [name for name in names if pattern.has(f"landing/o/e.u/{name}")] == ["a.csv"]
    assert not pattern.has("landing/o/exu/a.csv")


def test_incremental_dependencies_hand_over_frames_of_versions() -> None:
    daily = an_asset("n.daily", partitions=(days(),))
    reading = Dependency("n.daily", "daily", {"date": All()}, incremental=True)
    assert messages(daily, an_asset("n.a", reading, engine=Engine.SPARK)) == []
    for asset, words in (
        (an_asset("n.a", reading), "does not run on Spark"),
        (an_asset("n.a", msgspec.structs.replace(reading, parameter=""), engine=Engine.SPARK), "gets no data"),
        (an_asset("n.a", reading, kind=AssetKind.SQL, sql="select 1", engine=Engine.SPARK), "is a query"),
    ):
        assert any(words in text for text in messages(daily, asset))
    others = an_asset("n.daily", kind=AssetKind.EXTERNAL, partitions=(days(),))
    assert any("has no versions" in text for text in messages(others, an_asset("n.a", reading, engine=Engine.SPARK)))


def test_column_lineage_names_columns_that_are_declared() -> None:
    raw = an_asset("n.raw", schema=(SchemaColumn("amount", "double"),), partitions=(days(),))
    free = an_asset("n.free")

    def told(said: dict[str, tuple[str, ...]]) -> list[str]:
        reading = (Dependency("n.raw", "raw", {"date": All()}), Dependency("n.free", "free"))
        made = an_asset("n.a", *reading, column_lineage=said, schema=(SchemaColumn("total", "double"),))
        return messages(raw, free, made)

    assert told({"total": ("raw.amount", "raw.date", "free.anything")}) == []
    assert told({"total": ()}) == []
    (text,) = told({"totl": ("raw.amount",)})
    assert text == "pipelines.py:7: n.a: column_lineage: it has no column 'totl'; did you mean total?"
    (text,) = told({"total": ("raw.amont",)})
    assert "raw (n.raw) has no column 'amont'; did you mean amount?" in text
    for source in ("amount", "rw.amount", "raw."):
        (text,) = told({"total": (source,)})
        assert "which is no column of a parameter; write it as parameter.column; it has parameters: raw, free" in text

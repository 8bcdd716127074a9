"""Decorators: what becomes of each argument, that functions stay callable, and that every mistake names its place."""

import inspect
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

import arco
from arco import (
    Asset,
    GatingPolicy,
    Retries,
    all_partitions,
    asset,
    check,
    custom,
    daily,
    dep,
    dynamic,
    external_asset,
    hourly,
    incremental,
    latest,
    multi_asset,
    observable,
    offset,
    output,
    secret,
    sql_asset,
    static,
    window,
)
from arco.assets import (
    ONLY_DIMENSION,
    All,
    AssetKind,
    Backoff,
    CorruptRecords,
    Custom,
    Dependency,
    Dimension,
    Latest,
    Offset,
    SchemaColumn,
    SecretRef,
    Source,
    SourceFormat,
    StaticPartitions,
    TimePartitions,
    Window,
)
from arco.core import Invalid, NotFound
from arco.sdk import Context, find_asset, find_check

__namespace__ = "tested"
HERE = __file__


@asset
def plain(context: Context, orders: list[int], customers: list[int]) -> list[int]:
    """Adds up."""
    return [context.attempt, *orders, *customers]


def test_a_decorated_function_is_still_the_function() -> None:
    assert plain(Context(attempt=2), [1], customers=[3]) == [2, 1, 3]
    assert plain.__name__ == "plain"  # type: ignore[attr-defined]
    assert plain.__doc__ == "Adds up."
    assert list(inspect.signature(plain).parameters) == ["context", "orders", "customers"]
    assert repr(plain) == "Asset(tested.plain)"


def test_parameters_are_dependencies_and_the_docstring_describes() -> None:
    definition = plain.definition
    assert definition.key == "tested.plain"
    assert definition.kind is AssetKind.ASSET
    assert definition.function == f"{__name__}:plain"
    assert definition.description == "Adds up."
    assert definition.dependencies == (Dependency("orders", "orders"), Dependency("customers", "customers"))
    assert definition.file == HERE
    assert inspect.getsourcelines(plain.function)[1] == definition.line  # type: ignore[arg-type]


def test_every_argument_reaches_the_definition() -> None:
    @check
    def good(data: object) -> bool:
        return bool(data)

    @asset(
        namespace="sales",
        name="report",
        deps=[plain, "other.thing", dep("sales.late", latest())],
        ins={"orders": dep("raw.orders", {"date": offset(-1), "region": all_partitions()})},
        partitions=[
            static("region", ["eu", "us"]),
            daily(date(2025, 1, 1), timezone="Europe/Berlin", exclude=["2025-12-25"]),
        ],
        description="A report.",
        owners=["sales@acme.com"],
        tags={"tier": "gold"},
        schema={"id": "long NOT NULL", "name": "string"},
        checks=[good],
        gating="quarantine",
        retries=Retries(
            3, backoff="linear", delay=timedelta(seconds=5), on=(ConnectionError, "SlowDown"), never=ValueError
        ),
        timeout=timedelta(minutes=5),
        heartbeat=30,
        secrets=[secret("token", "SALES_TOKEN"), secret("API")],
        renamed_from=["old", "older.name"],
    )
    def function(orders: object) -> None: ...

    definition = function.definition
    assert definition.key == "sales.report"
    assert definition.dependencies == (
        Dependency("raw.orders", "orders", {"date": Offset(-1), "region": All()}),
        Dependency("other.thing"),
        Dependency("sales.late", mappings={ONLY_DIMENSION: Latest()}),
        Dependency("tested.plain"),
    )
    assert [dimension.name for dimension in definition.partitions] == ["date", "region"]
    assert definition.partitions[0].partitions == TimePartitions(
        "0 0 * * *", "2025-01-01", timezone="Europe/Berlin", exclusions=("2025-12-25",)
    )
    assert (definition.description, definition.owners, definition.tags) == (
        "A report.",
        ("sales@acme.com",),
        {"tier": "gold"},
    )
    assert definition.schema == (SchemaColumn("id", "long", nullable=False), SchemaColumn("name", "string"))
    assert definition.gating is not None
    assert definition.gating.name == "quarantine"
    retries = definition.retries
    assert (retries.count, retries.backoff, retries.delay_seconds) == (3, Backoff.LINEAR, 5.0)
    assert (retries.on, retries.never) == (("SlowDown", "builtins.ConnectionError"), ("builtins.ValueError",))
    assert (definition.timeout_seconds, definition.heartbeat_seconds) == (300.0, 30.0)
    assert definition.secrets == (SecretRef("token", "env", "SALES_TOKEN"), SecretRef("API", "env", "API"))
    assert definition.renamed_from == ("sales.old", "older.name")
    assert function.checks["sales.report"] == (good,)


def test_several_assets_of_one_function() -> None:
    @multi_asset(
        outputs=["x", output("y", description="Why.", tags={"a": "b"})], partitions=daily("2025-01-01"), retries=2
    )
    def both(orders: object) -> tuple[int, int]:
        """Both."""
        return 1, 2

    x, y = both.definitions
    assert (x.key, y.key) == ("tested.x", "tested.y")
    assert x.unit == y.unit == "tested.both"
    assert (x.description, y.description) == ("Both.", "Why.")
    assert x.dependencies == y.dependencies == (Dependency("orders", "orders"),)
    assert x.retries.count == y.retries.count == 2
    assert both(None) == (1, 2)
    with pytest.raises(Invalid, match=r"several assets: tested\.x, tested\.y"):
        _ = both.key


def test_queries() -> None:
    @sql_asset(partitions=daily("2025-01-01"))
    def totals(orders: str) -> str:
        return f"select count(*) from {orders} where day = :date"

    assert totals.definition.kind is AssetKind.SQL
    assert totals.definition.sql == "select count(*) from orders where day = :date"
    assert totals.definition.dependencies == (Dependency("orders", "orders"),)
    text = sql_asset(name="simple", sql="select * from o", ins={"o": "sales.orders"}, deps=["sales.first"])
    assert text.definition.sql == "select * from o"
    assert text.definition.dependencies == (Dependency("sales.orders", "o"), Dependency("sales.first"))
    with pytest.raises(Invalid, match="no function to call"):
        text()


def test_what_others_make() -> None:
    outside = external_asset("outside", partitions=hourly("2025-01-01"), owners=["they"])
    assert outside.definition.kind is AssetKind.EXTERNAL
    assert outside.definition.function == ""
    assert outside.definition.line > 0
    assert outside.definition.file == HERE

    files = external_asset("files", path="landing/files/*.csv", format="csv", options={"sep": ";", "header": False})
    assert files.definition.source == Source(
        "landing/files/*.csv", SourceFormat.CSV, {"header": "false", "sep": ";"}, CorruptRecords.FAIL
    )

    @observable
    def watched(context: Context) -> str:
        return "v1"

    assert watched.definition.kind is AssetKind.OBSERVABLE
    assert watched(Context()) == "v1"


def test_custom_mappings_are_written_out() -> None:
    def countries(region: str) -> list[str]:
        return [f"{region}1", f"{region}2"]

    @asset(
        deps=[dep("a.b", custom(countries)), dep("a.c", {"country": custom({"eu": "de"})})],
        partitions=static("region", ["eu"]),
    )
    def mapped() -> None: ...

    first, second = mapped.definition.dependencies
    assert first.mappings == {ONLY_DIMENSION: Custom({"eu": ("eu1", "eu2")})}
    assert second.mappings == {"country": Custom({"eu": ("de",)})}


def test_partitions_and_mappings_by_name() -> None:
    assert daily("2025-01-01", end="2026-01-01", name="day") == Dimension(
        "day", TimePartitions("0 0 * * *", "2025-01-01", "2026-01-01")
    )
    assert arco.hourly("2025-01-01").partitions == TimePartitions("0 * * * *", "2025-01-01", values="time")
    assert arco.weekly("2025-01-01").partitions == TimePartitions("0 0 * * 1", "2025-01-01")
    assert arco.monthly("2025-01-01").partitions == TimePartitions("0 0 1 * *", "2025-01-01")
    assert arco.cron_partitions("30 6 * * 1-5", "2025-01-01").partitions == TimePartitions("30 6 * * 1-5", "2025-01-01")
    assert arco.cron_partitions("0 */6 * * *", "2025-01-01").partitions == TimePartitions(
        "0 */6 * * *", "2025-01-01", values="time"
    )
    assert static("region", ["eu"]).partitions == StaticPartitions(("eu",))
    assert dynamic("customer").name == "customer"
    assert window(-6) == Window(-6, 0)


def _no_namespace() -> None:
    space: dict[str, Any] = {"asset": asset}
    exec(compile("@asset\ndef lost(): ...", "lost.py", "exec"), space)  # noqa: S102


def _decorated(**arguments: Any) -> Callable[[], object]:
    def make() -> object:
        def function(orders: object) -> None: ...

        return asset(**arguments)(function)

    return make


def plain_one() -> None: ...


def _bare(decorate: Callable[..., Any], function: Callable[..., Any]) -> Callable[[], object]:
    return lambda: decorate(function)


def _star(*orders: object) -> None: ...
def _default(orders: object = None) -> None: ...
async def _coroutine() -> None: ...
def with_parameter(orders: object) -> str:
    return ""


def _no_sql() -> None: ...
def two(one: object, two: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_no_namespace, r"lost.py:1: the asset has no namespace; give namespace=, or set __namespace__"),
        (_decorated(freshness=1), "asset has no argument 'freshness'; its arguments are"),
        (_decorated(partition=daily("2025-01-01")), "no argument 'partition'; did you mean partitions"),
        (_decorated(name="Not A Name"), "is not a name"),
        (_decorated(namespace="a.b"), "is not a name"),
        (_decorated(deps="sales.orders"), "deps is a single dependency; write it as a list"),
        (_decorated(deps=[3]), "a value of type int is no dependency"),
        (_decorated(ins={"order": "a.b"}), "ins names 'order', which is no parameter"),
        (_decorated(partitions="daily"), "is no partition dimension; use daily"),
        (_decorated(owners="me"), "the owners of tested.function are one text"),
        (_decorated(tags={"a": 1}), "tags are not texts"),
        (_decorated(tags=["a"]), "tags are not texts"),
        (_decorated(gating="hard"), "no gating 'hard'; use strict, lenient, quarantine"),
        (_decorated(gating=3), "gating is of type int; use strict, lenient, quarantine, or GatingPolicy"),
        (_decorated(gating=GatingPolicy("g", {"error": "explode"})), "policy is not valid .*explode"),  # type: ignore[dict-item]
        (_decorated(gating=GatingPolicy("g", ["error"])), "the gating policy is not valid"),  # type: ignore[arg-type]
        (_decorated(format="delta"), "tested.function has the format 'delta'; use 'parquet' or 'iceberg'"),
        (_decorated(retries="3"), "write retries=3"),
        (_decorated(retries=Retries(1, backoff="wild")), "no backoff 'wild'; use fixed, linear, exponential"),
        (_decorated(retries=Retries(1, on=(3,))), "a value of type int is no exception class"),  # type: ignore[arg-type]
        (_decorated(timeout=0), "timeout: 0.0 seconds is not a time"),
        (_decorated(heartbeat=timedelta(seconds=-1)), "heartbeat: -1.0 seconds"),
        (_decorated(secrets=["hunter2"]), "a secret is not given by secret"),
        (_decorated(checks=[print]), "decorate the function with @check"),
        (_decorated(deps=[dep("a.b", custom(str))]), "no static keys to ask it for; write the mapping as a dictionary"),
        (_bare(asset, _star), "has no name to look up"),
        (_bare(asset, _default), "the parameter orders has a default"),
        (_bare(asset, _coroutine), "is a coroutine"),
        (_bare(asset, len), "something that is no function"),
        (_bare(multi_asset, _no_sql), "multi_asset makes no assets"),
        (_bare(multi_asset(outputs=[3]), _no_sql), "an output is neither a name"),  # type: ignore[list-item]
        (_bare(observable, with_parameter), "depends on nothing, but has the parameter orders"),
        (_bare(sql_asset, _no_sql), "returned no SQL text"),
        (lambda: sql_asset(sql="select 1"), "has no name; give name="),  # type: ignore[call-overload]
        (lambda: sql_asset(sql=" ", name="x"), "the SQL text is empty"),
        (lambda: external_asset("x", checks=[]), "external_asset has no argument 'checks'"),
        (lambda: external_asset("x", format="csv"), "without a path; give path="),
        (lambda: external_asset("x", path="landing/x.csv"), "the files have no format; write format='csv' or 'json'"),
        (lambda: external_asset("x", path="landing/x", format="xml"), "there is no format 'xml'"),
        (lambda: external_asset("x", path="landing/x", format="csv", corrupt="skip"), "corrupt is 'skip'; use fail"),
        (_bare(asset(column_lineage=["a"]), plain_one), "column_lineage of .* is no dictionary"),  # type: ignore[call-overload]
        (_bare(asset(column_lineage={"a": [1]}), plain_one), "something else than texts"),  # type: ignore[list-item]
        (_bare(check, two), "has 2 parameters for data"),
        (_bare(check(severity="bad"), with_parameter), "the severity 'bad'; use info, warning, error, critical"),
        (_bare(check(assets="x"), with_parameter), "check has no argument 'assets'; did you mean asset"),  # type: ignore[call-overload]
    ],
)
def test_a_mistake_names_file_line_and_cure(make: Callable[[], object], words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        make()
    details = refused.value.details
    assert details["line"] > 0
    assert details["cure"]
    assert refused.value.message.startswith(f"{details['file']}:{details['line']}: ")
    assert "hunter2" not in refused.value.message


def test_texts_where_lists_belong() -> None:
    with pytest.raises(Invalid, match="write them as a list"):
        static("region", "eu")
    with pytest.raises(Invalid, match="write it as a list"):
        daily("2025-01-01", exclude="2025-12-25")


def test_own_gating_policies() -> None:
    policy = GatingPolicy("mine", {"error": arco.GatingAction.FAIL_TASK})

    @asset(gating=policy)
    def gated() -> None: ...

    assert gated.definition.gating is policy


def _factory(name: str) -> Asset[..., Any]:
    @asset(name=name)
    def made() -> str:
        return name

    return made


def test_drivers_find_what_a_module_defines() -> None:
    for name in ("first", "second"):
        _factory(name)
    assert find_asset(__name__, "tested.first")() == "first"
    assert find_asset(__name__, "tested.second")() == "second"

    def checked(target: str) -> None:
        @check(asset=target, name="same")
        def function(data: object) -> bool:
            return bool(data == target)

    checked("tested.first")
    checked("second")
    assert find_check(__name__, "tested.first", "same")("tested.first")
    assert find_check(__name__, "tested.second", "same")("second")
    with pytest.raises(NotFound, match="deploy the project again"):
        find_asset(__name__, "tested.never")
    with pytest.raises(NotFound, match="deploy the project again"):
        find_check(__name__, "tested.first", "never")


def test_a_dependency_may_be_incremental() -> None:
    @asset(engine="spark", ins={"events": incremental("raw.events", all_partitions())})
    def merged(events: object) -> object:
        return events

    assert merged.definition.dependencies == (Dependency("raw.events", "events", {"": All()}, incremental=True),)


def test_column_lineage_is_sorted_and_a_single_source_needs_no_list() -> None:
    @asset(column_lineage={"b": "raw.y", "a": ["raw.z", "raw.x", "raw.z"], "c": []})
    def made(raw: object) -> object:
        return raw

    assert made.definition.column_lineage == {"a": ("raw.x", "raw.z"), "b": ("raw.y",), "c": ()}


def test_the_format_is_part_of_each_asset_a_function_makes() -> None:
    made = multi_asset(outputs=["a", output("b", format="iceberg")], namespace="tested")(plain_one)
    assert [definition.format for definition in made.definitions] == ["parquet", "iceberg"]
    assert sql_asset(sql="select 1", name="c", namespace="tested", format="iceberg").definition.format == "iceberg"

"""Which engine makes an asset, told by annotations or by a word."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from arco.assets import AssetDefinition, AssetKind, Engine, Project, validate
from arco.core import Invalid
from arco.sdk import asset, daily, load_project, multi_asset, sql_asset
from arco.sdk._registry import ASSETS
from arco.servo._deploy_diff import diff

__namespace__ = "sales"

DAYS = daily("2025-01-01")
HEADER = "from arco import asset, multi_asset, sql_asset\n__namespace__ = 'n'\n"


def engines(folder: Path, source: str) -> dict[str, Engine]:
    (folder / "pipes.py").write_text(HEADER + textwrap.dedent(source))
    loaded = load_project(folder)
    assert not loaded.problems, loaded.problems
    return {asset.key: asset.engine for asset in loaded.project.assets}


def test_a_function_that_speaks_of_sparks_frames_runs_there(tmp_path: Path) -> None:
    found = engines(
        tmp_path,
        """
        import pandas
        import pyspark.sql
        from typing import Optional
        from pyspark.sql import DataFrame
        from pandas import DataFrame as Pandas
        a_frame = DataFrame

        @asset
        def result() -> DataFrame: ...
        @asset
        def parameter(result: DataFrame): ...
        @asset
        def text(result: "DataFrame"): ...
        @asset
        def dotted() -> "pyspark.sql.DataFrame": ...
        @asset
        def perhaps() -> Optional["DataFrame"]: ...
        @asset
        def union() -> DataFrame | None: ...
        @asset
        def alias() -> "a_frame": ...
        @multi_asset(outputs=["x", "y"])
        def several() -> tuple[DataFrame, DataFrame]: ...
        @asset(engine="spark")
        def said(result): ...
        @sql_asset
        def query(result): return "select 1"
        @asset(engine="python")
        def not_said(result: DataFrame): ...
        @asset
        def plain(result): ...
        @asset
        def of_pandas() -> Pandas: ...
        @asset
        def text_of_pandas() -> "pandas.DataFrame": ...
        """,
    )
    python = {"n.not_said", "n.plain", "n.of_pandas", "n.text_of_pandas"}
    assert {key for key, engine in found.items() if engine is Engine.PYTHON} == python


def test_names_that_only_type_checkers_import_are_understood_without_pyspark(tmp_path: Path) -> None:
    found = engines(
        tmp_path,
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import pyspark.sql as ps
            from pandas import DataFrame as Pandas
            from pyspark.sql import DataFrame as Frame

        @asset
        def a() -> "Frame": ...
        @asset
        def b() -> "ps.DataFrame": ...
        @asset
        def c() -> "Pandas": ...
        @asset
        def d() -> "Unknown": ...
        """,
    )
    assert found == {"n.a": Engine.SPARK, "n.b": Engine.SPARK, "n.c": Engine.PYTHON, "n.d": Engine.PYTHON}


def test_settings_of_a_session_are_texts_and_only_for_spark() -> None:
    conf = {"spark.sql.ansi.enabled": False, "spark.sql.shuffle.partitions": 8}

    @asset(engine="spark", spark_conf=conf)
    def a() -> None: ...

    made = a.definition
    assert made.spark_conf == {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "8"}
    ASSETS.clear()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "flink"}, "there is no engine .flink.; use python or spark"),
        ({"spark_conf": {"spark.a": 1}}, "does not run on Spark; give engine='spark'"),
        ({"engine": "spark", "spark_conf": {"a": 1}}, "begin with spark"),
        ({"engine": "spark", "spark_conf": {"spark.a": None}}, "is of type NoneType"),
        ({"engine": "spark", "spark_conf": "x"}, "spark_conf is no dictionary"),
        ({"engine": "spark", "one_plan": True}, "without partitions, or not on Spark; remove it"),
        ({"partitions": DAYS, "one_plan": True}, "without partitions, or not on Spark; remove it"),
        ({"engine": "spark", "partitions": DAYS, "one_plan": "yes"}, "one_plan is .yes.; write one_plan=True"),
        ({"engine": "spark", "partitions": DAYS, "one_plan": 1}, "one_plan is .1.; write one_plan=True"),
    ],
)
def test_wrong_engines_and_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):

        @asset(**arguments)
        def a() -> None: ...


def test_several_assets_of_one_function_share_its_engine() -> None:
    @multi_asset(outputs=["a", "b"], engine="spark")
    def both() -> None: ...

    assert {made.engine for made in both.definitions} == {Engine.SPARK}
    ASSETS.clear()


def test_what_the_author_says_of_one_plan_is_in_the_definition_of_each_asset(tmp_path: Path) -> None:
    (tmp_path / "pipes.py").write_text(
        HEADER
        + textwrap.dedent(
            """
            from arco import daily
            SAID = dict(partitions=daily("2025-01-01"), one_plan=True)

            @asset(engine="spark", **SAID)
            def one(): ...
            @multi_asset(outputs=["x", "y"], engine="spark", **SAID)
            def several(): ...
            @sql_asset(**SAID)
            def query(): return "select 1"
            @asset(engine="spark", partitions=daily("2025-01-01"))
            def not_said(): ...
            @asset(one_plan=False)
            def on_python(): ...
            """
        )
    )
    loaded = load_project(tmp_path)
    assert not loaded.problems
    found = {one.key: one.one_plan for one in loaded.project.assets}
    said = dict.fromkeys(("n.one", "n.x", "n.y", "n.query"), True)
    assert found == {**said, "n.not_said": False, "n.on_python": False}


def test_engine_and_settings_are_part_of_the_code_version_and_of_the_difference(tmp_path: Path) -> None:
    def project(arguments: str) -> Project:
        (tmp_path / "pipes.py").write_text(HEADER + f"arguments = dict({arguments})\n@asset(**arguments)\ndef a(): ...")
        return load_project(tmp_path).project

    plain, spark = project(""), project("engine='spark'")
    tuned = project("engine='spark', spark_conf={'spark.sql.ansi.enabled': False}")
    versions = [one.assets[0].code_version for one in (plain, spark, tuned)]
    assert len(set(versions)) == 3
    assert diff(plain, spark).changed[0].fields == ("code", "engine")
    assert diff(spark, tuned).changed[0].fields == ("code", "spark_conf")


def test_a_query_that_names_a_partition_as_others_do_is_told_how_spark_does() -> None:
    made = sql_asset(name="q", sql="select $date, $date_end, $other", partitions=daily("2025-01-01"))
    problems = validate(Project((made.definition,)))
    assert [(problem.message, problem.cure) for problem in problems] == [
        ("its query names the partition as $date", "write :date"),
        ("its query names the partition as $date_end", "write :date_end"),
    ]
    ASSETS.clear()


def test_engines_that_make_nothing_are_problems() -> None:
    query = AssetDefinition("n.q", AssetKind.SQL, sql="select 1")
    outside = AssetDefinition("n.o", AssetKind.EXTERNAL, engine=Engine.SPARK)
    plain = AssetDefinition("n.p", function="m:p", spark_conf={"spark.a": "1"})
    messages = [problem.message for problem in validate(Project((query, outside, plain)))]
    assert any("is a query and its engine is not Spark" in message for message in messages)
    assert any("is external and has the engine Spark" in message for message in messages)
    assert any("has settings of Spark and does not run there" in message for message in messages)

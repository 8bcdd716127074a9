"""The decorators: `asset`, `multi_asset`, `sql_asset`, `observable`, and `external_asset` for what others make."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NoReturn, ParamSpec, TypeVar, overload

from arco.assets import AssetKind, CorruptRecords, DataFormat, Dimension, Engine, GatingPolicy, SecretRef, SourceFormat
from arco.sdk._asset import CONTEXT, AnyCheck, Asset, Reference, define
from arco.sdk._files import source_of
from arco.sdk._values import Retries
from arco.sdk._where import Where, refuse_unknown

__all__ = ["asset", "external_asset", "multi_asset", "observable", "output", "sql_asset"]

P = ParamSpec("P")
R = TypeVar("R")

_OUTPUT = (
    "name",
    "description",
    "owners",
    "tags",
    "schema",
    "column_lineage",
    "checks",
    "gating",
    "renamed_from",
    "format",
)
_OUTSIDE = ("name", "description", "owners", "tags", "schema", "renamed_from")
_SOURCE = ("path", "format", "options", "corrupt")
_RUNNING = ("partitions", "retries", "timeout", "heartbeat", "secrets")
_INPUTS = ("deps", "ins")
_ENGINE = ("engine", "spark_conf", "one_plan")

Checks = Iterable[AnyCheck]
Seconds = float | timedelta
Conf = Mapping[str, str | int | float | bool]


@overload
def asset(function: Callable[P, R], /) -> Asset[P, R]: ...


@overload
def asset(
    *,
    namespace: str = "",
    name: str = "",
    deps: Iterable[Reference] = (),
    ins: Mapping[str, Reference] | None = None,
    partitions: Dimension | Iterable[Dimension] = (),
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    column_lineage: Mapping[str, str | Iterable[str]] | None = None,
    checks: Checks = (),
    gating: GatingPolicy | str | None = None,
    retries: Retries | int | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds = 60.0,
    secrets: Iterable[SecretRef] = (),
    renamed_from: str | Iterable[str] = (),
    engine: Engine | str | None = None,
    spark_conf: Conf | None = None,
    one_plan: bool = False,
    format: DataFormat | str = DataFormat.PARQUET,
) -> Callable[[Callable[P, R]], Asset[P, R]]: ...


def asset(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """Make a function an asset. Its parameters are its dependencies, its docstring is the description.

    It runs on Spark if a parameter or the result is annotated as Spark's DataFrame, or `engine="spark"` says so;
    `spark_conf` are settings of its session. `one_plan=True` says that many partitions may be made by one plan, where
    Arco cannot prove it: that no row depends on rows of two partitions, and the partition's columns reach the result.
    `column_lineage={"total": ["orders.amount"]}` says what columns are made of, by parameter and column, where the plan
    cannot tell or there is none.
    `format="iceberg"` lets other engines read it as an Iceberg table of its name, with the rows of its current
    versions.
    """
    known = ("namespace", *_OUTPUT, *_INPUTS, *_RUNNING, *_ENGINE)

    def decorate(function: Callable[..., Any]) -> Asset[..., Any]:
        where = _where("asset", function, arguments, known)
        output, rest = _split(arguments)
        return define(AssetKind.ASSET, function, where, [_named(output, function)], **rest)

    return decorate if function is None else decorate(function)


def output(
    name: str,
    *,
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    column_lineage: Mapping[str, str | Iterable[str]] | None = None,
    checks: Checks = (),
    gating: GatingPolicy | str | None = None,
    renamed_from: str | Iterable[str] = (),
    format: DataFormat | str = DataFormat.PARQUET,
) -> Mapping[str, Any]:
    """One of the assets a `multi_asset` makes."""
    return {
        "name": name,
        "description": description,
        "owners": owners,
        "tags": tags,
        "schema": schema,
        "column_lineage": column_lineage,
        "checks": checks,
        "gating": gating,
        "renamed_from": renamed_from,
        "format": format,
    }


@overload
def multi_asset(function: Callable[P, R], /) -> NoReturn: ...


@overload
def multi_asset(
    *,
    outputs: Iterable[Mapping[str, Any] | str],
    namespace: str = "",
    name: str = "",
    deps: Iterable[Reference] = (),
    ins: Mapping[str, Reference] | None = None,
    partitions: Dimension | Iterable[Dimension] = (),
    retries: Retries | int | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds = 60.0,
    secrets: Iterable[SecretRef] = (),
    engine: Engine | str | None = None,
    spark_conf: Conf | None = None,
    one_plan: bool = False,
) -> Callable[[Callable[P, R]], Asset[P, R]]: ...


def multi_asset(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """Make a function several assets: one task makes them all.

    `outputs` are names or `output(...)`. The function returns a dictionary by name, or a tuple in their order. `name`
    is what the task is called, by default like the function.
    """
    known = ("namespace", "outputs", "name", *_INPUTS, *_RUNNING, *_ENGINE)

    def decorate(function: Callable[..., Any]) -> Asset[..., Any]:
        where = _where("multi_asset", function, arguments, known)
        rest = dict(arguments)
        outputs = [_as_output(where, one) for one in rest.pop("outputs", ())]
        if not outputs:
            where.refuse("multi_asset makes no assets", "name them: outputs=['a', output('b', ...)]")
        described = [{**one, "description": one["description"] or _description(function)} for one in outputs]
        unit = rest.pop("name", "") or function.__name__
        return define(AssetKind.ASSET, function, where, described, unit=unit, **rest)

    return decorate if function is None else decorate(function)


@overload
def sql_asset(function: Callable[P, str], /) -> Asset[P, str]: ...


@overload
def sql_asset(
    *,
    namespace: str = "",
    name: str = "",
    deps: Iterable[Reference] = (),
    ins: Mapping[str, Reference] | None = None,
    partitions: Dimension | Iterable[Dimension] = (),
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    column_lineage: Mapping[str, str | Iterable[str]] | None = None,
    checks: Checks = (),
    gating: GatingPolicy | str | None = None,
    retries: Retries | int | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds = 60.0,
    secrets: Iterable[SecretRef] = (),
    renamed_from: str | Iterable[str] = (),
    spark_conf: Conf | None = None,
    one_plan: bool = False,
    format: DataFormat | str = DataFormat.PARQUET,
) -> Callable[[Callable[P, str]], Asset[P, str]]: ...


@overload
def sql_asset(
    *,
    sql: str,
    name: str,
    namespace: str = "",
    deps: Iterable[Reference] = (),
    ins: Mapping[str, Reference] | None = None,
    partitions: Dimension | Iterable[Dimension] = (),
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    column_lineage: Mapping[str, str | Iterable[str]] | None = None,
    checks: Checks = (),
    gating: GatingPolicy | str | None = None,
    retries: Retries | int | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds = 60.0,
    secrets: Iterable[SecretRef] = (),
    renamed_from: str | Iterable[str] = (),
    spark_conf: Conf | None = None,
    one_plan: bool = False,
    format: DataFormat | str = DataFormat.PARQUET,
) -> Asset[..., str]: ...


def sql_asset(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """Make a query in Spark SQL an asset: a function that returns it, or `sql_asset(name=..., sql=..., ins=...)`.

    The query names its dependencies by their parameters. The function is called once, when it is defined, with the name
    of each parameter. A partition's values are parameters of the query, by dimension: `:date`; for time windows also
    `:date_start` and `:date_end`.
    """
    known = ("namespace", "sql", "spark_conf", "one_plan", *_OUTPUT, *_INPUTS, *_RUNNING)

    def decorate(function: Callable[..., Any]) -> Asset[..., Any]:
        where = _where("sql_asset", function, arguments, known)
        output, rest = _split(arguments)
        query = _sql(where, function)
        return define(
            AssetKind.SQL, function, where, [_named(output, function)], sql=query, engine=Engine.SPARK, **rest
        )

    if function is not None:
        return decorate(function)
    if "sql" not in arguments:
        return decorate
    where = Where.of_caller()
    refuse_unknown(where, "sql_asset", arguments.keys() - set(known), known)
    output, rest = _split(arguments)
    if not output.get("name"):
        where.refuse("an asset of SQL text has no name", "give name=")
    if not isinstance(rest["sql"], str) or not rest["sql"].strip():
        where.refuse("the SQL text is empty", "write a query")
    return define(AssetKind.SQL, None, where, [output], engine=Engine.SPARK, **rest)


def external_asset(
    name: str,
    *,
    namespace: str = "",
    partitions: Dimension | Iterable[Dimension] = (),
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    renamed_from: str | Iterable[str] = (),
    path: str = "",
    format: SourceFormat | str = "",
    options: Conf | None = None,
    corrupt: CorruptRecords | str = CorruptRecords.FAIL,
    **unknown: Any,
) -> Asset[..., Any]:
    """An asset that somebody else makes, so that others can depend on it.

    With a `path` its files can be read, as DataFrames: `path="landing/orders/{date}/*.csv", format="csv"`. The path is
    below `landing/` of the workspace and names every dimension of its partitions. `schema` are its columns; without one
    Spark reads the files once more to find out. `options` are those of Spark's reader; CSV files have a header unless
    `header` says otherwise. A record that does not fit fails the task, or is made `null` or dropped by `corrupt`.
    """
    where = Where.of_caller()
    refuse_unknown(where, "external_asset", unknown, ("namespace", "partitions", *_OUTSIDE, *_SOURCE))
    made = {
        "name": name,
        "description": description,
        "owners": owners,
        "tags": tags,
        "schema": schema,
        "renamed_from": renamed_from,
    }
    source = source_of(where, path, format, options, corrupt)
    return define(AssetKind.EXTERNAL, None, where, [made], namespace=namespace, partitions=partitions, source=source)


@overload
def observable(function: Callable[P, R], /) -> Asset[P, R]: ...


@overload
def observable(
    *,
    namespace: str = "",
    name: str = "",
    partitions: Dimension | Iterable[Dimension] = (),
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    retries: Retries | int | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds = 60.0,
    secrets: Iterable[SecretRef] = (),
    renamed_from: str | Iterable[str] = (),
) -> Callable[[Callable[P, R]], Asset[P, R]]: ...


def observable(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """An asset that somebody else makes, and a function that looks at it and returns its data version as text."""
    known = ("namespace", *_OUTSIDE, *_RUNNING)

    def decorate(function: Callable[..., Any]) -> Asset[..., Any]:
        where = _where("observable", function, arguments, known)
        extra = [name for name in inspect.signature(function).parameters if name != CONTEXT]
        if extra:
            where.refuse(f"an observable depends on nothing, but has the parameter {extra[0]}", "keep only context")
        output, rest = _split(arguments)
        return define(AssetKind.OBSERVABLE, function, where, [_named(output, function)], **rest)

    return decorate if function is None else decorate(function)


def _where(what: str, function: Callable[..., Any], arguments: Mapping[str, Any], known: Iterable[str]) -> Where:
    if not inspect.isfunction(function):
        Where.of_caller().refuse(f"@{what} stands before something that is no function", "decorate a function")
    where = Where.of_function(function)
    refuse_unknown(where, what, arguments.keys() - set(known), known)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        where.refuse(f"{function.__name__} is a coroutine", "use a plain function; call asyncio.run inside it")
    return where


def _split(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of the asset itself, and those of how it runs."""
    output = {name: value for name, value in arguments.items() if name in _OUTPUT}
    return output, {name: value for name, value in arguments.items() if name not in _OUTPUT}


def _named(output: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    return {
        **output,
        "name": output.get("name") or function.__name__,
        "description": output.get("description") or _description(function),
    }


def _description(function: Callable[..., Any]) -> str:
    return inspect.getdoc(function) or ""


def _as_output(where: Where, one: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if isinstance(one, str):
        return output(one)
    if not isinstance(one, Mapping):
        where.refuse("an output is neither a name nor output(...)", "write outputs=['a', output('b', ...)]")
    return one


def _sql(where: Where, function: Callable[..., Any]) -> str:
    parameters = inspect.signature(function).parameters
    if CONTEXT in parameters:
        where.refuse("the function of a query gets no context", "use :date and the like for the partition's values")
    text = function(**{name: name for name in parameters})
    if not isinstance(text, str) or not text.strip():
        where.refuse(f"{function.__name__} returned no SQL text", "return the query")
    return text

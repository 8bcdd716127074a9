"""Assets: decorated functions, each with the frozen definition that is deployed.

    @asset(namespace="sales", partitions=daily("2025-01-01"))
    def orders(context, raw_orders): ...

A parameter is a dependency: `raw_orders` of the same namespace, or the only asset of that name. `ins` says otherwise
for a parameter, `deps` adds assets that only come earlier. The decorated function can still be called, so that it can
be tested alone. Definitions refer to each other by name, so that modules need not import each other; names are looked
up when the project is loaded. An argument that nothing would act on is refused.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from arco.assets import (
    AssetDefinition,
    AssetKind,
    CheckDefinition,
    Custom,
    DataFormat,
    Dependency,
    Dimension,
    Engine,
    GatingPolicy,
    SecretRef,
    Source,
    StaticPartitions,
)
from arco.assets import Mapping as PartitionMapping
from arco.assets import Retries as RetriesDefinition
from arco.core import AssetKey, Invalid, shown
from arco.sdk._check import Check
from arco.sdk._engine import engine_of, one_plan_of, spark_conf_of
from arco.sdk._registry import ASSETS
from arco.sdk._values import (
    GATING,
    AnyMapping,
    CustomFunction,
    Dep,
    Retries,
    columns_of,
    seconds_of,
)
from arco.sdk._where import Where

__all__ = ["CONTEXT", "AnyCheck", "Asset", "Reference", "define", "key_of"]

P = ParamSpec("P")
R = TypeVar("R")

AnyCheck = Check[..., Any] | CheckDefinition
"""A function that is a check, or a rule."""

CONTEXT = "context"
"""The parameter that gets the context instead of data."""

_KINDS_WITH_DATA = (AssetKind.ASSET, AssetKind.SQL)


class Asset(Generic[P, R]):
    """An asset as defined, or several that one function makes; still the plain function when called."""

    def __init__(
        self,
        function: Callable[P, R] | None,
        definitions: tuple[AssetDefinition, ...],
        where: Where,
        checks: Mapping[str, tuple[AnyCheck, ...]],
    ) -> None:
        if function is not None:
            update_wrapper(self, function)
        self.function = function
        self.definitions = definitions
        self.where = where
        self.checks = checks
        """The checks that definitions name, by asset key."""
        self.module = str(where.names.get("__name__", "")) if function is None else function.__module__
        self.parameters = () if function is None else tuple(inspect.signature(function).parameters)

    @property
    def definition(self) -> AssetDefinition:
        """The definition of the only asset it makes."""
        if len(self.definitions) > 1:
            keys = ", ".join(definition.key for definition in self.definitions)
            raise Invalid(f"the function makes several assets: {keys}; name one by its key")
        return self.definitions[0]

    @property
    def key(self) -> str:
        return self.definition.key

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.function is None:
            raise Invalid(f"{self.definitions[0].key} has no function to call; it is {self.definitions[0].kind}")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Asset({', '.join(definition.key for definition in self.definitions)})"


Reference = Asset[..., Any] | str | Dep


def define(
    kind: AssetKind,
    function: Callable[..., Any] | None,
    where: Where,
    outputs: Sequence[Mapping[str, Any]],
    *,
    unit: str = "",
    namespace: str = "",
    deps: Iterable[Reference] = (),
    ins: Mapping[str, Reference] | None = None,
    partitions: Dimension | Iterable[Dimension] = (),
    retries: Retries | int | None = None,
    timeout: float | timedelta | None = None,
    heartbeat: float | timedelta = 60.0,
    secrets: Iterable[SecretRef] = (),
    sql: str = "",
    engine: Engine | str | None = None,
    spark_conf: Mapping[str, Any] | None = None,
    one_plan: bool = False,
    source: Source | None = None,
) -> Asset[..., Any]:
    """The asset of a function, registered. `outputs` has the arguments of each asset the function makes."""
    namespace = namespace or str(where.names.get("__namespace__", ""))
    if not namespace and (dotted := next((str(one["name"]) for one in outputs if "." in str(one.get("name", ""))), "")):
        head, _, tail = dotted.rpartition(".")
        where.refuse(f"the name {dotted} has a dot", f"write namespace={head!r} and the name {tail!r}")
    if not namespace:
        where.refuse("the asset has no namespace", "give namespace=, or set __namespace__ = '...' in the module")
    dimensions = _dimensions(where, partitions)
    parameters = _parameters(where, function) if kind in _KINDS_WITH_DATA else ()
    made_by = engine_of(where, function if kind is AssetKind.ASSET else None, engine)
    common: dict[str, Any] = {
        "kind": kind,
        "function": "" if function is None else f"{function.__module__}:{function.__qualname__}",
        "unit": key_of(where, namespace, unit) if unit else "",
        "sql": sql,
        "source": source,
        "engine": made_by,
        "spark_conf": spark_conf_of(where, made_by, spark_conf),
        "one_plan": one_plan_of(where, made_by, bool(dimensions), one_plan),
        "dependencies": _dependencies(where, parameters, deps, ins or {}, dimensions, has_sql=function is None),
        "partitions": dimensions,
        "retries": _retries(where, retries),
        "timeout_seconds": None if timeout is None else where.checked("timeout", lambda: _positive(timeout)),
        "heartbeat_seconds": where.checked("heartbeat", lambda: _positive(heartbeat)),
        "secrets": _secrets(where, secrets),
        "file": where.file,
        "line": where.line,
    }
    definitions: list[AssetDefinition] = []
    checks: dict[str, tuple[AnyCheck, ...]] = {}
    for output in outputs:
        definition, named = _output(where, namespace, common, **output)
        definitions.append(definition)
        checks[definition.key] = named
    made = Asset(function, tuple(definitions), where, checks)
    ASSETS.append(made)
    return made


def key_of(where: Where, namespace: str, name: str) -> str:
    return str(where.checked("the asset's key", lambda: AssetKey(namespace, name)))


def _output(
    where: Where,
    namespace: str,
    common: Mapping[str, Any],
    *,
    name: str,
    description: str = "",
    owners: Iterable[str] = (),
    tags: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    column_lineage: Mapping[str, str | Iterable[str]] | None = None,
    checks: Iterable[AnyCheck] = (),
    gating: GatingPolicy | str | None = None,
    renamed_from: str | Iterable[str] = (),
    format: DataFormat | str = DataFormat.PARQUET,
) -> tuple[AssetDefinition, tuple[AnyCheck, ...]]:
    """One definition, and the checks it names."""
    key = key_of(where, namespace, name)
    if isinstance(checks, Check | CheckDefinition):
        where.refuse(f"the checks of {key} are a single one", "write it as a list")
    checks = tuple(checks)
    for check in checks:
        if not isinstance(check, Check | CheckDefinition):
            cure = "decorate the function with @check, or use a rule such as not_null('id')"
            where.refuse(f"{key} has a {_type(check)} among its checks", cure)
    former = (renamed_from,) if isinstance(renamed_from, str) else tuple(renamed_from)
    if isinstance(owners, str):
        where.refuse(f"the owners of {key} are one text", "write them as a list")
    definition = AssetDefinition(
        key=key,
        description=description,
        owners=tuple(owners),
        tags=_tags(where, tags or {}),
        schema=columns_of(schema or {}),
        column_lineage=_column_lineage(where, key, column_lineage or {}),
        gating=_gating(where, gating),
        renamed_from=tuple(text if "." in text else f"{namespace}.{text}" for text in former),
        format=_format(where, key, format),
        **common,
    )
    return definition, checks


def _format(where: Where, key: str, given: DataFormat | str) -> DataFormat:
    try:
        return DataFormat(given)
    except ValueError:
        where.refuse(f"{key} has the format {shown(str(given))}", f"use {' or '.join(map(repr, map(str, DataFormat)))}")


def _column_lineage(where: Where, key: str, said: Mapping[str, str | Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """What columns are made of, sorted: in which order it is said means nothing."""
    cure = "write column_lineage={'total': ['orders.amount'], 'day': []}"
    if not isinstance(said, Mapping):
        where.refuse(f"column_lineage of {key} is no dictionary", cure)
    found: dict[str, tuple[str, ...]] = {}
    for column, sources in said.items():
        several: tuple[Any, ...] = (sources,) if isinstance(sources, str) else tuple(sources)
        if not all(isinstance(text, str) for text in (column, *several)):
            where.refuse(f"column_lineage of {key} has something else than texts", cure)
        found[column] = tuple(sorted(set(several)))
    return dict(sorted(found.items()))


def _parameters(where: Where, function: Callable[..., Any] | None) -> tuple[str, ...]:
    """The parameters that get data."""
    if function is None:
        return ()
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            where.refuse(
                f"the parameter {parameter} has no name to look up", "write one named parameter per dependency"
            )
        if parameter.default is not parameter.empty:
            where.refuse(f"the parameter {name} has a default", "every parameter gets a dependency's data: remove it")
        if name != CONTEXT:
            names.append(name)
    return tuple(names)


def _dependencies(
    where: Where,
    parameters: tuple[str, ...],
    deps: Iterable[Reference],
    ins: Mapping[str, Reference],
    dimensions: tuple[Dimension, ...],
    *,
    has_sql: bool,
) -> tuple[Dependency, ...]:
    if isinstance(deps, str | Asset | Dep):
        where.refuse("deps is a single dependency", "write it as a list")
    found: list[Dependency] = []
    for name, reference in ins.items():
        if name not in parameters and not has_sql:
            where.refuse(f"ins names {shown(name)}, which is no parameter of the function", "correct the name")
        found.append(_dependency(where, name, reference, dimensions))
    found += [Dependency(key=name, parameter=name) for name in parameters if name not in ins]
    found += [_dependency(where, "", reference, dimensions) for reference in deps]
    # By parameter in the order of the function, so that the order in `ins` means nothing.
    order = {name: place for place, name in enumerate(parameters)}
    return tuple(
        sorted(found, key=lambda one: (not one.parameter, order.get(one.parameter, 0), one.parameter, one.key))
    )


def _dependency(where: Where, parameter: str, reference: Reference, dimensions: tuple[Dimension, ...]) -> Dependency:
    if isinstance(reference, Asset):
        return Dependency(key=where.checked("deps", lambda: reference.key), parameter=parameter)
    if isinstance(reference, str):
        return Dependency(key=reference, parameter=parameter)
    if not isinstance(reference, Dep):
        where.refuse(
            f"a value of type {_type(reference)} is no dependency", "name an asset, its key, or dep(key, mapping)"
        )
    mappings = {name: _mapping(where, name, mapping, dimensions) for name, mapping in reference.mappings.items()}
    return Dependency(key=reference.key, parameter=parameter, mappings=mappings, incremental=reference.is_incremental)


def _mapping(where: Where, name: str, mapping: AnyMapping, dimensions: tuple[Dimension, ...]) -> PartitionMapping:
    if not isinstance(mapping, CustomFunction):
        return mapping
    own = [dimension for dimension in dimensions if dimension.name == name] or list(dimensions)
    if len(own) != 1 or not isinstance(own[0].partitions, StaticPartitions):
        message = "custom() has a function, but the asset has no static keys to ask it for"
        where.refuse(message, "write the mapping as a dictionary")
    keys = own[0].partitions.keys
    written: Custom = where.checked("custom()", lambda: mapping.written_out(keys))
    return written


def _dimensions(where: Where, partitions: Dimension | Iterable[Dimension]) -> tuple[Dimension, ...]:
    several = (partitions,) if isinstance(partitions, Dimension) else tuple(partitions)
    for dimension in several:
        if not isinstance(dimension, Dimension):
            where.refuse(
                f"a value of type {_type(dimension)} is no partition dimension", "use daily(), static(), dynamic(), ..."
            )
    return tuple(sorted(several, key=lambda dimension: dimension.name))


def _retries(where: Where, retries: Retries | int | None) -> RetriesDefinition:
    if retries is None:
        return RetriesDefinition()
    if isinstance(retries, int):
        retries = Retries(retries)
    if not isinstance(retries, Retries):
        where.refuse(f"retries is of type {_type(retries)}", "write retries=3 or retries=Retries(3, ...)")
    definition: RetriesDefinition = where.checked("retries", retries.definition)
    return definition


def _gating(where: Where, gating: GatingPolicy | str | None) -> GatingPolicy | None:
    if isinstance(gating, str):
        if gating not in GATING:
            where.refuse(f"there is no gating {shown(gating)}", f"use {', '.join(GATING)} or a GatingPolicy")
        return GATING[gating]
    if gating is None:
        return None
    cure = f"use {', '.join(GATING)}, or GatingPolicy('mine', {{'error': GatingAction.FAIL_TASK}})"
    if not isinstance(gating, GatingPolicy):
        where.refuse(f"gating is of type {_type(gating)}", cure)
    try:
        msgspec.convert(msgspec.to_builtins(gating), GatingPolicy)
    except (msgspec.ValidationError, TypeError) as error:
        where.refuse(f"the gating policy is not valid ({error})", cure)
    return gating


def _secrets(where: Where, secrets: Iterable[SecretRef]) -> tuple[SecretRef, ...]:
    several: tuple[Any, ...] = (secrets,) if isinstance(secrets, SecretRef | str) else tuple(secrets)
    for ref in several:
        if not isinstance(ref, SecretRef):
            where.refuse("a secret is not given by secret()", "write secrets=[secret('API_KEY')]")
    return several


def _tags(where: Where, tags: Mapping[str, str]) -> dict[str, str]:
    try:
        return msgspec.convert(dict(tags), dict[str, str])
    except (msgspec.ValidationError, TypeError, ValueError):
        where.refuse("tags are not texts by text", "write tags={'team': 'sales'}")


def _positive(value: float | timedelta) -> float:
    seconds = seconds_of(value)
    if not seconds > 0:
        raise Invalid(f"{seconds} seconds is not a time; use more than 0")
    return seconds


def _type(value: object) -> str:
    return type(value).__name__

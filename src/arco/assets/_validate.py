"""Validation: everything that is wrong with a project, found without running it.

Each rule yields a sentence with a cure for every violation; nothing stops at the first one. Deploys are refused while
there are problems, so what comes later may rely on these rules.
"""

import math
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches

import msgspec

from arco.assets._definition import AssetDefinition, AssetKind, DataFormat, Dependency, Engine, Project, Severity
from arco.assets._fit import mapping_faults, partition_faults
from arco.assets._graph import Graph, place, unit_of
from arco.assets._lookup import Lookup, resolve
from arco.assets._rules import References
from arco.assets._sources import source_faults
from arco.assets._verdicts import unfit
from arco.core import AssetKey, Invalid, shown

__all__ = ["Problem", "validate"]

_RETRIES_MAX = 100
_SECONDS_MAX = 30 * 86_400.0
_HEARTBEAT_MIN = 1.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOLLAR = re.compile(r"\$(\w+)")

Fault = tuple[str, str]
"""What is wrong, and what to do about it."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a project."""

    file: str
    line: int
    asset: str
    """Key of the asset; empty if it is about no single one."""
    message: str
    cure: str

    def __str__(self) -> str:
        where = f"{self.file or 'unknown file'}:{self.line}"
        return f"{where}: {self.asset + ': ' if self.asset else ''}{self.message}; {self.cure}"


def validate(project: Project) -> tuple[Problem, ...]:
    """All problems of a project, in the order of its files and lines."""
    resolved = resolve(project)
    problems = [
        Problem(asset.file, asset.line, asset.key, message, cure)
        for asset in resolved.assets
        for rule in _RULES
        for message, cure in rule(asset)
    ]
    problems += _duplicates(resolved)
    problems += _dependencies(resolved)
    problems += _references(resolved)
    problems += _column_lineage(resolved)
    problems += _cycles(resolved)
    problems += _units(resolved)
    problems += _renames(resolved)
    return tuple(
        sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.asset, problem.message))
    )


# Rules about one asset


def _key(asset: AssetDefinition) -> Iterator[Fault]:
    for key in (asset.key, *asset.renamed_from):
        try:
            AssetKey.parse(key)
        except Invalid as error:
            message, _, cure = error.message.partition("; ")
            yield message, cure


def _kind(asset: AssetDefinition) -> Iterator[Fault]:
    if asset.kind in (AssetKind.ASSET, AssetKind.OBSERVABLE) and not asset.function:
        yield f"it is of kind {asset.kind} and has no function", "decorate the function that makes or observes it"
    if asset.kind is AssetKind.SQL and not asset.sql.strip():
        yield "its SQL text is empty", "give sql= or return the text from the function"
    if asset.kind is AssetKind.SQL and asset.engine is not Engine.SPARK:
        yield "it is a query and its engine is not Spark", "define it with sql_asset of this version"
    if asset.kind in (AssetKind.EXTERNAL, AssetKind.OBSERVABLE) and asset.engine is Engine.SPARK:
        yield f"it is {asset.kind} and has the engine Spark, which makes nothing of it", "remove the engine"
    if asset.spark_conf and asset.engine is not Engine.SPARK:
        yield "it has settings of Spark and does not run there", "give engine='spark', or remove them"
    if asset.kind is AssetKind.EXTERNAL and (asset.function or asset.dependencies or asset.sql):
        yield "it is external and yet has a function or dependencies", "make it an asset, or remove them"
    if asset.source is not None and asset.kind is not AssetKind.EXTERNAL:
        yield f"it is of kind {asset.kind} and names files of others", "make it an external_asset"
    if asset.kind in (AssetKind.EXTERNAL, AssetKind.OBSERVABLE) and asset.format is not DataFormat.PARQUET:
        yield (
            f"it is {asset.kind} and has the format {asset.format}, in which only Arco's own data is",
            "remove format=",
        )
    if asset.kind in (AssetKind.EXTERNAL, AssetKind.OBSERVABLE) and asset.checks:
        yield f"it is {asset.kind} and has checks, which only run on what Arco makes", "remove the checks"


def _source(asset: AssetDefinition) -> Iterator[Fault]:
    if asset.source is not None:
        yield from source_faults(asset.source, asset.partitions, asset.schema)


def _numbers(asset: AssetDefinition) -> Iterator[Fault]:
    retries = asset.retries
    if not 0 <= retries.count <= _RETRIES_MAX:
        yield f"retries are {retries.count}", f"use 0 to {_RETRIES_MAX}"
    if not 0 <= retries.delay_seconds <= _SECONDS_MAX:
        yield f"the retry delay is {retries.delay_seconds} seconds", f"use 0 to {_SECONDS_MAX:.0f}"
    if not retries.delay_seconds <= retries.max_delay_seconds <= _SECONDS_MAX:
        cure = f"use at least the delay and at most {_SECONDS_MAX:.0f}"
        yield f"the longest retry delay is {retries.max_delay_seconds} seconds", cure
    if not 0 <= retries.jitter <= 1:
        yield f"the jitter of retries is {retries.jitter}", "use 0 to 1"
    if asset.timeout_seconds is not None and not (0 < asset.timeout_seconds <= _SECONDS_MAX):
        yield f"the time-out is {asset.timeout_seconds} seconds", f"use more than 0, at most {_SECONDS_MAX:.0f}"
    if not (_HEARTBEAT_MIN <= asset.heartbeat_seconds <= _SECONDS_MAX) or math.isnan(asset.heartbeat_seconds):
        cure = f"use {_HEARTBEAT_MIN:.0f} to {_SECONDS_MAX:.0f}"
        yield f"the heartbeat time is {asset.heartbeat_seconds} seconds", cure


def _query(asset: AssetDefinition) -> Iterator[Fault]:
    """A name after a dollar sign is no parameter of Spark's; a colon before one is."""
    names = {dimension.name for dimension in asset.partitions}
    names |= {f"{name}_{edge}" for name in names for edge in ("start", "end")}
    for name in sorted(names & set(_DOLLAR.findall(asset.sql))):
        yield f"its query names the partition as ${name}", f"write :{name}"


def _parts(asset: AssetDefinition) -> Iterator[Fault]:
    for what, names in (
        ("check", [check.name for check in asset.checks]),
        ("secret", [secret.name for secret in asset.secrets]),
        ("column", [column.name for column in asset.schema]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"two of its {what}s are called {shown(name)}", "give each its own name"
        if "" in names:
            yield f"one of its {what}s has no name", "name it"
    for secret in asset.secrets:
        if secret.provider != "env":
            yield f"the secret {shown(secret.name)} has the provider {shown(secret.provider)}", "use the provider 'env'"
        elif _VARIABLE.fullmatch(secret.key) is None:
            cure = "use the name of an environment variable"
            yield f"the secret {shown(secret.name)} reads {shown(secret.key)}, which is no variable", cure
    for severity in asset.gating.actions if asset.gating else ():
        if severity not in set(Severity):
            cure = f"use {', '.join(Severity)}"
            yield f"its gating policy names the severity {shown(severity)}, which does not exist", cure
    if "" in asset.tags or "" in asset.owners:
        yield "a tag or an owner is empty", "name it or leave it out"


def _checks(asset: AssetDefinition) -> Iterator[Fault]:
    read = {dependency.key for dependency in asset.dependencies if dependency.parameter}
    if asset.gating is not None and not asset.checks:
        yield "it has a gating policy and no checks that it could judge", "give it checks, or remove gating="
    for check in asset.checks:
        if (check.rule is None) == (not check.function):
            yield f"the check {shown(check.name)} has not exactly one of a function and a rule", "give it one of them"
        if isinstance(check.rule, References) and check.rule.asset not in read:
            yield (
                f"the check {shown(check.name)} compares with {shown(check.rule.asset)}, which it does not read",
                "make that asset a parameter of the function",
            )
        refused = unfit(check, asset.schema) if asset.schema else None
        if refused is not None:
            message, _, cure = refused.message.removeprefix("no result: ").partition("; ")
            yield f"the check {shown(check.name)}: {message}", cure or "correct the check, or the declared schema"


_RULES: tuple[Callable[[AssetDefinition], Iterator[Fault]], ...] = (
    _key,
    _kind,
    _source,
    _numbers,
    _query,
    _parts,
    _checks,
    partition_faults,
)


# Rules about several assets


def _duplicates(project: Project) -> Iterator[Problem]:
    first: dict[str, AssetDefinition] = {}
    for asset in project.assets:
        other = first.setdefault(asset.key, asset)
        if other is not asset:
            message = f"two assets have this key: one at {place(other)}, one at {place(asset)}"
            yield Problem(asset.file, asset.line, asset.key, message, "rename one of them")


def _dependencies(project: Project) -> Iterator[Problem]:
    lookup = Lookup(project.assets)
    assets = {asset.key: asset for asset in project.assets}
    for asset in project.assets:
        seen: set[tuple[str, str]] = set()
        parameters: set[str] = set()
        for dependency in asset.dependencies:
            faults: list[Fault] = []
            if (dependency.key, dependency.parameter) in seen or dependency.parameter in parameters:
                faults.append((f"the dependency {shown(dependency.key)} is given twice", "remove one"))
            seen.add((dependency.key, dependency.parameter))
            parameters |= {dependency.parameter} - {""}
            try:
                upstream = assets[lookup.find(dependency.key, asset.key.partition(".")[0])]
                faults += mapping_faults(asset, dependency, upstream)
                faults += _incremental_faults(asset, dependency, upstream)
                if upstream.source is not None and dependency.parameter and not asset.is_on_spark:
                    message = f"it reads the files of {upstream.key} and does not run on Spark"
                    faults.append((message, f"annotate {dependency.parameter} as DataFrame, or put it into deps="))
            except Invalid as error:
                message, _, cure = error.message.partition("; ")
                named = f"parameter {dependency.parameter}: " if dependency.parameter else ""
                faults.append((f"{named}{message}", cure))
            for message, cure in faults:
                yield Problem(asset.file, asset.line, asset.key, message, cure)


def _incremental_faults(asset: AssetDefinition, dependency: Dependency, upstream: AssetDefinition) -> Iterator[Fault]:
    if not dependency.incremental:
        return
    what = f"it reads {upstream.key} incrementally"
    if not dependency.parameter:
        yield f"{what} and gets no data of it", "name it in ins=, or leave incremental() away"
    elif asset.kind is AssetKind.SQL:
        yield (
            f"{what} and is a query, which cannot read what it replaces",
            "make it a function that returns a DataFrame",
        )
    elif asset.engine is not Engine.SPARK:
        yield f"{what} and does not run on Spark", "annotate what it gets as DataFrame, or leave incremental() away"
    elif upstream.kind not in (AssetKind.ASSET, AssetKind.SQL):
        yield f"{what}, which others make: it has no versions", "leave incremental() away"


def _references(project: Project) -> Iterator[Problem]:
    """Columns that checks look for in other assets, as far as those declare theirs."""
    schemas = {asset.key: [column.name for column in asset.schema] for asset in project.assets if asset.schema}
    for asset in project.assets:
        for check in asset.checks:
            rule = check.rule
            if not isinstance(rule, References) or rule.asset not in schemas:
                continue
            known = schemas[rule.asset]
            for name in rule.to:
                if name not in known:
                    near = get_close_matches(name, known, 1)
                    cure = f"did you mean {near[0]}?" if near else f"it has {', '.join(known[:10])}"
                    message = f"the check {shown(check.name)}: {rule.asset} has no column {shown(name)}"
                    yield Problem(asset.file, asset.line, asset.key, message, cure)


def _column_lineage(project: Project) -> Iterator[Problem]:
    """Columns that authors name in `column_lineage`, as far as schemas are declared."""
    assets = {asset.key: asset for asset in project.assets}
    for asset in project.assets:
        read = {one.parameter: assets.get(one.key) for one in asset.dependencies if one.parameter}
        faults: list[Fault] = []
        for column, sources in asset.column_lineage.items():
            faults += _unknown_column("it has", column, [one.name for one in asset.schema])
            for source in sources:
                parameter, dot, name = source.partition(".")
                if not dot or not name or parameter not in read:
                    has = f"parameters: {', '.join(read)}" if read else "no parameters"
                    message = f"{shown(column)} is made of {shown(source)}, which is no column of a parameter"
                    faults.append((message, f"write it as parameter.column; it has {has}"))
                elif (upstream := read[parameter]) is not None and upstream.schema:
                    known = [one.name for one in upstream.schema] + [one.name for one in upstream.partitions]
                    faults += _unknown_column(f"{parameter} ({upstream.key}) has", name, known)
        for message, cure in faults:
            yield Problem(asset.file, asset.line, asset.key, f"column_lineage: {message}", cure)


def _unknown_column(who: str, name: str, known: list[str]) -> list[Fault]:
    """What is wrong with a column that is not among those that are known, if any are."""
    if not known or name in known:
        return []
    near = get_close_matches(name, known, 1)
    cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:10])}"
    return [(f"{who} no column {shown(name)}", cure)]


def _cycles(project: Project) -> Iterator[Problem]:
    graph = Graph(project)
    for cycle in graph.cycles():
        asset = graph.units[cycle[0]][0]
        message, _, cure = graph.describe_cycle(cycle).rpartition("; ")
        yield Problem(asset.file, asset.line, asset.key, message, cure)


def _units(project: Project) -> Iterator[Problem]:
    first: dict[str, AssetDefinition] = {}
    shared: tuple[tuple[str, Callable[[AssetDefinition], object]], ...] = (
        ("partitions", lambda asset: asset.partitions),
        (
            "function",
            lambda asset: (asset.kind, asset.function, asset.sql),
        ),
        ("settings of Spark", lambda asset: (asset.engine, asset.spark_conf, asset.one_plan)),
        ("dependencies", lambda asset: asset.dependencies),
        ("retries", lambda asset: asset.retries),
        ("time-outs", lambda asset: (asset.timeout_seconds, asset.heartbeat_seconds)),
        ("secrets", lambda asset: asset.secrets),
    )
    for asset in project.assets:
        other = first.setdefault(unit_of(asset), asset)
        for what, part in shared:
            if other.key != asset.key and part(other) != part(asset):
                message = f"it is made together with {other.key} and has other {what}"
                cure = "assets of one function share them: make them equal, or split the function"
                yield Problem(asset.file, asset.line, asset.key, message, cure)


def _renames(project: Project) -> Iterator[Problem]:
    keys = {asset.key: asset for asset in project.assets}
    claimed: dict[str, AssetDefinition] = {}
    for asset in project.assets:
        for former in asset.renamed_from:
            other = keys.get(former) or claimed.setdefault(former, asset)
            if other is asset and former != asset.key:
                continue
            by = "itself" if other is asset else f"{other.key} at {place(other)}"
            message = f"it says it was called {shown(former)}, which is claimed by {by}"
            yield Problem(asset.file, asset.line, asset.key, message, "remove it from renamed_from")

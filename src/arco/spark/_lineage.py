"""Column lineage of a frame, from Spark's analysed plan: for each column of the output the columns of the inputs.

The plan comes as JSON (`lineage_from_plan`), or as the text of an extended explain where there is nothing else, as on
Spark Connect (`lineage_from_explain`); `lineage_of` takes a frame and chooses. All give a `PlanLineage`, whatever
happens: a plan that cannot be read gives one that says why. `column_lineage` makes of it what an edge of the graph
records. What decides about rows (filters, join and group keys, order) counts for every column and is kept once.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from arco.core import ArcoError
from arco.domains.lineage import (
    CaptureMethod,
    ColumnInfluence,
    ColumnLineage,
    ColumnMapping,
    ColumnRef,
    Confidence,
    ConfidenceReason,
    TransformType,
)
from arco.spark._explain import parse_explain, projections_of
from arco.spark._nodes import relation_of
from arco.spark._plans import INPUT_PREFIX, Plan, is_complete, parse_plan
from arco.spark._relations import Relation
from arco.spark._traces import Certainty, Doubt, Kind, Ledger, Trace, kinds_of

__all__ = [
    "Dependency",
    "OutputColumn",
    "PlanLineage",
    "column_lineage",
    "lineage_from_explain",
    "lineage_from_plan",
    "lineage_of",
    "no_plan",
    "overridden",
]

T = TypeVar("T")

MAX_DEPENDENCIES = 100_000
"""Listed in one lineage. Exact columns come first; of others those that no longer fit say so instead."""

MAX_REASONS = 3
"""Named for one column."""

MAX_EDGE_BYTES = 256 << 10
"""Of the column lineage of one edge as an event; a whole event may have a megabyte."""


_LEARNED = "jobs ran before the plan was made; what they found is in it without where it is from"

_INPUT = re.compile(rf"{INPUT_PREFIX}(\w+)")


class Dependency(NamedTuple):
    """On a column of an input."""

    input: str
    column: str
    kind: Kind


class OutputColumn(msgspec.Struct, frozen=True):
    name: str
    direct: tuple[Dependency, ...] = ()
    """What its values are made of."""
    indirect: tuple[Dependency, ...] = ()
    """What decides which values those are, in this column only."""
    confidence: Confidence = Confidence.HIGH
    """HIGH is exact; with MEDIUM the true dependencies are among those listed; with LOW there may be others."""
    reason: str = ""
    """Why it is not exact."""
    is_said: bool = False
    """Its author says so. Then nobody knows of which kind a dependency is."""


class PlanLineage(msgspec.Struct, frozen=True):
    columns: tuple[OutputColumn, ...]
    rows: tuple[Dependency, ...] = ()
    """What decides which rows there are, and so about every column."""
    reason: str = ""
    """Why there is no lineage, or what was lost on the way."""
    inputs: frozenset[str] | None = None
    """The inputs that occur in the plan; None if there may be others that do not show."""

    @property
    def coverage(self) -> float:
        """Which part of the columns is known at least approximately."""
        return self._share(Confidence.HIGH, Confidence.MEDIUM)

    @property
    def exact(self) -> float:
        """Which part of the columns is known exactly."""
        return self._share(Confidence.HIGH)

    @property
    def confidence(self) -> Confidence:
        """As sure as the least sure column."""
        order = list(Confidence)
        if not self.columns:
            return Confidence.LOW
        return max((column.confidence for column in self.columns), key=order.index)

    def _share(self, *levels: Confidence) -> float:
        if not self.columns:
            return 0.0
        return sum(column.confidence in levels for column in self.columns) / len(self.columns)


def lineage_of(frame: Any, *, learned: bool = False) -> PlanLineage:
    """The lineage of a frame. Nothing runs, and nothing that goes wrong here fails the asset.

    `learned` if whoever made the frame ran jobs meanwhile.
    """
    names: list[str] = []
    try:
        names = list(frame.columns)
        if not hasattr(frame, "_jdf"):
            return lineage_from_explain(_explained(frame), columns=names)
        analysed = frame._jdf.queryExecution().analyzed()
        text = analysed.toJSON()
        explained = "" if is_complete(text) else _printed(analysed)
        return lineage_from_plan(text, columns=names, explained=explained, learned=learned)
    except Exception as error:  # noqa: BLE001  whatever Spark or Py4J raise, lineage is a by-product
        return _degraded(names, f"Spark did not give its plan ({type(error).__name__})")


_ALL_FIELDS = 1_000_000
"""Spark shortens longer lists when it prints a plan."""


def _printed(analysed: Any) -> str:
    """The text of a plan in this process. Its arguments: verbose, suffix, fields, ids of operators, output columns."""
    return f"== Analyzed Logical Plan ==\n\n{analysed.treeString(True, False, _ALL_FIELDS, False, False)}"


def _explained(frame: Any) -> str:
    """The extended explain of a frame of Spark Connect."""
    setting = "spark.sql.debug.maxToStringFields"
    conf = frame.sparkSession.conf
    before = conf.get(setting)
    conf.set(setting, str(_ALL_FIELDS))
    try:
        return str(frame._explain_string(extended=True))
    finally:
        conf.set(setting, before)


def lineage_from_plan(
    text: str, *, columns: Sequence[str] = (), explained: str = "", learned: bool = False
) -> PlanLineage:
    """The lineage in a plan that `toJSON` wrote.

    Args:
        text: the JSON.
        columns: names of the output, for a plan that cannot be read.
        explained: the same plan as an extended explain, for what the JSON leaves out.
        learned: jobs ran before. What they found stands in the plan as rows and literals, and not where it is from.
    """
    try:
        found = _walked(parse_plan(text, projections_of(explained) if explained else None), learned=learned)
        if learned:
            reason = "; ".join(part for part in (_LEARNED, found.reason) if part)
            return msgspec.structs.replace(found, reason=reason)
        is_whole = found.confidence is not Confidence.LOW and not found.reason
        return msgspec.structs.replace(found, inputs=_inputs(text, explained) if is_whole else None)
    except (ArcoError, LookupError, TypeError, ValueError) as error:
        return _degraded(columns, _why(error))


def _inputs(*texts: str) -> frozenset[str]:
    """Inputs that are named anywhere. A walk passes by what decides nothing, such as the number of a limit."""
    return frozenset(name for text in texts for name in _INPUT.findall(text))


def lineage_from_explain(text: str, *, columns: Sequence[str] = ()) -> PlanLineage:
    """The lineage in the text of an extended explain. It is approximate: the text does not say what a function does."""
    try:
        loss = "read from the text of a plan, which shows less than the plan"
        found = _walked(parse_explain(text), loss, learned=True)  # a server does not say what ran before
    except (ArcoError, LookupError, TypeError, ValueError) as error:
        return _degraded(columns, _why(error))
    if len(columns) != len(found.columns):
        return found
    named = zip(columns, found.columns, strict=True)  # a name in the text may be cut short at its last AS
    return msgspec.structs.replace(
        found, columns=tuple(msgspec.structs.replace(column, name=name) for name, column in named)
    )


def overridden(lineage: PlanLineage, said: Mapping[str, Sequence[str]]) -> PlanLineage:
    """What the author says of columns instead of what was found: by column, each source as `parameter.column`."""
    if not said:
        return lineage
    columns = tuple(_said(column, said[column.name]) if column.name in said else column for column in lineage.columns)
    names = {column.name for column in columns}
    missing = sorted(name for name in said if name not in names)
    more = f"its author speaks of columns that it does not have: {', '.join(missing[:MAX_REASONS])}" if missing else ""
    return msgspec.structs.replace(
        lineage, columns=columns, reason="; ".join(text for text in (lineage.reason, more) if text)
    )


def _said(column: OutputColumn, sources: Sequence[str]) -> OutputColumn:
    parts = [source.partition(".") for source in sources]
    direct = tuple(Dependency(parameter, name, Kind.TRANSFORMATION) for parameter, _, name in parts)
    return OutputColumn(column.name, direct, reason="its author says so", is_said=True)


def no_plan(columns: Sequence[str]) -> PlanLineage:
    """Of what no plan made, nothing is known of any column."""
    return _degraded(columns, "a function in Python made it")


def _degraded(columns: Sequence[str], reason: str) -> PlanLineage:
    unknown = tuple(OutputColumn(name, confidence=Confidence.LOW, reason=reason) for name in columns)
    return PlanLineage(unknown, reason=reason)


def _why(error: Exception) -> str:
    # Other errors mean a node of another shape than known; their text may quote a value.
    return error.message if isinstance(error, ArcoError) else f"the plan is not understood ({type(error).__name__})"


def _walked(plan: Plan, loss: str = "", *, learned: bool) -> PlanLineage:
    ledger = Ledger()
    return _listed(ledger, relation_of(plan, ledger, learned=learned), loss)


def _listed(ledger: Ledger, relation: Relation, loss: str) -> PlanLineage:
    """Names and kinds for numbers and bits, within the limit."""
    left = MAX_DEPENDENCIES
    found: dict[int, OutputColumn] = {}
    cache: dict[int, OutputColumn] = {}
    for at, column in sorted(enumerate(relation.columns), key=lambda item: len(item[1].trace.doubts)):
        if len(column.trace.masks) > left:
            reason = f"more than {MAX_DEPENDENCIES:,} dependencies in all"
            found[at] = OutputColumn(column.name, confidence=Confidence.LOW, reason=reason)
            continue
        left -= len(column.trace.masks)
        known = cache.get(id(column.trace))
        if known is None:
            known = cache[id(column.trace)] = _column(ledger, column.trace, loss)
        found[at] = msgspec.structs.replace(known, name=column.name)
    rows = _dependencies(ledger, relation.rows)
    doubts = _reason(relation.rows.doubts)
    return PlanLineage(
        tuple(found[at] for at in range(len(relation.columns))),
        rows[:MAX_DEPENDENCIES],
        "; ".join(text for text in (loss, doubts and f"what decides about rows: {doubts}") if text),
    )


def _column(ledger: Ledger, trace: Trace, loss: str) -> OutputColumn:
    dependencies = _dependencies(ledger, trace)
    confidence = Confidence.HIGH
    if trace.doubts or loss:
        unknown = any(doubt.certainty is Certainty.UNKNOWN for doubt in trace.doubts)
        confidence = Confidence.LOW if unknown else Confidence.MEDIUM
    return OutputColumn(
        "",
        tuple(found for found in dependencies if found.kind.direct),
        tuple(found for found in dependencies if not found.kind.direct),
        confidence,
        "; ".join(text for text in (_reason(trace.doubts), loss) if text),
    )


def _dependencies(ledger: Ledger, trace: Trace) -> tuple[Dependency, ...]:
    return tuple(
        sorted(
            Dependency(*ledger.sources[number], kind) for number, mask in trace.masks.items() for kind in kinds_of(mask)
        )
    )


def _reason(doubts: Iterable[Doubt]) -> str:
    texts = sorted({doubt.reason for doubt in doubts})
    more = [f"{len(texts) - MAX_REASONS} more reasons"] if len(texts) > MAX_REASONS else []
    return "; ".join([*texts[:MAX_REASONS], *more])


# As an event

_TYPES = {
    Kind.IDENTITY: TransformType.DIRECT,
    Kind.TRANSFORMATION: TransformType.EXPRESSION,
    Kind.AGGREGATION: TransformType.AGGREGATE,
    Kind.JOIN: TransformType.JOIN,
    Kind.GROUP_BY: TransformType.GROUP_BY,
    Kind.FILTER: TransformType.FILTER,
    Kind.SORT: TransformType.SORT,
    Kind.WINDOW: TransformType.WINDOW,
    Kind.CONDITIONAL: TransformType.CASE,
}


def column_lineage(
    lineage: PlanLineage,
    parameter: str,
    *,
    source_ids: Mapping[str, str] | None = None,
    target_ids: Mapping[str, str] | None = None,
    max_bytes: int = MAX_EDGE_BYTES,
) -> ColumnLineage:
    """What the edge from one input records: a mapping per column and kind, and what decides about rows.

    Confidence and coverage are those of the whole output, whichever input its columns come from. Ids are those of the
    catalog, by name of the column. A column without a name is left out: nothing could refer to it.
    """
    sources, targets = source_ids or {}, target_ids or {}
    budget = _Budget(max_bytes)
    influences = budget.take(ColumnInfluence(names, kind) for kind, names in _by_type(lineage.rows, parameter, sources))
    named = [column for column in lineage.columns if column.name]
    mappings = budget.take(mapping for column in named for mapping in _mappings(column, parameter, sources, targets))
    unmapped = budget.take(_ref(name, targets) for name in _unmapped(named))
    cut = f"only what fits into {max_bytes:,} bytes is listed" if budget.passed else ""
    nameless = "columns without a name are left out" if _has_nameless(lineage, parameter) else ""
    said = [column.is_said for column in lineage.columns]
    return ColumnLineage(
        capture_method=CaptureMethod.ANNOTATION if any(said) else CaptureMethod.PLAN_INTROSPECTION,
        confidence=lineage.confidence,
        confidence_reason=_confidence_reason(lineage),
        coverage=lineage.coverage,
        mappings=mappings,
        unmapped_columns=unmapped,
        influences=influences or None,
        reason="; ".join(text for text in (lineage.reason, nameless, cut) if text) or None,
    )


def _confidence_reason(lineage: PlanLineage) -> ConfidenceReason:
    said = [column.is_said for column in lineage.columns]
    if any(said):
        return ConfidenceReason.USER_OVERRIDE if all(said) else ConfidenceReason.MIXED
    exact = lineage.confidence is Confidence.HIGH
    return ConfidenceReason.PLAN_INTROSPECTION if exact else ConfidenceReason.MIXED


class _Budget:
    """Bytes of an event that are left."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.passed = False

    def take(self, parts: Iterable[T]) -> tuple[T, ...]:
        """The parts up to the first that does not fit."""
        taken = []
        for part in parts:
            size = len(msgspec.json.encode(part)) + 1
            if size > self._left:
                self.passed = True
                break
            self._left -= size
            taken.append(part)
        return tuple(taken)


def _mappings(
    column: OutputColumn, parameter: str, sources: Mapping[str, str], targets: Mapping[str, str]
) -> Iterable[ColumnMapping]:
    for kind, names in _by_type((*column.direct, *column.indirect), parameter, sources):
        what = TransformType.UNKNOWN if column.is_said else kind
        yield ColumnMapping(_ref(column.name, targets), names, what, column.confidence, column.reason or None)


def _by_type(
    dependencies: Iterable[Dependency], parameter: str, ids: Mapping[str, str]
) -> Iterable[tuple[TransformType, tuple[ColumnRef, ...]]]:
    found: dict[Kind, list[str]] = {}
    for dependency in dependencies:
        if dependency.input == parameter and dependency.column:
            found.setdefault(dependency.kind, []).append(dependency.column)
    for kind in Kind:
        if kind in found:
            yield _TYPES[kind], tuple(_ref(name, ids) for name in found[kind])


def _unmapped(columns: Iterable[OutputColumn]) -> Iterable[str]:
    """Columns of which nothing is known."""
    for column in columns:
        if column.confidence is Confidence.LOW and not column.direct and not column.indirect:
            yield column.name


def _has_nameless(lineage: PlanLineage, parameter: str) -> bool:
    """Whether a column has no name, as that of the index of a table which pandas wrote as CSV."""
    found = [*lineage.rows, *(one for column in lineage.columns for one in (*column.direct, *column.indirect))]
    sources = [dependency.column for dependency in found if dependency.input == parameter]
    return not all((*sources, *(column.name for column in lineage.columns)))


def _ref(name: str, ids: Mapping[str, str]) -> ColumnRef:
    return ColumnRef(name, ids.get(name))

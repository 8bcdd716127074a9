"""Column lineage of an edge: which columns of the source make which column of the target, and how far to trust it.

A column is named with its id where the catalog knows one: the id survives renames, the name is what people read.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

__all__ = [
    "CaptureMethod",
    "ColumnInfluence",
    "ColumnLineage",
    "ColumnMapping",
    "ColumnRef",
    "Confidence",
    "ConfidenceReason",
    "TransformType",
    "annotated",
    "is_stronger",
]


class CaptureMethod(StrEnum):
    ANNOTATION = "annotation"
    STATIC_ANALYSIS = "static_analysis"
    PLAN_INTROSPECTION = "plan_introspection"
    SCHEMA_DIFF = "schema_diff"
    RUNTIME_TRACING = "runtime_tracing"


_STRENGTH: dict[str, int] = {
    CaptureMethod.ANNOTATION: 4,
    CaptureMethod.STATIC_ANALYSIS: 3,
    # The analysed plan is known before the job runs: static analysis by the engine itself.
    CaptureMethod.PLAN_INTROSPECTION: 3,
    CaptureMethod.SCHEMA_DIFF: 2,
    CaptureMethod.RUNTIME_TRACING: 1,
}


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ConfidenceReason(StrEnum):
    SQL_RESOLVED = "sql_resolved"
    SCHEMA_HEURISTIC = "schema_heuristic"
    USER_OVERRIDE = "user_override"
    RUNTIME_VERIFIED = "runtime_verified"
    PLAN_INTROSPECTION = "plan_introspection"
    MIXED = "mixed"


class TransformType(StrEnum):
    DIRECT = "DIRECT"
    AGGREGATE = "AGGREGATE"
    EXPRESSION = "EXPRESSION"
    CASE = "CASE"
    CAST = "CAST"
    WINDOW = "WINDOW"
    JOIN = "JOIN"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    SORT = "SORT"
    UNKNOWN = "UNKNOWN"


class ColumnRef(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    column_id: str | None = None


class ColumnMapping(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    target_column: ColumnRef
    source_columns: tuple[ColumnRef, ...]
    transform_type: TransformType = TransformType.UNKNOWN
    mapping_confidence: Confidence = Confidence.HIGH
    reason: str | None = None
    """Why it is not sure."""


class ColumnInfluence(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Columns of the source that decide which rows the target has, and so about all of its columns."""

    source_columns: tuple[ColumnRef, ...]
    transform_type: TransformType


class ColumnLineage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    capture_method: CaptureMethod
    confidence: Confidence
    confidence_reason: ConfidenceReason
    coverage: Annotated[float, msgspec.Meta(ge=0, le=1)]
    """Which part of the target's columns is mapped with at least medium confidence."""
    mappings: tuple[ColumnMapping, ...]
    unmapped_columns: tuple[ColumnRef, ...] = ()
    influences: tuple[ColumnInfluence, ...] | None = None
    reason: str | None = None
    """What was lost on the way, in words."""


def is_stronger(one: ColumnLineage, other: ColumnLineage) -> bool | None:
    """Which of two captures is to be trusted more; None if the newer one is."""
    mine, theirs = _STRENGTH[one.capture_method], _STRENGTH[other.capture_method]
    return None if mine == theirs else mine > theirs


def annotated(mappings: tuple[ColumnMapping, ...], unmapped: tuple[ColumnRef, ...]) -> ColumnLineage | None:
    """What somebody says by hand; None if nothing. It is as sure as its least sure mapping."""
    if not mappings and not unmapped:
        return None
    sure = [mapping for mapping in mappings if mapping.mapping_confidence != Confidence.LOW]
    order = list(Confidence)
    return ColumnLineage(
        capture_method=CaptureMethod.ANNOTATION,
        confidence=max((mapping.mapping_confidence for mapping in mappings), key=order.index, default=Confidence.LOW),
        confidence_reason=ConfidenceReason.USER_OVERRIDE,
        coverage=len(sure) / (len(mappings) + len(unmapped)),
        mappings=mappings,
        unmapped_columns=unmapped,
    )

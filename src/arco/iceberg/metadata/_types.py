"""Types and transforms as texts, and which transform goes with which type.

A *primitive* is written as text (`long`, `decimal(9,2)`, `geometry(OGC:CRS84)`) and known here by its *kind*
(`decimal`) and its canonical text. A *transform* makes a partition or sort value of a column: `identity`,
`bucket[16]`, `day`. Transforms nobody knows yet are kept; they go with every type.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from arco.core import shown
from arco.iceberg._errors import BadRequest

__all__ = ["MIN_VERSION", "Primitive", "Transform", "can_transform", "parse_primitive", "parse_transform"]

MIN_VERSION = {"timestamp_ns": 3, "variant": 3, "unknown": 3, "geometry": 3, "geography": 3}
"""The table format that brought a kind of type, where it was not there from the start."""

_PLAIN = frozenset(
    (
        *("boolean", "int", "long", "float", "double", "string", "uuid", "binary"),
        *("date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
        *("unknown", "variant", "geometry", "geography"),
    )
)
_KINDS = {"timestamptz": "timestamp", "timestamptz_ns": "timestamp_ns"}
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
_GEOMETRY = re.compile(r"geometry\s*\(\s*([^)]*?)\s*\)", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*\(\s*([^,)]*?)\s*(?:,\s*(\w*)\s*)?\)", re.IGNORECASE)
_EDGES = frozenset(("spherical", "vincenty", "thomas", "andoyer", "karney"))
_CRS = "OGC:CRS84"
_WIDTH = re.compile(r"(\w+)\[(\d{1,10})\]", re.ASCII)
_NAMES = frozenset(("identity", "year", "month", "day", "hour", "void"))
_TIMES = frozenset(("date", "timestamp", "timestamp_ns"))
_BUCKETED = _TIMES | {"int", "long", "time", "string", "binary", "fixed", "decimal", "uuid"}
_TRUNCATED = frozenset(("int", "long", "string", "binary", "decimal"))
_NO_IDENTITY = frozenset(("variant", "geometry", "geography"))


@dataclass(frozen=True, slots=True)
class Primitive:
    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Transform:
    name: str
    """`identity`, `bucket`, …; for one nobody knows, the whole text."""
    text: str

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=4096)
def parse_primitive(text: str) -> Primitive:
    """The primitive a type's text names, or `BadRequest`."""
    lower = text.lower()
    if lower in _PLAIN:
        return Primitive(_KINDS.get(lower, lower), lower)
    if found := _FIXED.fullmatch(lower):
        return Primitive("fixed", f"fixed[{int(found[1])}]")
    if found := _DECIMAL.fullmatch(lower):
        precision, scale = int(found[1]), int(found[2])
        if precision > 38:
            raise BadRequest(f"Decimals with precision larger than 38 are not supported: {precision}")
        return Primitive("decimal", f"decimal({precision}, {scale})")
    if found := _GEOMETRY.fullmatch(text):
        return Primitive("geometry", _geo("geometry", found[1] or _CRS, None))
    if found := _GEOGRAPHY.fullmatch(text):
        edges = (found[2] or "").lower() or None
        if edges is not None and edges not in _EDGES:
            raise BadRequest(f"Invalid edge interpolation algorithm: {found[2]}")
        return Primitive("geography", _geo("geography", found[1] or _CRS, edges))
    raise BadRequest(f"Cannot parse type string to primitive: {shown(text)}")


def _geo(kind: str, crs: str, edges: str | None) -> str:
    if edges is not None:
        return f"{kind}({crs}, {edges})"
    return kind if crs == _CRS else f"{kind}({crs})"


@lru_cache(maxsize=4096)
def parse_transform(text: str) -> Transform:
    """The transform a text names. Any text is one; only a width that cannot be is `BadRequest`."""
    lower = text.lower()
    if lower in _NAMES:
        return Transform(lower, lower)
    found = _WIDTH.fullmatch(lower)
    if found and found[1] in ("bucket", "truncate"):
        width = int(found[2])
        if not 0 < width < 2**31:
            what = "number of buckets" if found[1] == "bucket" else "truncate width"
            raise BadRequest(f"Invalid {what}: {width} (must be > 0)")
        return Transform(found[1], f"{found[1]}[{width}]")
    return Transform(text, text)


def can_transform(transform: Transform, primitive: Primitive) -> bool:
    """Whether the transform goes with this type."""
    match transform.name:
        case "identity":
            return primitive.kind not in _NO_IDENTITY
        case "bucket":
            return primitive.kind in _BUCKETED
        case "truncate":
            return primitive.kind in _TRUNCATED
        case "year" | "month" | "day":
            return primitive.kind in _TIMES
        case "hour":
            return primitive.kind in ("timestamp", "timestamp_ns")
        case _:
            return True

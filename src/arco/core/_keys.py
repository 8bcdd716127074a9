r"""What assets, partitions and dependencies are called, and the ids derived from that.

- `AssetKey`: `namespace.name`, both Servo names.
- `PartitionKey`: dimension name -> scalar, with one canonical text in every language. Keys are equal when their texts
  are; Python's `True == 1` does not make two partitions one.
- `PartitionId`, `EdgeId`, `DependencyFingerprint`: hashes of these. Pure functions, never looked up.

The canonical text of a partition key is `name=tag:value` for each dimension, sorted by name, joined by `,`. The key
without dimensions (an asset that is not partitioned) is the empty text.

    tag  value
    s    text: an RFC 8785 JSON string without its quotes, in which `,` is `\u002c` and `=` is `\u003d`. So `"` and
         `\` have a backslash, U+0008 U+0009 U+000A U+000C U+000D are \b \t \n \f \r, the other controls below
         U+0020 are \u00xx in lower case, and all else, U+007F included, is itself in UTF-8. Text is not normalised:
         two different strings are two different keys. Lone surrogates are refused.
    i    integer of 64 bits, decimal
    b    true or false
    d    date, YYYY-MM-DD
    t    time in UTC, YYYY-MM-DDTHH:MM:SS.ffffffZ
    n    null

The encoding is injective: names have no `=` or `,`, values have neither, and the tag tells the types apart.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final, NewType, Self

from arco.core._canonical import fingerprint, sha256_hex
from arco.core._errors import Invalid
from arco.core._ids import AssetId
from arco.core._names import check_name, shown

__all__ = [
    "AssetKey",
    "DependencyFingerprint",
    "EdgeId",
    "PartitionId",
    "PartitionKey",
    "Scalar",
    "dependency_fingerprint",
    "edge_id",
    "partition_id",
]

Scalar = str | int | bool | date | datetime | None

PartitionId = NewType("PartitionId", str)
EdgeId = NewType("EdgeId", str)
DependencyFingerprint = NewType("DependencyFingerprint", str)

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_HASH_DIGITS: Final = 32
_PLAIN_TYPES: Final = frozenset({str, int, bool, date, datetime, type(None)})
_PLAIN_CURE: Final = "use a plain str, int, bool, date, datetime or None"
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, order=True)
class AssetKey:
    """The name of an asset; it may change, the `AssetId` does not."""

    namespace: str
    name: str

    def __post_init__(self) -> None:
        check_name("asset namespace", self.namespace)
        check_name("asset name", self.name)

    @classmethod
    def parse(cls, text: str) -> Self:
        namespace, dot, name = text.partition(".")
        if not dot:
            raise Invalid(f"{shown(text)} is not an asset key; write it as namespace.name")
        return cls(namespace, name)

    @property
    def canonical(self) -> str:
        return f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return self.canonical


@dataclass(frozen=True, slots=True, init=False)
class PartitionKey:
    """Which part of an asset: scalars by dimension, sorted by name, times in UTC."""

    dimensions: tuple[tuple[str, Scalar], ...] = field(compare=False)
    canonical: str

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        dimensions = tuple((check_name("partition dimension", name), values[name]) for name in sorted(values))
        texts = [f"{name}={_encode(name, value)}" for name, value in dimensions]
        object.__setattr__(self, "dimensions", tuple((name, _normal(value)) for name, value in dimensions))
        object.__setattr__(self, "canonical", ",".join(texts))

    @classmethod
    def empty(cls) -> Self:
        """The key of the only partition of an asset that is not partitioned."""
        return cls({})

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key whose canonical text this is. Any other spelling of the same key is refused."""
        values: dict[str, Scalar] = {}
        for part in text.split(",") if text else ():
            name, _, value = part.partition("=")
            values[name] = _decode(part, value)
        key = cls(values)
        if key.canonical != text:
            raise Invalid(f"{shown(text)} is not canonical; write the key as {shown(key.canonical)}")
        return key

    def to_dict(self) -> dict[str, Scalar]:
        return dict(self.dimensions)

    def __str__(self) -> str:
        return self.canonical


def partition_id(asset_id: AssetId, key: PartitionKey) -> PartitionId:
    """The same for every materialization of the partition. An asset id has no colon, so the joint is unambiguous."""
    return PartitionId(f"part_{sha256_hex(f'{asset_id}:{key.canonical}'.encode())[:_HASH_DIGITS]}")


def dependency_fingerprint(
    source: AssetId, target: AssetId, *, partition_mapping: str, transform: str, parameter: str
) -> DependencyFingerprint:
    """What a dependency means. Two parameters or two mappings between the same assets are two dependencies.

    Mapping, transform and parameter may contain any character, so the parts are hashed as a canonical JSON array.
    """
    return DependencyFingerprint(fingerprint([source, target, partition_mapping, transform, parameter]))


def edge_id(source: AssetId, target: AssetId, dependency: DependencyFingerprint) -> EdgeId:
    """The id of a lineage edge, from the canonical JSON array of its parts."""
    return EdgeId(f"edge_{fingerprint([source, target, dependency])[:_HASH_DIGITS]}")


def _encode(name: str, value: Scalar) -> str:
    """Tag and text of one value.

    Subclasses are refused: they may carry more than their base can write (the nanoseconds of a pandas Timestamp),
    which would make two partitions one.
    """
    kind: type = type(value)
    if kind not in _PLAIN_TYPES:
        cure = "floats do not compare reliably, use text or an integer" if issubclass(kind, float) else _PLAIN_CURE
        raise Invalid(f"partition dimension {name} has a value of type {kind.__name__}; {cure}")
    # A bool is an int and a datetime is a date: the narrower type is asked for first.
    if value is None:
        return "n:null"
    if isinstance(value, bool):
        return "b:true" if value else "b:false"
    if isinstance(value, str):
        return f"s:{_encode_text(name, value)}"
    if isinstance(value, int):
        if not _INT64_MIN <= value <= _INT64_MAX:
            raise Invalid(f"the integer of partition dimension {name} does not fit 64 bits; use text instead")
        return f"i:{value}"
    if isinstance(value, datetime):
        return f"t:{_in_utc(name, value).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return f"d:{value.isoformat()}"


def _encode_text(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"the text of partition dimension {name} has a lone surrogate; send valid Unicode") from None
    return json.dumps(text, ensure_ascii=False)[1:-1].replace(",", "\\u002c").replace("=", "\\u003d")


def _in_utc(name: str, moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise Invalid(f"the time of partition dimension {name} has no offset; attach a time zone such as UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"the time of partition dimension {name} is outside the years 1 to 9999 in UTC") from None


def _normal(value: Scalar) -> Scalar:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _decode(part: str, value: str) -> Scalar:
    tag, _, text = value.partition(":")
    try:
        match tag:
            case "s":
                return str(json.loads(f'"{text}"'))
            case "i":
                return int(text)
            case "b":
                return _BOOLEANS[text]
            case "d":
                return date.fromisoformat(text)
            case "t":
                return datetime.fromisoformat(text)
            case "n" if text == "null":
                return None
    except (ValueError, KeyError):
        pass
    raise Invalid(f"{shown(part)} is not part of a partition key; write it as name=tag:value, tags are s i b d t n")

"""Traces: which columns of the inputs a value depends on, how, and what makes that doubtful.

A dependency has a *kind*. DIRECT kinds say that the value is made of the column: IDENTITY (the same value),
TRANSFORMATION, AGGREGATION (of many rows). INDIRECT kinds say that the column decides which value it is, or which rows
there are: JOIN, GROUP_BY, FILTER, SORT, WINDOW, CONDITIONAL.

Two rules make a trace of traces:

- *Along a path* INDIRECT wins over DIRECT, and of two INDIRECT kinds the one nearer to the output; of two DIRECT kinds
  the stronger (AGGREGATION, TRANSFORMATION, IDENTITY).
- *Over several paths* from one column all INDIRECT kinds count, and the strongest DIRECT one.

Kinds of one column are kept as bits of a number, columns as numbers that the ledger gives them, so that plans with
thousands of columns stay cheap. Traces never change once made and are shared.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

__all__ = ["EMPTY", "Certainty", "Doubt", "Kind", "Ledger", "Source", "Trace", "kinds_of"]


class Kind(StrEnum):
    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    FILTER = "FILTER"
    SORT = "SORT"
    WINDOW = "WINDOW"
    CONDITIONAL = "CONDITIONAL"

    @property
    def direct(self) -> bool:
        return self in _DIRECT


_DIRECT = (Kind.IDENTITY, Kind.TRANSFORMATION, Kind.AGGREGATION)
_BIT = {kind: 1 << index for index, kind in enumerate(Kind)}
_DIRECT_BITS = sum(_BIT[kind] for kind in _DIRECT)


def kinds_of(mask: int) -> tuple[Kind, ...]:
    """What the bits say: at most one DIRECT kind, then the INDIRECT ones."""
    direct = [kind for kind in _DIRECT if mask & _BIT[kind]][-1:]
    return (*direct, *(kind for kind in Kind if kind not in _DIRECT and mask & _BIT[kind]))


def _along(mask: int, kind: Kind) -> int:
    """The kinds of a column after one more step."""
    bit = _BIT[kind]
    if not kind.direct:
        return bit
    direct = mask & _DIRECT_BITS
    # The bits are in the order of strength: everything below the new one gives way to it.
    return (mask & ~_DIRECT_BITS) | (max(1 << direct.bit_length() - 1, bit) if direct else 0)


_ALONG = {kind: [_along(mask, kind) for mask in range(1 << len(Kind))] for kind in Kind}


class Certainty(StrEnum):
    """How far something that is not exact can be trusted."""

    APPROXIMATE = "approximate"
    """The real dependencies are among those listed."""
    UNKNOWN = "unknown"
    """There may be others."""


class Doubt(NamedTuple):
    certainty: Certainty
    reason: str


class Source(NamedTuple):
    """A column of an input."""

    input: str
    column: str


class Trace:
    """What a value depends on."""

    __slots__ = ("_after", "doubts", "fields", "masks")

    def __init__(
        self,
        masks: Mapping[int, int],
        doubts: frozenset[Doubt] = frozenset(),
        fields: "tuple[Trace, ...] | None" = None,
    ) -> None:
        self.masks = masks
        """The bits of the kinds, by number of the source."""
        self.doubts = doubts
        self.fields = fields
        """Of a struct, or of the structs in an array, that was built of columns: what each field depends on."""
        self._after: dict[Kind, Trace] = {}

    def __bool__(self) -> bool:
        return bool(self.masks or self.doubts)

    def same_as(self, other: "Trace") -> bool:
        mine, its = self.fields or (), other.fields or ()
        return (
            self.masks == other.masks
            and self.doubts == other.doubts
            and len(mine) == len(its)
            and all(field.same_as(other) for field, other in zip(mine, its, strict=True))
        )


EMPTY = Trace({})
_TOO_MANY = Trace(
    {}, frozenset({Doubt(Certainty.UNKNOWN, "depends on too many columns in too many ways to list them")})
)

_COMMON = -1
"""The number of a value that is computed once and used several times in one expression (`With`)."""

MAX_STEPS = 2_000_000
"""Dependencies handled in one plan, some tenths of a second a million. More means columns made of thousands of columns
again and again; the answer would be that everything depends on everything."""


class Ledger:
    """The sources of one plan by number, and the work done on it so far."""

    def __init__(self, max_steps: int = MAX_STEPS) -> None:
        self.sources: list[Source] = []
        self._numbers: dict[Source, int] = {}
        self._left = max_steps

    def source(self, source: Source) -> Trace:
        number = self._numbers.setdefault(source, len(self.sources))
        if number == len(self.sources):
            self.sources.append(source)
        return Trace({number: _BIT[Kind.IDENTITY]})

    def after(self, trace: Trace, kind: Kind) -> Trace:
        """The trace of what is made of a value by such a step."""
        if kind is Kind.IDENTITY or (not trace.masks and trace.fields is None):
            return trace
        found = trace._after.get(kind)
        if found is None:
            table = _ALONG[kind]
            masks = {source: table[mask] for source, mask in trace.masks.items()}
            found = trace._after[kind] = Trace(masks, trace.doubts) if self._spend(len(masks)) else _TOO_MANY
        return found

    def merged(self, traces: Iterable[Trace]) -> Trace:
        """The trace of what is made of several values, or of one or another."""
        given = [trace for trace in traces if trace.masks or trace.doubts]
        if len(given) < 2 or all(trace is given[0] for trace in given):
            return given[0] if given else EMPTY
        if not self._spend(sum(len(trace.masks) for trace in given)):
            return _TOO_MANY
        masks = dict(given[0].masks)
        for trace in given[1:]:
            for source, mask in trace.masks.items():
                masks[source] = masks.get(source, 0) | mask
        return Trace(masks, frozenset().union(*(trace.doubts for trace in given)))

    def alike(self, traces: Sequence[Trace], kinds: Sequence[Kind]) -> Trace:
        """The trace of what is one of several values, or consists of such, each by its own kind. Structs stay structs:
        a field is one of the fields at its place, and what else decides decides about each of them."""
        stepped = [self.after(trace, kind) for trace, kind in zip(traces, kinds, strict=True)]
        whole = self.merged(stepped)
        widths = [len(trace.fields or ()) for trace, kind in zip(traces, kinds, strict=True) if kind.direct]
        width = max(widths, default=0)
        if not width:
            return whole
        parts = [self._parts(trace, width, kind) for trace, kind in zip(traces, kinds, strict=True)]
        return Trace(whole.masks, whole.doubts, tuple(self.either(same) for same in zip(*parts, strict=True)))

    def either(self, traces: Iterable[Trace]) -> Trace:
        """The trace of what is one of several values as they are."""
        given = list(traces)
        return self.alike(given, [Kind.IDENTITY] * len(given))

    def _parts(self, trace: Trace, width: int, kind: Kind) -> Sequence[Trace]:
        """What each of so many fields gets of a value after a step."""
        if trace.fields is None or len(trace.fields) != width or not kind.direct:
            return [self.after(self.after(trace, kind), Kind.TRANSFORMATION)] * width
        return [self.alike([field], [kind]) for field in trace.fields]

    def doubted(self, trace: Trace, certainty: Certainty, reason: str) -> Trace:
        fields = trace.fields and tuple(self.doubted(field, certainty, reason) for field in trace.fields)
        return Trace(trace.masks, trace.doubts | {Doubt(certainty, reason)}, fields)

    def common(self) -> Trace:
        """Stands for a value that an enclosing `With` defines."""
        return Trace({_COMMON: _BIT[Kind.IDENTITY]})

    def bound(self, trace: Trace, value: Trace) -> Trace:
        """The trace with the value where `common` stands for it."""
        if _COMMON not in trace.masks:
            return trace
        rest = Trace({source: mask for source, mask in trace.masks.items() if source != _COMMON}, trace.doubts)
        return self.merged([rest, *(self.after(value, kind) for kind in kinds_of(trace.masks[_COMMON]))])

    def _spend(self, steps: int) -> bool:
        """Whether so much more may be done. What is too much for a few wide columns leaves others as they are."""
        if steps > self._left:
            return False
        self._left -= steps
        return True

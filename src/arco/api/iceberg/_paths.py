"""`Paths`: from the path of a request to its operation, segment by segment.

The path is taken as it was sent and each segment is decoded by itself, so that an encoded slash stays part of a name.
A `+` is a space: Iceberg's Java client encodes names as forms do, and no client sends a plus unencoded.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import unquote_plus

__all__ = ["Match", "Paths"]

T = TypeVar("T")


@dataclass
class _Node(Generic[T]):
    named: dict[str, "_Node[T]"] = field(default_factory=dict)
    any: "_Node[T] | None" = None
    parameter: str = ""
    methods: dict[str, T] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match(Generic[T]):
    methods: dict[str, T]
    """What the path can be asked, by method."""
    parameters: dict[str, str]


class Paths(Generic[T]):
    def __init__(self, routes: Iterable[tuple[str, str, T]]) -> None:
        """`routes`: method, path with parameters in braces, and what it leads to."""
        self._root: _Node[T] = _Node()
        for method, path, target in routes:
            node = self._root
            for segment in path.strip("/").split("/"):
                if segment.startswith("{"):
                    node.any = node.any or _Node(parameter=segment[1:-1])
                    node = node.any
                else:
                    node = node.named.setdefault(segment, _Node())
            node.methods[method] = target

    def match(self, raw: bytes) -> Match[T] | None:
        """What a path leads to, if anything. `raw` is without the slash it begins with."""
        node, parameters = self._root, dict[str, str]()
        for part in raw.split(b"/"):
            segment = part.decode("latin-1")
            if "%" in segment or "+" in segment:
                segment = unquote_plus(segment)
            following = node.named.get(segment)
            if following is None:
                following = node.any
                if following is None or not segment:
                    return None
                parameters[following.parameter] = segment
            node = following
        return Match(node.methods, parameters) if node.methods else None

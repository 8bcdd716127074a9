"""`Kept`: finished answers, as many as fit into so many bytes; the ones nobody asked for longest go first."""

from collections import OrderedDict
from collections.abc import Hashable

from starlette.responses import Response

__all__ = ["Kept"]

OVERHEAD = 1_000
"""Bytes of an answer beside its body, about."""


class Kept:
    """Answers are sent as they are, so nobody may change one."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._size = 0
        self._found: OrderedDict[Hashable, Response] = OrderedDict()

    def bytes_held(self) -> int:
        return self._size

    def shed(self) -> None:
        """Keep none of them."""
        self._found.clear()
        self._size = 0

    def get(self, key: Hashable) -> Response | None:
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: Hashable, answer: Response) -> None:
        if len(answer.body) > self._max // 4:
            return  # it would drive out everything else
        before = self._found.pop(key, None)
        self._size += _weight(answer) - (0 if before is None else _weight(before))
        self._found[key] = answer
        while self._size > self._max:
            _, gone = self._found.popitem(last=False)
            self._size -= _weight(gone)


def _weight(answer: Response) -> int:
    return len(answer.body) + OVERHEAD

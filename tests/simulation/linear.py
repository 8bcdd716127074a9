"""Is a history of one name linearizable? Wing and Gong's search, with operations whose outcome is unknown.

A name exists or it does not. `create` needs it absent and makes it exist, `drop` the other way round; a refused one saw
the opposite; `read` saw either. An operation takes effect at one moment between its invocation and its return; one of
unknown outcome at any moment after its invocation, or never.
"""

from dataclasses import dataclass

__all__ = ["NameOp", "is_linearizable"]

FOREVER = 1 << 60


@dataclass(frozen=True)
class NameOp:
    invoked: int
    returned: int
    """`FOREVER` if the outcome is unknown."""
    needs: bool
    """What it must find."""
    leaves: bool
    """What it leaves behind."""

    @classmethod
    def create(cls, invoked: int, returned: int | None, *, done: bool) -> "NameOp":
        end = FOREVER if returned is None else returned
        return cls(invoked, end, False, True) if done else cls(invoked, end, True, True)

    @classmethod
    def drop(cls, invoked: int, returned: int | None, *, done: bool) -> "NameOp":
        end = FOREVER if returned is None else returned
        return cls(invoked, end, True, False) if done else cls(invoked, end, False, False)

    @classmethod
    def read(cls, invoked: int, returned: int, *, found: bool) -> "NameOp":
        return cls(invoked, returned, found, found)


def is_linearizable(history: list[NameOp], initially: bool = False) -> bool:
    """Whether some order explains all answers: depth first over sets of operations that have taken effect."""
    ops = sorted(history, key=lambda op: (op.invoked, op.returned))
    settled = sum(1 << i for i, op in enumerate(ops) if op.returned < FOREVER)
    seen: set[tuple[int, bool]] = set()
    stack = [(0, initially)]
    while stack:
        done, exists = stack.pop()
        if done & settled == settled:
            return True
        if (done, exists) in seen:
            continue
        seen.add((done, exists))
        # Nothing may take effect after an operation that has returned has not: the earliest such return bounds all.
        bound = min(op.returned for i, op in enumerate(ops) if not done >> i & 1)
        for i, op in enumerate(ops):
            if op.invoked > bound:
                break
            if not done >> i & 1 and op.needs == exists:
                stack.append((done | 1 << i, op.leaves))
    return False

"""What the log needs of the state, as a port: `state` implements it, `log` never imports `state`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from arco.log._event import Command, Event, NewEvent, Receipt
from arco.log._segment import Link, Segment

__all__ = ["Draft", "Fold"]


class Fold(Protocol):
    """The state of one log, folded through the segment `link` names."""

    @property
    def link(self) -> Link: ...

    @property
    def versions(self) -> Mapping[str, int]:
        """Fold version of each domain."""
        ...

    def skipped(self) -> str | None:
        """Why validations on this state cannot be trusted: an event type that was skipped. None if they can."""
        ...

    async def apply(self, segments: Sequence[tuple[Segment, Link]]) -> None:
        """Fold the segments that follow, in order; all of them or, on an error, none."""
        ...

    def draft(self) -> "Draft":
        """The state with room for what is not yet appended."""
        ...


class Draft(Protocol):
    """A state under trial: the fold plus the earlier members of a group. Dropped after the group is settled."""

    async def find(self, command: Command) -> Receipt | None:
        """The receipt if this operation or request key was carried out before.

        Raises `Conflict` if the key was used for another request.
        """
        ...

    async def decide(self, command: Command, received: int) -> Sequence[NewEvent]:
        """The events a command leads to here, or `Refused`/`Invalid`."""
        ...

    async def stage(self, number: int, index: int, events: Sequence[Event], received: int) -> None:
        """Let later members see these events, which will stand in segment `number` from `index` on."""
        ...

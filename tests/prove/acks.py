"""Acknowledgements: what a worker was told, written to its own file and synced before it goes on.

One line per answer. A worker that is killed leaves at most its last line torn, and what it was told there it could not
pass on either, so such a line counts for nothing.
"""

import os
from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["Ack", "AckFile", "read_acks"]


class Ack(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Literal["recorded", "repeating", "repeated", "claimed", "refused", "unknown", "collected", "trouble"]
    """`repeating`, `repeated`: facts that stand in the log already, before and after they are told once more.
    `unknown`: it may or may not have happened."""
    first: int = 0
    last: int = 0
    ids: tuple[str, ...] = ()
    """Materializations in the order of their events, or the one namespace."""
    name: str = ""
    """The claimed name, or what went wrong."""
    count: int = 0


class AckFile:
    def __init__(self, folder: Path, worker: str) -> None:
        self._file = os.open(folder / f"{worker}-{os.getpid()}.acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, ack: Ack) -> None:
        os.write(self._file, msgspec.json.encode(ack) + b"\n")
        os.fsync(self._file)


def read_acks(folder: Path) -> list[Ack]:
    """Everything that any worker was told, from all its lives."""
    lines = [line for path in sorted(folder.glob("*.acks")) for line in path.read_bytes().split(b"\n")[:-1]]
    return [msgspec.json.decode(line, type=Ack) for line in lines]

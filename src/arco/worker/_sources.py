"""Files of others that a task reads: which there are, and whether they are still the same when it is done.

They are looked up once for a task and read as they were found. When the result is there they are looked up again: if
somebody changed them meanwhile nobody can say what was read, so the attempt fails and may be tried again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from arco.assets import file_pattern
from arco.core import LostObject, PartitionKey
from arco.spark._errors import FilesChanged
from arco.spark._files import FoundFile, Part, data_version
from arco.worker._messages import InputPin, InputValue, ReadFiles

__all__ = ["FilesMissing", "SourceFiles"]

MAX_NAMES: Final = 20
"""Files that are told by name, over all partitions that one task reads."""

Listed = Callable[[str], list[tuple[str, int, int]]]


class FilesMissing(LostObject):
    """Files that others bring are not there, so no run can make them."""


class SourceFiles:
    """What one task, or one plan for several, reads of others."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed
        self._found: dict[tuple[str, str], tuple[FoundFile, ...]] = {}
        """By asset and partition."""
        self.read: dict[str, Any] = {}
        """By parameter, for errors: the asset, its source, its columns and parts."""

    def parts(self, given: InputValue) -> list[Part]:
        """The partitions of a source that have files; at least one."""
        assert given.source is not None
        found = []
        for pin in given.pins:
            key = (given.asset_id, pin.partition_id)
            if key not in self._found:
                self._found[key] = self._look(given, pin)
            found.append(Part(PartitionKey.parse(pin.partition_key), self._found[key]))
        there = [part for part in found if part.files]
        if not there:
            wanted = ", ".join(file_pattern(given.source, part.key).text for part in found[:3]) or given.source.path
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise FilesMissing(
                f"no file of {given.asset_key} is there: {wanted}{more}; wait for it, or correct the path"
            )
        self.read[given.parameter] = (given.asset_key, given.source, given.columns, there)
        return there

    def reports(self, inputs: Sequence[InputValue]) -> Iterator[ReadFiles]:
        """What was read of these inputs; `FilesChanged` if that cannot be said any more."""
        names = MAX_NAMES
        for given in inputs:
            for pin in given.pins if given.source is not None else ():
                files = self._found[(given.asset_id, pin.partition_id)]
                if self._look(given, pin) != files:
                    raise FilesChanged(
                        f"files of {given.asset_key} were written while they were read; run it again when that is done"
                    )
                told = tuple(file.path.rsplit("/", 1)[-1] for file in files[:names])
                names -= len(told)
                size = sum(file.size_bytes for file in files)
                yield ReadFiles(given.parameter, pin.partition_id, data_version(files), len(files), size, told)

    def _look(self, given: InputValue, pin: InputPin) -> tuple[FoundFile, ...]:
        assert given.source is not None
        pattern = file_pattern(given.source, PartitionKey.parse(pin.partition_key))
        return tuple(FoundFile(*one) for one in self._listed(pattern.folder) if pattern.has(one[0]))

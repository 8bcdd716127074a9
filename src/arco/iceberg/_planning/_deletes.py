"""Which delete files apply to a data file, by Iceberg's rules.

- Deletion vectors: to the file they reference; positional deletes of it do not apply any more then.
- Positional deletes: to the file they reference, or to those of their partition, written with them or before.
- Equality deletes: to files of their partition, or to all if their spec is unpartitioned, that are older than they are.

More than needed is allowed (readers apply what matches), less is not.
"""

from collections import defaultdict
from collections.abc import Iterable

from arco.iceberg._planning._manifests import EQUALITY_DELETES, File
from arco.iceberg._planning._types import Value

__all__ = ["Deletes"]

_Partition = tuple[int, tuple[Value | None, ...]]


class Deletes:
    """An index of a snapshot's delete files."""

    def __init__(self, files: Iterable[File]) -> None:
        self._vectors: dict[str, File] = {}
        self._by_path: dict[str, list[File]] = defaultdict(list)
        self._by_partition: dict[_Partition, list[File]] = defaultdict(list)
        self._equality: dict[_Partition, list[File]] = defaultdict(list)
        self._everywhere: list[File] = []
        for file in files:
            self._add(file)

    def _add(self, file: File) -> None:
        where = (file.spec.id, file.partition)
        if file.content == EQUALITY_DELETES:
            (self._everywhere if file.spec.unpartitioned else self._equality[where]).append(file)
        elif (path := file.referenced) is None:
            self._by_partition[where].append(file)
        elif file.format == "puffin":
            self._vectors[path] = file
        else:
            self._by_path[path].append(file)

    def of(self, file: File) -> list[File]:
        """Those that apply to a data file."""
        where = (file.spec.id, file.partition)
        number = file.sequence_number
        found = [one for one in (*self._everywhere, *self._equality.get(where, ())) if one.sequence_number > number]
        if vector := self._vectors.get(file.path):
            return [*found, vector]
        positional = (*self._by_partition.get(where, ()), *self._by_path.get(file.path, ()))
        return [*found, *(one for one in positional if one.sequence_number >= number)]

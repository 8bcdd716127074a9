"""Bounds of columns that a worker kept to itself, because a secret stands in them.

A footer has them all the same. So whoever reads a footer again (statistics refresh, compaction) tells of a column no
bounds that were withheld for a file of the same version, and none that look like a credential.
"""

from collections.abc import Iterable

import msgspec

from arco.domains.execution import ColumnStats, DataFile
from arco.log import find_secret

__all__ = ["without_withheld"]


def without_withheld(stats: Iterable[ColumnStats], told: Iterable[DataFile]) -> tuple[ColumnStats, ...]:
    """Statistics out of a footer, as they may be told beside those of `told`, the files of the same version."""
    withheld = {
        stat.column
        for file in told
        for stat in file.stats
        if (stat.min is None or stat.max is None) and stat.null_count < file.row_count
    }
    return tuple(
        msgspec.structs.replace(stat, min=None, max=None)
        if stat.column in withheld or find_secret([stat.min, stat.max])
        else stat
        for stat in stats
    )

"""What an external asset says of its files, as a frozen value."""

from collections.abc import Mapping
from typing import Any

from arco.assets import CorruptRecords, Source, SourceFormat
from arco.core import shown
from arco.sdk._where import Where

__all__ = ["source_of"]


def source_of(where: Where, path: str, format: str, options: Mapping[str, Any] | None, corrupt: str) -> Source | None:
    """The source that the arguments of `external_asset` name; None if they name none."""
    if not path:
        if format or options or corrupt != CorruptRecords.FAIL:
            where.refuse("format, options or corrupt are given without a path", "give path=, or remove them")
        return None
    if format not in set(SourceFormat):
        said = f"there is no format {shown(str(format))}" if format else "the files have no format"
        where.refuse(said, f"write format={' or '.join(repr(str(one)) for one in SourceFormat)}")
    if corrupt not in set(CorruptRecords):
        where.refuse(f"corrupt is {shown(str(corrupt))}", f"use {', '.join(CorruptRecords)}")
    written: dict[str, str] = {}
    for name, value in (options or {}).items():
        if not isinstance(value, str | bool | int | float):
            where.refuse(
                f"the option {shown(str(name))} is of no type that Spark takes", "use text, numbers, True, False"
            )
        written[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return Source(path, SourceFormat(format), dict(sorted(written.items())), CorruptRecords(corrupt))

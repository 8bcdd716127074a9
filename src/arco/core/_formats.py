"""Versions of stored formats: whoever meets a newer one than it knows says "upgrade", never "corrupt", and changes
nothing. Which formats there are, and the newest of each, stands in `arco.cli._formats`."""

import msgspec

from arco.core._errors import Outdated

__all__ = ["check_format", "format_in"]


def check_format(kind: str, version: int, known: int, path: str) -> None:
    """`Outdated` if an object was written by a newer program."""
    if version > known:
        raise Outdated(
            f"{path} has {kind} format {version}, this program knows {known}; upgrade arco. Nothing was changed",
            path=path,
        )


def format_in(data: bytes) -> int:
    """The `format` of a JSON document that may not decode otherwise; 0 if it tells none."""
    try:
        version = msgspec.json.decode(data)["format"]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        return 0
    return version if type(version) is int else 0

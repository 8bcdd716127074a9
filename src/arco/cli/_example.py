"""The example: a small shop's pipeline on Spark, which `arco init --example` writes and `make demo` carries out.

Its files are data of this package, in `example/`, and are written as they are.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from arco.cli._open import CONFIG_NAME
from arco.core import Refused, StoreRefused

__all__ = ["check_empty", "write_example"]

LISTED: Final = 3


def check_empty(folder: Path) -> None:
    """`Refused` if anything is in a folder that an example could be mixed up with: not what is hidden, or settings."""
    found = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != CONFIG_NAME)
    if found:
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        raise Refused(
            f"the folder {folder} is not empty: it has {', '.join(found[:LISTED])}{more}; give the example one of its "
            "own: mkdir shop && cd shop && arco init --example"
        )


def write_example(folder: Path) -> list[str]:
    """Write the example's files into a folder; their names."""
    sources = sorted(_files(), key=lambda source: source.name)
    try:
        for source in sources:
            (folder / source.name).write_bytes(source.read_bytes())
    except OSError as error:
        raise StoreRefused(f"the example cannot be written to {folder}: {error.strerror or error}") from error
    return [source.name for source in sources]


def _files() -> list[Traversable]:
    return [file for file in files("arco.cli").joinpath("example").iterdir() if file.name.endswith((".py", ".md"))]

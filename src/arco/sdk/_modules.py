"""The files of a project: which ones belong to it, and under which names they are imported.

Everything below the project's folder does, but for what is hidden, virtual environments, caches, links, logs, and what
this very command says, if its output goes to a file there. Modules are named from the folder itself, those below `src/`
from there; tests are none.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from arco.core import Invalid

__all__ = ["Module", "add_to_path", "module_of", "project_files", "project_modules"]

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_SKIPPED_ENDINGS = (".pyc", ".pyo", ".log")
_MADE_FOLDERS = frozenset({"build", "dist"})
"""What packaging tools leave behind, unless it is a package of that name."""
_TESTS = frozenset({"tests", "test"})
_NOT_IMPORTED = frozenset({"setup.py", "conftest.py"})
_FILES_MAX = 100_000

Module = tuple[str, Path]
"""Its name and its file."""


def project_files(directory: Path) -> Iterator[Path]:
    """All files of a project, sorted. Links are left out: what they point to may not be part of it."""
    count, own = 0, _own_output()
    for root, folders, names in os.walk(directory, followlinks=False):
        here = Path(root)
        folders[:] = sorted(name for name in folders if not _is_skipped(here / name))
        for name in sorted(names):
            path = here / name
            if name.startswith(".") or name.endswith(_SKIPPED_ENDINGS) or path.is_symlink() or not path.is_file():
                continue
            if own and _identity(path) in own:
                continue
            count += 1
            if count > _FILES_MAX:
                raise Invalid(f"the project has more than {_FILES_MAX:,} files; give the folder that has the pipelines")
            yield path


def _own_output() -> set[tuple[int, int] | None]:
    """The files that standard output and standard error go to. They grow while the project is read."""
    return {_identity(number) for number in (1, 2)} - {None}


def _identity(file: int | Path) -> tuple[int, int] | None:
    """What tells a plain file from all others; None if it is no such file, or gone."""
    try:
        about = os.stat(file)
    except OSError:
        return None
    return (about.st_dev, about.st_ino) if stat.S_ISREG(about.st_mode) else None


def project_modules(directory: Path) -> list[Module]:
    """The modules that may define assets, sorted by name."""
    modules = []
    for path in project_files(directory):
        parts = path.relative_to(directory).parts
        if path.suffix != ".py" or _TESTS & set(parts[:-1]) or path.name in _NOT_IMPORTED:
            continue
        if not path.name.startswith("test_"):
            modules.append((module_of(directory, path), path))
    return sorted(module for module in modules if module[0])


def module_of(directory: Path, path: Path) -> str:
    """The name under which a file is imported; empty if it has none."""
    parts = list(path.relative_to(directory).with_suffix("").parts)
    if parts[0] == "src" and _has_sources(directory):
        parts = parts[1:]
    if parts and parts[-1] == "__init__":
        parts = parts[:-1]
    return "" if any("." in part for part in parts) or parts[-1:] == ["__main__"] else ".".join(parts)


def add_to_path(directory: Path) -> None:
    """Let the project's modules be imported, before any other of the same name."""
    folders = [str(directory), *([str(directory / "src")] if _has_sources(directory) else [])]
    sys.path[:] = [*reversed(folders), *(entry for entry in sys.path if entry not in folders)]


def _has_sources(directory: Path) -> bool:
    return (directory / "src").is_dir() and not (directory / "src" / "__init__.py").exists()


def _is_skipped(folder: Path) -> bool:
    return (
        folder.name.startswith(".")
        or folder.name in _SKIPPED_FOLDERS
        or (folder.name in _MADE_FOLDERS and not (folder / "__init__.py").exists())
        or folder.name.endswith(".egg-info")
        or folder.is_symlink()
        or (folder / "pyvenv.cfg").exists()
    )

"""Small rules about paths that several stores share: folders to list, and names a listing may show."""

from arco.core import Invalid
from arco.storage._store import check_path

__all__ = ["below", "check_folder", "is_nameable"]


def check_folder(prefix: str) -> str:
    """The folder itself if it is safe to list; the empty text is the whole store."""
    return check_path(prefix) if prefix else prefix


def below(folder: str, path: str) -> str:
    """The path of what is called `path` inside `folder`."""
    return f"{folder}/{path}" if folder and path else folder or path


def is_nameable(path: str) -> bool:
    """Whether any call can name this path. No list shows foreign files, which could not be read or deleted."""
    try:
        check_path(path)
    except Invalid:
        return False
    return True

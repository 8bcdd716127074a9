"""Packing code: a project as one archive, the same bytes for the same files wherever it is made, named by its hash.

Entries are not compressed: compressed bytes depend on the library that made them, and an archive that cannot grow when
it is unpacked is no bomb. Unpacking trusts nothing, for an archive may come from elsewhere: no entry may leave the
target or be a link.
"""

import stat
import zipfile
from io import BytesIO
from pathlib import Path, PurePosixPath

from arco.core import Corrupt, Invalid, TooLarge, sha256_hex, shown
from arco.sdk._modules import project_files

__all__ = ["CODE_MAX", "code_name", "pack_code", "unpack_code"]

CODE_MAX = 64 * 1024 * 1024
"""Bytes of an archive."""

_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644
_UNIX = 3


def pack_code(directory: str | Path) -> bytes:
    """The files of a project as an archive. Names, contents and nothing else decide about its bytes."""
    root = Path(directory).resolve()
    if not root.is_dir():
        raise Invalid(f"{shown(str(directory))} is no folder; give the one that has the pipelines")
    entries = sorted((path.relative_to(root).as_posix(), path) for path in project_files(root))
    if sum(path.stat().st_size for _, path in entries) > CODE_MAX:
        raise _too_large(root, entries)
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, path in entries:
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system = _UNIX
            info.external_attr = _MODE << 16
            archive.writestr(info, path.read_bytes())
    data = target.getvalue()
    if len(data) > CODE_MAX:
        raise _too_large(root, entries)
    return data


def unpack_code(data: bytes, target: str | Path) -> None:
    """Write the files of an archive below a folder, which is made. If anything is wrong with it, nothing is written."""
    if len(data) > CODE_MAX:
        raise TooLarge(f"the code archive has {len(data):,} bytes; at most {CODE_MAX:,} are read")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_entries(entries, len(data))
            contents = [archive.read(entry) for entry in entries]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, UnicodeError) as error:
        raise Corrupt("the code archive cannot be read; deploy the project again") from error
    root = Path(target)
    root.mkdir(parents=True, exist_ok=True)
    for entry, content in zip(entries, contents, strict=True):
        path = root.joinpath(*entry.filename.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def code_name(data: bytes) -> str:
    """The name of an archive: the hash of its bytes."""
    return sha256_hex(data)


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    seen: set[str] = set()
    folders: set[str] = set()
    for entry in entries:
        parts = entry.filename.split("/")
        if {"", ".", ".."} & set(parts) or "\\" in entry.filename or ":" in entry.filename:
            raise Corrupt(f"the code archive has the file {shown(entry.filename)}, which is outside its folder")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG) or entry.is_dir():
            raise Corrupt(f"the code archive has {shown(entry.filename)}, which is no plain file")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise Corrupt(f"the code archive has {shown(entry.filename)} compressed; it was not made by Arco")
        if entry.filename in seen:
            raise Corrupt(f"the code archive has {shown(entry.filename)} twice")
        seen.add(entry.filename)
        folders |= {str(parent) for parent in PurePosixPath(entry.filename).parents}
    if clash := sorted(seen & folders):
        raise Corrupt(f"the code archive has {shown(clash[0])} as a file and as a folder")
    if sum(entry.file_size for entry in entries) > size:
        raise Corrupt("the files of the code archive are larger than it; it was not made by Arco")


def _too_large(root: Path, entries: list[tuple[str, Path]]) -> TooLarge:
    largest = sorted(entries, key=lambda entry: entry[1].stat().st_size, reverse=True)[:3]
    names = ", ".join(f"{name} ({path.stat().st_size:,} bytes)" for name, path in largest)
    return TooLarge(
        f"the project packs to more than {CODE_MAX:,} bytes; move data out of {root.name}, the largest are {names}"
    )

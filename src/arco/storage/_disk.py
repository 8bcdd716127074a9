"""What `LocalStore` asks of the operating system: files that are whole or not there, and errors in a store's words."""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from arco.core import ArcoError, Corrupt, Invalid, StoreRefused
from arco.storage._paths import below, is_nameable
from arco.storage._store import ObjectExists, ObjectInfo, ObjectMissing, StoreFailed

__all__ = [
    "full_sync",
    "info_of",
    "is_object",
    "link",
    "new_file",
    "read_file",
    "read_range",
    "scan_folder",
    "size_of",
    "sweep",
    "translate",
    "translated",
]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}
# fsync on macOS leaves the data in the drive's own cache.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


@contextlib.contextmanager
def translated(path: str, doing: str) -> Iterator[None]:
    """Turn what the operating system says into what a store says."""
    try:
        yield
    except OSError as error:
        raise translate(error, path, doing) from error


def translate(error: OSError, path: str, doing: str) -> ArcoError:
    code, reason = error.errno, error.strerror
    if doing == "write":
        if code in _FULL:
            return StoreRefused(
                f"the disk is full, {path} was not written ({reason}); free space and try again, nothing acknowledged "
                "is lost",
                path=path,
            )
        if code in (errno.ENOTDIR, errno.EISDIR):
            return Invalid(f"{path} would be both an object and a folder; choose another name", path=path)
    elif code in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        return ObjectMissing(path)
    if code in _FORBIDDEN:
        return StoreRefused(
            f"this process may not {doing} {path} ({reason}); give its user the right, or mount the disk for writing",
            path=path,
        )
    if code == errno.ELOOP:
        return StoreRefused(f"{path} is a symbolic link; remove it", path=path)
    if code == errno.ENAMETOOLONG:
        return Invalid(f"{path} has a name too long for this disk; shorten it", path=path)
    return StoreFailed(f"the disk could not {doing} {path}: {reason}", path=path)


def link(temporary: str, file: str, path: str) -> None:
    try:
        os.link(temporary, file)
    except OSError as error:
        if os.stat(temporary).st_nlink == 2:
            return
        if error.errno == errno.EEXIST:
            if os.path.isdir(file):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file) from error
            raise ObjectExists(path) from error
        if error.errno in _NO_LINKS:
            raise StoreRefused(
                f"{path} cannot be created: this file system has no hard links ({error.strerror}), which decide who "
                "creates an object; use one that has (ext4, xfs, btrfs, apfs, nfs), or a bucket",
                path=path,
            ) from error
        raise


def new_file(name: str, data: bytes) -> int:
    """Write a file where none is and sync it; its time, in nanoseconds. Nothing is left of one that fails."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            full_sync(descriptor)
            return os.fstat(descriptor).st_mtime_ns
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def full_sync(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)


def size_of(file: str, path: str) -> int:
    return info_of(path, os.stat(file, follow_symlinks=False)).size


def is_object(file: str, path: str) -> bool:
    """Whether what is there is no folder; a symbolic link is refused."""
    try:
        info_of(path, os.stat(file, follow_symlinks=False))
    except ObjectMissing:
        return False
    return True


def info_of(path: str, found: os.stat_result) -> ObjectInfo:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not stat.S_ISREG(found.st_mode):
        raise ObjectMissing(path)
    return ObjectInfo(path, found.st_size, found.st_mtime_ns // 1_000)


def read_file(file: str) -> bytes:
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
        return opened.read()


def read_range(path: str, file: str, offset: int, length: int) -> bytes:
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if offset + length > size:
            raise Corrupt(f"{path} ends at {size}, before {offset + length}; run `arco doctor`", path=path)
        opened.seek(offset)
        return opened.read(length)


def scan_folder(folder: str, path: str) -> tuple[tuple[ObjectInfo, ...], tuple[str, ...]]:
    """The objects of one folder and the folders in it; nothing for a folder that is not there."""
    objects: list[ObjectInfo] = []
    folders: list[str] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = below(path, entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
            elif entry.is_file(follow_symlinks=False) and is_nameable(name):
                with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                    objects.append(info_of(name, entry.stat(follow_symlinks=False)))
    return tuple(objects), tuple(folders)


def sweep(folder: str, before_ns: int) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime_ns < before_ns:
                    os.unlink(entry.path)

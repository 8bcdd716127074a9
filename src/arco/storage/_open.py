"""`open_store`: from a URL and options to a `Store`.

    /path/to/folder, file:///path/to/folder   local disk
    memory://name                             this process's memory, shared by all who open the same name
    s3://bucket/prefix                        S3, or a server that speaks its protocol
    az://container/prefix                     Azure Blob Storage
    gs://bucket/prefix                        Google Cloud Storage

Secrets are options, never parts of a URL: URLs are printed and logged.
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from arco.core import Clock, Invalid
from arco.storage._buckets import azure_store, gcs_store, s3_store
from arco.storage._local import LocalStore
from arco.storage._memory import MemoryStore
from arco.storage._signing import LocalSigner
from arco.storage._store import Store

__all__ = ["open_store"]

_SCHEMES = "a path, file://, memory://, s3://, az:// and gs://"
_memories: dict[str, MemoryStore] = {}


def open_store(url: str, options: Mapping[str, str | bool] | None = None, *, clock: Clock | None = None) -> Store:
    """The store that a URL names. `clock` is for stores without one of their own: memory, and signing on local disk."""
    options = options or {}
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _open_local(url, options, clock)
    if scheme == "file":
        return _open_local(rest, options, clock)
    if scheme == "memory":
        _check_options(scheme, options, ())
        return _memories.setdefault(_check_memory(rest), MemoryStore(clock))
    if scheme == "s3":
        return s3_store(*_place(url), options)
    if scheme == "az":
        return azure_store(*_place(url), options)
    if scheme == "gs":
        return gcs_store(*_place(url), options)
    raise Invalid(f"a store's URL cannot start with {scheme!r}://; it is {_SCHEMES}")


def _open_local(path: str, options: Mapping[str, str | bool], clock: Clock | None) -> LocalStore:
    _check_options("file", options, ("signing_secret", "signing_url"))
    if not path or "\0" in path:
        raise Invalid("a store on local disk needs the path of a folder")
    root = os.path.expanduser(path)
    if not options:
        return LocalStore(root)
    if len(options) < 2 or clock is None:
        raise Invalid("to sign URLs, local disk needs both signing_secret and signing_url, and a clock")
    secret, base_url = str(options["signing_secret"]), str(options["signing_url"])
    return LocalStore(root, signer=LocalSigner(secret.encode(), base_url, clock))


def _check_memory(name: str) -> str:
    if not name or not name.replace("-", "").replace("_", "").isalnum():
        raise Invalid("a store in memory is named by letters, digits, - and _, such as memory://test")
    return name


def _place(url: str) -> tuple[str, str]:
    """Bucket and prefix of a URL that has nothing else in it. The message does not repeat it: it may hold a secret."""
    parts = urlsplit(url)
    if "@" in url:
        raise Invalid("a store's URL must not hold a user or password; pass them as options")
    if parts.query or parts.fragment or ":" in parts.netloc:
        raise Invalid("a store's URL is only scheme://bucket/prefix; pass everything else as options")
    return parts.netloc, parts.path.strip("/")


def _check_options(scheme: str, options: Mapping[str, str | bool], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            raise Invalid(f"{scheme}:// has no option {name!r}; it has {', '.join(known) or 'none'}")

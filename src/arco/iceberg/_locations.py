"""Locations: URLs that engines and Arco name files by, and which of them a warehouse lets be used.

A *location* is written as its engine writes it (`s3://`, `s3a://`, `abfss://`, `file:/`, `file:///`) and kept so; two
texts of one place are compared by their *place*: scheme family, authority, account and path. A container of Azure
belongs to an *account*, which `abfss://` names and `az://` does not: there it is the one that the store's options name.
A warehouse has its own folder in the workspace's store, where tables lie that nobody placed elsewhere. Other places
must be below one of its *allowed* URLs, and none of them may lie in the store or hold it: a table whose location is or
contains another workspace's log would let its writer destroy it. Where nothing is allowed, the default, only the
warehouse's own folder can be used.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

from arco.core import Forbidden, Invalid, TooLarge, Unavailable, shown
from arco.iceberg._errors import BadRequest, MetadataMissing
from arco.storage import Glance, ObjectExists, ObjectMissing, Store, StoreFailed, check_path, glance_at, put_new

__all__ = ["FOLDER", "MAX_METADATA", "Locations", "MetadataFiles", "Place", "account_of", "is_near", "parse_location"]

FOLDER = "warehouse"
"""The warehouse's own folder, relative to the workspace."""

MAX_METADATA = 64 << 20
"""Bytes of a metadata file: every commit reads one and writes one."""

ATTEMPTS = 4
_URL = re.compile(r"([a-z][a-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)
_FAMILY = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss", "az": "abfss"}
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a location is, whatever its spelling."""

    scheme: str
    authority: str
    path: str
    """Without slashes at its ends."""
    account: str = ""
    """Of Azure: the host of the account, such as `acme.dfs.core.windows.net`; empty if nobody says which it is."""

    def holds(self, other: "Place") -> bool:
        """Whether the other place is this one or lies below it."""
        same = (self.scheme, self.authority, self.account) == (other.scheme, other.authority, other.account)
        return same and (not self.path or f"{other.path}/".startswith(f"{self.path}/"))

    @property
    def url(self) -> str:
        """As a store is opened by it, however engines spell it: `file:/tmp` would be a folder named `file:`. Which
        account it is opened in is an option."""
        scheme = "az" if self.scheme == "abfss" else self.scheme
        rest = f"/{self.path}" if self.path or scheme == "file" else ""
        return f"{scheme}://{self.authority}{rest}"


class MetadataFiles(Protocol):
    """Metadata documents by their location."""

    async def read(self, location: str) -> bytes:
        """The document. `MetadataMissing` if it is not there."""
        ...

    async def create(self, location: str, data: bytes) -> None:
        """Write a document under a name that nobody knows yet. The same bytes again are no error."""
        ...

    async def exists(self, location: str) -> bool: ...

    def glance(self, location: str) -> Glance | None:
        """A look whether it is there; None where looking takes long."""
        ...


@lru_cache(maxsize=8192)
def parse_location(text: str, account: str = "") -> Place:
    """The place a URL names, or `BadRequest`. Nothing in it may mean another place than it seems to. `account` is the
    one of Azure that is meant where the URL names none."""
    if text.startswith("/"):
        text = f"file:{text}"
    found = _URL.fullmatch(text)
    if found is None:
        raise BadRequest(f"the location {shown(text)} is not a URL such as s3://bucket/folder or file:///folder")
    scheme = _FAMILY.get(found[1], found[1])
    authority, path = found[2] or "", (found[3] or "").strip("/")
    try:
        if path:  # a whole bucket has none
            check_path(path)
    except Invalid as error:
        raise BadRequest(f"the location {shown(text)} cannot be used: {error.message}") from None
    if scheme == "file" and authority == "localhost":
        authority = ""
    if "@" in authority and scheme != "abfss":
        raise BadRequest("a location must not hold a user or password")
    if scheme != "abfss":
        return Place(scheme, authority, path)
    container, _, host = authority.partition("@")
    return Place(scheme, container, path, _account(host) or account)


def _account(host: str) -> str:
    """An account answers under two names, one for blobs and one for directories."""
    return host.lower().replace(".blob.", ".dfs.", 1)


def account_of(options: Mapping[str, str | bool]) -> str:
    """The account of Azure that options of a store name; empty if they name none."""
    name = str(options.get("account_name") or "")
    endpoint = urlsplit(str(options.get("endpoint") or "")).hostname or ""
    if not name or endpoint.startswith(f"{name}."):
        return _account(endpoint) if name else ""
    return f"{name}.dfs.core.windows.net"


def is_near(location: str) -> bool:
    """Whether a file lies on a disk, where looking for it takes microseconds."""
    return parse_location(location).scheme == "file"


class Locations:
    """The places of one warehouse, and the metadata files in them.

    What reads or writes files takes locations that are stored, or were checked: another one is `Forbidden`.
    """

    def __init__(
        self,
        store: Store,
        root: str,
        workspace: str,
        *,
        allowed: Iterable[str] = (),
        open_outside: Callable[[Place], Store] | None = None,
        account: str = "",
    ) -> None:
        """`store` is the workspace's (role iceberg), `root` the URL of the whole store and `workspace` the folder of
        the workspace in it. `open_outside` opens a store at an allowed place. `account` is the one of Azure that URLs
        without one mean."""
        self._store = store
        self.workspace_url = f"{root.rstrip('/')}/{workspace}"
        self.url = f"{self.workspace_url}/{FOLDER}"
        self._account = account
        self._root = self._place(root)
        self._own = self._place(self.url)
        self._allowed = tuple(self._place(url) for url in allowed)
        self._open_outside = open_outside
        self._outside: dict[Place, Store] = {}

    def new_table(self, table_id: str, folder: str | None = None) -> str:
        """Where a table lies that nobody placed: in the folder of its namespace, or in the warehouse's own."""
        if folder is None:
            return f"{self.url}/{table_id.lower()}"
        return self.check_stored(f"{folder.rstrip('/')}/{table_id.lower()}")

    def location_of(self, path: str) -> str:
        """The URL of a path within the workspace."""
        return f"{self.workspace_url}/{path}"

    def _place(self, location: str) -> Place:
        return parse_location(location, self._account)

    def path_of(self, location: str) -> str | None:
        """The path within the workspace, if the location lies below the warehouse's own folder; else None."""
        place = self._place(location)
        if not self._own.holds(place) or place.path == self._own.path:
            return None
        return f"{FOLDER}/{place.path[len(self._own.path) + 1 :]}"

    def check(self, location: str) -> str:
        """A location that a request names, without slashes at its end, if this warehouse lets it be used; else
        `BadRequest`."""
        text = location.rstrip("/")
        if self._find(text) is None:
            raise BadRequest(
                f"the location {shown(location)} is outside of the warehouse; leave it out, use one below {self.url}, "
                "or have the operator allow it with --allowed-location"
            )
        return text

    def check_folder(self, location: str) -> None:
        """As `check`, of a folder that tables are to lie in. It may be the warehouse's own, or an allowed one."""
        parse_location(location)
        self.check(f"{location.rstrip('/')}/table")

    def check_stored(self, location: str) -> str:
        """As `check`, of a location that is stored: who asks for the table cannot change it, so it is `Forbidden`."""
        text = location.rstrip("/")
        self._stored(text)
        return text

    async def read(self, location: str) -> bytes:
        store, path = self._stored(location)
        try:
            data = await store.get(path)
        except ObjectMissing:
            raise missing(location) from None
        if len(data) > MAX_METADATA:
            raise TooLarge(f"the metadata file {location} has {len(data)} bytes; at most {MAX_METADATA} are read")
        return _inflated(data, location) if data.startswith(_GZIP) else data

    async def read_file(self, location: str) -> bytes:
        """A data file, whatever its size; ask `size` first."""
        store, path = self._stored(location)
        try:
            return await store.get(path)
        except ObjectMissing:
            raise missing(location) from None

    async def size(self, location: str) -> int:
        """Bytes of the file; to be asked before a file is read that Arco did not write."""
        store, path = self._stored(location)
        try:
            return (await store.head(path)).size
        except ObjectMissing:
            raise missing(location) from None

    async def exists(self, location: str) -> bool:
        store, path = self._stored(location)
        try:
            await store.head(path)
        except ObjectMissing:
            return False
        return True

    def glance(self, location: str) -> Glance | None:
        store, path = self._stored(location)
        return glance_at(store, path)

    async def create(self, location: str, data: bytes) -> None:
        store, path = self._stored(location)
        if len(data) > MAX_METADATA:
            raise TooLarge(
                f"the table's metadata would have {len(data)} bytes, more than {MAX_METADATA}; expire snapshots first"
            )
        for _ in range(ATTEMPTS):
            try:
                await put_new(store, path, data)
                return
            except ObjectExists:
                if await store.get(path) == data:
                    return
                raise Unavailable(f"another file is at {location}; try again") from None
            except StoreFailed:
                continue
        raise Unavailable(f"the store does not take {location}; nothing was committed, try again")

    def _stored(self, location: str) -> tuple[Store, str]:
        found = self._find(location)
        if found is None:
            raise Forbidden(
                f"the location {location[:1_000]!r}, which the table or its namespace has, is not allowed here any "
                "more; the operator can allow it, or a folder above it, with --allowed-location"
            )
        return found

    def _find(self, location: str) -> tuple[Store, str] | None:
        """The store of a location and the path there; None if it may not be used."""
        place = self._place(location)
        own = self.path_of(location)
        if own is not None:
            return self._store, own
        if not self._root.holds(place) and not place.holds(self._root):
            for allowed in self._allowed:
                if allowed.holds(place) and place.path != allowed.path:
                    return self._outside_store(allowed), place.path[len(allowed.path) :].strip("/")
        return None

    def _outside_store(self, place: Place) -> Store:
        if place not in self._outside:
            if self._open_outside is None:
                raise BadRequest(f"places below {place.url} cannot be opened here")
            self._outside[place] = self._open_outside(place)
        return self._outside[place]

    async def close(self) -> None:
        for store in self._outside.values():
            await store.close()


def missing(location: str) -> MetadataMissing:
    return MetadataMissing(f"Failed to open input stream for file: {location}")


def _inflated(data: bytes, location: str) -> bytes:
    """A gzipped document, but not a bomb."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(data, MAX_METADATA + 1)
    except zlib.error as error:
        raise BadRequest(f"the metadata file {location} is no gzip: {error}") from None
    if len(plain) > MAX_METADATA:
        raise TooLarge(f"the metadata file {location} inflates to more than {MAX_METADATA} bytes")
    return plain

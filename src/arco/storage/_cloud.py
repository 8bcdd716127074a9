"""`CloudStore`: a bucket of S3 or Google Cloud, or a container of Azure, through obstore.

Two clients. Reads and deletes go through one that repeats a failed request a few times. Writes go through one that
never does: a client that repeats a conditional create reports a won one as lost (applied, answered 500, repeated, 412).
The answers become the port's:

    404                      ObjectMissing, but StoreRefused if the bucket itself is missing
    412; Azure 409           ObjectExists
    409 of the others        StoreFailed: a concurrent create is under way and nothing landed
    401, 403, 501            StoreRefused: no right, or no conditional create at all
    416                      Corrupt: the object is shorter than whoever wrote its size says
    429 and anything else    StoreFailed; Google answers 429 to more than one write a second of one name

obstore's errors quote requests and answers, and with them keys and signatures. Ours name only the status, the error
code and the kind of network trouble, and do not carry the original along.
"""

import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from arco.core import ArcoError, Corrupt, Invalid, StoreRefused
from arco.storage._paths import below, check_folder, is_nameable
from arco.storage._signing import check_expiry
from arco.storage._store import ObjectExists, ObjectInfo, ObjectMissing, StoreFailed, check_path

__all__ = ["MAX_PREFIX", "Client", "CloudStore", "Kind"]

T = TypeVar("T")

READ_RETRIES = 3
MAX_PREFIX = 100
"""Stores take keys of 1,024 bytes; paths have up to 900."""

Client = S3Store | AzureStore | GCSStore
Kind = Literal["s3", "az", "gs"]
_STATUS = re.compile(r"(?:status code: |\(code: )(\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_NO_BUCKET = re.compile(r"<Code>(?:NoSuchBucket|ContainerNotFound)</Code>|specified container does not exist")
_TROUBLE = {
    "timed out": "it did not answer in time",
    "kind: Timeout": "it did not answer in time",
    "error sending request": "it cannot be reached",
}
_GOOGLE = "storage.googleapis.com"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_first_process: int | None = None


@dataclass(frozen=True, slots=True)
class _Clients:
    reading: Client
    writing: Client


class CloudStore:
    """Objects of one bucket or container, below a prefix. Made by `s3_store`, `azure_store` and `gcs_store`."""

    def __init__(self, kind: Kind, place: str, prefix: str, connect: Callable[[int], Client]) -> None:
        self._kind = kind
        self._prefix = check_folder(prefix)
        self._url = f"{kind}://{below(place, prefix)}"
        if len(prefix) > MAX_PREFIX:
            raise Invalid(f"the prefix of a bucket may have {MAX_PREFIX} characters, this one has {len(prefix)}")
        self._connect = connect
        self._clients: _Clients | None = None

    def __repr__(self) -> str:
        return f"CloudStore({self._url})"

    async def get(self, path: str) -> bytes:
        return await self._ask("read", path, self._get(self._key(path)))

    async def _get(self, key: str) -> bytes:
        answer = await self._open().reading.get_async(key)
        return bytes(await answer.bytes_async())

    async def get_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)
        if offset < 0 or length < 0:
            raise Invalid(f"a range starts at 0 or later and has 0 or more bytes, not {offset} and {length}", path=path)
        if length == 0:  # HTTP has no empty range
            data, too_short = b"", offset > (await self.head(path)).size
        else:
            request = self._open().reading.get_range_async(key, start=offset, length=length)
            data = bytes(await self._ask("read", path, request))
            too_short = len(data) < length
        if too_short:
            raise Corrupt(f"{path} ends before {offset + length}; run `arco doctor`", path=path)
        return data

    async def put(self, path: str, data: bytes, *, only_if_absent: bool) -> None:
        mode: Literal["create", "overwrite"] = "create" if only_if_absent else "overwrite"
        request = self._open().writing.put_async(self._key(path), data, mode=mode, use_multipart=False)
        await self._ask("write", path, request)

    async def head(self, path: str) -> ObjectInfo:
        """An answer to HEAD has no body, so that a missing bucket looks like a missing object here, and only here."""
        found = await self._ask("read", path, self._open().reading.head_async(self._key(path)))
        return ObjectInfo(path, found["size"], _micros(found["last_modified"]))

    async def delete(self, path: str) -> None:
        with contextlib.suppress(ObjectMissing):
            await self._ask("delete", path, self._open().reading.delete_async(self._key(path)))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        stream = self._open().reading.list(below(self._prefix, check_folder(prefix)), chunk_size=1000)
        start = len(self._prefix) + 1 if self._prefix else 0
        while chunk := await self._ask("list", prefix, anext(stream, None)):
            for found in chunk:
                path = found["path"][start:]
                if is_nameable(path):
                    yield ObjectInfo(path, found["size"], _micros(found["last_modified"]))

    async def sign(self, path: str, *, expires_in: int) -> str:
        lifetime = timedelta(seconds=check_expiry(expires_in))
        request = obstore.sign_async(self._open().reading, "GET", self._key(path), lifetime)
        url = await self._ask("sign", path, request)
        if self._kind != "gs":
            return url
        # Google's signature holds for this host, whatever endpoint the store itself is reached by.
        return urlunsplit(("https", _GOOGLE, *urlsplit(url)[2:]))

    async def persist(self, path: str) -> None:
        """Nothing: what a bucket acknowledged is durable."""

    async def close(self) -> None:
        self._clients = None

    def _key(self, path: str) -> str:
        return below(self._prefix, check_path(path))

    def _open(self) -> _Clients:
        """The two clients, made at the first request: obstore's threads start with it and do not survive a fork."""
        global _first_process
        if _first_process not in (None, os.getpid()):
            raise StoreRefused(
                f"{self._url} cannot be used in a process forked from one that used a bucket: its network threads are "
                "gone; start processes by spawn, or fork before the first request"
            )
        if self._clients is None:
            self._clients = self._make_clients()
            if self._clients is None:
                raise Invalid(f"the options of {self._url} make no usable client; check their values")
            _first_process = os.getpid()
        return self._clients

    def _make_clients(self) -> _Clients | None:
        """None instead of obstore's error, which quotes the options."""
        try:
            return _Clients(self._connect(READ_RETRIES), self._connect(0))
        except (BaseError, ValueError, TypeError):
            return None

    async def _ask(self, doing: str, path: str, request: Awaitable[T]) -> T:
        try:
            return await request
        except (BaseError, OSError, ValueError, NotImplementedError) as error:
            failure = self._translate(error, doing, path)
        # Raised here, not in the handler, which would attach the original with all that it quotes.
        raise failure

    def _translate(self, error: Exception, doing: str, path: str) -> ArcoError:
        text = str(error)
        status, code = _first(_STATUS, text), _first(_CODE, text)
        reason = " ".join(filter(None, (status, code))) or next(
            (words for sign, words in _TROUBLE.items() if sign in text), type(error).__name__
        )
        if _NO_BUCKET.search(text) or (isinstance(error, FileNotFoundError) and doing == "write"):
            return StoreRefused(f"{self._url} does not exist ({reason}); create it, or correct its name", path=path)
        if isinstance(error, FileNotFoundError):
            return ObjectMissing(path)
        if isinstance(error, AlreadyExistsError | PreconditionError) and self._is_decided(status, code):
            return ObjectExists(path)
        if doing == "sign" and not status.startswith("5") and status != "429":
            return StoreRefused(f"{self._url} cannot sign {path} ({reason}); {_SIGNERS[self._kind]}", path=path)
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in ("401", "403"):
            return StoreRefused(f"{self._url} refused to {doing} {path} ({reason}); {self._right(doing)}", path=path)
        if status == "501":
            return StoreRefused(f"{self._url} cannot {doing} {path} ({reason}); use a store that can", path=path)
        if status == "416" or "Wanted range starting at" in text:
            return Corrupt(f"{path} is shorter than expected; run `arco doctor`", path=path)
        return StoreFailed(f"{self._url} could not {doing} {path}: {reason}", path=path)

    def _is_decided(self, status: str, code: str) -> bool:
        """Whether a refused create says that an object is there. All clouds use 409 for other things as well."""
        return status != "409" or (self._kind == "az" and code == "BlobAlreadyExists")

    def _right(self, doing: str) -> str:
        right = _RIGHTS[self._kind].get(doing, _RIGHTS[self._kind]["read"])
        if doing == "read" and self._kind != "az":
            cloud, listing = ("S3", "s3:ListBucket") if self._kind == "s3" else ("Google", "storage.objects.list")
            return (
                f"check the credentials, {right}, and {listing} on the workspace's prefix: without it {cloud} "
                "answers 403 for an object that does not exist"
            )
        return f"check the credentials and grant {right} on this path"


_RIGHTS: Mapping[Kind, Mapping[str, str]] = {
    "s3": {"read": "s3:GetObject", "write": "s3:PutObject", "delete": "s3:DeleteObject", "list": "s3:ListBucket"},
    "gs": {
        "read": "storage.objects.get",
        "write": "storage.objects.create (to overwrite: storage.objects.delete too)",
        "delete": "storage.objects.delete",
        "list": "storage.objects.list",
    },
    "az": {
        "read": "the role Storage Blob Data Reader",
        **dict.fromkeys(("write", "delete", "list"), "the role Storage Blob Data Contributor"),
    },
}
_SIGNERS: Mapping[Kind, str] = {
    "s3": "check the credentials",
    "az": "give it account_key, or client_id and client_secret of an identity with the right to delegate",
    "gs": "give it service_account_key, or run as a service account with iam.serviceAccounts.signBlob on itself",
}


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)

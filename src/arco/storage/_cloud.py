"""`CloudStore`: a bucket of S3 or a container of Azure, through obstore.

Two clients. Reads and deletes go through one that repeats a failed request a few times. Writes go through one that
never does: a client that repeats a conditional create reports a won one as lost (applied, answered 500, repeated, 412).
The answers become the port's:

    404                      ObjectMissing, but StoreRefused if the bucket itself is missing
    412; Azure 409           ObjectExists
    S3 409                   StoreFailed: a concurrent create is under way and nothing landed
    401, 403, 501            StoreRefused: no right, or no conditional create at all
    416                      Corrupt: the object is shorter than whoever wrote its size says
    anything else            StoreFailed

obstore's errors quote requests and answers, and with them keys and signatures. Ours name only the status, the error
code and the kind of network trouble, and do not carry the original along.
"""

import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, S3Store

from arco.core import ArcoError, Corrupt, Invalid, StoreRefused
from arco.storage._paths import below, check_folder, is_nameable
from arco.storage._signing import check_expiry
from arco.storage._store import ObjectExists, ObjectInfo, ObjectMissing, StoreFailed, check_path

__all__ = ["AZURE_OPTIONS", "MAX_PREFIX", "S3_OPTIONS", "CloudStore", "azure_store", "s3_store"]

T = TypeVar("T")

READ_RETRIES = 3
MAX_PREFIX = 100
"""Stores take keys of 1,024 bytes; paths have up to 900."""

_CLIENT_OPTIONS = {"allow_http": bool, "timeout": str, "connect_timeout": str}
S3_OPTIONS: Mapping[str, type] = {
    "access_key_id": str,
    "endpoint": str,
    "region": str,
    "secret_access_key": str,
    "server_side_encryption": str,
    "session_token": str,
    "sse_kms_key_id": str,
    "virtual_hosted_style_request": bool,
    **_CLIENT_OPTIONS,
}
AZURE_OPTIONS: Mapping[str, type] = {
    "account_key": str,
    "account_name": str,
    "client_id": str,
    "client_secret": str,
    "endpoint": str,
    "sas_key": str,
    "tenant_id": str,
    **_CLIENT_OPTIONS,
}

_Client = S3Store | AzureStore
_STATUS = re.compile(r"(?:status code: |\(code: )(\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_NO_BUCKET = re.compile(r"<Code>(?:NoSuchBucket|ContainerNotFound)</Code>|specified container does not exist")
_TROUBLE = {"timed out": "it did not answer in time", "error sending request": "it cannot be reached"}
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DURATION = re.compile(r"\d{1,6}(ms|s|m)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_first_process: int | None = None


@dataclass(frozen=True, slots=True)
class _Clients:
    reading: _Client
    writing: _Client


class CloudStore:
    """Objects of one bucket or container, below a prefix. Made by `s3_store` and `azure_store`."""

    def __init__(self, kind: Literal["s3", "az"], place: str, prefix: str, connect: Callable[[int], _Client]) -> None:
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
        return await self._ask("sign", path, obstore.sign_async(self._open().reading, "GET", self._key(path), lifetime))

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
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in ("401", "403"):
            return StoreRefused(f"{self._url} refused to {doing} {path} ({reason}); {self._right(doing)}", path=path)
        if status == "501":
            return StoreRefused(f"{self._url} cannot {doing} {path} ({reason}); use a store that can", path=path)
        if status == "416" or "Wanted range starting at" in text:
            return Corrupt(f"{path} is shorter than expected; run `arco doctor`", path=path)
        return StoreFailed(f"{self._url} could not {doing} {path}: {reason}", path=path)

    def _is_decided(self, status: str, code: str) -> bool:
        """Whether a refused create says that an object is there. Both clouds use 409 for other things as well."""
        return status != "409" or (self._kind == "az" and code == "BlobAlreadyExists")

    def _right(self, doing: str) -> str:
        if self._kind == "az":
            return "check the credentials and grant the role Storage Blob Data Contributor (to read: Reader)"
        if doing == "read":
            return (
                "check the credentials, s3:GetObject, and s3:ListBucket on the workspace's prefix: without it S3 "
                "answers 403 for an object that does not exist"
            )
        right = {"write": "s3:PutObject", "delete": "s3:DeleteObject", "list": "s3:ListBucket"}.get(
            doing, "s3:GetObject"
        )
        return f"check the credentials and grant {right} on this path"


def s3_store(bucket: str, prefix: str = "", options: Mapping[str, str | bool] | None = None) -> CloudStore:
    """A bucket of S3 or of a server that speaks its protocol.

    Options that are not given come from the usual AWS variables of the environment.
    """
    config, client = _configure("s3", S3_OPTIONS, options)
    # One request per delete: not every server has the bulk form, and policies are easier to read.
    config |= {"conditional_put": "etag", "disable_bulk_delete": True}
    _check_place(bucket)

    def connect(retries: int) -> _Client:
        return S3Store(bucket, config=config, client_options=client, retry_config=_retry(retries))

    return CloudStore("s3", bucket, prefix, connect)


def azure_store(container: str, prefix: str = "", options: Mapping[str, str | bool] | None = None) -> CloudStore:
    """A container of Azure Blob Storage. Options that are not given come from Azure's variables of the environment."""
    config, client = _configure("az", AZURE_OPTIONS, options)
    _check_place(container)

    def connect(retries: int) -> _Client:
        return AzureStore(container, config=config, client_options=client, retry_config=_retry(retries))

    return CloudStore("az", container, prefix, connect)


def _check_place(name: str) -> None:
    if _BUCKET.fullmatch(name) is None:
        raise Invalid("a bucket or container has 3 to 63 characters of a-z, 0-9, - and .; check the store's URL")


def _configure(scheme: str, known: Mapping[str, type], options: Mapping[str, str | bool] | None) -> tuple[Any, Any]:
    """obstore's configuration and its HTTP options, of checked values. Errors name options, never their values."""
    config: dict[str, str | bool] = {}
    client: dict[str, str | bool] = {}
    for name, value in (options or {}).items():
        if name not in known:
            raise Invalid(f"{scheme}:// has no option {name!r}; it has {', '.join(sorted(known))}")
        if known[name] is bool:
            if value not in (True, False, "true", "false"):
                raise Invalid(f"the option {name} is true or false")
            value = value in (True, "true")
        elif not isinstance(value, str) or not value:
            raise Invalid(f"the option {name} is a text")
        elif name.endswith("timeout") and _DURATION.fullmatch(value) is None:
            raise Invalid(f"the option {name} is a time such as 500ms, 30s or 2m")
        (client if name in _CLIENT_OPTIONS else config)[name] = value
    return config, client


def _retry(retries: int) -> Any:
    return {"max_retries": retries, "retry_timeout": timedelta(seconds=30)}


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match.group(1) if match else ""


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)

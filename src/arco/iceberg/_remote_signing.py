"""Remote signing: engines without keys send the request they are about to make, and get it back with a signature.

For servers that speak S3's protocol and have no STS. A signature opens exactly one request, so each is judged alone:

- its host, and its bucket in the path or in the host, are the store's;
- the object it names lies below a location of the table, decoded once, and the URL that is answered is encoded anew
  from what was judged, so that nothing the store reads differently remains;
- a listing has a prefix below the table, with the slash at its end; a delete of many has a body, all of whose keys are
  judged, and the body's digest is what is signed, so that no other body can be sent;
- the source of a copy lies below the table too; headers and parameters that are not known are refused, since some of
  them make objects public or read another version;
- who only reads gets reads signed.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit
from xml.etree import ElementTree

from arco.core import Clock, Forbidden, shown
from arco.iceberg._errors import BadRequest
from arco.iceberg._locations import Place, parse_location
from arco.iceberg._s3_address import S3Address
from arco.iceberg._sigv4 import UNSIGNED, Keys, keys_from, request_url, sign_headers
from arco.iceberg._vending import Options

__all__ = ["RemoteSigner", "SignRequest", "SignedRequest", "parse_sign", "signer_for"]

MAX_BODY = 1 << 20
"""A delete of 1,000 keys of 1,024 bytes."""

MAX_URI = 8 << 10
_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
_LISTING = frozenset(
    {"continuation-token", "delimiter", "encoding-type", "fetch-owner", "list-type", "marker", "max-keys", "prefix"}
    | {"start-after", "x-id"}
)
# By method, and by what the store takes for the operation: the parameters that may be there.
_OBJECT: Mapping[str, tuple[frozenset[str], ...]] = {
    "GET": (frozenset({"x-id", "partNumber"}), frozenset({"x-id", "uploadId", "max-parts", "part-number-marker"})),
    "HEAD": (frozenset({"x-id", "partNumber"}),),
    "PUT": (frozenset({"x-id", "partNumber", "uploadId"}),),
    "POST": (frozenset({"x-id", "uploads"}), frozenset({"x-id", "uploadId"})),
    "DELETE": (frozenset({"x-id", "uploadId"}),),
}
# Signed as they are: S3 refuses a request with an `x-amz-` header that is not. Grants and public ACLs are not here.
_AMZ = re.compile(
    r"x-amz-(checksum-[a-z0-9-]+|content-sha256|copy-source(-if-[a-z-]+|-range)?|decoded-content-length|meta-.+"
    r"|expected-bucket-owner|metadata-directive|mp-object-size|object-size|sdk-checksum-algorithm"
    r"|server-side-encryption(-aws-kms-key-id|-bucket-key-enabled|-context)?|storage-class|te|trailer|user-agent)"
)
# Besides those: what decides about the object. Others (`range`, `user-agent`, tracing) may change on the way.
_SIGNED = frozenset({"content-md5", "content-type", "if-match", "if-none-match", "x-amz-copy-source"})
_DIGEST = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SignRequest:
    """A request that a client wants to send. Names of headers are in lower case."""

    method: str
    uri: str
    region: str
    headers: Mapping[str, tuple[str, ...]]
    body: str | None = None


@dataclass(frozen=True, slots=True)
class SignedRequest:
    uri: str
    headers: dict[str, list[str]]
    """To be added to those of the request. None that it has already: PyIceberg would send it twice."""
    cacheable: bool
    """Whether a client may use it again for the same method and URI (`Cache-Control: private`)."""


def parse_sign(body: Any) -> SignRequest:
    """The decoded body of `POST …/sign`, or `BadRequest`."""
    if not isinstance(body, dict):
        raise BadRequest("a request to sign is an object with region, uri, method and headers")
    texts = {name: body.get(name) for name in ("region", "uri", "method")}
    headers, content = body.get("headers"), body.get("body")
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(headers, dict):
        raise BadRequest("a request to sign has the texts region, uri and method, and the object headers")
    if body.get("provider", "s3") not in ("s3", None):
        raise BadRequest(f"requests to {shown(str(body['provider']))} cannot be signed, only those to s3")
    if content is not None and not isinstance(content, str):
        raise BadRequest("the body of a request to sign is a text")
    if body.get("properties"):
        raise BadRequest("properties of a request to sign are those that the table's answer named; it named none")
    many: dict[str, tuple[str, ...]] = {}
    for name, values in headers.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise BadRequest("each header of a request to sign is a list of texts")
        if name.lower() in many or any(character in text for text in (name, *values) for character in "\r\n\0"):
            raise BadRequest("a header of the request to sign is there twice or holds a line break")
        many[name.lower()] = tuple(values)
    return SignRequest(str(texts["method"]).upper(), str(texts["uri"]), str(texts["region"]), many, content)


def signer_for(
    url: str, options: Options, clock: Clock, *, environ: Mapping[str, str] = _EMPTY
) -> "RemoteSigner | None":
    """The signer for the store at a URL: only S3 has one, and only with keys (options, or AWS's variables)."""
    keys = keys_from(options, environ) if url.startswith("s3://") else None
    if keys is None:
        return None
    return RemoteSigner(S3Address.of(parse_location(url).authority, options, environ), keys, clock)


class RemoteSigner:
    """Made by `signer_for`."""

    def __init__(self, address: S3Address, keys: Keys, clock: Clock) -> None:
        self._address, self._keys, self._clock = address, keys, clock
        self._hosts = address.hosts()

    def config(self, endpoint: str) -> dict[str, str]:
        """For a table's `config`; `endpoint` is the path of its `/sign`, relative to the catalog's URI."""
        return {
            "s3.remote-signing-enabled": "true",
            "s3.signer": "S3V4RestSigner",
            "s3.signer.endpoint": endpoint,
            "signer.endpoint": endpoint,
            **self._address.client_config(),
        }

    def sign(self, request: SignRequest, locations: Iterable[str], *, write: bool) -> SignedRequest:
        """The request with a signature, if it stays within the locations; `write` says whether it may change them.

        Raises:
            Forbidden: it does more than it may.
            BadRequest: it is not a request to this store.
        """
        if request.method not in _METHODS:
            raise BadRequest(f"requests with {shown(request.method)} are not signed; S3 has {', '.join(_METHODS)}")
        if request.region != self._address.region:
            raise BadRequest(f"the store's region is {self._address.region}, not {shown(request.region)}")
        base, host, root, key, query = self._split(request.uri)
        table = _Table(tuple(place for place in map(parse_location, locations)), self._address.bucket)
        digest = _judge(request, key, query, table, write)
        headers = {name: ",".join(values) for name, values in request.headers.items() if _is_signed(name)}
        for name in request.headers:
            if name == "authorization" or (name.startswith("x-amz-") and _AMZ.fullmatch(name) is None):
                raise Forbidden(f"a request with the header {shown(name)} is not signed for others")
        path, now = f"{root}/{key}" if key else f"{root}/", self._clock.now()
        added = sign_headers(
            request.method, host, path, query, headers, digest, self._keys, self._address.region, "s3", now
        )
        answered = {name: [value] for name, value in added.items() if name not in request.headers}
        return SignedRequest(request_url(base, path, query), answered, request.method in ("GET", "HEAD"))

    def _split(self, uri: str) -> tuple[str, str, str, str, list[tuple[str, str]]]:
        """Scheme with host, host, the path before the key, the key, and the query; of this bucket, or it is refused."""
        if len(uri) > MAX_URI or not uri.isascii():
            raise BadRequest("the URI of the request to sign is too long, or is not encoded")
        try:
            parts = urlsplit(uri)
            usual = {"http": 80, "https": 443}.get(parts.scheme, 0)
            port = parts.port or usual
        except ValueError:
            raise BadRequest(f"{shown(uri)} is no URI") from None
        name = (parts.hostname or "").lower()
        hosted = self._hosts.get((parts.scheme, name, port))
        if hosted is None or "@" in parts.netloc or parts.fragment:
            raise Forbidden(f"requests to {shown(parts.netloc)} are not signed: it is not where the store is")
        bucket = "" if hosted else f"/{self._address.bucket}"
        path = _decoded(parts.path or "/")
        if not f"{path}/".startswith(f"{bucket}/"):
            raise Forbidden("only requests to the store's own bucket are signed")
        query = [(_decoded_text(name), _decoded_text(value)) for name, value in _pairs(parts.query)]
        if len({name for name, _ in query}) < len(query):
            raise BadRequest("a parameter of the URI to sign is there twice")
        host = name if port == usual else f"{name}:{port}"  # as clients write the header that is signed
        return f"{parts.scheme}://{host}", host, bucket, path[len(bucket) + 1 :], query


@dataclass(frozen=True, slots=True)
class _Table:
    places: tuple[Place, ...]
    bucket: str

    def check(self, key: str) -> None:
        """`Forbidden` unless the key, or the prefix of a listing, lies below one of the table's locations."""
        for place in self.places:
            here = (place.scheme, place.authority) == ("s3", self.bucket) and place.path
            if here and key.startswith(f"{place.path}/") and _is_plain(key[len(place.path) :]):
                return
        raise Forbidden(f"{shown(key)} is not below the table's location, so requests to it are not signed")


def _judge(request: SignRequest, key: str, query: list[tuple[str, str]], table: _Table, write: bool) -> str:
    """The digest to sign, if the request may be made."""
    names = {name for name, _ in query}
    if request.method not in ("GET", "HEAD") and not write:
        raise Forbidden("this caller may read the table, not change it")
    if source := request.headers.get("x-amz-copy-source"):
        if len(source) != 1 or request.method != "PUT":
            raise BadRequest("a copy has one source")
        table.check(_copied(source[0], table.bucket))
    if key:
        table.check(key)
        if not any(names <= allowed for allowed in _OBJECT[request.method]):
            raise Forbidden(f"requests with the parameters {', '.join(sorted(names))} are not signed")
        return _digest(request, UNSIGNED)
    if request.method == "GET" and "prefix" in names and names <= _LISTING:
        table.check(dict(query)["prefix"])
        return _digest(request, UNSIGNED)
    if request.method == "POST" and names <= {"delete", "x-id"} and "delete" in names:
        for deleted in _deleted(request.body):
            table.check(deleted)
        body = hashlib.sha256((request.body or "").encode()).hexdigest()
        if _digest(request, body) != body:
            raise BadRequest("x-amz-content-sha256 of a delete of many is not the digest of the body sent along")
        return body
    raise Forbidden(
        "of requests to the bucket only deletes of many are signed, and listings with a prefix that is below the "
        "table or is its location with a slash at the end"
    )


def _digest(request: SignRequest, default: str) -> str:
    value = ",".join(request.headers.get("x-amz-content-sha256", (default,)))
    if _DIGEST.fullmatch(value) is None:
        raise BadRequest("x-amz-content-sha256 is a SHA-256 or says that the payload is unsigned")
    return value


def _deleted(body: str | None) -> list[str]:
    """The keys in the body of a delete of many. One that cannot be told is one that is not allowed."""
    if not body or len(body) > MAX_BODY or "<!" in body:
        raise BadRequest("a delete of many is signed with its body, without declarations and of at most 1 MiB")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise BadRequest("the body of the delete of many is no XML") from None
    keys: list[str] = []
    for element in root.iter():
        name = element.tag.rpartition("}")[2]
        if name == "Key" and len(element) == 0 and element.text:
            keys.append(element.text)
        elif name not in ("Delete", "Object", "Quiet"):
            raise Forbidden(f"a delete of many with {shown(name)} is not signed, only one with keys")
    if root.tag.rpartition("}")[2] != "Delete" or not keys:
        raise BadRequest("the body of the delete of many names no keys")
    return keys


def _copied(source: str, bucket: str) -> str:
    path = _decoded(source if source.startswith("/") else f"/{source}")
    if not path.startswith(f"/{bucket}/") or "?" in source:
        raise Forbidden("only copies from within the table are signed")
    return path[len(bucket) + 2 :]


def _is_signed(name: str) -> bool:
    return name in _SIGNED or (name.startswith("x-amz-") and name != "x-amz-content-sha256")


def _is_plain(key: str) -> bool:
    """No part of the key that something on the way could take for another folder."""
    return not any(part in (".", "..") for part in re.split(r"[/\\]", key)) and "//" not in key


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True, encoding="latin-1", max_num_fields=32) if query else []


def _decoded_text(text: str) -> str:
    """`parse_qsl` decoded bytes to Latin-1, which loses nothing; they have to be UTF-8."""
    return _utf8(text.encode("latin-1"))


def _decoded(path: str) -> str:
    return _utf8(unquote_to_bytes(path))


def _utf8(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadRequest("the URI to sign does not decode to UTF-8") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise BadRequest("the URI to sign holds control characters")
    return text

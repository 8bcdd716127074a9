"""Service identities: how the processes of one deployment know each other on `/internal/*`.

They share one secret. A call carries the service's name, when the call expires, and an HMAC over both and over what is
asked: method, full path with query (so tenant and workspace too) and the sha256 of the body. Nothing of a call can be
used for another one, and none of it after a minute. Every purpose has a key of its own, derived from the secret, so
that what is signed for one can never pass for another.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

from arco.core._errors import Invalid, Unauthenticated
from arco.core._ports import Clock
from arco.core._signing import derive_secret
from arco.core._time import SECOND

__all__ = ["SERVICE_LIFE", "ServiceIdentity"]

SERVICE_LIFE: Final = 60
"""Seconds a call may take to arrive. Clocks may differ by as much, so one that expires within twice that is taken."""

_NAME: Final = "arco-service"
_EXPIRES: Final = "arco-expires"
_BODY: Final = "arco-body"
_SIGNATURE: Final = "arco-signature"

_EXPIRY = re.compile(r"[0-9]{1,12}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SERVICE = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)


class ServiceIdentity:
    """One process's identity towards the others, and its way to check theirs."""

    def __init__(self, secret: bytes, name: str, clock: Clock) -> None:
        if _SERVICE.fullmatch(name) is None:
            raise Invalid("the name of a service is 1 to 200 visible ASCII characters without spaces")
        self.name = name
        self._key = derive_secret(secret, "service")
        self._clock = clock

    def __repr__(self) -> str:
        return f"ServiceIdentity({self.name!r})"

    def headers(self, method: str, path: str, body: bytes) -> dict[str, str]:
        """What a call carries. `path` is everything after the host, the query included."""
        expires, digest = str(self._clock.now() // SECOND + SERVICE_LIFE), hashlib.sha256(body).hexdigest()
        return {
            _NAME: self.name,
            _EXPIRES: expires,
            _BODY: digest,
            _SIGNATURE: self._sign(self.name, expires, method, path, digest),
        }

    def verify(self, headers: Mapping[str, str], method: str, path: str, body: bytes) -> str:
        """The name of the service that calls, or `Unauthenticated`, which does not say what was wrong."""
        name = self.verify_head(headers, method, path)
        if headers.get(_BODY, "") != hashlib.sha256(body).hexdigest():
            raise _unknown()
        return name

    def verify_head(self, headers: Mapping[str, str], method: str, path: str) -> str:
        """The same before the body was read: nobody else may send one. Afterwards the body must be `verify`d."""
        name, expires, digest = headers.get(_NAME, ""), headers.get(_EXPIRES, ""), headers.get(_BODY, "")
        signature = headers.get(_SIGNATURE, "")
        if _SERVICE.fullmatch(name) is None or _EXPIRY.fullmatch(expires) is None or _DIGEST.fullmatch(digest) is None:
            raise _unknown()
        expected = self._sign(name, expires, method, path, digest)
        genuine = hmac.compare_digest(signature.encode(), expected.encode())
        left = int(expires) - self._clock.now() / SECOND
        if not genuine or not 0 < left <= 2 * SERVICE_LIFE:
            raise _unknown()
        return name

    def _sign(self, name: str, expires: str, method: str, path: str, digest: str) -> str:
        text = "\n".join(("1", name, expires, method.upper(), path, digest))
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


def _unknown() -> Unauthenticated:
    return Unauthenticated("this call carries no valid service identity; both processes need the same service secret")

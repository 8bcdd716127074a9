"""Keys for signing, one per purpose, all from the one secret that the processes of a deployment share."""

import hashlib
import hmac
from typing import Final

from arco.core._errors import Invalid

__all__ = ["MIN_SECRET_BYTES", "derive_secret"]

MIN_SECRET_BYTES: Final = 32


def derive_secret(secret: bytes, purpose: str) -> bytes:
    """The key of one purpose; it tells nothing about the secret or the key of another one."""
    if len(secret) < MIN_SECRET_BYTES:
        raise Invalid(
            f"the service secret has {len(secret)} bytes; it needs at least {MIN_SECRET_BYTES} that nobody can guess"
        )
    return hmac.digest(secret, f"arco:{purpose}".encode(), hashlib.sha256)

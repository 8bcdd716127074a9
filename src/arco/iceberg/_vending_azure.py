"""Credentials for a table on Azure: a shared access signature for one directory (`sr=d`).

Only accounts with a hierarchical namespace have directories. On others a signature is for one blob or for a whole
container, which cannot be limited to a table, so there is none. The signature is made with the account's key and can be
taken back only by renewing that key; it is short for that reason.
"""

import base64
import hashlib
import hmac
from urllib.parse import quote, urlencode

from arco.core import MINUTE, Clock, Invalid, format_time
from arco.iceberg._errors import Unsupported
from arco.iceberg._locations import account_of, parse_location
from arco.iceberg._vending import MAX_LIFETIME, Credentials, Options, check_lifetime, expiry_ms, place_in

__all__ = ["AzureVendor", "directory_signature"]

_VERSION = "2021-12-02"
_EARLIER = 5 * MINUTE
"""Clocks differ: a signature that begins now is refused by a server that is a little behind."""

_READS, _WRITES = "rl", "racwdl"


class AzureVendor:
    """Made by `vendor_for`."""

    refresh_key = "adls.refresh-credentials-endpoint"

    def __init__(self, url: str, options: Options, clock: Clock) -> None:
        self._store = parse_location(url, account_of(options))
        self._account = str(options["account_name"])
        self._directories = options.get("hierarchical_namespace") in (True, "true")
        try:
            self._key = base64.b64decode(str(options["account_key"]), validate=True)
        except ValueError:
            raise Invalid("the option account_key is not Base64; copy it again") from None
        self._clock = clock

    async def vend(self, location: str, *, write: bool, lifetime: int = MAX_LIFETIME) -> Credentials:
        place = place_in(location, self._store, "")
        if not self._directories:
            raise Unsupported(
                "no credentials: without a hierarchical namespace Azure cannot limit them to a table; if the account "
                "has one, set the store option hierarchical_namespace=true"
            )
        seconds = check_lifetime(lifetime)
        now = self._clock.now()
        token = directory_signature(
            self._account, self._key, place.authority, place.path, _WRITES if write else _READS,
            starts=now - _EARLIER, ends=now + seconds * 1_000_000,
        )  # fmt: skip
        expires = expiry_ms(self._clock, seconds)
        config: dict[str, str] = {}
        for host in (self._account, self._store.account):  # clients look under either
            config |= {f"adls.sas-token.{host}": token, f"adls.sas-token-expires-at-ms.{host}": str(expires)}
        return Credentials(f"{location.rstrip('/')}/", config, expires)

    async def close(self) -> None:
        """Nothing: a signature is computed here."""


def directory_signature(
    account: str, key: bytes, container: str, path: str, rights: str, *, starts: int, ends: int
) -> str:
    """The query of a service SAS for a directory and all below it. Times are in microseconds since 1970."""
    start, end = (f"{format_time(time)[:19]}Z" for time in (starts, ends))
    resource = f"/blob/{account}/{container}/{path}"
    # Rights, times, resource, identifier, addresses, protocol, version, kind, snapshot, encryption scope, five headers.
    fields = [rights, start, end, resource, "", "", "https", _VERSION, "d", "", "", "", "", "", "", ""]
    signature = base64.b64encode(hmac.new(key, "\n".join(fields).encode(), hashlib.sha256).digest()).decode()
    depth = path.count("/") + 1
    query = {"sp": rights, "st": start, "se": end, "spr": "https", "sv": _VERSION, "sr": "d", "sdd": str(depth)}
    return urlencode({**query, "sig": signature}, quote_via=quote)

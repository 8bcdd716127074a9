"""Which vendor a store has."""

from collections.abc import Mapping
from types import MappingProxyType

import httpx

from arco.core import Clock
from arco.iceberg._locations import parse_location
from arco.iceberg._s3_address import S3Address
from arco.iceberg._sigv4 import keys_from
from arco.iceberg._vending import Options, Vendor
from arco.iceberg._vending_azure import AzureVendor
from arco.iceberg._vending_gcs import GcsVendor
from arco.iceberg._vending_s3 import S3Vendor
from arco.runtime import HttpTransport

__all__ = ["vendor_for"]

_EMPTY: Mapping[str, str] = MappingProxyType({})


def vendor_for(
    url: str,
    options: Options,
    clock: Clock,
    *,
    environ: Mapping[str, str] = _EMPTY,
    client: httpx.AsyncClient | None = None,
) -> Vendor | None:
    """The vendor of the store at a URL, or None where nothing is to be handed out.

    S3 has one if `vend_role_arn` names the role and the server has keys (options, or `environ`); Azure if it has the
    account's key. `client` is for tests.
    """
    scheme = url.partition("://")[0]
    if scheme == "s3" and options.get("vend_role_arn"):
        keys = keys_from(options, environ)
        store = parse_location(url)
        address = S3Address.of(store.authority, options, environ)
        return None if keys is None else S3Vendor(store, address, options, keys, clock, client or _client())
    if scheme == "gs":
        return GcsVendor(url, options, clock, client or _client())
    if scheme == "az" and options.get("account_key") and options.get("account_name"):
        return AzureVendor(url, options, clock)
    return None


def _client() -> httpx.AsyncClient:
    """No proxy of the environment sees keys, and no redirect takes them elsewhere."""
    return httpx.AsyncClient(transport=HttpTransport(trust_env=False), trust_env=False, follow_redirects=False)

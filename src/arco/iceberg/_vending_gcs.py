"""Credentials for a table on Google Cloud Storage: the server's token, exchanged for one behind an access boundary.

The boundary is a rule for the bucket with a condition (CEL) on the object's name and the prefix of a listing. The new
token ends with the server's own: its time cannot be chosen. The server's token comes from the metadata server of the
machine it runs on. Built from Google's documentation and tested against a double, not against the service.
"""

import json
from typing import Any
from urllib.parse import urlencode

import httpx

from arco.core import Clock, Unavailable
from arco.iceberg._locations import parse_location
from arco.iceberg._vending import MAX_LIFETIME, Credentials, Options, ask, expiry_ms, place_in

__all__ = ["GcsVendor", "access_boundary"]

UNSAFE = "'\"\\`"
"""What could end the condition's text. Refused, not escaped."""

_METADATA = "http://metadata.google.internal"
_OWN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_STS = "https://sts.googleapis.com"
_KIND = "urn:ietf:params:oauth:token-type:access_token"


class GcsVendor:
    """Made by `vendor_for`."""

    refresh_key = "gcs.oauth2.refresh-credentials-endpoint"

    def __init__(self, url: str, options: Options, clock: Clock, client: httpx.AsyncClient) -> None:
        self._store = parse_location(url)
        self._metadata = str(options.get("metadata_endpoint", _METADATA)).rstrip("/")
        self._sts = str(options.get("sts_endpoint", _STS)).rstrip("/")
        self._clock, self._client = clock, client

    async def vend(self, location: str, *, write: bool, lifetime: int = MAX_LIFETIME) -> Credentials:
        place = place_in(location, self._store, UNSAFE)
        flavour = {"Metadata-Flavor": "Google"}
        own = _decode(await ask(self._client, "GCP", "GET", self._metadata + _OWN_PATH, headers=flavour))
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token_type": _KIND,
            "requested_token_type": _KIND,
            "subject_token": own["access_token"],
            "options": json.dumps(access_boundary(place.authority, place.path, write=write), separators=(",", ":")),
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        url = f"{self._sts}/v1/token"
        made = _decode(await ask(self._client, "GCP", "POST", url, content=urlencode(form).encode(), headers=headers))
        # The answer may leave the time out; then it is that of the server's own token.
        expires = expiry_ms(self._clock, int(made.get("expires_in") or own["expires_in"]))
        config = {"gcs.oauth2.token": made["access_token"], "gcs.oauth2.token-expires-at": str(expires)}
        return Credentials(f"{location.rstrip('/')}/", config, expires)

    async def close(self) -> None:
        await self._client.aclose()


def access_boundary(bucket: str, path: str, *, write: bool) -> dict[str, Any]:
    """Objects below `path/` and listings of it. `objectUser` cannot change who may see an object; `objectAdmin` can."""
    role = "objectUser" if write else "objectViewer"
    names = f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/{path}/')"
    lists = f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('{path}/')"
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": [f"inRole:roles/storage.{role}"],
        "availabilityCondition": {"expression": f"{names} || {lists}"},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}


def _decode(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("access_token"), str):
        raise Unavailable("GCP made no credentials (its answer has no token)")
    return found

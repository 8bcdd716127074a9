"""Credentials for a table on S3: STS assumes a role with a session policy that ends at the table's prefix.

What the session may do is what the role may do *and* what the policy says. The policy names the prefix with a slash at
its end, so that `orders` does not open `orders_private`; listing needs a prefix below it as well.
"""

import hashlib
import json
import re
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

import httpx

from arco.core import Clock, Invalid, Unavailable
from arco.iceberg._locations import Place
from arco.iceberg._s3_address import S3Address
from arco.iceberg._sigv4 import Keys, sign_headers
from arco.iceberg._vending import MAX_LIFETIME, Credentials, Options, ask, check_lifetime, place_in

__all__ = ["S3Vendor", "session_policy"]

UNSAFE = "*?$"
"""In a policy, `*` and `?` are wildcards and `${` begins a variable; a resource has no way to escape them safely."""

_ROLE = re.compile(r"arn:([a-z][a-z-]*):iam::\d{0,12}:role/[\w+=,.@/-]{1,512}")
_READS = ("s3:GetObject",)
_WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
_FIELDS = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")


class S3Vendor:
    """Made by `vendor_for`."""

    refresh_key = "client.refresh-credentials-endpoint"

    def __init__(
        self, store: Place, address: S3Address, options: Options, keys: Keys, clock: Clock, client: httpx.AsyncClient
    ) -> None:
        self._store, self._address = store, address
        self._role = str(options["vend_role_arn"])
        found = _ROLE.fullmatch(self._role)
        if found is None:
            raise Invalid("the option vend_role_arn is an ARN such as arn:aws:iam::123456789012:role/arco-tables")
        self._partition = found[1] if found[1].startswith("aws") else "aws"
        self._external_id = str(options.get("vend_external_id", ""))
        self._kms_key = str(options.get("sse_kms_key_id", ""))
        self._sts = urlsplit(str(options.get("sts_endpoint") or address.sts))
        if self._sts.scheme not in ("https", "http"):
            raise Invalid("the option sts_endpoint is a URL such as https://sts.eu-west-1.amazonaws.com")
        self._keys, self._clock, self._client = keys, clock, client

    async def vend(self, location: str, *, write: bool, lifetime: int = MAX_LIFETIME) -> Credentials:
        place = place_in(location, self._store, UNSAFE)
        policy = session_policy(self._partition, place.authority, place.path, write=write, kms_key=self._kms_key)
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": self._role,
            "RoleSessionName": _session_name(place.path),
            "DurationSeconds": str(check_lifetime(lifetime)),
            "Policy": json.dumps(policy, separators=(",", ":")),
        }
        if self._external_id:
            form["ExternalId"] = self._external_id
        made = await self._assume(urlencode(form).encode())
        expires = int(datetime.fromisoformat(made["Expiration"]).timestamp() * 1000)
        config = {
            "s3.access-key-id": made["AccessKeyId"],
            "s3.secret-access-key": made["SecretAccessKey"],
            "s3.session-token": made["SessionToken"],
            "s3.session-token-expires-at-ms": str(expires),
            **self._address.client_config(),
        }
        return Credentials(f"{location.rstrip('/')}/", config, expires)

    async def _assume(self, body: bytes) -> dict[str, str]:
        host, path, now = self._sts.netloc, self._sts.path or "/", self._clock.now()
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        digest = hashlib.sha256(body).hexdigest()
        signed = sign_headers(
            "POST", host, path, (), headers, digest, self._keys, self._address.region, "sts", now
        )  # fmt: skip
        url = f"{self._sts.scheme}://{host}{path}"
        answer = await ask(self._client, "STS", "POST", url, content=body, headers={**headers, **signed})
        return _parse_answer(answer)

    async def close(self) -> None:
        await self._client.aclose()


def session_policy(partition: str, bucket: str, path: str, *, write: bool, kms_key: str = "") -> dict[str, Any]:
    """What a session may do with the objects below `path/`."""
    where = f"arn:{partition}:s3:::{bucket}"
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": action, "Resource": [f"{where}/{path}/*"]}
        for action in (_READS + _WRITES if write else _READS)
    ]
    inside = {"StringLike": {"s3:prefix": f"{path}/*"}}
    statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": [where], "Condition": inside})
    if kms_key.startswith("arn:"):
        actions = ("kms:Decrypt", "kms:GenerateDataKey") if write else ("kms:Decrypt",)
        statements += [{"Effect": "Allow", "Action": action, "Resource": [kms_key]} for action in actions]
    return {"Version": "2012-10-17", "Statement": statements}


def _session_name(path: str) -> str:
    """For the store's own audit trail: which table it was made for."""
    return f"arco-{re.sub(r'[^A-Za-z0-9_=,.@-]', '-', path.rpartition('/')[2])}"[:64]


def _parse_answer(data: bytes) -> dict[str, str]:
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        root = None
    found = {} if root is None else {element.tag.rpartition("}")[2]: element.text or "" for element in root.iter()}
    if not all(found.get(name) for name in _FIELDS):
        raise Unavailable("STS made no credentials (its answer has none); check the option sts_endpoint")
    return {name: found[name] for name in _FIELDS}

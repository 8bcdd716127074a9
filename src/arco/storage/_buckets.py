"""From the name of a bucket and options to a `CloudStore`: S3 and what speaks its protocol, Azure, Google Cloud.

Options that are not given come from the variables of the environment that the cloud's own tools use. An option is
checked here; errors name options, never their values.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from arco.core import Invalid
from arco.storage._cloud import Client, CloudStore

__all__ = ["AZURE_OPTIONS", "GCS_OPTIONS", "S3_OPTIONS", "Options", "azure_store", "gcs_store", "s3_store"]

Options = Mapping[str, str | bool]

_CLIENT_OPTIONS = {"allow_http": bool, "timeout": str, "connect_timeout": str}
# For credentials that Iceberg tables hand out (`arco.iceberg`); the store's own client does not get them.
_VENDING_OPTIONS = {
    "hierarchical_namespace",
    "metadata_endpoint",
    "sts_endpoint",
    "vend_external_id",
    "vend_role_arn",
}
S3_OPTIONS: Mapping[str, type] = {
    "access_key_id": str,
    "endpoint": str,
    "region": str,
    "secret_access_key": str,
    "server_side_encryption": str,
    "session_token": str,
    "sse_kms_key_id": str,
    "sts_endpoint": str,
    "vend_external_id": str,
    "vend_role_arn": str,
    "virtual_hosted_style_request": bool,
    **_CLIENT_OPTIONS,
}
AZURE_OPTIONS: Mapping[str, type] = {
    "account_key": str,
    "account_name": str,
    "client_id": str,
    "client_secret": str,
    "endpoint": str,
    "hierarchical_namespace": bool,
    "sas_key": str,
    "tenant_id": str,
    **_CLIENT_OPTIONS,
}
GCS_OPTIONS: Mapping[str, type] = {
    "application_credentials": str,
    "bearer_token": str,
    "endpoint": str,
    "metadata_endpoint": str,
    "service_account": str,
    "service_account_key": str,
    "sts_endpoint": str,
    **_CLIENT_OPTIONS,
}

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_GCS_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_DURATION = re.compile(r"\d{1,6}(ms|s|m)")


def s3_store(bucket: str, prefix: str = "", options: Options | None = None) -> CloudStore:
    """A bucket of S3 or of a server that speaks its protocol."""
    config, client = _configure("s3", S3_OPTIONS, options)
    # One request per delete: not every server has the bulk form, and policies are easier to read.
    config |= {"conditional_put": "etag", "disable_bulk_delete": True}
    _check_place(_BUCKET, bucket)

    def connect(retries: int) -> Client:
        return S3Store(bucket, config=config, client_options=client, retry_config=_retry(retries))

    return CloudStore("s3", bucket, prefix, connect)


def azure_store(container: str, prefix: str = "", options: Options | None = None) -> CloudStore:
    """A container of Azure Blob Storage."""
    config, client = _configure("az", AZURE_OPTIONS, options)
    _check_place(_BUCKET, container)

    def connect(retries: int) -> Client:
        return AzureStore(container, config=config, client_options=client, retry_config=_retry(retries))

    return CloudStore("az", container, prefix, connect)


def gcs_store(bucket: str, prefix: str = "", options: Options | None = None) -> CloudStore:
    """A bucket of Google Cloud Storage. A create asks for generation 0, which an object that exists never has."""
    config, client = _configure("gs", GCS_OPTIONS, options)
    if "endpoint" in config:
        config["base_url"] = config.pop("endpoint")
    _check_place(_GCS_BUCKET, bucket)

    def connect(retries: int) -> Client:
        return GCSStore(bucket, config=config, client_options=client, retry_config=_retry(retries))

    return CloudStore("gs", bucket, prefix, connect)


def _check_place(pattern: re.Pattern[str], name: str) -> None:
    if pattern.fullmatch(name) is None:
        raise Invalid("a bucket or container has 3 to 63 characters of a-z, 0-9, - and .; check the store's URL")


def _configure(scheme: str, known: Mapping[str, type], options: Options | None) -> tuple[Any, Any]:
    """obstore's configuration and its HTTP options, of checked values."""
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
        if name not in _VENDING_OPTIONS:
            (client if name in _CLIENT_OPTIONS else config)[name] = value
    return config, client


def _retry(retries: int) -> Any:
    return {"max_retries": retries, "retry_timeout": timedelta(seconds=30)}

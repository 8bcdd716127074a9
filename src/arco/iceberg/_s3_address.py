"""Where a store on S3, or on a server that speaks its protocol, is: region, endpoint, and how buckets are addressed.

*Path style* is `https://host/bucket/key`, *hosted style* `https://bucket.host/key`. What the options leave out comes
from AWS's variables of the environment, as for the store's own client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from arco.core import Invalid

__all__ = ["S3Address"]

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class S3Address:
    bucket: str
    region: str
    endpoint: str
    """Of a server that is not AWS; else empty."""
    hosted: bool
    """Whether clients are told to put the bucket into the host's name."""

    @classmethod
    def of(cls, bucket: str, options: Mapping[str, str | bool], environ: Mapping[str, str]) -> "S3Address":
        region = options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        endpoint = str(options.get("endpoint") or environ.get("AWS_ENDPOINT_URL") or environ.get("AWS_ENDPOINT") or "")
        hosted = options.get("virtual_hosted_style_request") in (True, "true")
        if endpoint and urlsplit(endpoint).scheme not in _PORTS:
            raise Invalid("the option endpoint is a URL such as https://s3.example.com")
        if endpoint and hosted:  # the store's client wants the bucket in the endpoint; others add it themselves
            endpoint = endpoint.replace(f"://{bucket}.", "://", 1)
        return cls(bucket, str(region), endpoint.rstrip("/"), hosted)

    def client_config(self) -> dict[str, str]:
        """What a client needs to find the store, and no secret."""
        config = {"client.region": self.region}
        if self.endpoint:
            config |= {"s3.endpoint": self.endpoint, "s3.path-style-access": "false" if self.hosted else "true"}
        return config

    def hosts(self) -> dict[tuple[str, str, int], bool]:
        """Scheme, host and port under which the bucket is reached, and whether the host names the bucket."""
        if self.endpoint:
            parts = urlsplit(self.endpoint)
            plain = [(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])]
        else:
            end = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
            names = [f"s3.{self.region}.{end}", f"s3.dualstack.{self.region}.{end}"]
            names += ["s3.amazonaws.com"] if self.region == "us-east-1" else []
            plain = [("https", name, 443) for name in names]
        found = dict.fromkeys(plain, False)
        found |= {(scheme, f"{self.bucket}.{name}", port): True for scheme, name, port in plain}
        return found

    @property
    def sts(self) -> str:
        """Servers that speak S3's protocol and have STS have it at the same address."""
        if self.endpoint:
            return self.endpoint
        return f"https://sts.{self.region}.amazonaws.com{'.cn' if self.region.startswith('cn-') else ''}"

"""`Place`: where Spark finds the objects of a workspace, in the words of Hadoop's file systems.

    file:///data/arco, /data/arco     files below that folder, which every executor must see under the same path
    s3://bucket/prefix                s3a://bucket/prefix; needs the jars of hadoop-aws (`S3_PACKAGES`)

Credentials become settings of the running application and never stand on a command line.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from arco.core import Invalid, shown
from arco.iceberg import S3Address

__all__ = ["S3_PACKAGES", "Place", "place_of"]

S3_PACKAGES: Final = "org.apache.hadoop:hadoop-aws:3.4.2"
"""What `spark.jars.packages` must name for stores on S3; it brings the SDK of AWS. Goes with Hadoop of PySpark 4.1."""

_ENCRYPTIONS: Final = {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
"""Server side, as stores on S3 and as Hadoop name it."""
_GLOBS: Final = "\\{}[]*?"
_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Place:
    base: str
    """What every path of the workspace begins with, without a slash at its end."""
    is_local: bool
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of Hadoop for this store."""

    def file(self, path: str) -> str:
        """A path of the workspace as Spark writes to it, and as Python opens it if it is local."""
        return f"{self.base}/{path}"

    def pattern(self, path: str) -> str:
        """A path of the workspace as Spark reads it: there it is a pattern, so that nothing in it may look like one."""
        return "".join(f"\\{letter}" if letter in _GLOBS else letter for letter in self.file(path))


def place_of(url: str, options: Mapping[str, str], root: str, *, environ: Mapping[str, str] = _EMPTY) -> Place:
    """The place of the workspace `root` in a store. Where S3 is comes from `environ` if the options leave it out, as
    for the store's own client; credentials do not, since Spark looks there by itself."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        folder = os.path.realpath(os.path.expanduser(rest if separator else url))
        return Place(f"{folder}/{root}", is_local=True)
    if scheme == "s3":
        path = rest.strip("/")
        return Place(f"s3a://{path}/{root}", is_local=False, conf=_s3(path.partition("/")[0], options, environ))
    raise Invalid(f"Spark cannot reach a store at {scheme}:// yet; use a folder that all machines see, or s3://")


def _s3(bucket: str, options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    names = {
        "access_key_id": "fs.s3a.access.key",
        "secret_access_key": "fs.s3a.secret.key",
        "session_token": "fs.s3a.session.token",
        "region": "fs.s3a.endpoint.region",
    }
    conf = {names[name]: value for name, value in options.items() if name in names}
    encryption = options.get("server_side_encryption")
    if encryption is not None:
        if encryption not in _ENCRYPTIONS:
            raise Invalid(
                f"Spark cannot write with server_side_encryption={shown(encryption)}; it can with "
                f"{', '.join(_ENCRYPTIONS)}"
            )
        conf["fs.s3a.encryption.algorithm"] = _ENCRYPTIONS[encryption]
        if "sse_kms_key_id" in options and encryption != "AES256":  # S3's own keys have no id, and Hadoop refuses one
            conf["fs.s3a.encryption.key"] = options["sse_kms_key_id"]
    if "session_token" in options:
        conf["fs.s3a.aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if region:
        conf.setdefault("fs.s3a.endpoint.region", region)
    address = S3Address.of(bucket, options, environ)
    if address.endpoint:
        conf["fs.s3a.endpoint"] = address.endpoint
        conf["fs.s3a.path.style.access"] = "false" if address.hosted else "true"
        conf["fs.s3a.connection.ssl.enabled"] = "true" if address.endpoint.startswith("https://") else "false"
    return conf

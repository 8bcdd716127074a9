"""`SparkSettings`: where data work runs and with what, as the worker is told; `Progress`: how far it has come, as the
worker is told in return. Nothing here needs PySpark.

local[*], local[2]                   in the driver's own process, on so many cores (the default: all)
spark://host:7077                    a standalone cluster
yarn, k8s://https://host:6443        what HADOOP_CONF_DIR or the Kubernetes server says
sc://host:15002                      a server of Spark Connect; the driver then needs no Java
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from arco.core import Invalid, shown

__all__ = ["DEFAULT_MASTER", "Progress", "SparkSettings", "address_of", "parse_conf"]

DEFAULT_MASTER: Final = "local[*]"


class SparkSettings(msgspec.Struct, frozen=True):
    master: str = DEFAULT_MASTER
    conf: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"SparkSettings(master={self.master!r}, conf of {len(self.conf)})"

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the task that runs has come."""

    tasks_done: int = 0
    tasks_total: int = 0
    """Of the stages that run now."""
    stage: str = ""
    rows_written: int = 0
    bytes_written: int = 0
    ui: str = ""
    """Address of Spark's own pages about it."""


def address_of(master: str) -> str:
    """A master as it may be told: without parameters, among which is the token of a server of Spark Connect."""
    return master.partition(";")[0].rstrip("/")


def parse_conf(pairs: Iterable[str]) -> dict[str, str]:
    """Settings from `name=value`."""
    conf: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.startswith("spark."):
            raise Invalid(f"{shown(name)} is no setting of Spark; write it as spark.executor.memory=4g")
        if name == "spark.master":
            raise Invalid("spark.master cannot be given as a setting; say where Spark runs with --master")
        conf[name] = value
    return conf

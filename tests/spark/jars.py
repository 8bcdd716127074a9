"""The jars that Spark needs for S3, from Maven's central repository, once for all tests of a checkout.

`hadoop-aws` asks for the whole SDK of AWS in one jar of 600 MB. These are the few parts of it that S3 needs, without
those libraries that Spark brings itself.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from arco.spark._place import S3_PACKAGES
from tests.emulators.servers import missing_component

__all__ = ["s3_jars"]

SDK: Final = "2.29.52"
"""The version that this hadoop-aws was built with."""
PARTS: Final = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
WORK: Final = Path(__file__).parents[2] / ".work"
SECONDS: Final = 600

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>arco</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY: Final = """
    <dependency>
      <groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
      <exclusions>{exclusions}</exclusions>
    </dependency>"""
_EXCLUSION: Final = "<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"
_OF_SPARK: Final = ("io.netty", "org.slf4j", "commons-codec", "org.apache.httpcomponents", "commons-logging")


def s3_jars() -> list[str]:
    """Paths of the jars; the test is skipped, and fails in CI, if they cannot be had."""
    group, name, version = S3_PACKAGES.split(":")
    folder = WORK / f"jars-{version}-{SDK}"
    if not folder.is_dir():
        _fetch(folder, [(group, name, version), *(("software.amazon.awssdk", part, SDK) for part in PARTS)])
    return sorted(str(path) for path in folder.glob("*.jar"))


def _fetch(folder: Path, wanted: list[tuple[str, str, str]]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        missing_component("the jars for S3 are fetched with Maven (mvn), which is not installed")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    texts = []
    for group, name, version in wanted:
        without = ("*",) if group == "org.apache.hadoop" else _OF_SPARK
        exclusions = "".join(_EXCLUSION.format(group=other) for other in without)
        texts.append(_DEPENDENCY.format(group=group, name=name, version=version, exclusions=exclusions))
    (partial / "pom.xml").write_text(_POM.format(dependencies="".join(texts)))
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=."]
    done = subprocess.run(command, cwd=partial, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        missing_component(f"the jars for S3 cannot be fetched: {done.stdout[-500:]}{done.stderr[-500:]}")
    partial.rename(folder)

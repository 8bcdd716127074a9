"""The jars that pom.xml names: fetched with Maven once for a checkout, and compared with `jars.lock`.

`python -m tests.rck.jars` writes the lock again after a change of pom.xml.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.emulators.servers import missing_component

__all__ = ["classpath", "spark_jars"]

HERE: Final = Path(__file__).parent
WORK: Final = HERE.parents[1] / ".work"
POM: Final = HERE / "pom.xml"
LOCK: Final = HERE / "jars.lock"
SECONDS: Final = 900


def classpath(*, s3: bool = False) -> str:
    """Of the kit and the reference server; with what they need for files on S3."""
    folder = _folder()
    found = [str(folder / "kit" / "*")]
    if s3:
        found += [str(path) for path in (folder / "spark").glob("iceberg-aws-bundle-*.jar")]
    return ":".join(found)


def spark_jars() -> list[str]:
    """What a Spark session is given as `spark.jars`."""
    return sorted(str(path) for path in (_folder() / "spark").glob("*.jar"))


def _folder() -> Path:
    """The test is skipped, and fails in CI, if the jars cannot be had."""
    folder = WORK / f"iceberg-{_digest(POM)[:8]}-{_digest(LOCK)[:8]}"
    if not folder.is_dir():
        partial = folder.with_suffix(f".{os.getpid()}")
        _fetch(partial)
        if wrong := sorted(_digests(partial) ^ set(LOCK.read_text().splitlines())):
            raise RuntimeError(f"these jars are not those of {LOCK.name}: {', '.join(wrong[:6])}")
        try:
            partial.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(partial)
    return folder


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        missing_component("the jars of Iceberg are fetched with Maven (mvn), which is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(POM), f"-Djars={folder.absolute()}", "generate-resources"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        missing_component(f"the jars of Iceberg cannot be fetched: {done.stdout[-500:]}{done.stderr[-500:]}")


def _digests(folder: Path) -> set[str]:
    return {f"{_digest(path)}  {path.parent.name}/{path.name}" for path in folder.glob("*/*.jar")}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock() -> None:
    folder = WORK / "iceberg-lock"
    _fetch(folder)
    lines = sorted(_digests(folder), key=lambda line: line.split()[1])
    LOCK.write_text("".join(f"{line}\n" for line in lines))
    shutil.rmtree(folder)


if __name__ == "__main__":
    _lock()

"""Runs the kit, `RESTCompatibilityKitSuite` of Iceberg, against a catalog, and tells what it found.

What is skipped must be in `SKIPPED`, of the reference also in `OF_REFERENCE`, with the reason; a test that is skipped
beyond that counts as failed.
"""

import re
import subprocess
import xml.etree.ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.rck.jars import classpath
from tests.rck.servers import Server

__all__ = ["PLACES", "SKIPPED", "TESTS", "Outcome", "run_kit"]

PACKAGE: Final = "org.apache.iceberg.rest"
SUITE: Final = f"{PACKAGE}.RESTCompatibilityKitSuite"
CLASSES: Final = (f"{PACKAGE}.RESTCompatibilityKitCatalogTests", f"{PACKAGE}.RESTCompatibilityKitViewCatalogTests")
TESTS: Final = 157
"""That the suite of this version has, each run of a test with parameters counted."""
PLACES: Final = ("file:/tmp",)
"""Where the kit puts tables by itself, besides the folder for temporary files that it is given."""
SECONDS: Final = 900

_SLASHES = "the kit never uses names with slashes"
_NESTED = "the kit never uses nested namespaces"
_EMPTY = "the kit never uses the empty namespace"
SKIPPED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "createTableInUniqueLocation": "disabled in the kit: it needs a server configured for this test alone",
        "testTableNameWithSlash": _SLASHES,
        "testNamespaceWithSlash": _SLASHES,
        "testListNestedNamespaces": _NESTED,
        "testDropNamespaceWithNestedNamespace": _NESTED,
        "createAndDropEmptyNamespace": _EMPTY,
        "listNamespacesWithEmptyNamespace": _EMPTY,
        "namespacePropertiesOnEmptyNamespace": _EMPTY,
        "listTablesInEmptyNamespace": _EMPTY,
        "listViewsInEmptyNamespace": _EMPTY,
    }
)
OF_REFERENCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tableCreationWithoutNamespace": "the reference needs no namespace",
        "testTableNameWithDot": "the reference has no names with dots",
        "testNamespaceWithDot": "the reference has no names with dots",
    }
)


@dataclass(frozen=True)
class Outcome:
    passed: list[str]
    failed: dict[str, str]
    """With what was said."""
    skipped: dict[str, str]
    """With the reason."""

    @property
    def total(self) -> int:
        return len(self.passed) + len(self.failed) + len(self.skipped)


def run_kit(server: Server, folder: Path, names: Sequence[str] = ()) -> Outcome:
    """The whole suite, or the tests of these names, which may be patterns. The folder is for reports and temporary
    files; tables are placed in it, so the catalog must allow that."""
    temporary, reports = folder.absolute() / "temporary", folder.absolute() / "reports"
    temporary.mkdir(parents=True, exist_ok=True)
    # The reference's JDBC catalog needs no namespaces by default, and where it does it says so in other words; names
    # with dots it has not.
    is_reference = server.name == "reference"
    # Each property becomes one of the catalog as well, which is why the names without `rck.` are there.
    properties = {
        "rck.local": "false",
        "rck.requires-namespace-create": "" if is_reference else "true",
        "rck.supports-names-with-dot": "" if is_reference else "true",
        "uri": server.uri,
        "warehouse": server.warehouse,
        "rest.auth.type": "none",
        "java.io.tmpdir": str(temporary),
        "org.slf4j.simpleLogger.defaultLogLevel": "error",
    }
    if names:
        chosen = [part for name in CLASSES for part in ("--select-class", name)]
        chosen += ["--include-methodname", f".*#({'|'.join(names)})"]
    else:
        chosen = ["--select-class", SUITE]
    command = ["java", *(f"-D{name}={value}" for name, value in properties.items() if value)]
    command += ["-cp", classpath(), "org.junit.platform.console.ConsoleLauncher", "execute", *chosen]
    command += ["--reports-dir", str(reports), "--details", "none", "--disable-banner", "--disable-ansi-colors"]
    with (folder / "kit.log").open("wb") as log:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=SECONDS, check=False)
    outcome = _read(reports, {**SKIPPED, **(OF_REFERENCE if is_reference else {})})
    if not outcome.total:
        raise RuntimeError(f"the kit ran no test: {(folder / 'kit.log').read_text(errors='replace')[-2_000:]}")
    return outcome


def _read(reports: Path, expected: Mapping[str, str]) -> Outcome:
    passed: list[str] = []
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for report in sorted(reports.glob("TEST-*.xml")):
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            name = _name(case)
            wrong = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
            if wrong is not None:
                failed[name] = (wrong.text or wrong.get("message") or "").strip()
            elif case.find("skipped") is None:
                passed.append(name)
            elif (reason := expected.get(name.partition(" ")[0])) is not None:
                skipped[name] = reason
            else:
                failed[name] = "skipped, which is not expected of it"
    return Outcome(passed, failed, skipped)


def _name(case: xml.etree.ElementTree.Element) -> str:
    """The method, the run of it if it has parameters, and which of the two classes if it is of views."""
    name = re.sub(r"\(.*?\)", "", case.get("name", ""), count=1)
    return f"{name} (views)" if case.get("classname", "").endswith("ViewCatalogTests") else name

"""Paths: which operation a path leads to, and what its names are."""

import pytest

from arco.api.iceberg._paths import Paths
from arco.api.iceberg._routes import ICEBERG_ROUTES

PATHS = Paths((method, path, path) for method, path in ICEBERG_ROUTES)


def test_every_path_leads_to_itself() -> None:
    for method, path in ICEBERG_ROUTES:
        found = PATHS.match(path.strip("/").encode())
        assert found is not None
        assert found.methods[method] == path


@pytest.mark.parametrize(
    ("raw", "name"),
    [(b"a%2Fb", "a/b"), (b"a+b", "a b"), (b"a%2Bb", "a+b"), (b"a%20b", "a b"), (b"%C3%A9", "é"), (b"a%1Fb", "a\x1fb")],
)
def test_a_name_is_decoded_once_and_by_itself(raw: bytes, name: str) -> None:
    found = PATHS.match(b"v1/p/namespaces/" + raw)
    assert found is not None
    assert found.parameters == {"prefix": "p", "namespace": name}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"v1",
        b"v1/",
        b"v1/p",
        b"v1//namespaces",
        b"v1/p/namespaces/",
        b"v1/p/namespaces/a/",
        b"v2/config",
        b"v1/config/x",
    ],
)
def test_other_paths_lead_nowhere(raw: bytes) -> None:
    assert PATHS.match(raw) is None

"""docs/openapi.json: the OpenAPI document of the code, written down so that a change of it is seen and judged.

`python -m tests.api.openapi --check` exits 1 if the code says something else. `--write` writes the document, and
refuses what would break a client of the one that is there; `--force` writes that too.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arco.api import Door, Host, create_app, openapi_document
from arco.runtime import AsyncRuntime
from arco.storage import Scope
from tests.api.compatibility import breaking_changes

__all__ = ["DOCUMENT", "current", "main", "text_of"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"


def current() -> dict[str, Any]:
    """The document of the code. No workspace is needed for it."""
    return openapi_document(create_app(Host(AsyncRuntime(), {}, Scope("acme", "prod"), Door.KEYS)))


def text_of(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str], path: Path = DOCUMENT, now: dict[str, Any] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.api.openapi", description=(__doc__ or "").split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="exit 1 if the code says something else")
    what.add_argument("--write", action="store_true", help="write the document; refuses what breaks a client")
    parser.add_argument("--force", action="store_true", help="with --write: write even what breaks a client")
    chosen = parser.parse_args(arguments)
    text = text_of(now or current())
    stored = path.read_text() if path.exists() else ""
    breaks = breaking_changes(json.loads(stored), json.loads(text)) if stored else []
    for line in breaks:
        print(f"breaks a client: {line}")
    if chosen.check:
        if text != stored:
            print(f"{path.name} is not what the code says; write it with `python -m tests.api.openapi --write`")
        return 1 if text != stored else 0
    if breaks and not chosen.force:
        print("nothing was written: keep the old way working, or --force it if nobody has a client yet")
        return 1
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

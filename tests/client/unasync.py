"""Makes `arco.client._sync` from `arco.client._async`, word by word.

python -m tests.client.unasync --write     after a change of the async client
python -m tests.client.unasync --check     fails if the two differ
"""

import re
import subprocess
import sys
from pathlib import Path

import arco

PACKAGE = Path(arco.__file__).parent / "client"
SOURCE, TARGET = PACKAGE / "_async", PACKAGE / "_sync"

WORDS = {
    "async def": "def",
    "async with": "with",
    "async for": "for",
    "await ": "",
    "AsyncIterator": "Iterator",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncConnection": "Connection",
    "AsyncPages": "Pages",
    "AsyncCalls": "Calls",
    "AsyncRuntime": "ThreadRuntime",
    "__aiter__": "__iter__",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "arco.client._async": "arco.client._sync",
    "from arco.runtime import AsyncRuntime": "from arco.client._blocking import ThreadRuntime",
}
PATTERNS = {
    r'^"""The client for coroutines.*"""$': (
        '"""The client that blocks. Made from `arco.client._async` by `python -m tests.client.unasync`: edit that."""'
    ),
    r"\bAsync(\w+Calls)\b": r"\1",
    r"from arco\.core import Runtime\n": "from arco.client._blocking import BlockingRuntime\n",
    r"from arco\.core import Runtime, new_ulid\n": (
        "from arco.client._blocking import BlockingRuntime\nfrom arco.core import new_ulid\n"
    ),
    r"\bRuntime\b": "BlockingRuntime",
}
# What is only an idiom of coroutines (yielding one by one), and the order of imports that the words have changed.
TIDY = ["check", "--quiet", "--select", "I,UP028", "--fix", "--unsafe-fixes"]
TIDY += ["--config", 'lint.isort.known-first-party=["arco"]']


def blocking(source: str) -> str:
    """The file of the client that blocks, for a file of the one that does not."""
    for old in sorted(WORDS, key=len, reverse=True):
        source = source.replace(old, WORDS[old])
    for pattern, new in PATTERNS.items():
        source = re.sub(pattern, new, source)
    for command in (TIDY, ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET / "x.py"), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return source


def stale() -> dict[Path, str]:
    """The files that are not what the source says, with what they should be; empty text for one too many."""
    wanted = {TARGET / path.name: blocking(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.glob("*.py"))}
    wanted |= dict.fromkeys(sorted(set(TARGET.glob("*.py")) - wanted.keys()), "")
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text}


def main(arguments: list[str]) -> int:
    if arguments not in (["--write"], ["--check"]):
        print(__doc__)
        return 2
    found = stale()
    for path, text in found.items():
        if arguments == ["--check"]:
            print(f"{path.name} is stale: run `python -m tests.client.unasync --write`")
        elif text:
            path.write_text(text, encoding="utf-8")
        else:
            path.unlink()
    return 1 if found and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

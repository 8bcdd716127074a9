"""Carries out the README's walk-throughs in an empty folder and shows what the commands say.

    python examples/walkthrough.py            in a folder that is removed
    python examples/walkthrough.py --keep     the same, and the folder stays for a look around

Commands and files are read from the README itself, so that what it promises is what runs.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def commands() -> list[str]:
    """The lines that begin with `$ arco` in the README's console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ arco")]


def files() -> dict[str, str]:
    """The Python blocks that begin with the name of their file."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    return dict(blocks)


def main() -> int:
    keep = "--keep" in sys.argv[1:]
    folder = tempfile.mkdtemp(prefix="arco-demo-")
    for name, text in files().items():
        Path(folder, name).write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    environment["ARCO_URL"] = "embedded"  # whatever server may run here is somebody else's
    for line in commands():
        print(f"\n\x1b[1m$ {line}\x1b[0m" if sys.stdout.isatty() else f"\n$ {line}", flush=True)
        done = subprocess.run([sys.executable, "-m", "arco.cli", *shlex.split(line)[1:]], cwd=folder, env=environment)
        if done.returncode:
            print(f"this ended with {done.returncode}", file=sys.stderr)
            return done.returncode
    end = f"The workspace is in {folder}/.arco" if keep else "That was a catalog and an orchestrator in one folder."
    print(f"\n{end}")
    if not keep:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

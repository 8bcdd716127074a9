"""`python -m tests.rck [--server arco|reference|URL] [--only NAME]`: the REST Compatibility Kit against a catalog.

It prints how many of its tests passed, what failed and what was skipped, with the reasons; the exit code is 1 if any
failed. `--serve` only starts the catalog and tells its address, until Ctrl-C.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.rck.kit import PLACES, TESTS, Outcome, run_kit
from tests.rck.servers import CHOICE, Server, chosen_server, running

LINES = 6


def show(outcome: Outcome, server: Server, seconds: float, whole: bool) -> bool:
    """Print it; whether all is well."""
    for name, reason in sorted(outcome.skipped.items()):
        print(f"  skipped {name}: {reason}")
    for name, text in sorted(outcome.failed.items()):
        first, *rest = text.splitlines() or [""]
        print(f"  FAILED  {name}: {first}")
        for line in rest[: LINES - 1]:
            print(f"          {line.strip()}")
    counted = f"{len(outcome.passed)} passed, {len(outcome.failed)} failed, {len(outcome.skipped)} skipped"
    print(f"REST Compatibility Kit against {server.name} at {server.uri}: {counted} in {seconds:.0f} s")
    if whole and outcome.total != TESTS:
        print(f"  FAILED  the suite has {TESTS} tests, of which {outcome.total} were run")
        return False
    return not outcome.failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rck", description=__doc__)
    parser.add_argument("--server", default=os.environ.get(CHOICE, "arco"), help="arco, reference, or a URL")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a test, or a pattern; repeatable")
    parser.add_argument("--serve", action="store_true", help="start the catalog and run nothing")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the store, logs and reports")
    options = parser.parse_args()
    os.environ[CHOICE] = options.server
    folder = Path(tempfile.mkdtemp(prefix="arco-rck-"))
    try:
        places = (*PLACES, f"file:{folder}/kit/temporary")
        with running(chosen_server(folder / "server", allowed=places)) as server:
            if options.serve:
                return serve(server, folder)
            started = time.monotonic()
            outcome = run_kit(server, folder / "kit", options.only)
            well = show(outcome, server, time.monotonic() - started, not options.only)
        return 0 if well else 1
    finally:
        if options.keep:
            print(f"everything is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def serve(server: Server, folder: Path) -> int:
    print(f"{server.name} serves at {server.uri}, warehouse {server.warehouse!r}, store in {folder}; Ctrl-C ends it")
    try:
        while True:
            time.sleep(3_600)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
